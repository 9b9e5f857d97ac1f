"""Mixtures of experts between LSTM layers (Shazeer et al. 2017): few and narrow LSTMs, and much to know between them.

    reads   LSTM, both ways · … · experts · LSTM           x ← x + lstm(x);   x ← x + σ(experts(x))
    looks   the decoder's lowest layer: c_t = attention(s_{t-1}, source), s_t = lstm([y_{t-1} ; c_t], s_{t-1})
    says    LSTM that looks · … · experts · LSTM           P(y_t) = softmax(W x_t)

It is GNMT (gnmt.py) with most of its layers taken away, 3 + 2 are left, and one layer of experts on each side, before
the last LSTM. An LSTM has to go from word to word; experts see each word's vector by itself, so all words of a batch
ask them at once. What experts are, and what keeps them all in use, is in nn/mixture_of_experts.py.

The paper: layers of 512, cells of 2,048 brought down to 512, experts with 2,048 inside, of which every word asks 4; in
all 8.7 billion parameters with 2,048 experts a side, at less work a word than GNMT with its 278 million
(recipes/moe-paper.yaml). What differs: the state that goes round an LSTM is as wide as its cells, where theirs was
brought down before; upper decoder layers are told what was found, as in GNMT; attention is additive; one gate for all
experts and not two in a row; and the two terms of balance, where they forced every batch to be even.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
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
from anaphora.models.translation.recurrent.recurrent_settings import MoeConfig
from anaphora.nn.encoder_contract import Encoder
from anaphora.nn.mixture_of_experts import Experts, MixtureOfExperts
from anaphora.nn.recurrence import RecurrentEncoder

MOE = System(
    kind="moe",
    rung=7,
    task="translation",
    family="recurrent translators",
    settings="anaphora.models.translation.recurrent.recurrent_settings:MoeConfig",
    model="anaphora.models.translation.recurrent.moe:MoE",
)


def narrowed(hidden: int, dim: int) -> nn.Module:
    """From the width of a cell to that of the layers."""
    return nn.Identity() if hidden == dim else nn.Linear(hidden, dim, bias=False)


def experts_of(experts: Experts, dim: int, hidden: int | None) -> MixtureOfExperts:
    return MixtureOfExperts(
        dim, hidden or 4 * dim, experts=experts.number, per_token=experts.per_token, balance=experts.balance
    )


def added(x: Tensor, y: Tensor, dropout: float, training: bool) -> Tensor:
    """The residual around every layer; where words are wider or narrower than layers, the first has none."""
    y = dropped(y, dropout, training)
    return x + y if x.shape == y.shape else y


def asked(experts: MixtureOfExperts, x: Tensor, dropout: float, training: bool) -> Tensor:
    return x + dropped(torch.sigmoid(experts(x)).to(x.dtype), dropout, training)


class MoeEncoder(Encoder):
    """One layer both ways, then layers one way, experts before the last: (B, S, width) -> (B, S, dim)."""

    causal = False

    def __init__(
        self,
        dim: int,
        *,
        experts: Experts,
        width: int | None = None,
        layers: int = 3,
        hidden: int | None = None,
        expert_hidden: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dim, self.dropout, hidden = dim, dropout, hidden or dim
        if hidden % 2:
            raise ValueError(f"two directions share cells {hidden} wide: it must be an even number")
        first = RecurrentEncoder(hidden, cell="lstm", causal=False, width=width or dim, forget_bias=1.0)
        self.cells = nn.ModuleList([first, *(recurrent(hidden, width=dim) for _ in range(1, layers))])
        self.narrow = nn.ModuleList(narrowed(hidden, dim) for _ in self.cells)
        self.experts = experts_of(experts, dim, expert_hidden)
        self.after = max(1, layers - 1)  # LSTM layers below the experts

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        for number, (cell, narrow) in enumerate(zip(self.cells, self.narrow), start=1):
            x = added(x, narrow(cell(x, lengths)), self.dropout, self.training)
            if number == self.after:
                x = asked(self.experts, x, self.dropout, self.training)
            if every is not None:
                every.append(x)
        return x

    def flops(self, length: float) -> float:
        return _flops(self.cells, self.narrow) + self.experts.flops()


class MoeDecoder(StackedDecoder):
    """A layer that looks, and layers above it that are told what it found; experts before the last."""

    def __init__(self, config: MoeConfig) -> None:
        super().__init__()
        c = config
        self.out_dim, self.dropout, hidden = c.dim, c.dropout, c.hidden or c.dim
        self.layer = AttentiveLayer(
            c.word_dim, hidden, c.memory_dim, score=c.score, attention_dim=c.attention_dim, unroll=c.unroll
        )
        self.above = nn.ModuleList(recurrent(hidden, width=c.dim + c.memory_dim) for _ in range(1, c.decoder_depth))
        self.narrow = nn.ModuleList(narrowed(hidden, c.dim) for _ in range(c.decoder_depth))
        self.experts = experts_of(c.routed, c.dim, c.expert_hidden)
        self.after = max(1, c.decoder_depth - 1)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        states, contexts = self.layer(x, memory, lengths, self.layer.cell.initial_state(len(x), memory)[0])
        x = self._grown(x, states, 1)
        for number, layer in enumerate(self.above, start=2):
            x = self._grown(x, layer(torch.cat([x, contexts.to(x.dtype)], dim=-1)), number)
        return x

    def _grown(self, x: Tensor, states: Tensor, number: int) -> Tensor:
        """What the layer of that number, from 1, makes of x: (…, dim), its states being (…, hidden)."""
        x = added(x, self.narrow[number - 1](states), self.dropout, self.training)
        return asked(self.experts, x, self.dropout, self.training) if number == self.after else x

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        states, context, weights = self.layer.decode_step(x, past, kept, attention=attention)
        x = self._grown(x, states, 1)
        for number, layer in enumerate(self._above(), start=1):
            states = layer.step_cells(torch.cat([x, context.to(x.dtype)], dim=-1), past, prefix=f"{number}.")
            x = self._grown(x, states, number + 1)
        return x, weights

    def _above(self) -> list[RecurrentEncoder]:
        return cast(list[RecurrentEncoder], list(self.above))

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        reading, saying = self.layer.flops(source_length)
        return reading, saying + _flops(self.above, self.narrow) + self.experts.flops()


@dataclass(kw_only=True)
class MoeKeywords(MoeConfig, TranslatorKeywords):
    """What `MoE(…)` takes."""


class MoE(EncoderDecoder):
    """GNMT with a mixture of experts between its layers (Shazeer et al. 2017).

    model = MoE(vocabulary=8_000, dim=256)
    logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)
    """

    @by_keywords(MoeKeywords)
    def __init__(self, config: MoeConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        words = embeddings(config, source_vocabulary, target_vocabulary)
        super().__init__(config, *words, config.build_encoder(), MoeDecoder(config))


def _flops(cells: nn.ModuleList, narrow: nn.ModuleList) -> float:
    """For each token: LSTM layers, and what makes them narrow."""
    linear = sum(weight.numel() for weight in narrow.parameters())
    return sum(cell.flops(1) for cell in cast(list[RecurrentEncoder], list(cells))) + 2.0 * linear
