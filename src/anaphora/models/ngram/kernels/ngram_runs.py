"""Hot loops of counting out of core, for a CPU (numba): runs of n-grams made, merged, and looked up in parts.

A *run* is a stretch of text small enough to sort in memory: its distinct n-grams, one row each (CONTEXT, WORD, SUFFIX,
COUNT), sorted. Merging the runs numbers the n-grams of the whole text; each run then learns the numbers of its rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.models.ngram.kernels.ngrams import NOWHERE, U32

U64 = NDArray[np.uint64]
CONTEXT, WORD, SUFFIX, COUNT = range(4)  # columns of a row
COLUMNS = 4
DIGIT = 11
"""Bits by which a run is sorted at once."""


@njit(cache=True, nogil=True)
def run_keys(next_words: U32, ids: U32, skip: int) -> tuple[U64, U32]:
    """(context, next word) as one number for each position where an n-gram grows by a word, and those positions.

    `ids` has the context's number at each position, and one position more; `skip` begins the next sentence.
    """
    keys = np.empty(len(next_words), np.uint64)
    places = np.empty(len(next_words), np.uint32)
    found = 0
    for place in range(len(next_words)):
        if ids[place] != NOWHERE and next_words[place] != skip:
            keys[found] = (np.uint64(ids[place]) << np.uint64(32)) | np.uint64(next_words[place])
            places[found] = place
            found += 1
    return keys[:found], places[:found]


@njit(cache=True, nogil=True)
def sort_run(keys: U64, places: U32) -> tuple[U64, U32]:
    """The keys sorted, each with its place, equal ones in order: by one digit after the other, from the last to the
    first, leaving out those in which all keys agree."""
    other_keys, other_places = np.empty_like(keys), np.empty_like(places)
    used = np.uint64(0)
    for key in keys:
        used |= key ^ keys[0]
    for shift in range(0, 64, DIGIT):
        mask = np.uint64((1 << DIGIT) - 1)
        if (used >> np.uint64(shift)) & mask == 0:
            continue
        room = np.zeros(1 << DIGIT, np.int64)
        for key in keys:
            room[(key >> np.uint64(shift)) & mask] += 1
        passed = 0
        for digit in range(1 << DIGIT):
            room[digit], passed = passed, passed + room[digit]
        for at in range(len(keys)):
            slot = (keys[at] >> np.uint64(shift)) & mask
            other_keys[room[slot]] = keys[at]
            other_places[room[slot]] = places[at]
            room[slot] += 1
        keys, other_keys = other_keys, keys
        places, other_places = other_places, places
    return keys, places


@njit(cache=True, nogil=True)
def run_rows(keys: U64, places: U32, ids: U32, local: U32) -> U32:
    """The distinct n-grams of a run (rows, 4) from its sorted keys; `local` gets the row of the n-gram that begins at
    each position."""
    rows = np.empty((len(keys), COLUMNS), np.uint32)
    found = -1
    last = np.uint64(0)
    for at in range(len(keys)):
        key = keys[at]
        if found < 0 or key != last:
            found += 1
            last = key
            rows[found, CONTEXT] = key >> np.uint64(32)
            rows[found, WORD] = key & np.uint64(NOWHERE)
            rows[found, SUFFIX] = ids[places[at] + 1]
            rows[found, COUNT] = 0
        rows[found, COUNT] += 1
        local[places[at]] = found
    return rows[: found + 1]


@njit(cache=True, nogil=True)
def row_keys(rows: U32) -> U64:
    """(context, word) of each row as one number: rows stand in the order of these."""
    keys = np.empty(len(rows), np.uint64)
    for row in range(len(rows)):
        keys[row] = (np.uint64(rows[row, CONTEXT]) << np.uint64(32)) | np.uint64(rows[row, WORD])
    return keys


@njit(cache=True, nogil=True)
def merge_rows(rows: U32, keys: U64, order: NDArray[np.int64], number: int) -> tuple[U32, U32]:
    """Rows of several runs made into one sorted list without doubles; its n-grams are numbered on from `number`.

    Returns the list, and the number of every row that came in.
    """
    merged = np.empty((len(rows), COLUMNS), np.uint32)
    numbers = np.empty(len(rows), np.uint32)
    found = -1
    last = np.uint64(0)
    for at in order:
        if found >= 0 and keys[at] == last:
            merged[found, COUNT] += rows[at, COUNT]
        else:
            found += 1
            last = keys[at]
            merged[found] = rows[at]
        numbers[at] = number + found
    return merged[: found + 1], numbers


@njit(cache=True, nogil=True)
def first_children(contexts: U32, begin: int, end: int, number: int) -> U32:
    """Where the children of contexts begin … end - 1 begin, if `contexts` are those of n-grams number, number + 1, …"""
    first = np.empty(end - begin, np.uint32)
    place = np.searchsorted(contexts, np.uint32(begin))
    for context in range(begin, end):
        while place < len(contexts) and contexts[place] < context:
            place += 1
        first[context - begin] = number + place
    return first


@njit(cache=True, nogil=True)
def put_numbers(local: U32, numbers: U32) -> None:
    """From the row of a run to the number in the text, in place; NOWHERE stays."""
    for place in range(len(local)):
        if local[place] != NOWHERE:
            local[place] = numbers[local[place]]


@njit(cache=True, nogil=True)
def tally(index: U32, begin: int, counts: U32) -> None:
    """Add to counts[i - begin] how often i occurs, for those i that it has room for."""
    end = begin + len(counts)
    for i in index:
        if begin <= i < end:
            counts[i - begin] += 1


@njit(nogil=True, cache=True)
def pick(index: U32, part: NDArray, begin: int, out: NDArray) -> None:
    """out[place] = part[index[place] - begin] wherever that is in the part."""
    end = begin + len(part)
    for place in range(len(index)):
        i = index[place]
        if begin <= i < end:
            out[place] = part[i - begin]
