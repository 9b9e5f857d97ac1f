"""The walks of additive attention over (query, key, feature), as Triton kernels.

What bounds them is the special-function unit (16 results a clock and multiprocessor on a Hopper GPU), so what counts is
how many of its operations a triple (i, j, f) takes. With E(x) = exp(2x),

    tanh(q + k) = 1 - 2r,   r = 1 / (1 + E(q) E(k))         tanh' = 1 - tanh² = 4 E(q) E(k) r²

and E is taken once a query or key, not once a pair: one reciprocal a triple is left, at full float32 precision (the
unit's own tanh is good to 2⁻¹¹ only). Scores need only sums of v r, and two fractions share one reciprocal:

    v₁/a + v₂/b = (v₁ b + v₂ a) / (a b)

so the forward pass takes half an operation a triple. The backward pass needs every r by itself and takes one; it gives
the gradients of q, k and v in a single walk: a program keeps a block of keys × features, meets every query, and adds up
∂k and ∂v in its registers; ∂q is a sum over its keys, written once for each block of keys and added up afterwards.
Nothing is added atomically, so results are the same on every run.

E overflows: it is held within 2^±100, so that sums of a few of them are finite, which holds q and k within ±34.66 each
(100 / (2 log₂ e)). Since tanh is 1 to the last bit of a float32 beyond 9.1, this changes nothing unless a feature of a
query lies beyond 34 and that of a key beyond 25 on the other side of 0, or the reverse.

One query a row, a decoder's step, is bound by reading key and value once in each direction, with tanh of the sum itself
(two special functions, no limit). A GPU reads at full speed only when many small programs have loads under way, and a
program a row is one for each multiprocessor at best, so every pass is cut across its row, into two kernels a direction:

    scores    a few keys, all features:     s_j = v · tanh(q + k_j)
    context   all keys, a few features:     w = softmax(s), made again by each program; Σ_j w_j x_j
    ∂weights  a few keys, all features:     ∂w_j = g · x_j, and ∂x_j = w_j g
    ∂scores   all keys, a few features:     ∂s = w (∂w - Σ w ∂w), made again by each program; ∂q, ∂k, and ∂v of the row

The way back begins with the values, which the way there read last: what of them is still in the cache is read from it.
"""
# mypy: disallow-incomplete-defs=False
# (a kernel annotates what is known when it is compiled, and nothing else)

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from anaphora.nn.kernels.triton_support import INTERPRETING

INTERPRETED = tl.constexpr(INTERPRETING)
TWICE_LOG2_E = tl.constexpr(2.8853900817779268)  # exp(2x) = exp2(x · 2 log₂ e)
EXPONENT = tl.constexpr(100.0)
LARGE_NUMBER = tl.constexpr(2.0**60)  # 1 / LARGE is nothing beside 1, and LARGE² is finite
MASKED = tl.constexpr(-3.0e38)
STEP_KEYS = 512
"""The most keys a row that the kernels for one query take."""


@triton.jit
def _reciprocal(x):
    """One operation of the special-function unit, within 1 ulp; `1 / x` compiles to eight instructions."""
    if INTERPRETED:
        return 1.0 / x
    else:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def _bound(x):
    """Where a loop ends: a Python number for the interpreter, whose own (in Triton 3.6 with numpy 2.4) is none."""
    if INTERPRETED:
        return x.handle.data.item()
    else:
        return x


@triton.jit
def _tanh(x):
    """Two special functions; exp2 overflows to infinity, whose reciprocal is 0: tanh = 1."""
    return 1.0 - 2.0 * _reciprocal(tl.exp2(x * TWICE_LOG2_E) + 1.0)


@triton.jit
def _exp_twice(x):
    """E(x) = exp(2x), held within 2^±100; NaN stays NaN."""
    power = tl.minimum(x.to(tl.float32) * TWICE_LOG2_E, EXPONENT, propagate_nan=tl.PropagateNan.ALL)
    return tl.exp2(tl.maximum(power, -EXPONENT, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def _scores_kernel(
    query, key, v, mask, scores,
    n, m, d, heads,
    query_row, query_step, key_row, key_step, mask_row, mask_query, mask_key,
    HAS_MASK: tl.constexpr, CLASS: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """A block of QUERIES × KEYS scores; features go by in pairs of blocks, the sum over them staying spread over
    registers until the end."""
    key_blocks = tl.cdiv(m, KEYS)
    query_blocks = tl.cdiv(n, QUERIES)
    program = tl.program_id(0)
    j = (program % key_blocks) * KEYS + tl.arange(0, KEYS)
    i = (program // key_blocks % query_blocks) * QUERIES + tl.arange(0, QUERIES)
    b = (program // (key_blocks * query_blocks)).to(tl.int64)
    query_at = query + b * query_row + i[:, None] * query_step  # (Q, 1)
    key_at = key + b * key_row + j[:, None] * key_step  # (K, 1)
    v_at = v + (b % heads) * d
    total = tl.zeros((QUERIES, KEYS, FEATURES), dtype=tl.float32)
    whole = tl.zeros((FEATURES,), dtype=tl.float32)
    inside = (i[:, None] < n) & (j[None, :] < m)
    stop = d
    if HAS_MASK:
        mask_at = mask + b * mask_row + i[:, None] * mask_query + j[None, :] * mask_key
        allowed = tl.load(mask_at, mask=inside, other=0).to(tl.int32)
        stop = d * tl.max(tl.max(allowed, axis=1), axis=0)  # a block of padding, or of the future, takes no time
    for start in range(0, _bound(stop), 2 * FEATURES):
        f1 = start + tl.arange(0, FEATURES)
        f2 = f1 + FEATURES
        v1 = tl.load(v_at + f1, mask=f1 < d, other=0.0).to(tl.float32)  # beyond d: v = 0 adds nothing
        v2 = tl.load(v_at + f2, mask=f2 < d, other=0.0).to(tl.float32)
        inside_q1 = (i[:, None] < n) & (f1[None, :] < d)
        inside_q2 = (i[:, None] < n) & (f2[None, :] < d)
        inside_k1 = (j[:, None] < m) & (f1[None, :] < d)
        inside_k2 = (j[:, None] < m) & (f2[None, :] < d)
        q1 = _exp_twice(tl.load(query_at + f1[None, :], mask=inside_q1, other=0.0))[:, None, :]
        q2 = _exp_twice(tl.load(query_at + f2[None, :], mask=inside_q2, other=0.0))[:, None, :]
        k1 = _exp_twice(tl.load(key_at + f1[None, :], mask=inside_k1, other=0.0))[None, :, :]
        k2 = _exp_twice(tl.load(key_at + f2[None, :], mask=inside_k2, other=0.0))[None, :, :]
        a1 = tl.minimum(q1 * k1 + 1.0, LARGE_NUMBER, propagate_nan=tl.PropagateNan.ALL)  # (Q, K, F)
        a2 = tl.minimum(q2 * k2 + 1.0, LARGE_NUMBER, propagate_nan=tl.PropagateNan.ALL)
        total += (v1[None, None, :] * a2 + v2[None, None, :] * a1) * _reciprocal(a1 * a2)
        whole += v1 + v2
    result = tl.sum(whole, axis=0) - 2.0 * tl.sum(total, axis=2)  # Σ v (1 - 2r)
    if HAS_MASK:
        result = tl.where(allowed != 0, result, MASKED)
    tl.store(scores + (b * n + i[:, None]) * m + j[None, :], result, mask=inside)


@triton.jit
def _gradients_kernel(
    query, key, v, moved, query_parts, key_grad, v_parts,
    batch, n, m, d, heads,
    query_row, query_step, key_row, key_step,
    CLASS: tl.constexpr, KEYS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """A block of KEYS × FEATURES meets every query of its row."""
    feature_blocks = tl.cdiv(d, FEATURES)
    key_blocks = tl.cdiv(m, KEYS)
    program = tl.program_id(0)
    f = (program % feature_blocks) * FEATURES + tl.arange(0, FEATURES)
    block = program // feature_blocks % key_blocks
    j = block * KEYS + tl.arange(0, KEYS)
    b = (program // (feature_blocks * key_blocks)).to(tl.int64)
    inside = (j[:, None] < m) & (f[None, :] < d)
    k = _exp_twice(tl.load(key + b * key_row + j[:, None] * key_step + f[None, :], mask=inside, other=0.0))  # (K, F)
    v_four = 4.0 * tl.load(v + (b % heads) * d + f, mask=f < d, other=0.0).to(tl.float32)
    query_at = query + b * query_row + f
    moved_at = moved + b * n * m + j
    part_at = query_parts + (block.to(tl.int64) * batch + b) * n * d + f
    for_key = tl.zeros((KEYS, FEATURES), dtype=tl.float32)
    for_v = tl.zeros((FEATURES,), dtype=tl.float32)
    for _ in range(_bound(n)):
        q = _exp_twice(tl.load(query_at, mask=f < d, other=0.0))  # (F,)
        pull = tl.load(moved_at, mask=j < m, other=0.0)  # ∂s (K,)
        r = _reciprocal(q[None, :] * k + 1.0)  # (K, F)
        once = pull[:, None] * r
        twice = once * r
        for_v += tl.sum(once, axis=0)
        for_key += twice * q[None, :]
        part = v_four * q * tl.sum(twice * k, axis=0)
        tl.store(part_at, part.to(query_parts.dtype.element_ty), mask=f < d)
        query_at += query_step
        moved_at += m
        part_at += d
    key_grad_at = key_grad + (b * m + j[:, None]) * d + f[None, :]
    tl.store(key_grad_at, (v_four[None, :] * k * for_key).to(key_grad.dtype.element_ty), mask=inside)
    # ∂v = Σ ∂s (1 - 2r), and ∂s sums to 0 over the keys of a query: softmax does not change when all scores do
    tl.store(v_parts + (block.to(tl.int64) * batch + b) * d + f, -2.0 * for_v, mask=f < d)


@triton.jit
def _step_scores_kernel(
    query, key, v, scores,
    m, d, heads, query_row, key_row, key_step,
    CLASS: tl.constexpr, TILE: tl.constexpr, KEYS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """A block of KEYS scores of one query."""
    blocks = tl.cdiv(m, KEYS)
    program = tl.program_id(0)
    j = (program % blocks) * KEYS + tl.arange(0, KEYS)
    b = (program // blocks).to(tl.int64)
    found = tl.zeros((KEYS,), dtype=tl.float32)
    for start in range(0, _bound(d), FEATURES):
        f = start + tl.arange(0, FEATURES)
        inside = (j[:, None] < m) & (f[None, :] < d)
        k = tl.load(key + b * key_row + j[:, None] * key_step + f[None, :], mask=inside, other=0.0).to(tl.float32)
        q = tl.load(query + b * query_row + f, mask=f < d, other=0.0).to(tl.float32)
        w = tl.load(v + (b % heads) * d + f, mask=f < d, other=0.0).to(tl.float32)  # beyond d: 0 adds nothing
        found += tl.sum(w[None, :] * _tanh(q[None, :] + k), axis=1)
    tl.store(scores + b * m + j, found, mask=j < m)


@triton.jit
def _step_scores(scores, mask, row, j, m, mask_row, mask_key, HAS_MASK: tl.constexpr):
    """The scores of the keys j of a row and which of them may be looked at."""
    allowed = j < m
    if HAS_MASK:
        allowed = allowed & (tl.load(mask + row * mask_row + j * mask_key, mask=j < m, other=0) != 0)
    return tl.where(allowed, tl.load(scores + row * m + j, mask=j < m, other=0.0), MASKED), allowed


@triton.jit
def _step_context_kernel(
    scores, value, mask, context, weights,
    m, e, value_row, value_step, mask_row, mask_key,
    HAS_MASK: tl.constexpr, CLASS: tl.constexpr, ALL: tl.constexpr,
    TILE: tl.constexpr, KEYS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """FEATURES of the context of one query over ALL its keys, KEYS at a time; the first block writes the weights."""
    blocks = tl.cdiv(e, FEATURES)
    program = tl.program_id(0)
    block = program % blocks
    b = (program // blocks).to(tl.int64)
    f = block * FEATURES + tl.arange(0, FEATURES)
    j = tl.arange(0, KEYS)
    value_at = value + b * value_row + j[:, None] * value_step + f[None, :]
    # before the scores, whose sums take as long as this is on its way
    x = tl.load(value_at, mask=(j[:, None] < m) & (f[None, :] < e), other=0.0)
    each = tl.arange(0, ALL)
    score, allowed = _step_scores(scores, mask, b, each, m, mask_row, mask_key, HAS_MASK)
    highest = tl.max(score, axis=0)
    share = tl.where(allowed, tl.exp(score - highest), 0.0)
    scale = 1.0 / tl.maximum(tl.sum(share, axis=0), 1e-30)  # a sum is at least 1, or 0 where nothing is allowed
    tl.store(weights + b * m + each, share * scale, mask=(each < m) & (block == 0))
    mean = tl.zeros((FEATURES,), dtype=tl.float32)
    for start in tl.static_range(0, ALL, KEYS):
        at = start + j
        if start > 0:
            inside = (at[:, None] < m) & (f[None, :] < e)
            x = tl.load(value_at + start * value_step, mask=inside, other=0.0)
        score, allowed = _step_scores(scores, mask, b, at, m, mask_row, mask_key, HAS_MASK)
        weight = tl.where(allowed, tl.exp(score - highest), 0.0) * scale
        mean += tl.sum(weight[:, None] * x.to(tl.float32), axis=0)
    tl.store(context + b * e + f, mean.to(context.dtype.element_ty), mask=f < e)


@triton.jit
def _step_weights_gradients_kernel(
    value, weights, grad, value_grad, moved,
    m, e, value_row, value_step,
    CLASS: tl.constexpr, TILE: tl.constexpr, KEYS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """∂w and ∂value of a block of KEYS."""
    blocks = tl.cdiv(m, KEYS)
    program = tl.program_id(0)
    j = (program % blocks) * KEYS + tl.arange(0, KEYS)
    b = (program // blocks).to(tl.int64)
    weight = tl.load(weights + b * m + j, mask=j < m, other=0.0)
    found = tl.zeros((KEYS,), dtype=tl.float32)
    for start in range(0, _bound(e), FEATURES):
        f = start + tl.arange(0, FEATURES)
        inside = (j[:, None] < m) & (f[None, :] < e)
        x = tl.load(value + b * value_row + j[:, None] * value_step + f[None, :], mask=inside, other=0.0)
        g = tl.load(grad + b * e + f, mask=f < e, other=0.0).to(tl.float32)
        value_grad_at = value_grad + (b * m + j[:, None]) * e + f[None, :]
        tl.store(value_grad_at, (weight[:, None] * g[None, :]).to(value_grad.dtype.element_ty), mask=inside)
        found += tl.sum(x.to(tl.float32) * g[None, :], axis=1)
    tl.store(moved + b * m + j, found, mask=j < m)


@triton.jit
def _step_scores_gradients_kernel(
    query, key, v, weights, moved, query_grad, key_grad, v_parts,
    m, d, heads, query_row, key_row, key_step,
    CLASS: tl.constexpr, ALL: tl.constexpr, TILE: tl.constexpr, KEYS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """FEATURES of ∂query, ∂key and of what one query adds to ∂v, over ALL its keys, KEYS at a time."""
    blocks = tl.cdiv(d, FEATURES)
    program = tl.program_id(0)
    b = (program // blocks).to(tl.int64)
    f = (program % blocks) * FEATURES + tl.arange(0, FEATURES)
    j = tl.arange(0, KEYS)
    key_at = key + b * key_row + j[:, None] * key_step + f[None, :]
    k = tl.load(key_at, mask=(j[:, None] < m) & (f[None, :] < d), other=0.0)  # on its way while ∂s is made
    q = tl.load(query + b * query_row + f, mask=f < d, other=0.0).to(tl.float32)
    w = tl.load(v + (b % heads) * d + f, mask=f < d, other=0.0).to(tl.float32)
    each = tl.arange(0, ALL)
    weight = tl.load(weights + b * m + each, mask=each < m, other=0.0)
    mean = tl.sum(weight * tl.load(moved + b * m + each, mask=each < m, other=0.0), axis=0)
    for_query = tl.zeros((FEATURES,), dtype=tl.float32)
    for_v = tl.zeros((FEATURES,), dtype=tl.float32)
    for start in tl.static_range(0, ALL, KEYS):
        at = start + j
        inside = (at[:, None] < m) & (f[None, :] < d)
        if start > 0:
            k = tl.load(key_at + start * key_step, mask=inside, other=0.0)
        weight = tl.load(weights + b * m + at, mask=at < m, other=0.0)
        pull = weight * (tl.load(moved + b * m + at, mask=at < m, other=0.0) - mean)  # ∂s
        tanh = _tanh(q[None, :] + k.to(tl.float32))
        through = pull[:, None] * (1.0 - tanh * tanh) * w[None, :]
        key_grad_at = key_grad + (b * m + at[:, None]) * d + f[None, :]
        tl.store(key_grad_at, through.to(key_grad.dtype.element_ty), mask=inside)
        for_query += tl.sum(through, axis=0)
        for_v += tl.sum(pull[:, None] * tanh, axis=0)
    tl.store(query_grad + b * d + f, for_query.to(query_grad.dtype.element_ty), mask=f < d)
    tl.store(v_parts + b * d + f, for_v, mask=f < d)


@triton.jit
def _add_up_kernel(parts, total, rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """parts (rows, width) float32 -> their sum (width,), always in the same order."""
    x = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    found = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for start in range(0, _bound(rows), ROWS):
        row = start + tl.arange(0, ROWS).to(tl.int64)
        inside = (row[:, None] < rows) & (x[None, :] < width)
        found += tl.load(parts + row[:, None] * width + x[None, :], mask=inside, other=0.0)
    tl.store(total + x, tl.sum(found, axis=0).to(total.dtype.element_ty), mask=x < width)


def _config(warps: int, **tile: int) -> Any:
    return triton.Config(tile, num_warps=warps, num_stages=1)


SCORES = [
    _config(1, QUERIES=8, KEYS=8, FEATURES=32),
    _config(4, QUERIES=16, KEYS=16, FEATURES=32),
    _config(2, QUERIES=16, KEYS=8, FEATURES=32),
    _config(1, QUERIES=4, KEYS=8, FEATURES=32),
]
GRADIENTS = [_config(1, FEATURES=32), _config(2, FEATURES=64), _config(4, FEATURES=128)]
STEP = [
    _config(4, TILE=8192),  # 8 keys × 1024 features, or 64 × 128
    _config(4, TILE=4096),
    _config(2, TILE=4096),
    _config(8, TILE=8192),
    _config(8, TILE=16384),
]
# tried once for each class of shapes (`_class`) on the device, then remembered; the interpreter has nothing to time
_tuned_scores = triton.autotune(SCORES[:1] if INTERPRETING else SCORES, key=["CLASS"])(_scores_kernel)
_tuned_gradients = triton.autotune(GRADIENTS[:1] if INTERPRETING else GRADIENTS, key=["CLASS", "KEYS"])(
    _gradients_kernel
)


def _width(features: int) -> int:
    """A power of 2 that holds all features, or 1024 of them."""
    return min(1024, max(16, triton.next_power_of_2(features)))


def _tuned_across(kernel: Any, width: str) -> Any:
    """A few keys and all features a program; `width` is the argument that says how many these are."""
    shape = {"FEATURES": lambda a: _width(a[width]), "KEYS": lambda a: max(1, min(64, a["TILE"] // _width(a[width])))}
    return triton.autotune(STEP[:1] if INTERPRETING else STEP, key=["CLASS"])(triton.heuristics(shape)(kernel))


def _tuned_down(kernel: Any, width: str) -> Any:
    """All keys, up to 64 at a time, and a few features a program."""
    shape = {
        "KEYS": lambda a: min(64, a["ALL"]),
        "FEATURES": lambda a: min(_width(a[width]), a["TILE"] // min(64, a["ALL"])),
    }
    return triton.autotune(STEP[:1] if INTERPRETING else STEP, key=["CLASS"])(triton.heuristics(shape)(kernel))


_tuned_step_scores = _tuned_across(_step_scores_kernel, "d")
_tuned_step_context = _tuned_down(_step_context_kernel, "e")
_tuned_step_weights_gradients = _tuned_across(_step_weights_gradients_kernel, "e")
_tuned_step_scores_gradients = _tuned_down(_step_scores_gradients_kernel, "d")


def _class(batch: int, n: int, m: int, d: int) -> int:
    """Shapes that share a tile: up to 16, 64 or more queries, the same for keys, up to 256 features or more, and fewer
    or more pairs than it takes to keep a GPU busy."""
    short = [sum(length > limit for limit in (16, 64)) for length in (n, m)]
    return short[0] * 12 + short[1] * 4 + (d > 256) * 2 + (batch * n * m > 1 << 15)


def _add_up(parts: Tensor, like: Tensor) -> Tensor:
    """parts (..., *shape) float32, `like` (*shape) -> the sum over the leading dimensions, of the type of `like`."""
    total = torch.empty_like(like, memory_format=torch.contiguous_format)
    width = total.numel()
    rows = parts.numel() // width
    tile = min(256, triton.next_power_of_2(rows))
    across = 2048 // tile  # few columns a program: many programs, each with all its rows under way at once
    _add_up_kernel[(triton.cdiv(width, across),)](parts, total, rows, width, ROWS=tile, WIDTH=across)
    return total


def _rows(x: Tensor) -> Tensor:
    """Features side by side in memory; other strides are free."""
    return x if x.stride(-1) == 1 else x.contiguous()


def scores(query: Tensor, key: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """query (B, n, d), key (B, m, d), v (H, d), mask (B, n, m) -> (B, n, m) float32, a huge negative number where
    masked."""
    query, key, v = _rows(query), _rows(key), v.contiguous()
    (batch, n, d), m = query.shape, key.shape[1]
    result = query.new_empty(batch, n, m, dtype=torch.float32)

    def grid(tile: dict[str, int]) -> tuple[int]:
        return (batch * triton.cdiv(n, tile["QUERIES"]) * triton.cdiv(m, tile["KEYS"]),)

    allowed = query if mask is None else mask
    _tuned_scores[grid](
        query, key, v, allowed, result, n, m, d, v.shape[0],
        query.stride(0), query.stride(1), key.stride(0), key.stride(1), *allowed.stride(),
        HAS_MASK=mask is not None, CLASS=_class(batch, n, m, d),
    )  # fmt: skip
    return result


def gradients(query: Tensor, key: Tensor, v: Tensor, moved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What ∂s (B, n, m) float32 makes of query, key and v."""
    query, key, v, moved = _rows(query), _rows(key), v.contiguous(), moved.contiguous()
    (batch, n, d), m, heads = query.shape, key.shape[1], v.shape[0]
    keys = _gradient_keys(m)
    blocks = triton.cdiv(m, keys)
    query_parts = query.new_empty(blocks, batch, n, d, dtype=query.dtype if blocks == 1 else torch.float32)
    v_parts = v.new_empty(blocks, batch, d, dtype=torch.float32)
    key_grad = torch.empty_like(key, memory_format=torch.contiguous_format)

    def grid(tile: dict[str, int]) -> tuple[int]:
        return (batch * blocks * triton.cdiv(d, tile["FEATURES"]),)

    _tuned_gradients[grid](
        query, key, v, moved, query_parts, key_grad, v_parts, batch, n, m, d, heads,
        query.stride(0), query.stride(1), key.stride(0), key.stride(1),
        CLASS=_class(batch, n, m, d), KEYS=keys,
    )  # fmt: skip
    query_grad = query_parts[0] if blocks == 1 else _add_up(query_parts, query)
    return query_grad, key_grad, _add_up(v_parts, v)  # row b is head b % H: whole groups of H rows are added up


def _gradient_keys(m: int) -> int:
    """Keys a program: 64, or 32 where that leaves fewer places empty; no more than there are."""
    if m <= 32:
        return max(8, triton.next_power_of_2(m))
    return min((64, 32), key=lambda size: -m % size)


def fits_step(query: Tensor, key: Tensor) -> bool:
    return query.shape[1] == 1 and key.shape[1] <= STEP_KEYS


def _step_class(batch: int, m: int, width: int) -> int:
    """Steps that share a tile: as many keys and features, up to powers of 2, and fewer or more rows than it takes to
    keep a GPU busy."""
    return (triton.next_power_of_2(m) * 2048 + _width(width)) * 2 + (batch * m > 1 << 11)


def _across(batch: int, m: int) -> Any:
    return lambda tile: (batch * triton.cdiv(m, tile["KEYS"]),)


def _down(batch: int, width: int) -> Any:
    return lambda tile: (batch * triton.cdiv(width, tile["FEATURES"]),)


def step(query: Tensor, key: Tensor, value: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """query (B, 1, d), ... -> context (B, 1, e), weights (B, 1, m) float32."""
    query, key, value, v = _rows(query), _rows(key), _rows(value), v.contiguous()
    (batch, m, e), d = value.shape, query.shape[2]
    context = value.new_empty(batch, 1, e)
    scores, weights = (value.new_empty(batch, 1, m, dtype=torch.float32) for _ in range(2))
    allowed = query if mask is None else mask
    _tuned_step_scores[_across(batch, m)](
        query, key, v, scores, m, d, v.shape[0], query.stride(0), key.stride(0), key.stride(1),
        CLASS=_step_class(batch, m, d),
    )  # fmt: skip
    _tuned_step_context[_down(batch, e)](
        scores, value, allowed, context, weights, m, e, value.stride(0), value.stride(1),
        allowed.stride(0), allowed.stride(2), HAS_MASK=mask is not None,
        ALL=max(16, triton.next_power_of_2(m)), CLASS=_step_class(batch, m, e),
    )  # fmt: skip
    return context, weights


def step_gradients(
    query: Tensor, key: Tensor, value: Tensor, v: Tensor, weights: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What ∂context (B, 1, e) makes of query, key, value and v."""
    query, key, value, v, grad = _rows(query), _rows(key), _rows(value), v.contiguous(), grad.contiguous()
    (batch, m, e), d, heads = value.shape, query.shape[2], v.shape[0]
    query_grad, key_grad, value_grad = (
        torch.empty_like(x, memory_format=torch.contiguous_format) for x in (query, key, value)
    )
    v_parts, moved = v.new_empty(batch, d, dtype=torch.float32), torch.empty_like(weights)
    _tuned_step_weights_gradients[_across(batch, m)](
        value, weights, grad, value_grad, moved, m, e, value.stride(0), value.stride(1),
        CLASS=_step_class(batch, m, e),
    )  # fmt: skip
    _tuned_step_scores_gradients[_down(batch, d)](
        query, key, v, weights, moved, query_grad, key_grad, v_parts, m, d, heads,
        query.stride(0), key.stride(0), key.stride(1),
        ALL=max(16, triton.next_power_of_2(m)), CLASS=_step_class(batch, m, d),
    )  # fmt: skip
    return query_grad, key_grad, value_grad, _add_up(v_parts, v)
