"""Deep averaging: the mean of the words read so far, then feed-forward layers (`dan`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from anaphora.models.language.language_settings import (
    HELD_BACK,
    LanguageConfig,
    medium_text_epochs,
    small_text_epochs,
)
from anaphora.models.registry import Sizes, System
from anaphora.nn.averaging_settings import AveragingEncoderConfig

DAN = System(
    kind="dan",
    rung=13,
    task="language",
    settings="anaphora.models.language.averaging_language:AveragingConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class AveragingConfig(AveragingEncoderConfig, LanguageConfig):
    """A deep averaging network, and what guesses the next word by it."""

    kind: Literal["dan"] = "dan"
    """The kind of model."""

    windowed: ClassVar[bool] = True

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
