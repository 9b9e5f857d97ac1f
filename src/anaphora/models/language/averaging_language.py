"""Deep averaging: the mean of the words read so far, then feed-forward layers (`dan`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anaphora.config import above_zero
from anaphora.models.language.language_settings import (
    HELD_BACK,
    LanguageConfig,
    medium_text_epochs,
    small_text_epochs,
)
from anaphora.models.registry import Sizes, System

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder


DAN = System(
    kind="dan",
    rung=13,
    task="language",
    settings="anaphora.models.language.averaging_language:AveragingConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class AveragingConfig(LanguageConfig):
    """Deep averaging network (Iyyer et al. 2015): h = the mean of the words so far; h ← activation(W h + b), `layers`
    times. Which words, and how often, but not in what order."""

    kind: Literal["dan"] = "dan"
    """Which system this is."""
    layers: int = 2
    """Feed-forward layers after the mean; residual from the second on."""
    hidden: int | None = None
    """Their width; as wide as the words' vectors by default."""

    windowed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")

    def build_encoder(self, *, causal: bool) -> Encoder:
        from anaphora.nn.encoders import AveragingEncoder

        return AveragingEncoder(
            self.dim,
            causal=causal,
            layers=self.layers,
            hidden=self.hidden,
            dropout=self.dropout,
            locked=self.locked,
        )

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        return {"layers": 2, "hidden": 256}, {"learning_rate": 3e-3, "epochs": small_text_epochs(3.0, tokens)}

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        model = {"dim": 400, "hidden": 1000, "layers": 2, "dropout": 0.4, **HELD_BACK, "locked": False}
        return model, {"learning_rate": 1e-3, "weight_decay": 0.1, "epochs": medium_text_epochs(25, tokens)}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        return {"hidden": 2048, "layers": 2}, {"learning_rate": 1e-3, "weight_decay": 0.01}

    @classmethod
    def classifier(cls, width: int) -> dict[str, Any]:
        return {"hidden": 2 * width}
