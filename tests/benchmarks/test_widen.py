"""Copied weights are the same translator: equal logits where positions say nothing, near ones with waves."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from widen import widened

SHAPES = [
    {"dim": 32},
    {"dim": 64, "heads": 4},
    {"dim": 32, "feed_forward": 72, "layers": 3},
    {"dim": 48, "heads": 2, "layers": 4, "feed_forward": 24},
]


def narrow(**changes: Any) -> Transformer:
    torch.manual_seed(3)
    shape = {"dim": 16, "layers": 2, "heads": 2, "feed_forward": 24, "norm": "post", "positions": "none"}
    model = Transformer(TransformerConfig(**{**shape, "dropout": 0.0, **changes}), 30, 30)
    for parameter in model.parameters():  # gains and biases too: each must find its place
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval().requires_grad_(False)


def logits(model: Transformer) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(4, 30, (5, length), generator=generator) for length in (9, 7))
    return model(source, target, torch.tensor([9, 7, 3, 1, 9]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_widened_translator_has_the_same_logits(shape: dict[str, int]) -> None:
    model = narrow()
    wide = widened(model, replace(model.config, **shape))
    assert wide.parameter_count() > model.parameter_count()
    expected = logits(model)
    assert expected.std() > 0.1
    torch.testing.assert_close(logits(wide), expected, atol=1e-4, rtol=1e-4)


def test_with_waves_it_is_near() -> None:
    model = narrow(positions="sinusoidal")
    wide = widened(model, replace(model.config, dim=64))
    apart = (logits(wide) - logits(model)).norm() / logits(model).norm()
    assert 1e-4 < apart < 0.5


@pytest.mark.parametrize(("changes", "said"), [({"dim": 40}, "no multiple"), ({"norm": "pre"}, "post-norm")])
def test_what_cannot_be_widened_is_refused(changes: dict[str, Any], said: str) -> None:
    model = narrow()
    with pytest.raises(SystemExit, match=said):
        widened(model, replace(model.config, **changes))
