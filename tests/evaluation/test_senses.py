"""Nearest centroid: against the definition in a few lines, and what may not change it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.evaluation.sense_scores import commonest, nearest_centroid, sense_accuracy

SENSES = ["shore", "money", "row"]


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, list[str], np.ndarray]:
    number, width, asked = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 10_000))
    random = np.random.default_rng(seed)
    senses = draw(st.lists(st.sampled_from(SENSES), min_size=number, max_size=number))
    return random.normal(size=(number, width)), senses, random.normal(size=(asked, width))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_it_is_the_sense_with_the_nearest_mean(case: tuple[np.ndarray, list[str], np.ndarray]) -> None:
    vectors, senses, asked = case
    means = {
        sense: np.mean([v for v, s in zip(vectors, senses) if s == sense], axis=0) for sense in sorted(set(senses))
    }
    for vector, said in zip(asked, nearest_centroid(vectors, senses, asked)):
        distances = {sense: np.linalg.norm(vector - mean) for sense, mean in means.items()}
        assert distances[said] == pytest.approx(min(distances.values()), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 99))
def test_order_place_and_size_of_the_vectors_change_nothing(
    case: tuple[np.ndarray, list[str], np.ndarray], seed: int
) -> None:
    vectors, senses, asked = case
    said = nearest_centroid(vectors, senses, asked)
    random = np.random.default_rng(seed)
    order = random.permutation(len(senses))
    assert nearest_centroid(vectors[order], [senses[place] for place in order], asked) == said
    shift = random.normal(size=vectors.shape[1])
    assert nearest_centroid(8 * (vectors + shift), senses, 8 * (asked + shift)) == said


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(SENSES), min_size=1, max_size=30), st.integers(0, 99))
def test_where_all_vectors_are_one_the_commonest_sense_is_said(senses: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    one = random.normal(size=(1, 5)).astype(np.float32)
    for rounding in (0.0, 1e-7):  # those that were computed in other batches may differ in their last digit
        vectors, asked = (
            np.repeat(one, n, axis=0) * (1 + rounding * random.choice([-1, 1], (n, 5))) for n in (len(senses), 4)
        )
        said = nearest_centroid(vectors, senses, asked)
        assert said == commonest(senses, 4)
    assert senses.count(said[0]) == max(senses.count(sense) for sense in senses)


def test_accuracy_over_uses_and_over_senses() -> None:
    found = sense_accuracy(["money"] * 4, ["money", "money", "money", "shore"])
    assert (found.accuracy, found.macro, found.uses) == (0.75, 0.5, 4)
    assert sense_accuracy(["shore", "money"], ["shore", "money"]).macro == 1


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2 vectors with 1 senses"):
        nearest_centroid(np.zeros((2, 3)), ["money"], np.zeros((1, 3)))
    with pytest.raises(ValueError, match="1 answers for 0 uses"):
        sense_accuracy(["money"], [])
