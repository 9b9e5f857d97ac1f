"""What the operations of a patch do to sense vectors: a pure function of the token, from network or table alike.

    remove       C ← 0
    scale        C ← s C
    project out  C ← C - (C · u) u                u = E[w] / |E[w]|, of two words (E[a] - E[b]) / |E[a] - E[b]|
    add          C ← C + s u
    replace      C ← C(another word)
    exchange     C ← C + (C · a)(b - a)           a, b: the unit vectors of two rows of E

`edited` gives the model's `rewrite`: senses of distinct tokens in (N, k, d), the same changed out. Every operation is a
choice between the old and the new vector, made without asking the device how many there are (no host synchronization),
so tokens that no operation names keep their vectors bit for bit. The arithmetic is done in float32, whatever the table
is kept in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models.backpack.patch import (
    ALL,
    Add,
    Exchange,
    Operation,
    ProjectOut,
    Remove,
    Replace,
    Scale,
    Words,
)
from anaphora.tokenizers.word_pieces import WordTokens

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack

Lookup = Callable[[str], WordTokens]
NEGLIGIBLE = 1e-8
"""A direction shorter than this, by the longest row of E, is none."""


@dataclass
class Edit:
    """One operation, ready to be done: whose senses, which of them, and their new vectors."""

    member: Tensor | None
    """(V,) which tokens; None: all."""
    which: Tensor
    """(k,) which senses."""
    change: Callable[[Tensor], Tensor]
    """Senses (N, k, d) in float32 -> what they become, if they are meant; or what can be expanded to that."""

    def __call__(self, ids: Tensor, senses: Tensor) -> Tensor:
        meant = self.which.expand(len(ids), -1)  # (N, k)
        if self.member is not None:
            meant = meant & self.member[ids][:, None]
        return torch.where(meant[..., None], self.change(senses.float()).to(senses.dtype), senses)


class SenseEdits:
    """Operations, one after the other: a model's `rewrite`."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = tuple(edits)

    def __call__(self, ids: Tensor, senses: Tensor) -> Tensor:
        for edit in self.edits:
            senses = edit(ids, senses)
        return senses


@torch.no_grad()
def edited(model: Backpack, operation: Operation, tokens_of: Lookup) -> SenseEdits:
    """The model's `rewrite` with one more operation behind it, which finds the senses as the others left them."""
    device = model.vocabulary_matrix.device
    which = torch.zeros(model.senses_count, dtype=torch.bool, device=device)
    which[slice(None) if operation.senses == ALL else list(operation.senses)] = True
    edit = Edit(members(operation.words, model, tokens_of), which, _change(model, operation, tokens_of))
    return SenseEdits([*(model.rewrite.edits if isinstance(model.rewrite, SenseEdits) else ()), edit])


def _change(model: Backpack, operation: Operation, tokens_of: Lookup) -> Callable[[Tensor], Tensor]:
    if isinstance(operation, Remove):
        return torch.zeros_like
    if isinstance(operation, Scale):
        by = operation.by
        return lambda senses: senses * by
    if isinstance(operation, ProjectOut):
        along = direction(model, operation.direction, tokens_of)  # (d,)
        return lambda senses: senses - (senses @ along)[..., None] * along
    if isinstance(operation, Add):
        more = operation.by * direction(model, operation.direction, tokens_of)
        return lambda senses: senses + more
    if isinstance(operation, Exchange):
        out = direction(model, (operation.out,), tokens_of)
        into = direction(model, (operation.in_,), tokens_of)
        return lambda senses: senses + (senses @ out)[..., None] * (into - out)
    if isinstance(operation, Replace):
        ids = torch.tensor(tokens_of(operation.with_).chief, device=model.vocabulary_matrix.device)
        vectors = model.sense_vectors(ids).float().mean(dim=0)  # (k, d): a word in pieces is their mean
        if operation.sense is not None:
            vectors = vectors[operation.sense]  # (d,)
        return lambda senses: vectors.expand_as(senses)
    raise ValueError(f"{operation.do} changes no sense vector")


def members(words: Words, model: Backpack, tokens_of: Lookup) -> Tensor | None:
    """(V,) True for the tokens of these words; None for all."""
    if words == ALL:
        return None
    found = torch.zeros(model.vocabulary, dtype=torch.bool, device=model.vocabulary_matrix.device)
    for word in words:
        found[list(tokens_of(word).all)] = True
    return found


def direction(model: Backpack, words: Sequence[str], tokens_of: Lookup) -> Tensor:
    """The unit vector of a word's row of the vocabulary matrix; of two words, of the first minus the second: (d,)."""
    table = model.vocabulary_matrix.detach()
    rows = [table[list(tokens_of(word).chief)].float().mean(dim=0) for word in words]
    along = rows[0] if len(rows) == 1 else rows[0] - rows[1]
    length = along.norm()
    if not float(length) > NEGLIGIBLE * float(table.float().norm(dim=1).max()):
        what = repr(words[0]) if len(words) == 1 else f"{words[0]!r} and {words[1]!r}"
        raise UserError(
            f"there is no direction of {what}: {'the row' if len(words) == 1 else 'the difference'} is zero",
            cure="name other words",
        )
    return along / length
