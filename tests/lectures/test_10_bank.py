"""Lecture 10: which layer knows the sense of a word."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from anaphora.lectures import bank as lecture

ROOT = Path(__file__).parents[2]


def test_uses_are_the_words_whose_sense_the_grammar_knows() -> None:
    pairs = lecture.ambiguous("train", 100, seed=1)
    uses = lecture.pocket_uses(pairs)
    assert len(uses) >= len(pairs) == 100
    for use in uses:
        assert lecture.pocket.words(use.text)[use.index].lower() == use.word
    assert {use.sense for use in uses if use.word == "bank"} == {"bank.money", "bank.shore"}


def told(lines: list[str], layer: int) -> list[Any]:
    """Vectors by hand: at layer 0 every word has the same one, at layer 1 it is the length of the line."""
    return [
        SimpleNamespace(
            words=[SimpleNamespace(text=word) for word in line.split()],
            vectors=np.array([[1.0 if layer == 0 else len(line.split())] for _ in line.split()]),
        )
        for line in lines
    ]


def test_layers_are_asked_one_by_one() -> None:
    train = [lecture.Use("bank", "shore", 1, "the bank"), lecture.Use("bank", "money", 2, "in the bank here now")]
    train.append(lecture.Use("bank", "money", 0, "bank on me now please"))
    train.append(lecture.Use("seal", "animal", 0, "seal"))  # one sense: nothing to tell apart
    test = [lecture.Use("bank", "shore", 0, "bank bank"), lecture.Use("bank", "money", 0, "bank a b c d")]
    found = lecture.by_layer(told, 1, train, [*test, lecture.Use("seal", "animal", 0, "seal")])
    assert list(found) == ["bank"]
    assert [one.macro for one in found["bank"]] == [0.5, 1.0]
    assert lecture.always_commonest(train, test, "bank").accuracy == found["bank"][0].accuracy
    with pytest.raises(ValueError, match="is 'the', not 'bank'"):
        lecture.use_vectors(told, [lecture.Use("bank", "shore", 0, "the bank")], 0)


def test_the_walk_is_made_of_what_was_trained() -> None:
    """Two updates; the table of word vectors cannot tell senses apart, whatever was learned."""
    before = torch.get_rng_state()
    (walk,) = lecture.bank(steps=2, sentences=250, test=60)
    assert walk.holds, walk.checks
    one, every = walk.steps
    for step in (one, every):
        assert step.rows == ["the commonest", "lstm", "transformer-encoder"]
        assert step.values[:, 0].tolist() == [step.values[0, 0]] * 3
    assert one.values[0, 0] == 50
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_layers_above_the_table_know_the_sense() -> None:
    """What context does, not what learning does: readers of two updates pass it too (59 and 74 % over all words, where
    those of the page have 56 and 62). It fails where a vector is not that of its word in its sentence."""
    (walk,) = lecture.bank()
    one, every = walk.steps
    assert (every.values[1:, 1:] > every.values[0, 0] + 3).all()  # both readers, both layers
    assert every.values[2, 1:].max() > every.values[1, 1:].max()  # who reads both ways knows more
    assert one.values[2, 1:].max() > 70


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path: Path) -> None:
    (tmp_path / "wsd").mkdir()
    sides = {"shore": "the river flooded the muddy bank", "money": "the thief robbed a bank of much money"}
    for part, number in (("train", 60), ("test", 10)):
        lines = [f"{sense}\t{text.split().index('bank')}\t{text}\n" for sense, text in sides.items()] * number
        (tmp_path / "wsd" / f"bank.{part}.tsv.gz").write_bytes(gzip.compress("".join(lines).encode()))
    command = [sys.executable, ROOT / "benchmarks" / "bank.py", "--data", tmp_path / "wsd", "--steps", "2"]
    command += ["--picture", tmp_path / "b.png", "tokenizer.minimum_count=1", "data.hold_out=0", "model.heads=2"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    own = [row[0] for row in result["found"]["lstm"]["bank"]]  # the table, then two layers
    assert own == pytest.approx([0.5, 1, 1])  # there are two lines only
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
