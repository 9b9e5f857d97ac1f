"""Explanations by the contract: of mixtures, of what cannot explain itself."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.explain.explanation import explain_next
from anaphora.models.composites.mixture import Mixture
from anaphora.models.composites.mixture_explanation import MixtureWhy
from anaphora.models.next_word import after
from anaphora.models.ngram.ngram_explanation import Why
from anaphora.tokenizers.tokenizer import BOS, EOS, UNK
from ngram_texts import FIRST, fitted, sentences

VOCABULARY = 11
SMOOTHINGS = ["kneser-ney", "stupid-backoff", "add-k", "maximum-likelihood"]
THE, CAT, SAW, DOG = range(FIRST, FIRST + 4)


@given(
    texts=sentences(),
    prefix=st.lists(st.integers(UNK, VOCABULARY - 1), max_size=6),
    smoothings=st.lists(st.sampled_from(SMOOTHINGS), min_size=1, max_size=3),
    nested=st.booleans(),
    share=st.floats(0, 1),
)
def test_a_mixture_reproduces_the_probability(
    texts: list[list[int]], prefix: list[int], smoothings: list[str], nested: bool, share: float
) -> None:
    parts: list[Any] = [
        fitted(texts, VOCABULARY, order=order, smoothing=smoothing) for order, smoothing in enumerate(smoothings, 1)
    ]
    mixture = Mixture(parts, [1 / len(parts)] * len(parts))
    if nested:
        mixture = Mixture([mixture, parts[0]], [share, 1 - share])
    logs = after(mixture, prefix)
    found = explain_next(mixture, prefix, top=3, tokens=range(EOS, VOCABULARY))
    assert isinstance(found, MixtureWhy)
    assert {one.token for one in found.candidates} == set(range(EOS, VOCABULARY))
    likeliest = sorted((float(logs[one.token]) for one in found.candidates), reverse=True)
    shown = [float(logs[one.token]) for one in found.candidates[:3] if logs[one.token] > -math.inf]
    assert shown == likeliest[: len(shown)]
    for one in found.candidates:
        assert one.scored == pytest.approx(float(logs[one.token]), rel=1e-6)
        assert one.total == pytest.approx(math.exp(one.scored), rel=1e-5, abs=1e-30)
        for part, model in zip(one.parts, mixture.parts):
            assert part.probability == pytest.approx(math.exp(after(model, prefix)[one.token]), rel=1e-5, abs=1e-30)
            assert part.because is not None
            assert part.because.total == pytest.approx(part.probability, rel=1e-5, abs=1e-30)
    document = found.document(lambda token: f"<{token}>")
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_a_mixture_by_hand() -> None:
    """After "the", one text has cat always, the other half the time."""
    models = [
        fitted([[THE, CAT]], 8, order=2, smoothing="maximum-likelihood"),
        fitted([[THE, CAT], [THE, DOG]], 8, order=2, smoothing="maximum-likelihood"),
    ]
    found = explain_next(Mixture(models, [0.25, 0.75], ["one", "two"]), [THE], top=2)
    cat, dog = found.candidates
    assert (cat.token, dog.token) == (CAT, DOG)
    assert cat.probability == pytest.approx(0.25 * 1 + 0.75 * 0.5)
    assert dog.probability == pytest.approx(0.75 * 0.5)
    assert [(part.name, part.part) for part in dog.parts] == [("one", 0), ("two", pytest.approx(0.375))]


def test_discounts_of_parts_are_shown() -> None:
    models = [fitted([[THE, CAT]], 8, order=2)] * 2
    minus = [[0.0, 0.5, 1.0, 1.5]] * 2
    found = explain_next(Mixture(models, [0.5, 0.5]), [], top=1, part_discounts=[minus])
    first, second = found.document()["parts"]
    assert first["model"]["discounts"] == minus
    assert second["model"]["discounts"] == []


class Silent:
    """A model that answers the contract and explains nothing."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.capabilities, self.explains = model.capabilities - {"explains"}, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def test_what_cannot_explain_itself() -> None:
    model = fitted([[THE, CAT]], 8, order=2)
    assert model.explains
    assert Mixture([model], [1.0]).explains
    silent: Any = Silent(model)
    assert not silent.explains
    alone, explained = explain_next(silent, [THE], top=3, tokens=[7]), explain_next(model, [THE], top=3, tokens=[7])
    assert [one.token for one in alone.candidates] == [one.token for one in explained.candidates]
    for one, other in zip(alone.candidates, explained.candidates):
        assert one.log_probability == pytest.approx(other.log_probability)
    silent.capabilities -= {"steppable"}
    with pytest.raises(UserError, match="no next word to explain"):
        explain_next(silent, [THE])
    found = explain_next(Mixture([silent, model], [0.5, 0.5]), [THE], top=1)
    first, second = found.candidates[0].parts
    assert first.because is None
    assert first.probability == pytest.approx(second.probability)
    assert found.document()["parts"][0]["model"] is None


def test_one_question_for_both() -> None:
    model = fitted([[THE, CAT]], 8, order=2)
    assert isinstance(explain_next(model, [THE]), Why)
    with pytest.raises(UserError, match="there is no token 8: the model has 8"):
        explain_next(Mixture([model], [1.0]), [8])
    never = explain_next(Mixture([model], [1.0]), [THE], top=0, tokens=[BOS]).candidates[0]
    assert never.log_probability == never.scored == -math.inf
