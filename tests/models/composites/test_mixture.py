"""Mixtures: better than their best part on held-out text, the contract, the file."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models.composites.mixture import Mixture, MixtureConfig, Tuning, tune
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.tokenizers.tokenizer import BOS, EOS
from ngram_texts import FIRST, fitted, sentences

VOCABULARY = 24


def padded(texts: list[list[int]]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(text) + 1 for text in texts])
    ids = torch.zeros(len(texts), int(lengths.max()), dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text) + 1] = torch.tensor([*text, EOS])
    return ids, lengths


def tuned(parts: list[NgramModel], ids: Tensor, lengths: Tensor) -> tuple[Mixture, Tuning]:
    """The mixture under which these rows are most probable."""
    inside = torch.arange(ids.shape[1]) < lengths[:, None]
    tuning = tune(np.stack([part.score(ids, lengths)[inside].double().numpy() for part in parts]))
    return Mixture(parts, tuning.weights), tuning


def mean(model: NgramModel | Mixture, ids: Tensor, lengths: Tensor) -> float:
    return (model.score(ids, lengths).double().sum() / lengths.sum()).item()


def domain(seed: int, lines: int, step: int) -> list[list[int]]:
    """Text in which a word is mostly followed by the one `step` further, else by any."""
    draw, texts = random.Random(seed), []
    for _ in range(lines):
        word, text = draw.randrange(20), []
        while draw.random() < 0.9:
            text.append(FIRST + word)
            word = (word + step) % 20 if draw.random() < 0.7 else draw.randrange(20)
        texts.append(text)
    return texts


@pytest.fixture(scope="module")
def two_domains() -> tuple[list[NgramModel], Tensor, Tensor, Tensor, Tensor]:
    """Models of two domains; text of both to tune on, and other text of both."""
    models = [fitted(domain(1, 300, 1), VOCABULARY, order=3), fitted(domain(2, 300, 7), VOCABULARY, order=3)]
    return models, *padded(domain(3, 40, 1) + domain(4, 20, 7)), *padded(domain(5, 80, 1) + domain(6, 40, 7))


def test_beats_its_best_part_on_text_that_it_was_not_tuned_on(
    two_domains: tuple[list[NgramModel], Tensor, Tensor, Tensor, Tensor],
) -> None:
    models, ids, lengths, other, other_lengths = two_domains
    mixture, tuning = tuned(models, ids, lengths)
    best = max(mean(model, other, other_lengths) for model in models)
    assert mean(mixture, other, other_lengths) > best + 0.1
    assert mixture.weights[0] > mixture.weights[1] > 0.1  # two thirds are of the first domain
    assert tuning.tokens == int(lengths.sum())
    assert tuning.likelihoods[-1] == pytest.approx(mean(mixture, ids, lengths), abs=1e-6)


def test_orders_mixed_are_better_than_the_highest() -> None:
    """Relative frequencies of three orders: the highest alone gives much of the text no probability at all."""
    texts = domain(1, 200, 3)
    models = [fitted(texts, VOCABULARY, order=n, smoothing="add-k", k=0.01) for n in (1, 2, 3)]
    mixture, _ = tuned(models, *padded(domain(2, 50, 3)))
    held_out = padded(domain(3, 100, 3))
    assert mean(mixture, *held_out) > max(mean(model, *held_out) for model in models) + 0.01


logs_of_parts = st.integers(1, 4).flatmap(
    lambda parts: st.lists(st.lists(st.floats(-30, 0), min_size=parts, max_size=parts), min_size=1, max_size=30).map(
        lambda rows: np.array(rows).T
    )
)


@given(logs=logs_of_parts)
def test_every_round_of_em_is_better(logs: np.ndarray) -> None:
    tuning = tune(logs)
    assert sum(tuning.weights) == pytest.approx(1)
    assert min(tuning.weights) >= 0
    assert (np.diff(tuning.likelihoods) > -1e-9).all()
    assert tuning.likelihoods[-1] >= logs.mean(1).max() - 1e-5  # never worse than the best part


@given(logs=logs_of_parts.filter(lambda logs: len(logs) == 2))
def test_em_finds_the_best_of_a_grid(logs: np.ndarray) -> None:
    tuning = tune(logs)
    grid = np.linspace(1e-9, 1 - 1e-9, 201)[:, None]
    means = np.log(grid * np.exp(logs[0]) + (1 - grid) * np.exp(logs[1])).mean(1)
    assert tuning.likelihoods[-1] >= means.max() - 1e-4


def test_what_no_part_can_say_is_left_out() -> None:
    tuning = tune(np.array([[-1.0, -np.inf, -np.inf], [-np.inf, -2.0, -np.inf]]))
    assert tuning.weights == pytest.approx((0.5, 0.5))
    assert (tuning.tokens, tuning.impossible) == (2, 1)
    with pytest.raises(UserError, match="no held-out text"):
        tune(np.full((2, 3), -np.inf))


@given(texts=sentences(words=20), asked=sentences(words=20, most=3), weight=st.sampled_from([0.0, 0.25, 1.0]))
def test_steps_are_the_score_and_sum_to_one(texts: list[list[int]], asked: list[list[int]], weight: float) -> None:
    parts = [fitted(texts, VOCABULARY, order=3), fitted(texts[:1], VOCABULARY, order=1)]
    mixture = Mixture(parts, [weight, 1 - weight])
    assert mixture.capabilities == NgramModel.capabilities
    ids, lengths = padded(asked)
    scores = mixture.score(ids, lengths)
    assert (scores[torch.arange(ids.shape[1]) >= lengths[:, None]] == 0).all()
    state, last = mixture.start(len(asked)), torch.full((len(asked),), BOS)
    for place in range(ids.shape[1]):
        logs, state = mixture.step(last, state)
        assert logs.dtype == torch.float32
        assert torch.allclose(logs.exp().sum(1), torch.ones(len(asked)), atol=1e-5)
        last = ids[:, place]
        here = place < lengths
        assert torch.equal(logs[here].gather(1, last[here, None])[:, 0], scores[here, place])


def test_rows_are_reordered_in_every_part() -> None:
    parts = [fitted([[4, 5, 6]], VOCABULARY, order=n) for n in (2, 3)]
    mixture = Mixture(parts, [0.5, 0.5])
    plain, _ = mixture.step(torch.tensor([5, 5]), mixture.step(torch.tensor([4, 9]), mixture.start(2))[1])
    _, state = mixture.step(torch.tensor([4, 9]), mixture.start(2))
    swapped, state = mixture.step(torch.tensor([5, 5]), state.reorder(torch.tensor([1, 0])))
    assert torch.equal(swapped, plain.flip(0))
    _, state = mixture.step(torch.tensor([4, 9]), mixture.start(2))
    assert torch.equal(mixture.step(torch.tensor([5]), state.select(torch.tensor([1])))[0], plain[1:])


@given(texts=sentences(words=20), asked=sentences(words=20), weight=st.sampled_from([0.0, 0.25, 1.0]))
def test_rows_end_to_end_are_rows_one_below_the_other(
    texts: list[list[int]], asked: list[list[int]], weight: float
) -> None:
    """Also where a part, or both, give a token no probability."""
    parts = [fitted(texts, VOCABULARY, order=n, smoothing="maximum-likelihood") for n in (3, 1)]
    mixture = Mixture(parts, [weight, 1 - weight])
    ids, lengths = padded(asked)
    starts = np.concatenate([[0], np.cumsum(lengths.numpy())])
    inside = torch.arange(ids.shape[1]) < lengths[:, None]
    flat = mixture.score_flat(ids[inside].numpy(), starts)
    np.testing.assert_allclose(flat, mixture.score(ids, lengths)[inside].numpy(), rtol=1e-6)


@pytest.mark.parametrize("parts", [["a"], ["a", "b/c"], ["a", ".."], ["/a", "b"], ["a", ""]])
def test_a_folder_names_its_parts_inside_itself(parts: list[str]) -> None:
    with pytest.raises(ValueError, match="parts"):
        MixtureConfig(parts=parts, weights=[0.5, 0.5])


def test_parts_that_do_not_fit() -> None:
    with pytest.raises(UserError, match="part 2 has 9 tokens, part 1 has 8"):
        Mixture([fitted([[4]], 8), fitted([[4]], 9)], [0.5, 0.5])
    with pytest.raises(UserError, match="2 models have 1 weights and 2 names"):
        Mixture([fitted([[4]], 8), fitted([[4]], 8)], [1.0])


def test_rows_that_stand_at_different_places_are_reordered() -> None:
    mixture = Mixture([fitted([[4, 5]], VOCABULARY, order=2)] * 2, [0.5, 0.5])
    state = mixture.read(torch.tensor([[BOS, 4, 5], [BOS, 4, 0], [BOS, 0, 0]]), torch.tensor([3, 2, 1]))
    state = state.reorder(torch.tensor([1, 2, 0]))
    assert {name: t.tolist() for name, t in state.past.items() if name.endswith("position")} == {
        "0.position": [2, 1, 3],
        "1.position": [2, 1, 3],
        "position": [2, 1, 3],
    }
