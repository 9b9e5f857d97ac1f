"""A Backpack of a few words with random weights, for tests of what can be done to its senses."""

from __future__ import annotations

from typing import Any

import torch

from anaphora.models import build_language_model, settings
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.patch import MadeFor
from anaphora.models.backpack.patched import WordLookup, made_for
from anaphora.tokenizers.tokenizer import Tokenizer

WORDS = ["the", "a", "said", "that", "nurse", "doctor", "cook", "judge", "he", "she"]
WORDS += ["sick", "trick", "party", "man", "dog", "ill", "great", "run"]


def small_backpack(*, senses: int = 4, seed: int = 3, **said: object) -> tuple[Backpack, Tokenizer]:
    """The model, with weights large enough to have opinions, and its words."""
    tokenizer = Tokenizer.of_words(WORDS)
    shape = {
        "kind": "backpack",
        "senses": senses,
        "dim": 16,
        "layers": 2,
        "heads": 2,
        "max_length": 32,
        "near_senses": 0,
        **said,
    }
    torch.manual_seed(seed)
    model: Any = build_language_model(settings(shape), tokenizer.vocabulary_size)  # type: ignore[arg-type]
    model.eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model, tokenizer


def looked_up(model: Backpack, tokenizer: Tokenizer) -> tuple[MadeFor, WordLookup]:
    return made_for(model, tokenizer), WordLookup(tokenizer)
