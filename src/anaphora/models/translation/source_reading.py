"""What may read the source, by name: any of these stands in front of any decoder.

transformer      attention, in layers                                        nn/transformer.py
lstm, gru, rnn   a cell that reads both ways, or one                         nn/recurrence.py
conv             gated convolutions, in layers                               nn/convolution.py
window           a network over the nearest words                            nn/convolution.py
dan              the mean of all words; order is lost                        nn/encoders.py
deep-att         LSTM layers in turning directions, with fast lanes          models/translation/recurrent/deep_att.py
gnmt             one layer both ways, then one way with residuals            models/translation/recurrent/gnmt.py
moe              LSTM layers with a mixture of experts between them          models/translation/recurrent/moe.py
convs2s          gated convolutions without norms, their size kept           models/translation/convolutional/convs2s.py
bytenet          dilated convolutions, each layer seeing twice as far        models/translation/convolutional/bytenet.py
"""

from __future__ import annotations

from typing import Any

from anaphora.models.translation.translator_settings import RECURRENT, EncoderName
from anaphora.nn.encoder_contract import Encoder
from anaphora.nn.encoders import AveragingEncoder, ConvolutionEncoder, RecurrentEncoder, WindowEncoder
from anaphora.nn.positions import Positions
from anaphora.nn.transformer import TransformerEncoder

CONVOLUTION_WIDTH, WINDOW = 3, 4
"""Words that a convolution sees at once; words that a window sees on each side, its own counted."""


def source_positions(name: EncoderName) -> Positions:
    """How words know where they stand, for readers that would not know by themselves."""
    return "sinusoidal" if name in ("transformer", "conv", "window", "convs2s") else "none"


def build_reader(
    name: EncoderName,
    dim: int,
    *,
    width: int | None = None,
    layers: int = 1,
    dropout: float = 0.0,
    bidirectional: bool = True,
    hidden: int | None = None,
    transformer: dict[str, Any] | None = None,
) -> Encoder:
    """The encoder of that name: vectors of `width` (dim unless given) become vectors of `dim`. `hidden`: width of
    deep-att's cells, dim unless given; `transformer`: what else there is to say of a Transformer."""
    if width not in (None, dim) and name not in (*RECURRENT, "deep-att", "gnmt", "moe"):
        raise ValueError(f"encoder={name} reads vectors as wide as its own, {dim}, not {width}")
    if name == "transformer":
        return TransformerEncoder(dim, layers=layers, dropout=dropout, **(transformer or {}))
    if name in RECURRENT:
        return RecurrentEncoder(
            dim,
            cell=name,  # type: ignore[arg-type]
            layers=layers,
            causal=not bidirectional,
            dropout=dropout,
            width=width,
            forget_bias=1.0 if name == "lstm" else None,
        )
    if name == "conv":
        return ConvolutionEncoder(
            dim, width=CONVOLUTION_WIDTH, layers=layers, causal=False, gated=True, normalised=True, dropout=dropout
        )
    if name == "window":
        return WindowEncoder(dim, size=WINDOW, causal=False, layers=layers, dropout=dropout)
    if name == "dan":
        return AveragingEncoder(dim, layers=layers, dropout=dropout)
    if name == "deep-att":
        from anaphora.models.translation.recurrent.deep_att import InterleavedEncoder

        return InterleavedEncoder(dim, width=width, hidden=hidden, layers=layers, dropout=dropout)
    if name == "convs2s":
        from anaphora.models.translation.convolutional.convs2s import ConvS2SEncoder

        return ConvS2SEncoder(dim, [(dim, CONVOLUTION_WIDTH)] * layers, dropout=dropout)
    if name == "bytenet":
        from anaphora.models.translation.convolutional.bytenet import ByteNetEncoder

        return ByteNetEncoder(dim, layers=layers, dropout=dropout)
    if name == "moe":  # with as many experts as its own settings would have
        from anaphora.models.translation.recurrent.moe import MoeEncoder
        from anaphora.models.translation.recurrent.recurrent_settings import MoeConfig

        return MoeEncoder(MoeConfig(dim=dim, layers=layers, dropout=dropout), dim, width=width)
    from anaphora.models.translation.recurrent.gnmt import GnmtEncoder

    return GnmtEncoder(dim, width=width, layers=layers, dropout=dropout)
