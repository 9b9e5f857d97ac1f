"""ConvS2S (Gehring et al. 2017, *Convolutional Sequence to Sequence Learning*): convolutions that look at the source.

    reads    e = word + place;   h ← √½ (h + GLU(W * h)), in layers, each seeing three places of the one below;
             z = W h: what is compared,  and z + e: what is found
    says     in every layer     c = GLU(W * h)                 over what was said so far
                                d = W c + g                    g: the word that was said last, and its place
                                α = softmax(d · z)             a look at the source; the next layer looks again,
                                c ← c + W Σ α (z + e)          knowing what was found (*multi-step attention*)
                                h ← h + c
             then W h, dropout, and the projection to words

GLU(a, b) = a · σ(b): half of what a convolution says opens or shuts the other half. No norm of activations is needed,
because every sum of two is multiplied by √½, what a look finds by √|s| (a mean of |s| vectors is that much smaller than
each), and weights begin with the deviation that keeps the size of what passes: √(4 p / n) before a GLU, √(p / n)
elsewhere, p the share that dropout keeps, n the inputs; lengths of weights are learned apart from directions. The
encoder hears from every decoder layer, so what comes back to it (not to the words) is divided by twice their number.

The paper's 15 + 15 layers of growing width, by the settings of its authors' code: recipes/convs2s-paper.yaml. What
differs here: the projection to words has neither bias nor a length apart, so that it can be the table of words; Adam
where a recipe is sized to the corpus. Any other encoder may stand in front, z then being what it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.models.keywords import TranslatorKeywords, by_keywords
from anaphora.models.registry import System
from anaphora.models.translation.convolutional.convolutional_decoder import ConvolutionalDecoder
from anaphora.models.translation.convolutional.convolutional_settings import ConvS2SConfig
from anaphora.models.translation.encoder_decoder import EncoderDecoder
from anaphora.nn.convolution import windows
from anaphora.nn.embedding import Embedding
from anaphora.nn.encoder_contract import Encoder, cleared
from anaphora.nn.masks import padding_mask
from anaphora.nn.normalized_linear import NormalizedLinear
from anaphora.nn.shared_rings import SharedRings
from anaphora.nn.source_attention import SourceAttention

CONVS2S = System(
    kind="convs2s",
    rung=9,
    task="translation",
    family="convolutional translators",
    settings="anaphora.models.translation.convolutional.convolutional_settings:ConvS2SConfig",
    model="anaphora.models.translation.convolutional.convs2s:ConvS2S",
)

HALF = math.sqrt(0.5)
"""The sum of two that are not alike, times this, is as large as each of them."""
INITIAL_DEVIATION = 0.1
"""Deviation of the vectors of words and places at the beginning: products of two such vectors stay below one."""


def linear(inputs: int, outputs: int, dropout: float = 0.0) -> NormalizedLinear:
    """A product that keeps the size of what passes, dropout in front of it."""
    return NormalizedLinear(inputs, outputs, deviation=math.sqrt((1 - dropout) / inputs))


class GatedConvolution(nn.Module):
    """GLU(W * x + b): windows (…, width * inputs) -> (…, outputs); and the way past it, where the two are not alike."""

    def __init__(self, inputs: int, outputs: int, *, width: int, causal: bool, dropout: float) -> None:
        super().__init__()
        self.inputs, self.width, self.causal, self.dropout = inputs, width, causal, dropout
        seen = width * inputs
        self.convolution = NormalizedLinear(seen, 2 * outputs, deviation=math.sqrt(4 * (1 - dropout) / seen))
        self.past = nn.Identity() if inputs == outputs else linear(inputs, outputs)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T, inputs) -> (B, T, outputs)"""
        x = cleared(F.dropout(x, self.dropout, self.training), lengths)
        return self.gated(windows(x, self.width, causal=self.causal))

    def gated(self, seen: Tensor) -> Tensor:
        return F.glu(self.convolution(seen), dim=-1)

    def flops(self) -> float:
        """For each place."""
        return self.convolution.flops() + (self.past.flops() if isinstance(self.past, NormalizedLinear) else 0.0)


def convolutions(width: int, kernels: list[tuple[int, int]], *, causal: bool, dropout: float) -> nn.ModuleList:
    """A layer for each (outputs, width of its windows), the first reading vectors that are `width` wide."""
    inputs = [width, *(outputs for outputs, _ in kernels)]
    return nn.ModuleList(
        GatedConvolution(below, outputs, width=seen, causal=causal, dropout=dropout)
        for below, (outputs, seen) in zip(inputs, kernels)
    )


class ConvS2SEncoder(Encoder):
    """e (B, S, dim) -> z (B, S, dim); inside, layers of (outputs, width of their windows)."""

    causal = False

    def __init__(self, dim: int, kernels: list[tuple[int, int]], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = dim
        first, last = kernels[0][0], kernels[-1][0]
        self.into, self.out = linear(dim, first, dropout), linear(last, dim)
        self.layers = convolutions(first, kernels, causal=False, dropout=dropout)

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        x = self.into(x)
        for layer in self.layers:
            x = (layer.past(x) + layer(x, lengths)) * HALF  # type: ignore[operator]
            if every is not None:
                every.append(x)
        x = self.out(x)
        if every is not None:
            every[-1] = x
        return x

    def flops(self, length: float) -> float:
        return self.into.flops() + self.out.flops() + sum(layer.flops() for layer in self.layers)  # type: ignore[operator]


class MultiStepAttention(SourceAttention):
    """One layer's look: c (…, hidden) and g (…, dim) ask d = √½ (W c + g); what was found comes back hidden wide."""

    def __init__(self, hidden: int, dim: int) -> None:
        super().__init__(dim, dim, score="dot")
        self.ask = linear(hidden, dim)
        self.out = linear(dim, hidden)  # type: ignore[assignment]

    def asked(self, c: Tensor, g: Tensor, like: Tensor) -> Tensor:
        return ((self.ask(c) + g) * HALF).to(like.dtype)

    def flops(self, source_length: float) -> float:
        return super().flops(source_length) + self.ask.flops() + 2.0 * self.out.direction.numel()  # type: ignore[operator]


class ConvS2SDecoder(ConvolutionalDecoder):
    """Masked gated convolutions, each followed by a look at the source."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        c, kernels = config, config.kernels(config.decoder_depth)
        first, last = kernels[0][0], kernels[-1][0]
        self.dropout, self.out_dim = c.dropout, c.readout or c.word_dim
        self.into = linear(c.word_dim, first, c.dropout)
        self.layers = convolutions(first, kernels, causal=True, dropout=c.dropout)
        self.looks = nn.ModuleList(MultiStepAttention(hidden, c.word_dim) for hidden, _ in kernels)
        self.readout = linear(last, self.out_dim)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """x (B, T, dim); memory (B, S, 2 dim): z, and beside it what is found."""
        key, value = (part[:, None] for part in memory.chunk(2, dim=-1))  # (B, 1, S, dim)
        mask = padding_mask(lengths, memory.shape[1])  # (B, 1, 1, S)
        h = self.into(x)
        for layer, look in zip(self.layers, self.looks):
            c = layer(h)
            query = look.asked(c, x, key)[:, None]  # type: ignore[operator]
            found = look.merge(look.attend(query, key, value, mask=mask))  # type: ignore[operator]
            h = (layer.past(h) + (c + found) * HALF) * HALF  # type: ignore[operator]
        return F.dropout(self.readout(h), self.dropout, self.training)

    def rings(self) -> list[tuple[int, int]]:
        return [(layer.width - 1, layer.inputs) for layer in self.layers]  # type: ignore[misc, operator]

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        key, value = memory.chunk(2, dim=-1)
        return {"key": key[:, None], "value": value[:, None], "lengths": lengths}

    def decode_step(
        self, x: Tensor, rings: SharedRings, kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        """What it looked at is the mean of all layers' looks."""
        key, value = kept["key"], kept["value"]
        mask = padding_mask(kept["lengths"], key.shape[2])  # (B, 1, 1, S)
        h, weights = self.into(x), []
        for number, (layer, look) in enumerate(zip(self.layers, self.looks)):
            c = layer.gated(rings.window(number, h))  # type: ignore[operator]
            query = look.asked(c, x, key).view(len(key), 1, rings.beam, -1)  # type: ignore[operator]
            if attention:
                weights.append(look.weights_of(query, key, mask=mask))  # type: ignore[operator]
            found = look.merge(look.attend(query, key, value, mask=mask)).flatten(0, 1)  # type: ignore[operator]
            h = (layer.past(h) + (c + found) * HALF) * HALF  # type: ignore[operator]
        attend_to_source = torch.stack(weights).mean(dim=0)[:, 0].flatten(0, 1) if attention else None  # (R, S)
        return self.readout(h), attend_to_source

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        each = sum(layer.flops() for layer in self.layers)  # type: ignore[operator]
        looks = sum(look.flops(source_length) for look in self.looks)  # type: ignore[operator]
        return 0.0, self.into.flops() + each + looks + self.readout.flops()


class _SmallerGradient(torch.autograd.Function):
    """x forwards; backwards so much of what comes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        ctx.share = share
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.share, None


@dataclass(kw_only=True)
class ConvS2SKeywords(ConvS2SConfig, TranslatorKeywords):
    """What `ConvS2S(…)` takes."""


class ConvS2S(EncoderDecoder):
    """Gated convolutions, every decoder layer attends (Gehring et al. 2017).

        model = ConvS2S(vocabulary=8_000, dim=256)
        logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)

    Its memory is (B, S, 2 dim): what is compared, z, and what is found, √(|s| / 2) (z + e).
    """

    config: ConvS2SConfig
    decoder: ConvS2SDecoder

    @by_keywords(ConvS2SKeywords)
    def __init__(self, config: ConvS2SConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        c = config
        placed = c.encoder_config.source_positions.startswith(("sinusoidal", "learned"))
        words = embedding(source_vocabulary, c, placed=placed), embedding(target_vocabulary, c)
        super().__init__(config, *words, c.build_encoder(), ConvS2SDecoder(c))

    def encode(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        e = self.source_embedding(source)
        z = self.encoder(e, source_lengths)
        z = _SmallerGradient.apply(z, 1 / (2 * len(self.decoder.layers)))
        size = source_lengths.to(e.dtype).sqrt()[:, None, None] * HALF
        return torch.cat([z, ((z + e) * size).to(z.dtype)], dim=-1)


def embedding(vocabulary: int, config: ConvS2SConfig, *, placed: bool = True) -> Embedding:
    """Words, and learned places but for what reads in order anyway."""
    c = config
    made = Embedding(
        vocabulary,
        c.word_dim,
        positions="learned" if placed else "none",
        max_length=c.max_length,
        dropout=c.dropout,
        scaled=False,
    )
    with torch.no_grad():
        made.table.weight[1:].normal_(std=INITIAL_DEVIATION)  # 0 is padding
        if made.positions is not None:
            made.positions.normal_(std=INITIAL_DEVIATION)
    return made
