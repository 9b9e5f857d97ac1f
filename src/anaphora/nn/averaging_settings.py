"""Settings of the averaging encoder (nn/encoders.py). Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from anaphora.config import above_zero
from anaphora.nn.encoder_settings import EncoderConfig, EncoderEntry

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

DAN = EncoderEntry(
    kind="dan",
    settings="anaphora.nn.averaging_settings:AveragingEncoderConfig",
)


@dataclass(kw_only=True)
class AveragingEncoderConfig(EncoderConfig):
    """Deep averaging network (Iyyer et al. 2015): h = the mean of the words so far; h ← activation(W h + b), `layers`
    times. Which words, and how often, but not in what order."""

    layers: int = 2
    """Number of feed-forward layers after the mean, residual from the second on."""
    hidden: int | None = None
    """Hidden size of these layers; by default dim."""

    encoder_kind: ClassVar[str] = "dan"

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.nn.encoders import AveragingEncoder

        return AveragingEncoder(
            dim, causal=causal, layers=self.layers, hidden=self.hidden, dropout=dropout, locked=locked
        )
