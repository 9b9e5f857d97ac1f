"""Why a Backpack expects a word: shares of (word, sense) that add up to the logit, whatever reads the context."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from anaphora.errors import UserError
from anaphora.explain.explanation import explain_next
from anaphora.explain.next_words import NextWords
from anaphora.models.backpack.sense_shares import SenseCandidate, SensesWhy, why_by_sense
from anaphora.tokenizers.tokenizer import BOS
from neural_rungs import CAUSAL, rung

BODIES = ["backpack", "backpack of one sense", "backpack lstm", "backpack conv"]
PREFIX = [4, 7, 7, 5, 9]


@pytest.fixture(params=BODIES)
def model(request: pytest.FixtureRequest) -> Any:
    return CAUSAL[request.param]()


def test_shares_add_up_to_the_logit(model: Any) -> None:
    found = why_by_sense(model, PREFIX, top=3, tokens=[11, 2])
    ids = torch.tensor([[BOS, *PREFIX]])
    logits = model(ids)[0, -1]
    assert len(found.candidates) >= 4
    for one in found.candidates:
        assert one.total == pytest.approx(float(logits[one.token]), abs=1e-5)
        assert one.logit == pytest.approx(float(logits[one.token]), abs=1e-5)
        assert one.log_probability == pytest.approx(float(logits.log_softmax(-1)[one.token]), abs=1e-5)
        assert one.scored == pytest.approx(one.log_probability, abs=1e-5)
    first = [one.log_probability for one in found.candidates[:3]]
    assert first == sorted(first, reverse=True)


def test_a_share_is_a_weight_times_what_the_sense_says(model: Any) -> None:
    (one,) = why_by_sense(model, PREFIX, top=0, tokens=[6]).candidates
    ids = torch.tensor([BOS, *PREFIX])
    alpha = model.sense_weights(ids[None])[0]  # (k, T, T)
    senses = model.sense_vectors(ids)  # (T, k, d)
    for place in range(len(ids)):
        for sense in range(model.senses_count):
            says = float(senses[place, sense] @ model.vocabulary_matrix[6])
            assert one.says[place, sense] == pytest.approx(says, abs=1e-5)
            assert one.shares[place, sense] == pytest.approx(says * float(alpha[sense, -1, place]), abs=1e-5)
    order = [abs(one.shares[pair]) for pair in one.largest(5)]
    assert order == sorted(order, reverse=True)


def test_weights_of_each_sense_sum_to_one(model: Any) -> None:
    found = why_by_sense(model, PREFIX, top=1)
    assert found.weights.shape == (len(PREFIX) + 1, model.senses_count)
    np.testing.assert_allclose(found.weights.sum(axis=0), 1, atol=1e-6)
    assert found.document()["senses"] == model.senses_count


def test_removing_a_sense_removes_its_shares_and_nothing_else() -> None:
    model = CAUSAL["backpack"]()
    before = why_by_sense(model, PREFIX, top=0, tokens=[6]).candidates[0]

    def rewrite(ids: torch.Tensor, senses: torch.Tensor) -> torch.Tensor:
        return torch.where((ids == 7)[:, None, None] & (torch.arange(4) == 2)[:, None], 0.0, senses)

    model.rewrite = rewrite
    after = why_by_sense(model, PREFIX, top=0, tokens=[6]).candidates[0]
    changed = np.zeros_like(before.shares, dtype=bool)
    changed[[2, 3], 2] = True  # 7 stands at two places
    assert (after.shares[changed] == 0).all() and (before.shares[changed] != 0).all()
    np.testing.assert_allclose(after.shares[~changed], before.shares[~changed])
    assert after.logit == pytest.approx(before.logit - before.shares[changed].sum(), abs=1e-5)
    assert not math.isclose(after.log_probability, before.log_probability)


def test_any_model_is_asked_alike() -> None:
    model = CAUSAL["backpack"]()
    assert model.explains
    found = explain_next(model, PREFIX, top=2)
    assert isinstance(found, SensesWhy) and all(isinstance(one, SenseCandidate) for one in found.candidates)
    with pytest.raises(UserError, match=r"there is no token 99"):
        explain_next(model, [99])
    lstm = CAUSAL["lstm"]()
    assert not lstm.explains
    plain = explain_next(lstm, PREFIX, top=2)  # probabilities, and nothing about where they come from
    assert isinstance(plain, NextWords) and len(plain.candidates) == 2


def test_tokens_that_are_never_said_have_no_part_of_the_sum() -> None:
    model = rung("backpack", senses=4, silent=[0, 1, 3])()
    found = why_by_sense(model, PREFIX, top=12, tokens=[6])
    logs = model.score(torch.tensor([[*PREFIX, 6]]), torch.tensor([6]))[0, -1]
    by = {one.token: one for one in found.candidates}
    assert by[6].log_probability == pytest.approx(float(logs), abs=1e-5)
    assert set(by) == set(range(12)) - {0, 1, 3}
    with pytest.raises(UserError, match="token 1 is never said by this model"):
        why_by_sense(model, PREFIX, top=1, tokens=[1])
