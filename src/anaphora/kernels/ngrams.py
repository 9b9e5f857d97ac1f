"""Hot loops of counting models, for a CPU (numba): n-grams found, smoothed, and looked up.

All of them work on one layout, a *trie* in arrays. The n-grams of one order are numbered in the order of (their first
n - 1 words, their last word), so the children of a context, the n-grams that begin with it, stand together and sorted:

    word[g]      last word of n-gram g
    first[c]     number of the first child of context c; first[c + 1] is where those of the next one begin
    suffix[g]    the n-gram without its first word: one order lower, what a model backs off to
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

NOWHERE = np.uint32(0xFFFFFFFF)

U32 = NDArray[np.uint32]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


class Trie(NamedTuple):
    """The n-grams of all orders, numbered one order after the other: single words first, by their ids."""

    limits: NDArray[np.int64]
    """Numbers of order n are below limits[n - 1]."""
    word: U32
    first: U32
    """Of every n-gram below the highest order, and where the last one's children end."""
    link: U32
    """The longest proper suffix that something can follow: where a state falls back to. NOWHERE: none."""
    log_probability: F32
    log_weight: F32
    """Of every n-gram below the highest order, as a context: what a word pays that does not follow it."""


class Rule(NamedTuple):
    """What happens to a word that was not seen after its context."""

    exact: bool
    """It has the context's weight times `unseen`, and no shorter context is asked."""
    level: np.float32
    """Otherwise: what each word costs by which the context had to be shortened, beside the weights."""
    unseen: np.float32


@njit(cache=True, nogil=True)
def positions_by_word(tokens: U32, words: int, skip: int) -> U32:
    """Positions of a text sorted by their word, those of `skip` left out: a counting sort, so equal ones in order."""
    ends = np.zeros(words + 1, np.int64)
    for token in tokens:
        if token != skip:
            ends[token + 1] += 1
    for word in range(words):
        ends[word + 1] += ends[word]
    places = np.empty(ends[words], np.uint32)
    for position in range(len(tokens)):
        token = tokens[position]
        if token != skip:
            places[ends[token]] = position
            ends[token] += 1
    return places


@njit(cache=True, nogil=True)
def extend(tokens: U32, ids: U32, contexts: int, by_word: U32, length: int) -> tuple[U32, U32, U32, U32, U32]:
    """The n-grams of length + 1 words, from the numbers `ids` of those of `length` words that begin at each position.

    Going through the text in the order of words, each occurrence is put into the room of its context: two stable
    counting sorts in a row sort by (context, word). `ids` then has the new numbers (NOWHERE where a sentence ends
    before). Returns word, first, suffix, count and the ids.
    """
    first = np.zeros(contexts + 1, np.uint32)
    total = 0
    for end in by_word:
        if end >= length and ids[end - length] != NOWHERE:
            first[ids[end - length] + 1] += 1
            total += 1
    for context in range(contexts):
        first[context + 1] += first[context]
    room = first[:-1].copy()
    sorted_begins = np.empty(total, np.uint32)
    for end in by_word:
        if end >= length and ids[end - length] != NOWHERE:
            context = ids[end - length]
            sorted_begins[room[context]] = end - length
            room[context] += 1
    new_ids = np.full(len(ids), NOWHERE, np.uint32)
    word = np.empty(total, np.uint32)
    suffix = np.empty(total, np.uint32)
    count = np.zeros(total, np.uint32)
    found = 0
    place = 0
    for context in range(contexts):
        stop = first[context + 1]
        first[context] = found
        last = NOWHERE
        while place < stop:
            begin = sorted_begins[place]
            here = tokens[begin + length]
            if here != last:
                word[found] = last = here
                suffix[found] = ids[begin + 1]
                found += 1
            new_ids[begin] = found - 1
            count[found - 1] += 1
            place += 1
    first[contexts] = found
    return word[:found].copy(), first, suffix[:found].copy(), count[:found].copy(), new_ids


@njit(cache=True, nogil=True)
def count_of_counts(counts: U32) -> NDArray[np.int64]:
    """How many n-grams were counted 1, 2, 3 and 4 times: at [1] … [4]."""
    found = np.zeros(5, np.int64)
    for count in counts:
        if count <= 4:
            found[count] += 1
    return found


@njit(cache=True, nogil=True)
def interpolate(
    count: U32, first: U32, suffix: U32, lower: F64, discount: F64, kept: NDArray[np.bool_]
) -> tuple[F64, F64]:
    """Interpolated Kneser-Ney of one order: probability of each n-gram, and the weight γ of each context.

        P(w | c) = (count - D(count)) / Σ count  +  γ(c) · P(w | c without its first word)

    D is 0 for a count of 0, then discount[1], [2], and [3] from there on; γ(c) is what the discounts (and n-grams that
    are not kept) set free. A context that is followed by nothing has γ = 1.
    """
    probability = np.zeros(len(count), np.float64)
    weight = np.ones(len(first) - 1, np.float64)
    for context in range(len(first) - 1):
        begin, end = first[context], first[context + 1]
        if begin == end:
            continue
        total, free = 0.0, 0.0
        for gram in range(begin, end):
            total += count[gram]
            free += discount[min(count[gram], 3)] if kept[gram] else count[gram]
        weight[context] = free / total
        for gram in range(begin, end):
            own = (count[gram] - discount[min(count[gram], 3)]) / total
            probability[gram] = own + weight[context] * lower[suffix[gram]]
    return probability, weight


@njit(cache=True, nogil=True)
def relative(count: U32, first: U32, added: float, words: int) -> tuple[F64, F64]:
    """(count + added) / (total + added · words) of each n-gram; of each context, the share of what was not seen in it:
    added · words / (total + added · words), which its unseen words have in equal parts."""
    probability = np.zeros(len(count), np.float64)
    weight = np.ones(len(first) - 1, np.float64)
    for context in range(len(first) - 1):
        total = 0.0
        for gram in range(first[context], first[context + 1]):
            total += count[gram]
        if total == 0.0:
            continue
        whole = total + added * words
        weight[context] = added * words / whole
        for gram in range(first[context], first[context + 1]):
            probability[gram] = (count[gram] + added) / whole
    return probability, weight


@njit(inline="always")
def find_child(word: U32, begin: int, end: int, wanted: int) -> int:
    """The place of `wanted` among the children [begin, end), sorted, or -1."""
    while end - begin > 8:
        middle = (begin + end) >> 1
        if word[middle] <= wanted:
            begin = middle
        else:
            end = middle
    for place in range(begin, end):
        if word[place] == wanted:
            return place
    return -1


@njit(inline="always")
def order_of(limits: NDArray[np.int64], gram: int) -> int:
    """How many words the n-gram of this number has."""
    order = 1
    while gram >= limits[order - 1]:
        order += 1
    return order


@njit(cache=True, nogil=True)
def walk(
    tokens: U32, state: int, length: int, trie: Trie, rule: Rule, scores: F32, orders: NDArray[np.uint8]
) -> tuple[int, int]:
    """log P of each token after those before it, and the order of the n-gram that said so; the state after the last.

    A *state* is the longest context that the trie knows and that something can follow, as a number of the trie
    (NOWHERE: none at all); `length` is how many words the context has, known or not. Where a word does not follow the
    state, it falls back to its suffix, at the price of its weight. Each word makes the context at most one longer, so a
    text of n words takes at most 2n looks, whatever the order.
    """
    inner = len(trie.first) - 1  # n-grams of the highest order have no children
    longest = len(trie.limits) - 1
    for place in range(len(tokens)):
        token = np.int64(tokens[place])
        score = np.float32(0.0)
        gram = np.int64(-1)
        begin = state
        while state != np.int64(NOWHERE):
            gram = find_child(trie.word, np.int64(trie.first[state]), np.int64(trie.first[state + 1]), token)
            if gram >= 0:
                break
            score += trie.log_weight[state]
            state = np.int64(trie.link[state])
        if gram < 0:
            gram = token
        order = order_of(trie.limits, gram)
        missing = length - (order - 1)  # words of the context that were of no use
        if missing == 0 or not rule.exact:
            score += trie.log_probability[gram]
            if missing > 0 and rule.level != 0.0:
                score += missing * rule.level
        elif (
            begin != np.int64(NOWHERE) and order_of(trie.limits, begin) == length
        ):  # the context is known, the word new in it
            score, order = trie.log_weight[begin] + rule.unseen, length + 1
        else:
            score, order = rule.unseen, 0
        scores[place] = score
        orders[place] = order
        follows = gram < inner and trie.first[gram] != trie.first[gram + 1]
        state = gram if follows else np.int64(trie.link[gram])
        length = min(length + 1, longest)
    return state, length


@njit(cache=True, nogil=True)
def distribution(state: int, length: int, trie: Trie, rule: Rule, out: F32) -> None:
    """log P of every word after a state, into out (V,): the widest context first, overwritten by what knows more."""
    words = trie.limits[0]
    if rule.exact and length > 0:
        known = state != np.int64(NOWHERE) and order_of(trie.limits, state) == length
        out[:] = trie.log_weight[state] + rule.unseen if known else rule.unseen
        for word in range(words):
            if trie.log_probability[word] == -np.inf and word < 2:  # padding and the beginning are never predicted
                out[word] = -np.inf
        if known:
            for gram in range(trie.first[state], trie.first[state + 1]):
                out[trie.word[gram]] = trie.log_probability[gram]
        return
    path = np.empty(len(trie.limits), np.int64)
    paid = np.zeros(len(trie.limits) + 1, np.float32)
    depth = 0
    while state != np.int64(NOWHERE):
        path[depth] = state
        paid[depth + 1] = paid[depth] + trie.log_weight[state]
        state = np.int64(trie.link[state])
        depth += 1
    base = paid[depth] + (length * rule.level if length > 0 and rule.level != 0.0 else np.float32(0.0))
    for word in range(words):
        out[word] = trie.log_probability[word] + base
    for step in range(depth - 1, -1, -1):
        context = path[step]
        missing = length - order_of(trie.limits, context)
        cost = paid[step] + (missing * rule.level if missing > 0 and rule.level != 0.0 else np.float32(0.0))
        for gram in range(trie.first[context], trie.first[context + 1]):
            out[trie.word[gram]] = trie.log_probability[gram] + cost


@njit(cache=True, nogil=True)
def walk_rows(
    tokens: U32,
    starts: NDArray[np.int64],
    state: int,
    length: int,
    trie: Trie,
    rule: Rule,
    scores: F32,
    orders: NDArray[np.uint8],
) -> None:
    """`walk` over rows [starts[i], starts[i + 1]) of a text, each from the same state."""
    for row in range(len(starts) - 1):
        part = slice(starts[row], starts[row + 1])
        walk(tokens[part], state, length, trie, rule, scores[part], orders[part])
