"""Weight normalization (Salimans & Kingma 2016): the length of a weight vector is learned apart from its direction.

    y = W x + b        W's rows: w = g · v / |v|

A step along v turns w without making it longer, so the size of what a layer says hangs on g alone. Networks whose
scale is kept by design, not by norms of activations, learn well this way (ConvS2S, WaveNet). A convolution is such a
product too, of windows (nn/convolution.py: `windows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NormalizedLinear(nn.Module):
    """x (…, inputs) -> (…, outputs); v is drawn with that deviation, g begins as |v|, so that W begins as v."""

    def __init__(self, inputs: int, outputs: int, *, deviation: float) -> None:
        super().__init__()
        self.in_features, self.out_features = inputs, outputs
        self.direction = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.normal_(self.direction, std=deviation)
        self.length = nn.Parameter(self.direction.detach().norm(dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._made: tuple[tuple[Any, ...], Tensor] | None = None

    @property
    def weight(self) -> Tensor:
        """W (outputs, inputs). While the layer is only used it is made once, not at every step of a search, and made
        anew as soon as g or v may have changed."""
        if torch.compiler.is_compiling():
            return self._normalized()
        if self.training or torch.is_grad_enabled():
            self._made = None
            return self._normalized()
        state = (self.direction.data_ptr(), self.direction._version, self.length._version)
        if self._made is None or self._made[0] != state:
            self._made = state, self._normalized()
        return self._made[1]

    def _normalized(self) -> Tensor:
        return torch._weight_norm(self.direction, self.length[:, None], 0)

    def train(self, mode: bool = True) -> NormalizedLinear:
        self._made = None  # a fused optimizer and a replayed graph change g and v without counting it
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> NormalizedLinear:
        self._made = None  # another device or type
        return super()._apply(fn, recurse)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def flops(self) -> float:
        """For each vector; W itself is made once for all of them."""
        return 2.0 * self.direction.numel()
