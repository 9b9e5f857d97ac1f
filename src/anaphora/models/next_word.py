"""What a model says of the next word: how probable each is, and what every explanation of that has in common.

Explanations stand beside the models that give them: ngram/ngram_explanation.py, backpack/sense_shares.py,
composites/mixture_explanation.py. explain/explanation.py asks for them. Nothing here loads torch for a counted model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anaphora.results import brief, count, figure
from anaphora.tokenizers.tokenizer import BOS

if TYPE_CHECKING:
    from anaphora.models.contracts import LanguageModel

Name = Callable[[int], str]
"""The text of an id."""
Discounts = Sequence[Sequence[float]]
"""Those that a counting model was estimated with: (0, D₁, D₂, D₃₊) of each order."""


class NextWord:
    """What is said of every word that could come next, however its probability is explained."""

    token: int
    log_probability: float
    scored: float

    def __repr__(self) -> str:
        return brief(type(self).__name__, None, f"token {self.token}", f"P {figure(self.probability, '.4g')}")

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)

    @property
    def total(self) -> float:
        raise NotImplementedError

    def said(self, name: Name) -> dict[str, Any]:
        """What every candidate's document begins with; `name` gives the text of an id."""
        return {
            "token": name(self.token),
            "id": self.token,
            "log_probability": finite(self.log_probability),
            "probability": self.probability,
            "model_log_probability": finite(self.scored),
            "sum_of_parts": self.total,
        }

    def document(self, name: Name) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        raise NotImplementedError


class NextWordsTold:
    """The likeliest next words after a prefix, however their probabilities are explained."""

    prefix: tuple[int, ...]
    candidates: tuple[NextWord, ...]

    def __repr__(self) -> str:
        return brief(type(self).__name__, None, count(len(self.candidates), "candidate"))

    def document(self, name: Name = str) -> dict[str, Any]:
        """As JSON can hold it; `name` gives the text of an id."""
        raise NotImplementedError


def likeliest(logs: np.ndarray, top: int) -> list[int]:
    """The `top` likeliest of all tokens, log P (V,); none that cannot come."""
    order = np.argsort(-logs, kind="stable")[: max(top, 0)]
    return order[logs[order] > -np.inf].tolist()


def finite(log_probability: float) -> float | None:
    """JSON knows no infinity."""
    return None if log_probability == -math.inf else log_probability


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


def scored_after(model: Any, prefix: Sequence[int], token: int) -> float:
    """What `score` gives the token: all at once, not step by step."""
    if getattr(model, "counted", False):
        ids = np.array([*prefix, token])
        return float(model.score_flat(ids, np.array([0, len(ids)]))[-1])
    import torch

    row = torch.tensor([[*prefix, token]], device=model.device)
    return float(model.score(row, torch.tensor([row.shape[1]], device=model.device))[0, -1])
