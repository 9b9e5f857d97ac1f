"""Pairs that teach nothing or mislead: empty, identical, repeated, over-long, lopsided, or also in the evaluation text.

Repeated lines are found by 64-bit hashes (eight bytes a line in memory). Of repeated pairs the texts are compared as
well; a leak is told by its hash alone, and in a thousand million lines perhaps one is told wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

HUGE_LINE_BYTES = 1_000_000  # bytes of a line
_NO_WORD = re.compile(r"[\W_]+")
_WORDS = re.compile(r"\w+|[^\w\s]")


def normal(text: str) -> str:
    """What is left when case, punctuation and spacing do not count; the bare text where nothing else would be left.

    >>> normal("  Hello,  World! ")
    'hello world'
    """
    return _NO_WORD.sub(" ", text.casefold()).strip() or text.strip()


def lengths(lines: Sequence[str]) -> np.ndarray:
    """Characters of each line, without the white space around it. (n,)"""
    return np.fromiter((len(text.strip()) for text in lines), np.int64, len(lines))


# -- repeated ----------------------------------------------------------------------------------------------------------


def hashes(*sides: Sequence[str]) -> np.ndarray:
    """(n,) int64, the same for the same text within this process."""
    size = min(len(side) for side in sides)
    return np.fromiter(map(hash, zip(*sides)), np.int64, size)


def duplicates(source: Sequence[str], target: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Lines (from 0) that repeat an earlier pair exactly, and the first line with that pair. (m,), (m,)"""
    values = hashes(source, target)
    order = np.argsort(values, kind="stable")
    fresh = np.concatenate([[True], np.diff(values[order]) != 0]) if len(order) else np.zeros(0, bool)
    first = np.empty(len(order), np.int64)
    first[order] = order[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]] if len(order) else 0
    again = np.flatnonzero(first != np.arange(len(first)))
    same = [source[i] == source[j] and target[i] == target[j] for i, j in zip(again.tolist(), first[again].tolist())]
    again = again[np.array(same, bool)] if len(again) else again
    written = [bool(source[i].strip() or target[i].strip()) for i in again.tolist()]  # empty pairs are told as such
    again = again[np.array(written, bool)] if len(again) else again
    return again, first[again]


def distinct(lines: Sequence[str]) -> int:
    return len(np.unique(hashes(lines)))


# -- leaks -------------------------------------------------------------------------------------------------------------


@dataclass
class Leak:
    """A training line that is also in an evaluation text."""

    line: int
    other: int
    which: str  # pair, source or target


class Leaks:
    """Looks evaluation text up in training text. Case, punctuation and spacing do not count."""

    def __init__(self, sides: dict[str, Sequence[str]]) -> None:
        """sides: the lines of "source", of "target", or of both."""
        self.normals = [
            np.fromiter((hash(normal(t)) for t in lines), np.int64, len(lines))
            for lines in (sides.get("source", ()), sides.get("target", ()))
        ]

    def __len__(self) -> int:
        """Pairs, or lines where there is one side only."""
        return min(sizes) if all(sizes := [len(side) for side in self.normals]) else max(sizes)

    def within(self, training: Leaks) -> list[Leak]:
        """The lines of `training` that this text holds too, each once, pairs before single sides."""
        where = [_first_places(side[: len(self)].tolist()) for side in self.normals]
        both = [len(side) > 0 for side in self.normals]
        pairs = _first_places(zip(*(side[: len(self)].tolist() for side in self.normals))) if all(both) else {}
        known = np.zeros(len(training), dtype=bool)
        for mine, theirs in zip(self.normals, training.normals):
            if len(mine) and len(theirs):
                known |= np.isin(theirs[: len(training)], mine)
        empty, found = hash(""), []
        for i in np.flatnonzero(known).tolist():
            source, target = (int(side[i]) if len(side) else empty for side in training.normals)
            if (source, target) in pairs and (source, target) != (empty, empty):
                found.append(Leak(i, pairs[source, target], "pair"))
            elif source in where[0] and source != empty:
                found.append(Leak(i, where[0][source], "source"))
            elif target in where[1] and target != empty:
                found.append(Leak(i, where[1][target], "target"))
        return found


def _first_places(items: Iterable[Any]) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(item, place)
    return places


# -- lengths -----------------------------------------------------------------------------------------------------------


def too_long(lines: Sequence[str], limit: int) -> Iterator[tuple[int, int]]:
    """(line from 0, about how many tokens) of lines with more tokens than the limit.

    The tokenizer is not there yet, so a token is taken as a word, or as six bytes of a longer one: few enough that a
    line told here is too long for any vocabulary of usual size.
    """
    for number, text in enumerate(lines):
        if len(text) * 4 > limit and len(text.encode("utf-8", "surrogateescape")) > limit:
            if len(text) > HUGE_LINE_BYTES // 4 and len(text.encode("utf-8", "surrogateescape")) > HUGE_LINE_BYTES:
                yield number, HUGE_LINE_BYTES
                continue
            pieces = sum(-(-len(word.encode("utf-8", "surrogateescape")) // 6) for word in _WORDS.findall(text))
            if pieces > limit:
                yield number, pieces


@dataclass
class Ratios:
    """How long a target usually is, given its source (Gale & Church 1993): target ≈ c · source, with a spread that
    grows with the root of the length. Medians, so that odd pairs do not count."""

    c: float
    spread: float

    @classmethod
    def of(cls, source: np.ndarray, target: np.ndarray) -> Ratios | None:
        """From characters of each line; None where there are too few pairs to know what is usual."""
        size = min(len(source), len(target))
        source, target = source[:size].astype(float), target[:size].astype(float)
        written = (source > 0) & (target > 0)
        if written.sum() < 50:
            return None
        source, target = source[written], target[written]
        c = float(np.median(target / source))
        rest = (target - c * source) / np.sqrt(c * source + 4)
        return cls(c, float(max(1.4826 * np.median(np.abs(rest)), 0.5)))

    def odd(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Lines (from 0) that no usual translation explains: eight spreads off, and three times too long or short."""
        size = min(len(source), len(target))
        expected, target = self.c * source[:size].astype(float), target[:size].astype(float)
        written = (expected > 0) & (target > 0)
        high, low = np.maximum(expected, target), np.maximum(np.minimum(expected, target), 1.0)
        far = np.abs(target - expected) / np.sqrt(expected + 4) > 8 * self.spread
        far |= np.abs(target - expected) / np.sqrt(target + 4) > 8 * self.spread
        return np.flatnonzero(written & far & (high / low > 3) & (high > 25))
