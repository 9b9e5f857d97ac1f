"""Parameters beside the papers, which state none; operations against a counter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anaphora.models import build, settings
from anaphora.tasks.recipes import complete, load_recipe


def paper(name: str, source: int, target: int) -> Any:
    with torch.device("meta"):
        return build(settings(load_recipe(name)["model"]), source, target)  # type: ignore[arg-type]


def test_bytenet_by_hand() -> None:
    """The paper says 30 + 30 blocks, d = 800, windows of 3, and 296 English and 323 German characters; no number of
    parameters. This one is counted from those, and our four marks a side."""
    d, blocks, source, target = 800, 30, 296 + 4, 323 + 4
    block = (2 * d * d + d) + (3 * d * d + d) + (d * 2 * d + 2 * d) + 2 * (2 * d + d + d)  # three products, three norms
    tables = 2 * d * (source + target + target)
    joint = 2 * (2 * 2 * d) + (2 * d) ** 2 + (2 * d) ** 2 + 2 * d  # a norm at each top, the join, the last product
    model = paper("bytenet-paper", source, target)
    assert model.parameter_count() == 2 * blocks * block + tables + joint == 276_030_400
    assert sum(one.reach for one in model.decoder.blocks) + 1 == 373  # characters behind that a place knows of


def test_convs2s_by_hand() -> None:
    """The paper says how many layers there are and how wide; no number of parameters. This one is counted from the
    settings of its authors' code, at 40,000 joint subwords; the projection has no bias here."""
    words, e, readout = 40_000, 768, 512
    kernels = [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2

    def product(inputs: int, outputs: int) -> int:  # directions, lengths, bias
        return inputs * outputs + 2 * outputs

    def stack(last: int) -> int:
        below, total = 512, product(e, 512)
        for outputs, width in kernels:
            total += product(width * below, 2 * outputs) + (product(below, outputs) if below != outputs else 0)
            below = outputs
        return total + product(below, last)

    looks = sum(product(outputs, e) + product(e, outputs) for outputs, _ in kernels)
    tables = 2 * (words + 1024) * e + words * readout
    model = paper("convs2s-paper", words, words)
    assert model.parameter_count() == stack(e) + stack(readout) + looks + tables == 209_489_920
    assert [layer.convolution.out_features for layer in model.encoder.layers] == [1024] * 9 + [2048] * 4 + [4096] * 2


@pytest.mark.parametrize("kind", ["bytenet", "convs2s"])
@pytest.mark.parametrize("pairs", [29_000, 150_000])
def test_sized_to_the_corpus(kind: str, pairs: int) -> None:
    config = complete(kind, {}, pairs=pairs)
    vocabulary = 260 if kind == "bytenet" else 8_000
    with torch.device("meta"):
        size = build(config.translator, vocabulary, vocabulary).parameter_count()
    assert 4e6 < size < 25e6
    assert config.training.max_steps is not None
    assert 5_000 <= config.training.max_steps <= 50_000


CASES: list[dict[str, Any]] = [
    {"kind": "bytenet"},
    {"kind": "bytenet", "decoder_layers": 4, "width": 5, "hidden": 6, "dilations": 2, "unfold": 1.5, "unfold_extra": 4},
    {"kind": "convs2s"},
    {"kind": "convs2s", "embedding": 12, "readout": 10, "decoder_layers": 2, "width": 5},
    {"kind": "convs2s", "stages": [[2, 16, 3], [1, 20, 1]]},
    {"kind": "luong", "encoder": "convs2s", "unroll": "steps"},
    {"kind": "luong", "encoder": "bytenet", "unroll": "steps"},
]


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_flops_are_those_of_a_counter(case: dict[str, Any]) -> None:
    shape = {"dim": 16, "layers": 3, "max_length": 64, "dropout": 0.0, "tie": "none", **case}
    model = build(settings(shape), 50, 40).eval()  # type: ignore[arg-type]
    batch, source, target = 3, 20, 12
    ids = torch.ones(batch, source, dtype=torch.long), torch.full((batch,), source)
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        model(ids[0], torch.ones(batch, target, dtype=torch.long), ids[1])
    stated = model.flops(batch * source, batch * target, source, target)
    assert stated == pytest.approx(counter.get_total_flops(), rel=1e-9)
