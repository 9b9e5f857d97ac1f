"""How good word vectors are: do they find near what people find near, and do they complete analogies?

Similarity (WordSim-353, SimLex-999): people gave pairs of words a number; Spearman's rank correlation with the cosines
says whether the vectors order the pairs alike. Analogies (Google's questions-words): a is to b as c is to d; the word
nearest to b - a + c, other than these three, should be d. Both by gensim's conventions: only the first `restrict_vocab`
words take part, upper and lower case are one, and what has a word without a vector is left out, and counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.files.foreign import read_bytes, unpack
from anaphora.results import brief, count, figure, html_table

F32 = NDArray[np.float32]
MOST_FREQUENT = 300_000
"""Words that take part, as gensim has it."""
BATCH_QUESTIONS, MAX_COSINES = 512, 1 << 25
"""Analogies that are answered at once, and cosines of theirs with all words, at most."""


@dataclass(frozen=True)
class SimilarityScore:
    """How the cosines of pairs compare with people's numbers."""

    spearman: float
    """The rank correlation, -1 to 1."""
    pairs: int
    """That were compared."""
    unknown: int
    """Left out: a word has no vector."""

    def __repr__(self) -> str:
        found = f"Spearman {figure(self.spearman, '.4f')}", count(self.pairs, "pair")
        return brief("SimilarityScore", None, *found, f"{self.unknown:,} left out")


@dataclass(frozen=True)
class AnalogyScore:
    """How many analogies were completed."""

    correct: int
    """Questions answered with the right word."""
    questions: int
    """That were asked."""
    unknown: int
    """Left out: a word has no vector."""
    sections: dict[str, tuple[int, int]]
    """Correct ones and questions of each."""

    def __repr__(self) -> str:
        of = f"{self.correct:,} of {self.questions:,} correct ({self.accuracy:.1%})"
        return brief("AnalogyScore", None, of, f"{self.unknown:,} left out", count(len(self.sections), "section"))

    def _repr_html_(self) -> str:
        rows = [(name, f"{right:,}", f"{asked:,}") for name, (right, asked) in self.sections.items()]
        return html_table(
            ("section", "correct", "questions"), [*rows, ("all", f"{self.correct:,}", f"{self.questions:,}")]
        )

    @property
    def accuracy(self) -> float:
        """Of the questions that were asked, 0 to 1."""
        return self.correct / self.questions if self.questions else 0.0


def ranks(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each value in order, from 1; equal values share the mean of their places."""
    _, inverse, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of the ranks; not a number where one side is all the same."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values beside {len(second)}")
    if not len(first):
        return float("nan")
    a, b = ranks(first), ranks(second)
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / spread if spread else float("nan")


def read_similarities(path: str | PathLike[str]) -> list[tuple[str, str, float]]:
    """Two words and a number a line, parted by tabs, blanks or commas; # begins a remark."""
    pairs, before = [], 0
    for number, line in _lines(path):
        if line.startswith("#"):
            continue
        parts = line.split("\t") if "\t" in line else line.split()
        if len(parts) != 3 and line.count(",") == 2:  # as WordSim-353 comes
            parts = line.split(",")
        before += 1
        try:
            first, second, score = (part.strip() for part in parts)
            pairs.append((first, second, float(score)))
        except ValueError:
            if before == 1 and len(parts) == 3:  # what the columns are
                continue
            raise UserError(
                f"{line[:60]!r} is not two words and a number",
                file=path,
                line=number,
                cure="correct or delete that line",
            ) from None
    if not pairs:
        raise UserError("holds no pairs of words", file=path, cure="give lines of two words and a number")
    return pairs


def read_analogies(path: str | PathLike[str]) -> dict[str, list[tuple[str, str, str, str]]]:
    """Four words a line: a is to b as c is to d. A line `: name` begins a section."""
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    name = ""
    for number, line in _lines(path):
        if line.startswith(": "):
            name = line[2:].strip()
            sections.setdefault(name, [])
            continue
        words = line.split()
        if len(words) != 4:
            raise UserError(
                f"has {count(len(words), 'word')} where an analogy needs 4",
                file=path,
                line=number,
                cure="write a b c d (a is to b as c is to d), or `: name` before a section",
            )
        sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not any(sections.values()):
        raise UserError("holds no analogies", file=path, cure="give lines of four words")
    return sections


def _lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    path = Path(path)
    if not path.exists():
        raise UserError("there is no such file", file=path, cure="give a file of words")
    try:
        content = unpack(path) if path.suffix == ".gz" else read_bytes(path, pipes=True)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot be read ({error})", file=path, cure="give a file of words") from None
    for number, raw in enumerate(content.split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise UserError("is not UTF-8 text", file=path, line=number, cure="convert the file") from None
        if line:
            yield number, line


def index_of(words: Sequence[str], restrict_vocab: int | None, case_insensitive: bool) -> dict[str, int]:
    """Words and their rows; of words that differ in case only, the first."""
    index: dict[str, int] = {}
    for row, word in enumerate(words[:restrict_vocab]):
        index.setdefault(word.upper() if case_insensitive else word, row)
    return index


def evaluate_similarity(
    words: Sequence[str],
    units: F32,
    pairs: Sequence[tuple[str, str, float]],
    *,
    restrict_vocab: int | None = MOST_FREQUENT,
    case_insensitive: bool = True,
) -> SimilarityScore:
    """Spearman's correlation over pairs; `units` (V, D) are the words' vectors, each as long as one."""
    index = index_of(words, restrict_vocab, case_insensitive)
    gold, said = [], []
    for first, second, score in pairs:
        if case_insensitive:
            first, second = first.upper(), second.upper()
        if first in index and second in index:
            gold.append(score)
            said.append(float(units[index[first]] @ units[index[second]]))
    return SimilarityScore(spearman(gold, said), len(gold), len(pairs) - len(gold))


def evaluate_analogies(
    words: Sequence[str],
    units: F32,
    sections: dict[str, list[tuple[str, str, str, str]]],
    *,
    restrict_vocab: int | None = MOST_FREQUENT,
    case_insensitive: bool = True,
) -> AnalogyScore:
    """Analogies completed by the nearest word to b - a + c, `units` (V, D) being as long as one each."""
    index = index_of(words, restrict_vocab, case_insensitive)
    rows = np.fromiter(index.values(), np.int64, len(index))  # gensim answers with one spelling of a word only
    table = units if len(rows) == len(units) else units[rows]
    place = {word: at for at, word in enumerate(index)}
    found, unknown = {}, 0
    for name, questions in sections.items():
        cased = [[word.upper() for word in q] if case_insensitive else list(q) for q in questions]
        known = np.array([[place[word] for word in q] for q in cased if all(word in place for word in q)], np.int64)
        known = known.reshape(-1, 4)
        unknown += len(questions) - len(known)
        correct = 0
        at_once = max(1, min(BATCH_QUESTIONS, MAX_COSINES // max(1, len(table))))
        for begin in range(0, len(known), at_once):
            a, b, c, d = known[begin : begin + at_once].T
            scores = (table[b] - table[a] + table[c]) @ table.T
            for asked in (a, b, c):
                scores[np.arange(len(a)), asked] = -np.inf
            correct += int((scores.argmax(1) == d).sum())
        found[name] = (correct, len(known))
    return AnalogyScore(
        sum(right for right, _ in found.values()), sum(total for _, total in found.values()), unknown, found
    )
