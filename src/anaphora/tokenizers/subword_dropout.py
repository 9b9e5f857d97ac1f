"""Subword dropout: the same text cut differently at every visit, so that a model learns what subwords are made of.

BPE-dropout (Provilkov et al. 2020) builds each word up from bytes as BPE does, but at every step forgets each possible
merge with probability p. Unigram sampling (Kudo 2018) draws a segmentation with probability ∝ its own ** 0.2; here each
word is drawn anew with probability p and otherwise cut the best way, so that p means about the same for both kinds: 0
changes nothing, 0.1 is the usual value.

The `tokenizers` library can do both, but draws from a generator nobody can seed, and a run could not be repeated. So
here the ids are a pure function of (texts, dropout, seed), whatever the threads. The library still finds the words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.unigram import EMPTY, Trie, ahead, find, hash_table, viterbi

MAX_CACHED_LINES = 500_000  # lines whose words are kept, about 250 bytes each
ALPHA = 0.2  # flattens the distribution over segmentations; 1 would be the model's own, 0 all alike


class SubwordSampler:
    """Encodes with subword dropout; with dropout 0, exactly as the tokenizer does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.kind not in ("bpe", "unigram"):
            raise UserError(
                f"a {tokenizer.kind} tokenizer has no subwords to drop",
                cure="set tokenizer.dropout=0, or tokenizer.kind to bpe or unigram",
            )
        self.tokenizer = tokenizer
        self._split: dict[str, bytes] = {}
        spelled = [tokenizer.token_bytes(id) for id in range(tokenizer.vocabulary_size)]
        model = tokenizer.document["model"]
        if tokenizer.kind == "unigram":
            self.trie = Trie(spelled)
            self.scores = np.array([score for _, score in model["vocab"]])
            return
        ids = model["vocab"]
        pairs = [tuple(merge) for merge in model["merges"]]
        # `ids[a] << 32 | ids[b]` names a pair; the rank of its merge is its place in the list: the first goes first.
        self.keys, slots = hash_table([ids[a] << 32 | ids[b] for a, b in pairs])
        self.ranks = np.zeros(len(self.keys), dtype=np.int64)
        self.ranks[slots] = np.arange(len(pairs))
        self.merged = np.array([ids[a + b] for a, b in pairs], dtype=np.int64)  # by rank
        id_of = {spelling: id for id, spelling in enumerate(spelled)}
        self.byte_ids = np.array([id_of[bytes([byte])] for byte in range(256)], dtype=np.int64)

    def encode_batch(self, texts: Sequence[str], dropout: float, seed: tuple[int, ...]) -> list[np.ndarray]:
        """The ids of each text, one array a text, drawn with this seed."""
        if not 0 <= dropout <= 1:
            raise UserError(f"tokenizer.dropout is {dropout}", cure="make it a probability, 0.1 for example")
        words = [self._words(text) for text in texts]
        sizes = np.frombuffer(b"".join(words), dtype=np.int32)  # bytes of each word of each text
        letters = np.frombuffer("".join(texts).encode(), dtype=np.uint8)
        word_ends = np.cumsum(sizes, dtype=np.int64)
        starts = np.cumsum([0, *(len(sizes) // 4 for sizes in words)])  # words before each text; four bytes an int32
        state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        if self.tokenizer.kind == "bpe":
            table = self.byte_ids, self.keys, self.ranks, self.merged
            out, ends = _merge(letters, word_ends, starts, table, dropout, state)
        else:
            lattice = self.trie.keys, self.trie.children, self.trie.piece, self.scores
            out, ends = _draw(letters, word_ends, starts, lattice, dropout, ALPHA, state)
        return np.split(out, ends[:-1]) if len(texts) else []

    def _words(self, text: str) -> bytes:
        """How many bytes each word of a text has, as packed int32: the library finds words, a line is split once."""
        known = self._split.get(text)
        if known is None:
            pieces = self.tokenizer.rust.pre_tokenizer.pre_tokenize_str(text)
            known = np.array(
                [len(piece) for piece, _ in pieces], dtype=np.int32
            ).tobytes()  # a character stands for a byte
            if len(self._split) < MAX_CACHED_LINES:
                self._split[text] = known
        return known


@njit(nogil=True, cache=True)
def _random(state):
    """SplitMix64 (Steele et al. 2014): the next state and a float in [0, 1)."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(nogil=True, cache=True)
def _start(state, text):
    """Where the stream of one text begins: far from those of its neighbours."""
    z = (state ^ np.uint64(text)) * np.uint64(0xD1342543DE82EF95)
    return z ^ (z >> np.uint64(32))


@njit(nogil=True, cache=True)
def _merge(letters, ends, texts, table, dropout, seed):
    """BPE with dropout, word by word; the ids, and where each text ends among them."""
    byte_ids, keys, ranks, merged = table
    none = np.int64(1) << 40
    out = np.empty(len(letters), np.int64)
    text_ends = np.empty(len(texts) - 1, np.int64)
    rank = np.empty(len(letters) + 1, np.int64)  # of the pair (i, i + 1), relative to the word's start in `out`
    at = 0
    for text in range(len(texts) - 1):
        state = _start(seed, text)
        for word in range(texts[text], texts[text + 1]):
            begin = ends[word - 1] if word else 0
            n = ends[word] - begin
            for i in range(n):
                out[at + i] = byte_ids[letters[begin + i]]
            for i in range(n - 1):
                slot = find(keys, out[at + i] << 32 | out[at + i + 1])
                rank[i] = none if slot == EMPTY else ranks[slot]
            while n > 1:
                lowest, place = none, 0
                for i in range(n - 1):
                    if rank[i] < none and dropout > 0.0:
                        state, drawn = _random(state)
                        if drawn < dropout:
                            continue
                    if rank[i] < lowest:
                        lowest, place = rank[i], i
                if lowest == none:
                    break
                out[at + place] = merged[lowest]
                for i in range(place + 1, n - 1):  # the token after the new one is gone, and with it one pair
                    out[at + i] = out[at + i + 1]
                    rank[i - 1] = rank[i]
                n -= 1
                for i in (place - 1, place):  # the new token's pairs
                    if 0 <= i < n - 1:
                        slot = find(keys, out[at + i] << 32 | out[at + i + 1])
                        rank[i] = none if slot == EMPTY else ranks[slot]
            at += n
        text_ends[text] = at
    return out[:at], text_ends


@njit(nogil=True, cache=True)
def _draw(letters, ends, texts, lattice, dropout, alpha, seed):
    """Unigram: each word cut the best way, or with probability `dropout` drawn from all ways; as `_merge` returns."""
    keys, children, piece, scores = lattice
    out = np.empty(len(letters), np.int64)
    text_ends = np.empty(len(texts) - 1, np.int64)
    best, back = np.empty(len(letters) + 2), np.empty(len(letters) + 2, np.int64)
    at = 0
    for text in range(len(texts) - 1):
        state = _start(seed, text)
        for word in range(texts[text], texts[text + 1]):
            begin = ends[word - 1] if word else 0
            bytes_ = letters[begin : ends[word]]
            state, drawn = _random(state)
            if drawn >= dropout:
                at += viterbi(bytes_, keys, children, piece, scores, EMPTY, best, back, out[at:])
                continue
            ahead(bytes_, keys, children, piece, scores, alpha, best)
            start = 0
            while start < len(bytes_):  # walk forward, each piece with its share of what lies ahead
                state, drawn = _random(state)
                left, node, chosen, chosen_end = drawn, 0, EMPTY, start
                for end in range(start + 1, len(bytes_) + 1):
                    slot = find(keys, node * 256 + bytes_[end - 1])
                    if slot == EMPTY:
                        break
                    node = children[slot]
                    if piece[node] != EMPTY:
                        chosen, chosen_end = piece[node], end  # the last one stands if rounding leaves a remainder
                        left -= np.exp(alpha * scores[chosen] + best[end] - best[start])
                        if left < 0.0:
                            break
                out[at] = chosen
                at += 1
                start = chosen_end
        text_ends[text] = at
    return out[:at], text_ends
