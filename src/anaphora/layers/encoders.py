"""Encoders: from vectors to vectors that know their context, (B, T, dim), lengths (B,) -> (B, T, dim).

Whatever reads a text obeys this one contract, so encoders stack and any of them can stand where another stood:

    AveragingEncoder      the mean of what has been read; order is lost
    WindowEncoder         a network over the nearest words
    RecurrentEncoder      a cell that carries a state from word to word
    ConvolutionEncoder    windows in layers, each seeing further
    TransformerEncoder    attention, in layers (layers/transformer.py)

Three promises: padding never changes a real token's vector; neither do other rows; and a `causal` encoder gives each
place a vector of that place and those before it alone, as a language model needs. What comes out at padding means
nothing. `ClassificationHead` turns one vector, or the mean of all, into a choice between classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.errors import nearest
from anaphora.layers.masks import padding_mask

Cell = Literal["rnn", "rnn-relu", "gru", "lstm"]
Pool = Literal["mean", "max", "first", "last"]


class Encoder(nn.Module):
    """The contract. `dim` is the width of its vectors, `causal` whether it reads one way only."""

    dim: int
    causal: bool

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, dim), lengths (B,) -> (B, T, dim)"""
        raise NotImplementedError


def real_tokens(x: Tensor, lengths: Tensor) -> Tensor:
    """True at real tokens: (B, T, 1)."""
    return padding_mask(lengths, x.shape[1])[:, 0, 0, :, None]


class AveragingEncoder(Encoder):
    """h_t = mean of x_1 … x_T, or, causal, of x_1 … x_t: nothing to learn (with a head, a deep averaging network)."""

    def __init__(self, dim: int, *, causal: bool = False) -> None:
        super().__init__()
        self.dim, self.causal = dim, causal

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        if self.causal:  # padding stands at the end, after every real token
            return x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        total = x.masked_fill(~real_tokens(x, lengths), 0.0).sum(dim=1, keepdim=True)  # (B, 1, dim)
        return (total / lengths.clamp(min=1)[:, None, None]).expand_as(x)


class WindowEncoder(Encoder):
    """h_t = tanh(W [x_{t-n+1}; …; x_t] + b): a network that sees the last n words and where each stands among them.

    Not causal, the window is x_{t-n+1} … x_{t+n-1}. Beyond the ends stand zeros.
    """

    def __init__(self, dim: int, *, size: int = 3, causal: bool = False) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"a window holds at least the word itself: size {size} is below 1")
        self.dim, self.size, self.causal = dim, size, causal
        width = size if causal else 2 * size - 1
        self.linear = nn.Linear(width * dim, dim)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        x = x.masked_fill(~real_tokens(x, lengths), 0.0)
        x = F.pad(x, (0, 0, self.size - 1, 0 if self.causal else self.size - 1))  # (B, T + …, dim)
        windows = x.unfold(1, self.linear.in_features // self.dim, 1)  # (B, T, dim, width)
        return torch.tanh(self.linear(windows.transpose(-2, -1).flatten(2)))


class RecurrentEncoder(Encoder):
    """h_t = cell(x_t, h_{t-1}): one cell, the same at every place, that carries a state from word to word.

        rnn         h_t = tanh(W x_t + U h_{t-1} + b)
        rnn-relu    the same with ReLU: a state that can count
        gru, lstm   with gates, so that a state can last

    Not causal, a second one reads backwards and each has half of the width; rows are then packed, so that it begins at
    a row's last real token and not in padding.
    """

    def __init__(
        self, dim: int, *, cell: Cell = "rnn", layers: int = 1, causal: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        kinds: dict[str, Callable[..., nn.RNNBase]] = {
            "rnn": nn.RNN,
            "rnn-relu": partial(nn.RNN, nonlinearity="relu"),
            "gru": nn.GRU,
            "lstm": nn.LSTM,
        }
        if cell not in kinds:
            raise ValueError(f"no cell is called {cell!r}; {nearest(cell, kinds)}")
        if not causal and dim % 2:
            raise ValueError(f"two directions share {dim} dimensions: it must be an even number")
        self.dim, self.causal = dim, causal
        self.cell: nn.RNNBase = kinds[cell](
            dim,
            dim if causal else dim // 2,
            num_layers=layers,
            batch_first=True,
            bidirectional=not causal,
            dropout=dropout if layers > 1 else 0.0,
        )

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        if self.causal:  # padding stands at the end: a state that has read it reaches no real token
            return self.cell(x)[0]
        # an empty row is read as one token, which nobody looks at
        lengths = lengths.clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.cell(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class ConvolutionEncoder(Encoder):
    """h ← h + ReLU(W * h + b), in layers: each place sees `width` places of the layer below, so L layers see
    1 + L (width - 1) words, or, with the dilation doubled from layer to layer, 1 + (2^L - 1) (width - 1).

    Causal, a place sees the last ones; otherwise as many on each side (an odd width).
    """

    def __init__(
        self, dim: int, *, width: int = 3, layers: int = 1, causal: bool = False, dilated: bool = False
    ) -> None:
        super().__init__()
        if width < 1 or (not causal and width % 2 == 0):
            raise ValueError(f"width {width}: a convolution that looks both ways needs an odd one, at least 1")
        self.dim, self.width, self.causal = dim, width, causal
        self.dilations = [2**layer if dilated else 1 for layer in range(layers)]
        self.layers = nn.ModuleList(nn.Conv1d(dim, dim, width, dilation=dilation) for dilation in self.dilations)

    @property
    def receptive_field(self) -> int:
        """How many words a place can know of."""
        return 1 + (self.width - 1) * sum(self.dilations)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        real = real_tokens(x, lengths)
        for layer, dilation in zip(self.layers, self.dilations):
            reach = (self.width - 1) * dilation
            before = reach if self.causal else reach // 2
            clean = x.masked_fill(~real, 0.0).transpose(1, 2)  # (B, dim, T)
            x = x + F.relu(layer(F.pad(clean, (before, reach - before)))).transpose(1, 2)
        return x


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
        real = real_tokens(x, lengths)
        if self.pool == "max":
            largest = x.masked_fill(~real, torch.finfo(x.dtype).min).amax(dim=1)
            return largest.masked_fill((lengths == 0)[:, None], 0.0)  # the largest of nothing, as the mean of nothing
        return x.masked_fill(~real, 0.0).sum(dim=1) / lengths.clamp(min=1)[:, None]

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.linear(self.dropout(self.pooled(x, lengths)))
