"""The blocks of the Transformer, each a row of sub-layers wrapped in residual + normalisation, and a stack of them.

    encoder block:  x → self-attention → feed-forward
    cross block:    x → cross-attention → feed-forward
    decoder block:  x → masked self-attention → cross-attention → feed-forward

An encoder block with `causal=True` is the block of a decoder without a source, as language models use it.

*Post-norm* is the published order, x ← norm(x + sublayer(x)); *pre-norm*, x ← x + sublayer(norm(x)), leaves a clean
path from the last layer to the first, so it trains without a careful warm-up, and needs one more norm at the top of the
stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.layers.attention import Backend, MultiHeadAttention
from anaphora.layers.backends import Normaliser
from anaphora.layers.encoders import Encoder
from anaphora.layers.masks import Causal, Mask, Padding, Window, padding_mask
from anaphora.layers.positions import NOWHERE, Positions, Relation, RelativePositions
from anaphora.layers.scores import Score

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu"]


class FeedForward(nn.Module):
    """W₂ · activation(W₁ x + b₁) + b₂: the same two-layer network at every position, (B, T, dim) -> (B, T, dim).

    Attention alone only averages values; this is the non-linearity after it.
    """

    def __init__(self, dim: int, hidden: int, *, activation: Activation = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(dim, hidden)
        self.outer = nn.Linear(hidden, dim)
        self.activation: Callable[[Tensor], Tensor] = F.relu if activation == "relu" else F.gelu
        self.dropout = nn.Dropout(dropout)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(x))))


class Residual(nn.Module):
    """Pre-norm: x + dropout(sublayer(norm(x))); post-norm: norm(x + dropout(sublayer(x))); (B, T, dim) all along."""

    def __init__(self, dim: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.first = norm == "pre"
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class AttentionBlock(nn.Module):
    """One attention and one feed-forward network, each within its residual: what the next two are made of."""

    def __init__(
        self, attention: MultiHeadAttention, feed_forward: FeedForward, *, dim: int, norm: Norm, dropout: float
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(dim, norm, dropout)
        self.around_feed_forward = Residual(dim, norm, dropout)


class EncoderBlock(AttentionBlock):
    """Every position looks at every one that the mask leaves, then thinks for itself.

    pre-norm:   x ← x + attention(norm(x));        x ← x + feed_forward(norm(x))
    post-norm:  x ← norm(x + attention(x));        x ← norm(x + feed_forward(x))
    """

    def forward(
        self, x: Tensor, mask: Tensor | Mask | None = None, *, causal: bool = False, relation: Relation = NOWHERE
    ) -> Tensor:
        """x (B, S, dim), mask (B, 1, 1, S) True at real tokens, where positions are relative what is said of them ->
        (B, S, dim)."""
        x = self.around_attention(x, lambda x: self.attention(x, mask=mask, causal=causal, relation=relation))
        return self.around_feed_forward(x, self.feed_forward)


class CrossAttentionBlock(AttentionBlock):
    """Every position looks at a memory, then thinks for itself.

    pre-norm:   x ← x + attention(norm(x), memory);        x ← x + feed_forward(norm(x))
    post-norm:  x ← norm(x + attention(x, memory));        x ← norm(x + feed_forward(x))
    """

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | Mask | None = None) -> Tensor:
        """x (B, T, dim) over memory (B, S, memory_dim), mask (B, 1, 1, S) True at its real tokens -> (B, T, dim)."""
        x = self.around_attention(x, lambda x: self.attention(x, memory, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


class DecoderBlock(nn.Module):
    """Every position looks at itself and before, then at the source, then thinks for itself.

    Pre-norm: x ← x + attention(norm(x)); x ← x + cross_attention(norm(x), memory); x ← x + feed_forward(norm(x)).
    Post-norm, the norm stands around each sum, as in the encoder block.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        *,
        dim: int,
        norm: Norm,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(dim, norm, dropout)
        self.around_cross_attention = Residual(dim, norm, dropout)
        self.around_feed_forward = Residual(dim, norm, dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | Mask | None = None,
        *,
        own_mask: Tensor | Mask | None = None,
        relation: Relation = NOWHERE,
    ) -> Tensor:
        """x (B, T, dim) over memory (B, S, dim), mask (B, 1, 1, S) -> (B, T, dim); `own_mask` narrows what a position
        may see of x itself, `relation` says what it is told of positions there.

        Padding stands at the end of a row, so the causal mask already hides it from every real position.
        """
        key, value = self.cross_attention.remember(memory)
        x = self.around_attention(x, lambda x: self.attention(x, mask=own_mask, causal=True, relation=relation))
        x = self.around_cross_attention(x, lambda x: self.cross_attention.look(x, key, value, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)

    def step(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor],
        memory: tuple[Tensor, Tensor],
        mask: Tensor | None,
        *,
        slot: Tensor,
        seen: Tensor,
        relation: Relation = NOWHERE,
        weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """One token a row: x (B, K, dim), K rows a sentence, memory (B, H, S, D) twice -> (B, K, dim), and where asked
        what each row looked at, (B, H, K, S).

        The rows of one sentence are the queries of one attention over its memory, and of one over all that any of them
        has said (cache, slot and seen: see MultiHeadAttention.step). Nothing is copied.
        """
        looked: list[Tensor] = []

        def cross(x: Tensor) -> Tensor:
            if weights:
                looked.append(self.cross_attention.weights(x, memory[0], mask=mask))
            return self.cross_attention.look(x, *memory, mask=mask)

        x = self.around_attention(x, lambda x: self.attention.step(x, *cache, slot, seen, relation))
        x = self.around_cross_attention(x, cross)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, looked[0] if looked else None


class TransformerEncoder(Encoder):
    """A stack of encoder blocks: (B, T, dim), lengths (B,) -> (B, T, dim).

    `causal`, `window`, `key_value_heads`, `score`, `normaliser` and `positions` are those of its attentions (see
    layers/attention.py and layers/positions.py); positions that belong to the input are the embedding's business.
    """

    def __init__(
        self,
        dim: int,
        *,
        layers: int = 1,
        heads: int = 4,
        feed_forward: int | None = None,
        norm: Norm = "pre",
        activation: Activation = "relu",
        positions: Positions = "none",
        causal: bool = False,
        window: int | None = None,
        key_value_heads: int | None = None,
        score: Score = "scaled-dot",
        normaliser: Normaliser = "softmax",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_positions(positions, score, normaliser)
        self.dim, self.causal = dim, causal
        self.window = None if window is None else Window(window)
        self.rules = backend == "flex"  # the only one that prefers masks and biases as rules
        self.blocks = nn.ModuleList(
            EncoderBlock(
                MultiHeadAttention(
                    dim,
                    heads,
                    key_value_heads=key_value_heads,
                    score=score,
                    normaliser=normaliser,
                    dropout=attention_dropout,
                    backend=backend,
                ),
                FeedForward(dim, feed_forward or 4 * dim, activation=activation, dropout=activation_dropout),
                dim=dim,
                norm=norm,
                dropout=dropout,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim) if norm == "pre" else nn.Identity()
        self.positions = RelativePositions(positions, heads, dim // heads, both_ways=not causal)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        length = x.shape[1]
        rule = Padding(lengths) if self.window is None else Padding(lengths) & self.window
        if self.rules:
            mask: Tensor | Mask = rule & Causal() if self.causal else rule
            relation = self.positions.rule(length, x.device)
        else:  # written out once, for all layers
            mask = padding_mask(lengths, length) if self.window is None else rule.materialise(length, length)
            relation = self.positions.whole(length, x.device)
        for block in self.blocks:
            x = block(x, mask, causal=self.causal and not self.rules, relation=relation)
        return self.norm(x)


def check_positions(positions: Positions, score: Score, normaliser: Normaliser) -> None:
    """A ValueError for positions that a score or normaliser could make nothing of."""
    if positions == "rotary" and score in ("additive", "bilinear"):
        raise ValueError(
            f"rotary positions show in plain dot products; with {score} scores distances would be lost; choose other "
            "positions, or scaled-dot scores"
        )
    if positions in ("alibi", "relative") and normaliser == "none":
        raise ValueError(
            f"{positions} positions shift a softmax; with normaliser 'none' there is none; choose other positions, or "
            "normaliser softmax"
        )
