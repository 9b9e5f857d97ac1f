"""Many small linear layers at once: every row is multiplied by the matrix of its own group, and none waits for Python.

    routes = route(chosen, experts)                      which row goes to which groups: chosen (N, k)
    x = dispatch(x, routes)                              (N, D) -> (N · k, D), rows of a group side by side
    y = grouped_linear(x, weight, bias, routes)          weight (E, H, D): (N · k, D) -> (N · k, H)
    y = combine(y, routes)                               (N · k, H) -> (N, k, H), every row back where it stood

How many rows a group has is known on the device alone. Two ways to multiply without asking for it:

- *grouped*: PyTorch's grouped product, which is given the groups' ends as a tensor. On a GPU it is a kernel of its own
  for bfloat16 from Hopper on (elsewhere PyTorch would fetch the ends and loop); on a CPU a loop in C++. Widths must be
  multiples of 16 bytes.
- *blocks*: everywhere else. Each group is filled up to whole blocks of N · k / E rows. There are never more than 2 E of
  them, whoever is chosen, so the shapes are fixed: one batched product over all blocks, each with a copy of its group's
  matrix, and at the most twice the work.

tests/support/plain_grouped.py has the loop over groups that both must equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Way = Literal["grouped", "blocks"]
GROUPED: Any = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
"""PyTorch's product; since 2.10 it has a public name."""
ALIGNED = 16
"""Bytes of which its rows must be a multiple."""


@dataclass(frozen=True)
class Routes:
    """N rows, each with k places among E groups: M = N · k places, sorted by group."""

    groups: int
    each: int  # k
    group: Tensor  # (M,) of each place, in rising order
    order: Tensor  # (M,) place -> row · k + which of its choices
    place: Tensor  # (M,) row · k + which of its choices -> place
    ends: Tensor  # (E,) int32, where each group ends

    @property
    def begins(self) -> Tensor:
        """(E,) int32, where each group begins."""
        return F.pad(self.ends[:-1], (1, 0))


def route(chosen: Tensor, groups: int) -> Routes:
    """chosen (N, k), each row's groups."""
    group, order = chosen.flatten().sort(stable=True)
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    ends = torch.searchsorted(group, torch.arange(groups, device=group.device), right=True)
    return Routes(groups, chosen.shape[1], group, order, place, ends.int())


class _Dispatch(torch.autograd.Function):
    """Both ways are gathers: a sum of scattered rows would come out otherwise every time on a GPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, place: Tensor, each: int) -> Tensor:
        ctx.save_for_backward(place)
        ctx.each = each
        return x.index_select(0, order.div(each, rounding_mode="floor"))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (place,), (gradient,) = ctx.saved_tensors, gradients
        return gradient.index_select(0, place).unflatten(0, (-1, ctx.each)).sum(dim=1), None, None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return y.index_select(0, place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return gradients[0].index_select(0, ctx.saved_tensors[0]), None, None


def dispatch(x: Tensor, routes: Routes) -> Tensor:
    """(N, D) -> (M, D): a copy of each row for each of its groups."""
    found: Tensor = _Dispatch.apply(x, routes.order, routes.place, routes.each)
    return found


def combine(y: Tensor, routes: Routes) -> Tensor:
    """(M, H) -> (N, k, H)"""
    found: Tensor = _Combine.apply(y, routes.order, routes.place)
    return found.unflatten(0, (-1, routes.each))


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor, routes: Routes, *, way: Way | None = None) -> Tensor:
    """W_g x + b_g, g being the group of each place: x (M, D), weight (E, H, D), bias (E, H) -> (M, H).

    Under autocast, in its type, like any linear layer.
    """
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
    with torch.autocast(kind, enabled=False):
        if (way or fastest(x, weight)) == "blocks" or not len(x):
            return _by_blocks(x, weight, bias, routes)
        found: Tensor = _Grouped.apply(x, weight, bias, routes.group, routes.ends)
        return found


def fastest(x: Tensor, weight: Tensor) -> Way:
    """The way that these are multiplied by."""
    sizes = (size * x.element_size() % ALIGNED for size in weight.shape[1:])
    if GROUPED is None or any(sizes):
        return "blocks"
    if x.device.type == "cpu":
        return "grouped" if x.dtype in (torch.float32, torch.bfloat16, torch.float16) else "blocks"
    if x.device.type == "cuda" and x.dtype == torch.bfloat16 and _kernel_is_right(x.device):
        return "grouped"
    return "blocks"


@lru_cache
def _kernel_is_right(device: torch.device) -> bool:
    """Whether this GPU has the kernel, and what it gives is right: tried once, with groups of odd sizes and none."""
    if torch.cuda.get_device_capability(device) < (9, 0):
        return False
    generator = torch.Generator().manual_seed(0)
    found = []
    try:
        ways: tuple[Way, ...] = ("grouped", "blocks")
        with torch.inference_mode(False), torch.enable_grad():  # whoever asks first may be about to translate
            routes = route(torch.tensor([0] * 13 + [2] * 50 + [3], device=device)[:, None], 5)
            drawn = [torch.randn(*shape, generator=generator).to(device, torch.bfloat16) for shape in SHAPES]
            for way in ways:
                x, weight, bias, pull = (one.clone().requires_grad_() for one in drawn)
                y = grouped_linear(x, weight, bias, routes, way=way)
                found.append([y.detach(), *torch.autograd.grad(y, (x, weight, bias), pull.detach())])
    except RuntimeError:
        return False
    return all(torch.allclose(ours.float(), theirs.float(), atol=0.1, rtol=0.05) for ours, theirs in zip(*found))


SHAPES = (64, 32), (5, 48, 32), (5, 48), (64, 48)


class _Grouped(torch.autograd.Function):
    """PyTorch's product, with its way back written out: it refuses some layouts that gradients come in, and knows of no
    bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, group: Tensor, ends: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, group, ends)
        return GROUPED(x.contiguous(), weight.transpose(1, 2), offs=ends).add_(bias.index_select(0, group))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, group, ends = ctx.saved_tensors
        gradient = gradients[0].contiguous()  # (M, H)
        of_x = GROUPED(gradient, weight, offs=ends) if ctx.needs_input_grad[0] else None
        of_weight = of_bias = None
        if ctx.needs_input_grad[1]:
            of_weight = GROUPED(gradient.t(), x.contiguous(), offs=ends)  # (E, H, D)
            if x.is_cuda:  # what a kernel leaves in the place of a group without rows is not promised
                empty = ends.diff(prepend=ends.new_zeros(1)) == 0
                of_weight.masked_fill_(empty[:, None, None], 0.0)
        if ctx.needs_input_grad[2]:  # the sum over each group's rows, as a product
            mine = group == torch.arange(len(ends), device=group.device)[:, None]  # (E, M)
            of_bias = mine.to(gradient.dtype) @ gradient
        return of_x, of_weight, of_bias, None, None


def _by_blocks(x: Tensor, weight: Tensor, bias: Tensor, routes: Routes) -> Tensor:
    """One batched product over blocks of rows, all of one group each."""
    places, groups = len(x), routes.groups
    rows = max(1, -(-places // groups))  # of a block
    blocks = min(places, places // rows + groups)  # Σ ⌈n_g / rows⌉ is never more
    begins = routes.begins
    needed = (routes.ends - begins + rows - 1).div(rows, rounding_mode="floor")  # (E,) blocks of each group
    behind = needed.cumsum(0)  # (E,)
    group = routes.group
    within = torch.arange(places, device=x.device) - begins[group]
    slot = (behind - needed)[group] * rows + within  # (M,): where each row stands in the blocks
    whose = torch.searchsorted(behind, torch.arange(blocks, device=x.device), right=True).clamp(max=groups - 1)
    laid = x.new_zeros(blocks * rows, x.shape[1]).index_copy(0, slot, x).unflatten(0, (blocks, rows))
    y = torch.baddbmm(bias[whose][:, None], laid, weight[whose].transpose(1, 2))  # (blocks, rows, H)
    return y.flatten(0, 1).index_select(0, slot)
