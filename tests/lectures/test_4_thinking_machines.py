"""Lecture 4: 112 and 96 over 8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anaphora.explain.trace_parts import Walk
from anaphora.lectures.thinking_machines import thinking_machines


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {walk.name: walk for walk in thinking_machines()}


def test_the_slide_row_by_row(walks: dict[str, Walk]) -> None:
    walk = walks["thinking-machines"]
    assert walk.step("Q").values.shape == (1, 64)
    assert walk.step("QKᵀ").values.tolist() == [[112, 96]]
    assert walk.step("S").values.tolist() == [[14, 12]]
    assert np.round(walk.step("A").values, 2).tolist() == [[0.88, 0.12]]


def test_the_weighted_sum(walks: dict[str, Walk]) -> None:
    walk = walks["thinking-machines"]
    first, second = walk.step("A").values[0]
    v = walk.step("V").values
    np.testing.assert_allclose(walk.step("A × V").values, [first * v[0], second * v[1]], rtol=1e-12)
    np.testing.assert_allclose(walk.step("Z").values[0], first * v[0] + second * v[1], rtol=1e-12)
    np.testing.assert_allclose(walk.step("Z").values[0], [0.8808, 0.1192, 1], atol=1e-4)


def test_undivided_one_word_has_it_all(walks: dict[str, Walk]) -> None:
    walk = walks["undivided"]
    assert walk.step("S").values.tolist() == [[112, 96]]
    assert walk.step("A").values[0, 1] == pytest.approx(1 / (1 + np.exp(16)))
    assert 0.9e-7 < walk.step("A").values[0, 1] < 1.2e-7


def test_the_page(page_shows: Any) -> None:
    page_shows("4-thinking-machines.md")
