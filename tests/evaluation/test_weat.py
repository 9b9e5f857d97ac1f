"""The association test against a case worked by hand, and its properties."""

from __future__ import annotations

from math import comb, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.evaluation.weat import WordLists, association, divided, read_word_lists

UNITS = {
    word: np.array(vector, np.float32)
    for word, vector in {
        "rose": (1.0, 0.0),
        "tulip": (0.6, 0.8),
        "ant": (0.0, 1.0),
        "wasp": (0.8, 0.6),
        "joy": (1.0, 0.0),
        "pain": (0.0, 1.0),
    }.items()
}
LISTS = WordLists({"flowers": ["rose", "tulip"], "insects": ["ant", "wasp"]}, {"good": ["joy"], "bad": ["pain"]})


def test_a_case_worked_by_hand() -> None:
    """s: rose 1 - 0, tulip 0.6 - 0.8, ant 0 - 1, wasp 0.8 - 0.6. S = 0.8 - (-0.8). Of the six ways to take two of the
    four, two (rose with tulip, 0.8, and rose with wasp, 1.2) have sums of at least 0.8."""
    found = association(UNITS, LISTS)
    assert found.scores == pytest.approx({"rose": 1.0, "tulip": -0.2, "ant": -1.0, "wasp": 0.2})
    assert found.statistic == pytest.approx(1.6)
    assert found.effect == pytest.approx(0.8 / sqrt((1 + 0.04 + 1 + 0.04) / 3))
    assert (found.p, found.divisions, found.exact) == (pytest.approx(2 / 6), 6, True)


def test_a_word_without_a_vector_is_told_and_too_few_are_refused() -> None:
    lists = WordLists({"flowers": ["rose", "tulip", "lily"], "insects": ["ant", "wasp"]}, LISTS.attributes)
    assert association(UNITS, lists).unknown["flowers"] == ["lily"]
    with pytest.raises(UserError, match="1 of the 2 words of 'insects' have a vector"):
        association(UNITS, WordLists({"flowers": ["rose", "tulip"], "insects": ["ant", "bee"]}, LISTS.attributes))


@given(st.lists(st.integers(-9, 9), min_size=4, max_size=12), st.integers(1, 3), st.integers(0, 5))
def test_drawn_divisions_estimate_all_of_them(scores: list[int], first: int, seed: int) -> None:
    values = np.array(scores, np.float64)
    share, number, exact = divided(values, first, most=10**6, draws=0, seed=seed)
    assert exact and number == comb(len(scores), first) and 0 < share <= 1
    drawn, looked, all_of_them = divided(values, first, most=0, draws=4000, seed=seed)
    assert not all_of_them and looked == 4000 and abs(drawn - share) < 0.06


def test_exchanging_the_targets_turns_the_effect_round() -> None:
    turned = WordLists(dict(reversed(LISTS.targets.items())), LISTS.attributes)
    assert association(UNITS, turned).effect == pytest.approx(-association(UNITS, LISTS).effect)


def test_files_and_their_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "lists.yaml"
    whole = "targets: {f: [rose, tulip], i: [ant, wasp]}\nattributes: {g: [joy], b: [pain]}\n"
    file.write_text(whole)
    assert read_word_lists(file).targets == {"f": ["rose", "tulip"], "i": ["ant", "wasp"]}
    json = tmp_path / "lists.json"
    json.write_text('{"targets": {"f": ["a", "b"], "i": ["c", "d"]}, "attributes": {"g": ["e"], "b": ["f"]}}')
    assert read_word_lists(json).attributes == {"g": ["e"], "b": ["f"]}
    for text, message in {
        "targets: {f: [rose]}\n": "does not hold `targets` and `attributes`",
        whole.replace(", i: [ant, wasp]", ""): "`targets` must be two lists",
        whole.replace("[joy]", "joy"): "`attributes: g` must be a list of words",
        whole.replace("[joy]", "[no]"): "`attributes: g` must be a list of words",
        whole.replace("ant", "rose"): "'rose' is in both targets",
        "targets: [": "lists.yaml",
    }.items():
        file.write_text(text)
        with pytest.raises(UserError, match=message):
            read_word_lists(file)
    with pytest.raises(UserError, match="there is no such file"):
        read_word_lists(tmp_path / "nothing.yaml")


def test_lists_of_the_same_name_are_refused() -> None:
    """One would silently stand for the other."""
    with pytest.raises(UserError, match="a target and an attribute are both called 'good'"):
        association(UNITS, WordLists({"good": ["rose", "tulip"], "insects": ["ant", "wasp"]}, LISTS.attributes))


def test_drawn_divisions_count_the_one_that_is_there() -> None:
    """However rare it is: a p of zero would say more than any number of draws can."""
    scores = np.concatenate((np.full(20, 9.0), np.zeros(20)))
    assert divided(scores, 20, most=0, draws=50, seed=1) == (1 / 51, 50, False)
