"""Averages of weights: the moving one by its formula, the one over checkpoints by its definition."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from anaphora.training.averaging import MovingAverage, average_weights


def test_moving_average_by_hand() -> None:
    """The decay of update t is the smaller of the asked one and (1 + t) / (10 + t)."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    average = MovingAverage(model, 0.4)
    expected, weight = 1.0, 1.0
    for step, decay in ((1, 2 / 11), (2, 3 / 12), (3, 4 / 13), (4, 5 / 14), (5, 0.4), (6, 0.4)):
        weight += step
        nn.init.constant_(model.weight, weight)
        average.update(step)
        expected = decay * expected + (1 - decay) * weight
        assert average.mean["weight"].item() == pytest.approx(expected)
    assert model.weight.item() == weight


def test_in_place_lends_the_average_and_gives_the_weights_back_bit_for_bit() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight  # tied
    average = MovingAverage(model, 0.9)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    average.update(100)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    pointers = [p.data_ptr() for p in model.parameters()]
    with average.in_place():
        for name, p in model.named_parameters():
            assert torch.equal(p, average.mean[name])
            assert not torch.equal(p, before[name])
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert [p.data_ptr() for p in model.parameters()] == pointers  # the optimizer still holds the right memory

    with pytest.raises(ZeroDivisionError), average.in_place():
        _ = 1 / 0
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_the_average_of_checkpoints_is_their_mean(tmp_path: Path) -> None:
    torch.manual_seed(0)
    stored = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        weights = {"a": torch.randn(3, 4), "b": torch.randn(2).bfloat16()}
        save_file(weights, tmp_path / str(number) / "model.safetensors")
        stored.append(weights)
    mean = average_weights([tmp_path / str(number) for number in range(3)])
    for name, kind in (("a", torch.float32), ("b", torch.bfloat16)):
        expected = torch.stack([weights[name].double() for weights in stored]).mean(0).to(kind)
        assert torch.equal(mean[name], expected)
    assert torch.equal(average_weights([tmp_path / "1"])["a"], stored[1]["a"])
