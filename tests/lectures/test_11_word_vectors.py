"""One-hot and lookup, the lecture's window, the objective and its gradients, what is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from anaphora.lectures.word_vectors import (
    ASKED,
    HIDDEN,
    LABELS,
    OUTPUT,
    SENTENCE,
    gradients,
    negatives,
    one_hot,
    skip_gram,
    window,
)


def test_the_page_shows_what_is_printed(page_shows) -> None:  # type: ignore[no-untyped-def]
    page_shows("11-word-vectors.md")


def test_a_one_hot_product_and_a_lookup_are_the_same() -> None:
    (walk,) = one_hot()
    assert walk.holds
    x, e = walk.step("X").values, walk.step("E").values
    assert x.tolist() == [[0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 1, 0]]  # the slide's rows
    assert e[:3].tolist() == [[1.2, -0.1, 4.3, 3.2], [0.4, 2.5, -0.9, 0.5], [2.1, 0.3, 0.1, 0.4]]
    np.testing.assert_array_equal(walk.step("Z").values, e[[4, 0, 3]])
    np.testing.assert_array_equal(walk.step("X Xᵀ").values, np.eye(3))
    unread = walk.step("dE").values[[1, 2]]
    assert not unread.any() and walk.step("dE").values[0].tolist() == walk.step("dZ").values[1].tolist()


def test_the_contexts_are_those_of_the_slide() -> None:
    (walk,) = window()
    assert walk.holds and SENTENCE.startswith("the professor is scribbling on the board and the student is writing")
    step = walk.step("C")
    found = {name: {step.columns[n] for n in np.flatnonzero(row)} for name, row in zip(step.rows, step.values)}
    assert found == {
        "professor": {"the", "is", "scribbling"},
        "student": {"and", "the", "is", "writing"},
    }
    assert step.rows == ASKED and step.values.max() == 1


def test_the_gradients_are_differences_of_the_loss() -> None:
    assert all(walk.holds for walk in skip_gram())
    _, _, of_h, of_o = gradients(HIDDEN, OUTPUT, LABELS)
    small = 1e-6
    for which, table, gradient in ((0, HIDDEN, of_h), (1, OUTPUT, of_o)):
        for place in np.ndindex(table.shape):
            ends = []
            for sign in (1, -1):
                moved = [HIDDEN.copy(), OUTPUT.copy()]
                moved[which][place] += sign * small
                ends.append(gradients(*moved, LABELS)[0])
            assert (ends[0] - ends[1]) / (2 * small) == pytest.approx(gradient[place], abs=1e-8)


def test_words_are_drawn_by_the_power_of_three_quarters() -> None:
    (walk,) = negatives()
    assert walk.holds
    assert walk.step("c").values.tolist() == [[4.0, 2.0, 1.0]]
    assert walk.step("P").values[0] / walk.step("P").values[0, 2] == pytest.approx([4**0.75, 2**0.75, 1.0])
