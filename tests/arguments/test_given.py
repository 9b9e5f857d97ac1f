"""What people hand over as text: any iterable of lines, open files, paths; what is no text is refused by its place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import anaphora
from anaphora.arguments.given import lines_of, many_lines, one_text, pairs_of, words_of
from anaphora.errors import UserError

LINES = ["the cat sat", "", "a dog ran"]


class Column:
    """A pandas column: truth is ambiguous, iteration gives the values."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        raise ValueError("The truth value of a Series is ambiguous")


class Table:
    """A pandas table: iteration gives the names of its columns."""

    columns = ("en", "de")
    shape = (3, 2)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Missing:
    def __str__(self) -> str:
        return "<NA>"


@pytest.mark.parametrize(
    "given",
    [
        LINES,
        tuple(LINES),
        (line for line in LINES),
        Column(LINES),
        np.array(LINES),
        np.array(LINES, dtype=object),
        pa.array(LINES),
        dict.fromkeys(LINES).keys(),
    ],
    ids=lambda given: type(given).__name__,
)
def test_any_iterable_of_strings(given: Any) -> None:
    assert list(lines_of(given)) == LINES


def test_files_open_or_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("the cat sat\r\n\n Jürgen\u2028läuft \nend".encode())
    expected = ["the cat sat", "", " Jürgen\u2028läuft ", "end"]
    with (tmp_path / "a.txt").open(encoding="utf-8", newline="\n") as file:
        assert list(lines_of(file)) == expected
    assert list(lines_of(tmp_path / "a.txt")) == expected
    (tmp_path / "pairs.jsonl").write_text('{"source": "a", "de": "b"}\n')
    assert list(lines_of(tmp_path / "pairs.jsonl", "source")) == ["a"]
    assert list(lines_of(Path(f"{tmp_path}/pairs.jsonl#de"))) == ["b"]
    (tmp_path / "pairs.tsv").write_text("a\tb\nc\td\n")
    assert list(pairs_of(tmp_path / "pairs.tsv", None)) == [("a", "b"), ("c", "d")]


NA: list[Any] = [None, math.nan, np.float32("nan"), Missing()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *[(["a", one], r"source\[1\] is missing .*dropna") for one in NA],
        *[(Column(["a", one]), r"source\[1\] is missing") for one in NA],
        ([b"a"], r"source\[0\] is bytes.*decode"),
        (b"a", r"source is bytes.*decode"),
        ([1], r"source\[0\] is an int.*: 1; give a list of str"),
        ([["a"]], r"source\[0\] is a list"),
        ([{"en": "a"}], r"source\[0\] is a dict"),
        (np.array([["a", "b"]]), r"source\[0\] is a ndarray"),
        (3.5, r"source is a float, not lines of text: 3\.5"),
        (None, "source is None, not lines of text"),
        (np.array("a"), "source is a ndarray"),
        ({"en": ["a"]}, "source is a dict.*choose one of 'en'"),
        ({"a", "b"}, "source is a set, which has no order; give a list: line n of one belongs to line n of another"),
        (frozenset("ab"), "source is a frozenset, which has no order"),
        (Table(), "source is a table.*choose one of 'en', 'de'"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,  # no addresses: two processes collect
)
def test_what_is_no_text_is_refused_by_its_place(given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(lines_of(given, "source"))


def test_files_without_an_order_are_no_parallel_text() -> None:
    with pytest.raises(UserError, match="source is a set, which has no order; give a list"):
        anaphora.train("run", source={"a.en", "b.en"}, target={"a.de", "b.de"})


def test_a_list_is_refused_before_the_first_line_is_read() -> None:
    for wrong in (["a", None], b"a", Path("nowhere.txt"), 3):
        with pytest.raises(UserError):
            lines_of(wrong)  # type: ignore[arg-type]


def test_the_name_of_a_file_is_not_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.en").write_text("the cat\n")
    for ask in (lines_of, many_lines, one_text):
        with pytest.raises(UserError, match=r"'test\.en' is a file.*give Path\('test\.en'\) or open\(.*, or \['test"):
            ask("test.en")
    with pytest.raises(UserError, match=r"text is one str, not lines of text; give Path\('tset\.en'\)"):
        many_lines("tset.en")
    assert words_of("test.en") == ["test.en"]
    assert words_of({"b", "a", "c"}) == ["a", "b", "c"], "words stand each for itself"
    assert list(lines_of("the cat " * 2000)) == ["the cat " * 2000]  # no file has such a name


def test_an_open_file_of_bytes_or_of_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("schön\n".encode("latin1"))
    with (tmp_path / "a").open("rb") as file, pytest.raises(UserError, match=r"text\[0\] is bytes"):
        list(lines_of(file))  # type: ignore[arg-type]
    with (tmp_path / "a").open(encoding="utf-8") as file, pytest.raises(UserError, match=r"not utf-8 \(byte 0xF6\)"):
        list(lines_of(file))


def test_sides_of_different_lengths() -> None:
    with pytest.raises(UserError, match="source has 2 lines and target has 1; line n of target must belong"):
        pairs_of(["a", "b"], ["c"])  # at the call
    with pytest.raises(UserError, match="source has 1 line and target has 3"):
        list(pairs_of(["a"], iter("bcd")))
    with pytest.raises(UserError, match="source has 3 lines and target has 1"):
        list(pairs_of(iter("bcd"), ["a"]))
    with pytest.raises(UserError, match="source has 1 line and target has more than 1,000,002"):
        list(pairs_of(["a"], repeat("b")))
    with pytest.raises(UserError, match="source is one text and target is a list"):
        pairs_of("a", ["b"])
    with pytest.raises(UserError, match="no target text"):
        pairs_of(["a"], None)
    assert list(pairs_of("a", "b")) == [("a", "b")]
