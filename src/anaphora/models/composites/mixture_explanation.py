"""Why a mixture says what it says: what each part says of a word, times the part's weight, and why it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anaphora.errors import UserError
from anaphora.models.next_word import Discounts, Name, NextWord, NextWordsTold, after, likeliest, scored_after

if TYPE_CHECKING:
    from anaphora.models.composites.mixture import Mixture


@dataclass(frozen=True)
class Contribution:
    """What one part of a mixture gives a word."""

    name: str
    weight: float
    probability: float
    """The part's own."""
    because: NextWord | None
    """How it came about; None where the part cannot explain itself."""

    @property
    def part(self) -> float:
        """What it adds to the mixture's probability."""
        return self.weight * self.probability

    def document(self, name: Name) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "name": self.name,
            "weight": self.weight,
            "probability": self.probability,
            "part": self.part,
            "because": None if self.because is None else self.because.document(name),
        }


@dataclass(frozen=True, repr=False)
class MixedCandidate(NextWord):
    """A word that could come next, as the parts of a mixture see it."""

    token: int
    log_probability: float
    """Natural: the logarithm of what the parts give together."""
    scored: float
    """log P as the mixture itself gives it: what the parts have to lead to."""
    parts: tuple[Contribution, ...]

    @property
    def total(self) -> float:
        """What the parts add up to."""
        return math.fsum(part.part for part in self.parts)

    def document(self, name: Name) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            **self.said(name),
            "parts": [part.document(name) for part in self.parts],
        }


@dataclass(frozen=True, repr=False)
class MixtureWhy(NextWordsTold):
    """The likeliest next words after a prefix, likeliest first, each with what the parts say of it."""

    prefix: tuple[int, ...]
    names: tuple[str, ...]
    weights: tuple[float, ...]
    parts: tuple[NextWordsTold | None, ...]
    """Each part's explanation of the same words."""
    candidates: tuple[MixedCandidate, ...]

    def document(self, name: Name = str) -> dict[str, Any]:
        """As JSON can hold it; `name` gives the text of an id."""
        said = [None if part is None else part.document(name) for part in self.parts]
        for part in said:
            if part is not None:  # each candidate has its own below
                part.pop("candidates")
                part.pop("prefix")
        return {
            "kind": "mixture",
            "prefix": [name(token) for token in self.prefix],
            "parts": [
                {"name": part, "weight": weight, "model": model}
                for part, weight, model in zip(self.names, self.weights, said)
            ],
            "candidates": [candidate.document(name) for candidate in self.candidates],
        }


def why_by_part(
    model: Mixture,
    prefix: Sequence[int],
    *,
    top: int,
    tokens: Sequence[int] = (),
    part_discounts: Sequence[Discounts] = (),
) -> MixtureWhy:
    """What the parts give the `top` likeliest tokens after ⟨s⟩ and a prefix, and `tokens` beside them."""
    for token in (*prefix, *tokens):
        if not 0 <= token < model.vocabulary:
            raise UserError(f"there is no token {token}: the model has {model.vocabulary}")
    logs = after(model, prefix)
    chosen = [*dict.fromkeys([*likeliest(logs, top), *tokens])]
    asked = [*part_discounts, *[()] * (len(model.parts) - len(part_discounts))]
    explained: list[NextWordsTold | None] = []
    said: list[dict[int, tuple[float, NextWord | None]]] = []
    for part, minus in zip(model.parts, asked):
        if part.explains:
            found = part.explain_next(prefix, top=0, tokens=chosen, discounts=minus)
            explained.append(found)
            said.append({one.token: (one.log_probability, one) for one in found.candidates})
        else:
            explained.append(None)
            its = after(part, prefix)
            said.append({token: (float(its[token]), None) for token in chosen})
    candidates = []
    for token in chosen:
        parts = tuple(
            Contribution(name, weight, math.exp(found[token][0]), found[token][1])
            for name, weight, found in zip(model.names, model.weights, said)
        )
        total = math.fsum(part.part for part in parts)
        log_probability = math.log(total) if total > 0 else -math.inf
        candidates.append(MixedCandidate(token, log_probability, scored_after(model, prefix, token), parts))
    return MixtureWhy(tuple(map(int, prefix)), model.names, model.weights, tuple(explained), tuple(candidates))
