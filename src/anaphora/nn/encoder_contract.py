"""What every encoder promises: from vectors to vectors that know their context, (B, T, dim), lengths (B,) ->
(B, T, dim).

Three promises: padding never changes a real token's vector; neither do other rows; and a `causal` encoder gives each
place a vector of that place and those before it alone, as a language model needs. What comes out at padding means
nothing.

A causal encoder can also stop and go on. What it must remember is a `Past`: named tensors of fixed shape, a row of each
for every row of text, among them `position`, how many places each row has taken.

    past = encoder.start(rows, max_length, like)     nothing read yet
    y, past = encoder.read(x, past)                  several places at once: x (R, T, dim)
    y = encoder.step(x, past)                        one place: x (R, dim), the past changed where it stands

All three ways give the same vectors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anaphora.nn.masks import padding_mask

Past = dict[str, Tensor]
"""Named tensors, one row for each row of text."""


class Encoder(nn.Module):
    """The contract. `dim` is the width of its vectors, `causal` whether it reads one way only."""

    dim: int
    causal: bool
    carries: bool = False
    """Whether what it remembers is worth carrying from one piece of a long text to the next while it learns."""
    attends: bool = False
    """Whether it can say how much each place took of each other one."""

    def forward(self, x: Tensor, lengths: Tensor | None = None, *, every: list[Tensor] | None = None) -> Tensor:
        """(B, T, dim), lengths (B,), without them all rows full -> (B, T, dim). Into `every`, where a list is given,
        goes what each layer says, (B, T, its width), the last as the encoder says it. Here, of a causal encoder that
        can go on, all of it from the beginning, as one layer."""
        y, _ = self.read(x, self.start(len(x), x.shape[1], x), lengths)
        if every is not None:
            every.append(y)
        return y

    def packed(self, x: Tensor, documents: Tensor) -> Tensor:
        """Several documents in a row, as if each stood in a row of its own: x (B, T, dim), documents (B, T) their
        numbers, below 0 at padding. Here they are given rows of their own; attention has masks for it."""
        rows = DocumentRows(documents)
        return rows.back(self(rows.apart(x), rows.lengths))

    def start(self, rows: int, max_length: int, like: Tensor) -> Past:
        """What is remembered before anything is read, with room for max_length places; device and type as `like`."""
        raise NotImplementedError(f"{type(self).__name__} does not read step by step")

    def read(self, x: Tensor, past: Past, lengths: Tensor | None = None) -> tuple[Tensor, Past]:
        """Read on: x (R, T, dim), of which lengths (R,) are real -> vectors (R, T, dim), and the past after them. It is
        a new one, of which no gradient comes back; but caches of keys and values are written where they stand."""
        raise NotImplementedError(f"{type(self).__name__} does not read step by step")

    def step(self, x: Tensor, past: Past, bound: int | None = None) -> Tensor:
        """One place: x (R, dim) -> (R, dim); the past is changed in place, at fixed addresses. `bound`: no row has
        taken more places than that before, where the host knows it."""
        y, after = self.read(x[:, None], past)
        for name, tensor in after.items():
            past[name].copy_(tensor)
        return y[:, 0]

    def growing(self) -> frozenset[str]:
        """Names of what is remembered that have a place for each token, at dimension 2."""
        return frozenset()

    def flops(self, length: float) -> float:
        """Floating-point operations for each place of rows of that length; a product (m, k) · (k, n) counts 2mkn. Here
        as if every matrix were used once for each place."""
        return 2.0 * sum(weight.numel() for weight in self.parameters() if weight.dim() > 1)


def real_tokens(x: Tensor, lengths: Tensor) -> Tensor:
    """True at real tokens: (B, T, 1)."""
    return padding_mask(lengths, x.shape[1])[:, 0, 0, :, None]


def cleared(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, T, dim) with zeros at padding."""
    return x if lengths is None else x.masked_fill(~real_tokens(x, lengths), 0.0)


def beginning(rows: int, like: Tensor) -> Tensor:
    """`position` of rows that have read nothing: (R,)."""
    return torch.zeros(rows, dtype=torch.long, device=like.device)


def after(position: Tensor, x: Tensor, lengths: Tensor | None) -> Tensor:
    """`position` when x (R, T, dim) has been read: (R,)."""
    return position + (x.shape[1] if lengths is None else lengths)


def document_places(documents: Tensor) -> Tensor:
    """Where each token stands in its own document: documents (B, T), their numbers -> (B, T), each from 0 on."""
    place = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    return place - torch.where(_begins(documents), place, 0).cummax(dim=1).values


def _begins(documents: Tensor) -> Tensor:
    """True at the first token of each document, and of each stretch of padding: (B, T)."""
    first = torch.ones_like(documents[:, :1], dtype=torch.bool)
    return torch.cat([first, documents[:, 1:] != documents[:, :-1]], dim=1)


class DocumentRows:
    """From packed rows to a row for each document, and back."""

    def __init__(self, documents: Tensor) -> None:
        self.real = documents >= 0  # (B, T)
        number = _begins(documents).flatten().cumsum(0).view_as(documents) - 1  # padding counts as a document here
        self.row = number[self.real].unique(return_inverse=True)[1]  # (tokens,), and here no longer
        self.place = document_places(documents)[self.real]  # (tokens,)
        self.lengths = torch.bincount(self.row)
        self.longest = int(self.lengths.max()) if len(self.lengths) else 0

    def apart(self, x: Tensor) -> Tensor:
        """(B, T, dim) -> (documents, longest, dim)"""
        rows = x.new_zeros(len(self.lengths), self.longest, x.shape[-1])
        return rows.index_put((self.row, self.place), x[self.real])

    def back(self, x: Tensor) -> Tensor:
        """(documents, longest, dim) -> (B, T, dim), zeros at padding"""
        packed = x.new_zeros(*self.real.shape, x.shape[-1])
        return packed.masked_scatter(self.real[..., None], x[self.row, self.place])


def locked_dropout(x: Tensor, share: float, training: bool, locked: bool = True) -> Tensor:
    """Dropout of x (B, T, dim); locked, the same numbers at every place of a row (Gal & Ghahramani 2016)."""
    if not locked or not training or not share:
        return nn.functional.dropout(x, share, training)
    kept = x.new_empty(x.shape[0], 1, x.shape[2]).bernoulli_(1 - share)
    return x * kept.div_(1 - share)
