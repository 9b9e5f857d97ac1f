"""Layers whose backward pass is written by hand, so that nothing is computed, copied or added twice
(short_attention.py, fused_norm.py): products whose biases' gradients come from elsewhere, the feed-forward sublayer,
embeddings.

A bias is added in the epilogue of its product, for nothing; its gradient is a sum over the rows of the gradient that
comes back, and whoever makes that gradient has it in registers: the norm, the attention, the activation's slope. So
`product` is given the bias to add it and the operation behind it is given the bias to return its gradient.
"""

from __future__ import annotations

from typing import Any

import measure  # noqa: F401  # isort: skip (it chooses Triton's interpreter before Triton is loaded)

import torch
import triton
import triton.language as tl
from aside import ASIDE
from fused_norm import _drop, activate, activate_backward, column_sums, threshold
from torch import Tensor


class Product(torch.autograd.Function):
    """x (N, D) Wᵀ + bias, W (E, D); the bias gets its gradient elsewhere."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight = weight
        return x @ weight.T if bias is None else torch.addmm(bias, x, weight.T)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        gradient = gradient.contiguous()
        (for_weight,) = ASIDE.gradients([ctx.weight], lambda: [gradient.T @ x], gradient, x)
        return gradient @ ctx.weight, for_weight, None


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y: Tensor = Product.apply(x, weight, None if bias is None else bias.detach())
    return y


class FeedForward(torch.autograd.Function):
    """f(x W₁ᵀ + b₁) W₂ᵀ; the second bias is the norm's to add. ReLU is part of the first product's epilogue, and of
    what it gave the backward pass needs nothing but the sign; GELU needs what went in, and is a kernel of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inner: Tensor, bias: Tensor, outer: Tensor, kind: str) -> Tensor:
        if kind == "gelu":
            kept = x @ inner.T
            hidden = activate(kept, bias, kind)
        elif x.is_cuda:
            kept = hidden = torch._addmm_activation(bias, x, inner.T)
        else:
            kept = hidden = torch.addmm(bias, x, inner.T).relu_()
        ctx.save_for_backward(x, kept, hidden)
        ctx.parameters, ctx.kind = (inner, bias, outer), kind
        return hidden @ outer.T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, kept, hidden = ctx.saved_tensors
        inner, bias, outer = ctx.parameters
        gradient = gradient.contiguous()
        (for_outer,) = ASIDE.gradients([outer], lambda: [gradient.T @ hidden], gradient, hidden)
        slope, parts = activate_backward(gradient @ outer, kept, bias if ctx.kind == "gelu" else None, ctx.kind)
        for_inner, for_bias = ASIDE.gradients(
            [inner, bias], lambda: [slope.T @ x, column_sums(parts, bias.dtype)], slope, x, parts
        )
        return slope @ inner, for_inner, for_bias, for_outer, None


@triton.jit(do_not_specialize=["site"])
def _embed(
    tokens, places, table, positions, out, seed, site, length, root, scale,
    DIM: tl.constexpr, THRESHOLD: tl.constexpr, PLACES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """dropout(table[token] · root + positions[place]), a program for each token."""
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    inside = column < DIM
    token = tl.load(tokens + row).to(tl.int64)
    place = tl.load(places + row).to(tl.int64) if PLACES else row % length
    x = tl.load(table + token * DIM + column, mask=inside, other=0.0).to(tl.float32) * root
    x += tl.load(positions + place * DIM + column, mask=inside, other=0.0).to(tl.float32)
    x = _drop(x, seed, site, row * DIM + column, scale, THRESHOLD)
    tl.store(out + row.to(tl.int64) * DIM + column, x.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["site"])
def _embed_backward(
    first, second, out, seed, site, root, scale,
    DIM: tl.constexpr, THRESHOLD: tl.constexpr, SECOND: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    inside = column < DIM
    at = row.to(tl.int64) * DIM + column
    x = tl.load(first + at, mask=inside, other=0.0).to(tl.float32)
    if SECOND:
        x += tl.load(second + at, mask=inside, other=0.0).to(tl.float32)
    x = _drop(x, seed, site, row * DIM + column, scale, THRESHOLD)
    tl.store(out + at, (x * root).to(out.dtype.element_ty), mask=inside)


class Embed(torch.autograd.Function):
    """tokens (N,) of one or several texts, one behind the other -> for each text its (n, D), twice: for the sublayer
    and for the residual. One sort and one sum give the table's gradient for all texts. places (N,), or nothing: texts
    are rows of `length`."""

    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        places: Tensor | None,
        sizes: tuple[int, ...],
        length: int,
        table: Tensor,
        positions: Tensor,
        root: float,
        seed: Tensor | None,
        site: int,
        dropout: float,
    ) -> tuple[Tensor, ...]:
        dim = table.shape[1]
        outs, start = [], 0
        for number, size in enumerate(sizes):
            here = slice(start, start + size)
            out = torch.empty(size, dim, device=table.device, dtype=table.dtype)
            _embed[(size,)](
                tokens[here], None if places is None else places[here], table, positions, out, seed, site + number,
                length, root, 1 / (1 - dropout), DIM=dim, THRESHOLD=threshold(dropout), PLACES=places is not None,
                COLUMNS=triton.next_power_of_2(dim), num_warps=1 if dim <= 512 else 2,
            )  # fmt: skip
            outs += [out, out.view_as(out)]
            start += size
        ctx.save_for_backward(tokens, places, seed)
        ctx.sizes, ctx.length, ctx.how = sizes, length, (root, site, dropout)
        ctx.table, ctx.positions = table.shape, positions
        ctx.set_materialize_grads(False)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        tokens, places, seed = ctx.saved_tensors
        root, site, dropout = ctx.how
        vocabulary, dim = ctx.table
        whole = torch.empty(len(tokens), dim, device=tokens.device, dtype=ctx.positions.dtype)
        start = 0
        for number, size in enumerate(ctx.sizes):
            first, second = (g if g is None else g.contiguous() for g in gradients[2 * number : 2 * number + 2])
            if first is None:
                first, second = second, first
            _embed_backward[(size,)](
                first, second, whole[start : start + size], seed, site + number, root, 1 / (1 - dropout), DIM=dim,
                THRESHOLD=threshold(dropout), SECOND=second is not None, COLUMNS=triton.next_power_of_2(dim),
                num_warps=1 if dim <= 512 else 2,
            )  # fmt: skip
            start += size

        def of_positions() -> list[Tensor]:
            if places is None:
                sums = whole.view(-1, ctx.length, dim).sum(0)
            else:  # one-hot rows: a product, since sorting as for words has a thousand tokens for each place
                which = places[:, None] == torch.arange(len(ctx.positions), device=places.device)
                sums = which.to(whole.dtype).T @ whole
            full = torch.zeros_like(ctx.positions) if len(sums) < len(ctx.positions) else None
            sums = sums / root
            return [sums if full is None else full.index_copy_(0, torch.arange(len(sums), device=sums.device), sums)]

        (for_positions,) = ASIDE.gradients([ctx.positions], of_positions, whole, places)
        for_table = torch.ops.aten.embedding_dense_backward(whole, tokens, vocabulary, -1, False)
        return None, None, None, None, for_table, for_positions, None, None, None, None


class SplitHeads(torch.autograd.Function):
    """qkv (B T, 3 H d) -> q, k, v (B, H, T, d), for kernels that give three gradients: they are joined by one pass
    each, which adds up the bias's gradient on its way."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, bias: Tensor | None, length: int, heads: int) -> tuple[Tensor, ...]:
        ctx.bias, ctx.like = bias, (qkv.shape, qkv.dtype)
        return qkv.detach().view(-1, length, 3, heads, qkv.shape[1] // (3 * heads)).permute(2, 0, 3, 1, 4).unbind(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (rows, columns), dtype = ctx.like
        dqkv = torch.empty(rows, columns, device=gradients[0].device, dtype=dtype)
        parts = []
        for gradient, into in zip(gradients, dqkv.chunk(3, -1)):
            flat = gradient.transpose(1, 2).reshape(rows, columns // 3)  # no copy: it lies as q lay, by tokens
            parts.append(activate_backward(flat, None, None, "copy", into=into)[1])
        if ctx.bias is None:
            return dqkv, None, None, None
        (for_bias,) = ASIDE.gradients([ctx.bias], lambda: [torch.cat([column_sums(p, dtype) for p in parts])], *parts)
        return dqkv, for_bias, None, None
