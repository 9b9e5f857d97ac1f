"""Lecture 7: re-averaging, order blindness, quadratic cost, receptive fields."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaphora.explain.trace_parts import Walk
from anaphora.lectures import stack as lecture
from anaphora.nn.attention import attend
from anaphora.nn.encoders import ConvolutionEncoder
from anaphora.nn.positions import POSITIONS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def averages() -> dict[str, Walk]:
    return {walk.name: walk for walk in lecture.re_averaging()}


def test_the_square_shrinks(averages: dict[str, Walk]) -> None:
    walk = averages["re-averaging"]
    spread = walk.step("spread").values[:, 0]
    assert spread[0] == 1
    assert (np.diff(spread) < 0).all()
    # by hand: north sees itself with e^(1/√2), the opposite corner with e^(-1/√2), the others with e^0
    up, down = np.exp(2**-0.5), np.exp(-(2**-0.5))
    assert walk.step("X1").values[0] == pytest.approx([0, (up - down) / (up + down + 2)])


def test_any_words_stay_within_their_hull() -> None:
    """Not only these: a weighted mean is never beyond the furthest word, in any direction."""
    generator = torch.Generator().manual_seed(3)
    words = torch.randn(7, 3, generator=generator, dtype=torch.float64)
    directions = torch.randn(100, 3, generator=generator, dtype=torch.float64)
    x = words
    for _ in range(3):
        before, x = x, attend(x[None, None], x[None, None], x[None, None])[0, 0]
        assert (x @ directions.T).amax(0).le((before @ directions.T).amax(0) + 1e-12).all()


def test_dimensions_without_and_with_feed_forward(averages: dict[str, Walk]) -> None:
    step = averages["lines"].step("rank")
    ranks = dict(zip(step.columns, step.values.T.astype(int).tolist()))
    assert ranks["line"] == [1] * 5
    assert ranks["line, ff"] == [1, 8, 8, 8, 8]
    assert ranks["plane"] == [2] * 5
    assert ranks["plane, ff"] == [2, 8, 6, 2, 1]  # without residual sums, averaging wins
    assert ranks["plane, ff + x"] == [2, 8, 8, 8, 8]


def test_other_seeds_say_the_same() -> None:
    """As the page says of twelve: what is no property of seed 0 alone."""
    collapsed = 0
    for seed in range(12):
        with torch.random.fork_rng(devices=[]):
            ranks = lecture.lines(seed).step("rank").values.astype(int)
        line, bent, plane, network, residual = ranks.T.tolist()
        assert line == [1] * 5
        assert bent[-1] == 8
        assert max(plane) == 2
        assert network[1] in (6, 8)
        assert network[-1] == 1
        assert residual[1:] == [8] * 4
        collapsed += plane[-1] == 1
    assert collapsed == 7


def test_no_stack_of_attentions_makes_an_absolute_value(averages: dict[str, Walk]) -> None:
    assert averages["absolute-value"].step("y").values[:, 0].tolist() == [2, 1, 0, 1, 2]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        stack = lecture.AttentionStack(4, 3).double()
        x = torch.randn(1, 1, 4, dtype=torch.float64)
    for network, straight in ((False, True), (True, False)):
        minus, zero, plus = (stack(sign * x, feed_forward=network)[-1] for sign in (-1, 0, 1))
        assert torch.allclose(minus + plus, 2 * zero, atol=1e-12) == straight


@pytest.mark.parametrize("kind", POSITIONS)
def test_order_shows_only_with_positions(kind: Any) -> None:
    gap = lecture.permutation_gap(kind)
    assert gap < 1e-12 if kind == "none" else gap > 0.01


def test_costs() -> None:
    (walk,) = lecture.quadratic()
    lengths = np.array(lecture.LENGTHS)
    products = walk.step("Mflop").values * 1e6
    np.testing.assert_allclose(products[:, 0], 4 * lengths**2 * lecture.SIZE)
    np.testing.assert_allclose(products[:, 1], 4 * lengths * lecture.SIZE**2)
    exponents = dict(zip(walk.step("exponent").columns, walk.step("exponent").values[0]))
    assert exponents["flop, reference"] == pytest.approx(2)
    assert exponents["flop, linear"] == pytest.approx(1)
    assert exponents["kB, reference"] > 1.9
    assert exponents["kB, fast"] < 1.05
    assert exponents["kB, linear"] < 1.05
    # of float32, in kB: Q, K and V; then the n² weights, or the output and a number a query
    inputs, fours = 3 * 4 * lengths * lecture.SIZE / 1e3, 4 * lengths / 1e3
    reference, fast, linear = walk.step("kB").values.T
    np.testing.assert_allclose(reference - inputs, fours * lengths, rtol=1e-5)
    np.testing.assert_allclose(fast - inputs, fours * (lecture.SIZE + 1), rtol=1e-5)
    assert (linear - inputs < 2).all()  # sums of K and V, whatever n is


@pytest.mark.parametrize("dilated", [False, True])
@pytest.mark.parametrize(("width", "layers"), [(3, 1), (3, 4), (5, 3), (1, 2)])
def test_gradients_reach_the_receptive_field(width: int, layers: int, dilated: bool) -> None:
    encoder = ConvolutionEncoder(8, width=width, layers=layers, dilated=dilated)
    seen = lecture.seen_places(encoder).int()
    places = seen.nonzero()[:, 0]
    assert seen.sum() == encoder.receptive_field
    assert places[-1] - places[0] + 1 == encoder.receptive_field  # in one piece, around the middle
    assert places[0] + places[-1] == 2 * (lecture.PLACES // 2)


def test_attention_sees_everything_at_once() -> None:
    (walk,) = lecture.receptive_field()
    step = walk.step("words")
    plain, its_formula, dilated, also_its, attention = step.values.T.tolist()
    assert plain == its_formula == [3, 5, 7, 9, 11, 13]
    assert dilated == also_its == [3, 7, 15, 31, 63, 127]
    assert attention == [lecture.PLACES] * 6
    # from the middle to both ends: the layers that the page names, and not one fewer
    reach = {layers: ConvolutionEncoder(8, layers=layers).receptive_field for layers in (63, 64)}
    assert reach[63] < lecture.PLACES <= reach[64]
    reach = {layers: ConvolutionEncoder(8, layers=layers, dilated=True).receptive_field for layers in (6, 7)}
    assert reach[6] < lecture.PLACES <= reach[7]


def test_the_benchmark_of_costs_runs(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "attention_cost.py"),
        "--small",
        "--out",
        tmp_path / "cost.json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result == json.loads((tmp_path / "cost.json").read_text())
    assert set(result["exponents"]) == {"reference", "fast", "linear"}
    assert result["costs"]["reference"]["bytes"][-1] > result["costs"]["fast"]["bytes"][-1]
    refused = subprocess.run([*command[:2], "--longest", "64"], capture_output=True, text=True, cwd=ROOT)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].endswith("an exponent takes two lengths, and the first is 64")


def test_the_page(page_shows: Any) -> None:
    page_shows("7-stack.md")
