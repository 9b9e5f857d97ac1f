"""Hot loops of ARPA files, for a CPU (numba): lines to numbers and numbers to lines, some millions a second.

A line of an ARPA file is log₁₀ P, the words of an n-gram, and, where something can follow it, log₁₀ of its back-off
weight: `-0.60206 of the -0.30103`, parted by tabs or spaces. Words are looked up in a hash table over their bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.models.ngram.kernels.ngrams import F32, U32, find_child

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

FINE, SECTION, NO_NUMBER, FEW_WORDS, MUCH, UNKNOWN = 0, 1, 2, 3, 4, 5
"""How the reading of a line went: an n-gram; none of this section (blank, or a backslash in front); what is wrong."""
NEWLINE, RETURN, TAB, SPACE, BACKSLASH = 10, 13, 9, 32, 92
LOWEST = -99.0
"""How ARPA files write the logarithm of zero."""


class Words(NamedTuple):
    """The words of a vocabulary as one string of bytes, and a hash table of them."""

    text: U8
    ends: I64
    """Word i is text[ends[i - 1] : ends[i]]."""
    table: U32
    """Its size is a power of two; 0 is a free place, i + 1 word i."""


@njit(inline="always")
def hash_bytes(text: U8, begin: int, end: int) -> np.uint64:
    """FNV-1a, its high bits folded into the low ones."""
    value = np.uint64(0xCBF29CE484222325)
    for place in range(begin, end):
        value = (value ^ np.uint64(text[place])) * np.uint64(0x100000001B3)
    return value ^ (value >> np.uint64(32))


@njit(inline="always")
def same_bytes(a: U8, begin: int, end: int, b: U8, other: int) -> bool:
    """Whether a[begin:end] stands in b from `other` on."""
    for place in range(end - begin):  # noqa: SIM110 (numba is quicker with a loop)
        if a[begin + place] != b[other + place]:
            return False
    return True


@njit(cache=True, nogil=True)
def hash_words(text: U8, ends: I64, table: U32) -> int:
    """Fill the hash table; the first word that was there before, or -1."""
    mask = np.uint64(len(table) - 1)
    begin = 0
    for word in range(len(ends)):
        end = ends[word]
        slot = hash_bytes(text, begin, end) & mask
        while table[slot] != 0:
            other = np.int64(table[slot]) - 1
            start = ends[other - 1] if other else 0
            if ends[other] - start == end - begin and same_bytes(text, begin, end, text, start):
                return word
            slot = (slot + np.uint64(1)) & mask
        table[slot] = word + 1
        begin = end
    return -1


@njit(inline="always")
def find_word(text: U8, begin: int, end: int, words: Words) -> int | np.int64:
    """The number of the word text[begin:end], or -1."""
    mask = np.uint64(len(words.table) - 1)
    slot = hash_bytes(text, begin, end) & mask
    while words.table[slot] != 0:
        other = np.int64(words.table[slot]) - 1
        start = words.ends[other - 1] if other else 0
        if words.ends[other] - start == end - begin and same_bytes(text, begin, end, words.text, start):
            return other
        slot = (slot + np.uint64(1)) & mask
    return -1


@njit(cache=True, nogil=True)
def parse_number(text: U8, begin: int, end: int) -> float:
    """A decimal number, or NaN where there is none. "-inf" counts as one."""
    nan = np.float64(np.nan)
    place = begin
    negative = False
    if place < end and (text[place] == 45 or text[place] == 43):
        negative = text[place] == 45
        place += 1
    if end - place == 3 and text[place] | 32 == 105 and text[place + 1] | 32 == 110 and text[place + 2] | 32 == 102:
        return -np.inf if negative else np.inf
    scale, digits = 0, 0
    value: float = np.float64(0.0)
    fraction = False
    while place < end:
        byte = np.int64(text[place])
        if 48 <= byte <= 57:
            if value < 1e17:  # more digits than a float64 has change nothing
                value = value * 10.0 + (byte - 48)
                scale -= 1 if fraction else 0
            elif not fraction:
                scale += 1
            digits += 1
        elif byte == 46 and not fraction:
            fraction = True
        else:
            break
        place += 1
    if digits == 0:
        return nan
    if place < end:
        if text[place] | 32 != 101:  # e
            return nan
        place += 1
        minus = False
        if place < end and (text[place] == 45 or text[place] == 43):
            minus = text[place] == 45
            place += 1
        if place == end:
            return nan
        exponent: int | np.int64 = 0
        while place < end:
            byte = np.int64(text[place])
            if byte < 48 or byte > 57 or exponent > 9999:
                return nan
            exponent = exponent * 10 + byte - 48
            place += 1
        scale += int(-exponent if minus else exponent)
    if scale < 0:
        value = value / 10.0 ** (-scale) if scale > -300 else 0.0
    elif scale > 0:
        value = value * 10.0**scale if scale < 300 else np.inf
    return -value if negative else value


@njit(inline="always")
def is_space(byte: int) -> bool:
    return byte in (SPACE, TAB, RETURN)


@njit(inline="always")
def next_field(text: U8, place: int, end: int) -> tuple[int, int]:
    """Where the next run of anything but blanks begins and ends; begins at `end` where there is none."""
    while place < end and is_space(text[place]):
        place += 1
    stop = place
    while stop < end and not is_space(text[stop]):
        stop += 1
    return place, stop


@njit(cache=True, nogil=True)
def parse_lines(
    text: U8, place: int, order: int, words: Words, grams: U32, log_probability: F32, log_weight: F32, done: int
) -> tuple[int, int, int, int]:
    """Lines from `place` on into the arrays from row `done` on, until text or arrays end or a line is no n-gram.

    grams is (N, order). Of a line with a missing back-off weight the weight is 0, that is 1. Returns where the line
    begins that stopped it (or len(text)), how many rows are filled now, how it went, and the field in question.
    """
    while place < len(text):
        end = place
        while text[end] != NEWLINE:  # the text ends with one
            end += 1
        begin, stop = next_field(text, place, end)
        if begin == end or text[begin] == BACKSLASH or done == len(grams):
            return place, done, SECTION, begin
        number = parse_number(text, begin, stop)
        if np.isnan(number):
            return place, done, NO_NUMBER, begin
        log_probability[done] = number
        for n in range(order):
            begin, stop = next_field(text, stop, end)
            if begin == end:
                return place, done, FEW_WORDS, begin
            word = find_word(text, begin, stop, words)
            if word < 0:
                return place, done, UNKNOWN, begin
            grams[done, n] = word
        begin, stop = next_field(text, stop, end)
        log_weight[done] = 0.0
        if begin < end:
            number = parse_number(text, begin, stop)
            if np.isnan(number):
                return place, done, NO_NUMBER, begin
            log_weight[done] = number
            begin, _ = next_field(text, stop, end)
            if begin < end:
                return place, done, MUCH, begin
        done += 1
        place = end + 1
    return place, done, FINE, place


@njit(cache=True, nogil=True)
def count(grams: U32, begin: int, length: int, word: U32, first: U32, out: I64) -> None:
    """The trie's number of the words grams[i, begin : begin + length], for each i; -1 where it has no such one."""
    last: Any = np.int64(-2)
    for row in range(len(grams)):
        if row and last != -2:  # files are mostly sorted: the same words as in the line before?
            same = True
            for n in range(begin, begin + length):
                if grams[row, n] != grams[row - 1, n]:
                    same = False
                    break
            if same:
                out[row] = last
                continue
        gram: Any = np.int64(grams[row, begin])
        for n in range(begin + 1, begin + length):
            wanted: Any = np.int64(grams[row, n])
            begins: Any = np.int64(first[gram])
            ends: Any = np.int64(first[gram + 1])
            gram = find_child(word, begins, ends, wanted)
            if gram < 0:
                break
        out[row] = last = gram


@njit(inline="always")
def put_number(out: U8, place: int, value: float) -> int:
    """Seven digits after the point, none that is 0 at the end."""
    if value == -np.inf:
        value = LOWEST
    scaled = np.int64(np.rint(abs(value) * 1e7))
    if value < 0 and scaled > 0:
        out[place] = 45
        place += 1
    whole, rest = scaled // 10_000_000, scaled % 10_000_000
    divisor = 1
    while divisor * 10 <= whole:
        divisor *= 10
    while divisor > 0:
        out[place] = 48 + whole // divisor % 10
        divisor //= 10
        place += 1
    if rest:
        out[place] = 46
        place += 1
        divisor = 1_000_000
        while rest:
            out[place] = 48 + rest // divisor
            rest %= divisor
            divisor //= 10
            place += 1
    return place


@njit(cache=True, nogil=True)
def parents_of(first: U32, parent: U32) -> None:
    """The n-gram without its last word, of each n-gram."""
    for context in range(len(first) - 1):
        for gram in range(first[context], first[context + 1]):
            parent[gram] = context


@njit(cache=True, nogil=True)
def format_lines(
    begin: int, end: int, order: int, word: U32, parent: U32, text: U8, ends: I64,
    log_probability: F32, log_weight: F32, weighted: NDArray[np.bool_], skip: int, longest: int, out: U8,
) -> tuple[int, int]:  # fmt: skip
    """Lines of the n-grams from `begin` on into `out`, until it is full: where it stopped, and how many bytes.

    `weighted` says which n-grams have a back-off weight to be written (of all below the highest order); those that end
    with the word `skip` are left out. No word is longer than `longest` bytes.
    """
    place = 0
    spelled = np.empty(order, np.int64)
    to_10 = 1.0 / np.log(10.0)
    room = order * (longest + 1) + 64
    gram = begin
    while gram < end and place + room <= len(out):
        if word[gram] == skip:
            gram += 1
            continue
        at: Any = gram
        for n in range(order - 1, -1, -1):
            spelled[n] = word[at]
            if n:
                at = np.int64(parent[at])
        place = put_number(out, place, np.float64(log_probability[gram]) * to_10)
        for n in range(order):
            out[place] = SPACE if n else TAB
            place += 1
            start = ends[spelled[n] - 1] if spelled[n] else 0
            for byte in range(start, ends[spelled[n]]):
                out[place] = text[byte]
                place += 1
        if gram < len(weighted) and weighted[gram]:
            out[place] = TAB
            place = put_number(out, place + 1, np.float64(log_weight[gram]) * to_10)
        out[place] = NEWLINE
        place += 1
        gram += 1
    return gram, place
