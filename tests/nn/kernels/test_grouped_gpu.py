"""What only a GPU can show of grouped products; run with `pytest -m gpu` on a machine that has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.nn.kernels.grouped import combine, dispatch, fastest, grouped_linear, route
from anaphora.nn.mixture_of_experts import MixtureOfExperts, telling
from anaphora.pocket import generate
from plain_grouped import plain_grouped

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def drawn(rows: int, groups: int, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(1)
    shapes = (rows, 64), (groups, 96, 64), (groups, 96)
    return [torch.randn(*shape).to("cuda", dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("chosen", ["even", "one", "ragged"])
def test_values_and_gradients_are_those_of_a_loop(dtype: torch.dtype, chosen: str) -> None:
    rows, groups = 301, 7
    which = {
        "even": torch.stack([torch.arange(rows) % groups, (torch.arange(rows) + 1) % groups], dim=1),
        "one": torch.tensor([[3, 5]]).expand(rows, 2).contiguous(),
        "ragged": torch.tensor([[0, 6]] * 13 + [[6, 2]] * (rows - 13)),
    }[chosen].cuda()
    given = drawn(rows, groups, dtype)
    routes = route(which, groups)
    ours = combine(grouped_linear(dispatch(given[0], routes), *given[1:], routes), routes)
    theirs = plain_grouped(given[0], which, *given[1:])
    pull = torch.randn_like(theirs)
    found = [[y, *torch.autograd.grad(y, given, pull)] for y in (ours, theirs)]
    for one, other in zip(*found):
        assert torch.nn.functional.cosine_similarity(one.float().flatten(), other.float().flatten(), dim=0) > 0.9995
        assert not one.isnan().any()


def test_bfloat16_on_hopper_takes_the_kernel() -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("an older GPU")
    x, weight, _ = drawn(8, 4, torch.bfloat16)
    assert fastest(x, weight) == "grouped"


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32], ids=str)
def test_a_recorded_layer_asks_others_when_it_is_replayed(precision: torch.dtype) -> None:
    """No operation waits for the host, and other words may ask other experts."""
    layer = MixtureOfExperts(32, 64, experts=8, per_token=2).cuda().eval()
    with torch.no_grad():
        layer.gate.normal_()
    x = torch.randn(100, 32, device="cuda")

    def run() -> Any:
        with torch.no_grad(), torch.autocast("cuda", precision, enabled=precision != torch.float32):
            return layer(x)

    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = run()
    x.copy_(torch.randn(100, 32))
    graph.replay()
    torch.testing.assert_close(y, run(), atol=1e-2, rtol=1e-2)


def test_learning_never_waits_for_the_host() -> None:
    layer = MixtureOfExperts(32, 64, experts=8, per_token=2).cuda().train()
    x, real = torch.randn(100, 32, device="cuda", requires_grad=True), torch.ones(100, dtype=torch.bool, device="cuda")

    def learn() -> None:
        with torch.autocast("cuda", torch.bfloat16), telling(layer, real):
            y = layer(x)
        assert layer.imbalance is not None
        (y.float().sum() + layer.imbalance).backward()

    learn()  # what the device can do is found out once
    torch.cuda.set_sync_debug_mode("error")
    try:
        learn()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("recipe", ["moe", "transformer"])
def test_replayed_graphs_learn(recipe: str, tmp_path: Path) -> None:
    pairs = list(generate("train", 2_000, seed=3))
    files = {"source": tmp_path / "a.en", "target": tmp_path / "a.de"}
    files["source"].write_text("".join(p.source + "\n" for p in pairs), encoding="utf-8")
    files["target"].write_text("".join(p.target + "\n" for p in pairs), encoding="utf-8")
    settings: dict[str, Any] = {"model.dim": 64, "model.experts": 8, "tokenizer.vocabulary": 600}
    settings |= {"training.max_steps": 300, "training.checkpoint_every": 100, "training.learning_rate": 3e-3}
    settings |= {"training.warmup_steps": 50, "training.cuda_graphs": "on"}
    outcome = anaphora.train(tmp_path / "run", **files, recipe=recipe, settings=settings, device="cuda")
    assert outcome.validation["loss"] < 4
    experts = outcome.validation["experts"]
    assert experts["idle"] <= experts["experts"] // 4
