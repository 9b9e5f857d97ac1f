"""The vectors of words by themselves: another case of them, pieces of them, and bytes that mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anaphora.models.backpack.sense_vectors import tokens_for, word_sense_vectors
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from neural_rungs import rung

LINES = ["sick dogs are sick", "the sick dog", "dog sick dog"] * 4


def test_bytes_of_a_vocabulary_of_words_are_no_word() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word"), LINES)
    assert not tokenizer.has_unknown and len(tokenizer.encode("cat")) > 1
    assert tokens_for(tokenizer, "cat") == ()
    assert tokens_for(tokenizer, "Dog") == tokens_for(tokenizer, "dog") == tuple(tokenizer.encode("dog"))


@pytest.mark.parametrize("senses", [2, None])
def test_a_word_in_pieces_has_the_mean_of_theirs(senses: int | None) -> None:
    """Of a Backpack, and of a model that has rows of a table alone."""
    tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe", vocabulary=300), LINES)
    size = tokenizer.vocabulary_size
    model = (rung("lstm", size) if senses is None else rung("backpack", size, senses=senses))()
    found = word_sense_vectors(model, tokenizer, ["sick", "sickzig"])
    pieces = torch.tensor(tokenizer.encode(" sickzig"))
    with torch.no_grad():
        own = model.embedding.table.weight[pieces][:, None] if senses is None else model.sense_vectors(pieces)
    np.testing.assert_allclose(found["sickzig"], own.mean(dim=0).numpy(), atol=1e-6)
    assert found["sick"].shape == found["sickzig"].shape == (senses or 1, 8)
