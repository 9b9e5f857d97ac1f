"""From token numbers to the first vectors: a table of tokens, scaled, with where each token stands where the input says
so (nn/positions.py has all the ways, and those that are told to attention instead)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.nn.positions import Positions, sinusoids

INITIAL_POSITIONS = 1 << 16
"""Waves for so many are made at once, and more when a text is longer."""

__all__ = ["Embedding", "Positions", "sinusoids"]


class Embedding(nn.Module):
    """tokens (B, T) -> vectors (B, T, dim): √dim · table[token] + position, then dropout; not `scaled`, without √dim.

    The table is drawn with deviation dim^-½, so that the scaled vectors have unit size and the same table, unscaled,
    gives logits of unit size when it also serves as the output projection (weight tying, Press & Wolf 2017).

    Positions: `sinusoidal` and `learned` are added; `sinusoidal-concatenated` is W [√dim · table[token] ; waves], a
    product that begins as the sum, W = [I  W_p]; with any other nothing is said here. `max_length` is the longest
    sequence: where a table of positions ends, and else a limit that None lifts.

    `word_dropout`: the share of words of the table that are zero in an update, wherever they stand in its batch (Gal &
    Ghahramani 2016). `pad`: a token whose vector is zero and stays so.
    """

    positions: Tensor | None

    def __init__(
        self,
        vocabulary: int,
        dim: int,
        *,
        positions: Positions = "sinusoidal",
        max_length: int | None = 512,
        dropout: float = 0.0,
        pad: int | None = 0,
        scaled: bool = True,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(dim) if scaled else 1.0
        self.word_dropout = word_dropout
        self.kind: Positions = positions
        self.max_length = max_length
        self.table = nn.Embedding(vocabulary, dim, padding_idx=pad)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        if pad is not None:
            with torch.no_grad():
                self.table.weight[pad].zero_()
        self.dropout = nn.Dropout(dropout)
        if positions == "learned":
            if max_length is None:
                raise ValueError("learned positions are a table: say how long with max_length")
            self.positions = nn.Parameter(torch.empty(max_length, dim))
            nn.init.normal_(self.positions, std=0.02)
        elif positions.startswith("sinusoidal"):
            self.register_buffer(
                "positions", sinusoids(min(max_length or 512, INITIAL_POSITIONS), dim), persistent=False
            )
        else:
            self.positions = None
        if positions == "sinusoidal-concatenated":
            self.mix = nn.Linear(2 * dim, dim, bias=False)
            with torch.no_grad():
                self.mix.weight[:, :dim].copy_(torch.eye(dim))

    def forward(self, tokens: Tensor, position: Tensor | None = None) -> Tensor:
        """Tokens stand at 0, 1, 2, … or at `position` (B, T); (B,), each row's only token stands there."""
        x = self.table(tokens) * self.scale
        if self.word_dropout and self.training:
            kept = x.new_empty(self.table.num_embeddings).bernoulli_(1 - self.word_dropout).div_(1 - self.word_dropout)
            x = x * kept[tokens][..., None]
        length = tokens.shape[1]
        if position is None:
            self.reserve(length)
        if self.positions is None:
            return self.dropout(x)
        if position is not None:
            place = self.positions[position if position.dim() == 2 else position[:, None]]  # (B, T, dim)
        else:
            place = self.positions[:length]  # (T, dim)
        if self.kind == "sinusoidal-concatenated":
            return self.dropout(self.mix(torch.cat([x, place.expand_as(x)], dim=-1)))
        return self.dropout(x + place)

    def reserve(self, length: int) -> None:
        """Make sure that there are so many places: waves have no end; a UserError where a table or a limit has."""
        if self.max_length is not None and length > self.max_length:
            table = self.kind == "learned"
            raise UserError(
                f"a sequence of {length} tokens is longer than the model's {self.max_length} positions",
                cure=f"split it, or {'train with' if table else 'set'} a larger model.max_length",
            )
        if self.positions is not None and length > self.positions.shape[0]:
            self.positions = sinusoids(2 * length, self.positions.shape[1]).to(self.positions)
