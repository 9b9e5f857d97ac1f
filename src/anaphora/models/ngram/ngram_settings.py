"""Settings of n-gram models (section `model`). Nothing here needs torch or numba."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from anaphora.errors import UserError

Smoothing = Literal["kneser-ney", "stupid-backoff", "add-k", "maximum-likelihood", "given"]


@dataclass(kw_only=True)
class NgramConfig:
    """What is counted and how it becomes probabilities (section `model`)."""

    kind: Literal["ngram"] = "ngram"
    """The kind of model."""
    order: int = 5
    """Length of the longest n-gram: a word is predicted from the order - 1 words before it."""
    smoothing: Smoothing = "kneser-ney"
    """How counts become probabilities: interpolated modified Kneser-Ney, stupid backoff (does not sum to one), adding k
    to every count, or relative frequencies (maximum-likelihood). given: the probabilities of an ARPA file,
    unchanged."""
    prune: list[int] = field(default_factory=list)
    """Count thresholds for order 1, 2, …: n-grams with this count or less are pruned. The last one applies to all
    higher orders."""
    k: float = 1.0
    """add-k: the number added to every count."""
    backoff: float = 0.4
    """stupid-backoff: factor for each word by which the context is shortened."""

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError(f"order is {self.order}; an n-gram has at least one word")
        if self.order > 20:
            raise ValueError(f"order is {self.order}; more than 20 words are no n-gram model any more")
        if any(threshold < 0 for threshold in self.prune):
            raise ValueError(f"prune is {self.prune}; counts are never negative")
        pruning_thresholds(self.order, self.prune)
        if not self.k > 0:
            raise ValueError(f"k is {self.k}; it must be above 0 (maximum-likelihood adds nothing)")
        if not 0 < self.backoff <= 1:
            raise ValueError(f"backoff is {self.backoff}; make it above 0 and at most 1")

    def without_effect(self) -> dict[str, str | None]:
        """Settings that mean nothing as the others are, and what they would need."""
        needed = {"k": "add-k", "backoff": "stupid-backoff"}
        return {name: f"smoothing={value}" for name, value in needed.items() if self.smoothing != value}


def pruning_thresholds(order: int, prune: Sequence[int]) -> list[int]:
    """One for each order, n-grams seen no more often are left out; the last one given holds for what follows."""
    if len(prune) > order:
        raise UserError(
            f"model.prune has {len(prune)} thresholds for order {order}", cure="give at most one for each order"
        )
    thresholds = [*prune, *[prune[-1] if prune else 0] * (order - len(prune))]
    if thresholds[0] != 0:
        raise UserError(
            "model.prune begins with single words", cure="make it 0; tokenizer.minimum_count leaves out words"
        )
    if any(low > high for low, high in pairwise(thresholds)):
        raise UserError(
            f"model.prune {list(prune)} falls: a longer n-gram would stay without its beginning",
            cure="let thresholds grow with the order",
        )
    return thresholds
