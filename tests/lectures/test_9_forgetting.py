"""Lecture 9: a name asked for at growing distance. The stories, the gradient, and who can learn what."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.lectures import forgetting as lecture
from anaphora.models import build_language_model
from anaphora.models import settings as model_settings
from anaphora.models.registry import kinds

ROOT = Path(__file__).parents[2]


@settings(max_examples=60)
@given(st.integers(2, 40), st.integers(0, 999))
def test_the_name_is_as_far_back_as_was_asked(sentences: int, seed: int) -> None:
    distance = 4 * sentences
    text, answer = lecture.story(distance, random.Random(seed))
    tokens = [*text.split(), "</s>"]
    assert tokens[-distance] == answer
    assert [token for token in tokens if token in lecture.NAMES] == [answer]  # it is said once
    assert len(tokens) - distance in (0, 4, 8)
    assert lecture.story(distance, random.Random(seed)) == (text, answer)


def test_stories_have_every_name_and_a_distance_is_whole_sentences(tmp_path: Path) -> None:
    made = lecture.stories(300, 16, seed=1)
    assert {answer for _, answer in made} == set(lecture.NAMES)
    assert lecture.stories(300, 16, seed=2) != made
    for wrong in (4, 10):
        with pytest.raises(ValueError, match="every sentence has 4 tokens"):
            lecture.story(wrong, random.Random(0))
    files = lecture.write_stories(tmp_path, 8, number=20)
    texts, labels = (file.read_text().splitlines() for file in files.values())
    assert all(label in text.split() for text, label in zip(texts, labels))
    assert len(texts) == len(labels) == 20


def classifier(rung: str, **changes: Any) -> Any:
    """With random weights, in float64."""
    _, kind, said, _ = lecture.RUNGS[rung]
    sizes = {key.removeprefix("model."): value for key, value in said.items()}
    own = {"kind": kind, "dim": 8, "labels": lecture.NAMES, "pool": "last", "dropout": 0.0, **sizes, **changes}
    torch.manual_seed(3)
    return build_language_model(model_settings(own), 20).eval().double()  # type: ignore[arg-type]


IDS = torch.randint(4, 20, (2, 24), generator=torch.Generator().manual_seed(1))
ANSWERS = torch.tensor([1, 5])


@pytest.mark.parametrize("kind", lecture.RUNGS)
def test_the_gradient_is_the_slope_by_finite_differences(kind: str) -> None:
    model = classifier(kind)
    norms = lecture.gradient_norms(model, IDS, ANSWERS)
    assert norms.shape == IDS.shape
    for place in (-1, -4, -8):
        by_hand = lecture.slope_by_hand(model, IDS, ANSWERS, place)
        torch.testing.assert_close(norms[:, place], by_hand, rtol=1e-4, atol=1e-9)
    assert (norms[:, -4] > 0).all()


def test_of_a_linear_recurrent_network_it_is_a_power_of_the_weight() -> None:
    """h_t = ReLU(x_t + ρ h_{t-1}) with all positive: d h_T / d x_{T-n+1} is ρ^(n-1) exactly."""
    from anaphora.nn.encoders import RecurrentEncoder

    rho = 0.6
    model = classifier("rnn")
    model.encoder = encoder = RecurrentEncoder(8, cell="rnn-relu").double()
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            weight.zero_()
            if "weight_ih" in name:
                weight.copy_(torch.eye(8))
            if "weight_hh" in name:
                weight.copy_(rho * torch.eye(8))
        model.embedding.table.weight.abs_()
    norms = lecture.gradient_norms(model, IDS, ANSWERS)  # (2, 24)
    powers = rho ** torch.arange(23, -1, -1, dtype=torch.float64)
    torch.testing.assert_close(norms, norms[:, -1:] * powers)


def test_windows_and_convolutions_have_none_beyond_their_reach_and_the_mean_spreads_it() -> None:
    ids = torch.randint(4, 20, (1, 48), generator=torch.Generator().manual_seed(2))
    reaches = {rung.recipe: rung.reach for rung in lecture.RUNGS.values() if rung.reach is not None}
    assert set(reaches) == {"window", "conv"}
    for kind, reach in reaches.items():
        norms = lecture.gradient_norms(classifier(kind), ids, ANSWERS[:1])[0]
        assert (norms[:-reach] == 0).all()
        assert (norms[-reach:] > 0).all()
    norms = lecture.gradient_norms(classifier("dan"), ids, ANSWERS[:1])[0]
    torch.testing.assert_close(norms, norms[:1].expand(48))  # every word has the same share


def test_before_training_recurrent_ones_fade_and_attention_and_an_open_gate_do_not() -> None:
    ids = torch.randint(4, 20, (4, 64), generator=torch.Generator().manual_seed(2))
    answers = torch.tensor([0, 1, 2, 3])
    faded = {}
    for rung in ("rnn", "gru", "lstm", "lstm-open", "transformer-decoder"):
        norms = lecture.gradient_norms(classifier(rung, dim=32), ids, answers).mean(dim=0)
        faded[rung] = float(norms[-64] / norms[-8])
    assert max(faded[rung] for rung in ("rnn", "gru", "lstm")) < 1e-6
    assert min(faded[rung] for rung in ("lstm-open", "transformer-decoder")) > 0.05


def test_a_margin_is_not_stopped_by_certainty() -> None:
    model = classifier("transformer-decoder")
    even = [lecture.gradient_norms(model, IDS, ANSWERS, of=of) for of in ("log P", "margin")]
    with torch.no_grad():
        model.head.linear.bias[0] = 60.0  # sure of the first name
    sure, margin = (lecture.gradient_norms(model, IDS, torch.zeros(2).long(), of=of) for of in ("log P", "margin"))
    assert sure.max() < 1e-10 < 1e-3 < margin.max()
    assert (even[1] / even[0]).log().abs().mean() < 0.5  # of one that is not sure they are much alike


def test_every_causal_rung_takes_part() -> None:
    """Each encoder once: a Backpack reads with one of them."""
    rungs = set(kinds("language")) - {"transformer-encoder", "backpack"}
    assert {rung.recipe for rung in lecture.RUNGS.values()} == rungs


def test_the_walk_is_made_of_what_was_trained() -> None:
    """Two updates teach nothing; the tables are there, and nothing else was touched."""
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    (walk,) = lecture.forgetting(steps=2, texts=200, distances=(20,))
    assert walk.holds, walk.checks
    assert walk.step("right").values.shape == (8, 1)
    start, after = walk.step("start"), walk.step("after")
    rows = {name: place for place, name in enumerate(start.rows)}
    assert start.mask is not None
    assert after.mask is not None
    assert [start.there(rows["window"], place) for place in range(4)] == [True, True, False, False]  # 8 16 24 32
    assert [after.there(rows[name], 0) for name in ("window", "conv", "rnn")] == [False, True, True]
    assert start.values[rows["rnn"], -1] < -10  # 128 tokens back
    assert start.values[rows["transformer-decoder"], -1] > -5
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


@pytest.mark.slow
def test_near_names_are_learned_and_far_ones_where_a_gradient_comes(tmp_path: Path) -> None:
    """The floors of the page: attention and the LSTM whose gate begins open at 32 tokens, where the window sees nothing
    and a plain network and an LSTM as it is learn nothing; near names, everybody."""
    far, near = (lecture.write_stories(tmp_path, n) for n in (32, 8))
    found = {}
    with lecture.one_thread(), torch.random.fork_rng():
        far_rungs = ("transformer-decoder", "lstm-open", "window", "rnn", "lstm")
        for rung, distance in [*((rung, 32) for rung in far_rungs), ("rnn", 8), ("lstm", 8)]:
            files = far if distance == 32 else near
            model, cut = lecture.learn(rung, distance, tmp_path / f"{rung}-{distance}", files)
            found[rung, distance] = lecture.accuracy(model, cut, lecture.stories(300, distance, 5))
    assert min(found["transformer-decoder", 32], found["lstm-open", 32]) > 0.95
    assert found["window", 32] < 0.25
    assert max(found["rnn", 32], found["lstm", 32]) < 0.5
    assert min(found["rnn", 8], found["lstm", 8]) > 0.95


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "forgetting.py", "--small", "--jobs", "1"]
    command += ["--picture", tmp_path / "f.png"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert {run["rung"] for run in result["runs"]} == set(lecture.RUNGS)
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
