"""Smoothing: against the formulas in plain Python, by hand, and that probabilities sum to one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.models.ngram.counting import count
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel
from anaphora.models.ngram.smoothing import FALLBACK, SMOOTHINGS, adjusted_counts, discounts, estimate, kept
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from ngram_texts import FIRST, Reference, fitted, sentences, tokens_of

COUNTED = [smoothing for smoothing in SMOOTHINGS if smoothing != "given"]
VOCABULARY = 12  # ids 10 and 11 are never seen
THRESHOLDS = [[], [0, 1], [0, 0, 1], [0, 1, 2]]

settings = st.fixed_dictionaries(
    {
        "order": st.integers(1, 5),
        "smoothing": st.sampled_from(COUNTED),
        "prune": st.sampled_from(THRESHOLDS),
        "k": st.sampled_from([0.01, 1.0]),
        "backoff": st.sampled_from([0.4, 1.0]),
    }
).map(lambda found: {**found, "prune": found["prune"][: found["order"]]})
queries = st.lists(st.lists(st.integers(UNK, VOCABULARY - 1), max_size=8), min_size=1, max_size=4)


def scores(model: NgramModel, texts: list[list[int]]) -> list[list[float]]:
    found, _ = model.score_rows([np.array([*text, EOS], np.uint32) for text in texts])
    return [row.tolist() for row in found]


@given(texts=sentences(), asked=queries, config=settings)
def test_as_the_formulas_say(texts: list[list[int]], asked: list[list[int]], config: dict[str, Any]) -> None:
    model = fitted(texts, VOCABULARY, **config)
    reference = Reference(texts, VOCABULARY, **config)
    for text, found in zip(asked + texts, scores(model, asked + texts)):
        assert found == pytest.approx(reference.log_probabilities(text), abs=2e-5)


@given(texts=sentences(), asked=queries, config=settings)
def test_steps_are_the_score_and_sum_to_one(
    texts: list[list[int]], asked: list[list[int]], config: dict[str, Any]
) -> None:
    model = fitted(texts, VOCABULARY, **config)
    for text, found in zip(asked + texts, scores(model, asked + texts)):
        state = model.start(1)
        last = torch.tensor([BOS])
        for token, score in zip([*text, EOS], found):
            logs, state = model.step(last, state)
            assert logs[0, token].item() == score
            total = logs.exp().sum().item()
            if config["smoothing"] in ("kneser-ney", "add-k"):
                assert total == pytest.approx(1, abs=1e-5)
            elif config["smoothing"] == "maximum-likelihood":  # a context that was not seen has no probabilities
                assert total == pytest.approx(1, abs=1e-5) or total == 0
            assert logs[0, PAD] == logs[0, BOS] == -math.inf
            last = torch.tensor([token])


@given(texts=sentences(), order=st.integers(1, 5))
def test_maximum_likelihood_sums_to_one_where_something_was_seen(texts: list[list[int]], order: int) -> None:
    model = fitted(texts, VOCABULARY, order=order, smoothing="maximum-likelihood")
    for text in texts:
        state, last = model.start(1), torch.tensor([BOS])
        for token in [*text, EOS]:
            logs, state = model.step(last, state)
            assert logs.exp().sum().item() == pytest.approx(1, abs=1e-5)
            last = torch.tensor([token])


def test_only_what_sums_to_one_says_so() -> None:
    texts = [[4, 5], [5, 4]]
    said = {smoothing: fitted(texts, 6, order=2, smoothing=smoothing).capabilities for smoothing in COUNTED}
    assert {name for name, able in said.items() if "normalised" in able} == {
        "kneser-ney",
        "add-k",
        "maximum-likelihood",
    }
    model = fitted(texts, 6, order=2, smoothing="stupid-backoff")
    logs, _ = model.step(torch.tensor([BOS]), model.start(1))
    assert logs.exp().sum().item() > 1.1


THE, CAT, SAW, DOG, SLEPT = range(FIRST, FIRST + 5)
FIVE_WORDS = [[THE, CAT, SAW, THE, DOG], [THE, DOG, SLEPT]]


def test_the_bigram_of_five_words_by_hand() -> None:
    """the cat saw the dog / the dog slept: after "the" come cat once and dog twice."""
    model = fitted(FIVE_WORDS, 9, order=2, smoothing="maximum-likelihood")
    (found,) = scores(model, [[THE, DOG, SLEPT]])
    #                                 ⟨s⟩ the  the dog  dog slept  slept ⟨/s⟩
    assert np.exp(found) == pytest.approx([1, 2 / 3, 1 / 2, 1])
    add_one = fitted(FIVE_WORDS, 9, order=2, smoothing="add-k", k=1)
    (found,) = scores(add_one, [[THE, DOG, SLEPT]])
    # seven can follow: five words, ⟨unk⟩ and ⟨/s⟩
    assert np.exp(found) == pytest.approx([3 / 9, 3 / 10, 2 / 9, 2 / 8])


def test_kneser_ney_by_hand() -> None:
    """So few counts that discounts cannot be estimated: they are 0.5, 1 and 1.5."""
    model, estimates = NgramModel.from_counts(NgramConfig(order=2), count(tokens_of(FIVE_WORDS), 9, 2))
    assert [step.discounts for step in estimates] == [FALLBACK, FALLBACK]
    assert all(step.fell_back for step in estimates)
    # seen after so many different words: the 2 (⟨s⟩ saw), cat 1, saw 1, dog 1, slept 1, ⟨/s⟩ 2 (dog slept): together 8
    free = (2 * 1.0 + 4 * 0.5) / 8
    dog = (1 - 0.5) / 8 + free / 7
    after_the = (2 - 1.0) / 3 + (0.5 + 1.0) / 3 * dog
    (found,) = scores(model, [[THE, DOG]])
    assert math.exp(found[1]) == pytest.approx(after_the, rel=1e-6)


def test_unigrams_are_shares() -> None:
    model = fitted(FIVE_WORDS, 9, order=1, smoothing="maximum-likelihood")
    (found,) = scores(model, [[THE, SLEPT]])
    assert np.exp(found) == pytest.approx([3 / 10, 1 / 10, 2 / 10])  # eight words and two ends
    assert model._begin()[1] == 0


@pytest.mark.parametrize("smoothing", COUNTED)
@pytest.mark.parametrize("order", [1, 2, 5])
def test_empty_sentences(smoothing: str, order: int) -> None:
    """A text of blank lines says one thing: a sentence ends."""
    model = fitted([[], [], []], 4, order=order, smoothing=smoothing)
    (found,) = scores(model, [[]])
    seen = Reference([[], [], []], 4, order, smoothing).log_probabilities([])
    assert found == pytest.approx(seen, abs=1e-6)
    assert scores(model, []) == []


class TestDiscounts:
    def test_from_counts_of_counts(self) -> None:
        counts = np.repeat([1, 2, 3, 4, 9], [100, 40, 20, 12, 5]).astype(np.uint32)
        found, fell_back = discounts(counts)
        y = 100 / 180
        assert found == pytest.approx((0, 1 - 2 * y * 40 / 100, 2 - 3 * y * 20 / 40, 3 - 4 * y * 12 / 20))
        assert not fell_back

    @pytest.mark.parametrize("times", [[100, 0, 20, 12], [0, 40, 20, 12], [100, 40, 0, 12]])
    def test_made_up_where_a_count_never_happens(self, times: list[int]) -> None:
        assert discounts(np.repeat([1, 2, 3, 4], times).astype(np.uint32)) == (FALLBACK, True)

    def test_made_up_where_they_would_be_negative(self) -> None:
        counts = np.repeat([1, 2, 3, 4], [10, 10, 100, 10]).astype(np.uint32)  # D₂ = 2 - 3 · 1/3 · 10 < 0
        assert discounts(counts) == (FALLBACK, True)

    @given(texts=sentences(words=3, longest=6), order=st.integers(1, 4))
    def test_what_is_set_free_is_a_share(self, texts: list[list[int]], order: int) -> None:
        for step in estimate(count(tokens_of(texts), VOCABULARY, order), "kneser-ney"):
            assert ((step.weight >= 0) & (step.weight <= 1)).all()


class TestPruning:
    texts = ([4, 5, 6],) * 3 + ([4, 5, 7],) + ([5, 6, 4],) * 2

    def sizes(self, prune: list[int]) -> list[int]:
        return fitted(self.texts, 8, order=3, prune=prune).sizes()

    def test_thresholds(self) -> None:
        counted = count(tokens_of(self.texts), 8, 3)
        for prune in THRESHOLDS:
            bounds = [*prune, *[prune[-1] if prune else 0] * (3 - len(prune))]
            assert self.sizes(prune)[1:] == [
                int((grams.count > least).sum()) for grams, least in zip(counted[1:], bounds[1:])
            ]
        assert self.sizes([])[0] == self.sizes([0, 5])[0] == 8  # words stay

    def test_of_all(self) -> None:
        """Nothing but words is left: a unigram model that still knows a context was before."""
        assert self.sizes([0, 100]) == [8, 0, 0]
        model = fitted(self.texts, 8, order=3, prune=[0, 100])
        logs, _ = model.step(torch.tensor([BOS]), model.start(1))
        assert logs.exp().sum().item() == pytest.approx(1, abs=1e-6)

    @pytest.mark.parametrize(
        ("prune", "message"),
        [
            ([0, 2, 1], "falls: a longer n-gram would stay without its beginning"),
            ([1, 1, 1], "begins with single words"),
            ([0, 0, 0, 0], "has 4 thresholds for order 3"),
        ],
    )
    def test_thresholds_that_cannot_be(self, prune: list[int], message: str) -> None:
        with pytest.raises(UserError, match=message):
            kept(count(tokens_of(self.texts), 8, 3), prune)


def test_lower_orders_count_different_words_before() -> None:
    counted = count(tokens_of([[4, 5], [6, 5], [6, 5]]), 7, 2)
    words = adjusted_counts(counted)[0]
    assert words[[4, 5, 6, EOS]].tolist() == [1, 2, 1, 1]
    assert words[[PAD, BOS, UNK]].tolist() == [0, 0, 0]


def test_given_is_not_for_counts() -> None:
    with pytest.raises(UserError, match="a model read from a file"):
        fitted([[4]], 5, smoothing="given")
