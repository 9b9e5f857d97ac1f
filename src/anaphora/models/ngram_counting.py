"""Counting n-grams: from a text of ids to the distinct n-grams of each order, in the trie's order, with counts."""

from __future__ import annotations

import numpy as np

from anaphora.kernels.ngrams import U32, extend, positions_by_word
from anaphora.models.ngram_smoothing import Grams
from anaphora.text.tokenizer import BOS


def count(tokens: U32, words: int, order: int) -> list[Grams]:
    """All n-grams up to `order` of sentences that stand one after the other, each ⟨s⟩ w₁ … ⟨/s⟩, in memory."""
    nothing = np.zeros(0, np.uint32)
    orders = [
        Grams(
            np.arange(words, dtype=np.uint32), nothing, nothing, np.bincount(tokens, minlength=words).astype(np.uint32)
        )
    ]
    if order == 1:
        return orders
    by_word = positions_by_word(tokens, words, BOS)
    ids = tokens.copy()
    for length in range(1, order):
        word, first, suffix, counts, ids = extend(tokens, ids, len(orders[-1].count), by_word, length)
        orders.append(Grams(word, first, suffix, counts))
    return orders
