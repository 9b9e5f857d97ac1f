"""Settings of the encoders that convolutional translators brought along; any decoder may stand behind one. Nothing here
needs torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from anaphora.config import above_zero
from anaphora.models.translation.convolutional.convolutional_settings import check_width, kernels_of
from anaphora.nn.encoder_settings import EncoderConfig, EncoderEntry

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

CONVS2S = EncoderEntry(
    kind="convs2s",
    settings="anaphora.models.translation.convolutional.convolutional_encoders:ConvS2SEncoderConfig",
)
BYTENET = EncoderEntry(
    kind="bytenet",
    settings="anaphora.models.translation.convolutional.convolutional_encoders:ByteNetEncoderConfig",
)


@dataclass(kw_only=True)
class ConvS2SEncoderConfig(EncoderConfig):
    """Gated convolutions without norms, their size kept (Gehring et al. 2017)."""

    layers: int = 4
    """Gated convolutions."""
    hidden: int | None = None
    """Their width; dim by default."""
    width: int = 3
    """Kernel width of the convolutions, an odd number."""
    stages: list[list[int]] = field(default_factory=list)
    """Layers of several widths: [[layers, dim, width], …]; layers is then their sum."""

    encoder_kind: ClassVar[str] = "convs2s"
    one_way: ClassVar[bool] = False
    placed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")
        check_width(self.width)

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.models.translation.convolutional.convs2s import ConvS2SEncoder

        kernels = kernels_of(self.stages) or [(self.hidden or dim, self.width)] * self.layers
        return ConvS2SEncoder(dim, kernels, dropout=dropout)


@dataclass(kw_only=True)
class ByteNetEncoderConfig(EncoderConfig):
    """Residual blocks of dilated convolutions, each layer seeing twice as far (Kalchbrenner et al. 2016)."""

    layers: int = 10
    """Blocks."""
    hidden: int | None = None
    """Width inside a block, where the convolution is; half of dim by default."""
    width: int = 3
    """Kernel width of the convolutions, an odd number."""
    dilations: int = 5
    """Blocks per set: dilations are 1, 2, 4, …, doubling this many times, then start again from 1."""

    encoder_kind: ClassVar[str] = "bytenet"
    one_way: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")
        check_width(self.width)
        if self.dilations < 1 or self.dilations > 12:
            raise ValueError("dilations must be 1 to 12: the widest are then 2,048 places apart")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.models.translation.convolutional.bytenet import ByteNetEncoder

        return ByteNetEncoder(
            dim,
            hidden=self.hidden,
            layers=self.layers,
            width=self.width,
            dilations=self.dilations,
            dropout=dropout,
        )
