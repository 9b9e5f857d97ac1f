"""Averages of weights: over time while training (a moving average, or averaged SGD), and over the last checkpoints at
the end (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from anaphora.folder import WEIGHTS
from anaphora.models.weights import read_weights


class WeightAverage:
    """A mean of the weights that follows them, update by update; it is validated and published in their place."""

    def __init__(self, model: nn.Module) -> None:
        self.live = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.mean = {name: p.detach().clone() for name, p in self.live.items()}

    def update(self, step: int) -> None:
        """Take in the weights after update `step` (1, 2, …)."""
        raise NotImplementedError

    @torch.no_grad()
    def towards(self, share: float) -> None:
        """θ̄ ← θ̄ + share · (θ - θ̄)"""
        torch._foreach_lerp_(list(self.mean.values()), list(self.live.values()), share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the model *is* the average; afterwards the live weights are back, bit for bit."""
        with torch.no_grad():
            saved = {name: p.detach().clone() for name, p in self.live.items()}
            for name, p in self.live.items():
                p.copy_(self.mean[name])
            try:
                yield
            finally:
                for name, p in self.live.items():
                    p.copy_(saved[name])


class MovingAverage(WeightAverage):
    """θ̄ ← decay · θ̄ + (1 - decay) · θ after every update.

    The decay is smaller at first, (1 + t) / (10 + t), so that the random weights of the start are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model)
        self.decay = decay

    def update(self, step: int) -> None:
        self.towards(1 - min(self.decay, (1 + step) / (10 + step)))


class DescentAverage(WeightAverage):
    """The mean of all weights since update `since`; before that, the weights themselves.

    Plain descent with a constant rate ends by circling round the best weights; their mean is nearer to them than any of
    them is (Polyak & Juditsky 1992). When the circling begins, validation knows (Merity et al. 2018).
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.since: int | None = None

    def update(self, step: int) -> None:
        self.towards(1.0 if self.since is None else 1 / max(1, step - self.since))


def average_weights(
    checkpoints: Sequence[Path], read: Callable[[Path], dict[str, Tensor]] = lambda path: read_weights(path / WEIGHTS)
) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, summed in float64. read: how to get those of one."""
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for checkpoint in checkpoints:
        for name, tensor in read(checkpoint).items():
            kinds[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(checkpoints)).to(kinds[name]) for name, tensor in total.items()}
