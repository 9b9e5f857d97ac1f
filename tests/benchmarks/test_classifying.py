"""All encoders are interchangeable as classifiers: what each can and cannot tell apart, learned from --labels."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import classifying

from anaphora.models.registry import kinds

WSD = Path(os.environ.get("ANAPHORA_DATA") or Path(__file__).parents[3] / "shared" / "data") / "wsd"
READS_ALL = ("rnn", "gru", "lstm", "transformer-decoder", "transformer-encoder")
"""Whose last vector has seen every letter and where it stood."""


def test_the_tasks() -> None:
    for text, label in classifying.any_b(200, seed=3):
        assert label == ("B" if "B" in text else "A")
        assert 1 <= len(text.split()) <= 8
    assert Counter(label for _, label in classifying.any_b(200, seed=3)) == {"A": 100, "B": 100}
    for text, label in classifying.first(200, seed=3):
        letters = text.split()
        assert letters[0] == label
        assert letters.count("A") == letters.count("B")
    assert classifying.first(9, seed=3) == classifying.first(9, seed=3) != classifying.first(9, seed=4)


def learned(kind: str, task: str, folder: Path, **more: object) -> float:
    """Accuracy after so many updates of a tiny model."""
    make = {"any-b": classifying.any_b, "first": classifying.first}[task]
    few = {"training.max_steps": 150, "training.learning_rate": 1e-2, "data.hold_out": 0, "training.average": 1}
    settings = {**classifying.LETTERS, **few, "model.dim": 16, "model.dropout": 0.0, **more}
    if kind.startswith("transformer"):
        settings |= {"model.layers": 1, "model.heads": 2, "model.feed_forward": 32}
    else:
        settings |= {} if kind == "conv" else {"model.hidden": 16}
    return classifying.one(kind, folder, make(800, 1), make(300, 2), settings)["accuracy"]


@pytest.mark.parametrize("kind", sorted({*kinds("language")} - {"backpack"}))  # which is no classifier
def test_whether_there_is_a_b(kind: str, tmp_path: Path) -> None:
    """Every encoder learns it; of the window and the convolution, all places are asked, since none sees all letters."""
    more = {"model.pool": "max"} if kind in ("window", "conv") else {}
    assert learned(kind, "any-b", tmp_path, **more) > 0.95


def test_a_window_misses_what_stands_before_it(tmp_path: Path) -> None:
    found = learned("window", "any-b", tmp_path, **{"model.window": 3})  # ⟨/s⟩ and two letters
    assert 0.6 < found < 0.9


@pytest.mark.parametrize("kind", ["dan", "lstm"])
def test_which_letter_came_first(kind: str, tmp_path: Path) -> None:
    """An average does not know; who reads in order does."""
    found = learned(kind, "first", tmp_path)
    if kind == "dan":
        assert 0.35 < found < 0.65
    else:
        assert found > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("kind", READS_ALL)
def test_everyone_who_reads_all_knows_which_came_first(kind: str, tmp_path: Path) -> None:
    found = classifying.one(kind, tmp_path, classifying.first(2000, 1), classifying.first(500, 2), classifying.LETTERS)
    assert found["accuracy"] > 0.95


@pytest.mark.slow
def test_senses_of_club(tmp_path: Path) -> None:
    """Three senses; the commonest is right about half of the sentences."""
    if not WSD.is_dir():
        pytest.skip(f"CoarseWSD-20 is not in {WSD} (set ANAPHORA_DATA to the folder that holds wsd/)")
    train, test = (classifying.senses(WSD, "club", part) for part in ("train", "test"))
    common = Counter(label for _, label in train).most_common(1)[0][0]
    settings = {**classifying.SENTENCES, "training.epochs": 15}
    found = classifying.one("dan", tmp_path, train, test, settings)
    assert found["accuracy"] > sum(label == common for _, label in test) / len(test) + 0.1


def test_both_ways_can_be_asked_for_where_there_are_labels(tmp_path: Path) -> None:
    """And only there: a language model would see the words it is to guess."""
    import anaphora
    from anaphora.errors import UserError

    few = {"training.max_steps": 2, "model.bidirectional": True, "data.hold_out": 0}
    classifying.one("gru", tmp_path, classifying.any_b(60, 1), classifying.any_b(9, 2), {**classifying.LETTERS, **few})
    with pytest.raises(UserError, match="bidirectional"):
        anaphora.train(tmp_path / "lm", text=tmp_path / "train.txt", recipe="gru", settings=few, device="cpu")
