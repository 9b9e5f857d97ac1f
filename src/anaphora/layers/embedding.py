"""From token numbers to the first vectors: a table of tokens, scaled, plus where each token stands.

Attention is blind to order; positions tell it. *Sinusoidal* ones are fixed waves of many lengths (Vaswani et al. 2017,
§3.5) and can be made for any length; *learned* ones are a table and end where the table ends.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from anaphora.errors import UserError

Positions = Literal["sinusoidal", "learned"]


def sinusoids(length: int, dim: int) -> Tensor:
    """PE[p, 2i] = sin(p / 10000^(2i/dim)), PE[p, 2i+1] = cos(the same): (length, dim)."""
    rate = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10_000.0) / dim))  # (ceil(dim / 2),)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate  # (length, ceil(dim / 2))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim].float()


class Embedding(nn.Module):
    """tokens (B, T) -> vectors (B, T, dim): √dim · table[token] + position, then dropout.

    The table is drawn with deviation dim^-½, so that the scaled vectors have unit size and the same table, unscaled,
    gives logits of unit size when it also serves as the output projection (weight tying, Press & Wolf 2017).
    """

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        *,
        positions: Positions = "sinusoidal",
        max_length: int = 512,
        dropout: float = 0.0,
        pad: int = 0,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(dim)
        self.max_length = max_length
        self.table = nn.Embedding(vocabulary, dim, padding_idx=pad)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        with torch.no_grad():
            self.table.weight[pad].zero_()
        self.dropout = nn.Dropout(dropout)
        if positions == "learned":
            self.positions = nn.Parameter(torch.empty(max_length, dim))
            nn.init.normal_(self.positions, std=0.02)
        else:
            self.register_buffer("positions", sinusoids(max_length, dim), persistent=False)

    def forward(self, tokens: Tensor, position: Tensor | None = None) -> Tensor:
        """Tokens stand at 0, 1, 2, … or, where `position` (B,) is given, each row's only token stands there."""
        if position is not None:
            place = self.positions[position][:, None]  # (B, 1, dim)
        elif tokens.shape[1] > self.max_length:
            raise UserError(
                f"a sequence of {tokens.shape[1]} tokens is longer than the model's {self.max_length} positions",
                cure="split it, or train with a larger model.max_length",
            )
        else:
            place = self.positions[: tokens.shape[1]]  # (T, dim)
        return self.dropout(self.table(tokens) * self.scale + place)
