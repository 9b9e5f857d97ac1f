"""IBM Model 1 beside a twin of a few plain lines, and what its answers must always be."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.alignment.ibm1 import BACKGROUND, IBM1

PAIRS = [
    ("das Haus", "the house"),
    ("das Buch", "the book"),
    ("ein Buch", "a book"),
    ("das Haus das Buch", "the house the book"),
    ("ja", "yes indeed"),
]
SOURCE, TARGET = [a.split() for a, _ in PAIRS], [b.split() for _, b in PAIRS]


def reference(source: list[list[str]], target: list[list[str]], iterations: int) -> dict[tuple[str | None, str], float]:
    """Brown et al. 1993 as one would write it on paper."""
    table: dict[tuple[str | None, str], float] = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts: dict[tuple[str | None, str], float] = defaultdict(float)
        totals: dict[str | None, float] = defaultdict(float)
        for e_line, f_line in zip(source, target):
            for f in f_line:
                whole = sum(table[e, f] for e in [None, *e_line])
                for e in [None, *e_line]:
                    counts[e, f] += table[e, f] / whole
                    totals[e] += table[e, f] / whole
        table = {(e, f): count / totals[e] for (e, f), count in counts.items()}  # type: ignore[assignment]
    return table


words = st.lists(st.sampled_from("abcde"), max_size=5)


@given(pairs=st.lists(st.tuples(words, words), min_size=1, max_size=8), iterations=st.integers(1, 4))
def test_the_table_is_the_twins(pairs: list[tuple[list[str], list[str]]], iterations: int) -> None:
    source, target = [a for a, _ in pairs], [b for _, b in pairs]
    model = IBM1.fit(source, target, iterations=iterations)
    twin = reference(source, target, iterations)
    for (e, f), expected in twin.items():
        assert model.probability(e, f) == pytest.approx(expected, abs=1e-5)
    assert len(model.columns) == len(twin)


def test_each_source_words_row_is_a_distribution() -> None:
    model = IBM1.fit(SOURCE, TARGET)
    sums = np.add.reduceat(model.values.astype(np.float64), model.rows[:-1])
    assert np.allclose(sums, 1, atol=1e-5)


def test_posteriors_are_the_twins_and_leave_the_rest_to_null() -> None:
    model, table = IBM1.fit(SOURCE, TARGET), reference(SOURCE, TARGET, 5)
    e_line, f_line = ["das", "Buch"], ["a", "book"]
    found = model.posteriors(e_line, f_line)
    assert found.shape == (2, 2)
    for j, f in enumerate(f_line):
        whole = sum(table.get((e, f), 0.0) for e in [None, *e_line])
        for i, e in enumerate(e_line):
            assert found[j, i] == pytest.approx(table.get((e, f), 0.0) / whole, abs=1e-5)
    assert (found >= 0).all()
    assert (found.sum(axis=1) <= 1 + 1e-9).all()


def test_it_learns_who_translates_whom() -> None:
    model = IBM1.fit(SOURCE, TARGET, iterations=20)
    assert model.align(["das", "Buch"], ["the", "book"]) == [(0, 0), (1, 1)]
    assert model.align(["Buch", "das"], ["the", "book"]) == [(1, 0), (0, 1)]


def test_words_never_seen_and_empty_lines_are_nulls() -> None:
    model = IBM1.fit(SOURCE, TARGET)
    assert model.posteriors(["Katze"], ["the", "cat"]).tolist() == [[0.0], [0.0]]
    assert model.align(["Katze"], ["cat"]) == []
    assert model.posteriors([], ["the"]).shape == (1, 0)
    assert model.align([], ["the"]) == []
    assert model.align(["das"], []) == []
    assert np.isfinite(model.score([["Katze"], [], ["das"]], [["cat"], ["the"], []])).all()


def test_the_score_is_the_smoothed_mean_log_probability() -> None:
    model, table = IBM1.fit(SOURCE, TARGET), reference(SOURCE, TARGET, 5)
    number = sum(len(line) for line in TARGET)
    kinds = len({word for line in TARGET for word in line})
    e_line, f_line = ["ein", "Haus"], ["a", "house", "cat"]
    expected = 0.0
    for f in f_line:
        frequency = (sum(line.count(f) for line in TARGET) + 1) / (number + kinds + 1)
        chance = sum(table.get((e, f), 0.0) for e in [None, *e_line]) / (len(e_line) + 1)
        expected += math.log((1 - BACKGROUND) * chance + BACKGROUND * frequency) / len(f_line)
    assert model.score([e_line], [f_line])[0] == pytest.approx(expected, abs=1e-4)


def test_a_pairs_own_partner_scores_above_strangers() -> None:
    model = IBM1.fit(SOURCE, TARGET)
    from_, into = model.encode(SOURCE, TARGET)
    index = np.arange(len(SOURCE))
    own = model.score_encoded(from_, into, index, index, relative=True)
    strange = model.score_encoded(from_, into, index, np.roll(index, 2), relative=True)
    assert own.mean() > strange.mean()


def test_the_same_text_gives_the_same_numbers() -> None:
    one, two = IBM1.fit(SOURCE, TARGET), IBM1.fit(SOURCE, TARGET)
    assert one.values.tobytes() == two.values.tobytes()


def test_sides_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="5 source lines but 4"):
        IBM1.fit(SOURCE, TARGET[:4])
