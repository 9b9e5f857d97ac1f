"""Why a language model says what it says: one question, answered by every model that can explain itself.

`explain_next` takes the model and what was read so far. A counting model answers with the path of each word through its
contexts (ngram/ngram_explanation.py); a Backpack with what each sense of each word gives it (backpack/sense_shares.py);
a mixture with what each part says of the word, times the part's weight, and each part's own explanation. A model that
has no such account answers with its likeliest words alone (next_words.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anaphora.errors import UserError
from anaphora.explain.next_words import NextWords, RankedWord, next_words
from anaphora.models.backpack.sense_shares import SenseCandidate, SensesWhy, has_senses, why_by_sense
from anaphora.models.composites.mixture import Mixture
from anaphora.models.ngram.ngram_explanation import Candidate, Name, NextWord, NextWordsTold, Why, likeliest, why
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.tokenizers.tokenizer import BOS

if TYPE_CHECKING:
    from anaphora.models.contracts import LanguageModel


@dataclass(frozen=True)
class Contribution:
    """What one part of a mixture gives a word."""

    name: str
    weight: float
    probability: float
    """The part's own."""
    because: AnyCandidate | None
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
    parts: tuple[Explanation | None, ...]
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


Explanation = Why | SensesWhy | MixtureWhy | NextWords
AnyCandidate = Candidate | SenseCandidate | MixedCandidate | RankedWord

Discounts = Sequence[Sequence[float]]


def explains(model: LanguageModel) -> bool:
    """Whether `explain_next` has more to tell than probabilities."""
    return "explains" in model.capabilities or has_senses(model)


def explain_next(
    model: LanguageModel,
    prefix: Sequence[int],
    *,
    top: int = 10,
    tokens: Sequence[int] = (),
    discounts: Discounts = (),
    part_discounts: Sequence[Discounts] = (),
) -> Explanation:
    """Explain the `top` likeliest tokens after ⟨s⟩ and a prefix, and `tokens` beside them.

    `discounts` are those that a counting model was estimated with, `part_discounts` those of a mixture's parts: they
    are shown, not used.
    """
    if isinstance(model, NgramModel):
        return why(model, prefix, top=top, tokens=tokens, discounts=discounts)
    if has_senses(model):
        return why_by_sense(model, prefix, top=top, tokens=tokens)  # type: ignore[arg-type]
    if isinstance(model, Mixture):
        return _mixed(model, prefix, top=top, tokens=tokens, part_discounts=part_discounts)
    if "steppable" not in model.capabilities:
        raise UserError("this model has no next word to explain", cure="give one that reads from left to right")
    return next_words(model, prefix, after(model, prefix), top=top, tokens=tokens)


def _mixed(
    model: Mixture, prefix: Sequence[int], *, top: int, tokens: Sequence[int], part_discounts: Sequence[Discounts]
) -> MixtureWhy:
    for token in (*prefix, *tokens):
        if not 0 <= token < model.vocabulary:
            raise UserError(f"there is no token {token}: the model has {model.vocabulary}")
    logs = after(model, prefix)
    chosen = [*dict.fromkeys([*likeliest(logs, top), *tokens])]
    asked = [*part_discounts, *[()] * (len(model.parts) - len(part_discounts))]
    explained: list[Explanation | None] = []
    said: list[dict[int, tuple[float, AnyCandidate | None]]] = []
    for part, minus in zip(model.parts, asked):
        if explains(part):
            found = explain_next(part, prefix, top=0, tokens=chosen, discounts=minus)
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
        candidates.append(MixedCandidate(token, log_probability, _scored(model, prefix, token), parts))
    return MixtureWhy(tuple(map(int, prefix)), model.names, model.weights, tuple(explained), tuple(candidates))


def after(model: LanguageModel, prefix: Sequence[int]) -> np.ndarray:
    """log P of every token after ⟨s⟩ and a prefix, step by step: (V,)."""
    if getattr(model, "counted", False):
        return _after_counted(model, prefix)
    import torch

    state = model.start(1, len(prefix) + 1)
    logs = torch.empty(0)
    for token in (BOS, *prefix):
        logs, state = model.step(torch.tensor([token], device=model.device), state)
    return logs[0].cpu().numpy()


def _after_counted(model: Any, prefix: Sequence[int]) -> np.ndarray:
    """The same of a model that needs no torch for it."""
    context, length = model.begin(1)
    model.take([[BOS, *prefix][:-1]], context, length)
    logs = np.empty((1, model.vocabulary), np.float32)
    model.advance(np.array([[BOS, *prefix][-1]]), context, length, logs)
    return logs[0]


def _scored(model: Any, prefix: Sequence[int], token: int) -> float:
    """What `score` gives the token: all at once, not step by step."""
    if getattr(model, "counted", False):
        ids = np.array([*prefix, token])
        return float(model.score_flat(ids, np.array([0, len(ids)]))[-1])
    import torch

    row = torch.tensor([[*prefix, token]], device=model.device)
    return float(model.score(row, torch.tensor([row.shape[1]], device=model.device))[0, -1])
