"""Why a Backpack expects the next word: every logit is a finite sum over the words before it and their senses.

    logit(w) = o · E_w,   o = Σ_j Σ_ℓ α_{ℓj} C(x_j)_ℓ,   so   logit(w) = Σ_j Σ_ℓ α_{ℓj} · (C(x_j)_ℓ · E_w)

The share of word j's sense ℓ is its weight here, α_{ℓj}, times what the sense says for w wherever the word stands,
C(x_j)_ℓ · E_w. Nothing is left over and nothing is estimated: there is no layer between the sum and the softmax. The
shares are formed in 64 bits, one by one; the model sums otherwise, in 32, and comes to the same logit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.models.next_word import Name, NextWord, NextWordsTold, finite, likeliest
from anaphora.tokenizers.tokenizer import BOS

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack


@dataclass(frozen=True, repr=False)
class SenseCandidate(NextWord):
    """A word that could come next, and what each sense of each word before it gives it."""

    token: int
    log_probability: float
    """Natural: of the shares' sum, against the sums of all other words."""
    scored: float
    """log P as the model itself gives it when it reads a text."""
    logit: float
    """As the model itself computes it: what the shares have to add up to."""
    says: NDArray[np.float64]
    """C(x_j)_ℓ · E_w: (T, k), for ⟨s⟩ and the words after it."""
    weights: NDArray[np.float64]
    """α_{ℓj}: (T, k), the same for every word."""

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Their product: (T, k)."""
        return self.says * self.weights

    @property
    def total(self) -> float:
        """What the shares add up to."""
        return math.fsum(self.shares.flatten().tolist())

    @property
    def size(self) -> float:
        """The largest number that was summed, 1 at the least: 32 bits round against it."""
        summed = (self.logit, self.log_probability, float(np.abs(self.shares).max(initial=0.0)))
        return max(1.0, *(abs(value) for value in summed if math.isfinite(value)))

    def largest(self, number: int) -> list[tuple[int, int]]:
        """(place, sense) of the shares that are furthest from 0, in that order."""
        order = np.argsort(-np.abs(self.shares), axis=None, kind="stable")[:number]
        return [(int(place) // self.shares.shape[1], int(place) % self.shares.shape[1]) for place in order]

    def document(self, name: Name) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            **self.said(name),
            "logit": finite(self.logit),
            "shares": self.shares.tolist(),
            "says": self.says.tolist(),
        }


@dataclass(frozen=True, repr=False)
class SensesWhy(NextWordsTold):
    """The likeliest next words after a prefix, likeliest first, each with its shares."""

    prefix: tuple[int, ...]
    weights: NDArray[np.float64]
    """α at the place where the next word is expected: (T, k), of ⟨s⟩ and the prefix; each column sums to 1, unless a
    topic made some of them larger."""
    alpha: NDArray[np.float32]
    """α of all places: (k, T, T), row i what is looked at after i words."""
    candidates: tuple[SenseCandidate, ...]
    emphasized: bool = False
    """Whether a patch has a topic, whose factors are in the weights."""

    @property
    def senses(self) -> int:
        return int(self.weights.shape[1])

    def document(self, name: Name = str) -> dict[str, Any]:
        """As JSON can hold it; `name` gives the text of an id. Tables are by word (⟨s⟩ first) and sense."""
        return {
            "kind": "backpack",
            "prefix": [name(token) for token in self.prefix],
            "senses": self.senses,
            "words": [name(token) for token in (BOS, *self.prefix)],
            "weights": self.weights.tolist(),
            "candidates": [candidate.document(name) for candidate in self.candidates],
        }


def has_senses(model: Any) -> bool:
    """Whether a model is a Backpack: asked without loading one."""
    return hasattr(model, "sense_weights")


def why_by_sense(model: Backpack, prefix: Sequence[int], *, top: int, tokens: Sequence[int] = ()) -> SensesWhy:
    """The shares of the `top` likeliest tokens after ⟨s⟩ and a prefix, and of `tokens` beside them."""
    import torch

    for token in (*prefix, *tokens):
        if not 0 <= token < model.vocabulary:
            raise UserError(f"there is no token {token}: the model has {model.vocabulary}")
    if silent := [token for token in tokens if token in model.head.silent]:
        raise UserError(f"token {silent[0]} is never said by this model, only read", cure="ask for another word")
    with torch.no_grad():
        ids = torch.tensor([BOS, *map(int, prefix)], device=model.device)
        alpha = model.sense_weights(ids[None])[0]  # (k, T, T)
        weights = alpha[:, -1].double().T  # (T, k)
        senses = model.sense_vectors(ids).double()  # (T, k, d)
        table = model.vocabulary_matrix.double()
        logits = torch.einsum("tk,tkd->d", weights, senses) @ table.T  # (V,)
        logits[list(model.head.silent)] = -torch.inf  # they are never said
        own = (model.mixed(ids[None])[0, -1].float() @ model.vocabulary_matrix.float().T).double()
        whole = float(torch.logsumexp(logits, dim=0))  # the logarithm of the sum over all words
        logs = (logits - whole).cpu().numpy()
        chosen = [*dict.fromkeys([*likeliest(logs.astype(np.float32), top), *tokens])]
        says = senses @ table[torch.tensor(chosen, dtype=torch.long, device=table.device)].T  # (T, k, chosen)
        rows = torch.tensor([[*prefix, token] for token in chosen], dtype=torch.long, device=model.device)
        lengths = torch.full((len(chosen),), len(prefix) + 1, device=model.device)
        scored = model.score(rows, lengths)[:, -1].tolist() if chosen else []
    here, candidates = weights.cpu().numpy(), []
    for place, token in enumerate(chosen):
        said = says[:, :, place].cpu().numpy()
        log_probability = math.fsum((said * here).flatten().tolist()) - whole
        candidates.append(SenseCandidate(token, log_probability, scored[place], float(own[token]), said, here))
    every = alpha.float().cpu().numpy()
    return SensesWhy(tuple(map(int, prefix)), here, every, tuple(candidates), model.emphasis is not None)
