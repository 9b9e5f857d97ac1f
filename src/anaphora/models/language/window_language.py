"""A feed-forward network over the last words, side by side (`window`)."""

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
from anaphora.nn.convolution_settings import WindowEncoderConfig

WINDOW = System(
    kind="window",
    rung=14,
    task="language",
    settings="anaphora.models.language.window_language:WindowConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class WindowConfig(WindowEncoderConfig, LanguageConfig):
    """A feed-forward network over the last words, by which the next one is guessed."""

    kind: Literal["window"] = "window"
    """The kind of model."""

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
