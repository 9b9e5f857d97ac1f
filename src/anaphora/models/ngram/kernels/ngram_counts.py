"""Hot loops of counting n-grams in memory, for a CPU (numba): groups of positions, made finer by a word at a time.

All positions of a text where the same n-gram begins stand together, group after group in the order of the trie
(ngrams.py). Sorting each group by the word that follows the n-gram makes the groups of the next order: no sort is
larger than a group, most groups soon have one member, and parts of the text can be worked on side by side.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.models.ngram.kernels.ngrams import U32
from anaphora.nn.kernels.prefetch import prefetch

U64 = NDArray[np.uint64]
DIGIT = 11
"""Bits by which a large group is sorted at once: the counters of 2,048 rooms stay in the nearest cache."""
INSERTION_SORT_SIZE, RADIX_SORT_SIZE = 12, 2048
"""Groups up to SMALL are sorted by insertion; from LARGE on, by digits."""
PREFETCH_POSITIONS = 16
"""How many positions ahead memory is asked for."""


@njit(cache=True, nogil=True)
def positions_by_word(tokens: U32, count: U32) -> U32:
    """All positions of a text sorted by their word, `count` being how often each comes; equal ones in order."""
    room = np.zeros(len(count), np.int64)
    for word in range(1, len(count)):
        room[word] = room[word - 1] + count[word - 1]
    places = np.empty(len(tokens), np.uint32)
    for position in range(len(tokens)):
        token = tokens[position]
        places[room[token]] = position
        room[token] += 1
    return places


@njit(cache=True, nogil=True)
def equal_parts(count: U32, parts: int) -> NDArray[np.int64]:
    """Cut a list of groups where each part has about as many members: rows (first group, first member), and the end."""
    total = np.int64(0)
    for size in count:
        total += size
    cuts = np.zeros((parts + 1, 2), np.int64)
    cuts[parts, 0], cuts[parts, 1] = len(count), total
    part, passed = 1, np.int64(0)
    for group in range(len(count)):
        while part < parts and passed >= total * part // parts:
            cuts[part, 0], cuts[part, 1] = group, passed
            part += 1
        passed += count[group]
    while part < parts:
        cuts[part, 0], cuts[part, 1] = len(count), total
        part += 1
    return cuts


@njit(cache=True, nogil=True)
def sort_by_digits(keys: U64, other: U64, largest: int) -> None:
    """Sort numbers by their upper 32 bits, none of which is above `largest`; equal ones stay as they are."""
    shift = 32
    source, target = keys, other
    while largest > 0:
        room = np.zeros(1 << DIGIT, np.int64)
        for key in source:
            room[(key >> np.uint64(shift)) & np.uint64((1 << DIGIT) - 1)] += 1
        passed = 0
        for digit in range(1 << DIGIT):
            room[digit], passed = passed, passed + room[digit]
        for key in source:
            digit = (key >> np.uint64(shift)) & np.uint64((1 << DIGIT) - 1)
            target[room[digit]] = key
            room[digit] += 1
        source, target = target, source
        shift += DIGIT
        largest >>= DIGIT
    if (shift - 32) // DIGIT % 2 == 1:  # it ended up in the other one
        keys[:] = other


@njit(cache=True, nogil=True)
def insertion_sort(keys: U64) -> None:
    for place in range(1, len(keys)):
        key = keys[place]
        at = place
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            at -= 1
        keys[at] = key


@njit(cache=True, nogil=True)
def refine(
    tokens: U32, ids: U32, begins: U32, count: U32, length: int, skip: int, largest: int
) -> tuple[U32, U32, U32, U32, int]:
    """The n-grams of length + 1 words from groups of `begins`, positions where one of `length` words begins.

    `count` is how large each group is, `ids` has the number of the n-gram of `length` words at each position, `skip`
    begins the next sentence, `largest` is the largest id. Returns word, first, suffix, count (numbers from 0 on), and
    how many positions are left: `begins` has them in front, grouped anew.
    """
    top = 0
    for members in count:
        top = max(top, members)
    keys = np.empty(top, np.uint64)
    other = np.empty(top if top >= RADIX_SORT_SIZE else 0, np.uint64)
    word = np.empty(len(begins), np.uint32)
    suffix = np.empty(len(begins), np.uint32)
    new_count = np.empty(len(begins), np.uint32)
    first = np.empty(len(count), np.uint32)
    end = len(tokens) - length
    found, place, left = 0, 0, 0
    for context in range(len(count)):
        first[context] = found
        size = 0
        for _ in range(count[context]):
            begin = begins[place]
            if place + PREFETCH_POSITIONS < len(begins):
                prefetch(tokens, np.int64(begins[place + PREFETCH_POSITIONS]) + length)
                prefetch(ids, np.int64(begins[place + PREFETCH_POSITIONS]) + 1)
            place += 1
            if begin < end and tokens[begin + length] != skip:
                keys[size] = (np.uint64(tokens[begin + length]) << np.uint64(32)) | np.uint64(begin)
                size += 1
        if size > 1:
            if size <= INSERTION_SORT_SIZE:
                insertion_sort(keys[:size])
            elif size < RADIX_SORT_SIZE:
                keys[:size].sort()
            else:
                sort_by_digits(keys[:size], other[:size], largest)
        last = np.int64(-1)
        for at in range(size):
            here = np.int64(keys[at] >> np.uint64(32))
            begin = np.uint32(keys[at] & np.uint64(0xFFFFFFFF))
            if here != last:
                last = here
                word[found] = here
                suffix[found] = ids[begin + 1]
                new_count[found] = 0
                found += 1
            new_count[found - 1] += 1
            begins[left] = begin
            left += 1
    return word[:found], first, suffix[:found], new_count[:found], left


@njit(cache=True, nogil=True)
def number_positions(begins: U32, count: U32, number: int, ids: U32) -> None:
    """Put number, number + 1, … where the n-grams of these groups begin."""
    place = 0
    for gram in range(len(count)):
        for _ in range(count[gram]):
            ids[begins[place]] = number + gram
            place += 1
