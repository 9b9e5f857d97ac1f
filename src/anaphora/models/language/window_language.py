"""A feed-forward network over the last words, side by side (`window`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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


WINDOW = System(
    kind="window",
    rung=14,
    task="language",
    settings="anaphora.models.language.window_language:WindowConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class WindowConfig(LanguageConfig):
    """A feed-forward network over the last words, side by side (Bengio et al. 2003)."""

    kind: Literal["window"] = "window"
    """Which system this is."""
    layers: int = 1
    """Feed-forward layers; residual from the second on."""
    window: int = 5
    """Words that it sees: a word is predicted from so many before it."""
    hidden: int | None = None
    """Width of the layers; as wide as the words' vectors by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden", "window")

    def build_encoder(self, *, causal: bool) -> Encoder:
        from anaphora.nn.encoders import WindowEncoder

        return WindowEncoder(
            self.dim,
            size=self.window,
            causal=causal,
            layers=self.layers,
            hidden=self.hidden,
            dropout=self.dropout,
            locked=self.locked,
        )

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        model = {"layers": 1, "window": 6, "hidden": 256}
        return model, {"learning_rate": 3e-3, "epochs": small_text_epochs(3.0, tokens)}

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        model = {"dim": 400, "hidden": 1000, "layers": 2, "window": 6, "dropout": 0.4, **HELD_BACK, "locked": False}
        return model, {"learning_rate": 1e-3, "weight_decay": 0.1, "epochs": medium_text_epochs(25, tokens)}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        return {"hidden": 2048, "layers": 2, "window": 8}, {"learning_rate": 1e-3, "weight_decay": 0.01}

    @classmethod
    def classifier(cls, width: int) -> dict[str, Any]:
        return {"hidden": 2 * width}
