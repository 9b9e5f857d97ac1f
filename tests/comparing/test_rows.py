"""Rows as they are written: names, short forms, settings, and what is no row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.comparing.rows import Entry, read_entries
from anaphora.errors import UserError

SHORT = {"bigram": "ngram:model.order=2"}


def read(*words: str) -> list[Entry]:
    return read_entries(words, SHORT)


def test_commas_blanks_and_repetition_part_rows_and_settings_stay_with_theirs() -> None:
    written = "lstm, bigram wide=gru:model.dim=64,training.seed=2,rnn"
    expected = [
        Entry("lstm", "lstm"),
        Entry("bigram", "ngram", {"model": {"order": 2}}),
        Entry("wide", "gru", {"model": {"dim": 64}, "training": {"seed": 2}}),
        Entry("rnn", "rnn"),
    ]
    assert read(written) == expected
    assert read("lstm,bigram", "wide=gru:model.dim=64,training.seed=2 rnn") == expected


def test_a_row_without_a_name_is_called_by_its_settings() -> None:
    assert [entry.name for entry in read("ngram:model.order=3,lstm:model.dim=64,training.learning_rate=1e-3")] == [
        "ngram-order3",
        "lstm-dim64-learning_rate1e-3",
    ]


def test_a_short_form_takes_settings_of_its_own_too() -> None:
    (entry,) = read("bigram:model.smoothing=add-k")
    assert entry == Entry("bigram-smoothingadd-k", "ngram", {"model": {"order": 2, "smoothing": "add-k"}})


def test_commas_inside_brackets_part_nothing() -> None:
    (entry, other) = read("ngram:model.prune=[0,0,1],lstm")
    assert entry.settings == {"model": {"prune": [0, 0, 1]}}
    assert other.name == "lstm"


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("lsmt", "there is no recipe 'lsmt'; did you mean 'lstm'"),
        ("bigrma", "did you mean 'bigram'"),
        ("lstm,lstm", "the row lstm is asked for twice"),
        ("lstm,lstm=gru", "two different rows are called lstm; name one"),
        ("", "no recipes to compare"),
        (" , ", "no recipes to compare"),
        ("model.dim=3,lstm", "follows no row"),
        ("lstm,model.dim=3", "follows no row"),
        ("a/b=lstm", "is no name for a row"),
        ("../x=lstm", "is no name for a row"),
        ("lstm:", "names no row"),
        ("x=", "names no row"),
        ("lstm:dim=3", "is not a setting"),
        ("lstm:modle.dim=3", "unknown section"),
    ],
)
def test_what_is_no_list_of_rows_is_said(written: str, says: str) -> None:
    with pytest.raises(UserError, match=says.replace("(", r"\(")):
        read(written)


names = st.text("abcxyz0189_+-", min_size=1, max_size=12)
own = st.dictionaries(st.sampled_from(["dim", "layers", "window"]), st.integers(1, 999), max_size=3)
entries = st.builds(
    lambda name, recipe, model, training: Entry(
        name, recipe, {k: v for k, v in (("model", model), ("training", training)) if v}
    ),
    names,
    st.sampled_from(["lstm", "gru", "window"]),
    own,
    st.dictionaries(st.sampled_from(["seed", "epochs"]), st.integers(1, 9), max_size=2),
)


@given(st.lists(entries, min_size=1, max_size=6, unique_by=lambda entry: entry.name), st.sampled_from([",", " ", ", "]))
def test_what_is_written_is_read_again(rows: list[Entry], between: str) -> None:
    assert read(between.join(entry.written for entry in rows)) == rows
