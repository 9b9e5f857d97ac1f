"""Hot loops of counting which words stand near which, for a CPU (numba).

Words that are d apart count 1/d for one another. These shares are added as whole numbers of 1/UNIT, so that sums are
exact: they do not depend on the order of the text, on the number of threads or on what had to go to the disk. Who is
near whom is mutual, so only pairs (a, b) with a ≤ b are counted:

    head    pairs of frequent words, most of all that come: a cell for each, in memory
    tail    the others: events in a buffer, one number each, which a sort brings together

Row a of the head has the columns a … limit[a] - 1. Frequent words come first, as everywhere in the package; where they
do not, the counts are the same, and it takes longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

UNIT = 720_720
"""The least common multiple of 1 … 16: shares up to that distance are exact, farther ones are off by 1/UNIT at most."""
DISTANCE = 10
"""Bits of an event that say how far apart the words are."""
FARTHEST = (1 << DISTANCE) - 1


class Head(NamedTuple):
    """Cells of frequent pairs."""

    cells: U64
    begin: I64
    """Where row a would have its column 0 (V,)."""
    limit: I64
    """The first column that row a does not have (V,)."""


class Place(NamedTuple):
    """Where a reader of the text stands."""

    recent: I64
    """The last words of the line, in a ring: its size is a power of two above the window."""
    words: I64
    """How many the line had so far (1,)."""


def head_shape(words: int, cells: int) -> tuple[I64, I64, int]:
    """`begin` and `limit` of a head of at most so many cells, and how many it has: pairs (a, b) of which the product of
    the ranks is below some number, for words come about as often as the inverse of their ranks says (Zipf)."""
    rank = np.arange(1, words + 1, dtype=np.int64)
    low, high = 0, words * words + 1
    while high - low > 1:
        middle = (low + high) // 2
        if int(np.maximum(np.minimum(middle // rank, words) - rank + 1, 0).sum()) <= cells:
            low = middle
        else:
            high = middle
    limit = np.maximum(np.minimum(low // rank, words), rank - 1)
    begin = np.concatenate(([0], np.cumsum(limit - (rank - 1))[:-1])) - (rank - 1)
    return begin, limit, int((limit - (rank - 1)).sum())


def shares(window: int) -> U64:
    """What each distance counts, in units (window + 1,)."""
    distances = np.arange(1, window + 1)
    return np.concatenate(([0], np.rint(UNIT / distances))).astype(np.uint64)


@njit(cache=True, nogil=True)
def count_near(
    tokens: U32, at: int, first: int, end_mark: int, share: U64, head: Head, bits: int, place: Place, events: U64
) -> tuple[int, int]:
    """Read on from tokens[at] until the text or the room for events ends. Returns where, and how many events there are.

    Ids from `first` on are words, `end_mark` ends a line, other ids are left out. An event is (a, b, distance) in one
    number: `bits` for b, DISTANCE for the last.
    """
    window = len(share) - 1
    recent, mask = place.recent, len(place.recent) - 1
    cells, begin, limit = head
    shift_a, shift_b = np.uint64(bits + DISTANCE), np.uint64(DISTANCE)
    n, room = int(place.words[0]), len(events) - window
    found = 0
    while at < len(tokens) and found <= room:
        token = np.int64(tokens[at])
        at += 1
        if token == end_mark:
            n = 0
            continue
        if token < first:
            continue
        word = token - first
        for distance in range(1, min(window, n) + 1):
            other = recent[(n - distance) & mask]
            a, b = (word, other) if word < other else (other, word)
            times = np.uint64(2 if a == b else 1)  # a word that meets itself is near itself from both sides
            if b < limit[a]:
                cells[begin[a] + b] += times * share[distance]
            else:
                events[found] = (np.uint64(a) << shift_a) | (np.uint64(b) << shift_b) | np.uint64(distance)
                found += 1
        recent[n & mask] = word
        n += 1
    place.words[0] = n
    return at, found


@njit(cache=True, nogil=True)
def add_events(events: U64, share: U64, bits: int, keys: U64, sums: U64) -> int:
    """Sorted events to the sum of each pair. Returns how many pairs there are; a key is (a, b) without a distance."""
    found, last = 0, np.uint64(0xFFFFFFFFFFFFFFFF)
    shift, low = np.uint64(DISTANCE), np.uint64((1 << bits) - 1)
    for event in events:
        key = event >> shift
        if key != last:
            keys[found], sums[found], last = key, 0, key
            found += 1
        times = np.uint64(2 if (key >> np.uint64(bits)) == (key & low) else 1)
        sums[found - 1] += times * share[event & np.uint64(FARTHEST)]
    return found


@njit(cache=True, nogil=True)
def head_pairs(head: Head, row: int, bits: int, keys: U64, sums: U64) -> tuple[int, int]:
    """The cells above zero from a row on as keys and sums, as many rows as there is room for. Returns the next row and
    how many pairs there are."""
    found = 0
    while row < len(head.limit) and found + head.limit[row] - row <= len(keys):
        for column in range(row, head.limit[row]):
            total = head.cells[head.begin[row] + column]
            if total > 0:
                keys[found], sums[found] = (np.uint64(row) << np.uint64(bits)) | np.uint64(column), total
                found += 1
        row += 1
    return row, found


@njit(cache=True, nogil=True)
def merge_pairs(
    keys: U64, sums: U64, order: I64, bits: int, sizes: I64, totals: U64, columns: U32, counts: F32
) -> tuple[int, int]:
    """Pairs of several runs, `order` sorting them, to columns and counts of the table. sizes[a] grows by the pairs of
    row a, `totals` (V,) by what each word counts. Returns how many pairs there are, and how many of a word with
    itself."""
    found, same, at = 0, 0, 0
    low = np.uint64((1 << bits) - 1)
    while at < len(order):
        key, total = keys[order[at]], np.uint64(0)
        while at < len(order) and keys[order[at]] == key:
            total += sums[order[at]]
            at += 1
        a, b = np.int64(key >> np.uint64(bits)), np.int64(key & low)
        columns[found], counts[found] = b, np.float64(total) / UNIT
        sizes[a] += 1
        totals[a] += total
        if a == b:
            same += 1
        else:
            totals[b] += total
        found += 1
    return found, same


@njit(cache=True, nogil=True)
def find_pair(begin: I64, column: U32, row: int, other: int) -> int:
    """Where the pair row ≤ other stands in the table, or -1."""
    low, high = begin[row], begin[row + 1]
    while low < high:
        middle = (low + high) // 2
        if column[middle] < other:
            low = middle + 1
        else:
            high = middle
    return low if low < begin[row + 1] and column[low] == other else -1


@njit(cache=True, nogil=True)
def full_row(begin: I64, column: U32, count: F32, row: int, out: F32) -> None:
    """X_ij of one word with every other (V,): what rows before it have in its column, and its own row."""
    for other in range(row):
        place = find_pair(begin, column, other, row)
        out[other] = count[place] if place >= 0 else 0.0
    out[row:] = 0.0
    for place in range(begin[row], begin[row + 1]):
        out[column[place]] = count[place]
