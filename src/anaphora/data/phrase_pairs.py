"""Neighbours in a text of ids: how often each pair comes, and pairs joined into one, by compiled code.

Two words are neighbours where nothing, or nothing but *connectors* ("of", "the"), stands between them in a line:

    roles[id] = APART  a line's end, or a word of no phrase          0   a word that may be in one
                k > 0  connector number k, which a phrase may have inside, but never at an end

Pairs are counted in a hash table of bounded size. When it is full it keeps those of one half of the hashes and goes on;
the other half is counted in another pass over the text. So the counts are exact in any memory, and more memory means
fewer passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I16 = NDArray[np.int16]
I64 = NDArray[np.int64]
Say = Callable[[int, int], None]

APART = -1
"""The role of what no phrase crosses."""
MOST_CONNECTORS = 255
"""They are told apart by one byte."""
MOST_BETWEEN = 4
"""Connectors that may stand in a row inside a phrase: as many bytes as a middle has."""
FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""No pair has this key: words are numbered below 2**32 - 1."""
INITIAL_SLOTS, MAX_SLOTS = 1 << 16, 1 << 25
"""Slots of a table, at first and at most (16 bytes each: half a gigabyte); half of them are filled."""
PROGRESS_TOKENS = 1 << 22
"""Ids that are read between two words about progress."""


class Pairs(NamedTuple):
    """Pairs of neighbours."""

    first: I64
    second: I64
    middle: I64
    """The connectors between them, a byte each."""
    times: I64


class Slots(NamedTuple):
    """A hash table: first word << 32 | second word, the connectors between them, and a number for the pair."""

    key: U64
    middle: U32
    number: U32


def slots(room: int) -> Slots:
    """An empty table, its size a power of two."""
    return Slots(np.full(room, FREE, np.uint64), np.zeros(room, np.uint32), np.zeros(room, np.uint32))


@njit(cache=True, nogil=True, inline="always")
def _hash(key: np.uint64, middle: np.uint32) -> np.uint64:
    """64 bits, all of which depend on all of the pair's (the finalizer of SplitMix64)."""
    bits = key + np.uint64(middle) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def _slot(table: Slots, key: np.uint64, middle: np.uint32, hashed: np.uint64) -> np.uint64:
    """Where a pair stands, or would stand."""
    mask = np.uint64(len(table.key) - 1)
    slot = hashed & mask
    while table.key[slot] != FREE and (table.key[slot] != key or table.middle[slot] != middle):
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def _count(
    ids: U32, at: int, end: int, roles: I16, state: I64, table: Slots, filled: int, part: np.uint64, bits: int
) -> tuple[int, int]:
    """Count the pairs of ids[at:end] whose hash begins with these `bits` of `part`. Returns where it stopped (before a
    new pair for which the table is too small) and how many pairs there are. state: the first word, and the middle."""
    start, middle = state[0], state[1]
    shift, room = np.uint64(64 - bits), len(table.key) // 2
    while at < end:
        role = roles[ids[at]]
        if role == 0:
            if start >= 0:
                key = np.uint64(start) << np.uint64(32) | np.uint64(ids[at])
                hashed = _hash(key, np.uint32(middle))
                if bits == 0 or hashed >> shift == part:
                    slot = _slot(table, key, np.uint32(middle), hashed)
                    if table.key[slot] == FREE:
                        if filled == room:
                            break
                        table.key[slot], table.middle[slot] = key, np.uint32(middle)
                        filled += 1
                    table.number[slot] += np.uint32(1)
            start, middle = np.int64(ids[at]), 0
        elif role < 0 or middle >= 1 << 8 * (MOST_BETWEEN - 1):
            start, middle = -1, 0
        elif start >= 0:
            middle = middle << 8 | role
        at += 1
    state[0], state[1] = start, middle
    return at, filled


@njit(cache=True, nogil=True)
def _moved(old: Slots, new: Slots, part: np.uint64, bits: int) -> int:
    """Pairs into another table, those whose hash begins so; how many they are."""
    shift, filled = np.uint64(64 - bits), 0
    for place in range(len(old.key)):
        if old.key[place] == FREE:
            continue
        hashed = _hash(old.key[place], old.middle[place])
        if bits == 0 or hashed >> shift == part:
            slot = _slot(new, old.key[place], old.middle[place], hashed)
            new.key[slot], new.middle[slot], new.number[slot] = old.key[place], old.middle[place], old.number[place]
            filled += 1
    return filled


def count_pairs(
    ids: U32, roles: I16, least: int, *, most_room: int = MAX_SLOTS, progress: Say = lambda read, of: None
) -> Pairs:
    """All pairs of neighbours that come `least` times or more, in the order of their words."""
    todo, found = [(0, 0)], []  # (part, bits): hashes that begin so are still to be counted
    while todo:
        part, bits = todo.pop()
        table, filled, at, state = slots(min(INITIAL_SLOTS, most_room)), 0, 0, np.array([-1, 0], np.int64)
        while at < len(ids):
            end = min(at + PROGRESS_TOKENS, len(ids))
            at, filled = _count(ids, at, end, roles, state, table, filled, np.uint64(part), bits)
            progress(at, len(ids))
            if at < end:
                room = len(table.key)
                if 2 * room > most_room:
                    todo.append((2 * part + 1, bits + 1))
                    part, bits = 2 * part, bits + 1
                larger = slots(min(2 * room, most_room))
                filled = _moved(table, larger, np.uint64(part), bits)
                table = larger
        often = np.flatnonzero(table.number >= least)
        found.append(np.stack([table.key[often], table.middle[often], table.number[often]]).astype(np.uint64))
    key, middle, count = np.concatenate(found, axis=1)
    order = np.lexsort((middle, key))
    key, middle, count = key[order], middle[order].astype(np.int64), count[order].astype(np.int64)
    first, second = (key >> np.uint64(32)).astype(np.int64), (key & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return Pairs(first, second, middle, count)


@njit(cache=True, nogil=True)
def _fill(table: Slots, first: I64, second: I64, middle: I64, numbers: I64) -> None:
    for place in range(len(first)):
        key = np.uint64(first[place]) << np.uint64(32) | np.uint64(second[place])
        slot = _slot(table, key, np.uint32(middle[place]), _hash(key, np.uint32(middle[place])))
        table.key[slot], table.middle[slot] = key, np.uint32(middle[place])
        table.number[slot] = np.uint32(numbers[place])


@njit(cache=True, nogil=True)
def _join(ids: U32, at: int, end: int, write: int, roles: I16, state: I64, table: Slots) -> int:
    """ids[at:end] to where `write` is, with an id in place of each pair of the table; where it is then. state: the
    first word, the middle, and where the first word was written."""
    start, middle, place = state[0], state[1], state[2]
    for read in range(at, end):
        role = roles[ids[read]]
        id, fresh = ids[read], True
        if role == 0:
            if start >= 0:
                key = np.uint64(start) << np.uint64(32) | np.uint64(id)
                slot = _slot(table, key, np.uint32(middle), _hash(key, np.uint32(middle)))
                if table.key[slot] != FREE:  # back to where the phrase began; its words are no part of another one
                    id, write, fresh = table.number[slot], place, False
            start, middle, place = np.int64(id) if fresh else -1, 0, write
        elif role < 0 or middle >= 1 << 8 * (MOST_BETWEEN - 1):
            start, middle = -1, 0
        elif start >= 0:
            middle = middle << 8 | role
        ids[write] = id
        write += 1
    state[0], state[1], state[2] = start, middle, place
    return write


def join_pairs(ids: U32, roles: I16, pairs: Pairs, numbers: I64, *, progress: Say = lambda read, of: None) -> int:
    """Put an id in place of each pair, from left to right and in the array itself; how many ids are left."""
    room = 1 << max(4, (2 * len(numbers)).bit_length())
    table = slots(room)
    _fill(table, pairs.first, pairs.second, pairs.middle, numbers)
    write, state = 0, np.array([-1, 0, 0], np.int64)
    for at in range(0, len(ids), PROGRESS_TOKENS):
        end = min(at + PROGRESS_TOKENS, len(ids))
        write = _join(ids, at, end, write, roles, state, table)
        progress(end, len(ids))
    return write
