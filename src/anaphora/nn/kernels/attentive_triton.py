"""The steps of attentive_steps.py as Triton kernels: a look is one kernel each way, a cell is one kernel each way.

A decoder's step is so little work for a GPU that what counts is how many kernels it takes. In plain PyTorch a step is
some twenty there and thirty back; with these, and two products of matrices each way, it is four and four. A program of
a look has one row of the batch to itself: it makes the scores of all its keys, the softmax and the sum of values
without leaving its registers, and on the way back adds to the gradient of its own keys, where nobody else writes. Sums
are in float32 whatever comes in.
"""
# mypy: disallow-incomplete-defs=False
# (a kernel annotates what is known when it is compiled, and nothing else)

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from anaphora.nn.kernels import attentive_steps as steps_
from anaphora.nn.kernels.additive_triton import MASKED, _bound, _tanh

TILE = 4096
"""Keys × features that a program of a look has before it at once."""
LINE = 256
"""Numbers of a row that a program of a cell has before it."""


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _look_kernel(
    query, key, value, mask, v, context, weights, kept,
    m, d, e, scale, query_row, key_row, key_step, value_row, value_step,
    ADDITIVE: tl.constexpr, ALL: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """One row: scores of all keys, softmax, the sum of values. `kept` gets a copy of the query."""
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, ALL)
    score = tl.zeros((ALL,), dtype=tl.float32)
    for start in range(0, _bound(d), FEATURES):
        f = start + tl.arange(0, FEATURES)
        inside = (j[:, None] < m) & (f[None, :] < d)
        k = tl.load(key + b * key_row + j[:, None] * key_step + f[None, :], mask=inside, other=0.0).to(tl.float32)
        asked = tl.load(query + b * query_row + f, mask=f < d, other=0.0)
        tl.store(kept + b * d + f, asked, mask=f < d)
        q = asked.to(tl.float32)
        if ADDITIVE:
            w = tl.load(v + f, mask=f < d, other=0.0).to(tl.float32)  # beyond d: 0 adds nothing
            score += tl.sum(w[None, :] * _tanh(q[None, :] + k), axis=1)
        else:
            score += tl.sum(q[None, :] * k, axis=1) * scale
    allowed = (j < m) & (tl.load(mask + b * m + j, mask=j < m, other=0) != 0)
    score = tl.where(allowed, score, MASKED)
    share = tl.where(allowed, tl.exp(score - tl.max(score, axis=0)), 0.0)
    weight = share / tl.maximum(tl.sum(share, axis=0), 1e-30)
    tl.store(weights + b * m + j, weight, mask=j < m)
    for start in range(0, _bound(e), FEATURES):
        f = start + tl.arange(0, FEATURES)
        inside = (j[:, None] < m) & (f[None, :] < e)
        x = tl.load(value + b * value_row + j[:, None] * value_step + f[None, :], mask=inside, other=0.0)
        found = tl.sum(weight[:, None] * x.to(tl.float32), axis=0)
        tl.store(context + b * e + f, found.to(context.dtype.element_ty), mask=f < e)


@triton.jit
def _look_back_kernel(
    query, key, value, v, weights, grad, query_grad, key_grad, v_grad,
    m, d, e, scale, grad_row, key_row, key_step, value_row, value_step,
    ADDITIVE: tl.constexpr, ALL: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """One row: ∂query is written, ∂key and the row's share of ∂v are added to."""
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, ALL)
    moved = tl.zeros((ALL,), dtype=tl.float32)  # ∂w
    for start in range(0, _bound(e), FEATURES):
        f = start + tl.arange(0, FEATURES)
        inside = (j[:, None] < m) & (f[None, :] < e)
        x = tl.load(value + b * value_row + j[:, None] * value_step + f[None, :], mask=inside, other=0.0)
        g = tl.load(grad + b * e + f, mask=f < e, other=0.0).to(tl.float32)
        moved += tl.sum(g[None, :] * x.to(tl.float32), axis=1)
    weight = tl.load(weights + b * m + j, mask=j < m, other=0.0)
    pull = weight * (moved - tl.sum(weight * moved, axis=0))  # ∂s
    for start in range(0, _bound(d), FEATURES):
        f = start + tl.arange(0, FEATURES)
        inside = (j[:, None] < m) & (f[None, :] < d)
        k = tl.load(key + b * key_row + j[:, None] * key_step + f[None, :], mask=inside, other=0.0).to(tl.float32)
        q = tl.load(query + b * d + f, mask=f < d, other=0.0).to(tl.float32)
        if ADDITIVE:
            w = tl.load(v + f, mask=f < d, other=0.0).to(tl.float32)
            tanh = _tanh(q[None, :] + k)
            through = pull[:, None] * (1.0 - tanh * tanh) * w[None, :]
            for_query = tl.sum(through, axis=0)
            for_v = tl.load(v_grad + b * d + f, mask=f < d, other=0.0) + tl.sum(pull[:, None] * tanh, axis=0)
            tl.store(v_grad + b * d + f, for_v, mask=f < d)
        else:
            through = pull[:, None] * q[None, :] * scale
            for_query = tl.sum(pull[:, None] * k, axis=0) * scale
        key_at = key_grad + (b * m + j[:, None]) * d + f[None, :]
        tl.store(key_at, tl.load(key_at, mask=inside, other=0.0) + through, mask=inside)
        tl.store(query_grad + b * grad_row + f, for_query.to(query_grad.dtype.element_ty), mask=f < d)


@triton.jit
def _gru_kernel(
    below, state, bias, before, opened, after, size, below_row, state_row, LINE: tl.constexpr
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * LINE + tl.arange(0, LINE)
    here = f < size
    one, two = below + b * below_row + f, state + b * state_row + f
    state_r = tl.load(two, mask=here, other=0.0).to(tl.float32)
    state_z = tl.load(two + size, mask=here, other=0.0).to(tl.float32)
    state_n = tl.load(two + 2 * size, mask=here, other=0.0).to(tl.float32)
    state_n += tl.load(bias + f, mask=here, other=0.0).to(tl.float32)
    r = _sigmoid(tl.load(one, mask=here, other=0.0).to(tl.float32) + state_r)
    z = _sigmoid(tl.load(one + size, mask=here, other=0.0).to(tl.float32) + state_z)
    n = _tanh(tl.load(one + 2 * size, mask=here, other=0.0).to(tl.float32) + r * state_n)
    h = tl.load(before + b * size + f, mask=here, other=0.0).to(tl.float32)
    out = opened + b * 4 * size + f
    tl.store(out, r, mask=here)
    tl.store(out + size, z, mask=here)
    tl.store(out + 2 * size, n, mask=here)
    tl.store(out + 3 * size, state_n, mask=here)
    tl.store(after + b * size + f, (n + z * (h - n)).to(after.dtype.element_ty), mask=here)


@triton.jit
def _gru_back_kernel(
    grad, carried, owed, opened, before, below, past, size, grad_row, past_row,
    CARRIED: tl.constexpr, LINE: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * LINE + tl.arange(0, LINE)
    here = f < size
    g = tl.load(grad + b * grad_row + f, mask=here, other=0.0).to(tl.float32)
    if CARRIED:
        g += tl.load(carried + b * size + f, mask=here, other=0.0).to(tl.float32)
    g += tl.load(owed + b * size + f, mask=here, other=0.0)
    at = opened + b * 4 * size + f
    r, z = tl.load(at, mask=here, other=0.0), tl.load(at + size, mask=here, other=0.0)
    n, own = tl.load(at + 2 * size, mask=here, other=0.0), tl.load(at + 3 * size, mask=here, other=0.0)
    h = tl.load(before + b * size + f, mask=here, other=0.0).to(tl.float32)
    for_n = g * (1.0 - z) * (1.0 - n * n)
    for_r = for_n * own * r * (1.0 - r)
    for_z = g * (h - n) * z * (1.0 - z)
    one, two = below + b * 3 * size + f, past + b * past_row + f
    tl.store(one, for_r.to(below.dtype.element_ty), mask=here)
    tl.store(one + size, for_z.to(below.dtype.element_ty), mask=here)
    tl.store(one + 2 * size, for_n.to(below.dtype.element_ty), mask=here)
    tl.store(two, for_r.to(past.dtype.element_ty), mask=here)
    tl.store(two + size, for_z.to(past.dtype.element_ty), mask=here)
    tl.store(two + 2 * size, (for_n * r).to(past.dtype.element_ty), mask=here)
    tl.store(owed + b * size + f, g * z, mask=here)


@triton.jit
def _lstm_kernel(
    below, state, before, opened, after, hidden, size, below_row, state_row, LINE: tl.constexpr
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * LINE + tl.arange(0, LINE)
    here = f < size
    one, two = below + b * below_row + f, state + b * state_row + f
    i = tl.load(one, mask=here, other=0.0).to(tl.float32) + tl.load(two, mask=here, other=0.0).to(tl.float32)
    o = tl.load(one + 3 * size, mask=here, other=0.0).to(tl.float32)
    o += tl.load(two + 3 * size, mask=here, other=0.0).to(tl.float32)
    k = tl.load(one + size, mask=here, other=0.0).to(tl.float32)
    k += tl.load(two + size, mask=here, other=0.0).to(tl.float32)
    g = tl.load(one + 2 * size, mask=here, other=0.0).to(tl.float32)
    g += tl.load(two + 2 * size, mask=here, other=0.0).to(tl.float32)
    i, k, g, o = _sigmoid(i), _sigmoid(k), _tanh(g), _sigmoid(o)
    c = k * tl.load(before + b * size + f, mask=here, other=0.0) + i * g
    out = opened + b * 4 * size + f
    tl.store(out, i, mask=here)
    tl.store(out + size, k, mask=here)
    tl.store(out + 2 * size, g, mask=here)
    tl.store(out + 3 * size, o, mask=here)
    tl.store(after + b * size + f, c, mask=here)
    tl.store(hidden + b * size + f, (o * _tanh(c)).to(hidden.dtype.element_ty), mask=here)


@triton.jit
def _lstm_back_kernel(
    grad, carried, owed, opened, before, after, below, past, size, grad_row, past_row,
    CARRIED: tl.constexpr, LINE: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * LINE + tl.arange(0, LINE)
    here = f < size
    g_h = tl.load(grad + b * grad_row + f, mask=here, other=0.0).to(tl.float32)
    if CARRIED:
        g_h += tl.load(carried + b * size + f, mask=here, other=0.0).to(tl.float32)
    at = opened + b * 4 * size + f
    i, k = tl.load(at, mask=here, other=0.0), tl.load(at + size, mask=here, other=0.0)
    g, o = tl.load(at + 2 * size, mask=here, other=0.0), tl.load(at + 3 * size, mask=here, other=0.0)
    bent = _tanh(tl.load(after + b * size + f, mask=here, other=0.0))
    memory = tl.load(owed + b * size + f, mask=here, other=0.0) + g_h * o * (1.0 - bent * bent)
    for_i = memory * g * i * (1.0 - i)
    for_k = memory * tl.load(before + b * size + f, mask=here, other=0.0) * k * (1.0 - k)
    for_g = memory * i * (1.0 - g * g)
    for_o = g_h * bent * o * (1.0 - o)
    one, two = below + b * 4 * size + f, past + b * past_row + f
    tl.store(one, for_i.to(below.dtype.element_ty), mask=here)
    tl.store(one + size, for_k.to(below.dtype.element_ty), mask=here)
    tl.store(one + 2 * size, for_g.to(below.dtype.element_ty), mask=here)
    tl.store(one + 3 * size, for_o.to(below.dtype.element_ty), mask=here)
    tl.store(two, for_i.to(past.dtype.element_ty), mask=here)
    tl.store(two + size, for_k.to(past.dtype.element_ty), mask=here)
    tl.store(two + 2 * size, for_g.to(past.dtype.element_ty), mask=here)
    tl.store(two + 3 * size, for_o.to(past.dtype.element_ty), mask=here)
    tl.store(owed + b * size + f, memory * k, mask=here)


def _grid(rows: int, size: int) -> tuple[int, int]:
    return rows, triton.cdiv(size, LINE)


class Gru(steps_.Gru):
    def there(self, t: int, below: Tensor, state: Tensor, bias: Tensor | None = None) -> None:
        assert bias is not None
        _gru_kernel[_grid(len(below), self.size)](
            below, state, bias, self.h[t], self.opened[t], self.h[t + 1], self.size,
            below.stride(0), state.stride(0), LINE=LINE, num_warps=2,
        )  # fmt: skip

    def back(self, t: int, grad: Tensor, carried: Tensor | None, below: Tensor, past: Tensor) -> None:
        if self.owed is None:
            self.owed = self.opened.new_zeros(len(grad), self.size)
        _gru_back_kernel[_grid(len(grad), self.size)](
            grad, grad if carried is None else carried, self.owed, self.opened[t], self.h[t], below, past, self.size,
            grad.stride(0), past.stride(0), CARRIED=carried is not None, LINE=LINE, num_warps=2,
        )  # fmt: skip


class Lstm(steps_.Lstm):
    def there(self, t: int, below: Tensor, state: Tensor, bias: Tensor | None = None) -> None:
        _lstm_kernel[_grid(len(below), self.size)](
            below, state, self.c[t], self.opened[t], self.c[t + 1], self.h[t + 1], self.size,
            below.stride(0), state.stride(0), LINE=LINE, num_warps=2,
        )  # fmt: skip

    def back(self, t: int, grad: Tensor, carried: Tensor | None, below: Tensor, past: Tensor) -> None:
        if self.owed is None:
            self.owed = self.opened.new_zeros(len(grad), self.size)
        _lstm_back_kernel[_grid(len(grad), self.size)](
            grad, grad if carried is None else carried, self.owed, self.opened[t], self.c[t], self.c[t + 1], below,
            past, self.size, grad.stride(0), past.stride(0), CARRIED=carried is not None, LINE=LINE, num_warps=2,
        )  # fmt: skip


class Look(steps_.Look):
    def room(self, steps: int) -> Tensor | None:
        places = self.mask.shape[1]
        self.all = max(16, triton.next_power_of_2(places))
        self.tile = max(16, TILE // self.all)
        self.key, self.value, self.mask = self.key.contiguous(), self.value.contiguous(), self.mask.contiguous()
        self.query = self.key.new_empty(steps, len(self.key), self.key.shape[2])
        return None  # tanh is made again on the way back: sooner than it is read

    def _shape(self) -> tuple[int | float, ...]:
        places = self.mask.shape[1]
        return places, self.key.shape[2], self.value.shape[2], self.scale

    def _strides(self) -> tuple[int, ...]:
        return *self.key.stride()[:2], *self.value.stride()[:2]

    def there(self, t: int, query: Tensor) -> Tensor:
        v = query if self.v is None else self.v
        _look_kernel[(len(query),)](
            query, self.key, self.value, self.mask, v, self.context[t], self.weights[t], self.query[t],
            *self._shape(), query.stride(0), *self._strides(),
            ADDITIVE=self.v is not None, ALL=self.all, FEATURES=self.tile, num_warps=4,
        )  # fmt: skip
        return self.context[t]

    def begin_back(self) -> None:
        self.back_context = torch.empty_like(self.context)
        self.back_key = self.key.new_zeros(self.key.shape, dtype=torch.float32)
        self.back_rows = self.key.new_zeros(len(self.key), self.key.shape[2], dtype=torch.float32)  # each row's ∂v

    def back(self, t: int, query: Tensor) -> None:
        v = query if self.v is None else self.v
        _look_back_kernel[(len(query),)](
            self.query[t], self.key, self.value, v, self.weights[t], self.back_context[t], query, self.back_key,
            self.back_rows, *self._shape(), query.stride(0), *self._strides(),
            ADDITIVE=self.v is not None, ALL=self.all, FEATURES=self.tile, num_warps=4,
        )  # fmt: skip

    def end_back(self) -> tuple[Tensor, Tensor, Tensor | None]:
        over = self.weights.permute(1, 2, 0).to(self.value.dtype)  # (R, S, T)
        value = torch.bmm(over, self.back_context.transpose(0, 1))
        v = None if self.v is None else self.back_rows.sum(dim=0).to(self.v.dtype)
        return self.back_key.to(self.key.dtype), value, v
