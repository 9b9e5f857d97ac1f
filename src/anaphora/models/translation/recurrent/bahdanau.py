"""Attention as it came into the world (Bahdanau et al. 2015): before each word, a look at the source.

    reads    two cells, one forwards, one backwards: h_j = [→h_j ; ←h_j]
    looks    e_j = v · tanh(W s_{t-1} + U h_j)       α = softmax(e)        c_t = Σ_j α_j h_j
    goes on  s_t = cell([y_{t-1} ; c_t], s_{t-1})
    says     t = maxout(W_o [s_t ; y_{t-1} ; c_t])   P(y_t) = softmax(W t)

The paper (RNNsearch): GRU cells of 1,000, words of 620, maxout of 500; recipes/bahdanau-paper.yaml. What differs here:
PyTorch's GRU resets the state after its product, not before; s₀ is made of the mean of the source's vectors, which any
encoder has; the maxout layer reads the new state. LSTM, the other scores and further layers above are choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from anaphora.models.keywords import TranslatorKeywords, by_keywords
from anaphora.models.registry import System
from anaphora.models.translation.encoder_decoder import EncoderDecoder
from anaphora.models.translation.recurrent.recurrent_decoder import (
    AttentiveLayer,
    Bridge,
    RecurrentDecoder,
    dropped,
    embeddings,
    recurrent,
    remember_source,
)
from anaphora.models.translation.recurrent.recurrent_settings import BahdanauConfig

BAHDANAU = System(
    kind="bahdanau",
    rung=3,
    task="translation",
    family="recurrent translators",
    settings="anaphora.models.translation.recurrent.recurrent_settings:BahdanauConfig",
    model="anaphora.models.translation.recurrent.bahdanau:Bahdanau",
)


class Maxout(nn.Module):
    """max of each pair of W x + b: (…, width) -> (…, dim) (Goodfellow et al. 2013)."""

    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * dim)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        larger: Tensor = _Larger.apply(self.linear(x))
        return larger


class _Larger(torch.autograd.Function):
    """max of the two halves, (…, 2 · dim) -> (…, dim). On the way back it takes a third of the time of PyTorch's, and
    gives the same: all to the larger, and to equals half each."""

    @staticmethod
    def forward(ctx: Any, halves: Tensor) -> Tensor:
        ctx.save_for_backward(halves)
        return torch.maximum(*halves.chunk(2, dim=-1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (halves,) = ctx.saved_tensors
        one, other = halves.chunk(2, dim=-1)
        back = torch.empty_like(halves)
        at_one, at_other = back.chunk(2, dim=-1)
        torch.mul(grad, (one - other).sign_().add_(1).mul_(0.5), out=at_one)
        torch.sub(grad, at_one, out=at_other)
        return back


class BahdanauDecoder(RecurrentDecoder):
    """One layer that looks, further ones that read what it says, and a maxout layer over all of it."""

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        c = config
        self.dropout = c.dropout
        self.out_dim = c.readout or c.word_dim
        self.layer = AttentiveLayer(
            c.word_dim,
            c.dim,
            c.memory_dim,
            cell=c.cell,
            score=c.score,
            attention_dim=c.attention_dim,
            unroll=c.unroll,
        )
        above = c.decoder_depth - 1
        self.above = recurrent(c.dim, cell=c.cell, layers=above, dropout=c.dropout) if above else None
        self.bridge = Bridge(c.memory_dim, self.layer.cell)
        self.readout = Maxout(c.dim + c.word_dim + c.memory_dim, self.out_dim)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        states, contexts = self.layer(x, memory, lengths, self.bridge(memory, lengths)[0])
        if self.above is not None:
            states = dropped(states, self.dropout, self.training)
            states, _ = self.above.read_from(states, self.above.initial_state(len(x), states))
        # time first, as the loop has written them
        given = (one.transpose(0, 1).to(states.dtype) for one in (states, x, contexts))
        t = self.readout(torch.cat(tuple(given), dim=-1)).transpose(0, 1).contiguous()
        return dropped(t, self.dropout, self.training)

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return remember_source(self.layer.attention, memory, lengths)

    def initial_state(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        initial_state = self.layer.cell.named(self.bridge(memory, lengths))
        if self.above is not None:
            initial_state |= self.above.named(self.above.initial_state(len(memory), memory), prefix="above.")
        return initial_state

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        state, context, weights = self.layer.decode_step(x, past, kept, attention=attention)
        if self.above is not None:
            state = self.above.step_cells(state, past, prefix="above.")
        return self.readout(torch.cat([state, x.to(state.dtype), context.to(state.dtype)], dim=-1)), weights

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        reading, saying = self.layer.flops(source_length)
        saying += 2.0 * self.readout.linear.weight.numel() + (0.0 if self.above is None else self.above.flops(1))
        return reading + 2.0 * self.bridge.linear.weight.numel() / source_length, saying


@dataclass(kw_only=True)
class BahdanauKeywords(BahdanauConfig, TranslatorKeywords):
    """What `Bahdanau(…)` takes."""


class Bahdanau(EncoderDecoder):
    """A GRU that attends, by additive scores, before each step (Bahdanau et al. 2015).

    model = Bahdanau(vocabulary=8_000, dim=256)
    logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)
    """

    @by_keywords(BahdanauKeywords)
    def __init__(self, config: BahdanauConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        words = embeddings(config, source_vocabulary, target_vocabulary)
        super().__init__(config, *words, config.build_encoder(), BahdanauDecoder(config))
