"""Rows by the matrices of their groups: both ways equal a loop, in values and gradients, whoever is chosen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from anaphora.nn.kernels import grouped
from anaphora.nn.kernels.grouped import combine, dispatch, fastest, grouped_linear, route
from plain_grouped import plain_grouped

WAYS = ("grouped", "blocks")


def drawn(rows: int, groups: int, dim: int, hidden: int, seed: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (rows, dim), (groups, hidden, dim), (groups, hidden)
    return [torch.randn(*shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def both(x: Tensor, chosen: Tensor, weight: Tensor, bias: Tensor, way: Any) -> tuple[Tensor, Tensor]:
    routes = route(chosen, len(weight))
    return combine(grouped_linear(dispatch(x, routes), weight, bias, routes, way=way), routes), plain_grouped(
        x, chosen, weight, bias
    )


@st.composite
def choices(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Rows with k different groups each; some groups are chosen by nobody, and some by all."""
    groups = draw(st.integers(1, 6))
    each = draw(st.integers(1, groups))
    row = st.permutations(range(groups)).map(lambda order: order[:each])
    return draw(st.lists(row, min_size=1, max_size=12)), groups


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=40)
@given(case=choices(), seed=st.integers(0, 99))
def test_values_and_gradients_are_those_of_a_loop(way: str, case: tuple[list[list[int]], int], seed: int) -> None:
    rows, groups = case
    dtype = torch.float32 if way == "grouped" else torch.float64
    given_ = drawn(len(rows), groups, 8, 12, seed, dtype)
    ours, theirs = both(given_[0], torch.tensor(rows), given_[1], given_[2], way)
    pull = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(seed + 1)).to(dtype)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for one, other in zip(torch.autograd.grad(ours, given_, pull), torch.autograd.grad(theirs, given_, pull)):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("chosen", [[[1]] * 40, [[group] for group in range(5)] * 8, [[4], [0]]], ids=str)
def test_all_rows_with_one_group_and_rows_spread_evenly(way: str, chosen: list[list[int]]) -> None:
    x, weight, bias = drawn(len(chosen), 5, 16, 8, 3, torch.float32)
    ours, theirs = both(x, torch.tensor(chosen), weight, bias, way)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_no_rows_at_all() -> None:
    x, weight, bias = drawn(0, 3, 8, 8, 1, torch.float32)
    ours, _ = both(x, torch.empty(0, 2, dtype=torch.long), weight, bias, None)
    assert ours.shape == (0, 2, 8)
    ours.sum().backward()
    assert not weight.grad.any()  # type: ignore[union-attr]


@pytest.mark.parametrize("way", WAYS)
def test_a_gradient_in_any_layout(way: str) -> None:
    """The gradient of a sum is one number, expanded: PyTorch's own way back refuses it."""
    x, weight, bias = drawn(6, 3, 8, 8, 2, torch.float32)
    chosen = torch.tensor([[0, 1], [1, 2], [0, 2]] * 2)
    ours, theirs = both(x, chosen, weight, bias, way)
    found = [torch.autograd.grad(y.sum(), (x, weight, bias), retain_graph=True) for y in (ours, theirs)]
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_under_autocast_it_is_computed_like_any_linear_layer() -> None:
    x, weight, bias = drawn(10, 3, 8, 8, 2, torch.float32)
    routes = route(torch.zeros(10, 1, dtype=torch.long), 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = grouped_linear(x, weight, bias, routes)
        theirs = torch.nn.functional.linear(x, weight[0], bias[0])
    assert ours.dtype == theirs.dtype == torch.bfloat16
    torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)
    ours.float().sum().backward()
    assert weight.grad is not None and weight.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("dtype", "dim", "way"),
    [
        (torch.float32, 8, "grouped"),
        (torch.bfloat16, 8, "grouped"),
        (torch.bfloat16, 12, "blocks"),  # 24 bytes
        (torch.float32, 7, "blocks"),
        (torch.float64, 8, "blocks"),
    ],
)
def test_which_way_is_taken(dtype: torch.dtype, dim: int, way: str) -> None:
    x, weight, _ = drawn(4, 2, dim, 16, 1, dtype)
    assert fastest(x, weight) == way


def test_a_kernel_is_tried_though_nothing_is_being_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is only used tries it out with gradients all the same: the answer is kept for those who learn."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    tried = grouped._kernel_is_right.__wrapped__
    assert tried(torch.device("cpu"))
    with torch.inference_mode():
        assert tried(torch.device("cpu"))
    with torch.no_grad():
        assert tried(torch.device("cpu"))


class Shapes(TorchDispatchMode):
    """Every operation, and the shapes that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.seen.append((str(func), [one.shape for one in tree_leaves(made) if isinstance(one, Tensor)]))
        return made


@pytest.mark.parametrize("way", WAYS)
def test_nothing_depends_on_who_is_chosen_but_numbers(way: Any) -> None:
    """The same operations with the same shapes, and none that fetches a number: what a graph recorded for some rows can
    be replayed for others."""
    seen = []
    for chosen in (torch.zeros(24, 2, dtype=torch.long), torch.arange(48).view(24, 2) % 6):
        x, weight, bias = drawn(24, 6, 8, 4, 1, torch.float32)
        with Shapes() as shapes:
            routes = route(chosen, 6)
            y = combine(grouped_linear(dispatch(x, routes), weight, bias, routes, way=way), routes)
            torch.autograd.grad(y, (x, weight, bias), torch.ones_like(y))
        seen.append(shapes.seen)
    assert seen[0] == seen[1]
    assert len(seen[0]) > 10
    fetches = ("_local_scalar_dense", "nonzero", "_to_cpu", "masked_select", "bincount")
    assert not [name for name, _ in seen[0] if any(fetch in name for fetch in fetches)]


def test_blocks_are_at_the_most_twice_the_work() -> None:
    x, weight, bias = drawn(24, 6, 8, 4, 1, torch.float64)
    routes = route(torch.arange(48).view(24, 2) % 6, 6)
    with FlopCounterMode(display=False) as counter:
        grouped_linear(dispatch(x, routes), weight, bias, routes, way="blocks")
    assert 2 * 48 * 8 * 4 <= counter.get_total_flops() <= 2 * 2 * 48 * 8 * 4
