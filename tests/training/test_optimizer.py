"""Learning rates by hand, and which weights decay."""

from __future__ import annotations

import math
import typing
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from anaphora.training.optimizer import build_optimizer
from anaphora.training.schedule import SCHEDULES, ScheduleName, learning_rate
from anaphora.training.training_settings import TrainingConfig


def rates(steps: list[int], total: int | None = None, **settings: Any) -> list[float]:
    config = TrainingConfig(**{"learning_rate": 0.8, "warmup_steps": 4, **settings})
    return [learning_rate(step, config, total) for step in steps]


def test_warm_up_is_a_straight_line_to_the_peak() -> None:
    assert tuple(SCHEDULES) == typing.get_args(ScheduleName)
    for schedule in SCHEDULES:
        assert rates([1, 2, 3, 4], 20, schedule=schedule) == pytest.approx([0.2, 0.4, 0.6, 0.8])


def test_inverse_sqrt_halves_when_the_step_quadruples() -> None:
    assert rates([4, 16, 64, 400], schedule="inverse-sqrt") == pytest.approx([0.8, 0.4, 0.2, 0.08])


def test_inverse_sqrt_is_the_published_schedule() -> None:
    """dim^-0.5 · min(step^-0.5, step · warmup^-1.5) with the peak that it has at the end of its warm-up."""
    config = TrainingConfig(learning_rate=512**-0.5 * 4000**-0.5, warmup_steps=4000)
    for step in (1, 100, 4000, 4001, 100_000):
        published = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert learning_rate(step, config, None) == pytest.approx(published)


def test_linear_and_cosine_reach_their_end() -> None:
    assert rates([12, 20, 25], 20, schedule="linear") == pytest.approx([0.4, 0.0, 0.0])
    assert rates([12, 20], 20, schedule="linear", final_rate=0.5) == pytest.approx([0.6, 0.4])
    assert rates([8, 12, 20, 25], 20, schedule="cosine") == pytest.approx(
        [0.8 * 0.5 * (1 + math.cos(math.pi / 4)), 0.4, 0.0, 0.0], abs=1e-12
    )
    assert rates([20], 20, schedule="cosine", final_rate=0.1) == pytest.approx([0.08])


def test_a_run_that_is_short_of_time_warms_up_for_a_tenth_of_it() -> None:
    """A thousand updates of warm-up, of which it will come to a few dozen."""
    for schedule in ("cosine", "linear"):
        config = TrainingConfig(learning_rate=0.8, warmup_steps=1000, schedule=schedule)  # type: ignore[arg-type]
        found = [learning_rate(3 * tenth, config, None, tenth / 20) for tenth in range(1, 21)]
        assert found[0] == pytest.approx(0.4)  # half of a tenth
        assert 0.7 < found[1] <= 0.8
        assert found[2:] == sorted(found[2:], reverse=True)
        assert found[-1] == pytest.approx(0.0, abs=1e-9)
        assert learning_rate(500, config, None, 0.01) == pytest.approx(0.4)  # a quick machine does not notice
        late = [learning_rate(step, config, None, step / 2000) for step in range(900, 1100)]
        assert late == sorted(late, reverse=True)  # nor is the end of the warm-up, long past, any more of a peak


def test_constant_stays() -> None:
    assert rates([5, 1000], schedule="constant") == [0.8, 0.8]


@given(
    st.sampled_from(["inverse-sqrt", "cosine", "linear", "constant"]),
    st.integers(0, 50),
    st.integers(1, 200),
    st.none() | st.integers(1, 300),
)
def test_rates_are_between_zero_and_the_peak_and_never_rise_after_the_warm_up(
    schedule: str, warmup: int, step: int, total: int | None
) -> None:
    now, then = rates([step, step + 1], total, schedule=schedule, warmup_steps=warmup)
    assert 0 <= now <= 0.8 + 1e-12
    if step >= max(warmup, 1):
        assert then <= now + 1e-12


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_only_matrices_decay(kind: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    config = TrainingConfig(optimizer=kind, weight_decay=0.5, learning_rate=0.1)  # type: ignore[arg-type]
    optimizer = build_optimizer(model, config)
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {name: decay[id(p)] for name, p in model.named_parameters()} == {
        "0.weight": 0.5,
        "0.bias": 0.0,
        "1.weight": 0.0,
        "1.bias": 0.0,
    }
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 4


@pytest.mark.parametrize("kind", ["sgd", "asgd"])
def test_descent_by_hand(kind: str) -> None:
    """v ← momentum · v + gradient + decay · weight; weight ← weight - rate · v."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 2.0)
    config = TrainingConfig(optimizer=kind, momentum=0.5, weight_decay=0.1, learning_rate=0.2)  # type: ignore[arg-type]
    optimizer = build_optimizer(model, config)
    weight, velocity = 2.0, 0.0
    for gradient in (1.0, -3.0, 0.5):
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
        velocity = 0.5 * velocity + gradient + 0.1 * weight
        weight -= 0.2 * velocity
        assert model.weight.item() == pytest.approx(weight)


def test_adamw_by_hand() -> None:
    """First step: the moments cancel, so a weight moves by rate · sign(gradient), after shrinking by rate · decay."""
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, 2.0)
    nn.init.constant_(model.bias, 3.0)
    optimizer = build_optimizer(model, TrainingConfig(weight_decay=0.5, learning_rate=0.1))
    model(torch.tensor([[4.0]])).sum().backward()
    optimizer.step()
    assert model.weight.item() == pytest.approx(2.0 * (1 - 0.1 * 0.5) - 0.1)
    assert model.bias.item() == pytest.approx(3.0 - 0.1)
    assert isinstance(optimizer, torch.optim.AdamW)


def test_the_same_step_fused_or_not() -> None:
    torch.manual_seed(0)
    start = nn.Linear(5, 4)
    ends = []
    for fused in (True, False):
        model = nn.Linear(5, 4)
        model.load_state_dict(start.state_dict())
        optimizer = build_optimizer(model, TrainingConfig(weight_decay=0.1))
        assert optimizer.defaults["fused"]
        for group in optimizer.param_groups:
            group["fused"] = fused
        for seed in range(3):
            x = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))
            model(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        ends.append(model.weight.detach())
    torch.testing.assert_close(*ends)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1"),
        ({"ema": 1.0}, "ema must be"),
        ({"validation_beam": 100_000}, "validation_beam must be at most 4,096, not 100,000"),
        ({"accumulate": 0}, "accumulate must be at least 1"),
        ({"max_steps": 0}, "max_steps must be above 0"),
        ({"average": 9, "keep": 3}, "average .9. must not exceed keep .3."),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**changes)
