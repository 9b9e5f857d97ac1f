"""How good is one sentence? GLEU, BLEU and chrF of single translations, thousands of them in milliseconds.

Corpus BLEU is a property of a test set. Whoever trains towards good translations needs a number for each sentence, a
*reward*, and needs it for every translation that is tried out. All three compare n-grams with those of a reference:

    gleu   min(precision, recall) of all word 1- to 4-grams together (Wu et al. 2016, made for single sentences)
    bleu   sacreBLEU's sentence BLEU: brevity times the geometric mean of four precisions; where one of them is zero it
           counts as 1/2, 1/4, … of a single match, and orders that a short sentence cannot have are left out
    chrf   sacreBLEU's sentence chrF2: F-score, recall weighing double, of character 1- to 6-grams without blanks

Text is compared, not token ids: words are those of sacreBLEU's 13a tokenizer, so that a reward means what is measured
in the end, does not depend on the subwords of the model, and holds when subwords are cut anew at every visit.

Counting is one compiled loop for all of them. An n-gram is known by a 64-bit number made of its symbols, and sorted
lists of such numbers are compared by merging; that two n-grams of a sentence share a number is a matter of 10^-15.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""(..., order, 3): for each pair and length of n-gram, how many the hypothesis has, how many the reference has, and how
many of the first are found in the second."""


def sentence_gleu(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
    """GLEU of each hypothesis with its reference, 0 to 1: (N,)."""
    return gleu_of(_overlaps(words_of(hypotheses, references), 4))


def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
    """Smoothed BLEU of each hypothesis with its reference, 0 to 1: (N,)."""
    return bleu_of(_overlaps(words_of(hypotheses, references), 4))


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
    """chrF2 of each hypothesis with its reference, 0 to 1: (N,)."""
    return chrf_of(_overlaps(characters_of(hypotheses, references), 6))


def gleu_of(counts: Counts) -> NDArray[np.float64]:
    """From counts of n-grams, (..., order, 3) -> (...)."""
    said, wanted, found = np.moveaxis(counts.sum(axis=-2), -1, 0)  # all lengths together
    return found / np.maximum(np.maximum(said, wanted), 1)


def bleu_of(counts: Counts) -> NDArray[np.float64]:
    """From counts of n-grams, (..., 4, 3) -> (...)."""
    said, wanted, found = (counts[..., column] for column in range(3))  # (..., 4) each
    there = said > 0
    halves = np.cumsum(there & (found == 0), axis=-1)  # the first n-gram length without a match counts ½, the next ¼ …
    hits = np.where(found > 0, found, 0.5**halves)
    logs = np.where(there, np.log(hits / np.maximum(said, 1)), 0.0).sum(axis=-1) / np.maximum(there.sum(axis=-1), 1)
    brevity = np.minimum(0.0, 1 - wanted[..., 0] / np.maximum(said[..., 0], 1))
    return np.where(found.any(axis=-1), np.exp(logs + brevity), 0.0)


def chrf_of(counts: Counts) -> NDArray[np.float64]:
    """From counts of n-grams, (..., 6, 3) -> (...)."""
    said, wanted, found = (counts[..., column] for column in range(3))  # (..., 6) each
    there = (said > 0) & (wanted > 0)
    orders = np.maximum(there.sum(axis=-1), 1)
    precision, recall = (np.where(there, found / np.maximum(of, 1), 0.0).sum(axis=-1) / orders for of in (said, wanted))
    return 5 * precision * recall / np.maximum(4 * precision + recall, 1e-300)


REWARDS: dict[str, Callable[[Sequence[str], Sequence[str]], NDArray[np.float64]]] = {
    "gleu": sentence_gleu,
    "bleu": sentence_bleu,
    "chrf": sentence_chrf,
}
"""By the names that training.reward has."""


def words_of(*texts: Sequence[str]) -> list[tuple[Counts, Counts]]:
    """Texts as numbers of words, end to end, and where each begins; a word has the same number in all of them."""
    numbers, known = dict[str, int](), dict[str, list[int]]()
    for text in dict.fromkeys(text for some in texts for text in some):  # samples often say the same
        words = (word for chunk in text.replace("-\n", "").split() for word in _cut(chunk))
        known[text] = [numbers.setdefault(word, len(numbers)) for word in words]
    return [_end_to_end([np.array(known[text], dtype=np.int64) for text in some]) for some in texts]


@lru_cache(maxsize=1 << 16)
def _cut(chunk: str) -> tuple[str, ...]:
    """sacreBLEU's 13a looks no further than to the next character, so what stands between blanks can be cut alone."""
    return tuple(_tokenizer()(chunk).split())


@cache
def _tokenizer() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return Tokenizer13a()


def characters_of(*texts: Sequence[str]) -> list[tuple[Counts, Counts]]:
    """Texts as the numbers of their characters, without blanks."""
    return [
        _end_to_end([np.frombuffer("".join(text.split()).encode("utf-32-le", "replace"), dtype="<u4") for text in some])
        for some in texts
    ]


def _end_to_end(rows: Sequence[NDArray[np.generic]]) -> tuple[Counts, Counts]:
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    return np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64), starts


def _overlaps(both: list[tuple[Counts, Counts]], order: int) -> Counts:
    """Of hypotheses and references, each as symbols end to end and where each begins."""
    said, wanted = both
    if len(said[1]) != len(wanted[1]):
        raise ValueError(f"{len(said[1]) - 1} hypotheses for {len(wanted[1]) - 1} references")
    counts: Counts = _count(*said, *wanted, order)
    return counts


@njit(nogil=True, cache=True)
def _count(said: Counts, said_starts: Counts, wanted: Counts, wanted_starts: Counts, order: int) -> Counts:
    pairs = len(said_starts) - 1
    counts = np.zeros((pairs, order, 3), dtype=np.int64)
    for pair in range(pairs):
        mine = said[said_starts[pair] : said_starts[pair + 1]]
        theirs = wanted[wanted_starts[pair] : wanted_starts[pair + 1]]
        # the numbers of the n-grams that begin at each place, longer by one symbol in every round
        here, there = np.zeros(len(mine), dtype=np.uint64), np.zeros(len(theirs), dtype=np.uint64)
        for n in range(order):
            many, wants = max(len(mine) - n, 0), max(len(theirs) - n, 0)
            counts[pair, n, 0], counts[pair, n, 1] = many, wants
            if many == 0 or wants == 0:
                continue
            longer(here, mine, n)
            longer(there, theirs, n)
            counts[pair, n, 2] = _common(np.sort(here[:many]), np.sort(there[:wants]))
    return counts


@njit(nogil=True, cache=True)
def longer(numbers: NDArray[np.uint64], symbols: Counts, n: int) -> None:
    """Each n-gram's number and the next symbol make the number of the longer one: SplitMix64's finalizer mixes them."""
    for place in range(len(symbols) - n):
        x = (numbers[place] ^ np.uint64(symbols[place + n] + 1)) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        numbers[place] = x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def _common(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> int:
    """How many numbers two sorted lists share, each as often as both have it."""
    i = j = shared = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            i, j, shared = i + 1, j + 1, shared + 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return shared
