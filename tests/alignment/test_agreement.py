"""Alignment by agreement: two IBM-1 models find the words of a toy language, and say what they are unsure of."""

from __future__ import annotations

import numpy as np
import pytest

from anaphora.alignment.agreement import Agreement, diagonal
from micro_runs import pairs


@pytest.fixture(scope="module")
def teacher() -> Agreement:
    lines = [(source.rstrip(".").split(), target.rstrip(".").split()) for source, target in pairs(300)]
    return Agreement.fit([source for source, _ in lines], [target for _, target in lines])


def test_words_find_their_translations_and_equal_words_the_near_one(teacher: Agreement) -> None:
    source = ["the", "dog", "sees", "the", "big", "red", "cat"]
    target = ["der", "Hund", "sieht", "der", "große", "rote", "Kater"]
    both, either = teacher.links(source, target)
    assert both == either == {(i, i) for i in range(7)}


def test_lessons_are_distributions_as_sure_as_both_models_are(teacher: Agreement) -> None:
    lesson = teacher.lesson(["the", "dog", "xyz"], ["der", "Hund", "unbekannt"])
    assert lesson.shape == (3, 3)
    assert (lesson >= 0).all()
    assert (lesson.sum(axis=1) <= 1 + 1e-6).all()
    assert lesson[2].sum() == 0  # a word never seen teaches nothing
    assert lesson[1].argmax() == 1


def test_empty_sides_have_no_links(teacher: Agreement) -> None:
    assert teacher.links([], ["der"]) == (set(), set())
    assert teacher.lesson(["the"], []).shape == (0, 1)
    assert not any(teacher.plain([], []).values())


def test_plain_forms_are_what_their_names_say(teacher: Agreement) -> None:
    forms = teacher.plain(["the", "dog"], ["der", "Hund", "der"])
    assert forms["intersection"] == forms["source to target"] & forms["target to source"]
    assert forms["union"] == forms["source to target"] | forms["target to source"]


def test_the_diagonal_is_highest_on_the_diagonal() -> None:
    near = diagonal(7, 7)
    assert (near.argmax(axis=1) == np.arange(7)).all()
    assert near.max() == 1.0
