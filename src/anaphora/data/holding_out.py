"""Which lines of a text are held out, to measure on: chosen by nothing but the seed and how many lines there are.

So every reading of the text, in blocks of any size, leaves out the same ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DRAWN_AT_ONCE = 1 << 18
"""Lines."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that multiples of it are all different."""


def draw_places(lines: int, number: int, seed: int) -> NDArray[np.int64]:
    """`number` of the places 0 … lines - 1, in order, drawn by nothing but the seed: those whose hashes are lowest.

    The hash (splitmix64) gives no two places the same number, so there are exactly as many as asked for.
    """
    lowest, places = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    (salt,) = _mixed(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64))
    for begin in range(0, lines, DRAWN_AT_ONCE):
        more = np.arange(begin, min(begin + DRAWN_AT_ONCE, lines))
        lowest = np.concatenate((lowest, _mixed(salt + more.astype(np.uint64) * GOLDEN)))
        places = np.concatenate((places, more))
        if number < len(lowest):
            best = np.argpartition(lowest, number)[:number]
            lowest, places = lowest[best], places[best]
    return np.sort(places)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def lines_at(block: bytes, places: NDArray[np.int64]) -> bytes:
    """Some lines of a block."""
    lines = block.split(b"\n") if len(places) else []
    return b"".join(lines[place] + b"\n" for place in places.tolist())


def lines_but(block: bytes, places: NDArray[np.int64]) -> bytes:
    """All lines of a block but some."""
    if not len(places):
        return block
    left_out = set(places.tolist())
    return b"\n".join(line for place, line in enumerate(block.split(b"\n")) if place not in left_out)
