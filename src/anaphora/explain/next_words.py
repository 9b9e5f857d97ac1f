"""What a model expects at a place, where nothing more can be told: its likeliest words, with probability and rank.

A count says where a probability comes from, a Backpack adds it up from senses; a recurrent network or a Transformer
mixes all that it has read into one vector, which has no parts that belong to words. Such a model can still be asked
what it expects: the next word of one that reads from left to right, the word in a blank of a masked one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anaphora.errors import UserError
from anaphora.models.next_word import Name, NextWord, NextWordsTold, likeliest
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    import numpy as np

    from anaphora.models.contracts import LanguageModel


@dataclass(frozen=True, repr=False)
class RankedWord(NextWord):
    """A word that could stand there."""

    token: int
    log_probability: float
    scored: float
    """log P as `score` gives it, which reads the whole text at once."""
    rank: int
    """1 is the likeliest of all."""

    @property
    def total(self) -> float:
        return self.probability

    def document(self, name: Name) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        said = self.said(name)
        del said["sum_of_parts"]  # there are none
        return {**said, "rank": self.rank}


@dataclass(frozen=True, repr=False)
class NextWords(NextWordsTold):
    """The likeliest words at a place, likeliest first."""

    prefix: tuple[int, ...]
    """What was read: before the word, or, with a blank, on both sides of it."""
    candidates: tuple[RankedWord, ...]
    blank: int | None = None
    """The place of the blank in `prefix`; None: the word stands behind it."""

    def document(self, name: Name = str) -> dict[str, Any]:
        """As JSON can hold it; `name` gives the text of an id."""
        return {
            "kind": "learned",
            "prefix": [name(token) for token in self.prefix],
            "blank": self.blank,
            "candidates": [candidate.document(name) for candidate in self.candidates],
        }


def next_words(
    model: LanguageModel, prefix: Sequence[int], logs: np.ndarray, *, top: int, tokens: Sequence[int]
) -> NextWords:
    """The `top` likeliest tokens and `tokens`, by log P (V,) of every next one after ⟨s⟩ and a prefix."""

    def scored(token: int) -> float:
        return _score(model, [*prefix, token])[-1]

    return NextWords(tuple(map(int, prefix)), _ranked(logs, scored, top, tokens))


def words_in_blank(model: Any, ids: Sequence[int], *, top: int = 10, tokens: Sequence[int] = ()) -> NextWords:
    """The same for the one blank of a text, whose ids have the mask of a masked model there."""
    import torch

    row = torch.tensor([[BOS, *ids, EOS]], device=model.device)
    _, found = model.fill(row, torch.tensor([row.shape[1]], device=model.device))
    place = list(ids).index(model.mask_id)

    def scored(token: int) -> float:
        return _score(model, [*ids[:place], token, *ids[place + 1 :], EOS])[place]

    return NextWords(tuple(map(int, ids)), _ranked(found[0].cpu().numpy(), scored, top, tokens), place)


def _ranked(
    logs: np.ndarray, scored: Callable[[int], float], top: int, tokens: Sequence[int]
) -> tuple[RankedWord, ...]:
    for token in tokens:
        if not 0 <= token < len(logs):
            raise UserError(f"there is no token {token}: the model has {len(logs)}")
    logs = logs.copy()
    logs[[PAD, BOS]] = float("-inf")  # nobody predicts them
    chosen = dict.fromkeys([*likeliest(logs, top), *tokens])
    return tuple(
        RankedWord(token, float(logs[token]), scored(token), 1 + int((logs > logs[token]).sum())) for token in chosen
    )


def _score(model: LanguageModel, ids: Sequence[int]) -> list[float]:
    import torch

    row = torch.tensor([list(ids)], device=model.device)
    found: list[float] = model.score(row, torch.tensor([len(ids)], device=model.device))[0].tolist()
    return found
