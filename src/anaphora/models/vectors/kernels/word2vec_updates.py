"""The hot loop of word2vec, for a CPU (numba): skip-gram, CBOW; negative sampling, hierarchical softmax; subwords.

All of these learn the same way. There are a few *hidden* rows h_j and a few *output* rows o_k, each output with a label
(1: it came, 0: it did not), and what is learned is to tell them apart:

    L = - Σ_j Σ_k  label_k log σ(h_j · o_k) + (1 - label_k) log σ(-h_j · o_k)

skip-gram      h_j are the rows of the words around (or the other way round: the pairs of a text are the same)
CBOW           there is one h, the mean of those rows; its change is added to each of them whole, as in the C program
negatives      the outputs are the word in the middle (1) and K - 1 words drawn by count ** 0.75 (0); those drawn for a
               word are shared by all h_j around it, so that K output rows are fetched for a window and not for a pair
hierarchical   the outputs are the inner nodes of a Huffman tree on the way to the word, the labels its turns
subwords       the row of a word is the mean of its own and of its letter n-grams' rows (fastText). It is made when the
               word comes into the window and given back when it leaves it, changed by what it learned there

Words are drawn and their rows asked for AHEAD words before they are needed: otherwise most of the time would be spent
waiting for memory. Several threads may work on the same tables without locks (Hogwild); one thread does the same bits
every time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.models.vectors.kernels.rows import (
    LANES,
    LINE,
    padded,
    rows_add,
    rows_dot,
    rows_learn,
    rows_sum,
    rows_update,
)
from anaphora.nn.kernels.prefetch import prefetch

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

MAX_LINE_WORDS = 10_000
"""Words of a line that are read at once; a longer line is cut there, as in the C program and in gensim."""
PREFETCH_WORDS = 2
"""How many words ahead negatives are drawn and rows are asked for."""
MEASURED = 16
"""The loss is measured at every so manieth word."""


class Tables(NamedTuple):
    """What is learned: rows of `stride` floats, of which the first `dim` (a multiple of LANES) are used."""

    hidden: F32
    output: F32
    dim: np.int64
    stride: np.int64


class Draws(NamedTuple):
    """What chance decides."""

    keep: U32
    """A word of the text stays if 32 random bits are not above this (V,)."""
    negative: U64
    """A word to draw (V,): the upper half of the bits says how often this one stays, the lower half is the other."""


class Tree(NamedTuple):
    """The way to each word in a Huffman tree: nodes[begin[w]:begin[w + 1]], and 1 for each turn to the heavier side."""

    begin: I64
    nodes: I32
    labels: F32


class Subwords(NamedTuple):
    """The rows that make up each word: rows[begin[w]:begin[w + 1]], its own among them. None at all: its own only."""

    begin: I64
    rows: I32


@njit(cache=True, inline="always")
def mixed(number: np.uint64) -> np.uint64:
    """64 bits that look random (splitmix64): of a counter, they are a random sequence."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@njit(cache=True, inline="always")
def draw(negative: U64, bits: np.uint64) -> np.int64:
    """A word by Walker's alias method: one place of the table, and then it or the other one that shares the place."""
    place = ((bits >> np.uint64(32)) * np.uint64(len(negative))) >> np.uint64(32)
    found = negative[place]
    stays = (bits & np.uint64(0xFFFFFFFF)) < (found >> np.uint64(32))
    return np.int64(place) if stays else np.int64(found & np.uint64(0xFFFFFFFF))


@njit(cache=True)
def alias_table(weights: NDArray[np.float64]) -> U64:
    """The table that `draw` draws from in constant time, each word as often as its weight says."""
    size = len(weights)
    share = weights * (size / weights.sum())
    table = np.empty(size, np.uint64)
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    fewer, more = 0, 0
    for word in range(size):
        if share[word] < 1.0:
            small[fewer] = word
            fewer += 1
        else:
            large[more] = word
            more += 1
    while fewer and more:
        fewer -= 1
        low, high = small[fewer], large[more - 1]
        table[low] = (np.uint64(share[low] * 4294967296.0) << np.uint64(32)) | np.uint64(high)
        share[high] -= 1.0 - share[low]
        if share[high] < 1.0:
            more -= 1
            small[fewer] = high
            fewer += 1
    for place in range(fewer):  # all that is left is one, but for rounding
        table[small[place]] = (np.uint64(0xFFFFFFFF) << np.uint64(32)) | np.uint64(small[place])
    for place in range(more):
        table[large[place]] = (np.uint64(0xFFFFFFFF) << np.uint64(32)) | np.uint64(large[place])
    return table


@njit(cache=True)
def huffman(counts: I64) -> Tree:
    """The tree in which frequent words have short ways (Huffman 1952). `counts` never rise from one word to the next.

    Two queues suffice: words from the rarest on, and nodes, which are made in the order of their weights. Node n is the
    n-th that was made; the last one is the root.
    """
    words = len(counts)
    weight = np.zeros(max(words - 1, 0), np.int64)
    parent = np.zeros(2 * words, np.int64)  # of words, then of nodes
    heavier = np.zeros(2 * words, np.uint8)
    rarest, oldest = words - 1, 0
    for node in range(words - 1):
        for side in range(2):
            if rarest >= 0 and (oldest >= node or counts[rarest] <= weight[oldest]):
                child = rarest
                weight[node] += counts[rarest]
                rarest -= 1
            else:
                child = words + oldest
                weight[node] += weight[oldest]
                oldest += 1
            parent[child], heavier[child] = node, side
    begin = np.zeros(words + 1, np.int64)
    depth = np.zeros(max(words - 1, 1), np.int64)
    for node in range(words - 3, -1, -1):
        depth[node] = depth[parent[words + node]] + 1
    for word in range(words):
        begin[word + 1] = begin[word] + (depth[parent[word]] + 1 if words > 1 else 0)
    nodes, labels = np.zeros(begin[words], np.int32), np.zeros(begin[words], np.float32)
    for word in range(words):
        child, place = word, begin[word + 1]
        while place > begin[word]:  # from the word up to the root
            place -= 1
            nodes[place], labels[place] = parent[child], heavier[child]
            child = words + parent[child]
    return Tree(begin, nodes, labels)


@njit(cache=True)
def ngram_hashes(pool: NDArray[np.uint8], ends: I64, least: int, most: int) -> tuple[I64, U32]:
    """The letter n-grams of words as fastText hashes them: word w is pool[ends[w]:ends[w + 1]], its < and > included.

    Letters are characters of UTF-8, not bytes. Returns where the n-grams of each word begin, and their hashes (FNV-1a).
    """
    begin = np.zeros(len(ends), np.int64)
    hashes = np.zeros(0, np.uint32)
    for filling in range(2):  # first count them
        found = 0
        for word in range(len(ends) - 1):
            for start in range(ends[word], ends[word + 1]):
                if pool[start] & 0xC0 == 0x80:
                    continue
                letters, place, value = 0, start, np.uint32(2166136261)
                while place < ends[word + 1] and letters < most:
                    value = np.uint32((value ^ np.uint32(np.int8(pool[place]))) * np.uint32(16777619))
                    place += 1
                    while place < ends[word + 1] and pool[place] & 0xC0 == 0x80:
                        value = np.uint32((value ^ np.uint32(np.int8(pool[place]))) * np.uint32(16777619))
                        place += 1
                    letters += 1
                    mark = letters == 1 and (start == ends[word] or place == ends[word + 1])
                    if letters >= least and not mark:  # < and > alone say nothing
                        if filling:
                            hashes[found] = value
                        found += 1
            begin[word + 1] = found
        if not filling:
            hashes = np.zeros(found, np.uint32)
    return begin, hashes


Train = Callable[..., tuple[float, int, int]]


@cache
def trainer(outputs: int) -> Train:
    """The loop for windows of so many outputs: one more than there are negatives, or nodes taken at once.

    The number is a constant of the compiled code, which is kept on disk: each is compiled once on a machine.
    """
    lanes = padded(outputs)
    assert lanes % LANES == 0

    @njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
    def train(
        tokens: U32,
        first: int,
        end_mark: int,
        tables: Tables,
        draws: Draws,
        tree: Tree,
        subwords: Subwords,
        cbow: bool,
        window: int,
        shrink: bool,
        rate: np.float32,
        final_rate: np.float32,
        seed: np.uint64,
    ) -> tuple[float, int, int]:
        """Learn from whole lines. Ids from `first` on are words, `end_mark` ends a line, other ids are left out.

        `shrink`: each word looks at 1 … `window` words on either side, by chance, so that near ones count more;
        otherwise at `window` of them. The rate goes evenly from `rate` to `final_rate`. Returns the summed loss of the
        pairs that were measured, how many they were, and how many words were left by subsampling.
        """
        hidden, output, dim, stride = tables.hidden, tables.output, tables.dim, tables.stride
        hierarchical, whole = len(tree.nodes) > 0, len(subwords.rows) == 0
        spare = len(tree.begin) - 2  # the tree has one node fewer than words: a row that nobody uses
        golden = np.uint64(0x9E3779B97F4A7C15)
        ring = 1
        while ring < 2 * window + 2 + PREFETCH_WORDS:
            ring *= 2
        line = np.empty(MAX_LINE_WORDS, np.int64)
        outs = np.zeros(ring * outputs, np.int64)  # the outputs of the words to come
        weights = np.zeros(ring * lanes, np.float32)  # and the rate; 0 for a negative that is the word itself
        nearness = np.zeros(ring, np.int64)
        mine = np.zeros(outputs, np.int64)
        labels = np.zeros(lanes, np.float32)
        labels[0] = 1.0
        xs = np.zeros(2 * window + 1, np.int64)
        scratch = np.zeros(2 * window + 1, np.int64)
        f = np.zeros((2 * window + 1) * lanes, np.float32)
        mean = np.zeros(stride, np.float32)
        change = np.zeros((2 * window + 1) * stride, np.float32)
        for place in range(2 * window + 1):
            scratch[place] = place * stride
        # words made of several rows: as they are now, and as they were when they came
        made = np.zeros(0 if whole else ring * stride, np.float32)
        came = np.zeros(0 if whole else ring * stride, np.float32)
        spread = np.zeros(1, np.int64)
        if not whole:
            longest = 0
            for word in range(len(subwords.begin) - 1):
                longest = max(longest, subwords.begin[word + 1] - subwords.begin[word])
            spread = np.zeros(longest, np.int64)
        table = hidden if whole else made
        counter, loss, pairs, words = seed, 0.0, 0, 0
        at, size = 0, len(tokens)
        while at < size:
            n = 0
            progress = np.float32(at) / np.float32(size)
            alpha = rate + (final_rate - rate) * progress
            while at < size and n < MAX_LINE_WORDS:
                token = np.int64(tokens[at])
                at += 1
                if token == end_mark:
                    break
                if token < first:
                    continue
                counter += golden
                if np.uint32(mixed(counter) >> np.uint64(32)) <= draws.keep[token - first]:
                    line[n] = token - first
                    n += 1
            words += n
            for i in range(-PREFETCH_WORDS, n):
                coming = i + PREFETCH_WORDS
                if coming < n:  # draw for it, and ask for its rows
                    slot = coming & (ring - 1)
                    counter += golden
                    chance = ((mixed(counter) >> np.uint64(32)) * np.uint64(window)) >> np.uint64(32)
                    nearness[slot] = 1 + np.int64(chance) if shrink else window
                    word = line[coming]
                    if hierarchical:
                        for node in range(tree.begin[word], tree.begin[word + 1]):
                            for place in range(0, dim, LINE):
                                prefetch(output, tree.nodes[node] * stride + place)
                    else:
                        outs[slot * outputs] = word * stride
                        weights[slot * lanes] = alpha
                        for k in range(1, outputs):
                            counter += golden
                            other = draw(draws.negative, mixed(counter))
                            outs[slot * outputs + k] = other * stride
                            weights[slot * lanes + k] = 0.0 if other == word else alpha
                        for k in range(outputs):
                            row = outs[slot * outputs + k]
                            for place in range(0, dim, LINE):
                                prefetch(output, row + place)
                    enters = coming + window
                    if whole and enters < n:
                        for place in range(0, dim, LINE):
                            prefetch(hidden, line[enters] * stride + place)
                if i < 0:
                    continue
                if not whole:  # words that come into reach are made of their rows
                    begins = 0 if i == 0 else i + window
                    for entering in range(begins, min(i + window + 1, n)):
                        parts = 0
                        for part in range(subwords.begin[line[entering]], subwords.begin[line[entering] + 1]):
                            spread[parts] = subwords.rows[part] * stride
                            parts += 1
                        room = (entering & (ring - 1)) * stride
                        rows_sum(hidden, spread, parts, dim, made, room, np.float32(1.0) / np.float32(parts))
                        for place in range(dim):
                            came[room + place] = made[room + place]
                slot = i & (ring - 1)
                near = nearness[slot]
                around = 0
                total = 0
                for j in range(max(0, i - near), min(n, i + near + 1)):
                    if j != i:
                        if whole:
                            xs[around] = line[j] * stride
                            total += 1
                        else:
                            xs[around] = (j & (ring - 1)) * stride
                            total += subwords.begin[line[j] + 1] - subwords.begin[line[j]]
                        around += 1
                if around > 0:
                    word = line[i]
                    many = around
                    source, sources = table, xs
                    if cbow:
                        many = 1
                        source, sources = mean, scratch
                        if whole:
                            rows_sum(table, xs, around, dim, mean, 0, np.float32(1.0) / np.float32(around))
                        else:  # the mean of all rows of all words: those of more rows weigh more
                            for place in range(dim):
                                mean[place] = 0.0
                            for j in range(max(0, i - near), min(n, i + near + 1)):
                                if j != i:
                                    parts = subwords.begin[line[j] + 1] - subwords.begin[line[j]]
                                    share = np.float32(parts) / np.float32(total)
                                    room = (j & (ring - 1)) * stride
                                    for place in range(dim):
                                        mean[place] += share * made[room + place]
                    target, targets = source, sources
                    if cbow or hierarchical:
                        target, targets = change, scratch
                        for row in range(many):
                            for place in range(dim):
                                change[row * stride + place] = 0.0
                    start, stop = np.int64(0), np.int64(1)
                    if hierarchical:
                        start, stop = tree.begin[word], tree.begin[word + 1]
                    for node in range(start, stop, outputs if hierarchical else 1):
                        if hierarchical:
                            for k in range(outputs):
                                there = node + k < stop
                                mine[k] = (tree.nodes[node + k] if there else spare) * stride
                                labels[k] = tree.labels[node + k] if there else 0.0
                                weights[slot * lanes + k] = alpha if there else 0.0
                        else:
                            for k in range(outputs):
                                mine[k] = outs[slot * outputs + k]
                        rows_dot(source, sources, many, output, mine, dim, f, outputs)
                        if i % MEASURED == 0:
                            for row in range(many):
                                for k in range(outputs):
                                    if weights[slot * lanes + k] > 0.0:
                                        x = f[row * lanes + k] if labels[k] > 0.5 else -f[row * lanes + k]
                                        loss += np.log1p(np.exp(-abs(x))) + max(-x, np.float32(0.0))
                            if node == start:
                                pairs += many
                        rows_learn(f, many, labels, weights, slot * lanes, outputs)
                        rows_update(source, sources, many, target, targets, output, mine, dim, f, outputs)
                    if cbow:
                        rows_add(table, xs, around, dim, change, 0)
                    elif hierarchical:
                        for row in range(many):
                            for place in range(dim):
                                table[xs[row] + place] += change[row * stride + place]
                if not whole:  # words that leave it give back what they learned
                    ends = n if i == n - 1 else i - window + 1
                    for leaving in range(max(0, i - window), ends):
                        parts = 0
                        for part in range(subwords.begin[line[leaving]], subwords.begin[line[leaving] + 1]):
                            spread[parts] = subwords.rows[part] * stride
                            parts += 1
                        room = (leaving & (ring - 1)) * stride
                        for place in range(dim):
                            came[room + place] = made[room + place] - came[room + place]
                        rows_add(hidden, spread, parts, dim, came, room)
        return loss, pairs, words

    return train
