"""Two models with the same weights, one of which runs its loop plainly: for the tests of nn/kernels/attentive.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anaphora.models import build, settings

WORDS = 23
CASES: list[dict[str, Any]] = [
    {"kind": "bahdanau", "cell": "gru", "score": "additive"},
    {"kind": "bahdanau", "cell": "lstm", "score": "additive", "embedding": 6, "encoder_dim": 10, "attention_dim": 12},
    {"kind": "bahdanau", "cell": "gru", "score": "bilinear", "encoder_dim": 10},
    {"kind": "bahdanau", "cell": "lstm", "score": "dot"},
    {"kind": "luong", "cell": "gru", "score": "additive", "layers": 2, "embedding": 6},
    {"kind": "luong", "cell": "lstm", "score": "additive", "encoder_dim": 10},
    {"kind": "luong", "cell": "lstm", "score": "bilinear", "layers": 3},
    {"kind": "luong", "cell": "gru", "score": "dot"},
    {"kind": "luong", "cell": "lstm", "score": "scaled-dot", "layers": 2},
    {"kind": "gnmt", "layers": 3},
    {"kind": "deep-att", "layers": 2, "decoder_layers": 3},
]


def name(case: dict[str, Any]) -> str:
    return " ".join(str(value) for value in case.values())


def twins(
    case: dict[str, Any], dtype: torch.dtype, device: str = "cpu", *, spread: float = 0.4, **changes: Any
) -> tuple[Any, Any]:
    """(plain loop, hand-written way back), with the same weights."""
    torch.manual_seed(3)
    shape = {"dim": 8, "max_length": 20, "dropout": 0.0, "tie": "none", **case, **changes}
    plain, fast = (build(settings({**shape, "unroll": way}), WORDS, WORDS) for way in ("steps", "auto"))
    for parameter in plain.parameters():
        torch.nn.init.normal_(parameter, std=spread)
    fast.load_state_dict(plain.state_dict())
    return plain.to(device, dtype), fast.to(device, dtype)


def learned(model: Any, rows: int = 5, steps: int = 6) -> dict[str, Tensor]:
    """The logits and every gradient, of one made-up batch."""
    draw = torch.Generator().manual_seed(1)
    source = torch.randint(4, WORDS, (rows, 7), generator=draw)
    lengths = torch.tensor([7, 3, 5, 1, 6][:rows])
    target = torch.randint(1, WORDS, (rows, steps), generator=draw)
    pull = torch.randn(rows, steps, WORDS, generator=draw)
    weight = next(model.parameters())
    model.train()
    logits = model(source.to(weight.device), target.to(weight.device), lengths.to(weight.device))
    (logits * pull.to(logits)).sum().backward()
    found = {path: parameter.grad.clone() for path, parameter in model.named_parameters() if parameter.grad is not None}
    return {"logits": logits.detach(), **found}


def compare(plain: dict[str, Tensor], fast: dict[str, Tensor], tolerance: float) -> None:
    assert plain.keys() == fast.keys()
    for path, want in plain.items():
        limit = tolerance * max(1.0, float(want.abs().max()))
        off = float((fast[path].double() - want.double()).abs().max())
        assert off <= limit, f"{path} is off by {off:.2e}, more than {limit:.2e}"  # NaN is off too
