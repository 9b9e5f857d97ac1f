"""Convolutions in layers, each place seeing the last few of the layer below (`conv`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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


CONV = System(
    kind="conv",
    rung=18,
    task="language",
    settings="anaphora.models.language.convolution_language:ConvolutionConfig",
    model="anaphora.models.language.causal:CausalLM",
    read="anaphora.models:read_neural",
)


@dataclass(kw_only=True)
class ConvolutionConfig(LanguageConfig):
    """Convolutions in layers, each place seeing the last `width` of the layer below (Dauphin et al. 2017)."""

    kind: Literal["conv"] = "conv"
    """Which system this is."""
    layers: int = 4
    """Convolutions, each with a residual."""
    width: int = 3
    """Places of the layer below that a place sees."""
    dilated: bool = False
    """Twice as far apart in each layer: L layers then see 1 + (2^L - 1)(width - 1) words."""
    gated: bool = True
    """Each layer is a product with a gate, a · σ(b), instead of ReLU."""
    normalised: bool = True
    """Layer normalisation before each convolution and after the last."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "width")
        if self.both_ways and self.width % 2 == 0:
            raise ValueError(f"width ({self.width}) must be odd where a place sees as many words on each side")
        if self.dilated and self.layers > 20:
            raise ValueError(f"{self.layers} dilated layers would see more than a million words; choose fewer layers")

    def build_encoder(self, *, causal: bool) -> Encoder:
        from anaphora.nn.encoders import ConvolutionEncoder

        return ConvolutionEncoder(
            self.dim,
            width=self.width,
            layers=self.layers,
            causal=causal,
            dilated=self.dilated,
            gated=self.gated,
            normalised=self.normalised,
            dropout=self.dropout,
            locked=self.locked,
        )

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
