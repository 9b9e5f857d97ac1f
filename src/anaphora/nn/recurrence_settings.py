"""Settings of recurrent encoders (nn/recurrence.py). Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anaphora.config import above_zero
from anaphora.nn.choices import check_share
from anaphora.nn.encoder_settings import EncoderConfig, EncoderEntry

if TYPE_CHECKING:
    from anaphora.nn.encoder_contract import Encoder

LSTM = EncoderEntry(
    kind="lstm",
    settings="anaphora.nn.recurrence_settings:LstmEncoderConfig",
)
GRU = EncoderEntry(
    kind="gru",
    settings="anaphora.nn.recurrence_settings:GruEncoderConfig",
)
RNN = EncoderEntry(
    kind="rnn",
    settings="anaphora.nn.recurrence_settings:RnnEncoderConfig",
)


@dataclass(kw_only=True)
class RecurrentEncoderConfig(EncoderConfig):
    """A cell that carries a state from word to word; both ways, a second one reads backwards."""

    layers: int = 1
    """Number of layers."""
    hidden: int | None = None
    """Hidden size of every layer but the last, whose size is dim; by default dim."""
    weight_dropout: float = 0.0
    """Dropout on the recurrent weight matrices, with the same mask at all positions (Merity et al. 2018)."""
    initial: Literal["uniform", "orthogonal"] = "uniform"
    """Initialization of the recurrent weight matrices: small uniform numbers, or an orthogonal matrix, under which
    states neither vanish nor explode."""

    two_directions: ClassVar[bool] = True
    any_width: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")
        check_share("weight_dropout", self.weight_dropout)

    def check_dim(self, dim: int, *, causal: bool = False, named: str = "dim") -> None:
        super().check_dim(dim, causal=causal, named=named)
        if not causal and (self.hidden or 0) % 2:
            raise ValueError(f"two directions share hidden ({self.hidden}): make it even")

    @property
    def gate_bias(self) -> float | None:
        """How open the gate of a memory begins, in a cell that has one."""
        return None

    def build(
        self, dim: int, *, causal: bool = False, width: int | None = None, dropout: float = 0.0, locked: bool = False
    ) -> Encoder:
        from anaphora.nn.recurrence import RecurrentEncoder

        return RecurrentEncoder(
            dim,
            cell=self.encoder_kind,  # type: ignore[arg-type]
            layers=self.layers,
            causal=causal,
            dropout=dropout,
            hidden=self.hidden,
            locked=locked,
            weight_dropout=self.weight_dropout,
            initial=self.initial,
            forget_bias=self.gate_bias,
            width=width,
        )


@dataclass(kw_only=True)
class RnnEncoderConfig(RecurrentEncoderConfig):
    """h_t = tanh(W x_t + U h_{t-1} + b) (Elman 1990; Mikolov et al. 2010)."""

    encoder_kind: ClassVar[str] = "rnn"


@dataclass(kw_only=True)
class GruEncoderConfig(RecurrentEncoderConfig):
    """A recurrent cell with two gates (Cho et al. 2014)."""

    encoder_kind: ClassVar[str] = "gru"


@dataclass(kw_only=True)
class LstmEncoderConfig(RecurrentEncoderConfig):
    """A recurrent cell with three gates and a memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000)."""

    forget_bias: float | None = None
    """How open the gate of the memory begins: at 1 it keeps three quarters from word to word (Gers et al. 2000;
    Jozefowicz et al. 2015); null: near 0, where it keeps half."""

    encoder_kind: ClassVar[str] = "lstm"
    in_front: ClassVar[Mapping[str, Any]] = {"forget_bias": 1.0}

    @property
    def gate_bias(self) -> float | None:
        return self.forget_bias
