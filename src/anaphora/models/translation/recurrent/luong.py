"""Attention after each step (Luong et al. 2015): the new state looks at the source, and that predicts the word.

    goes on  s_t = cells([y_{t-1} ; a_{t-1}], s_{t-1})       a: the attentional vector, where input is fed
    looks    c_t = attention(s_t, source)                    dot, bilinear ("general") or additive ("concat") scores
    says     a_t = tanh(W_c [c_t ; s_t])                     P(y_t) = softmax(W a_t)

*Input feeding* tells each step what the one before it found, so that it knows what was said already; each step then
waits for the one before. Without it no step waits for a look: all states come of one call of the kernels, all looks of
one call of the attention.

The paper: four layers of 1,000 LSTM cells, dropout 0.2; recipes/luong-paper.yaml. What differs here: the cells begin
from the mean of the source's vectors (any encoder has one), the source is not reversed, and the attention is his
"global" one; the local ones are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anaphora.models.keywords import TranslatorKeywords, by_keywords
from anaphora.models.registry import System
from anaphora.models.translation.encoder_decoder import EncoderDecoder
from anaphora.models.translation.recurrent.recurrent_decoder import (
    Bridge,
    RecurrentDecoder,
    States,
    attend_to_source,
    dropped,
    embeddings,
    recurrent,
    remember_source,
)
from anaphora.models.translation.recurrent.recurrent_settings import LuongConfig
from anaphora.nn.kernels.attentive import input_feeding
from anaphora.nn.masks import padding_mask
from anaphora.nn.source_attention import SourceAttention

LUONG = System(
    kind="luong",
    rung=4,
    task="translation",
    family="recurrent translators",
    settings="anaphora.models.translation.recurrent.recurrent_settings:LuongConfig",
    model="anaphora.models.translation.recurrent.luong:Luong",
)


class LuongDecoder(RecurrentDecoder):
    """Recurrent layers, a look at the source by the last of them, and the attentional vector."""

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        c = config
        self.out_dim, self.dropout = c.word_dim, c.dropout
        self.feeds, self.unroll = c.input_feeding, c.unroll
        self.cells = recurrent(
            c.dim,
            cell=c.cell,
            layers=c.decoder_depth,
            width=c.word_dim + (c.word_dim if c.input_feeding else 0),
            dropout=c.dropout,
        )
        self.attention = SourceAttention(c.dim, c.memory_dim, score=c.score, size=c.attention_dim)
        self.bridge = Bridge(c.memory_dim, self.cells)
        self.combine = nn.Linear(c.memory_dim + c.dim, self.out_dim, bias=False)
        nn.init.xavier_uniform_(self.combine.weight)

    def attentional(self, context: Tensor, state: Tensor) -> Tensor:
        """tanh(W_c [c ; s]): (…, M), (…, dim) -> (…, out_dim)"""
        return torch.tanh(self.combine(torch.cat([context.to(state.dtype), state], dim=-1)))

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        initial_state = self.bridge(memory, lengths)
        key, value = self.attention.remember(memory)
        mask = padding_mask(lengths, memory.shape[1])  # (B, 1, 1, S)
        looks = self.attention.in_loops()
        if self.unroll == "steps" or (self.feeds and (looks is None or self.attention.has_hooks())):
            y = self.steps(x, key, value, mask, initial_state)
        elif self.feeds:
            assert looks is not None
            y = input_feeding(
                x,
                key.squeeze(1),
                value.squeeze(1),
                mask[:, 0, 0],
                initial_state,
                self.cells.matrices(),
                self.combine.weight,
                dropout=self.dropout if self.training else 0.0,
                **looks,
            )
        else:
            states, _ = self.cells.read_from(x, initial_state)  # (B, T, dim)
            query = self.attention.split(self.attention.query(states)).to(key.dtype)
            y = self.attentional(self.attention.merge(self.attention.attend(query, key, value, mask=mask)), states)
        return dropped(y, self.dropout, self.training)

    def steps(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor, states: States) -> Tensor:
        """The reference: one step after another."""
        found, contexts, weights = [], [], []
        vector = x.new_zeros(len(x), self.out_dim)
        for word in x.unbind(1):
            given = torch.cat([word, vector.to(word.dtype)], dim=-1) if self.feeds else word
            y, states = self.cells.read_from(given[:, None], states)
            query = self.attention.split(self.attention.query(y)).to(key.dtype)  # (B, 1, 1, D)
            weights.append(self.attention.weights_of(query, key, mask=mask))
            contexts.append((weights[-1] @ value)[:, 0, 0])  # (B, M)
            vector = self.attentional(contexts[-1], y[:, 0])
            found.append(vector)
        self.attention.record_steps(weights, value, torch.stack(contexts, dim=1))
        return torch.stack(found, dim=1)

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return remember_source(self.attention, memory, lengths)

    def initial_state(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        initial_state = self.cells.named(self.bridge(memory, lengths))
        return initial_state | ({"vector": memory.new_zeros(len(memory), self.out_dim)} if self.feeds else {})

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        given = torch.cat([x, past["vector"].to(x.dtype)], dim=-1) if self.feeds else x
        state = self.cells.step_cells(given, past)
        context, weights = attend_to_source(self.attention, state, kept, weights=attention)
        vector = self.attentional(context, state)
        if self.feeds:
            past["vector"].copy_(vector)
        return vector, weights

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        reading = self.attention.remembering_flops() + 2.0 * self.bridge.linear.weight.numel() / source_length
        return reading, self.cells.flops(1) + self.attention.flops(source_length) + 2.0 * self.combine.weight.numel()


@dataclass(kw_only=True)
class LuongKeywords(LuongConfig, TranslatorKeywords):
    """What `Luong(…)` takes."""


class Luong(EncoderDecoder):
    """An LSTM that attends after each step, and feeds what it found into the next (Luong et al. 2015).

    model = Luong(vocabulary=8_000, dim=256)
    logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)
    """

    @by_keywords(LuongKeywords)
    def __init__(self, config: LuongConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        words = embeddings(config, source_vocabulary, target_vocabulary)
        super().__init__(config, *words, config.build_encoder(), LuongDecoder(config))
