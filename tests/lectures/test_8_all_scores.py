"""Lecture 8: every score on one recall task. Learned numbers: floors and order are asserted, not digits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.inspect.lectures import all_scores as lecture
from anaphora.layers.backends import NORMALISERS
from anaphora.layers.scores import SCORES

ROOT = Path(__file__).parents[2]


def test_a_text_holds_its_answer() -> None:
    for text, answer in lecture.recall_lines(200, range(1, 17), seed=4):
        *pairs, question = text.split()
        letters = [pair[0] for pair in pairs]
        assert len(set(letters)) == len(letters)  # nobody has two answers
        assert dict(pairs)[question[1]] == answer
    lengths = {len(text.split()) - 1 for text, _ in lecture.recall_lines(500, lecture.TRAINED, seed=1)}
    assert lengths == set(lecture.TRAINED)
    assert lecture.recall_lines(5, [3], seed=1) == lecture.recall_lines(5, [3], seed=1)
    assert lecture.recall_lines(5, [3], seed=1) != lecture.recall_lines(5, [3], seed=2)


def test_every_score_and_both_normalisers_take_part() -> None:
    assert {changes["model.score"] for changes in lecture.VARIANTS.values()} == set(SCORES)
    assert {changes.get("model.normaliser", "softmax") for changes in lecture.VARIANTS.values()} == set(NORMALISERS)


def test_the_walk_is_made_of_what_was_trained() -> None:
    """Two updates teach nothing; the tables are there, and nothing else was touched."""
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    (walk,) = lecture.all_scores(steps=2, texts=400)
    assert walk.step("accuracy").values.shape == (5, 6)
    assert walk.step("accuracy").values.max() < 50
    encoder, decoder = (step for step in walk.steps if step.symbol == "looks")
    for step in (encoder, decoder):
        assert step.columns == lecture.EXAMPLE.split()
        soft = step.values[:4]
        assert (soft >= 0).all()
        assert (soft.sum(axis=1) <= 1 + 1e-6).all()  # the rest is on the end mark
    assert (encoder.values[4] < 0).any()  # linear attention has no shares
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def learned(variant: str, folder: Path) -> list[float]:
    """Accuracy at 1, 8 and 16 pairs, after as many updates as the walk makes."""
    files = lecture.write_recall(folder, lecture.TEXTS, seed=1)
    with lecture.one_thread(), torch.random.fork_rng():
        model, source, target = lecture.learn(
            variant, folder / "run", files, steps=lecture.STEPS, rate=lecture.RATE, seed=1
        )
        return [
            lecture.accuracy(model, source, target, lecture.recall_lines(300, [pairs], 1000 + pairs))
            for pairs in (1, 8, 16)
        ]


def test_softmax_learns_it_and_linear_attention_falls_behind(tmp_path: Path) -> None:
    (tmp_path / "soft").mkdir()
    (tmp_path / "linear").mkdir()
    soft, linear = learned("scaled-dot", tmp_path / "soft"), learned("linear", tmp_path / "linear")
    assert min(soft[:2]) > 0.9
    assert linear[0] > 0.9  # one pair needs no softmax
    assert soft[2] - linear[2] > 0.2  # sixteen do


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path: Path) -> None:
    command = [
        sys.executable,
        ROOT / "benchmarks" / "scores.py",
        "--small",
        "--jobs",
        "1",
        "--out",
        tmp_path / "s.json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(SCORES) <= set(result["table"])
    assert json.loads((tmp_path / "s.json").read_text())["table"] == result["table"]


@pytest.mark.slow
def test_the_page(page_shows: Any) -> None:
    page_shows("8-all-scores.md", tolerance=0.2)
