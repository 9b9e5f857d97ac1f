"""A cell that carries a state from word to word (`rnn`, `gru`, `lstm`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from anaphora.models.language.language_settings import (
    HELD_BACK,
    LanguageConfig,
    medium_text_epochs,
    small_text_epochs,
)
from anaphora.models.registry import Sizes, System
from anaphora.nn.recurrence_settings import GruEncoderConfig, LstmEncoderConfig, RnnEncoderConfig

PENALTIES = {"activation_penalty": 2.0, "temporal_penalty": 1.0}
"""What keeps states small and steady (Merity et al. 2018)."""

RNN = System(
    kind="rnn",
    rung=15,
    task="language",
    settings="anaphora.models.language.recurrent_language:RnnConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)
GRU = System(
    kind="gru",
    rung=16,
    task="language",
    settings="anaphora.models.language.recurrent_language:GruConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)
LSTM = System(
    kind="lstm",
    rung=17,
    task="language",
    settings="anaphora.models.language.recurrent_language:LstmConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class RecurrentConfig(LanguageConfig):
    """What language models with such a cell have in common."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_dim(self.dim, causal=self.causal)

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        model = {"layers": 1, "input_dropout": 0.1, "output_dropout": 0.2, "locked": True}
        return model, {"learning_rate": 5e-3, "clip_norm": 0.5, "epochs": small_text_epochs(5.0, tokens)}

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        model = {"dim": 400, "hidden": 1150, "layers": 3, "dropout": 0.25, "weight_dropout": 0.5, **HELD_BACK}
        training = {"learning_rate": 2e-3, "clip_norm": 0.25, "weight_decay": 1e-6, **PENALTIES}
        return model, {**training, "epochs": medium_text_epochs(45, tokens)}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        model = {"hidden": 1536, "layers": 2, "locked": True, "output_dropout": 0.1}
        return model, {"learning_rate": 2e-3, "clip_norm": 0.25}

    @classmethod
    def classifier(cls, width: int) -> dict[str, Any]:
        return {"hidden": 2 * width}


@dataclass(kw_only=True)
class RnnConfig(RnnEncoderConfig, RecurrentConfig):
    """A plain cell, by whose state the next word is guessed."""

    kind: Literal["rnn"] = "rnn"
    """The kind of model."""

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        model, training = super().small(tokens)
        return model, {**training, "learning_rate": 2e-3}

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        """It forgets by itself: dropping weights or shrinking states only costs it (docs/lab-notes.md)."""
        model = {"dim": 400, "hidden": 1000, "layers": 2, "dropout": 0.2, **HELD_BACK, "initial": "orthogonal"}
        model |= {"input_dropout": 0.2, "output_dropout": 0.2}
        training = {"learning_rate": 1e-3, "clip_norm": 0.25, "weight_decay": 1e-6}
        return model, {**training, "epochs": medium_text_epochs(30, tokens)}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        model, training = super().large(tokens)
        return {**model, "hidden": 1024, "initial": "orthogonal"}, {**training, "learning_rate": 5e-4}


@dataclass(kw_only=True)
class GruConfig(GruEncoderConfig, RecurrentConfig):
    """A cell with two gates, by whose state the next word is guessed."""

    kind: Literal["gru"] = "gru"
    """The kind of model."""


@dataclass(kw_only=True)
class LstmConfig(LstmEncoderConfig, RecurrentConfig):
    """A cell with three gates and a memory, by whose state the next word is guessed."""

    kind: Literal["lstm"] = "lstm"
    """The kind of model."""

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        model, training = super().medium(tokens)
        return model, {**training, "learning_rate": 3e-3}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        """Its memory has no bound: without the penalties it runs away (docs/lab-notes.md)."""
        model, training = super().large(tokens)
        return model, {**training, "learning_rate": 3e-3, "batch_tokens": 8192, **PENALTIES}
