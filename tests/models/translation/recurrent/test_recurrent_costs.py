"""Parameters against the papers, operations against a counter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anaphora.models import build, settings
from anaphora.nn.mixture_of_experts import active_parameters, mixtures
from anaphora.tasks.recipes import load_recipe
from grouped_flops import COUNTED


def paper(name: str, source: int, target: int, **changes: Any) -> Any:
    with torch.device("meta"):
        return build(settings({**load_recipe(name)["model"], **changes}), source, target)  # type: ignore[arg-type]


def test_sutskevers_384_million_of_which_64_are_recurrent() -> None:
    model = paper("seq2seq-paper", 160_000, 80_000)
    assert model.parameter_count() == pytest.approx(384e6, rel=1e-3)
    recurrent = sum(w.numel() for name, w in model.named_parameters() if "cells" in name and "weight" in name)
    assert recurrent == 64_000_000


def test_gnmt_as_shazeer_counts_it() -> None:
    assert paper("gnmt-paper", 32_000, 32_000).parameter_count() == pytest.approx(278e6, rel=0.015)


def test_shazeers_8_billion_of_which_a_word_meets_a_few() -> None:
    model = paper("moe-paper", 32_000, 32_000)
    assert model.parameter_count() == pytest.approx(8.7e9, rel=0.01)
    of_experts = sum(w.numel() for part in mixtures(model) for w in (part.inner, part.outer))
    assert of_experts == 2 * 2048 * 2 * 512 * 2048  # "each expert contains 2M parameters"
    assert active_parameters(model) == pytest.approx(0.187e9, rel=0.01)
    few = paper("moe-paper", 32_000, 32_000, experts=32)
    assert model.flops(1, 1, 25, 25) == pytest.approx(few.flops(1, 1, 25, 25), rel=0.03)  # the gate alone is larger


@pytest.mark.parametrize(
    ("name", "words", "parameters"),
    [
        ("bahdanau-paper", 30_000, 81_421_000),
        ("luong-paper", 50_000, 229_072_000),
        ("deep-att-paper", 30_000, 155_629_824),
    ],
)
def test_of_the_others_no_number_is_published(name: str, words: int, parameters: int) -> None:
    """What these dimensions come to."""
    assert paper(name, words, words).parameter_count() == parameters


CASES: list[dict[str, Any]] = [
    {"kind": "bahdanau"},
    {"kind": "bahdanau", "cell": "lstm", "decoder_layers": 2, "score": "bilinear", "encoder_dim": 20, "embedding": 12},
    {"kind": "luong", "layers": 2},
    {"kind": "luong", "score": "additive", "input_feeding": False, "attention_dim": 10},
    {"kind": "gnmt", "layers": 3},
    {"kind": "moe", "layers": 2},
    {"kind": "moe", "experts": 5, "experts_per_token": 3, "hidden": 20, "expert_hidden": 12, "embedding": 12},
    {"kind": "deep-att", "layers": 3, "decoder_layers": 2},
]


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_flops_are_those_of_a_counter(case: dict[str, Any]) -> None:
    """With the kernels off that a counter cannot see inside of."""
    shape = {"dim": 16, "layers": 1, "max_length": 64, "dropout": 0.0, "tie": "none", "unroll": "steps", **case}
    model = build(settings(shape), 50, 40).eval()  # type: ignore[arg-type]
    batch, source, target = 3, 20, 12
    ids = torch.ones(batch, source, dtype=torch.long), torch.full((batch,), source)
    counting = FlopCounterMode(display=False, custom_mapping=COUNTED)
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), counting as counter:
        model(ids[0], torch.ones(batch, target, dtype=torch.long), ids[1])
    stated = model.flops(batch * source, batch * target, source, target)
    assert stated == pytest.approx(counter.get_total_flops(), rel=1e-9)


def test_a_recurrent_state_does_not_grow() -> None:
    model = build(settings({"kind": "gnmt", "dim": 8, "layers": 2}), 20, 20)  # type: ignore[arg-type]
    assert model.cache_bytes_per_token() == 0
    state = model.start(torch.ones(1, 4, dtype=torch.long), torch.tensor([4]), 2, 10)
    assert not state.growing
