"""The learning rate as a pure function of the step, so that resuming needs no scheduler state: one entry a schedule.

    warm-up          rate = peak · step / warmup                              all of them
    inverse-sqrt     rate = peak · √(warmup / step)                           Vaswani et al. 2017
    cosine           rate = peak · (low + (1 − low) · (1 + cos π done) / 2)   Loshchilov & Hutter 2017
    linear           rate = peak · (1 − (1 − low) · done)
    constant         rate = peak

`done` is how much of the run after the warm-up is behind, 0 to 1; `low` is training.final_rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from anaphora.training.training_settings import TrainingConfig

ScheduleName = Literal["inverse-sqrt", "cosine", "linear", "constant"]
"""What training.schedule may be: the names of `SCHEDULES`."""
WARM = 0.1
"""Share of a run's time after which its warm-up is over."""


class Moment(NamedTuple):
    """Where a run stands after its warm-up."""

    step: int
    warmup: int
    done: float
    """How much of the run is behind; of a run without an end, 0."""
    low: float
    """The rate at the end, as a share of the peak."""


class Schedule(NamedTuple):
    """How the rate goes on after the warm-up."""

    share: Callable[[Moment], float]
    """Of the peak."""
    ends: bool = False
    """Whether it needs to know how long the run is."""


SCHEDULES: dict[ScheduleName, Schedule] = {
    "inverse-sqrt": Schedule(lambda at: math.sqrt(max(at.warmup, 1) / at.step)),
    "cosine": Schedule(lambda at: at.low + (1 - at.low) * 0.5 * (1 + math.cos(math.pi * at.done)), ends=True),
    "linear": Schedule(lambda at: 1 - (1 - at.low) * at.done, ends=True),
    "constant": Schedule(lambda at: 1.0),
}


def learning_rate(step: int, config: TrainingConfig, total: int | None, elapsed: float = 0.0) -> float:
    """The rate of update `step` (1, 2, …): a linear warm-up, then the schedule.

    Those that end fall towards the end of the run: `total` updates, or, of a run with a time limit, the `elapsed` share
    of that time, whichever is nearer. Nor do they warm up for longer than a part of the time: on a slow machine the
    updates of a warm-up may take longer than the run may last.
    """
    peak, warmup, schedule = config.learning_rate, config.warmup_steps, SCHEDULES[config.schedule]
    if step <= warmup:
        warm = max(step / warmup, elapsed / WARM if schedule.ends else 0.0)
        if warm < 1:
            return peak * warm
    by_step = 0.0 if total is None else (step - warmup) / max(1, total - warmup)
    done = min(1.0, max(by_step, elapsed))
    return peak * schedule.share(Moment(step, warmup, done, config.final_rate))
