"""Lecture 0: the bigrams of five words, counted by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.explain.trace_parts import Walk
from anaphora.lectures.counting import AFTER, BEFORE, IDS, TEXT, counting, library
from anaphora.tokenizers.tokenizer import EOS, UNK

BY_HAND = [  # the dog saw the cat: ⟨s⟩ the, the dog, dog saw, saw the, the cat, cat ⟨/s⟩
    # the  dog   saw   cat   ⟨/s⟩
    [1, 0, 0, 0, 0],  # after ⟨s⟩
    [0, 1 / 2, 0, 1 / 2, 0],  # after the
    [0, 0, 1, 0, 0],  # after dog
    [1, 0, 0, 0, 0],  # after saw
    [0, 0, 0, 0, 1],  # after cat
]


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {walk.title: walk for walk in counting()}


def test_a_text_of_five_words() -> None:
    assert len(TEXT.split()) == 5
    assert BEFORE == ["⟨s⟩", "the", "dog", "saw", "cat"]
    assert AFTER == ["the", "dog", "saw", "cat", "⟨/s⟩"]


def test_the_table_is_the_hand_count(walks: dict[str, Walk]) -> None:
    walk = walks["Count and normalize"]
    assert walk.step("C").values.sum() == 6
    assert walk.step("N").values.tolist() == [[1], [2], [1], [1], [1]]
    assert walk.step("P").values.tolist() == BY_HAND


def test_the_library_gives_the_hand_count() -> None:
    """Asked as a text is scored, word by word: nothing of the walk is used."""
    model = library("maximum-likelihood")
    for before, row in zip(BEFORE, BY_HAND):
        first = [] if before == "⟨s⟩" else [IDS[before]]
        for after, expected in zip(AFTER, row):
            (scores,), _ = model.score_rows([np.array([*first, IDS[after]], np.uint32)])
            assert math.exp(scores[-1]) == pytest.approx(expected, abs=1e-7), (before, after)


@pytest.mark.parametrize(("text", "probability"), [("the cat", 1 / 2), (TEXT, 1 / 4), ("the dog", 0)])
def test_a_sentence_is_a_product(text: str, probability: float, walks: dict[str, Walk]) -> None:
    assert walks[f"“{text}”"].step("P").values[0, -1] == probability
    (scores,), _ = library("maximum-likelihood").score_rows([np.array([*map(IDS.get, text.split()), EOS], np.uint32)])
    assert math.exp(scores.sum()) == pytest.approx(probability)


def test_add_one(walks: dict[str, Walk]) -> None:
    p = walks["Add one"].step("P").values
    assert p[BEFORE.index("the")].tolist() == [1 / 8, 2 / 8, 1 / 8, 2 / 8, 1 / 8, 1 / 8]
    (scores,), _ = library("add-k").score_rows([np.array([IDS["the"], UNK], np.uint32)])
    assert math.exp(scores[1]) == pytest.approx(1 / 8)


def test_every_check_holds(walks: dict[str, Walk]) -> None:
    for walk in walks.values():
        assert walk.checks
        assert walk.holds, walk.checks


def test_the_page(page_shows: Any) -> None:
    page_shows("0-counting.md")


@pytest.mark.parametrize(("smoothing", "dog", "saw"), [("maximum-likelihood", 1 / 2, 0), ("add-k", 2 / 8, 1 / 8)])
def test_the_commands_at_the_end_give_the_table(smoothing: str, dog: float, saw: float, tmp_path: Path) -> None:
    (tmp_path / "five.txt").write_text(TEXT + "\n")
    settings = {"model.order": 2, "model.smoothing": smoothing}
    anaphora.train(tmp_path / "five", text=tmp_path / "five.txt", recipe="ngram", settings=settings)
    found = anaphora.load(tmp_path / "five").why("the", top=0, words=["dog", "saw"])
    assert found.holds
    assert [one.probability for one in found.explanation.candidates] == pytest.approx([dog, saw])
