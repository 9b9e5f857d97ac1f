"""Lecture 6: c_t and α of Bahdanau, lookup, √d, heads, growing keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from anaphora.lectures import bahdanau as lecture
from anaphora.nn.scores import SCORES


def test_alpha_and_context_by_hand() -> None:
    (walk,) = lecture.bahdanau()
    tanh, exp = math.tanh, math.exp
    assert walk.step("S").rows == ["the", "house", "is"]
    for t in range(3):
        scores = [2 * tanh(t - i + 1) - 2 * tanh(t - i - 1) for i in range(4)]
        total = sum(map(exp, scores))
        alpha = [exp(score) / total for score in scores]
        np.testing.assert_allclose(walk.step("S").values[t], scores, rtol=1e-12)
        np.testing.assert_allclose(walk.step("A").values[t], alpha, rtol=1e-12)
        place, noun = sum(a * (i + 1) for i, a in enumerate(alpha)), alpha[1]
        np.testing.assert_allclose(walk.step("Z").values[t], [place, noun], rtol=1e-12)
    assert walk.step("S").values.max() == pytest.approx(4 * tanh(1))


def test_hard_lookup_is_the_limit() -> None:
    soft, _ = lecture.lookup()
    weights, (found, distance) = soft.step("A").values, soft.step("AV").values.T
    assert weights[0] == pytest.approx([1 / 3] * 3)
    assert found[0] == pytest.approx(4)  # the mean of 1, 7, 4
    assert weights[-1].tolist() == pytest.approx([0, 1, 0], abs=1e-12)
    assert found[-1] == pytest.approx(7, abs=1e-12)
    np.testing.assert_allclose(distance, 7 - found, atol=1e-12)
    assert (np.diff(distance) < 0).all()  # every larger scale is nearer to the one value
    scales = [float(row) for row in soft.step("A").rows]
    odds = np.log(weights[:, 2] / weights[:, 1])  # town against age: they differ by 0.4 - 0.9 in q · k
    np.testing.assert_allclose(odds, [-0.5 * scale for scale in scales], atol=1e-9)


def test_unscaled_scores_grow_and_the_gradient_goes() -> None:
    walk = lecture.why_scaled()
    dot, scaled = walk.step("dot").values, walk.step("scaled-dot").values
    sizes = np.array(lecture.SIZES)
    np.testing.assert_allclose(dot[:, 0], np.sqrt(sizes), rtol=0.02)
    np.testing.assert_allclose(scaled[:, 0], 1, rtol=0.02)
    assert (np.diff(dot[:, 1]) > 0).all()  # one weight takes all
    assert dot[-1, 2] < 0.001 < 0.25 < scaled[:, 2].min()
    assert scaled[1:, 2].max() / scaled[1:, 2].min() < 1.05  # from four dimensions on, d hardly matters
    assert dot[-1, 3] > 0.7
    assert scaled[:, 3].max() == 0


def test_the_mean_gradient_falls_only_with_the_root() -> None:
    """As the page says: nearly tied keys keep it from vanishing as its median does."""
    mean = {size: float(lecture.steepness(size, "dot")[2].mean()) for size in (256, 4096)}
    assert mean[4096] / mean[256] == pytest.approx(1 / 4, abs=0.05)  # sixteen times the dimensions


def test_the_jacobian_is_autograds() -> None:
    scores = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    of = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    torch.testing.assert_close(lecture.softmax_jacobian(scores.softmax(-1)[None])[0], of)


def test_heads_cost_the_same() -> None:
    (walk,) = lecture.heads()
    flops, parameters, exponentials = walk.step("flops").values.T
    assert set(flops) == {8 * 32 * 64**2 + 4 * 32**2 * 64}
    assert set(parameters) == {4 * (64 * 64 + 64)}
    assert (exponentials / exponentials[0]).tolist() == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("normalizer", ["softmax", "none"])
def test_growing_keys_is_masking(score: str, normalizer: str) -> None:
    assert lecture.growing_difference(score, normalizer) < 1e-12
    assert lecture.growing_difference(score, normalizer, words=1, size=3) < 1e-12


def test_a_key_from_the_future_would_be_seen() -> None:
    """That the two ways agree is no accident: without the mask they do not."""
    query, key, value = lecture._drawn(4, 2)
    open_to_all = lecture.attend(query[None, None], key[None, None], value[None, None])[0, 0]
    alone = torch.cat([lecture._one_step(query, key, value, t) for t in range(4)])
    assert (open_to_all - alone)[:-1].abs().max() > 0.1
    torch.testing.assert_close(open_to_all[-1], alone[-1])  # the last word sees everything either way


def test_the_page(page_shows: Any) -> None:
    page_shows("6-bahdanau.md")
