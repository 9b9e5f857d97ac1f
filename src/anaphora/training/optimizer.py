"""How a gradient becomes a change of weights: Adam, AdamW or plain descent, and the learning rate as a pure function of
the step.

The rate depends on the step alone (and, for cosine and linear, on the planned number of steps), so resuming needs no
scheduler state.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from anaphora.training.training_settings import TrainingConfig


def build_optimiser(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Weight decay is for matrices only: pulling a bias or a norm's gain towards zero has no meaning. (asgd descends
    as sgd does; what is averaged is in averaging.py.)"""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = parameters[0].device.type in ("cpu", "cuda")  # one pass over memory instead of ten
    if config.optimizer in ("sgd", "asgd"):
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum, fused=fused)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    betas = config.beta1, config.beta2
    return kind(groups, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=fused)


WARM = 0.1
"""Share of a run's time after which its warm-up is over."""


def learning_rate(step: int, config: TrainingConfig, total: int | None, elapsed: float = 0.0) -> float:
    """The rate of update `step` (1, 2, …): a linear warm-up, then the schedule.

    Cosine and linear fall towards the end of the run: `total` updates, or, of a run with a time limit, the `elapsed`
    share of that time, whichever is nearer. Nor do they warm up for longer than a part of the time: on a slow machine
    the updates of a warm-up may take longer than the run may last.
    """
    peak, warmup = config.learning_rate, config.warmup_steps
    if step <= warmup:
        warm = max(step / warmup, elapsed / WARM if config.schedule in ("cosine", "linear") else 0.0)
        if warm < 1:
            return peak * warm
    if config.schedule == "constant":
        return peak
    if config.schedule == "inverse-sqrt":
        return peak * math.sqrt(max(warmup, 1) / step)
    by_step = 0.0 if total is None else (step - warmup) / max(1, total - warmup)
    done = min(1.0, max(by_step, elapsed))
    low = config.final_rate
    if config.schedule == "linear":
        return peak * (1 - (1 - low) * done)
    return peak * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done)))
