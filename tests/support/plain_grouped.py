"""The reference of nn/kernels/grouped.py: a loop over groups."""

from __future__ import annotations

from torch import Tensor


def plain_grouped(x: Tensor, chosen: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (N, D), chosen (N, k), weight (E, H, D), bias (E, H) -> (N, k, H): each row by the matrices of its groups."""
    y = x.new_zeros(*chosen.shape, weight.shape[1])
    for group in range(len(weight)):
        row, which = (chosen == group).nonzero(as_tuple=True)
        y = y.index_put((row, which), x[row] @ weight[group].t() + bias[group])
    return y
