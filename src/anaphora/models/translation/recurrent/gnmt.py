"""Google's neural machine translation system (Wu et al. 2016): deep LSTMs with residuals, and one look for all layers.

    reads    layer 1 both ways, then one way; from the third layer on x ← x + lstm(x)
    looks    the decoder's lowest layer: c_t = attention(s_{t-1}, source), s_t = lstm([y_{t-1} ; c_t], s_{t-1})
    says     every further layer reads [x_t ; c_t], from the third on with a residual; P(y_t) = softmax(W x_t)

Only the lowest layer waits for a look, so that the published system could run its layers on several machines at once;
here for the same reason all layers above are whole-sequence calls of the kernels. Length normalization and the coverage
penalty are the search's (decoding/beam_search.py); the recipe turns them on. Reinforcement is an objective of training.

The paper: 8 + 8 layers of 1,024, word pieces of 32 k; recipes/gnmt-paper.yaml. What differs: states begin from zeros;
the context does not reach the softmax itself, only every layer below it; no clipping of states for quantized inference.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from anaphora.models.translation.recurrent.recurrent_settings import GnmtConfig
from anaphora.nn.encoder_contract import Encoder
from anaphora.nn.recurrence import RecurrentEncoder

GNMT_SYSTEM = System(
    kind="gnmt",
    rung=6,
    task="translation",
    family="recurrent translators",
    settings="anaphora.models.translation.recurrent.recurrent_settings:GnmtConfig",
    model="anaphora.models.translation.recurrent.gnmt:GNMT",
)

RESIDUAL_FROM = 2
"""Layers, from 0, that add what they read to what they say."""


class GnmtEncoder(Encoder):
    """One layer both ways, each direction `dim` wide, then layers one way: (B, S, width) -> (B, S, dim)."""

    causal = False

    def __init__(self, dim: int, *, width: int | None = None, layers: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim, self.dropout = dim, dropout
        joined = 2 * dim if layers > 1 else dim
        if joined % 2:
            raise ValueError(f"two directions share {dim} dimensions: it must be an even number")
        self.both_ways = RecurrentEncoder(joined, cell="lstm", causal=False, width=width or dim, forget_bias=1.0)
        self.one_way = nn.ModuleList(
            recurrent(dim, width=joined if number == 1 else None) for number in range(1, layers)
        )

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        x = self.both_ways(x, lengths)
        for number, layer in enumerate(self.one_way, start=1):
            if every is not None:
                every.append(x)
            y = layer(dropped(x, self.dropout, self.training))
            x = x + y if number >= RESIDUAL_FROM else y
        if every is not None:
            every.append(x)
        return x

    def flops(self, length: float) -> float:
        return self.both_ways.flops(length) + sum(layer.flops(length) for layer in self.one_way)  # type: ignore[operator]


class GnmtDecoder(StackedDecoder):
    """A layer that looks, and layers above it that are told what it found."""

    def __init__(self, config: GnmtConfig) -> None:
        super().__init__()
        c = config
        self.out_dim, self.dropout = c.dim, c.dropout
        self.layer = AttentiveLayer(
            c.word_dim, c.dim, c.memory_dim, score=c.score, attention_dim=c.attention_dim, unroll=c.unroll
        )
        self.above = nn.ModuleList(recurrent(c.dim, width=c.dim + c.memory_dim) for _ in range(1, c.decoder_depth))

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        initial_state = self.layer.cell.initial_state(len(x), memory)[0]
        x, contexts = self.layer(x, memory, lengths, initial_state)
        contexts = contexts.to(x.dtype)
        for number, layer in enumerate(self.above, start=1):
            y = layer(dropped(torch.cat([x, contexts], dim=-1), self.dropout, self.training))
            x = x + y if number >= RESIDUAL_FROM else y
        return dropped(x, self.dropout, self.training)

    def decode_step(
        self, x: Tensor, past: dict[str, Tensor], kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        x, context, weights = self.layer.decode_step(x, past, kept, attention=attention)
        for number, layer in enumerate(self.above, start=1):
            given = torch.cat([x, context.to(x.dtype)], dim=-1)
            y = layer.step_cells(given, past, prefix=f"{number}.")  # type: ignore[operator]
            x = x + y if number >= RESIDUAL_FROM else y
        return x, weights

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        reading, saying = self.layer.flops(source_length)
        return reading, saying + sum(layer.flops(1) for layer in self.above)  # type: ignore[operator]


@dataclass(kw_only=True)
class GnmtKeywords(GnmtConfig, TranslatorKeywords):
    """What `GNMT(…)` takes."""


class GNMT(EncoderDecoder):
    """Deep LSTMs with residuals, the lowest decoder layer attends (Wu et al. 2016).

    model = GNMT(vocabulary=8_000, dim=256)
    logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)
    """

    @by_keywords(GnmtKeywords)
    def __init__(self, config: GnmtConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        words = embeddings(config, source_vocabulary, target_vocabulary)
        super().__init__(config, *words, config.build_encoder(), GnmtDecoder(config))
