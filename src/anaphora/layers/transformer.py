"""The two blocks of the Transformer, each a row of sub-layers wrapped in residual + normalisation.

    encoder block:  x → self-attention → feed-forward
    decoder block:  x → masked self-attention → cross-attention → feed-forward

*Post-norm* is the published order, x ← norm(x + sublayer(x)); *pre-norm*, x ← x + sublayer(norm(x)), leaves a clean
path from the last layer to the first, so it trains without a careful warm-up, and needs one more norm at the top of the
stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.layers.attention import MultiHeadAttention

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu"]


class FeedForward(nn.Module):
    """W₂ · activation(W₁ x): the same two-layer network at every position, (B, T, dim) -> (B, T, dim)."""

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
    """x + dropout(sublayer(norm(x))), or norm(x + dropout(sublayer(x)))."""

    def __init__(self, dim: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.first = norm == "pre"
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderBlock(nn.Module):
    """Every position looks at every real position, then thinks for itself."""

    def __init__(
        self, attention: MultiHeadAttention, feed_forward: FeedForward, *, dim: int, norm: Norm, dropout: float
    ):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(dim, norm, dropout)
        self.around_feed_forward = Residual(dim, norm, dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, S, dim), mask (B, 1, 1, S) True at real tokens -> (B, S, dim)."""
        x = self.around_attention(x, lambda x: self.attention(x, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


class DecoderBlock(nn.Module):
    """Every position looks at itself and before, then at the source, then thinks for itself."""

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

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, dim) over memory (B, S, dim), mask (B, 1, 1, S) -> (B, T, dim).

        Padding stands at the end of a row, so the causal mask already hides it from every real position.
        """
        key, value = self.cross_attention.remember(memory)
        x = self.around_attention(x, lambda x: self.attention(x, causal=True))
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

        x = self.around_attention(x, lambda x: self.attention.step(x, *cache, slot, seen))
        x = self.around_cross_attention(x, cross)
        x = self.around_feed_forward(x, self.feed_forward)
        return x, looked[0] if looked else None
