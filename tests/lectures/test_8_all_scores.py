"""Lecture 8: every score on one recall task. Learned numbers: floors and order are asserted, not digits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.lectures import all_scores as lecture
from anaphora.nn.attention_backends import NORMALIZERS
from anaphora.nn.scores import SCORES

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
    assert {changes["model.score"] for changes in lecture.VARIANTS.values()} == set(lecture.PUBLISHED) <= set(SCORES)
    assert {changes.get("model.normalizer", "softmax") for changes in lecture.VARIANTS.values()} == set(NORMALIZERS)


def test_the_walk_is_made_of_what_was_trained() -> None:
    """Two updates teach nothing; the tables are there, and nothing else was touched."""
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    (walk,) = lecture.all_scores(steps=2, texts=400)
    assert walk.holds, walk.checks
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


def test_the_looks_are_the_questions_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without positions, pairs in another order are looked at as before; the row of a pair would move with it."""
    files = lecture.write_recall(tmp_path, 2000, seed=1)
    with lecture.one_thread(), torch.random.fork_rng():
        model, source, _ = lecture.learn("scaled-dot", tmp_path / "run", files, steps=2, rate=lecture.RATE, seed=1)
    (encoder, decoder), gap = lecture.question_looks(model, source)
    assert gap < 1e-5
    assert min(abs(a - b) for a, b in pairwise(encoder)) > 1e-3  # told apart
    monkeypatch.setattr(lecture, "EXAMPLE", "e9 c1 b7 a3 ?b")
    rotated, _ = lecture.question_looks(model, source)
    for before, after in zip((encoder, decoder), rotated):
        assert after == pytest.approx([before[3], *before[:3], before[4]], abs=1e-6)


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


def small(benchmark: str, out: Path) -> Any:
    """The last line of a benchmark's quick run."""
    command = [sys.executable, ROOT / "benchmarks" / benchmark, "--small", "--jobs", "1", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path: Path) -> None:
    result = small("scores.py", tmp_path / "s.json")
    assert set(lecture.PUBLISHED) <= set(result["table"])
    assert json.loads((tmp_path / "s.json").read_text())["table"] == result["table"]


@pytest.mark.slow
def test_the_benchmark_of_starts_runs_and_moves_the_start(tmp_path: Path) -> None:
    runs = small("scores_start.py", tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text()) == runs
    drawn, moved = (run for run in runs if run["score"] == "dot")
    assert (drawn["factor"], drawn["rate"], drawn["seed"]) == (1, moved["rate"], moved["seed"])
    assert drawn["follows"] != moved["follows"]  # fifty updates from another start
    assert {run["score"] for run in runs} == {"dot", "scaled-dot"}


@pytest.mark.slow
def test_the_page(page_shows: Any) -> None:
    page_shows("8-all-scores.md", tolerance=0.2)
