"""How a gradient becomes a change of weights: Adam, AdamW or plain descent. How large it is at each step, schedule.py
says."""

from __future__ import annotations

import torch
from torch import nn

from anaphora.training.training_settings import TrainingConfig


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
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
