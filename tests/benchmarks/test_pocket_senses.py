"""Pocket text: the senses of a small Backpack part the meanings of ambiguous words, by the grammar's own labels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import pocket_senses


def test_what_parted_means() -> None:
    few = pocket_senses.Parting("w", ({"a": 2, "b": 0}, {"a": 0, "b": 9}), ((), ()))
    assert few.meanings == {"b": [1]} and not few.parted
    mixed = pocket_senses.Parting("w", ({"a": 3, "b": 2}, {"a": 1, "b": 3}), ((), ()))
    assert mixed.meanings == {"b": [1]} and not mixed.parted
    assert pocket_senses.Parting("w", ({"a": 3, "b": 1}, {"a": 0, "b": 4}, {"a": 0, "b": 0}), ((), (), ())).parted


@pytest.mark.slow
def test_senses_part_the_meanings_of_four_words(tmp_path: Path) -> None:
    """That *sick* can lose one is asserted of another model (test_pocket_patch.py): which words part is chance."""
    torch.set_num_threads(2)
    model = pocket_senses.learn(tmp_path / "run", steps=pocket_senses.STEPS, seed=1)
    parted = [one.word for one in pocket_senses.partings(model) if one.parted]
    assert len(parted) >= 4, parted
