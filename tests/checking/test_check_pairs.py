"""Repeated, leaked, lopsided, over-long pairs, and lines in the wrong language."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.checking import coverage, pairs
from anaphora.checking import language_guess as language
from anaphora.pocket.splits import generate

lines = st.lists(st.sampled_from(["a", "b", "", "c d", "ä"]), max_size=30)


@given(both=st.lists(st.tuples(st.sampled_from("ab "), st.sampled_from("xy ")), max_size=40))
def test_duplicates_are_those_that_a_set_would_find(both: list[tuple[str, str]]) -> None:
    seen: dict[tuple[str, str], int] = {}
    expected = []
    for number, pair in enumerate(both):
        if pair in seen and (pair[0].strip() or pair[1].strip()):
            expected.append((number, seen[pair]))
        seen.setdefault(pair, number)
    again, first = pairs.duplicates([a for a, _ in both], [b for _, b in both])
    assert list(zip(again.tolist(), first.tolist())) == expected


def test_leaks_do_not_mind_case_and_punctuation_and_tell_pairs_from_sides() -> None:
    train = {
        "source": ["The dog runs.", "A cat sleeps", "Good day!", "", "New words"],
        "target": ["Der Hund läuft.", "Eine Katze schläft", "Guten Tag!", "", "Neue Wörter"],
    }
    test = {
        "source": ["the  dog runs", "A cat sleeps.", "Hello", "", "?"],
        "target": ["der hund LÄUFT!", "Die Katze", "guten tag", "", "?"],
    }
    training = pairs.Leaks(train)
    found = pairs.Leaks(test).within(training)
    assert [(leak.line, leak.other, leak.which) for leak in found if leak.line < 3] == [
        (0, 0, "pair"),
        (1, 1, "source"),
        (2, 2, "target"),
    ]
    assert 4 not in {leak.line for leak in found}
    assert 3 not in {leak.line for leak in found}  # an empty pair is no leak
    for side, lines in (("source", [0, 1]), ("target", [0, 2])):  # one side alone
        alone = pairs.Leaks({side: test[side]})
        assert [(leak.line, leak.which) for leak in alone.within(training)] == [(line, side) for line in lines]
        assert [leak.line for leak in alone.within(pairs.Leaks({side: train[side]}))] == lines
        other = "target" if side == "source" else "source"
        assert alone.within(pairs.Leaks({other: train[other]})) == []


@given(st.text())
def test_the_normal_form_is_stable(text: str) -> None:
    assert pairs.normal(pairs.normal(text)) == pairs.normal(text)


def test_lopsided_pairs_are_odd_and_usual_ones_are_not() -> None:
    random = np.random.default_rng(1)
    source = random.integers(20, 120, size=1000)
    target = np.maximum(1, (1.2 * source + random.normal(scale=3, size=1000) * np.sqrt(source) / 3)).astype(int)
    usual = pairs.Ratios.of(source, target)
    assert usual is not None
    assert usual.c == pytest.approx(1.2, abs=0.05)
    assert usual.odd(source, target).tolist() == []
    target[17], source[40], target[40] = 2 * target.max() + 300, 4, 150
    assert usual.odd(source, target).tolist() == [17, 40]
    assert pairs.Ratios.of(source[:10], target[:10]) is None


def test_over_long_lines() -> None:
    found = dict(pairs.too_long(["word " * 300, "short", "x" * 1_200_000, "日" * 200, "w" * 500], 256))
    assert set(found) == {0, 2}
    assert found[0] == 300
    assert found[2] == pairs.HUGE_LINE_BYTES
    assert dict(pairs.too_long(["word " * 30], 20)) == {0: 30}


def test_another_script() -> None:
    side = ["The dog runs fast."] * 40 + ["Привет мир, как дела", "OK Привет", "日本語の文章です", "123 !?"]
    counts = language.script_counts(side)
    found = language.wrong_script(counts, language.usual_scripts(counts))
    assert found == {40: "Cyrillic", 41: "Cyrillic", 42: "Han and kana"}
    kanji = ["漢字かな交じり文"] * 40
    counts = language.script_counts([*kanji, "Windows XP", "this is an English sentence"])
    assert language.wrong_script(counts, language.usual_scripts(counts)) == {41: "Latin"}
    mixed = language.script_counts([*kanji, *["all of it in Latin letters"] * 10])
    assert language.wrong_script(mixed, language.usual_scripts(mixed)) == {}


def test_the_other_sides_language() -> None:
    both = generate("train", 2000, 1)
    source, target = [pair.source for pair in both], [pair.target for pair in both]
    clean = language.Profiles.of(source, target)
    assert clean.foreign(source, 0) == []
    assert clean.foreign(target, 1) == []
    target[100], source[200], target[300] = source[700], target[800], "Maria Maria"
    profiles = language.Profiles.of(source, target)
    assert profiles.foreign(target, 1) == [100]
    assert profiles.foreign(source, 0) == [200]
    few = language.Profiles.of(source[:50], target[:50])
    assert few.foreign(source[:50], 0) == []


def test_unknown_words() -> None:
    seen = coverage.count_words(["the dog", "the cat"], range(2))
    other = coverage.count_words(["the bird sees the dog"], range(1))
    found = coverage.unknown(seen, other, vocabulary=1)
    assert found["unknown_tokens"] == pytest.approx(2 / 5)
    assert found["unknown_types"] == pytest.approx(2 / 4)
    assert found["unk_tokens"] == pytest.approx(3 / 5)  # only "the" is in a vocabulary of one
    assert coverage.unknown(seen, coverage.count_words([], []))["unknown_tokens"] == 0


def test_held_out_lines_are_about_one_in_twenty() -> None:
    learned, held = coverage.split([f"line {n}" for n in range(4000)])
    assert sorted(learned + held) == list(range(4000))
    assert 120 < len(held) < 280
