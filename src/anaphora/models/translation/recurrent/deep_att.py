"""Deep-Att (Zhou et al. 2016): deep LSTMs with *fast-forward connections*, lanes through all layers, without a state.

    f_k = W_k [half(f_{k-1}) ; h_{k-1}]        the lane: linear, no state in it; f_1 = W_1 x
    h_k = lstm(f_k + U h_k of the word before)  the layer: the lane is the share of its gates that comes from below

so that a gradient comes from the last layer to the first through matrices alone. Layers read in turning directions: in
one column forwards, backwards, forwards …, in the other the reverse; what both say at last is brought down to the
memory. The decoder has one column, one way; its lowest lane reads [y_{t-1} ; c_t], the look that its state asked for.

W_k is the input matrix of the k-th LSTM, so a layer is one call of the kernels, and half of the lane one product more.
The paper: 9 + 7 layers of 512 cells, words of 512, memory of 1,280; recipes/deep-att-paper.yaml (dimensions as we read
them; the paper states no number of parameters). What differs: states begin from zeros, and what predicts words is one
more linear layer over [h ; half(f)] of the top.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.models.keywords import TranslatorKeywords, by_keywords
from anaphora.models.registry import System
from anaphora.models.translation.encoder_decoder import EncoderDecoder
from anaphora.models.translation.recurrent.recurrent_decoder import (
    AttentiveLayer,
    StackedDecoder,
    dropped,
    embeddings,
    recurrent,
)
from anaphora.models.translation.recurrent.recurrent_settings import DeepAttConfig
from anaphora.nn.encoder_contract import Encoder
from anaphora.nn.recurrence import RecurrentEncoder, turned

DEEP_ATT = System(
    kind="deep-att",
    rung=5,
    task="translation",
    family="recurrent translators",
    settings="anaphora.models.translation.recurrent.recurrent_settings:DeepAttConfig",
    model="anaphora.models.translation.recurrent.deep_att:DeepAtt",
)

COLUMNS = 2


def lane(x: Tensor, layer: RecurrentEncoder, rows: int | None = None) -> Tensor:
    """f = W x of a layer, or its first rows."""
    return F.linear(x, layer.cell.weight_ih_l0[:rows])  # type: ignore[index]


class InterleavedEncoder(Encoder):
    """Two columns of LSTM layers, `hidden` wide, in turning directions: (B, S, width) -> (B, S, dim)."""

    causal = False

    def __init__(
        self, dim: int, *, width: int | None = None, hidden: int | None = None, layers: int = 9, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dim, self.dropout, hidden = dim, dropout, hidden or dim
        self.lane = 2 * hidden
        self.columns = nn.ModuleList(
            nn.ModuleList(recurrent(hidden, width=3 * hidden if number else width or dim) for number in range(layers))
            for _ in range(COLUMNS)
        )
        self.join = nn.Linear(COLUMNS * 5 * hidden, dim)
        nn.init.xavier_uniform_(self.join.weight)
        nn.init.zeros_(self.join.bias)

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        if lengths is None:
            lengths = torch.full((len(x),), x.shape[1], device=x.device)
        said = [self._column(number, x, lengths) for number in range(COLUMNS)]
        if every is not None:  # of both columns side by side
            every += [torch.cat(both, dim=-1) for both in zip(*(layers for layers, _ in said))]
        y = self.join(torch.cat([end for _, end in said], dim=-1))
        if every is not None:
            every[-1] = y
        return y

    def _column(self, column: int, x: Tensor, lengths: Tensor) -> tuple[list[Tensor], Tensor]:
        """What each layer says, (B, S, hidden), and [h ; f] of the last, (B, S, 5 · hidden)."""
        layers, said = list(self.columns[column]), []  # type: ignore[call-overload]
        for number, layer in enumerate(layers):
            backwards = (number + column) % 2 == 1
            given = dropped(x, self.dropout, self.training) if number else x
            h = turned(layer(turned(given, lengths)), lengths) if backwards else layer(given)
            said.append(h)
            last = number == len(layers) - 1
            f = lane(given, layer, None if last else self.lane)
            x = torch.cat([h, f.to(h.dtype)], dim=-1) if last else torch.cat([f.to(h.dtype), h], dim=-1)
        return said, x

    def flops(self, length: float) -> float:
        total = 2.0 * self.join.weight.numel()
        for column in self.columns:
            layers = list(column)  # type: ignore[call-overload]
            total += sum(layer.flops(length) + layer.cell.weight_ih_l0.numel() for layer in layers)  # half of W again
            total += layers[-1].cell.weight_ih_l0.numel()  # all of the last one's
        return total


class DeepAttDecoder(StackedDecoder):
    """A layer that looks, and layers above it on the lane."""

    def __init__(self, config: DeepAttConfig) -> None:
        super().__init__()
        c = config
        self.out_dim, self.dropout, self.lane = c.word_dim, c.dropout, 2 * c.dim
        self.layer = AttentiveLayer(
            c.word_dim, c.dim, c.memory_dim, score=c.score, attention_dim=c.attention_dim, unroll=c.unroll
        )
        self.above = nn.ModuleList(recurrent(c.dim, width=3 * c.dim) for _ in range(1, c.decoder_depth))
        self.readout = nn.Linear(3 * c.dim, self.out_dim)
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        h, contexts = self.layer(x, memory, lengths, self.layer.cell.initial_state(len(x), memory)[0])
        given, below = torch.cat([x.to(h.dtype), contexts.to(h.dtype)], dim=-1), self.layer.cell
        for layer in self.above:
            x = torch.cat([lane(given, below, self.lane).to(h.dtype), h], dim=-1)
            given, below = dropped(x, self.dropout, self.training), layer  # type: ignore[assignment]
            h = layer(given)
        top = torch.cat([lane(given, below, self.lane).to(h.dtype), h], dim=-1)
        return dropped(self.readout(top), self.dropout, self.training)

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        h, context, weights = self.layer.decode_step(x, past, kept, attention=attention)
        given, below = torch.cat([x.to(h.dtype), context.to(h.dtype)], dim=-1), self.layer.cell
        for number, layer in enumerate(self.above, start=1):
            given = torch.cat([lane(given, below, self.lane).to(h.dtype), h], dim=-1)
            h = layer.step_cells(given, past, prefix=f"{number}.")  # type: ignore[operator]
            below = layer  # type: ignore[assignment]
        return self.readout(torch.cat([lane(given, below, self.lane).to(h.dtype), h], dim=-1)), weights

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        reading, saying = self.layer.flops(source_length)
        cells = [self.layer.cell, *self.above]
        lanes = sum(cell.cell.weight_ih_l0.numel() for cell in cells)
        above = sum(layer.flops(1) for layer in self.above)  # type: ignore[operator]
        return reading, saying + above + lanes + 2.0 * self.readout.weight.numel()


@dataclass(kw_only=True)
class DeepAttKeywords(DeepAttConfig, TranslatorKeywords):
    """What `DeepAtt(…)` takes."""


class DeepAtt(EncoderDecoder):
    """Deep LSTMs in turning directions with fast-forward lanes, and attention (Zhou et al. 2016).

    model = DeepAtt(vocabulary=8_000, dim=256)
    logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)
    """

    @by_keywords(DeepAttKeywords)
    def __init__(self, config: DeepAttConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        words = embeddings(config, source_vocabulary, target_vocabulary)
        super().__init__(config, *words, config.build_encoder(), DeepAttDecoder(config))
