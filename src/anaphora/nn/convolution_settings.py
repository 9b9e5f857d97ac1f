"""Settings of the encoders of nn/convolution.py: windows, at once or in layers. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from anaphora.config import above_zero
from anaphora.nn.encoder_settings import EncoderConfig, EncoderEntry

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

CONV = EncoderEntry(
    kind="conv",
    settings="anaphora.nn.convolution_settings:ConvolutionEncoderConfig",
)
WINDOW = EncoderEntry(
    kind="window",
    settings="anaphora.nn.convolution_settings:WindowEncoderConfig",
)


@dataclass(kw_only=True)
class WindowEncoderConfig(EncoderConfig):
    """A feed-forward network over the last words, side by side (Bengio et al. 2003)."""

    layers: int = 1
    """Number of feed-forward layers, residual from the second on."""
    window: int = 5
    """Words that it sees: the last so many, or as many on each side, its own counted."""
    hidden: int | None = None
    """Hidden size of the layers; by default dim."""

    encoder_kind: ClassVar[str] = "window"
    placed: ClassVar[bool] = True
    in_front: ClassVar[Mapping[str, Any]] = {"window": 4}

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden", "window")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.nn.convolution import WindowEncoder

        return WindowEncoder(
            dim,
            size=self.window,
            causal=causal,
            layers=self.layers,
            hidden=self.hidden,
            dropout=dropout,
            locked=locked,
        )


@dataclass(kw_only=True)
class ConvolutionEncoderConfig(EncoderConfig):
    """Convolutions in layers, each place seeing the last `width` of the layer below, or as many on both sides
    (Dauphin et al. 2017)."""

    layers: int = 4
    """Number of convolutions, each with a residual connection."""
    width: int = 3
    """Kernel width of the convolutions."""
    dilated: bool = False
    """Dilations that double in each layer: L layers then see 1 + (2^L - 1)(width - 1) words."""
    gated: bool = True
    """Gated linear units, a · σ(b), instead of ReLU."""
    normalized: bool = True
    """Layer normalization before each convolution and after the last."""

    encoder_kind: ClassVar[str] = "conv"
    placed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "width")
        if self.dilated and self.layers > 20:
            raise ValueError(f"{self.layers} dilated layers would see more than a million words; choose fewer layers")

    def check_dim(self, dim: int, *, causal: bool = False, named: str = "dim") -> None:
        if not causal and self.width % 2 == 0:
            raise ValueError(f"width ({self.width}) must be odd where a place sees as many words on each side")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.nn.convolution import ConvolutionEncoder

        return ConvolutionEncoder(
            dim,
            width=self.width,
            layers=self.layers,
            causal=causal,
            dilated=self.dilated,
            gated=self.gated,
            normalized=self.normalized,
            dropout=dropout,
            locked=locked,
        )
