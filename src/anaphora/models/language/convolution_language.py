"""Convolutions in layers, each place seeing the last few of the layer below (`conv`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anaphora.models.language.language_settings import (
    HELD_BACK,
    LanguageConfig,
    medium_text_epochs,
    small_text_epochs,
)
from anaphora.models.registry import Sizes, System
from anaphora.nn.convolution_settings import ConvolutionEncoderConfig

CONV = System(
    kind="conv",
    rung=18,
    task="language",
    settings="anaphora.models.language.convolution_language:ConvolutionConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class ConvolutionConfig(ConvolutionEncoderConfig, LanguageConfig):
    """Convolutions in layers, by which the next word is guessed."""

    kind: Literal["conv"] = "conv"
    """The kind of model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_dim(self.dim, causal=self.causal)

    @classmethod
    def small(cls, tokens: int) -> Sizes:
        return {"layers": 2, "width": 4}, {"learning_rate": 3e-3, "epochs": small_text_epochs(3.0, tokens)}

    @classmethod
    def medium(cls, tokens: int) -> Sizes:
        model = {"dim": 512, "layers": 6, "width": 4, "dropout": 0.3, **HELD_BACK, "locked": False}
        return model, {"learning_rate": 1e-3, "weight_decay": 0.2, "epochs": medium_text_epochs(40, tokens)}

    @classmethod
    def large(cls, tokens: int) -> Sizes:
        return {"layers": 8, "width": 4}, {"learning_rate": 1e-3, "weight_decay": 0.01}
