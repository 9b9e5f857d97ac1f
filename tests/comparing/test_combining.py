"""Rows that are made of other rows: what is trained for them, in which order, and what makes no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.comparing.combining import ENDING, combined
from anaphora.comparing.published import ROWS, TABLE
from anaphora.comparing.rows import Entry, read_entries
from anaphora.comparing.translation_comparison import TranslationTask
from anaphora.errors import UserError


def rows(written: str) -> list[Entry]:
    asked = read_entries([written], {}, sets=TranslationTask.sets, ending=ENDING)
    return combined(asked, lambda entry: int(entry.settings.get("training", {}).get("seed", 1)))


def test_what_a_row_is_made_of_comes_before_it_and_only_what_was_asked_for_is_shown() -> None:
    made = rows("gnmt+rl+ensemble")
    steps = "gnmt gnmt+rl gnmt-seed2 gnmt+rl-seed2 gnmt-seed3 gnmt+rl-seed3 gnmt+rl+ensemble"
    assert [entry.name for entry in made] == steps.split()
    assert [entry.name for entry in made if entry.shown] == ["gnmt+rl+ensemble"]
    by_name = {entry.name: entry for entry in made}
    assert by_name["gnmt+rl-seed3"].after == ("gnmt-seed3",)
    assert by_name["gnmt+rl-seed3"].settings == {"training": {"objective": "reinforce", "seed": 3}}
    assert by_name["gnmt+rl+ensemble"].after == ("gnmt+rl", "gnmt+rl-seed2", "gnmt+rl-seed3")
    assert by_name["gnmt+rl+ensemble"].together and not by_name["gnmt+rl"].together


def test_settings_are_those_of_the_last_step_and_a_row_is_meant_by_its_name() -> None:
    wide, learned_on = rows("wide=gnmt:model.dim=64,training.seed=7 wide+rl:training.candidates=4")
    assert wide.settings == {"model": {"dim": 64}, "training": {"seed": 7}}
    assert (learned_on.recipe, learned_on.after, learned_on.endings) == ("gnmt", ("wide",), ("rl",))
    assert learned_on.settings == {"training": {"objective": "reinforce", "seed": 7, "candidates": 4}}
    names = [entry.name for entry in rows("wide=gnmt:training.seed=7 wide+ensemble2")]
    assert names == ["wide", "wide-seed8", "wide+ensemble2"]


def test_words_and_width_are_learned_from_the_beginning() -> None:
    (entry,) = rows("deep-att+posunk")
    assert entry.settings["tokenizer"]["kind"] == "word" and entry.after == ()
    assert rows("transformer+big")[0].settings == {}  # how wide, the corpus decides


def test_the_lectures_rows_are_all_there_in_their_order() -> None:
    shown = [entry.name for entry in rows("lectures") if entry.shown]
    assert shown == ROWS.split() and len(shown) == len(TABLE) == 10
    assert shown[0] == "bytenet" and shown[-2:] == ["transformer", "transformer+big"]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("gnmt+rk", r"there is no recipe 'gnmt\+rk'"),
        ("nmt+rl", "there is no recipe 'nmt'; did you mean 'gnmt'"),
        ("gnmt+ensemble+rl", r"an ensemble learns nothing more; put \+ensemble at the end"),
        ("gnmt+ensemble+ensemble", "is an ensemble of an ensemble"),
        ("gnmt+ensemble1", "an ensemble has 2 to 16 members, not 1"),
        ("gnmt+ensemble99", "an ensemble has 2 to 16 members, not 99"),
        ("gnmt+ensemble:model.dim=4", "an ensemble has no model settings of its own; set those of the row gnmt"),
        ("gnmt+rl+posunk", r"\+posunk changes what is learned from the beginning; let it come first"),
        ("gnmt+ensemble2 gnmt-seed2=luong", "the row gnmt-seed2 is a member of an ensemble, and another one"),
    ],
)
def test_what_makes_no_sense_is_said(written: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        rows(written)


ends = st.lists(st.sampled_from(["big", "posunk"]), max_size=2, unique=True)
roots = st.sampled_from(["gnmt", "luong", "transformer"])
names = st.builds(
    lambda root, early, learned, many: "+".join([root, *early, *["rl"] * learned, *([many] if many else [])]),
    roots,
    ends,
    st.booleans(),
    st.sampled_from(["", "ensemble", "ensemble2", "ensemble5"]),
)


@given(st.lists(names, min_size=1, max_size=4, unique=True))
def test_every_step_is_there_once_and_after_what_it_needs(asked: list[str]) -> None:
    made = rows(" ".join(asked))
    place = {entry.name: number for number, entry in enumerate(made)}
    assert len(place) == len(made) and [entry.name for entry in made if entry.shown] == sorted(asked, key=place.get)  # type: ignore[arg-type]
    for number, entry in enumerate(made):
        assert all(place[name] < number for name in entry.after)
        assert entry.shown or any(entry.name in other.after for other in made)
