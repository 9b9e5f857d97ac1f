"""Experts that are all asked: what a mixture of experts adds to any objective (nn/mixture_of_experts.py).

    loss = what the model learns anyhow + tokens · Σ over layers of balance · (CV²(importance) + CV²(load))

The loop divides a loss by the batch's tokens, so the second part is worth the same in a batch of any size. Who was
asked is counted on the device and read only when the log is written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from anaphora.nn.mixture_of_experts import load, mixtures
from anaphora.tokenizers.tokenizer import PAD
from anaphora.training.objectives.objective import Forward, Objective


class BalancedObjective:
    """An objective plus what its model's experts need."""

    def __init__(self, inner: Objective, model: nn.Module) -> None:
        self.inner, self.layers = inner, mixtures(model)
        self.side = inner.side

    def send(self, batch: Any, device: torch.device) -> Any:
        return self.inner.send(batch, device)

    def __call__(self, forward: Forward, batch: Any) -> Tensor:
        loss = self.inner(forward, batch)
        told = [layer.imbalance for layer in self.layers if layer.imbalance is not None]
        for layer in self.layers:
            layer.imbalance = None  # it holds the whole graph
        return loss + torch.stack(told).sum() * tokens_of(batch) if told else loss

    def flops(self, model: Any, batch: Any) -> float:
        return self.inner.flops(model, batch)

    def state_dict(self) -> dict[str, Tensor]:
        return self.inner.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.inner.load_state_dict(state)
        self.forget()

    def metrics(self) -> dict[str, Any]:
        """Who was asked since this was last asked."""
        found = {f"expert_{name}" if name != "experts" else name: value for name, value in load(self.layers).items()}
        self.forget()
        return {**self.inner.metrics(), **found}

    def forget(self) -> None:
        for layer in self.layers:
            layer.asked.zero_()


def balanced(objective: Objective, model: nn.Module) -> Objective:
    """The objective, and with it the balance of experts where the model has any."""
    return BalancedObjective(objective, model) if mixtures(model) else objective


def tokens_of(batch: Any) -> Tensor:
    """What a loss is a sum over, counted on the device: a recorded graph is given other batches later on."""
    inside = getattr(batch, "translation", batch)
    if hasattr(inside, "labels"):
        return (inside.labels != PAD).sum()
    return (inside.classes >= 0).sum()
