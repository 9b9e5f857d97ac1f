"""The unigram language model of subwords (Kudo 2018): its lattice, its training.

Each piece has a probability, a segmentation of a word has the product of its pieces', and the tokenizer takes the best
one. Training starts from every frequent substring, fits probabilities by expectation–maximization, and drops, again and
again, the pieces whose loss would cost the corpus least, until the vocabulary has its size.

It differs from SentencePiece in being byte-level, and from the trainer in the `tokenizers` library in being exactly
repeatable: that one adds floats in the order of a hash map, so two runs on the same text give different files.

The pieces are a trie in an open-addressing hash table: (node, byte) -> node. Words are byte strings laid end to end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numba import njit

LONGEST_PIECE = 16  # bytes
EMPTY = -1


@njit(nogil=True, cache=True)
def find(keys, key):
    """The slot of a key in an open-addressing table whose size is a power of two, or EMPTY."""
    mask = len(keys) - 1
    slot = ((key * 0x2545F4914F6CDD1D) >> 20) & mask
    while keys[slot] != key:
        if keys[slot] == EMPTY:
            return EMPTY
        slot = (slot + 1) & mask
    return slot


@njit(nogil=True, cache=True)
def _insert(keys, new):
    """Put distinct keys in; their slots. (N,)"""
    mask = len(keys) - 1
    slots = np.empty(len(new), np.int64)
    for i in range(len(new)):
        slot = ((new[i] * 0x2545F4914F6CDD1D) >> 20) & mask
        while keys[slot] != EMPTY:
            slot = (slot + 1) & mask
        keys[slot] = new[i]
        slots[i] = slot
    return slots


def hash_table(new: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A table at most half full of distinct, non-negative keys, and the slot of each."""
    size = 1 << max(3, int(2 * len(new)).bit_length())
    keys = np.full(size, EMPTY, dtype=np.int64)
    return keys, _insert(keys, np.asarray(new, dtype=np.int64))


class Trie:
    """Byte strings by prefix: `keys` and `children` map node * 256 + byte to a node, `piece` a node to its number."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        edges: dict[int, int] = {}
        piece_of: dict[int, int] = {}
        for number, piece in enumerate(pieces):
            node = 0
            for byte in piece:
                node = edges.setdefault(node * 256 + byte, len(edges) + 1)
            if node:  # the empty string is no piece
                piece_of[node] = number
        self.keys, slots = hash_table(list(edges))
        self.children = np.zeros(len(self.keys), dtype=np.int64)
        self.children[slots] = list(edges.values())
        self.piece = np.full(len(edges) + 1, EMPTY, dtype=np.int64)  # (nodes,)
        self.piece[list(piece_of)] = list(piece_of.values())


@njit(nogil=True, cache=True)
def viterbi(word, keys, children, piece, scores, banned, best, back, out):
    """The best segmentation of `word` into `out`; how many pieces. `banned` is a piece not to use, or EMPTY.

    Of equals the earliest start wins, as in the `tokenizers` library, so that both give the same ids.
    """
    n = len(word)
    back[: n + 1] = EMPTY
    best[0] = 0.0
    for start in range(n):
        if start and back[start] == EMPTY:
            continue
        node = 0
        for end in range(start + 1, n + 1):
            slot = find(keys, node * 256 + word[end - 1])
            if slot == EMPTY:
                break
            node = children[slot]
            number = piece[node]
            if number != EMPTY and number != banned:
                score = best[start] + scores[number]
                if back[end] == EMPTY or score > best[end]:
                    best[end], back[end], out[end - 1] = score, start, number
    count, end = 0, n
    while end > 0:  # the pieces by their ends, from the back; then turn them round
        count += 1
        best[count] = out[end - 1]  # ids are exact in floats; `best` is done with
        end = back[end]
        if end == EMPTY:
            return 0  # no way through without the banned piece
    for i in range(count):
        out[i] = np.int64(best[count - i])
    return count


@njit(nogil=True, cache=True)
def _add_logs(a, b):
    if a < b:
        a, b = b, a
    return a + np.log1p(np.exp(b - a)) if b > -np.inf else a


@njit(nogil=True, cache=True)
def ahead(word, keys, children, piece, scores, alpha, beta):
    """beta[i] = log of the summed weight, probability ** alpha, of all segmentations of word[i:]."""
    n = len(word)
    beta[n] = 0.0
    for start in range(n - 1, -1, -1):
        beta[start] = -np.inf
        node = 0
        for end in range(start + 1, n + 1):
            slot = find(keys, node * 256 + word[end - 1])
            if slot == EMPTY:
                break
            node = children[slot]
            if piece[node] != EMPTY:
                beta[start] = _add_logs(beta[start], alpha * scores[piece[node]] + beta[end])


@njit(nogil=True, cache=True)
def _expect(words, offsets, counts, keys, children, piece, scores):
    """Expected counts of every piece over the corpus, in a fixed order of additions. (V,)"""
    expected = np.zeros(len(scores))
    longest = 0
    for w in range(len(counts)):
        longest = max(longest, offsets[w + 1] - offsets[w])
    before, beta = np.empty(longest + 1), np.empty(longest + 1)
    for w in range(len(counts)):
        word = words[offsets[w] : offsets[w + 1]]
        n = len(word)
        ahead(word, keys, children, piece, scores, 1.0, beta)
        before[: n + 1] = -np.inf
        before[0] = 0.0
        for start in range(n):
            node = 0
            for end in range(start + 1, n + 1):
                slot = find(keys, node * 256 + word[end - 1])
                if slot == EMPTY:
                    break
                node = children[slot]
                number = piece[node]
                if number != EMPTY:
                    here = before[start] + scores[number]
                    before[end] = _add_logs(before[end], here)
                    expected[number] += counts[w] * np.exp(here + beta[end] - beta[0])
    return expected


@njit(nogil=True, cache=True)
def _losses(pieces, offsets, expected, keys, children, piece, scores):
    """What the corpus would lose without each piece: its count × (its score − that of its best other spelling). (V,)"""
    losses = np.empty(len(scores))
    best, back, out = np.empty(64), np.empty(64, np.int64), np.empty(64, np.int64)
    for v in range(len(scores)):
        n = viterbi(pieces[offsets[v] : offsets[v + 1]], keys, children, piece, scores, v, best, back, out)
        other = 0.0
        for i in range(n):
            other += scores[out[i]]
        losses[v] = np.inf if n == 0 else expected[v] * (scores[v] - other)
    return losses


def lay_out(strings: Iterable[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Byte strings end to end, and where each starts. (bytes,), (N + 1,)"""
    strings = list(strings)
    offsets = np.zeros(len(strings) + 1, dtype=np.int64)
    np.cumsum([len(s) for s in strings], out=offsets[1:])
    return np.frombuffer(b"".join(strings), dtype=np.uint8), offsets


def train_unigram(word_counts: Counter[bytes], size: int, *, shrink: float = 0.75) -> list[tuple[bytes, float]]:
    """`size` pieces with their log-probabilities, most probable first; all 256 bytes are among them."""
    ordered = sorted(word_counts.items())
    words, offsets = lay_out(word for word, _ in ordered)
    counts = np.array([count for _, count in ordered], dtype=np.float64)
    substrings: Counter[bytes] = Counter()
    most = 8_000_000
    for word, count in ordered:
        for start in range(len(word)):
            for end in range(start + 2, min(len(word), start + LONGEST_PIECE) + 1):
                substrings[word[start:end]] += count
        if len(substrings) > most:  # only for corpora of very many words: forget what was seen once so far
            substrings = Counter({piece: count for piece, count in substrings.items() if count > 1})
            most = max(most, 2 * len(substrings))
    single = [bytes([byte]) for byte in range(256)]
    frequent = sorted(((-count * len(p), p) for p, count in substrings.items() if count > 1))[: max(10 * size, 10_000)]
    pieces = single + [piece for _, piece in frequent]
    weights = np.array([1.0] * 256 + [float(-weight) for weight, _ in frequent])
    scores = np.log(weights / weights.sum())
    while True:
        trie = Trie(pieces)
        for _ in range(2):
            expected = _expect(words, offsets, counts, trie.keys, trie.children, trie.piece, scores)
            scores = np.log(np.maximum(expected, 0.1) / np.maximum(expected, 0.1).sum())  # a byte never seen stays
        if len(pieces) <= size:
            break
        flat, starts = lay_out(pieces)
        losses = _losses(flat, starts, expected, trie.keys, trie.children, trie.piece, scores)
        losses[:256] = np.inf  # bytes always stay
        order = sorted(range(len(pieces)), key=lambda v: (-losses[v], pieces[v]))
        kept = sorted(order[: max(size, int(shrink * len(pieces)))])
        pieces, scores = [pieces[v] for v in kept], scores[kept]
    return sorted(zip(pieces, scores.tolist()), key=lambda item: (-item[1], item[0]))
