"""Scores of word vectors: ranks with ties, pairs, analogies, and files that name their mistakes."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.evaluation.vector_benchmarks import (
    evaluate_analogies,
    evaluate_similarity,
    ranks,
    read_analogies,
    read_similarities,
    spearman,
)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_ranks_are_those_of_the_definition(values: list[int]) -> None:
    found = ranks([float(value) for value in values])
    for value, rank in zip(values, found):
        below, same = sum(v < value for v in values), sum(v == value for v in values)
        assert rank == below + (same + 1) / 2


def test_spearman_of_known_orders() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 400]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)
    assert np.isnan(spearman([1, 1], [1, 2])) and np.isnan(spearman([], []))
    with pytest.raises(ValueError, match="beside"):
        spearman([1], [1, 2])


WORDS = ["man", "woman", "King", "queen", "apple", "king"]
MATRIX = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [0, -1, 0], [0, 0, 1]], np.float32)
UNITS = MATRIX / np.linalg.norm(MATRIX, axis=1, keepdims=True)


def test_similarity_counts_what_it_leaves_out() -> None:
    pairs = [("Man", "WOMAN", 9.0), ("man", "apple", 1.0), ("queen", "king", 8.0), ("man", "unheard", 5.0)]
    found = evaluate_similarity(WORDS, UNITS, pairs)
    assert (found.pairs, found.unknown) == (3, 1) and found.spearman == pytest.approx(0.5)
    assert evaluate_similarity(WORDS, UNITS, pairs, case_insensitive=False).pairs == 2
    assert evaluate_similarity(WORDS, UNITS, pairs, restrict_vocab=2).pairs == 1


@pytest.mark.parametrize("cells", [1, 1 << 25])
def test_analogies_by_section(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anaphora.evaluation.vector_benchmarks.MAX_COSINES", cells)  # one by one, or all at once
    sections = {"royal": [("man", "woman", "king", "queen"), ("man", "king", "woman", "queen")]}
    sections["odd"] = [("man", "woman", "king", "apple"), ("man", "woman", "king", "unheard")]
    found = evaluate_analogies(WORDS, UNITS, sections)
    assert found.sections == {"royal": (2, 2), "odd": (0, 1)}
    assert (found.correct, found.questions, found.unknown) == (2, 3, 1) and found.accuracy == pytest.approx(2 / 3)


def test_files_are_read_and_their_mistakes_named(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text("Word 1\tWord 2\tHuman (mean)\n# remark\nlove\tsex\t6.77\ntiger cat 7.35\n")
    assert read_similarities(file) == [("love", "sex", 6.77), ("tiger", "cat", 7.35)]
    file.write_text("love sex 6.77\ntiger cat\n")
    with pytest.raises(UserError, match=r"pairs.txt:2: 'tiger cat' is not two words and a number"):
        read_similarities(file)
    file.write_text("\n")
    with pytest.raises(UserError, match="no pairs"):
        read_similarities(file)
    questions = tmp_path / "q.txt.gz"
    questions.write_bytes(gzip.compress(b": capitals\nAthens Greece Oslo Norway\n\n: family\nboy girl king queen\n"))
    assert {name: len(found) for name, found in read_analogies(questions).items()} == {"capitals": 1, "family": 1}
    bad = tmp_path / "bad.txt"
    bad.write_text(": capitals\nAthens Greece Oslo Norway\nAthens Greece Oslo\n")
    with pytest.raises(UserError, match=r"bad.txt:3: has 3 words where an analogy needs 4"):
        read_analogies(bad)
    with pytest.raises(UserError, match="there is no such file"):
        read_analogies(tmp_path / "missing.txt")
    bad.write_bytes(b": x\n\xff\xfe a b c\n")
    with pytest.raises(UserError, match=r"bad.txt:2: is not UTF-8"):
        read_analogies(bad)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(np.random.default_rng(0).bytes(3000) + b"a b c d\n" * 100))
    packed[1500:1600] = bytes(100)
    (tmp_path / "q.txt.gz").write_bytes(packed)
    with pytest.raises(UserError, match=r"q\.txt\.gz.*cannot be read"):
        read_analogies(tmp_path / "q.txt.gz")


def test_columns_are_named_once_and_may_stand_between_commas(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("Word 1,Word 2,Human (mean)\nlove,sex,6.77\n")
    assert read_similarities(file) == [("love", "sex", 6.77)]
    file.write_text("one two score\nking queen high\n")
    with pytest.raises(UserError, match=r"pairs.csv:2: 'king queen high' is not two words and a number"):
        read_similarities(file)
    with pytest.raises(UserError, match="there is no such file"):
        read_similarities(tmp_path / "nothing.txt")


def test_the_three_words_of_a_question_are_no_answers() -> None:
    """b - a + c lies on a here, and beyond it the nearest is d."""
    matrix = np.array([[1.0, 0.0], [0.9, 0.436], [0.9, -0.436], [0.8, 0.6], [0.0, 1.0]], np.float32)
    found = evaluate_analogies(list("abcde"), matrix, {"": [("a", "b", "c", "d")]})
    assert (found.correct, found.questions) == (1, 1)
