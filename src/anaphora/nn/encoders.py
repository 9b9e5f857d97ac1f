"""Encoders: from vectors to vectors that know their context, (B, T, dim), lengths (B,) -> (B, T, dim).

Whatever reads a text obeys this one contract (nn/encoder_contract.py), so encoders stack and any of them can stand
where another stood:

    AveragingEncoder      the mean of what has been read; order is lost      this file
    WindowEncoder         a network over the nearest words                   nn/convolution.py
    ConvolutionEncoder    windows in layers, each seeing further             nn/convolution.py
    RecurrentEncoder      a cell that carries a state from word to word      nn/recurrence.py
    TransformerEncoder    attention, in layers                               nn/transformer.py

`ClassificationHead` turns one vector, or the mean of all, into a choice between classes.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from anaphora.nn.convolution import ConvolutionEncoder, DeepNetwork, WindowEncoder
from anaphora.nn.encoder_contract import Encoder, Past, after, beginning, cleared, real_tokens
from anaphora.nn.recurrence import Cell, RecurrentEncoder

__all__ = [
    "AveragingEncoder",
    "Cell",
    "ClassificationHead",
    "ConvolutionEncoder",
    "Encoder",
    "Past",
    "Pool",
    "RecurrentEncoder",
    "WindowEncoder",
    "real_tokens",
]

Pool = Literal["mean", "max", "first", "last"]


class AveragingEncoder(Encoder):
    """h_t = mean of x_1 … x_T, or, causal, of x_1 … x_t: nothing to learn.

    With `layers`, a deep averaging network (Iyyer et al. 2015): so many feed-forward layers, `hidden` wide, follow the
    mean.
    """

    def __init__(
        self,
        dim: int,
        *,
        causal: bool = False,
        layers: int = 0,
        hidden: int | None = None,
        dropout: float = 0.0,
        locked: bool = False,
    ) -> None:
        super().__init__()
        self.dim, self.causal = dim, causal
        self.network = (
            DeepNetwork(dim, dim, layers=layers, hidden=hidden, dropout=dropout, locked=locked) if layers else None
        )

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        if self.causal:  # padding stands at the end, after every real token
            mean = x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        elif lengths is None:
            mean = x.mean(dim=1, keepdim=True).expand_as(x)
        else:
            total = cleared(x, lengths).sum(dim=1, keepdim=True)  # (B, 1, dim)
            mean = (total / lengths.clamp(min=1)[:, None, None]).expand_as(x)
        return self._deepened(mean, every)

    def _deepened(self, mean: Tensor, every: list[Tensor] | None = None) -> Tensor:
        if self.network is not None:
            return self.network(mean, every)
        if every is not None:
            every.append(mean)
        return mean

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        return {"position": beginning(rows, like), "total": like.new_zeros(rows, self.dim)}

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        sums = past["total"][:, None] + cleared(x, lengths).cumsum(dim=1)  # (R, T, dim): beyond a row's end, its total
        count = past["position"][:, None] + torch.arange(1, x.shape[1] + 1, device=x.device)  # (R, T)
        new = {"position": after(past["position"], x, lengths), "total": sums[:, -1].detach()}
        return self._deepened(sums / count[:, :, None]), new

    def flops(self, length: float) -> float:
        return 0.0 if self.network is None else self.network.flops()


class ClassificationHead(nn.Module):
    """logits = W · pooled + b: (B, T, dim), lengths (B,) -> (B, classes).

    pool: mean or max over the real tokens, or the first or last of them. After a causal encoder the last one has read
    everything.
    """

    def __init__(self, dim: int, classes: int, *, pool: Pool = "mean", dropout: float = 0.0) -> None:
        super().__init__()
        if pool not in ("mean", "max", "first", "last"):
            raise ValueError(f"no pooling is called {pool!r}; there are mean, max, first, last")
        self.pool: Pool = pool
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(dim, classes)

    def pooled(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, dim) -> (B, dim)"""
        if self.pool == "first":
            return x[:, 0]
        if self.pool == "last":
            return x[torch.arange(len(x), device=x.device), (lengths - 1).clamp(min=0)]
        if self.pool == "max":
            largest = x.masked_fill(~real_tokens(x, lengths), torch.finfo(x.dtype).min).amax(dim=1)
            return largest.masked_fill((lengths == 0)[:, None], 0.0)  # the largest of nothing, as the mean of nothing
        return cleared(x, lengths).sum(dim=1) / lengths.clamp(min=1)[:, None]  # zeros where there are none

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.linear(self.dropout(self.pooled(x, lengths)))
