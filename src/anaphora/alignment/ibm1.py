"""IBM Model 1: which word translates which, learned from sentence pairs alone (Brown et al. 1993).

Each target word f of a pair is thought to come from one word e of the source sentence, or from NULL, all of them
equally likely beforehand, with a probability t(f | e) that only depends on the two words:

    P(f | source) = 1 / (S + 1) · Σ_e t(f | e)        e over the S source words and NULL

Expectation maximization finds t: guess who came from whom with the present t (posteriors), count, divide, repeat. The
likelihood has a single hill, so the start does not matter and the result is the same every time.

The table holds only words that met in a pair, in rows of one source word, sorted by target word (compressed sparse
rows). A round goes through it row by row: one row is spread out into a dense array, small enough for the cache, and all
sentences with that source word are visited. So memory is the text plus the table, never all cells of all pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numba import njit

NULL = 0  # the source word that every sentence has
UNKNOWN = -1
BACKGROUND = 0.05  # share of the target's own word frequencies mixed in for scores: no word is impossible


class Sentences(NamedTuple):
    """Lines of words as numbers, laid end to end."""

    ids: np.ndarray
    """(words,) int32; UNKNOWN where the model never saw the word."""
    starts: np.ndarray
    """(lines + 1,) int64: where each line begins."""


class IBM1:
    """t(f | e) for all word pairs that met. `IBM1.fit(source, target)` learns it; lines are sequences of words."""

    def __init__(
        self, source_words: dict[str, int], target_words: dict[str, int], table: tuple[np.ndarray, ...]
    ) -> None:
        self.source_words = source_words
        self.target_words = target_words
        self.rows, self.columns, self.values, self.frequencies = table

    @classmethod
    def fit(cls, source: Sequence[Sequence[str]], target: Sequence[Sequence[str]], *, iterations: int = 5) -> IBM1:
        """Learn from pairs, source line i with target line i, by this many rounds of EM."""
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source lines but {len(target)} target lines")
        source_words = _vocabulary(source, first=1)  # 0 is NULL
        target_words = _vocabulary(target, first=0)
        from_, into = _encode(source, source_words), _encode(target, target_words)
        visits, lines = _occurrences(from_.ids, from_.starts, len(source_words) + 1)
        rows, columns = _meetings(visits, lines, into.ids, into.starts, len(target_words))
        values = np.ones(len(columns), np.float32)  # uniform; the first round only counts meetings
        for _ in range(iterations):
            values = _round(visits, lines, into.ids, into.starts, rows, columns, values, len(target_words))
        seen = np.bincount(into.ids, minlength=len(target_words) + 1)  # the last one is the word never seen
        frequencies = (seen + 1) / (seen + 1).sum()
        return cls(source_words, target_words, (rows, columns, values, frequencies))

    # -- one pair ------------------------------------------------------------------------------------------------------

    def posteriors(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """(T, S): the probability that target word j came from source word i; what a row lacks to 1 came from NULL.

        A target word never seen in training, or never with any of these source words, is NULL's.
        """
        e = np.array([self.source_words.get(word, UNKNOWN) for word in source], np.int32)
        f = np.array([self.target_words.get(word, UNKNOWN) for word in target], np.int32)
        return _posteriors(e, f, self.rows, self.columns, self.values)

    def align(self, source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
        """(source index, target index): the best source word of each target word, the first of equals; none where NULL
        is better."""
        posteriors = self.posteriors(source, target)  # (T, S)
        if not posteriors.size:
            return []
        best, null = posteriors.argmax(axis=1), 1 - posteriors.sum(axis=1)
        return [(int(i), j) for j, i in enumerate(best) if posteriors[j, i] > 0 and posteriors[j, i] >= null[j]]

    def probability(self, source: str | None, target: str) -> float:
        """t(target | source); the source None is NULL."""
        e = NULL if source is None else self.source_words.get(source, UNKNOWN)
        f = self.target_words.get(target, UNKNOWN)
        return 0.0 if UNKNOWN in (e, f) else float(_look_up(self.rows, self.columns, self.values, e, f))

    # -- many pairs ----------------------------------------------------------------------------------------------------

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> np.ndarray:
        """(N,): the mean log P of each pair's target words, smoothed with their frequencies; 0 for an empty target."""
        from_, into = self.encode(sources, targets)
        index = np.arange(len(sources))
        return self.score_encoded(from_, into, index, index)

    def encode(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> tuple[Sentences, Sentences]:
        """Lines as numbers, for `score_encoded`."""
        return _encode(sources, self.source_words), _encode(targets, self.target_words)

    def score_encoded(
        self, source: Sentences, target: Sentences, of: np.ndarray, against: np.ndarray, *, relative: bool = False
    ) -> np.ndarray:
        """(n,): as `score`, for source line of[i] with target line against[i], in any combination.

        relative: minus what the target words are worth without any source (log frequencies): 0 says that the source
        tells nothing about the target, and pairs of common and of rare words can be compared.
        """
        table = self.rows, self.columns, self.values, self.frequencies
        return _scores(source.ids, source.starts, target.ids, target.starts, of, against, *table, BACKGROUND, relative)


def _vocabulary(lines: Iterable[Sequence[str]], first: int) -> dict[str, int]:
    return {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(lines)), start=first)}


def _encode(lines: Sequence[Sequence[str]], words: dict[str, int]) -> Sentences:
    starts = np.zeros(len(lines) + 1, np.int64)
    np.cumsum([len(line) for line in lines], out=starts[1:])
    known = (words.get(word, UNKNOWN) for word in chain.from_iterable(lines))
    return Sentences(np.fromiter(known, np.int32, count=int(starts[-1])), starts)


# -- the hot loops -----------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _occurrences(ids, starts, words):
    """The lines in which each source word stands, once for every time it does; NULL stands once in every line."""
    lines = len(starts) - 1
    visits = np.zeros(words + 1, np.int64)
    visits[1] = lines
    for id in ids:
        visits[id + 1] += 1
    visits = np.cumsum(visits)
    where = np.empty(len(ids) + lines, np.int32)
    at = visits.copy()
    for line in range(lines):
        where[line] = line
        for place in range(starts[line], starts[line + 1]):
            where[at[ids[place]]] = line
            at[ids[place]] += 1
    return visits, where


@njit(nogil=True, cache=True)
def _meetings(visits, lines, ids, starts, words):
    """The sparse frame of the table: rows (source words + 1,), and columns: the target words each has met, sorted."""
    rows = np.zeros(len(visits), np.int64)
    met = np.full(words, -1, np.int32)  # the last source word this target word was counted for
    for e in range(len(visits) - 1):
        count = 0
        for visit in range(visits[e], visits[e + 1]):
            for place in range(starts[lines[visit]], starts[lines[visit] + 1]):
                if met[ids[place]] != e:
                    met[ids[place]] = e
                    count += 1
        rows[e + 1] = rows[e] + count
    columns = np.empty(rows[-1], np.int32)
    met[:] = -1
    for e in range(len(visits) - 1):
        at = rows[e]
        for visit in range(visits[e], visits[e + 1]):
            for place in range(starts[lines[visit]], starts[lines[visit] + 1]):
                if met[ids[place]] != e:
                    met[ids[place]] = e
                    columns[at] = ids[place]
                    at += 1
        columns[rows[e] : at] = np.sort(columns[rows[e] : at])
    return rows, columns


@njit(nogil=True, cache=True)
def _round(visits, lines, ids, starts, rows, columns, values, words):
    """One round of EM: the new table."""
    total = np.zeros(len(ids), np.float64)  # Σ_e t(f | e) of each target word in the text
    dense = np.zeros(words, np.float64)  # the row of one source word, spread out
    for e in range(len(visits) - 1):
        for at in range(rows[e], rows[e + 1]):
            dense[columns[at]] = values[at]
        for visit in range(visits[e], visits[e + 1]):
            for place in range(starts[lines[visit]], starts[lines[visit] + 1]):
                total[place] += dense[ids[place]]
    new = np.empty_like(values)
    counts = np.zeros(words, np.float64)
    for e in range(len(visits) - 1):
        for at in range(rows[e], rows[e + 1]):
            dense[columns[at]] = values[at]
            counts[columns[at]] = 0.0
        for visit in range(visits[e], visits[e + 1]):
            for place in range(starts[lines[visit]], starts[lines[visit] + 1]):
                if total[place] > 0.0:  # a probability may fall below what a float32 holds
                    counts[ids[place]] += dense[ids[place]] / total[place]
        whole = 0.0
        for at in range(rows[e], rows[e + 1]):
            whole += counts[columns[at]]
        for at in range(rows[e], rows[e + 1]):
            new[at] = counts[columns[at]] / whole if whole > 0.0 else 0.0
    return new


@njit(nogil=True, cache=True)
def _look_up(rows, columns, values, e, f):
    low, high = rows[e], rows[e + 1]
    while low < high:
        middle = (low + high) >> 1
        if columns[middle] < f:
            low = middle + 1
        else:
            high = middle
    return values[low] if low < rows[e + 1] and columns[low] == f else np.float32(0.0)


@njit(nogil=True, cache=True)
def _posteriors(source, target, rows, columns, values):
    result = np.zeros((len(target), len(source)), np.float64)
    for j in range(len(target)):
        if target[j] < 0:
            continue
        whole = np.float64(_look_up(rows, columns, values, 0, target[j]))
        for i in range(len(source)):
            if source[i] >= 0:
                result[j, i] = _look_up(rows, columns, values, source[i], target[j])
                whole += result[j, i]
        for i in range(len(source)):
            result[j, i] = result[j, i] / whole if whole > 0.0 else 0.0
    return result


@njit(nogil=True, cache=True)
def _scores(
    source, source_starts, target, target_starts, of, against, rows, columns, values, frequencies, mixed, relative
):
    result = np.zeros(len(of), np.float64)
    for n in range(len(of)):
        begin, end = source_starts[of[n]], source_starts[of[n] + 1]
        first, last = target_starts[against[n]], target_starts[against[n] + 1]
        for place in range(first, last):
            f = target[place]
            frequency = frequencies[f] if f >= 0 else frequencies[len(frequencies) - 1]
            chance = 0.0
            if f >= 0:
                chance = np.float64(_look_up(rows, columns, values, 0, f))
                for i in range(begin, end):
                    if source[i] >= 0:
                        chance += _look_up(rows, columns, values, source[i], f)
            likely = (1.0 - mixed) * chance / (end - begin + 1) + mixed * frequency
            result[n] += np.log(likely / frequency) if relative else np.log(likely)
        if last > first:
            result[n] /= last - first
    return result
