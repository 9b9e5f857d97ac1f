"""Pharaoh lines and the alignment error rate, against counting by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.evaluation.alignment_error import (
    GoldAlignment,
    alignment_error_rate,
    check_range,
    parse_pharaoh,
    read_pharaoh,
    write_pharaoh,
)

links = st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12)


def test_the_rate_by_hand() -> None:
    gold = [GoldAlignment.of({(0, 0), (1, 2)}, {(1, 1)}), GoldAlignment.of({(0, 0)})]
    score = alignment_error_rate([{(0, 0), (1, 1), (3, 3)}, set()], gold)
    # |A| = 3, |S| = 3, |A ∩ S| = 1, |A ∩ P| = 2
    assert score.aer == pytest.approx(1 - 3 / 6)
    assert (score.precision, score.recall) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (score.sentences, score.links, score.sure, score.possible) == (2, 3, 3, 4)


@given(st.lists(st.tuples(links, links, links), max_size=5))
def test_bounds_and_perfection(cases: list[tuple[set, set, set]]) -> None:
    gold = [GoldAlignment.of(sure, possible) for _, sure, possible in cases]
    score = alignment_error_rate([said for said, _, _ in cases], gold)
    assert all(0 <= value <= 1 for value in (score.aer, score.precision, score.recall))
    assert alignment_error_rate([sure for _, sure, _ in cases], gold).aer == 0
    assert alignment_error_rate([one.possible for one in gold], gold).precision == 1


@given(links, links, st.sampled_from([0, 1]))
def test_what_is_written_is_read(sure: set, possible: set, base: int) -> None:
    assert parse_pharaoh(write_pharaoh(sure, base=base), base=base) == GoldAlignment.of(sure)
    marks = " ".join(f"{i + base}{'?pP'[i % 3]}{j + base}" for i, j in possible)
    assert parse_pharaoh(f"{write_pharaoh(sure, base=base)}\t{marks}\r", base=base) == GoldAlignment.of(sure, possible)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        parse_pharaoh(text, file="gold", line=7)
    except UserError as error:
        assert str(error).startswith("gold:7: ")
        assert error.cure


@pytest.mark.parametrize(
    ("content", "base", "message"),
    [
        (b"0-0 1-x\n", 0, ":1: '1-x' is not a link; write i-j"),
        (b"1-1\n0-1\n", 1, ":2: the link 0-1 has a word 0, but words are counted from 1; add base=0"),
        (b"0-0\n\xff\xfe\n", 0, ":2: is not text"),
    ],
)
def test_mistakes_name_file_line_and_cure(tmp_path: Path, content: bytes, base: int, message: str) -> None:
    file = tmp_path / "gold"
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_pharaoh(file, base=base)
    assert message in str(error.value)


def test_a_file_has_a_line_a_pair(tmp_path: Path) -> None:
    file = tmp_path / "gold"
    file.write_bytes("\ufeff0-0 1p1\n\n2-0\n".encode())
    gold = read_pharaoh(file)
    assert gold == [GoldAlignment.of({(0, 0)}, {(1, 1)}), GoldAlignment.of(()), GoldAlignment.of({(2, 0)})]
    with pytest.raises(UserError, match="has 3 lines, but there are 2 sentence pairs"):
        check_range(gold, [(2, 2), (2, 2)], file=file)
    with pytest.raises(UserError, match=r"gold:3: the link 2-0 is out of range.* source has 2 words.*try base=1"):
        check_range(gold, [(2, 2)] * 3, file=file)
    with pytest.raises(UserError, match="cannot be read"):
        read_pharaoh(tmp_path / "none")
