"""The vectors that a language model has for a word by itself: a Backpack's senses, or the row of an embedding matrix.

Both are (k, d), with k = 1 where there is but a row: so similarity is measured alike (evaluation/sense_similarity.py).
A word is looked up as it stands inside a line, with the space before it where the tokenizer has that; in the case that
was asked for, or else in another that the vocabulary has as one token. A word spelled in pieces has the mean of theirs,
unless the pieces are bytes of a vocabulary of words, which mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.models.backpack.sense_shares import has_senses
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.word_pieces import tokens_of_word

AT_ONCE = 1024
"""Tokens whose senses are formed together."""


def tokens_for(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    """The token of a word, or its pieces; none where the vocabulary has nothing for it."""
    spelled: tuple[int, ...] = ()
    for written in dict.fromkeys((word, word.lower(), word.capitalize(), word.upper())):
        try:
            found = tokens_of_word(tokenizer, written)
        except UserError:  # unknown
            continue
        if found.forms:
            return found.chief
        spelled = spelled or found.pieces
    return spelled if tokenizer.kind in ("bpe", "unigram") else ()


@torch.no_grad()
def word_sense_vectors(model: Any, tokenizer: Tokenizer, words: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """The senses (k, d) of each word that has any."""
    tokens = {word: ids for word in dict.fromkeys(words) if (ids := tokens_for(tokenizer, word))}
    needed = sorted({token for ids in tokens.values() for token in ids})
    table: dict[int, NDArray[np.float32]] = {}
    for begin in range(0, len(needed), AT_ONCE):
        some = needed[begin : begin + AT_ONCE]
        rows = torch.tensor(some, device=model.device)
        vectors = model.sense_vectors(rows) if has_senses(model) else model.embedding.table.weight[rows][:, None]
        table |= zip(some, vectors.float().cpu().numpy())
    return {word: np.mean([table[token] for token in ids], axis=0) for word, ids in tokens.items()}
