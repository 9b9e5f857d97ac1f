"""Topic control is judged by words that the patch never saw, and the row 1 is the model as it is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

import anaphora
from anaphora.pipelines.text_model import TextModel
from neural_folders import neural_folder
from ngram_folders import VERSE

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import topics


def test_the_words_that_judge_are_not_those_that_are_given() -> None:
    for words in topics.TOPICS.values():
        given, held = topics.halves(words)
        assert not set(given) & set(held)
        assert {*given, *held} == set(words.split())
        assert len(held) >= 6
    assert topics.holds("The Ship sank.", ["boat", "ship"])
    assert not topics.holds("Shipping and a warship.", ["ship"])


def test_a_row_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = anaphora.load(neural_folder(tmp_path / "backpack", "backpack", senses=4), "cpu")
    assert isinstance(model, TextModel)
    words = list(dict.fromkeys(word for line in VERSE for word in line.split() if word.isalpha()))[:6]
    monkeypatch.setitem(topics.TOPICS, "sea", " ".join(words))
    asked = argparse.Namespace(prompts=[words[0], words[1]], samples=3, tokens=5, seed=1, fade=0.5)
    plain = topics.measured(model, "1", "sea", VERSE[:4], asked)
    assert (plain["kl"], plain["perplexity_change"], plain["samples"]) == (0.0, 0.0, 6)
    strong = topics.measured(model, "3.3,3.3,3,1", "sea", VERSE[:4], asked)
    assert strong["kl"] > 0
    assert strong["fluency"] > 1
    assert 0 <= strong["success"] <= 1
