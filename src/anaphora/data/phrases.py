"""Words that belong together, found by counting and joined into one: new york → new_york (Mikolov et al. 2013).

Two words are a phrase if they stand side by side much more often than they would by chance. With N words in the text,

    mikolov   (count(ab) - δ) · N / (count(a) · count(b))                  δ takes pairs out that came a few times only
    npmi      log(p(ab) / (p(a) p(b))) / -log p(ab),  p = count / N        between -1 and 1 (Bouma 2009)

and all pairs above a threshold are joined, in each line from left to right. Another pass does the same with the text
that this gives, so new_york times becomes new_york_times. *Connectors* ("of", "the") may stand inside a phrase but not
at its ends: bank_of_america, where the pair that is counted is bank … america with just that between them.

The phrases are kept as a table (phrases.tsv): pass, words, count, score. Joined in that order, they make the same of
any other text. The glue is the one of the C program (word2phrase), whose score, N included, is `mikolov`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anaphora.data.data_settings import THRESHOLDS, DataConfig
from anaphora.data.phrase_pairs import APART, MOST_BETWEEN, MOST_CONNECTORS, Pairs, count_pairs, join_pairs
from anaphora.data.word_ids import WordIds
from anaphora.errors import UserError
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_text
from anaphora.folder import write_text
from anaphora.tokenizers.tokenizer import SPECIALS

GLUE = "_"
PHRASES = "phrases.tsv"
"""The name of the table, in a run's folder."""
COLUMN_NAMES = ("pass", "words", "count", "score")
COUNTED_AT_ONCE = 1 << 22  # ids

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Progress = Callable[[str, int, int | None], None]  # (stage, done, total if known)


@dataclass(frozen=True)
class Phrase:
    """Words that are one from now on."""

    step: int
    """The pass that found it, from 1."""
    words: tuple[str, ...]
    """As they stood in the text of that pass: a word of it may be a phrase of an earlier one."""
    count: int
    score: float

    @property
    def name(self) -> str:
        return GLUE.join(self.words)


@dataclass
class Joined:
    """What became of a text."""

    counts: I64
    """How often each id comes now."""
    phrases: list[Phrase] = field(default_factory=list)
    """In the order in which they are joined."""
    places: int = 0
    """How many words the text has less."""


def score_pairs(how: str, pairs: I64, first: I64, second: I64, *, words: int, discount: int) -> F64:
    """How much more often than by chance: counts of pairs and of their two words, of a text of so many words."""
    if how == "mikolov":
        return (pairs - discount) / first / second * words
    together = pairs / words
    return np.log(together / ((first / words) * (second / words))) / -np.log(together)


def find_phrases(path: Path, words: WordIds, counts: I64, data: DataConfig, *, bar: str, progress: Progress) -> Joined:
    """Join the phrases of a file of ids in that file: first those of `data.phrases_from`, then those that are found.

    counts: of each id; words: may grow by the phrases. bar: the word that stands for unknown ones, part of no phrase.
    """
    if not counts.sum():
        return Joined(counts)  # of an empty text there is nothing to map
    text = _Text(path, words, counts, None if not bar else words.number(bar), progress)
    given = read_phrases(data.phrases_from) if data.phrases_from else []
    for _, some in groupby(given, key=lambda phrase: phrase.step):
        text.join_known(list(some))
    before = given[-1].step if given else 0
    threshold = THRESHOLDS[data.phrase_score] if data.phrase_threshold is None else data.phrase_threshold
    for step in range(before + 1, before + data.phrases + 1):
        found = text.find(step, data.phrase_score, threshold, data.phrase_minimum_count, data.phrase_connectors)
        if not found:
            break
    return text.joined


class _Text:
    """A file of ids whose phrases are being joined."""

    def __init__(self, path: Path, words: WordIds, counts: I64, bar: int | None, progress: Progress) -> None:
        self.path, self.words, self.bar, self.progress = path, words, bar, progress
        self.joined = Joined(counts)

    def find(self, step: int, how: str, threshold: float, least: int, connectors: Sequence[str]) -> int:
        """One pass: count, choose, join. How many phrases it found."""
        counts, ids = self.joined.counts, np.memmap(self.path, np.uint32, "r")
        roles = np.where(counts >= least, 0, APART).astype(np.int16)
        between = [number for number in map(self._id, connectors) if number is not None]
        roles[np.array(between, np.int64)] = np.arange(1, len(between) + 1)
        roles[: len(SPECIALS)] = APART
        if self.bar is not None:
            roles[len(SPECIALS) + self.bar] = APART
        said = f"looking for phrases, pass {step}"
        pairs = count_pairs(ids, roles, least, progress=lambda done, of: self.progress(said, done, of))
        total = int(counts[len(SPECIALS) :].sum())
        numbers = counts[pairs.first], counts[pairs.second]
        scores = score_pairs(how, pairs.times, *numbers, words=total, discount=least)
        chosen = np.flatnonzero(scores > threshold)
        chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
        found = []
        for place in chosen:
            middle = [between[code - 1] for code in _bytes(int(pairs.middle[place]))]
            whole = (int(pairs.first[place]), *middle, int(pairs.second[place]))
            spelled = tuple(self.words.word(id - len(SPECIALS)) for id in whole)
            found.append(Phrase(step, spelled, int(pairs.times[place]), float(scores[place])))
        del ids
        if found:
            self._join(found, Pairs(*(column[chosen] for column in pairs)), roles)
        return len(found)

    def join_known(self, phrases: list[Phrase]) -> None:
        """One pass of a table: those of its phrases whose words are in this text."""
        between: dict[int, int] = {}
        rows, some = [], []
        for phrase in phrases:
            ids = [id for word in phrase.words if (id := self._id(word)) is not None]
            if len(ids) < len(phrase.words):
                continue
            middle = 0
            for id in ids[1:-1]:
                middle = middle << 8 | between.setdefault(id, len(between) + 1)
            rows.append((ids[0], ids[-1], middle, phrase.count))
            some.append(phrase)
        if not rows:
            return
        if len(between) > MOST_CONNECTORS:
            raise UserError(f"more than {MOST_CONNECTORS} words stand inside phrases", cure="give fewer phrases")
        pairs = Pairs(*np.array(rows, np.int64).T)
        roles = np.full(len(self.joined.counts), APART, np.int16)
        roles[pairs.first] = roles[pairs.second] = 0
        for id, code in between.items():
            roles[id] = code
        self._join(some, pairs, roles)

    def _join(self, phrases: list[Phrase], pairs: Pairs, roles: NDArray[np.int16]) -> None:
        fresh = dict.fromkeys(phrase.name for phrase in phrases if self._id(phrase.name) is None)
        self.words.learn(fresh)
        places = {name: number for number, name in enumerate(fresh, start=len(self.joined.counts))}
        numbers = [places.get(phrase.name) or self._id(phrase.name) for phrase in phrases]
        ids = np.memmap(self.path, np.uint32, "r+")
        size = len(ids)
        left = join_pairs(
            ids,
            roles,
            pairs,
            np.array(numbers, np.int64),
            progress=lambda done, of: self.progress("joining phrases", done, of),
        )
        counts = np.zeros(len(self.joined.counts) + len(fresh), np.int64)
        for begin in range(0, left, COUNTED_AT_ONCE):
            counts += np.bincount(ids[begin : min(begin + COUNTED_AT_ONCE, left)], minlength=len(counts))
        ids.flush()
        del ids
        with self.path.open("r+b") as file:
            file.truncate(4 * left)
        joined = self.joined
        joined.counts, joined.places = counts, joined.places + size - left
        joined.phrases += phrases

    def _id(self, word: str) -> int | None:
        number = self.words.number(word)
        return None if number is None else len(SPECIALS) + number


def _bytes(middle: int) -> list[int]:
    return [byte for byte in middle.to_bytes(MOST_BETWEEN, "big") if byte]


# -- the table ---------------------------------------------------------------------------------------------------------


def write_phrases(path: Path, phrases: Sequence[Phrase]) -> None:
    """The table, a phrase a line, in the order in which they are joined."""
    rows = (f"{one.step}\t{' '.join(one.words)}\t{one.count}\t{one.score:.9g}" for one in phrases)
    write_text(path, "\n".join(["\t".join(COLUMN_NAMES), *rows, ""]))


def read_phrases(path: str | Path) -> list[Phrase]:
    """What `write_phrases` wrote, or what somebody wrote in that form."""
    path = Path(path)
    try:
        lines = read_text(path, MAX_LARGE_FILE_BYTES).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        what = "there is no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        raise UserError(what, file=path, cure=f"give the {PHRASES} of a run") from None
    if tuple(lines[0].split("\t")) != COLUMN_NAMES:
        cure = f"give the {PHRASES} of a run: tabs between {', '.join(COLUMN_NAMES)}"
        raise UserError("is not a table of phrases", file=path, line=1, cure=cure)
    found: list[Phrase] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        try:
            step, words, count, score = line.split("\t")
            phrase = Phrase(int(step), tuple(words.split(" ")), int(count), float(score))
            sound = 2 <= len(phrase.words) <= 2 + MOST_BETWEEN and all(word.split() == [word] for word in phrase.words)
            sound = sound and math.isfinite(phrase.score) and phrase.step >= (found[-1].step if found else 1)
        except ValueError:
            sound = False
        if not sound:
            cure = "write the pass (rising), two words or more with blanks between them, their count and their score"
            raise UserError(f"is not a phrase: {line!r}", file=path, line=number, cure=cure)
        found.append(phrase)
    return found


def phrase_settings(data: DataConfig) -> dict[str, object] | None:
    """All that decides which phrases are joined, but for the text itself; nothing if none are."""
    if not data.phrases and not data.phrases_from:
        return None
    chosen: dict[str, object] = {"passes": data.phrases}
    if data.phrases:
        names = ("phrase_score", "phrase_threshold", "phrase_minimum_count", "phrase_connectors")
        chosen |= {name: getattr(data, name) for name in names}
    if data.phrases_from:  # its content counts, not its name
        rows = [(one.step, one.words) for one in read_phrases(data.phrases_from)]
        chosen["given"] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return chosen
