"""Shifted sides are found wherever they begin; sides that belong together are never accused."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from anaphora.checking.shift import MIN_LINES, Stretch, find_shifts, propose, words_of
from anaphora.data.formats import read_column
from anaphora.pocket.splits import generate

Side = list[str]


@pytest.fixture(scope="module")
def pocket() -> tuple[Side, Side]:
    pairs = generate("train", 3000, 1)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def told(source: Side, target: Side) -> list[tuple[int, int, int | None]]:
    return [(s.first, s.last, s.offset) for s in find_shifts(source, target).stretches if s.offset != 0]


def test_sides_that_belong_together_are_not_accused(pocket: tuple[Side, Side]) -> None:
    source, target = pocket
    assert find_shifts(source, target).stretches == [Stretch(1, 3000, 0)]
    assert told(target, source) == []
    assert told(source[:MIN_LINES], target[:MIN_LINES]) == []


MORE = pytest.mark.slow


@pytest.mark.parametrize("k", [0, 150, 2850, *(pytest.param(k, marks=MORE) for k in (7, 1500, 2700))])
def test_a_line_lost_in_the_target(pocket: tuple[Side, Side], k: int) -> None:
    source, target = pocket
    ((first, last, offset),) = told(source, target[:k] + target[k + 1 :])
    assert abs(first - (k + 1)) <= 5
    assert (last, offset) == (2999, -1)


@pytest.mark.parametrize("k", [3, 1000, 2800])
def test_a_line_too_many_in_the_target_whose_end_is_cut(pocket: tuple[Side, Side], k: int) -> None:
    source, target = pocket
    ((first, last, offset),) = told(source, [*target[:k], target[0], *target[k:]][:3000])
    assert abs(first - (k + 1)) <= 5
    assert (last, offset) == (3000, 1)


@pytest.mark.parametrize("k", [40, 2000])
def test_lines_lost_in_the_source(pocket: tuple[Side, Side], k: int) -> None:
    source, target = pocket
    ((first, _, offset),) = told(source[:k] + source[k + 12 :], target)
    assert abs(first - (k + 1)) <= 5
    assert offset == 12  # farther than the offsets that are always tried: the lengths propose it


def test_a_second_slip_repairs_the_first(pocket: tuple[Side, Side]) -> None:
    source, target = pocket
    ((first, last, offset),) = told(source, target[:800] + target[801:1600] + ["Ja."] + target[1600:])
    assert abs(first - 801) <= 5
    assert abs(last - 1600) <= 5
    assert offset == -1


def test_shuffled_sides_do_not_belong_together(pocket: tuple[Side, Side]) -> None:
    source, target = pocket
    shuffled = random.Random(1).sample(target, len(target))
    assert told(source, shuffled) == [(1, 3000, None)]
    ((first, last, offset),) = told(source, target[:1000] + shuffled[1000:2000] + target[2000:])
    assert offset is None
    assert abs(first - 1001) <= 10
    assert abs(last - 2000) <= 10


def test_blocks_of_a_large_corpus_find_the_line_too(pocket: tuple[Side, Side]) -> None:
    source, target = pocket
    found = find_shifts(source, target[:1234] + target[1235:], dense=640).stretches
    assert [s.offset for s in found] == [0, -1]
    assert abs(found[1].first - 1235) <= 10


def test_few_lines_and_short_sides_say_nothing() -> None:
    assert find_shifts([], []).stretches == []
    assert find_shifts(["a"] * 50, ["b"] * 49).stretches == []
    for a, b in (("a", "b"), ("a b c", "x y z"), ("", "")):  # lines that are all alike belong anywhere
        assert [s for s in find_shifts([a] * 500, [b] * 500).stretches if s.offset != 0] == []


def test_lengths_alone_propose_far_offsets() -> None:
    random = np.random.default_rng(1)
    ripples = random.normal(size=3000)
    offsets, guess = propose(ripples, np.concatenate([ripples[150:], ripples[:150]]))
    assert -150 in offsets
    assert np.median(guess) == -150


def test_words_of_scripts_without_spaces_are_characters() -> None:
    assert words_of("日本語 ABC") == ["日", "本", "語", "abc"]


@pytest.mark.parametrize("k", [pytest.param(30, marks=MORE), 28_400])
def test_multi30k(multi30k: dict[str, list[str]], k: int) -> None:
    german, english = (list(read_column(multi30k[side], side, Counter())) for side in ("source", "target"))
    ((first, _, offset),) = told(german, [*english[:k], "A man.", *english[k:]])
    assert abs(first - (k + 1)) <= 50
    assert offset == 1


@pytest.mark.slow
@pytest.mark.parametrize("k", range(0, 28_900, 1700))
def test_multi30k_anywhere(multi30k: dict[str, list[str]], k: int) -> None:
    german, english = (list(read_column(multi30k[side], side, Counter())) for side in ("source", "target"))
    ((first, _, offset),) = told(german[:k] + german[k + 1 :], english)
    assert abs(first - (k + 1)) <= 50
    assert offset == 1


def test_multi30k_as_it_is(multi30k: dict[str, list[str]]) -> None:
    german, english = (list(read_column(multi30k[side], side, Counter())) for side in ("source", "target"))
    assert told(german, english) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        ("multi30k/train.en.gz", "multi30k/train.fr.gz"),
        ("multi30k/train.en.gz", "multi30k/train.de.gz"),
        ("tatoeba-de-en/train.de.xz", "tatoeba-de-en/train.en.xz"),
        ("small_parallel_enja/train.en.xz", "small_parallel_enja/train.ja.xz"),
        ("iwslt14-de-en/train_lowres.de.xz", "iwslt14-de-en/train_lowres.en.xz"),
    ],
)
def test_no_alarm_on_real_text(multi30k: dict[str, list[str]], files: tuple[str, str]) -> None:
    data = Path(multi30k["source"][0]).parents[1]
    if not all((data / file).exists() for file in files):
        pytest.skip(f"{files[0]} is not in {data}")
    assert told(*(list(read_column([str(data / file)], "text", Counter())) for file in files)) == []


@pytest.mark.parametrize("k", [300, 1500])
@pytest.mark.parametrize("even", [True, False])
def test_many_lines_lost(pocket: tuple[Side, Side], k: int, even: bool) -> None:
    """More than any window looks for: the whole file, or the numbers of lines, say by how many."""
    source, target = pocket
    lost = target[:k] + target[k + 400 :] + (target[-400:] if even else [])
    found = [s for s in find_shifts(source, lost).stretches if s.offset != 0]
    assert -400 in [s.offset for s in found]
    assert abs(found[0].first - (k + 1)) <= 50


def test_strangers_in_the_same_rhythm(multi30k: dict[str, list[str]]) -> None:
    """In Multi30k short and long lines alternate, so that lengths agree even where nothing else does."""
    german, english = (list(read_column(multi30k[side], side, Counter())) for side in ("source", "target"))
    assert told(german[:6000], english[8000:14000]) == [(1, 6000, None)]
