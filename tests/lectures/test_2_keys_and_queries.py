"""Lecture 2: keys and queries decoupled from the words' vectors, and self-attention."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from anaphora.explain.trace_parts import Walk
from anaphora.explain.walk_file import walk_file
from anaphora.lectures.as_and_bs import as_and_bs, keys_and_queries

PAGES = Path(__file__).parents[2] / "docs" / "lectures"
E = np.array([[1, 0], [1, 0], [0, 1], [1, 0]])


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {walk.name: walk for walk in keys_and_queries()}


def test_decoupled_it_is_what_it_was(walks: dict[str, Walk]) -> None:
    walk = walks["decoupled"]
    assert walk.step("W_K").values.tolist() == [[1, 0], [0, 1]]
    assert walk.step("W_Q").values.tolist() == [[10, 0], [0, 10]]
    assert walk.step("Q").values.tolist() == [[0, 10]]
    assert walk.step("K").values.tolist() == E.tolist()
    assert walk.step("S").values.tolist() == [[0, 0, 10, 0]]
    before = as_and_bs()[1]
    assert before.name == "ten-times-the-query"
    for symbol in ("S", "A", "Z"):
        np.testing.assert_array_equal(walk.step(symbol).values, before.step(symbol).values)


def test_the_scores_of_all_pairs(walks: dict[str, Walk]) -> None:
    printed = [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]
    assert walks["self-attention"].step("S").values.tolist() == printed
    assert (E @ E.T).tolist() == printed


def test_version_2_has_ten_times_the_scores(walks: dict[str, Walk]) -> None:
    walk = walks["version-2"]
    assert walk.step("Q").values.tolist() == E.tolist()
    assert walk.step("K").values.tolist() == (10 * E).tolist()
    printed = [[10, 10, 0, 10], [10, 10, 0, 10], [0, 0, 10, 0], [10, 10, 0, 10]]
    assert walk.step("S").values.tolist() == printed
    weights = walk.step("A").values
    np.testing.assert_allclose(weights[[0, 1, 3]], [[1 / 3, 1 / 3, 0, 1 / 3]] * 3, atol=2e-5)
    np.testing.assert_allclose(weights[2], [0, 0, 1, 0], atol=2e-4)


def test_the_matrices_on_the_page_make_every_letter_look_at_the_b(tmp_path: Path) -> None:
    page = (PAGES / "2-keys-and-queries.md").read_text(encoding="utf-8")
    block = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "mine.yaml").write_text(dedent(block), encoding="utf-8")
    weights = walk_file(tmp_path / "mine.yaml").step("A").values
    np.testing.assert_allclose(weights, [[0, 0, 1, 0]] * 4, atol=2e-4)


def test_the_page(page_shows: Any) -> None:
    page_shows("2-keys-and-queries.md")
