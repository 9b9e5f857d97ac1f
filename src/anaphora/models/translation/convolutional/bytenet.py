"""ByteNet (Kalchbrenner et al. 2016, *Neural Machine Translation in Linear Time*): one network standing on another.

    reads    the source, byte by byte, in residual blocks of dilated convolutions: each place ends up knowing a stretch
             of the sentence, and there are as many vectors as bytes, not one for all of them
    says     masked blocks of the same make, over the bytes said so far; at place t they also read what the encoder says
             at place t. There is no attention: whatever must move from one place to another moves through windows

    block    x + W₃ ReLU(norm(W₂ * ReLU(norm(W₁ ReLU(norm(x))))))        2d → d, then over `width` places, then d → 2d
             the windows' places are 1, 2, 4, 8, 16 apart in a set of five blocks, and again from 1 in the next set

*Dynamic unfolding*: source and target differ in length, so the encoder speaks for |t̂| = a |s| + b places, more than
nearly any target needs (a = 1.2 for English to German), reading nothing behind the sentence's end. The decoder goes on
until it says its end mark, beyond |t̂| too, where it reads zeros. What it must remember of what it said is of one size,
so a byte costs as much at place 1,000 as at place 10: time is linear in the length.

The paper: 30 + 30 blocks, d = 800, windows of 3, characters; recipes/bytenet-paper.yaml. What differs here: how the
decoder stands on the encoder it shows in a drawing; here a product of the encoder's vector, normalized, is added to the
byte's. One more norm stands at each top, before the last product, ReLU and projection. There is dropout on what a block
adds, for small corpora. Sentences are not padded to multiples of fifty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.models.keywords import TranslatorKeywords, by_keywords
from anaphora.models.registry import System
from anaphora.models.translation.convolutional.convolutional_decoder import ConvolutionalDecoder
from anaphora.models.translation.convolutional.convolutional_settings import ByteNetConfig
from anaphora.models.translation.encoder_decoder import EncoderDecoder
from anaphora.nn.convolution import windows
from anaphora.nn.embedding import Embedding
from anaphora.nn.encoder_contract import Encoder, cleared
from anaphora.nn.shared_rings import SharedRings

BYTENET = System(
    kind="bytenet",
    rung=8,
    task="translation",
    family="convolutional translators",
    settings="anaphora.models.translation.convolutional.convolutional_settings:ByteNetConfig",
    model="anaphora.models.translation.convolutional.bytenet:ByteNet",
)


class ResidualBlock(nn.Module):
    """x + up(ReLU(norm(over(windows of ReLU(norm(down(ReLU(norm(x)))))))))."""

    def __init__(self, dim: int, hidden: int, *, width: int, dilation: int, causal: bool, dropout: float) -> None:
        super().__init__()
        self.width, self.dilation, self.causal, self.dropout = width, dilation, causal, dropout
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in (dim, hidden, hidden))
        self.down, self.over = nn.Linear(dim, hidden), nn.Linear(width * hidden, hidden)
        self.up = nn.Linear(hidden, dim)

    @property
    def reach(self) -> int:
        """How many places a window spans but its last."""
        return (self.width - 1) * self.dilation

    def narrow(self, x: Tensor) -> Tensor:
        """What the convolution reads: (…, dim) -> (…, hidden)"""
        return F.relu(self.norms[1](self.down(F.relu(self.norms[0](x)))))

    def widen(self, x: Tensor, seen: Tensor) -> Tensor:
        """x with what the windows say: (…, dim), (…, width * hidden) -> (…, dim)"""
        return x + F.dropout(self.up(F.relu(self.norms[2](self.over(seen)))), self.dropout, self.training)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T, dim) -> (B, T, dim); beyond its length, where given, a row has nothing."""
        inside = cleared(self.narrow(x), lengths)
        return self.widen(x, windows(inside, self.width, dilation=self.dilation, causal=self.causal))

    def flops(self) -> float:
        """For each place."""
        return 2.0 * sum(matrix.weight.numel() for matrix in (self.down, self.over, self.up))


def blocks(
    dim: int, hidden: int, layers: int, *, width: int, dilations: int, causal: bool, dropout: float
) -> nn.ModuleList:
    """Sets of blocks, in each of which the dilation doubles."""
    make = partial(ResidualBlock, dim, hidden, width=width, causal=causal, dropout=dropout)
    return nn.ModuleList(make(dilation=2 ** (number % dilations)) for number in range(layers))


class ByteNetEncoder(Encoder):
    """Blocks whose windows look both ways, and a norm at the top."""

    causal = False

    def __init__(
        self,
        dim: int,
        *,
        hidden: int | None = None,
        layers: int = 10,
        width: int = 3,
        dilations: int = 5,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dim = dim
        inside = hidden or max(dim // 2, 1)
        self.blocks = blocks(dim, inside, layers, width=width, dilations=dilations, causal=False, dropout=dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        for block in self.blocks:
            x = block(x, lengths)
            if every is not None:
                every.append(x)
        x = self.norm(x)
        if every is not None:
            every[-1] = x
        return x

    def flops(self, length: float) -> float:
        return sum(block.flops() for block in self.blocks)  # type: ignore[operator]


class ByteNetDecoder(ConvolutionalDecoder):
    """Masked blocks over what was said, which read the encoder place by place."""

    attends = False

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__()
        c = config
        self.out_dim = c.dim
        self.join = nn.Linear(c.dim, c.dim, bias=False)  # without bias: nothing read, nothing added
        self.blocks = blocks(
            c.dim,
            c.inside,
            c.decoder_depth,
            width=c.width,
            dilations=c.dilations,
            causal=True,
            dropout=c.dropout,
        )
        self.norm, self.top = nn.LayerNorm(c.dim), nn.Linear(c.dim, c.dim)

    def predict(self, x: Tensor) -> Tensor:
        """What the projection reads: (…, dim) -> (…, dim)"""
        return F.relu(self.top(F.relu(self.norm(x))))

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """x (B, T, dim) on memory (B, |t̂|, dim), zeros behind each row's own |t̂|."""
        below = self.join(memory)[:, : x.shape[1]]
        x = x + F.pad(below, (0, 0, 0, x.shape[1] - below.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.predict(x)

    def rings(self) -> list[tuple[int, int]]:
        return [(block.reach, block.down.out_features) for block in self.blocks]  # type: ignore[misc, union-attr]

    def source_memory(self, memory: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        return {"below": self.join(memory)}

    def decode_step(
        self, x: Tensor, rings: SharedRings, kept: dict[str, Tensor], *, attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        below, position = kept["below"], rings.position
        last = below.shape[1] - 1
        read = below[rings.sentence, position.clamp(max=last)]  # (R, dim)
        x = x + read.masked_fill((position > last)[:, None], 0.0)
        for number, block in enumerate(self.blocks):
            x = block.widen(x, rings.window(number, block.narrow(x), block.dilation))  # type: ignore[operator, arg-type]
        return self.predict(x), None

    def flops(self, source_length: float, target_length: float) -> tuple[float, float]:
        saying = sum(block.flops() for block in self.blocks) + 2.0 * self.top.weight.numel()  # type: ignore[operator]
        return 2.0 * self.join.weight.numel(), saying


@dataclass(kw_only=True)
class ByteNetKeywords(ByteNetConfig, TranslatorKeywords):
    """What `ByteNet(…)` takes."""


class ByteNet(EncoderDecoder):
    """Dilated convolutions, the decoder on top of the encoder, no attention (Kalchbrenner et al. 2016).

        model = ByteNet(vocabulary=8_000, dim=256)
        logits = model(source, target)  # ids (B, S) and (B, T) -> (B, T, 8_000)

    Its memory is (B, a S + b, dim).
    """

    config: ByteNetConfig

    @by_keywords(ByteNetKeywords)
    def __init__(self, config: ByteNetConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        c = config
        words = partial(Embedding, dim=c.dim, max_length=c.max_length, dropout=c.dropout, positions="none")
        encoder = c.build_encoder()
        super().__init__(config, words(source_vocabulary), words(target_vocabulary), encoder, ByteNetDecoder(config))

    def encode(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        """(B, S) -> (B, |t̂|, dim): the sentence is followed by places where nothing is read."""
        room, unfolded = self.config.places(source.shape[1]), self.config.places(source_lengths)  # |t̂|, and (B,)
        x = cleared(self.source_embedding(source), source_lengths)[:, :room]
        x = F.pad(x, (0, 0, 0, max(room - x.shape[1], 0)))
        return cleared(self.encoder(x, unfolded), unfolded)

    def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
        """The encoder's places are those of |t̂|, not rounded up."""
        of = super().flops
        per_place, per_said = of(1, 0, source_length, target_length), of(0, 1, source_length, target_length)
        longer = self.config.unfold + self.config.unfold_extra / max(source_length, 1.0)
        return source_tokens * longer * per_place + target_tokens * per_said
