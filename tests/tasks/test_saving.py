"""`anaphora.save`: a model of one's own loop as a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import anaphora
from anaphora import models
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig

LINES = ["the dog sees the cat", "the cat sees a dog", "a man walks home"] * 20
TOKENIZER, OTHER = (Tokenizer.train(TokenizerConfig(kind="bpe", vocabulary=size), LINES) for size in (290, 280))
SIZE = TOKENIZER.vocabulary_size
SMALL: dict[str, Any] = {"dim": 16, "layers": 1}


def test_what_was_saved_is_loaded_as_it_was(tmp_path: Path) -> None:
    model = models.CausalLM(encoder="gru", vocabulary=SIZE, **SMALL).eval()
    anaphora.save(model, tmp_path / "text", TOKENIZER)
    loaded = anaphora.load(tmp_path / "text", device="cpu")
    assert isinstance(loaded, anaphora.TextModel)
    ids = torch.tensor([[1, *TOKENIZER.encode("the cat")]])
    torch.testing.assert_close(loaded.model(ids), model(ids))
    assert loaded.score("the cat").log_probability < 0


def test_two_vocabularies(tmp_path: Path) -> None:
    model = models.Luong(vocabulary=(SIZE, OTHER.vocabulary_size), **SMALL)
    anaphora.save(model, tmp_path, (TOKENIZER, OTHER))
    loaded = anaphora.load(tmp_path, device="cpu")
    assert isinstance(loaded, anaphora.TranslationModel)
    assert (len(loaded.source_tokenizer), len(loaded.target_tokenizer)) == (SIZE, OTHER.vocabulary_size)
    assert isinstance(loaded.translate("the dog", max_length=3).text, str)


def test_what_cannot_be_a_model_folder_is_refused(tmp_path: Path) -> None:
    model = models.CausalLM(encoder="gru", vocabulary=SIZE, **SMALL)
    for thing, tokenizer, words in (
        (nn.Linear(1, 1), TOKENIZER, "Linear is no model that a folder can describe"),
        (model, OTHER, f"knows {OTHER.vocabulary_size} tokens, and the model {SIZE}; make the model with vocabulary="),
        (model, (TOKENIZER, OTHER), "tokenizer is"),
    ):
        with pytest.raises(UserError, match=words):
            anaphora.save(thing, tmp_path, tokenizer)
    anaphora.save(model, tmp_path, TOKENIZER)
    with pytest.raises(UserError, match="holds a model already; choose another folder, or force=True"):
        anaphora.save(model, tmp_path, TOKENIZER)
    anaphora.save(model, tmp_path, TOKENIZER, force=True)
