"""What recurrent decoders share: how they begin, how they are asked for one token, how they look at the source.

    begins   s₀ = tanh(W m + b), m the mean of the source's vectors             `Bridge`
    looks    c_t = attention(s_{t-1}, source);  s_t = cell([x_t ; c_t], s_{t-1})   `AttentiveLayer`

The mean stands where Bahdanau took the backward cell's last state, because any encoder may have read the source.
Weights begin as PyTorch's do, uniform within ±1/√dim, and the gate by which an LSTM forgets at 1; the papers began
otherwise (Bahdanau with rotations for U; Sutskever, Luong and GNMT within ±0.08, ±0.1 and ±0.04).
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.models.contracts import DecoderState
from anaphora.models.translation.encoder_decoder import Decoder
from anaphora.models.translation.recurrent.recurrent_settings import Gated, RecurrentConfig, Unroll
from anaphora.nn.embedding import Embedding
from anaphora.nn.encoder_contract import cleared
from anaphora.nn.kernels.attentive import attentive_recurrence
from anaphora.nn.masks import padding_mask
from anaphora.nn.recurrence import RecurrentEncoder
from anaphora.nn.scores import AnyScore
from anaphora.nn.source_attention import SourceAttention

States = list[tuple[Tensor, ...]]
"""Of every layer its state, (R, dim), of an LSTM two."""


def embeddings(config: RecurrentConfig, source: int, target: int) -> tuple[Embedding, Embedding]:
    """Of the source's words and the target's; a decoder that reads word after word needs no other sense of place."""
    make = partial(Embedding, dim=config.word_dim, max_length=config.max_length, dropout=config.dropout)
    return make(source, positions=config.encoder_config.source_positions), make(target, positions="none")


def recurrent(
    dim: int, *, cell: Gated = "lstm", layers: int = 1, width: int | None = None, dropout: float = 0.0
) -> RecurrentEncoder:
    """A decoder's cells: they read one way, and an LSTM begins by remembering."""
    forget = 1.0 if cell == "lstm" else None
    return RecurrentEncoder(dim, cell=cell, layers=layers, width=width, dropout=dropout, forget_bias=forget)


class Bridge(nn.Module):
    """Where the decoder begins: tanh(W m + b) for every state of its cells, m the mean of the source's vectors."""

    def __init__(self, memory_dim: int, cells: RecurrentEncoder) -> None:
        super().__init__()
        self.sizes = [len(state) for state in cells.initial_state(1, torch.empty(0))]
        self.linear = nn.Linear(memory_dim, sum(self.sizes) * cells.dim)

    def forward(self, memory: Tensor, lengths: Tensor) -> States:
        """memory (B, S, M), lengths (B,) -> states (B, dim)"""
        mean = cleared(memory, lengths).sum(dim=1) / lengths.clamp(min=1)[:, None]  # (B, M)
        initial_state = torch.tanh(self.linear(mean.to(memory.dtype))).chunk(sum(self.sizes), dim=-1)
        places = iter(initial_state)
        return [tuple(next(places) for _ in range(size)) for size in self.sizes]


class RecurrentDecoder(Decoder):
    """What is kept between two steps: of the source keys, values and lengths, of each row its cells' states.

    A decoder writes `initial_state` and `decode_step`; `forward` is its own.
    """

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """What is kept of the source, (B, …)."""
        raise NotImplementedError

    def initial_state(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        """What each row knows before its first word, (B, …)."""
        raise NotImplementedError

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        """One step: x (R, E) -> (R, out_dim), the past changed in place; where asked, weights (B, 1, K, S)."""
        raise NotImplementedError

    def start(self, memory: Tensor, lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        kept = {name: one.contiguous() for name, one in self.source_memory(memory, lengths).items()}
        exact = next(self.parameters()).dtype  # of cells: a step does not go through autocast
        first = self.initial_state(memory, lengths)
        initial_state = {name: one.repeat_interleave(beam, dim=0).to(exact) for name, one in first.items()}
        position = torch.zeros(len(memory) * beam, dtype=torch.long, device=memory.device)
        return DecoderState(beam=beam, memory=kept, past={"position": position, **initial_state})

    def step(self, x: Tensor, state: DecoderState, *, attention: bool) -> tuple[Tensor, Tensor | None]:
        y, weights = self.decode_step(x, state.past, state.memory, attention=attention)
        state.past["position"].add_(1)  # in place: a captured step finds it where it was
        return y, None if weights is None else weights[:, 0].flatten(0, 1)  # (B, 1, K, S) -> (R, S)


def remember_source(attention: SourceAttention, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
    """Keys, values and lengths of the source, for `attend_to_source`."""
    key, value = attention.remember(memory)
    return {"key": key, "value": value, "lengths": lengths}


def attend_to_source(
    attention: SourceAttention, state: Tensor, kept: dict[str, Tensor], *, weights: bool
) -> tuple[Tensor, Tensor | None]:
    """One look for each row: state (R, dim) -> context (R, M), and where asked the weights (B, 1, K, S)."""
    rows, sentences = len(state), len(kept["lengths"])
    mask = padding_mask(kept["lengths"], kept["key"].shape[2])  # (B, 1, 1, S)
    query = attention.query(state).view(sentences, 1, rows // sentences, -1)  # (B, 1, K, D)
    query, key, value = query.to(kept["key"].dtype), kept["key"], kept["value"]
    found = attention.weights_of(query, key, mask=mask) if weights else None
    context = attention.merge(attention.attend(query, key, value, mask=mask))  # (B, K, M)
    return context.flatten(0, 1), found


class AttentiveLayer(nn.Module):
    """A recurrent layer that looks at the source before each step: what it finds is part of the cell's input.

        c_t = attention(s_{t-1}, source)        s_t = cell([x_t ; c_t], s_{t-1})

    All words' share of the cell's gates, W x_t, is computed at once for the whole target; so are the source's keys.
    What must wait for the state, a look and two products a step, is a loop: `steps` is that loop in plain PyTorch,
    nn/kernels/attentive.py the same with its way back written by hand, for the scores that it knows.
    """

    def __init__(
        self,
        width: int,
        dim: int,
        memory_dim: int,
        *,
        cell: Gated = "lstm",
        score: AnyScore = "additive",
        attention_dim: int | None = None,
        unroll: Unroll = "auto",
    ) -> None:
        super().__init__()
        self.attention = SourceAttention(dim, memory_dim, score=score, size=attention_dim)
        self.cell = recurrent(dim, cell=cell, width=width + memory_dim)
        self.unroll = unroll

    def forward(
        self, x: Tensor, memory: Tensor, lengths: Tensor, initial_state: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        """x (B, T, width) over memory (B, S, M) -> states (B, T, dim), contexts (B, T, M)."""
        key, value = self.attention.remember(memory)
        mask = padding_mask(lengths, memory.shape[1])  # (B, 1, 1, S)
        looks = self.attention.in_loops()
        if self.unroll == "steps" or looks is None or self.attention.has_hooks():
            return self.steps(x, key, value, mask, initial_state)
        (weights,) = self.cell.matrices()
        return attentive_recurrence(x, key.squeeze(1), value.squeeze(1), mask[:, 0, 0], initial_state, weights, **looks)

    def steps(
        self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor, initial_state: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        """The reference: one step after another."""
        state: States = [initial_state]
        states, contexts, weights = [], [], []
        for word in x.unbind(1):
            query = self.attention.split(self.attention.query(state[0][0])[:, None])  # (B, 1, 1, D)
            weights.append(self.attention.weights_of(query.to(key.dtype), key, mask=mask))
            contexts.append((weights[-1] @ value)[:, 0, 0])  # (B, M)
            y, state = self.cell.read_from(torch.cat([word, contexts[-1].to(word.dtype)], dim=-1)[:, None], state)
            states.append(y[:, 0])
        found = self.attention.record_steps(weights, value, torch.stack(contexts, dim=1))
        return torch.stack(states, dim=1), found

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """One step of decoding: x (R, width) -> state (R, dim), context (R, M), weights (B, 1, K, S) or None."""
        context, weights = attend_to_source(self.attention, past["hidden0"], kept, weights=attention)
        return self.cell.step_cells(torch.cat([x, context.to(x.dtype)], dim=-1), past), context, weights

    def flops(self, source_length: float) -> tuple[float, float]:
        """For each source token, for each target token."""
        return self.attention.remembering_flops(), self.attention.flops(source_length) + self.cell.flops(1)


class StackedDecoder(RecurrentDecoder):
    """The lowest layer looks at the source, the layers above read what it says; all begin from zeros."""

    layer: AttentiveLayer
    above: nn.ModuleList

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return remember_source(self.layer.attention, memory, lengths)

    def initial_state(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        initial_state = self.layer.cell.named(self.layer.cell.initial_state(len(memory), memory))
        for number, layer in enumerate(self.above, start=1):
            initial_state |= layer.named(layer.initial_state(len(memory), memory), prefix=f"{number}.")  # type: ignore[operator]
        return initial_state


def dropped(x: Tensor, share: float, training: bool) -> Tensor:
    return F.dropout(x, share, training) if share else x
