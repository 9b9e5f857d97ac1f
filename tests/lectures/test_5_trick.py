"""Lecture 5: "That trick was sick"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from anaphora.explain.trace_parts import Walk
from anaphora.lectures import trick as lecture


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {walk.name: walk for walk in lecture.trick()}


def test_values_and_keys_as_given_are_halves_of_the_sense_vectors() -> None:
    halves = lecture.C.clone(), lecture.C.clone()
    halves[0][:, 2:] = 0
    halves[1][:, :2] = 0
    assert torch.equal(halves[0], lecture.V)
    assert torch.equal(halves[1], lecture.K)


def test_the_senses_as_given(walks: dict[str, Walk]) -> None:
    step = walks["senses"].step("C")
    senses = dict(zip(step.rows, step.values.tolist()))
    assert senses["trick₀"] == [0, 0, 1, 0]
    assert senses["sick₀"] == [1, 0, 1, 0]
    assert senses["sick₁"] == [0, 1, 0, 1]
    assert all(senses[name] == [0, 0, 0, 0] for name in ("that₀", "that₁", "trick₁", "was₀", "was₁"))


def test_the_weights_of_the_equation(walks: dict[str, Walk]) -> None:
    ratio, letter = walks["senses"].step("α").values, walks["senses"].step("α′").values
    np.testing.assert_allclose(ratio, [[2 / 3, 1 / 3], [1 / 2, 1 / 2], [2 / 3, 1 / 3], [1, 0]], rtol=1e-12)
    np.testing.assert_allclose(letter, [[3 / 2, 1 / 2], [1 / 2, 1 / 2], [3 / 2, 1 / 2], [1, 0]], rtol=1e-12)


def test_the_printed_queries_are_these_weights_but_for_trick(walks: dict[str, Walk]) -> None:
    step = walks["senses"].step("Q - α")
    off = {row for row, values in zip(step.rows, step.values) if np.abs(values).max() > 1e-12}
    assert off == {"trick₀", "trick₁"}
    np.testing.assert_allclose(step.values[2], [0, 0, 2 / 3 - 1 / 2, 1 / 3 - 1 / 2], atol=1e-12)


def test_the_exact_selection(walks: dict[str, Walk]) -> None:
    walk = walks["exact"]
    assert walk.step("Σ Z").values.tolist() == [[1, 0, 0, 0]]
    z = walk.step("Z")
    assert [row for row, values in zip(z.rows, z.values) if values.any()] == ["sick₀"]
    weights = walk.step("masked").values
    assert (weights[6, 6], weights[7, 7]) == (1, 0)
    # beside the 1 that the slide prints there is 2/3 at trick₀, which its value of zeros hides
    assert np.argwhere(weights).tolist() == [[2, 2], [6, 6]]


def test_softmax_as_printed(walks: dict[str, Walk]) -> None:
    walk = walks["softmax"]
    weights = walk.step("A").values
    half = np.exp(1 / 2)
    assert weights[6, 6] == pytest.approx(half / (2 * half + 6))
    assert weights[6, 6] == weights[6, 2]  # trick₀ takes as much as sick₀
    np.testing.assert_array_equal(weights[6], weights[7])
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(walk.step("Σ Z").values, [[1.288, 1.005, 0, 0]], atol=1e-3)


def test_as_the_scale_grows(walks: dict[str, Walk]) -> None:
    printed, own = walks["scales"].step("printed").values, walks["scales"].step("own").values
    assert (np.diff(printed[:, 1]) > 0).all()
    np.testing.assert_allclose(printed[-1], [1 / 2, 1 / 2, 0, 0, 4, 0], atol=1e-6)
    for scale, row in zip(lecture.SCALES, own):
        chosen = 1 / (1 + np.exp(-scale / 2))
        np.testing.assert_allclose(row, [chosen, 1 - chosen, 2 * chosen, 2 - 2 * chosen, chosen, 1 - chosen], atol=1e-9)
    np.testing.assert_allclose(own[-1], [1, 0, 2, 0, 1, 0], atol=1e-12)


def test_the_check_of_sick_compares_with_one_and_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two readings that agree with one another, and with nothing else, do not pass."""
    others, ratio, letter = lecture.alpha()
    monkeypatch.setattr(lecture, "alpha", lambda: (others, ratio.flip(1), letter.flip(1)))
    assert not lecture._senses().holds


def test_a_backpack_of_the_given_senses_says_one_zero_zero_zero(walks: dict[str, Walk]) -> None:
    """By the class that learns: parallel, step by step, and with the reference's sum over senses and places."""
    from anaphora.lectures.trick_backpack import as_backpack, sentence
    from anaphora.nn.sense_network import reference_mix

    model, ids = as_backpack(lecture.C), sentence("that trick was sick")
    said = model.mixed(ids)[0, -1]
    assert said.tolist() == pytest.approx([1, 0, 0, 0], abs=1e-15)
    query, key = model.queries_and_keys(model.contextual(ids))
    slow = reference_mix(query, key, model.sense_vectors(ids[0])[None])
    torch.testing.assert_close(slow[0, -1], said, atol=1e-15, rtol=0)
    state = model.read(ids[:, :3], torch.tensor([3]), 4)
    after, _ = model.step(ids[:, 3], state)
    torch.testing.assert_close(after[0], (model.vocabulary_matrix @ said).log_softmax(-1).float())
    assert walks["backpack"].holds
    np.testing.assert_allclose(walks["backpack"].step("o").values, [[1, 0, 0, 0], [0, 1, 0, 0]], atol=1e-15)
    model.rewrite = lambda words, senses: senses * torch.tensor([0.0, 1.0])[:, None]  # without any first sense
    assert not model.mixed(ids)[0, -1].gt(1e-15).any()


def test_the_page(page_shows: Any) -> None:
    page_shows("5-trick.md")
