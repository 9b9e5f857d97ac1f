"""Hot loops of counting models, for a CPU (numba): n-grams found, smoothed, and looked up.

All of them work on one layout, a *trie* in arrays. The n-grams of one order are numbered in the order of (their first
n - 1 words, their last word), so the children of a context, the n-grams that begin with it, stand together and sorted:

    word[g]      last word of n-gram g
    first[c]     number of the first child of context c; first[c + 1] is where those of the next one begin
    suffix[g]    the n-gram without its first word: one order lower, what a model backs off to
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.nn.kernels.prefetch import prefetch

NOWHERE = np.uint32(0xFFFFFFFF)

U32 = NDArray[np.uint32]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Whole = int | np.integer[Any]
Real = float | np.floating[Any]


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

    def __repr__(self) -> str:
        return f"<Trie: {int(self.limits[-1]):,} n-grams up to order {len(self.limits)}>"


class Rule(NamedTuple):
    """What happens to a word that was not seen after its context."""

    exact: bool
    """It has the context's weight times `unseen`, and no shorter context is asked."""
    level: np.float32
    """Otherwise: what each word costs by which the context had to be shortened, beside the weights."""
    unseen: np.float32


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
    added · words / (total + added · words), which its unseen words have in equal parts. Where nothing is added there is
    no share to give, and the weight is 1: what a word pays then is not the context's to say (`Rule`)."""
    probability = np.zeros(len(count), np.float64)
    weight = np.ones(len(first) - 1, np.float64)
    for context in range(len(first) - 1):
        total = 0.0
        for gram in range(first[context], first[context + 1]):
            total += count[gram]
        if total == 0.0:
            continue
        whole = total + added * words
        if added > 0.0:
            weight[context] = added * words / whole
        for gram in range(first[context], first[context + 1]):
            probability[gram] = (count[gram] + added) / whole
    return probability, weight


@njit(inline="always")
def find_child(word: U32, begin: Whole, end: Whole, wanted: Whole) -> Whole:
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
def order_of(limits: NDArray[np.int64], gram: Whole) -> int:
    """How many words the n-gram of this number has."""
    order = 1
    while gram >= limits[order - 1]:
        order += 1
    return order


@njit(inline="always")
def judge(gram: Whole, paid: Real, begin: Whole, length: Whole, trie: Trie, rule: Rule) -> tuple[Real, Whole]:
    """log P and the order that gave it: n-gram `gram` was found from state `begin` by paying `paid` in weights."""
    order = order_of(trie.limits, gram)
    missing = length - (order - 1)  # words of the context that were of no use
    if missing == 0 or not rule.exact:
        score = paid + trie.log_probability[gram]
        if missing > 0 and rule.level != 0.0:
            score += np.float32(missing) * rule.level
    elif begin != np.int64(NOWHERE) and order_of(trie.limits, begin) == length:  # the context is known, the word new
        score, order = trie.log_weight[begin] + rule.unseen, length + 1
    else:
        score, order = rule.unseen, 0
    return score, order


@njit(inline="always")
def state_after(gram: Whole, trie: Trie) -> Whole:
    """The longest context that something can follow, after this n-gram."""
    follows = gram < len(trie.first) - 1 and trie.first[gram] != trie.first[gram + 1]
    return gram if follows else np.int64(trie.link[gram])


@njit(cache=True, nogil=True)
def walk(
    tokens: U32, state: Whole, length: Whole, trie: Trie, rule: Rule, scores: F32, orders: NDArray[np.uint8]
) -> tuple[Whole, Whole]:
    """log P of each token after those before it, and the order of the n-gram that said so; the state after the last.

    A *state* is the longest context that the trie knows and that something can follow, as a number of the trie
    (NOWHERE: none at all); `length` is how many words the context has, known or not. Where a word does not follow the
    state, it falls back to its suffix, at the price of its weight. Each word makes the context at most one longer, so a
    text of n words takes at most 2n looks, whatever the order.
    """
    longest = len(trie.limits) - 1
    for place in range(len(tokens)):
        token = np.int64(tokens[place])
        paid = np.float32(0.0)
        gram: Whole = np.int64(-1)
        begin = state
        while state != np.int64(NOWHERE):
            gram = find_child(trie.word, np.int64(trie.first[state]), np.int64(trie.first[state + 1]), token)
            if gram >= 0:
                break
            paid += trie.log_weight[state]
            state = np.int64(trie.link[state])
        if gram < 0:
            gram = token
        scores[place], orders[place] = judge(gram, paid, begin, length, trie, rule)
        state = state_after(gram, trie)
        length = min(length + 1, longest)
    return state, length


@njit(cache=True, nogil=True)
def distribution(state: Whole, length: Whole, trie: Trie, rule: Rule, out: F32) -> None:
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
def advance(
    tokens: NDArray[np.int64],
    states: NDArray[np.int64],
    lengths: NDArray[np.int64],
    trie: Trie,
    rule: Rule,
    out: NDArray[np.float32],
) -> None:
    """Each row (R,) takes one more token, in place, and says log P of every next one: out (R, V)."""
    token = np.empty(1, np.uint32)
    score, order = np.empty(1, np.float32), np.empty(1, np.uint8)
    for row in range(len(tokens)):
        token[0] = tokens[row]
        states[row], lengths[row] = walk(token, states[row], lengths[row], trie, rule, score, order)
        distribution(states[row], lengths[row], trie, rule, out[row])


@njit(cache=True, nogil=True)
def take_rows(
    tokens: U32,
    starts: NDArray[np.int64],
    states: NDArray[np.int64],
    lengths: NDArray[np.int64],
    trie: Trie,
    rule: Rule,
) -> None:
    """Each row takes its tokens [starts[i], starts[i + 1]), in place, and nothing is said."""
    longest = 0
    for row in range(len(states)):
        longest = max(longest, starts[row + 1] - starts[row])
    scores, orders = np.empty(longest, np.float32), np.empty(longest, np.uint8)
    for row in range(len(states)):
        own = tokens[starts[row] : starts[row + 1]]
        states[row], lengths[row] = walk(own, states[row], lengths[row], trie, rule, scores, orders)


PARALLEL_ROWS = 16
"""Rows that `walk_rows` reads side by side: as many waits for memory at once. 8 and 32 are no quicker."""
LOOK, SEARCH, ANSWER = 0, 1, 2


@njit(cache=True, nogil=True)
def walk_rows(
    tokens: U32,
    starts: NDArray[np.int64],
    state: Whole,
    length: Whole,
    trie: Trie,
    rule: Rule,
    scores: F32,
    orders: NDArray[np.uint8],
) -> None:
    """What `walk` finds for each row [starts[i], starts[i + 1]) of a text, each from the same state.

    `walk` mostly waits for memory, so LANES rows are read in turns. Each turn ends by asking for the memory that the
    lane's next one needs, and while that comes the other lanes have theirs: LOOK, where are the children of the state;
    SEARCH, is the token one of them (if not, LOOK at the shorter context); ANSWER, take the n-gram's numbers.
    """
    inner, longest = len(trie.first) - 1, len(trie.limits) - 1
    turn = np.empty(PARALLEL_ROWS, np.uint8)
    place = np.empty(PARALLEL_ROWS, np.int64)
    end = np.empty(PARALLEL_ROWS, np.int64)
    begin = np.empty(PARALLEL_ROWS, np.int64)  # the state before the token, and where it has fallen back to since
    now = np.empty(PARALLEL_ROWS, np.int64)
    found = np.empty(PARALLEL_ROWS, np.int64)
    words = np.empty(PARALLEL_ROWS, np.int64)
    paid = np.empty(PARALLEL_ROWS, np.float32)
    row, busy = 0, 0
    while True:
        while busy < PARALLEL_ROWS and row < len(starts) - 1:  # a free lane takes the next row that has tokens
            if starts[row] < starts[row + 1]:
                turn[busy], place[busy], end[busy] = LOOK, starts[row], starts[row + 1]
                begin[busy], now[busy], words[busy], paid[busy] = state, state, length, np.float32(0.0)
                busy += 1
            row += 1
        if busy == 0:
            return
        lane = 0
        while lane < busy:
            context = now[lane]
            if turn[lane] == LOOK:
                if context == np.int64(NOWHERE):
                    found[lane] = tokens[place[lane]]
                    prefetch(trie.log_probability, found[lane])
                    turn[lane] = ANSWER
                else:
                    prefetch(trie.word, (np.int64(trie.first[context]) + np.int64(trie.first[context + 1])) >> 1)
                    turn[lane] = SEARCH
            elif turn[lane] == SEARCH:
                children = np.int64(trie.first[context]), np.int64(trie.first[context + 1])
                gram = find_child(trie.word, children[0], children[1], np.int64(tokens[place[lane]]))
                if gram < 0:
                    paid[lane] += trie.log_weight[context]
                    context = np.int64(trie.link[context])
                    now[lane], turn[lane] = context, LOOK
                    if context != np.int64(NOWHERE):
                        prefetch(trie.first, context)
                        prefetch(trie.log_weight, context)
                        prefetch(trie.link, context)
                else:
                    found[lane], turn[lane] = gram, ANSWER
                    prefetch(trie.log_probability, gram)
                    prefetch(trie.link, gram)
                    if gram < inner:
                        prefetch(trie.first, gram)
                        prefetch(trie.log_weight, gram)
            else:
                here = place[lane]
                scores[here], orders[here] = judge(found[lane], paid[lane], begin[lane], words[lane], trie, rule)
                begin[lane] = now[lane] = state_after(found[lane], trie)
                words[lane], paid[lane], turn[lane] = min(words[lane] + 1, longest), np.float32(0.0), LOOK
                place[lane] = here + 1
                if here + 1 == end[lane]:  # the last lane moves into its room
                    busy -= 1
                    turn[lane], place[lane], end[lane] = turn[busy], place[busy], end[busy]
                    begin[lane], now[lane], found[lane] = begin[busy], now[busy], found[busy]
                    words[lane], paid[lane] = words[busy], paid[busy]
                    lane -= 1
            lane += 1
