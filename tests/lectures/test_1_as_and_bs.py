"""Lecture 1: the B in "A A B A"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anaphora.explain.trace_parts import Walk
from anaphora.lectures.as_and_bs import as_and_bs


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {walk.name: walk for walk in as_and_bs()}


def test_scores_weights_and_output_with_3_in_place_of_e(walks: dict[str, Walk]) -> None:
    walk = walks["find-the-b"]
    assert walk.step("S").columns == ["A", "A", "B", "A"]
    assert walk.step("S").values.tolist() == [[0, 0, 1, 0]]
    np.testing.assert_allclose(walk.step("A").values, [[1 / 6, 1 / 6, 1 / 2, 1 / 6]], rtol=1e-12)
    np.testing.assert_allclose(walk.step("Z").values, [[1 / 2, 1 / 2]], rtol=1e-12)


def test_averaging(walks: dict[str, Walk]) -> None:
    walk = walks["beside-averaging"]
    assert walk.step("mean").values.tolist() == [[3 / 4, 1 / 4]]
    assert walk.step("A").values[0].tolist() == [1 / 4] * 4


def test_ten_times_the_query(walks: dict[str, Walk]) -> None:
    walk = walks["ten-times-the-query"]
    assert walk.step("Q").values.tolist() == [[0, 10]]
    assert walk.step("S").values.tolist() == [[0, 0, 10, 0]]
    np.testing.assert_allclose(walk.step("A").values, [[0, 0, 1, 0]], atol=2e-4)
    np.testing.assert_allclose(walk.step("Z").values, [[0, 1]], atol=2e-4)
    assert walk.step("A").values[0, 2] == pytest.approx(np.exp(10) / (np.exp(10) + 3))


def test_with_e_itself_the_b_has_less_than_half(walks: dict[str, Walk]) -> None:
    rows = walks["beside-averaging"].step("A")
    assert rows.values[list(rows.rows).index("query, base e"), 2] == pytest.approx(np.e / (np.e + 3))
    np.testing.assert_allclose(rows.values[1], walks["find-the-b"].step("A").values[0], rtol=1e-12)


def test_the_page(page_shows: Any) -> None:
    page_shows("1-as-and-bs.md")
