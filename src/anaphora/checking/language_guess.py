"""Lines in the wrong language, told from the corpus alone.

By script: a line whose letters are mostly of a script that its side hardly uses. By language: the letter trigrams of
both sides make two profiles (naive Bayes, after Cavnar & Trenkle 1994), and a line that fits the other side's profile
far better than its own side's is told. A line's own trigrams are taken out of its side's profile first. Short lines,
and names, which both sides share, say too little to be told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

SCRIPTS: dict[str, str] = {
    # ranges of letters, first-last in hexadecimal; scripts that one language mixes are one
    "Latin": "41-5a 61-7a aa ba c0-d6 d8-f6 f8-24f 1e00-1eff 2c60-2c7f a722-a7ff ab30-ab6f fb00-fb06 ff21-ff5a",
    "Greek": "370-3ff 1f00-1fff",
    "Cyrillic": "400-52f 1c80-1c8f 2de0-2dff a640-a69f",
    "Armenian": "530-58f",
    "Hebrew": "590-5ff fb1d-fb4f",
    "Arabic": "600-6ff 750-77f 8a0-8ff fb50-fdff fe70-feff",
    "Devanagari": "900-97f",
    "Bengali": "980-9ff",
    "Gurmukhi": "a00-a7f",
    "Gujarati": "a80-aff",
    "Tamil": "b80-bff",
    "Telugu": "c00-c7f",
    "Kannada": "c80-cff",
    "Malayalam": "d00-d7f",
    "Sinhala": "d80-dff",
    "Thai": "e00-e7f",
    "Lao": "e80-eff",
    "Tibetan": "f00-fff",
    "Burmese": "1000-109f",
    "Georgian": "10a0-10ff 2d00-2d2f",
    "Hangul": "1100-11ff 3130-318f ac00-d7af",
    "Ethiopic": "1200-139f",
    "Khmer": "1780-17ff",
    "Mongolian": "1800-18af",
    "Han and kana": "3005-3007 3040-30ff 31f0-31ff 3400-4dbf 4e00-9fff f900-faff ff66-ff9d 20000-3ffff",
}
MIN_WRONG_LETTERS, MIN_WRONG_LATIN_LETTERS = 6, 16  # letters of a wrong script that a line must have
TRIGRAMS = 16  # trigrams of letters that a line must have
PER_TRIGRAM = 1.2  # nats by which each must fit the other side better, on average
IN_ALL = 30.0  # nats, summed over the line
BUCKETS = 1 << 18  # of hashed trigrams
CHUNK_LINES = 8192  # lines at a time
FAMILIAR = 20  # occurrences on its own side, and this many times those on the other, make a word its side's own
PROFILE = 200_000  # lines that a profile is made of, at most

_WORDS = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=1)
def _script_table() -> np.ndarray:
    table = np.zeros(0x110000, np.uint8)  # 0: no letter of a known script
    for number, ranges in enumerate(SCRIPTS.values(), start=1):
        for part in ranges.split():
            first, _, last = part.partition("-")
            table[int(first, 16) : int(last or first, 16) + 1] = number
    return table


def _chunks(lines: Sequence[str], step: int = 1) -> Iterator[tuple[np.ndarray, list[str]]]:
    numbers, texts = [], []
    for number, text in enumerate(lines):
        if number % step:
            continue
        numbers.append(number)
        texts.append(text[:2000])  # enough to know a language by
        if len(texts) == CHUNK_LINES:
            yield np.array(numbers), texts
            numbers, texts = [], []
    if texts:
        yield np.array(numbers), texts


def _codes(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """All characters end to end, each line closed by a line feed, and the line that each belongs to."""
    joined = "".join(f"{text}\n" for text in texts)
    codes = np.frombuffer(joined.encode("utf-32-le", "replace"), np.uint32)
    line = np.cumsum(codes == 10)
    return codes, line - (codes == 10)


# -- scripts -----------------------------------------------------------------------------------------------------------


def script_counts(lines: Sequence[str]) -> np.ndarray:
    """(n, scripts + 1): letters of each line by script; column 0 is everything else."""
    width = len(SCRIPTS) + 1
    parts = [np.zeros((0, width), np.int32)]
    for numbers, texts in _chunks(lines):
        codes, line = _codes(texts)
        flat = np.bincount(line * width + _script_table()[codes], minlength=len(numbers) * width)
        parts.append(flat.reshape(len(numbers), width).astype(np.int32))
    return np.concatenate(parts)


def usual_scripts(counts: np.ndarray) -> np.ndarray:
    """(scripts + 1,) bool: those that carry a side, or at least one in twelve of its lines."""
    letters = counts[:, 1:]
    carried = np.bincount(letters.argmax(axis=1)[letters.any(axis=1)], minlength=letters.shape[1])
    usual = (carried > carried.sum() / 12) | (carried == carried.max())
    return np.concatenate([[False], usual])


def wrong_script(counts: np.ndarray, usual: np.ndarray) -> dict[int, str]:
    """Lines (from 0) mostly in a script that is not usual, and which. Latin names stand alone in text of any script, so
    it takes a longer line of them."""
    letters = counts[:, 1:]
    strange = np.where(usual[1:], 0, letters)
    least = np.where(strange.argmax(axis=1) == 0, MIN_WRONG_LATIN_LETTERS, MIN_WRONG_LETTERS)
    found = np.flatnonzero((strange.sum(axis=1) >= least) & (2 * strange.sum(axis=1) > letters.sum(axis=1)))
    names = list(SCRIPTS)
    return {int(n): names[int(strange[n].argmax())] for n in found}


# -- the other side's language -----------------------------------------------------------------------------------------


def _trigrams(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashed trigrams of lower-case letters and spaces, and the line of each; none crosses a line or is blank."""
    codes, line = _codes([text.lower() for text in texts])
    letters = np.where((_script_table()[codes] > 0) | (codes == 10), codes, 32).astype(np.uint64)
    a, b, c = letters[:-2], letters[1:-1], letters[2:]
    blanks = (a == 32).astype(np.int8) + (b == 32) + (c == 32)
    whole = (a != 10) & (b != 10) & (c != 10) & (blanks < 2)
    mixed = (a * np.uint64(0x9E3779B1) + b * np.uint64(0x85EBCA77) + c * np.uint64(0xC2B2AE3D)) * np.uint64(0x27D4EB2F)
    return ((mixed >> np.uint64(13)) % np.uint64(BUCKETS)).astype(np.int64)[whole], line[:-2][whole]


@dataclass
class Profiles:
    """How often each trigram stands on either side."""

    counts: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, source: Sequence[str], target: Sequence[str]) -> Profiles:
        counts = []
        for side in (source, target):
            total = np.zeros(BUCKETS, np.int64)
            for _, texts in _chunks(side, step=-(-len(side) // PROFILE) or 1):
                total += np.bincount(_trigrams(texts)[0], minlength=BUCKETS)
            counts.append(total)
        return cls((counts[0], counts[1]))

    def foreign(self, lines: Sequence[str], side: int) -> list[int]:
        """Lines (from 0) of side 0 or 1 that read like the other side's language."""
        own, other = (self.counts[side], self.counts[1 - side])
        sums = own.sum() + 0.5 * BUCKETS, other.sum() + 0.5 * BUCKETS
        if min(own.sum(), other.sum()) < 20_000:  # a profile of a few hundred lines knows too little
            return []
        # without this line's own: one occurrence less (a line that repeats a trigram is rare enough)
        difference = np.log((other + 0.5) / sums[1]) - np.log((np.maximum(own - 1, 0) + 0.5) / sums[0])
        found: list[int] = []
        for numbers, texts in _chunks(lines):
            hashed, line = _trigrams(texts)
            size = np.bincount(line, minlength=len(numbers))
            total = np.bincount(line, weights=difference[hashed], minlength=len(numbers))
            # the half of its trigrams that speaks against it must not hang on one rare name
            votes = np.bincount(line, weights=difference[hashed] > 0, minlength=len(numbers))
            odd = (size >= TRIGRAMS) & (total > PER_TRIGRAM * size) & (total > IN_ALL) & (votes > 0.6 * size)
            found += numbers[odd].tolist()
        return found


def without_familiar(lines: Sequence[str], numbers: list[int], own: Sequence[str], other: Sequence[str]) -> list[int]:
    """Of lines that seem foreign by their trigrams, those without a word that is their own side's: "Daniel Gabriel
    Fahrenheit was born in Danzig" is full of German letters, but "born" is English."""
    if not numbers:
        return []
    words = {n: set(_WORDS.findall(lines[n][:2000].lower())) for n in numbers}
    wanted = set().union(*words.values())
    here, there = (
        Counter(word for line in side for word in _WORDS.findall(line[:2000].lower()) if word in wanted)
        for side in (own, other)
    )
    familiar = {word for word in wanted if here[word] >= FAMILIAR and here[word] >= FAMILIAR * there[word]}
    return [n for n in numbers if not words[n] & familiar]
