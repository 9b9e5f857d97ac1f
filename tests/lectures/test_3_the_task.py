"""Lecture 3: all As → A, any B → B. What is learned, what is set by hand, how far it goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.explain.trace_parts import Step, Walk
from anaphora.lectures import EXAMPLES
from anaphora.lectures import the_task as lecture

PAGES = Path(__file__).parents[2] / "docs" / "lectures"
LENGTHS = np.array(lecture.LENGTHS)
KNOWN, BEYOND = LENGTHS <= lecture.LONGEST, LENGTHS > lecture.LONGEST


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {walk.name: walk for walk in lecture.the_task()}


def row(step: Step, name: str) -> np.ndarray:
    return step.values[list(step.rows).index(name)]


# The texts ------------------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(sizes=st.lists(st.integers(1, 12), min_size=2, max_size=20), seed=st.integers(0, 99))
def test_half_of_the_texts_have_one_to_three_bs(sizes: list[int], seed: int) -> None:
    letters, answers = lecture.texts(len(sizes), torch.tensor(sizes), torch.Generator().manual_seed(seed))
    assert answers.sum() == len(sizes) // 2
    for text, answer, size in zip(letters, answers, sizes):
        assert not text[size:].any()  # padding is no B
        assert text.sum() == 0 if answer == 0 else 1 <= text.sum() <= min(3, size)


def test_the_bs_stand_anywhere() -> None:
    letters, _ = lecture.texts(400, torch.full((400,), 5), torch.Generator().manual_seed(0))
    assert (letters.sum(dim=0) > 40).all()


# By hand --------------------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=30))
def test_networks_set_by_hand_count(text: list[int]) -> None:
    x = F.one_hot(torch.tensor([text]), 2).double()
    lengths = torch.tensor([len(text)])
    counts = x.cumsum(dim=1)
    assert torch.equal(lecture.adding("A", "B")(x, lengths), counts)
    assert torch.equal(lecture.adding("B")(x, lengths), counts * torch.tensor([0.0, 1.0]))
    said = lecture.by_hand(torch.tensor([text]), lengths).argmax()
    assert said == int(1 in text)


def test_by_hand_one_b_among_ten_thousand_is_not_forgotten() -> None:
    letters = torch.zeros(2, 10_000, dtype=torch.long)
    letters[1, 0] = 1
    assert lecture.by_hand(letters, torch.tensor([10_000] * 2)).argmax(dim=-1).tolist() == [0, 1]


def test_the_walk_by_hand(walks: dict[str, Walk]) -> None:
    every, only = (step for step in walks["by-hand"].steps if step.symbol == "h")
    assert every.values.tolist() == [[1, 0], [2, 0], [2, 1], [3, 1]]
    assert only.values.tolist() == [[0, 0], [0, 0], [0, 1], [0, 1]]


# Learned --------------------------------------------------------------------------------------------------------------


def test_within_the_training_length_all_but_the_window_learn_it(walks: dict[str, Walk]) -> None:
    worst = walks["learned"].step("worst")
    for name in ("averaging", "recurrent", "gated (GRU)", "attention", "set by hand"):
        assert (row(worst, name)[KNOWN] == 1).all(), name


def test_averaging_fails_beyond_it_on_a_single_b(walks: dict[str, Walk]) -> None:
    assert (row(walks["learned"].step("one"), "averaging")[BEYOND] == 0.5).all()
    assert row(walks["learned"].step("few"), "averaging")[-1] == 0.5


def test_the_window_finds_what_stands_in_it(walks: dict[str, Walk]) -> None:
    found = np.minimum(3 / LENGTHS, 1)  # the B is among the last three
    np.testing.assert_allclose(row(walks["learned"].step("one"), "window of 3"), (1 + found) / 2)


def test_the_plain_recurrent_one_keeps_it_and_the_gated_one_forgets(walks: dict[str, Walk]) -> None:
    assert (row(walks["learned"].step("worst"), "recurrent") == 1).all()
    assert row(walks["learned"].step("one"), "gated (GRU)")[-1] < 0.7
    back = walks["learned"].step("back")
    assert (row(back, "recurrent") == LENGTHS[-1]).all()
    assert (row(back, "window of 3") == 3).all()
    assert all(lecture.LONGEST < letters < 40 for letters in row(back, "gated (GRU)"))


def test_the_state_of_the_plain_one_stays_where_a_b_has_put_it() -> None:
    reader = lecture.learn(lecture.ENCODERS["recurrent"], 0)
    letters = torch.zeros(1, 129, dtype=torch.long)
    letters[0, 0] = 1
    states = reader.encoder(reader.embedding(letters), torch.tensor([129]))[0]
    assert (states[128] - states[8]).abs().max() < 0.005
    assert states[128].abs().max() > 0.8


def test_attention_holds_in_two_of_three_seeds(walks: dict[str, Walk]) -> None:
    assert row(walks["learned"].step("one"), "attention")[-1] == pytest.approx(5 / 6, abs=0.01)
    assert row(walks["learned"].step("worst"), "attention")[-1] == pytest.approx(1 / 2, abs=0.01)


def test_the_trained_attention_finds_the_bs(walks: dict[str, Walk]) -> None:
    walk = walks["looking"]
    weights = walk.step("A").values
    assert weights[2, 2] > 0.95  # the B itself
    assert weights[3, 2] > 0.99  # the A after it
    assert weights[1].tolist() == pytest.approx([0.5, 0.5, 0, 0])  # no B yet
    assert walk.step("P").values.round().tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    weight = walks["found"].step("weight").values
    assert (weight[:, LENGTHS == lecture.LONGEST] > 0.7).all()
    assert (np.diff(weight, axis=1) < 0).all()  # a soft look: every further A takes a little


def test_every_check_holds(walks: dict[str, Walk]) -> None:
    for walk in walks.values():
        assert walk.holds, walk.checks
    assert sum(len(walk.checks) for walk in walks.values()) >= 7


def test_a_seed_decides_everything_and_leaves_the_world_alone() -> None:
    make = lecture.ENCODERS["attention"]
    before = torch.get_rng_state()
    first, again, other = (lecture.learn(make, seed, updates=3) for seed in (5, 5, 6))
    assert torch.equal(before, torch.get_rng_state())
    for a, b in zip(first.parameters(), again.parameters()):
        assert torch.equal(a, b)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters()))


def test_the_page(page_shows: Any, walks: dict[str, Walk], monkeypatch: pytest.MonkeyPatch) -> None:
    once = replace(EXAMPLES["the-task"], make=lambda: list(walks.values()))  # not learned a second time
    monkeypatch.setitem(EXAMPLES, "the-task", once)
    page_shows("3-the-task.md", tolerance=0.02)


@pytest.mark.slow
def test_twenty_seeds() -> None:
    """The page's second table: how many of twenty readers are right about every text with at most one B. Another
    machine rounds otherwise, which may decide for one reader."""
    page = (PAGES / "3-the-task.md").read_text(encoding="utf-8")
    head, _, *lines = page[page.index("| reader | 2 |") :].split("\n\n", 1)[0].splitlines()
    table = {cells[0]: [int(cell) for cell in cells[1:]] for cells in map(cells_of, lines)}
    assert cells_of(head)[1:] == [str(length) for length in lecture.LENGTHS]
    assert set(table) == set(lecture.ENCODERS)
    for name, make in lecture.ENCODERS.items():
        readers = [lecture.learn(make, seed) for seed in range(20)]
        held = [sum(lecture.accuracy_one_b(reader, n) == 1 for reader in readers) for n in lecture.LENGTHS]
        assert held == pytest.approx(table[name], abs=1), name


def cells_of(line: str) -> list[str]:
    """Of one line of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]
