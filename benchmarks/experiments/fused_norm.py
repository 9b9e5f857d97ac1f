"""Residual + bias + dropout + LayerNorm, and bias + activation, each as one kernel forward and one backward.

Asked: what do the element-wise parts of a Transformer cost if each tensor is read and written as seldom as can be? With
(N, D) bf16 tensors of 2 N D bytes, "one" below:

    add_norm, post   z = x + dropout(y + b), out = LN(z): reads x, y, writes z, out; 4 forward. Backward reads z and
                     the two gradients of out (of the sublayer's product and of the residual: added here, so that
                     autograd need not), writes dx, dy: 5
    add_norm, pre    the same z and out, both of which go on; without dropout dx is dy: 4 forward, 4 backward
    activate         gelu(x + b): 2 forward; backward reads x and the gradient, writes one: 3. ReLU stands in the
                     product's epilogue already; backward, from its output, 3

Gradients of biases, gains and shifts cost no pass of their own: each program walks over many rows and adds up in
registers, what it has goes to a row of a small float32 tensor, and one small kernel adds those. Dropout's mask is not
stored: it is a hash of (seed, site, element), made again backward; the seed lies on the device, so that a CUDA graph
draws anew. Limit: bytes. Prediction, N = 16,384, D = 512 (one = 16.8 MB = 4.0 us at 4.2 TB/s): post 16 + 20 us,
reached at 75%: 21 + 28 us, where inductor takes 35 + 84; a translator's 30 of them 1.5 ms instead of 3.6. ReLU's
backward (2,048 wide) 48 us -> 58. GPT-2 (32,768 x 768, one = 50 MB = 12 us): pre 48 + 48 us -> 62 each; gelu 96 + 144
-> 110 + 165.
Command: python3 benchmarks/experiments/fused_norm.py [--smoke] [--only check,post,pre,relu,gelu]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import measure  # noqa: F401  # isort: skip (before Triton: it chooses the interpreter)

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from aside import ASIDE
from measure import (
    DEVICE,
    HALF,
    SMOKE,
    ceilings,
    compiled,
    fastest,
    kernel_ms,
    last_line,
    limit_ms,
    relative,
    say,
    section,
)
from torch import Tensor

PROCESSORS = 2 if SMOKE else torch.cuda.get_device_properties(0).multi_processor_count


@triton.jit
def _draw(seed, site, at):
    """24 random bits for element `at` of dropout number `site` under a seed: a keyed hash of 32 bits (two
    multiplications and three shifts, the finalizer of C. Wellons' hash-prospector), a fifth of what Philox takes
    and as even."""
    key = (seed.to(tl.uint32) * 0x9E3779B1) ^ (site.to(tl.uint32) * 0x85EBCA77)
    key = (key ^ (key >> 15)) * 0x2C1B3C6D
    x = at.to(tl.uint32) ^ (key ^ (key >> 13))
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15) ^ (key >> 3)) * 0x846CA68B
    return (x ^ (x >> 16)) >> 8


@triton.jit
def _drop(x, seed, site, at, scale, THRESHOLD: tl.constexpr):
    """Dropout: what stays, times 1 / (1 - p). THRESHOLD is p · 2²⁴; 0: none."""
    if THRESHOLD > 0:
        x = tl.where(_draw(tl.load(seed), site, at) >= THRESHOLD, x * scale, 0.0)
    return x


@triton.jit
def _column_sums(parts, sums, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """(rows, columns) float32 -> its sum over rows; a tile is added to in place and reduced once."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        total += tl.load(parts + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(sums + column, tl.sum(total, 0).to(sums.dtype.element_ty), mask=column < columns)


def column_sums(parts: Tensor, dtype: torch.dtype) -> Tensor:
    """(P, …) float32 -> (…): small (P is a few hundred), so many narrow programs with few steps each."""
    sums = torch.empty(parts.shape[1:], device=parts.device, dtype=dtype)
    rows, columns = len(parts), sums.numel()
    width = 16
    _column_sums[(triton.cdiv(columns, width),)](parts, sums, rows, columns, ROWS=128, COLUMNS=width, num_warps=4)
    return sums


@triton.jit(do_not_specialize=["site"])  # else three compilations, one for 1 and one for multiples of 16
def _add_norm(
    x, y, bias, weight, shift, total, out, means, rstds, seed, site, rows, epsilon, scale,
    DIM: tl.constexpr, THRESHOLD: tl.constexpr, ADD: tl.constexpr, BIAS: tl.constexpr, SHIFT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """ROWS rows: total = x + dropout(y + bias), out = LN(total), statistics in float32 of what was rounded and
    stored."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < DIM)[None, :]
    at = row.to(tl.int64)[:, None] * DIM + column[None, :]
    z = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        added = tl.load(y + at, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            added += tl.load(bias + column, mask=column < DIM, other=0.0).to(tl.float32)[None, :]
        z += _drop(added, seed, site, at, scale, THRESHOLD)
        rounded = z.to(total.dtype.element_ty)
        tl.store(total + at, rounded, mask=inside)
        z = rounded.to(tl.float32)
    mean = (
        tl.sum(tl.where(inside, z, 0.0), 1) / DIM
    )  # padding of a row holds the bias of nothing: 0 as well, but for sure
    centered = tl.where(inside, z - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, 1) / DIM + epsilon)
    gain = tl.load(weight + column, mask=column < DIM, other=0.0).to(tl.float32)
    normed = centered * rstd[:, None] * gain[None, :]
    if SHIFT:
        normed += tl.load(shift + column, mask=column < DIM, other=0.0).to(tl.float32)[None, :]
    tl.store(out + at, normed.to(out.dtype.element_ty), mask=inside)
    tl.store(means + row, mean, mask=row < rows)
    tl.store(rstds + row, rstd, mask=row < rows)


@triton.jit(do_not_specialize=["site"])  # else three compilations, one for 1 and one for multiples of 16
def _add_norm_backward(
    total, for_out, second, weight, means, rstds, dx, dy, sums, seed, site, rows, scale,
    DIM: tl.constexpr, THRESHOLD: tl.constexpr, SECOND: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """With x̂ = (z - mean) rstd and g = w ∂out:  ∂z = rstd (g - mean(g) - x̂ mean(g x̂)); ∂x = ∂z, ∂y its dropout.

    SECOND says what else arrives: "out", another gradient of out (post-norm: out is sublayer's input and residual);
    "total", one of z itself (pre-norm); "", nothing. sums[program] = ∂weight, ∂shift, ∂bias of the program's rows.
    """
    column = tl.arange(0, COLUMNS)
    gain = tl.load(weight + column, mask=column < DIM, other=0.0).to(tl.float32)[None, :]
    for_weight = tl.zeros((ROWS, COLUMNS), tl.float32)
    for_shift = tl.zeros((ROWS, COLUMNS), tl.float32)
    for_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < DIM)[None, :]
        at = row.to(tl.int64)[:, None] * DIM + column[None, :]
        g = tl.load(for_out + at, mask=inside, other=0.0).to(tl.float32)
        if SECOND != "":
            more = tl.load(second + at, mask=inside, other=0.0).to(tl.float32)
        z = tl.load(total + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(means + row, mask=row < rows, other=0.0)[:, None]
        rstd = tl.load(rstds + row, mask=row < rows, other=0.0)[:, None]
        if SECOND == "out":
            g += more
        hat = tl.where(inside, (z - mean) * rstd, 0.0)
        for_weight += g * hat
        for_shift += g
        g *= gain
        dz = (g - tl.sum(g, 1)[:, None] / DIM - hat * (tl.sum(g * hat, 1)[:, None] / DIM)) * rstd
        dz = tl.where(inside, dz, 0.0)
        if SECOND == "total":
            dz += more
        tl.store(dx + at, dz.to(dx.dtype.element_ty), mask=inside)
        if THRESHOLD > 0:
            dz = _drop(dz, seed, site, at, scale, THRESHOLD)
            tl.store(dy + at, dz.to(dy.dtype.element_ty), mask=inside)
        for_bias += dz
    mine = sums + tl.program_id(0) * 3 * DIM + column
    tl.store(mine, tl.sum(for_weight, 0), mask=column < DIM)
    tl.store(mine + DIM, tl.sum(for_shift, 0), mask=column < DIM)
    tl.store(mine + 2 * DIM, tl.sum(for_bias, 0), mask=column < DIM)


def add_norm_forward(
    x: Tensor,
    y: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    shift: Tensor | None,
    seed: Tensor | None,
    site: int,
    dropout: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x and y (…, D) -> z (x itself, where there is no y), LN(z), and means and reciprocal deviations (N,)."""
    dim, rows = x.shape[-1], x.numel() // x.shape[-1]
    assert x.is_contiguous() and (y is None or y.is_contiguous())
    out = torch.empty_like(x)
    total = x if y is None else torch.empty_like(x)
    means, rstds = (torch.empty(rows, device=x.device) for _ in range(2))
    flags = {
        "THRESHOLD": threshold(dropout),
        "ADD": y is not None,
        "BIAS": bias is not None,
        "SHIFT": shift is not None,
    }

    def launch(block: int, warps: int) -> None:
        _add_norm[(triton.cdiv(rows, block),)](
            x, y, bias, weight, shift, total, out, means, rstds, seed, site, rows, epsilon, 1 / (1 - dropout),
            DIM=dim, ROWS=block, COLUMNS=triton.next_power_of_2(dim), num_warps=warps, **flags,
        )  # fmt: skip

    launch(*fastest(("add_norm", dim), [(4, 4), (2, 1), (1, 1)], launch, rows))
    return total, out, means, rstds


def add_norm_backward(
    for_out: Tensor,
    second: Tensor | None,
    total: Tensor,
    weight: Tensor,
    means: Tensor,
    rstds: Tensor,
    seed: Tensor | None,
    site: int,
    dropout: float,
    pre: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """-> ∂x, ∂y (the same tensor where nothing is dropped), and the sums (P, 3, D) of ∂weight, ∂shift, ∂bias."""
    dim, rows = total.shape[-1], len(means)
    for_out = for_out.contiguous()
    second = None if second is None else second.contiguous()
    dx = torch.empty_like(total)
    dy = torch.empty_like(total) if dropout else dx
    flags = {"THRESHOLD": threshold(dropout), "SECOND": "" if second is None else "total" if pre else "out"}

    def launch(block: int, warps: int, each: int) -> Tensor:
        sums = torch.empty(each * PROCESSORS, 3, dim, device=total.device)
        _add_norm_backward[(len(sums),)](
            total, for_out, second, weight, means, rstds, dx, dy, sums, seed, site, rows, 1 / (1 - dropout),
            DIM=dim, ROWS=block, COLUMNS=triton.next_power_of_2(dim), num_warps=warps, **flags,
        )  # fmt: skip
        return sums

    ways = [(4, 4, 4), (4, 8, 2), (2, 4, 4), (1, 1, 8)]
    return dx, dy, launch(*fastest(("add_norm backward", dim), ways, launch, rows))


def threshold(dropout: float) -> int:
    return int(dropout * 2**24)


class AddNorm(torch.autograd.Function):
    """z = x + dropout(y + bias), out = LN(z). post: -> out twice, for the sublayer and for the residual, so that their
    gradients arrive apart and are added where they are read; pre: -> z, out."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor | None,
        bias: Tensor | None,
        weight: Tensor,
        shift: Tensor | None,
        seed: Tensor | None,
        site: int,
        dropout: float,
        epsilon: float,
        pre: bool,
    ) -> tuple[Tensor, Tensor]:
        total, out, means, rstds = add_norm_forward(x, y, bias, weight, shift, seed, site, dropout, epsilon)
        ctx.save_for_backward(total, weight, means, rstds, seed)
        ctx.how = site, dropout, pre
        ctx.parameters, ctx.added = (weight, shift, bias), y is not None
        ctx.set_materialize_grads(False)
        return (total.view_as(total) if y is None else total, out) if pre else (out, out.view_as(out))

    @staticmethod
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> tuple[Tensor | None, ...]:
        total, weight, means, rstds, seed = ctx.saved_tensors
        if ctx.how[2] or first is None:
            first, second = second, first
        if first is None:  # pre-norm whose norm nobody read
            first = torch.zeros_like(total)
        dx, dy, sums = add_norm_backward(first, second, total, weight, means, rstds, seed, *ctx.how)
        for_weight, for_shift, for_bias = ASIDE.gradients(
            ctx.parameters, lambda: column_sums(sums, weight.dtype).unbind(), sums
        )
        return dx, dy if ctx.added else None, for_bias, for_weight, for_shift, None, None, None, None, None


def add_norm(
    x: Tensor,
    y: Tensor | None,
    bias: Tensor | None,
    norm: torch.nn.LayerNorm,
    *,
    seed: Tensor | None = None,
    site: int = 0,
    dropout: float = 0.0,
    pre: bool,
) -> tuple[Tensor, Tensor]:
    """`seed` () int32 on the device, `site` the dropout's number in the model."""
    both: tuple[Tensor, Tensor] = AddNorm.apply(x, y, bias, norm.weight, norm.bias, seed, site, dropout, norm.eps, pre)
    return both


def plain_add_norm(
    x: Tensor, y: Tensor, bias: Tensor, norm: torch.nn.LayerNorm, dropout: float, pre: bool
) -> tuple[Tensor, Tensor]:
    """The reference, and what inductor is given."""
    z = x + F.dropout(y + bias, dropout)
    out = F.layer_norm(z, z.shape[-1:], norm.weight, norm.bias, norm.eps)
    return (z, out) if pre else (out, out.view_as(out))


# The same for those who compile: operations the compiler takes whole and asks nothing about. Post-norm's two gradients
# are then added before they come here.


@torch.library.custom_op(
    "experiments::add_norm",
    mutates_args=(),
    schema="(Tensor x, Tensor y, Tensor bias, Tensor weight, Tensor shift, Tensor seed, int site, float dropout, "
    "float eps) -> (Tensor, Tensor, Tensor, Tensor)",
)
def add_norm_op(
    x: Tensor,
    y: Tensor,
    bias: Tensor,
    weight: Tensor,
    shift: Tensor,
    seed: Tensor,
    site: int,
    dropout: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return add_norm_forward(x, y, bias, weight, shift, seed, site, dropout, eps)


@add_norm_op.register_fake
def _(x: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = x.numel() // x.shape[-1]
    means, rstds = (x.new_empty(rows, dtype=torch.float32) for _ in range(2))
    return torch.empty_like(x), torch.empty_like(x), means, rstds


@torch.library.custom_op(
    "experiments::add_norm_backward",
    mutates_args=(),
    schema="(Tensor for_out, Tensor for_total, Tensor total, Tensor weight, Tensor means, Tensor rstds, Tensor seed, "
    "int site, float dropout) -> (Tensor, Tensor, Tensor)",
)
def add_norm_backward_op(
    for_out: Tensor,
    for_total: Tensor,
    total: Tensor,
    weight: Tensor,
    means: Tensor,
    rstds: Tensor,
    seed: Tensor,
    site: int,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dy, sums = add_norm_backward(for_out, for_total, total, weight, means, rstds, seed, site, dropout, pre=True)
    return dx, dy.clone() if dy is dx else dy, column_sums(sums, weight.dtype)


@add_norm_backward_op.register_fake
def _(for_out: Tensor, for_total: Tensor, total: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(total), torch.empty_like(total), weight.new_empty(3, total.shape[-1])


def _op_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, _, weight, _, seed, site, dropout, _ = inputs
    total, _, means, rstds = output
    ctx.save_for_backward(total, weight, means, rstds, seed)
    ctx.how = site, dropout
    ctx.mark_non_differentiable(means, rstds)


def _op_backward(ctx: Any, for_total: Tensor, for_out: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    total, weight, means, rstds, seed = ctx.saved_tensors
    dx, dy, sums = add_norm_backward_op(for_out, for_total, total, weight, means, rstds, seed, *ctx.how)
    return dx, dy, sums[2], sums[0], sums[1], None, None, None, None


add_norm_op.register_autograd(_op_backward, setup_context=_op_context)


@triton.jit
def _gelu(x, slope: tl.constexpr):
    """tanh's approximation of GELU, x σ(2u) with u = √(2/π) (x + 0.044715 x³), or its derivative."""
    squared = x * x
    u = 1.5957691216057308 * x * (1.0 + 0.044715 * squared)  # 2u
    sigma = 1.0 / (1.0 + tl.exp2(-1.4426950408889634 * u))
    if slope:
        return sigma * (1.0 + x * (1.0 - sigma) * 1.5957691216057308 * (1.0 + 0.134145 * squared))
    else:
        return x * sigma


@triton.jit(do_not_specialize=["site"])  # else three compilations, one for 1 and one for multiples of 16
def _activate(
    x, bias, out, seed, site, rows, columns, scale,
    KIND: tl.constexpr, THRESHOLD: tl.constexpr, BIAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of dropout(f(x + bias)); a row's tiles one behind the other."""
    tiles = tl.cdiv(columns, COLUMNS)
    row = tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    at = row.to(tl.int64)[:, None] * columns + column[None, :]
    z = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        z += tl.load(bias + column, mask=column < columns, other=0.0).to(tl.float32)[None, :]
    z = _gelu(z, False) if KIND == "gelu" else tl.maximum(z, 0.0)
    z = _drop(z, seed, site, at, scale, THRESHOLD)
    tl.store(out + at, z.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["site"])  # else three compilations, one for 1 and one for multiples of 16
def _activate_backward(
    kept, bias, gradient, target, sums, seed, site, rows, columns, target_step, sums_step, scale,
    KIND: tl.constexpr, THRESHOLD: tl.constexpr, BIAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """target = ∂(x + bias), and sums[program] its sum over the program's rows. `kept` is what the forward pass was
    given (gelu) or gave (relu: dropped or cut, both are 0 there, and so is the slope); KIND "copy" takes the
    gradient as it is."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    if KIND == "gelu":
        more = tl.zeros((COLUMNS,), tl.float32)
        if BIAS:
            more = tl.load(bias + column, mask=column < columns, other=0.0).to(tl.float32)
    for start in range(tl.program_id(1) * ROWS, rows, tl.num_programs(1) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        at = row.to(tl.int64)[:, None] * columns + column[None, :]
        g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        if KIND == "gelu":
            z = tl.load(kept + at, mask=inside, other=0.0).to(tl.float32) + more[None, :]
            g = _drop(g, seed, site, at, scale, THRESHOLD) * _gelu(z, True)
        if KIND == "relu":
            g = tl.where(tl.load(kept + at, mask=inside, other=0.0).to(tl.float32) > 0.0, g * scale, 0.0)
        total += g
        tl.store(
            target + row.to(tl.int64)[:, None] * target_step + column[None, :],
            g.to(target.dtype.element_ty),
            mask=inside,
        )
    tl.store(sums + tl.program_id(1) * sums_step + column, tl.sum(total, 0), mask=column < columns)


def activate(
    x: Tensor,
    bias: Tensor | None,
    kind: str,
    seed: Tensor | None = None,
    site: int = 0,
    dropout: float = 0.0,
) -> Tensor:
    """(…, D) -> dropout(f(x + bias)), without a gradient of its own."""
    columns, rows = x.shape[-1], x.numel() // x.shape[-1]
    out = torch.empty_like(x)

    def launch(block: int, width: int, warps: int) -> None:
        _activate[(triton.cdiv(rows, block) * triton.cdiv(columns, width),)](
            x, bias, out, seed, site, rows, columns, 1 / (1 - dropout), KIND=kind, THRESHOLD=threshold(dropout),
            BIAS=bias is not None, ROWS=block, COLUMNS=width, num_warps=warps,
        )  # fmt: skip

    launch(*fastest(("activate", kind, columns), [(4, 512, 4), (8, 512, 8)], launch, rows))
    return out


def activate_backward(
    gradient: Tensor,
    kept: Tensor | None,
    bias: Tensor | None,
    kind: str,
    seed: Tensor | None = None,
    site: int = 0,
    dropout: float = 0.0,
    into: Tensor | None = None,
    sums: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """gradient (…, D) -> ∂(x + bias), written to `into` (its rows may lie apart), and sums over rows (P, D) float32."""
    columns, rows = gradient.shape[-1], gradient.numel() // gradient.shape[-1]
    assert gradient.is_contiguous()
    target = torch.empty_like(gradient) if into is None else into
    step = columns if into is None else into.stride(0)
    given = sums

    def launch(block: int, width: int, warps: int) -> Tensor:
        parts = torch.empty(2 * PROCESSORS, columns, device=gradient.device) if given is None else given
        _activate_backward[(triton.cdiv(columns, width), len(parts))](
            kept, bias, gradient, target, parts, seed, site, rows, columns, step, parts.stride(0), 1 / (1 - dropout),
            KIND=kind, THRESHOLD=threshold(dropout), BIAS=bias is not None, ROWS=block, COLUMNS=width, num_warps=warps,
        )  # fmt: skip
        return parts

    ways = [(4, 512, 4), (8, 256, 4), (8, 512, 8)]
    return target, launch(*fastest(("activate backward", kind, columns), ways, launch, rows))


class Activate(torch.autograd.Function):
    """dropout(f(x + bias)) of a product x (N, D) without its bias."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor | None, kind: str, seed: Tensor | None, site: int, dropout: float
    ) -> Tensor:
        out = activate(x, bias, kind, seed, site, dropout)
        ctx.save_for_backward(x if kind == "gelu" else out, bias, seed)
        ctx.how = kind, site, dropout
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        kept, bias, seed = ctx.saved_tensors
        kind, site, dropout = ctx.how
        dx, parts = activate_backward(gradient.contiguous(), kept, bias, kind, seed, site, dropout)
        return dx, None if bias is None else column_sums(parts, bias.dtype), None, None, None, None


def plain_activate(x: Tensor, bias: Tensor, kind: str) -> Tensor:
    return F.relu(x + bias) if kind == "relu" else F.gelu(x + bias, approximate="tanh")


def check() -> None:
    """Values and gradients against the reference in float32; with dropout, against the mask that the kernel drew."""
    torch.manual_seed(0)
    seed = torch.tensor(7, device=DEVICE, dtype=torch.int32)
    for dim, rows, dtype in ((48, 11, torch.float32), (64, 37, torch.bfloat16), (512, 9, torch.bfloat16)):
        for pre, dropout in ((False, 0.0), (False, 0.25), (True, 0.0), (True, 0.25)):
            norm = torch.nn.LayerNorm(dim, device=DEVICE, dtype=dtype)
            torch.nn.init.normal_(norm.weight, 1.0, 0.2)
            torch.nn.init.normal_(norm.bias, 0.0, 0.2)
            x, y, gz, go = (torch.randn(rows, dim, device=DEVICE).to(dtype) for _ in range(4))
            bias = torch.randn(dim, device=DEVICE).to(dtype)
            ones = torch.ones_like(x)
            mask = add_norm(ones - 1, ones, ones[0] - 1, norm, seed=seed, site=3, dropout=dropout, pre=True)[0].float()
            leaves = [t.detach().clone().requires_grad_() for t in (x, y, bias)]
            both = add_norm(*leaves, norm, seed=seed, site=3, dropout=dropout, pre=pre)
            grads = torch.autograd.grad(both, [*leaves, norm.weight, norm.bias], (gz, go))
            op = add_norm_op(*leaves, norm.weight, norm.bias, seed, 3, dropout, norm.eps)
            op_out = op[:2] if pre else (op[1], op[1].clone())
            op_grads = torch.autograd.grad(op_out, [*leaves, norm.weight, norm.bias], (gz, go))
            exact = [t.detach().float().requires_grad_() for t in (x, y, bias, norm.weight, norm.bias)]
            z = exact[0] + (exact[1] + exact[2]) * mask
            # what is stored is rounded, and the statistics are those of what is stored
            z = z + (z.detach().to(dtype).float() - z.detach())
            out = F.layer_norm(z, (dim,), exact[3], exact[4], norm.eps)
            twins = (z, out) if pre else (out, out)
            twin_grads = torch.autograd.grad(twins, exact, (gz.float(), go.float()))
            errors = [relative(a.detach(), b.detach()) for a, b in zip((*both, *grads), (*twins, *twin_grads))]
            errors += [relative(a, b) for a, b in zip(op_grads, twin_grads)]
            say(
                f"add_norm {dim} {dtype} pre={pre} p={dropout}",
                worst=max(errors),
                kept=float((mask > 0).float().mean()),
            )
            assert max(errors) < (1e-5 if dtype == torch.float32 else 1.5e-2), errors
        for kind, dropout in (("relu", 0.0), ("gelu", 0.0), ("gelu", 0.25), ("relu", 0.25)):
            x, g = (torch.randn(rows, dim, device=DEVICE).to(dtype) for _ in range(2))
            bias = torch.randn(dim, device=DEVICE).to(dtype)
            ones = torch.ones_like(x)
            mask = activate(ones, None, "relu", seed, 5, dropout).float()
            leaves = [t.detach().clone().requires_grad_() for t in (x, bias)]
            ours = Activate.apply(*leaves, kind, seed, 5, dropout)
            grads = torch.autograd.grad(ours, leaves, g)
            exact = [t.detach().float().requires_grad_() for t in (x, bias)]
            twin = plain_activate(*exact, kind) * mask
            twin_grads = torch.autograd.grad(twin, exact, g.float())
            errors = [relative(a.detach(), b.detach()) for a, b in zip((ours, *grads), (twin, *twin_grads))]
            say(f"activate {kind} {dim} {dtype} p={dropout}", worst=max(errors))
            assert max(errors) < (1e-5 if dtype == torch.float32 else 1.5e-2), errors
    masks = [
        add_norm(zero, zero + 1, None, norm, seed=torch.full_like(seed, s), site=at, dropout=0.5, pre=True)[0] > 0
        for zero in (torch.zeros(64, 512, device=DEVICE),)
        for norm in (torch.nn.LayerNorm(512, device=DEVICE),)
        for s, at in ((1, 0), (1, 1), (2, 0), (3, 0))
    ]
    flat = torch.stack(masks).flatten(1).float() * 2 - 1  # (4, 32768): ±1, so products are correlations
    shifted = [float((flat[0, n:] * flat[0, : flat.shape[1] - n]).mean().abs()) for n in (1, 2, 3, 8, 64, 512, 1024)]
    apart = (flat @ flat.T / flat.shape[1] - torch.eye(len(flat), device=DEVICE)).abs().max()
    say("dropout's bits", mean=float(flat.mean(1).abs().max()), neighbours=max(shifted), sites_and_seeds=float(apart))
    assert max(shifted) < 0.03 and apart < 0.03  # chance: 1 / sqrt(32768) = 0.0055


def cost(name: str, rows: int, dim: int, dropout: float, pre: bool) -> None:
    """Forward, and forward with backward, of ours and of inductor's, four batches one after the other."""
    seed = torch.zeros((), device=DEVICE, dtype=torch.int32)
    norm = torch.nn.LayerNorm(dim, device=DEVICE, dtype=HALF)
    one = rows * dim * 2
    twin = compiled(plain_add_norm)
    ways: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
        "ours": lambda x, y, b: add_norm(x, y, b, norm, seed=seed, site=1, dropout=dropout, pre=pre),
        "inductor": lambda x, y, b: twin(x, y, b, norm, dropout, pre),
    }
    batches = []
    for _ in range(1 if SMOKE else 4):
        x, y, gz, go = (torch.randn(rows, dim, device=DEVICE, dtype=HALF) for _ in range(4))
        bias = torch.zeros(dim, device=DEVICE, dtype=HALF)
        batches.append(([t.requires_grad_() for t in (x, y, bias)], (gz, go)))
    for way, forward in ways.items():

        def one_way(forward: Callable[..., tuple[Tensor, Tensor]] = forward, way: str = way) -> None:
            def and_back(batch: Any) -> None:
                torch.autograd.grad(forward(*batch[0]), [*batch[0], norm.weight, norm.bias], batch[1])

            ahead = kernel_ms([lambda b=b: forward(*b[0]) for b in batches])
            both = kernel_ms([lambda b=b: and_back(b) for b in batches])
            back = 4 if pre and not dropout else 5
            limits = limit_ms(moved=4 * one), limit_ms(moved=back * one)
            us = {"forward_us": ahead * 1e3, "backward_us": (both - ahead) * 1e3}
            say(f"{name} {way}", **us, limits_us=f"{limits[0] * 1e3:.1f} + {limits[1] * 1e3:.1f}")

        section(f"{name} {way}", one_way)


def cost_of_activation(kind: str, rows: int, dim: int) -> None:
    one = rows * dim * 2
    bias = torch.zeros(dim, device=DEVICE, dtype=HALF).requires_grad_()
    twin = compiled(plain_activate)
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "ours": lambda x: Activate.apply(x, bias, kind, None, 0, 0.0),
        "inductor": lambda x: twin(x, bias, kind),
    }
    batches = [torch.randn(2, rows, dim, device=DEVICE, dtype=HALF) for _ in range(1 if SMOKE else 2)]
    leaves = [(batch[0].requires_grad_(), batch[1]) for batch in (b.unbind() for b in batches)]
    leaves = [(x.detach().requires_grad_(), g) for x, g in leaves]
    for way, forward in ways.items():

        def one_way(forward: Callable[[Tensor], Tensor] = forward, way: str = way) -> None:
            ahead = kernel_ms([lambda x=x: forward(x) for x, _ in leaves])
            both = kernel_ms([lambda x=x, g=g: torch.autograd.grad(forward(x), (x, bias), g) for x, g in leaves])
            limits = limit_ms(moved=2 * one), limit_ms(moved=3 * one)
            us = {"forward_us": ahead * 1e3, "backward_us": (both - ahead) * 1e3}
            say(f"{kind} {way}", **us, limits_us=f"{limits[0] * 1e3:.1f} + {limits[1] * 1e3:.1f}")

        section(f"{kind} {way}", one_way)


if __name__ == "__main__":
    ceilings()
    section("check", check)
    sizes = ((8, 64), (8, 64)) if SMOKE else ((512 * 32, 512), (32 * 1024, 768))
    section("post", lambda: cost("post", *sizes[0], 0.1, False))
    section("pre", lambda: cost("pre", *sizes[1], 0.0, True))
    section("relu", lambda: cost_of_activation("relu", sizes[0][0], 4 * sizes[0][1]))
    section("gelu", lambda: cost_of_activation("gelu", sizes[1][0], 4 * sizes[1][1]))
    last_line()
