"""Unknown words: how much of text that a model has not seen consists of words that training never showed.

Subword tokenizers spell such words from pieces and lose nothing; with `tokenizer.fallback=unk` each becomes one unknown
token. Either way they are what a model translates worst.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any
from zlib import crc32

WORD_PATTERN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
SAMPLE_LINES = 100_000  # training lines that are counted, at most
HELD_OUT = 20  # one line in so many stands for unseen text where there is none


def count_words(lines: Sequence[str], numbers: range | Sequence[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for number in numbers:
        counts.update(WORD_PATTERN.findall(lines[number][:2000]))
    return counts


def split(lines: Sequence[str]) -> tuple[list[int], list[int]]:
    """Line numbers that are learned from and that are held out; the same text is always on the same side."""
    learned: list[int] = []
    held: list[int] = []
    for number in range(0, len(lines), -(-len(lines) // SAMPLE_LINES) or 1):
        text = lines[number].encode("utf-8", "surrogateescape")
        (learned if crc32(text) % HELD_OUT else held).append(number)
    return learned, held


def unknown(seen: Counter[str], other: Counter[str], vocabulary: int | None = None) -> dict[str, Any]:
    """Shares of the other text's running words and distinct words that were not seen; with a vocabulary, of running
    words outside its most frequent words as well (what fallback=unk would make unknown tokens)."""
    tokens = sum(other.values())
    strange = [word for word in other if word not in seen]
    found: dict[str, Any] = {
        "tokens": tokens,
        "types": len(other),
        "unknown_tokens": sum(other[word] for word in strange) / tokens if tokens else 0.0,
        "unknown_types": len(strange) / len(other) if other else 0.0,
    }
    if vocabulary is not None:
        known = {word for word, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:vocabulary]}
        outside = sum(number for word, number in other.items() if word not in known)
        found["unk_tokens"] = outside / tokens if tokens else 0.0
    return found
