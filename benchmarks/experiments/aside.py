"""What only the optimizer waits for, on a second stream: weights' gradients and sums of biases' gradients.

Asked: do such products (16,384 numbers added up for each of 512 x 512: few tiles, an idle card) hide behind the kernels
of the backward pass that wait for memory? A CUDA graph keeps both branches. Off unless `ASIDE.begin()` was called.

Whoever hands work over promises that nothing reads the result before `ASIDE.join()`; what it reads is kept alive until
then, since the allocator knows one stream only. The results become `.grad` by hand: autograd, given them, might copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Aside:
    def __init__(self) -> None:
        self.stream: torch.cuda.Stream | None = None
        self.kept: list[Tensor | None] = []

    def begin(self) -> None:
        self.stream = torch.cuda.Stream()

    def end(self) -> None:
        self.stream = None

    def join(self) -> None:
        """Before the optimizer reads gradients."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            self.kept.clear()

    def gradients(
        self, parameters: Sequence[Tensor | None], work: Callable[[], Sequence[Tensor]], *reads: Tensor | None
    ) -> list[Tensor | None]:
        """work() gives a gradient for each parameter (None: it is not wanted) -> what a backward function returns."""
        if self.stream is None or not all(p is None or p.is_leaf for p in parameters):
            return [None if p is None else g for p, g in zip(parameters, work())]
        self.kept += reads
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for parameter, gradient in zip(parameters, work()):
                if parameter is not None:
                    assert parameter.grad is None, "a parameter that is used twice"
                    parameter.grad = gradient
        return [None] * len(parameters)


ASIDE = Aside()
