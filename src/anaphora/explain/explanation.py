"""Why a language model says what it says: one question, answered by every model that can explain itself.

`explain_next` takes the model and what was read so far. A counting model answers with the path of each word through its
contexts (ngram/ngram_explanation.py); a Backpack with what each sense of each word gives it (backpack/sense_shares.py);
a mixture with what each part says of the word, times the part's weight, and each part's own explanation
(composites/mixture_explanation.py). A model that has no such account answers with its likeliest words alone
(next_words.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anaphora.errors import UserError
from anaphora.explain.next_words import next_words
from anaphora.models.next_word import Discounts, NextWordsTold, after

if TYPE_CHECKING:
    from anaphora.models.contracts import LanguageModel


def explain_next(
    model: LanguageModel,
    prefix: Sequence[int],
    *,
    top: int = 10,
    tokens: Sequence[int] = (),
    discounts: Discounts = (),
    part_discounts: Sequence[Discounts] = (),
) -> NextWordsTold:
    """Explain the `top` likeliest tokens after ⟨s⟩ and a prefix, and `tokens` beside them.

    `discounts` are those that a counting model was estimated with, `part_discounts` those of a mixture's parts: they
    are shown, not used.
    """
    if model.explains:
        return model.explain_next(prefix, top=top, tokens=tokens, discounts=discounts, part_discounts=part_discounts)
    if "steppable" not in model.capabilities:
        raise UserError("this model has no next word to explain", cure="give one that reads from left to right")
    return next_words(model, prefix, after(model, prefix), top=top, tokens=tokens)
