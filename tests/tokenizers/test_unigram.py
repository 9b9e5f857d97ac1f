"""The unigram trainer: a distribution over pieces, the frequent ones among them, whatever the order of the words."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.tokenizers.unigram import EMPTY, Trie, find, hash_table, train_unigram, viterbi

WORDS = Counter({b" dog": 40, b" dogs": 30, b" cat": 20, b" cats": 25, b" doghouse": 7, " Straße".encode(): 9})


def test_pieces_are_a_distribution_with_all_bytes() -> None:
    pieces = train_unigram(WORDS, 270)
    assert len(pieces) == 270
    assert {bytes([byte]) for byte in range(256)} <= {piece for piece, _ in pieces}
    assert abs(np.exp([score for _, score in pieces]).sum() - 1) < 1e-6
    assert [score for _, score in pieces] == sorted((score for _, score in pieces), reverse=True)
    assert {b" dog", b" cat"} <= {piece for piece, _ in pieces}


def test_the_order_of_words_does_not_matter() -> None:
    shuffled = list(WORDS.items())
    random.Random(3).shuffle(shuffled)
    assert train_unigram(Counter(dict(shuffled)), 265) == train_unigram(WORDS, 265)


@settings(deadline=None)
@given(keys=st.sets(st.integers(0, 2**62), max_size=200), absent=st.integers(0, 2**62))
def test_the_hash_table_finds_what_is_in_it(keys: set[int], absent: int) -> None:
    table, slots = hash_table(list(keys))
    assert [find(table, key) for key in keys] == slots.tolist()
    assert absent in keys or find(table, absent) == EMPTY


@settings(deadline=None)
@given(
    word=st.binary(min_size=1, max_size=8).map(lambda word: bytes(byte % 3 for byte in word)), seed=st.integers(0, 99)
)
def test_viterbi_is_the_best_of_all_segmentations(word: bytes, seed: int) -> None:
    draw = np.random.default_rng(seed)
    pieces = [b"\0", b"\1", b"\2", b"\0\1", b"\1\1", b"\0\1\2", b"\2\2\2"]
    scores = np.log(draw.dirichlet(np.ones(len(pieces))))
    trie = Trie(pieces)
    best, back, out = np.empty(10), np.empty(10, np.int64), np.empty(10, np.int64)
    letters = np.frombuffer(word, np.uint8)
    n = viterbi(letters, trie.keys, trie.children, trie.piece, scores, EMPTY, best, back, out)
    assert b"".join(pieces[i] for i in out[:n]) == word
    known = dict(zip(pieces, scores))
    every = []
    for bits in range(2 ** (len(word) - 1)):  # each bit: cut here or not
        borders = [0, *(i + 1 for i in range(len(word) - 1) if bits >> i & 1), len(word)]
        cut = [word[a:b] for a, b in pairwise(borders)]
        if all(piece in known for piece in cut):
            every.append(sum(known[piece] for piece in cut))
    assert np.isclose(scores[out[:n]].sum(), max(every))
