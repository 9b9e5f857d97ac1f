"""What follows a text by an n-gram model, drawn without asking for the probability of every word (numba).

After a context, an n-gram model knows a few words well: those that were seen after it, after its suffix, after its last
word. All others have their share as single words, scaled by one number. So the distribution is a short *list* and a
*tail*, and a draw costs as much as the list is long, not as the vocabulary is large.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.models.ngram.kernels.ngrams import F32, F64, NOWHERE, U32, Rule, Trie, Whole, find_child, walk

MAX_TAIL_DRAWS = 1000
"""Draws from the tail before one of the list is taken: only rounding can bring it so far."""


@njit(inline="always")
def _mixed(bits: np.uint64) -> np.uint64:
    """SplitMix64's finalizer: another random number out of one."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(inline="always")
def _forbidden(word: Whole, never: NDArray[np.int64], end: Whole) -> bool:
    found = word == end
    for one in never:
        found |= word == one
    return found


@njit(cache=True, nogil=True)
def draw_ahead(
    text: U32,
    u: F64,
    count: int,
    power: float,
    never: NDArray[np.int64],
    end: int,
    waits: int,
    few: F64,
    cumulative: F64,
    stamps: NDArray[np.int64],
    trie: Trie,
    rule: Rule,
    tokens: NDArray[np.int64],
    shares: F64,
    states: NDArray[np.int64],
    wholes: F64,
) -> int:
    """Up to `count` words after `text`, one after the other, each drawn with probability ∝ P(word | those before)^power
    by a uniform number of u (count,), or where u is empty the likeliest; how many were found.

    `never` are words that are not said, and neither is `end` at the first `waits` places; after it nothing follows. few
    are P^power of all n-grams of one word or two, cumulative the sums over those of one, stamps (V,) scratch memory
    with -1 in the beginning. Into tokens goes what was drawn, into shares its probability, into states and wholes
    (count,) what `shares_of` needs to know of the place.
    """
    words, longest = trie.limits[0], len(trie.limits) - 1
    scores, orders = np.empty(max(len(text), 1), np.float32), np.empty(max(len(text), 1), np.uint8)
    one = np.empty(1, np.uint32)
    state: Whole = np.int64(NOWHERE)
    length: Whole = np.int64(0)
    state, length = walk(text, state, length, trie, rule, scores, orders)
    listed, values = np.empty(words, np.int64), np.empty(words, np.float64)
    stamp = stamps[0]  # of padding, which is no word: what was used last
    likeliest: Whole = np.int64(0)
    word: Whole = np.int64(0)
    for word in range(1, words):
        if len(u) == 0 and few[word] > few[likeliest] and not _forbidden(word, never, end):
            likeliest = word
    for place in range(count):
        stamp += 1
        size = 0
        total = lost = 0.0
        paid = 0.0
        best: Whole = np.int64(-1)
        best_value = -1.0
        barred = end if place < waits else -1
        context: Whole = state
        while context != np.int64(NOWHERE):  # the list: what is known of the longest context first
            scale = math.exp(paid * power)
            for gram in range(trie.first[context], trie.first[context + 1]):
                word = np.int64(trie.word[gram])
                if stamps[word] == stamp:
                    continue
                stamps[word] = stamp
                lost += few[word]
                if _forbidden(word, never, barred):
                    continue
                if gram < len(few):
                    value = scale * few[gram]
                else:
                    value = scale * math.exp(trie.log_probability[gram] * power)
                if value > best_value:
                    best, best_value = word, value
                listed[size], values[size] = word, value
                size += 1
                total += value
            paid += trie.log_weight[context]
            context = np.int64(trie.link[context])
        for word in never:
            if stamps[word] != stamp:
                stamps[word] = stamp
                lost += few[word]
        if barred >= 0 and stamps[barred] != stamp:
            stamps[barred] = stamp
            lost += few[barred]
        scale = math.exp(paid * power)
        tail = max(0.0, scale * (cumulative[-1] - lost))
        whole = total + tail
        if not whole > 0.0:
            stamps[0] = stamp
            return place
        found, value = best, best_value
        if len(u) == 0:
            if stamps[likeliest] != stamp and scale * few[likeliest] > best_value:
                found, value = likeliest, scale * few[likeliest]
        elif u[place] * whole < total:
            target, passed = u[place] * whole, 0.0
            for at in range(size):
                passed += values[at]
                if passed > target:
                    found, value = listed[at], values[at]
                    break
        else:  # by single words, until it is one that is not listed
            bits = np.uint64(u[place] * 9007199254740992.0) + np.uint64(1)
            for _ in range(MAX_TAIL_DRAWS):
                bits = _mixed(bits + np.uint64(0x9E3779B97F4A7C15))
                target = (bits >> np.uint64(11)) * (1.0 / 9007199254740992.0) * cumulative[-1]
                word = np.searchsorted(cumulative, target, side="right")
                if word < words and stamps[word] != stamp:
                    found, value = word, scale * few[word]
                    break
        if found < 0:
            stamps[0] = stamp
            return place
        tokens[place], shares[place], states[place], wholes[place] = found, value / whole, state, whole
        if found == end:
            stamps[0] = stamp
            return place + 1
        one[0] = found
        state, length = walk(one, state, min(length, longest), trie, rule, scores, orders)
    stamps[0] = stamp
    return count


@njit(cache=True, nogil=True)
def shares_of(
    words: NDArray[np.int64],
    state: Whole,
    whole: float,
    power: float,
    never: NDArray[np.int64],
    barred: int,
    trie: Trie,
    out: F32,
) -> None:
    """The probability that `draw_ahead` draws each of some words with, at one place."""
    for at in range(len(words)):
        word = words[at]
        out[at] = 0.0
        if _forbidden(word, never, barred):
            continue
        paid, context = 0.0, state
        gram: Whole = np.int64(-1)
        while context != np.int64(NOWHERE):
            gram = find_child(trie.word, np.int64(trie.first[context]), np.int64(trie.first[context + 1]), word)
            if gram >= 0:
                break
            paid += trie.log_weight[context]
            context = np.int64(trie.link[context])
        if gram < 0:
            gram = word
        out[at] = math.exp((paid + trie.log_probability[gram]) * power) / whole
