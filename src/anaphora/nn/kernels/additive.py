"""Additive attention without its large tensor.

    s_ij = v · tanh(q_i + k_j)      w = softmax_j(s)      context_i = Σ_j w_ij value_j      (Bahdanau et al., 2015)

q and k come already projected (Wq, Uk). The plain way writes tanh(q_i + k_j) for every pair and feature, a tensor of
(B, n, m, d): 17 GB at B = 32, n = m = d = 512 in float32, and as much again for its gradients. But all that is ever
needed of it are sums: over features for the scores, over keys for the gradient of q, over queries for that of k, over
pairs for that of v. So each number is made in a register, added where it belongs and forgotten; the backward pass makes
it a second time. What stays in memory are the weights, (B, n, m):

    forward    s = scores(q, k, v);  w = softmax(s);  context = w · value
    backward   ∂w = ∂context · valueᵀ;  ∂s = w (∂w - Σ_j w ∂w);  ∂q, ∂k, ∂v = scores' (∂s), with tanh' = 1 - tanh²

The two products with `value` and the softmax are PyTorch's own; the two walks over (i, j, feature) have two forms each:
*triton*, for a GPU (additive_triton.py), and *eager*, which runs anywhere, a bounded block at a time. Both give the
same result on every run: no sum depends on which thread came first. The plain way is the reference of all attention,
`attend(…, score="additive", backend="reference")` in nn/attention.py; tests/kernels compares values and gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from anaphora.nn.kernels.triton_support import DTYPES, INTERPRETING, TRITON

AdditiveBackend = Literal["auto", "triton", "eager"]
BLOCK_ON_CPU, BLOCK_ON_GPU = 1 << 18, 1 << 24
"""Numbers of (B, n, m, d) that the eager form holds at a time, 1 MB in float32, which stays in a CPU's cache, or 64;
one query's, where those are more."""


def additive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    backend: AdditiveBackend = "auto",
) -> Tensor:
    """query (..., n, d), key (..., m, d), value (..., m, e), v (d,) or a row for each head (H, d) -> context
    (..., n, e); `mask`, broadcastable to (..., n, m), is True where a query may look, and one that may look at nothing
    gets zeros. In memory of O(n m) instead of O(n m d). Differentiable once, in query, key, value and v."""
    _check(query, key, value, v, mask)
    chosen: str = additive_backend(query, key, value, v)[0] if backend == "auto" else backend
    if chosen == "triton" and (why := _hindrance(query, key, value, v)):
        raise ValueError(f"additive attention cannot run on Triton here: {why}")
    lead, n, m = query.shape[:-2], query.shape[-2], key.shape[-2]
    rows = lead.numel()
    if mask is not None:
        mask = mask.expand(*lead, n, m).reshape(rows, n, m)
    folded = (x.reshape(rows, x.shape[-2], x.shape[-1]) for x in (query, key, value))  # heads are more rows
    context: Tensor = _Additive.apply(*folded, v if v.dim() == 2 else v.unsqueeze(0), mask, chosen == "triton")
    return context.unflatten(0, lead) if len(lead) != 1 else context


def additive_backend(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> tuple[Literal["triton", "eager"], str]:
    """Which form `auto` takes for these tensors, and why."""
    if why := _hindrance(query, key, value, v):
        return "eager", why
    if INTERPRETING:
        return "triton", "Triton's interpreter is asked for"
    if not torch.is_grad_enabled() and query.numel() * key.shape[-2] <= BLOCK_ON_GPU:
        # a step of decoding: else kernels are compiled and tried out for every length that sentences may have
        return "eager", "one block of memory is enough, and nothing is kept for a gradient"
    return "triton", "the tensors are on a GPU"


def _hindrance(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> str:
    """Why the Triton kernels cannot take these tensors; empty where they can."""
    if not TRITON:
        return "Triton is not installed"
    if not (INTERPRETING or all(x.is_cuda for x in (query, key, value, v))):
        return f"the tensors are on {query.device.type}, not on a GPU"
    odd = next((x.dtype for x in (query, key, value, v) if x.dtype not in DTYPES), None)
    if odd is not None:
        return f"the Triton kernels do not compute in {odd}"
    return "a dimension is 0" if 0 in (*query.shape, *key.shape, *value.shape) else ""


def _check(query: Tensor, key: Tensor, value: Tensor, v: Tensor, mask: Tensor | None) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}, v {tuple(v.shape)}"
    if query.dim() < 3 or key.dim() != query.dim() or value.dim() != query.dim():
        raise ValueError(f"query (..., n, d), key (..., m, d) and value (..., m, e) are expected, not {shapes}")
    if query.shape[-1] != key.shape[-1] or v.shape[-1:] != query.shape[-1:]:
        raise ValueError(f"query, key and v must have one last dimension: {shapes}")
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2] or key.shape[-2] != value.shape[-2]:
        raise ValueError(f"query, key and value must agree in batch and heads, key and value in length: {shapes}")
    if v.dim() > 2 or (v.dim() == 2 and (query.dim() < 4 or v.shape[0] != query.shape[-3])):
        raise ValueError(f"v is (d,), or (H, d) for query (B, H, n, d): {shapes}")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"the mask is boolean, True where a query may look, not {mask.dtype}")
    if mask is not None:
        wanted = (*query.shape[:-1], key.shape[-2])
        sizes = zip(reversed(mask.shape), reversed(wanted))
        if mask.dim() > len(wanted) or any(size not in (1, full) for size, full in sizes):
            raise ValueError(f"a mask of {tuple(mask.shape)} does not broadcast to (..., n, m) = {wanted}")


class _Additive(torch.autograd.Function):
    """query (B, n, d), key (B, m, d), value (B, m, e), v (H, d), row b using v[b % H]; mask (B, n, m) or None."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, v: Tensor, mask: Tensor | None, triton: bool
    ) -> Tensor:
        with torch.autocast(query.device.type, enabled=False):
            if triton:
                from anaphora.nn.kernels import additive_triton as kernels

                step = kernels.fits_step(query, key)
                with torch.cuda.device_of(query):  # kernels start on the current GPU, tensors may be on another
                    if step:
                        context, weights = kernels.step(query, key, value, v, mask)
                    else:
                        weights = _softmax(kernels.scores(query, key, v, mask), mask)
            else:
                step = False
                weights = _softmax(_scores(query, key, v, mask), mask)
            if not step:
                context = weights.to(value.dtype) @ value  # (B, n, e)
        ctx.save_for_backward(query, key, value, v, weights)
        ctx.triton, ctx.step = triton, step
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, v, weights = ctx.saved_tensors
        with torch.autocast(query.device.type, enabled=False):
            if ctx.step:
                from anaphora.nn.kernels import additive_triton as kernels

                return *kernels.step_gradients(query, key, value, v, weights, grad), None, None
            low = weights.to(value.dtype)
            value_grad = low.transpose(-2, -1) @ grad if ctx.needs_input_grad[2] else None  # (B, m, e)
            if not any(ctx.needs_input_grad[position] for position in (0, 1, 3)):
                return None, None, value_grad, None, None, None
            moved = (grad @ value.transpose(-2, -1)).to(weights.dtype)  # ∂w (B, n, m)
            moved = torch._softmax_backward_data(moved, weights, -1, weights.dtype)  # ∂s; 0 where masked, as w is
            if ctx.triton:
                from anaphora.nn.kernels import additive_triton as kernels

                query_grad, key_grad, v_grad = kernels.gradients(query, key, v, moved)
            else:
                query_grad, key_grad, v_grad = _gradients(query, key, v, moved)
        return query_grad, key_grad, value_grad, v_grad, None, None


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Over scores that are the smallest finite number where masked, so that a row of nothing else is not 0/0."""
    weights = scores.softmax(dim=-1)
    return weights if mask is None else weights.mul_(mask)


def _blocks(query: Tensor, keys: int, heads: int) -> Iterator[tuple[slice, slice]]:
    """Slices of rows (whole groups of `heads`, so that v lines up) and of queries."""
    batch, n, d = query.shape
    room = (BLOCK_ON_CPU if query.device.type == "cpu" else BLOCK_ON_GPU) // max(1, keys * d * heads)
    queries = max(1, min(n, room))
    rows = heads * max(1, room // max(1, queries))
    for row in range(0, batch, rows):
        for start in range(0, n, queries):
            yield slice(row, row + rows), slice(start, start + queries)


def _tanh(query: Tensor, key: Tensor, dtype: torch.dtype) -> Tensor:
    return (query.to(dtype).unsqueeze(-2) + key.to(dtype).unsqueeze(-3)).tanh_()  # (b, i, m, d)


def _wide(query: Tensor) -> torch.dtype:
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _spread(v: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """v (H, d) -> (rows, 1, d), head after head; (1, 1, d) when all share one."""
    return v.to(dtype).repeat(rows // v.shape[0] if v.shape[0] > 1 else 1, 1).unsqueeze(1)


def _scores(query: Tensor, key: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """(B, n, m) in float32 (float64 for float64), a block at a time."""
    dtype, (batch, n, _), m = _wide(query), query.shape, key.shape[1]
    scores = query.new_empty(batch, n, m, dtype=dtype)
    for rows, queries in _blocks(query, m, v.shape[0]):
        together = _tanh(query[rows, queries], key[rows], dtype)  # (b, i, m, d)
        one = _spread(v, len(together), dtype).transpose(1, 2)  # (b or 1, d, 1)
        scores[rows, queries] = (together.flatten(1, 2) @ one).view(together.shape[:-1])
    return scores if mask is None else scores.masked_fill_(~mask, torch.finfo(dtype).min)


def _gradients(query: Tensor, key: Tensor, v: Tensor, moved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What ∂s (B, n, m) makes of query, key and v."""
    dtype, (batch, n, d), m, heads = _wide(query), query.shape, key.shape[1], v.shape[0]
    query_grad, key_grad = query.new_empty(batch, n, d, dtype=dtype), key.new_zeros(batch, m, d, dtype=dtype)
    v_grad = v.new_zeros(heads, d, dtype=dtype)
    one = torch.ones((), dtype=dtype, device=query.device)
    for rows, queries in _blocks(query, m, heads):
        tanh = _tanh(query[rows, queries], key[rows], dtype)  # (b, i, m, d)
        pull = moved[rows, queries]  # (b, i, m)
        v_grad += (pull.flatten(1).unsqueeze(1) @ tanh.flatten(1, 2)).view(-1, heads, d).sum(dim=0)  # Σ over all pairs
        slope = torch.addcmul(one, tanh, tanh, value=-1, out=tanh)  # 1 - tanh²
        query_grad[rows, queries] = (pull.unsqueeze(2) @ slope).squeeze(2)  # Σ over keys, (b, i, d)
        key_grad[rows] += slope.mul_(pull.unsqueeze(-1)).sum(dim=1)  # Σ over queries, (b, m, d)
    for gradient in (query_grad, key_grad):
        gradient *= _spread(v, batch, dtype)
    return query_grad.to(query.dtype), key_grad.to(key.dtype), v_grad.to(v.dtype)
