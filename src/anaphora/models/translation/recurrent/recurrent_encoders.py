"""Settings of the encoders that deep recurrent translators brought along; any decoder may stand behind one. Nothing
here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from anaphora.config import above_zero
from anaphora.nn.encoder_settings import EncoderConfig, EncoderEntry
from anaphora.nn.expert_settings import chosen_experts

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

DEEP_ATT = EncoderEntry(
    kind="deep-att",
    settings="anaphora.models.translation.recurrent.recurrent_encoders:DeepAttEncoderConfig",
)
GNMT = EncoderEntry(
    kind="gnmt",
    settings="anaphora.models.translation.recurrent.recurrent_encoders:GnmtEncoderConfig",
)
MOE = EncoderEntry(
    kind="moe",
    settings="anaphora.models.translation.recurrent.recurrent_encoders:MoeEncoderConfig",
)


@dataclass(kw_only=True)
class DeepAttEncoderConfig(EncoderConfig):
    """Two columns of LSTM layers in turning directions, with fast-forward connections (Zhou et al. 2016)."""

    layers: int = 9
    """Layers, in each of two columns."""
    hidden: int | None = None
    """Width of the cells; that of a recurrent decoder's by default."""

    encoder_kind: ClassVar[str] = "deep-att"
    one_way: ClassVar[bool] = False
    any_width: ClassVar[bool] = True
    hidden_of_decoder: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.models.translation.recurrent.deep_att import InterleavedEncoder

        return InterleavedEncoder(dim, width=width, hidden=self.hidden, layers=self.layers, dropout=dropout)


@dataclass(kw_only=True)
class GnmtEncoderConfig(EncoderConfig):
    """One LSTM layer both ways, then layers one way, with residuals (Wu et al. 2016)."""

    layers: int = 8
    """Layers, the first of which reads both ways."""

    encoder_kind: ClassVar[str] = "gnmt"
    one_way: ClassVar[bool] = False
    any_width: ClassVar[bool] = True

    def check_dim(self, dim: int, *, causal: bool = False, named: str = "dim") -> None:
        if self.layers == 1 and dim % 2:
            raise ValueError(f"two directions share {dim} dimensions: make {named} even")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.models.translation.recurrent.gnmt import GnmtEncoder

        return GnmtEncoder(dim, width=width, layers=self.layers, dropout=dropout)


@dataclass(kw_only=True)
class MoeEncoderConfig(EncoderConfig):
    """LSTM layers with a mixture of experts between them (Shazeer et al. 2017)."""

    layers: int = 3
    """Layers, the first of which reads both ways; experts stand before the last."""
    hidden: int | None = None
    """Hidden size of the LSTM cells, whose outputs are projected to dim; by default dim."""
    experts: int = 8
    """Experts, each token being routed to a few of them."""
    experts_per_token: int | None = None
    """Number of experts per token; by default 2."""
    expert_hidden: int | None = None
    """Hidden size of each expert; by default four times dim."""
    expert_balance: float = 0.1
    """Weight of the load-balancing loss."""

    encoder_kind: ClassVar[str] = "moe"
    one_way: ClassVar[bool] = False
    any_width: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden", "expert_hidden")
        chosen_experts(self)

    def check_dim(self, dim: int, *, causal: bool = False, named: str = "dim") -> None:
        if (self.hidden or dim) % 2:
            raise ValueError(f"two directions share cells {self.hidden or dim} wide: make hidden even")

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.models.translation.recurrent.moe import MoeEncoder
        from anaphora.nn.mixture_of_experts import Experts

        return MoeEncoder(
            dim,
            width=width,
            layers=self.layers,
            hidden=self.hidden,
            experts=Experts(**chosen_experts(self) or {}),
            expert_hidden=self.expert_hidden,
            dropout=dropout,
        )
