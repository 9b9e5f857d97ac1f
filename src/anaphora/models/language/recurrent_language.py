"""A cell that carries a state from word to word (`rnn`, `gru`, `lstm`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from anaphora.config import above_zero
from anaphora.models.language.language_settings import (
    HELD_BACK,
    LanguageConfig,
    medium_text_epochs,
    share,
    small_text_epochs,
)
from anaphora.models.registry import Sizes, System

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

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
    """A cell that carries a state from word to word."""

    hidden: int | None = None
    """Width of every layer but the last, which is as wide as the words' vectors; the same width by default."""
    weight_dropout: float = 0.0
    """On the matrices that carry the state from word to word, the same ones at all places (Merity et al. 2018)."""
    initial: Literal["uniform", "orthogonal"] = "uniform"
    """How those matrices begin: small numbers, or a rotation, under which a state neither fades nor explodes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")
        share("weight_dropout", self.weight_dropout)
        if self.both_ways and (self.dim % 2 or (self.hidden or 0) % 2):
            raise ValueError(f"two directions share dim ({self.dim}) and hidden ({self.hidden}); make them even")

    def build_encoder(self, *, causal: bool) -> Encoder:
        from anaphora.nn.encoders import RecurrentEncoder

        return RecurrentEncoder(
            self.dim,
            cell=self.kind,  # type: ignore[arg-type]
            layers=self.layers,
            causal=causal,
            dropout=self.dropout,
            hidden=self.hidden,
            locked=self.locked,
            weight_dropout=self.weight_dropout,
            initial=self.initial,
            forget_bias=self.gate_bias,
        )

    @property
    def gate_bias(self) -> float | None:
        """How open the gate of a memory begins, in a cell that has one."""
        return None

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
class RnnConfig(RecurrentConfig):
    """h_t = tanh(W x_t + U h_{t-1} + b) (Elman 1990; Mikolov et al. 2010)."""

    kind: Literal["rnn"] = "rnn"
    """Which system this is."""

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
class GruConfig(RecurrentConfig):
    """A recurrent cell with two gates (Cho et al. 2014)."""

    kind: Literal["gru"] = "gru"
    """Which system this is."""


@dataclass(kw_only=True)
class LstmConfig(RecurrentConfig):
    """A recurrent cell with three gates and a memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000)."""

    kind: Literal["lstm"] = "lstm"
    """Which system this is."""
    forget_bias: float | None = None
    """How open the gate of the memory begins: at 1 it keeps three quarters from word to word (Gers et al. 2000;
    Jozefowicz et al. 2015); null: near 0, where it keeps half."""

    @property
    def gate_bias(self) -> float | None:
        return self.forget_bias

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        model, training = super().medium(tokens)
        return model, {**training, "learning_rate": 3e-3}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        """Its memory has no bound: without the penalties it runs away (docs/lab-notes.md)."""
        model, training = super().large(tokens)
        return model, {**training, "learning_rate": 3e-3, "batch_tokens": 8192, **PENALTIES}
