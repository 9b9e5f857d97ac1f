"""Attention of short sentences (up to 64 tokens): one program for each sentence and head, nothing stored but the
result.

Asked: kernels for long sequences (cuDNN, flash) take 4.55 ms of a translator's step for sentences of 32 tokens, whose
bytes say 0.9. Here all keys of a sentence lie in registers, so the softmax is taken at once; the backward pass makes
it again from q and k and needs neither its sums nor the result. Queries, keys and values are read where the product
of a layer left them, (N, 3, H, d) or (N, …, 2, H, d) between others, and gradients are written in the same places:
nothing is copied. Sentences lie in rows of one length, of whose keys the first `lengths` count, or packed, one behind
the other.

The gradient of a bias of q, k, v is a sum over tokens of what is in registers already: the operation takes the bias
whose product came before it (it has been added there) and returns its gradient. That of the keys' bias is 0: it adds
the same to all scores of a query.
Limit: bytes. Per token and layer forward 4 D, backward 7 D numbers (q, k, v, ∂out; ∂q, ∂k, ∂v), D = 512 of 2 bytes.
Prediction, 16,384 tokens: 16 + 28 us, reached at 70%: 23 + 40 us, eighteen of them in a translator 1.1 ms, not 4.55;
256 x 64 the same bytes, 25 + 45. SDPA: 100 + 150 us (cuDNN), and copies of 28 us to join its three gradients.
Command: python3 benchmarks/experiments/short_attention.py [--smoke] [--only check,bench]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import measure  # noqa: F401  # isort: skip (before Triton: it chooses the interpreter)

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from aside import ASIDE
from fused_norm import column_sums
from measure import DEVICE, HALF, SMOKE, ceilings, fastest, kernel_ms, last_line, limit_ms, relative, say, section
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

NOTHING = tl.constexpr(-1.0e30)  # the score of what is not seen: finite, so that a row that sees nothing is no NaN


@triton.jit
def _sentence(begins, lengths, b, tokens, PACKED: tl.constexpr, LENGTHS: tl.constexpr):
    """Of sentence b: where it begins, how many tokens are there, and how many of them count."""
    if PACKED:
        first = tl.load(begins + b)
        there = tl.load(begins + b + 1) - first
    else:
        first = b * tokens
        there = tokens
    real = there
    if LENGTHS:
        real = tl.load(lengths + b).to(tl.int32)
    return first, there, real


@triton.jit
def _softmax(q, k, i, j, real, scale, CAUSAL: tl.constexpr):
    """(Q, d), (K, d) -> weights (Q, K) float32, rows of sum 1; scale has log2(e) in it."""
    s = tl.dot(q, tl.trans(k)) * scale
    seen = (j < real)[None, :]
    if CAUSAL:
        seen = seen & (j[None, :] <= i[:, None])
    s = tl.where(seen, s, NOTHING)
    p = tl.exp2(s - tl.max(s, 1)[:, None])
    return p * (1.0 / tl.sum(p, 1))[:, None]


@triton.jit
def _attend(
    q, k, v, out, q_begins, k_begins, lengths, q_step, k_step, q_tokens, k_tokens, scale,
    HEADS: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, PACKED: tl.constexpr, LENGTHS: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """One sentence, one head. Heads go by fastest: neighbours read the same rows of memory."""
    b, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    i, j, f = tl.arange(0, QUERIES), tl.arange(0, KEYS), tl.arange(0, DIM)
    first_q, there_q, _ = _sentence(q_begins, lengths, b, q_tokens, PACKED, False)
    first_k, there_k, real = _sentence(k_begins, lengths, b, k_tokens, PACKED, LENGTHS)
    token_q, token_k = (first_q + i).to(tl.int64)[:, None], (first_k + j).to(tl.int64)[:, None]
    lane = head * DIM + f[None, :]
    inside_q, inside_k = (i < there_q)[:, None], (j < there_k)[:, None]
    queries = tl.load(q + token_q * q_step + lane, mask=inside_q, other=0.0)  # (Q, d)
    keys = tl.load(k + token_k * k_step + lane, mask=inside_k, other=0.0)  # (K, d)
    values = tl.load(v + token_k * k_step + lane, mask=inside_k, other=0.0)
    p = _softmax(queries, keys, i, j, real, scale, CAUSAL)
    y = tl.dot(p.to(values.dtype), values)
    tl.store(out + token_q * (HEADS * DIM) + lane, y.to(out.dtype.element_ty), mask=inside_q)


@triton.jit
def _attend_backward(
    q, k, v, for_out, dq, dk, dv, sums, q_begins, k_begins, lengths, q_step, k_step, q_tokens, k_tokens, scale, slope,
    HEADS: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr, PACKED: tl.constexpr, LENGTHS: tl.constexpr,
    SUMS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """With p the weights and ∂p = ∂out vᵀ: ∂s = p (∂p - Σ_j p ∂p); ∂q = ∂s k, ∂k = ∂sᵀ q, ∂v = pᵀ ∂out.

    sums[b, 0] and [b, 1] are Σ ∂q and Σ ∂v over the sentence, for the biases.
    """
    b, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    i, j, f = tl.arange(0, QUERIES), tl.arange(0, KEYS), tl.arange(0, DIM)
    first_q, there_q, _ = _sentence(q_begins, lengths, b, q_tokens, PACKED, False)
    first_k, there_k, real = _sentence(k_begins, lengths, b, k_tokens, PACKED, LENGTHS)
    token_q, token_k = (first_q + i).to(tl.int64)[:, None], (first_k + j).to(tl.int64)[:, None]
    lane = head * DIM + f[None, :]
    inside_q, inside_k = (i < there_q)[:, None], (j < there_k)[:, None]
    at_q, at_k = token_q * q_step + lane, token_k * k_step + lane
    queries = tl.load(q + at_q, mask=inside_q, other=0.0)
    keys = tl.load(k + at_k, mask=inside_k, other=0.0)
    values = tl.load(v + at_k, mask=inside_k, other=0.0)
    # rows beyond the sentence: ∂out is 0, so that they add nothing to ∂k and ∂v
    pull = tl.load(for_out + token_q * (HEADS * DIM) + lane, mask=inside_q, other=0.0)
    p = _softmax(queries, keys, i, j, real, scale, CAUSAL)
    for_p = tl.dot(pull, tl.trans(values))
    for_values = tl.dot(tl.trans(p.to(pull.dtype)), pull)  # (K, d)
    tl.store(dv + at_k, for_values.to(dv.dtype.element_ty), mask=inside_k)
    ds = (p * (for_p - tl.sum(p * for_p, 1)[:, None]) * slope).to(keys.dtype)
    for_queries = tl.dot(ds, keys)
    tl.store(dq + at_q, for_queries.to(dq.dtype.element_ty), mask=inside_q)
    for_keys = tl.dot(tl.trans(ds), queries)
    tl.store(dk + at_k, for_keys.to(dk.dtype.element_ty), mask=inside_k)
    if SUMS:
        mine = sums + b * (2 * HEADS * DIM) + head * DIM + f
        tl.store(mine, tl.sum(for_queries, 0))
        tl.store(mine + HEADS * DIM, tl.sum(for_values, 0))


class Places(NamedTuple):
    """Where B sentences lie among the tokens of queries and of keys."""

    sentences: int
    queries: int  # of a sentence, at most
    keys: int
    query_begins: Tensor | None = None  # packed: (B + 1,) int32
    key_begins: Tensor | None = None
    lengths: Tensor | None = None  # not packed: keys that count (B,) int32; nothing: all


def _arguments(q: Tensor, k: Tensor, places: Places, heads: int) -> tuple[list[Any], dict[str, Any]]:
    """What both kernels take: numbers and flags. Sizes of tiles are powers of two, 16 at least (tensor cores)."""
    dim = q.shape[-1] // heads
    assert dim in (16, 32, 64, 128) and max(places.queries, places.keys) <= 64
    assert q.stride(-1) == k.stride(-1) == 1
    numbers = [
        places.query_begins, places.key_begins, places.lengths, q.stride(0), k.stride(0), places.queries, places.keys,
        dim**-0.5 * 1.4426950408889634,
    ]  # fmt: skip
    flags = {
        "HEADS": heads,
        "DIM": dim,
        "PACKED": places.query_begins is not None,
        "LENGTHS": places.lengths is not None,
        "QUERIES": max(16, triton.next_power_of_2(places.queries)),
        "KEYS": max(16, triton.next_power_of_2(places.keys)),
    }
    return numbers, flags


def key(name: str, flags: dict[str, Any]) -> tuple[Any, ...]:
    """What the number of warps is chosen by: the sizes of a program's tiles."""
    return name, flags["QUERIES"], flags["KEYS"], flags["DIM"]


def attention_forward(q: Tensor, k: Tensor, v: Tensor, places: Places, heads: int, causal: bool) -> Tensor:
    """(N, H d), (M, H d) twice, rows apart as they may be (those of k and v alike) -> (N, H d)."""
    numbers, flags = _arguments(q, k, places, heads)
    out = torch.empty(q.shape, device=q.device, dtype=q.dtype)

    def launch(warps: int) -> None:
        _attend[(places.sentences * heads,)](q, k, v, out, *numbers, CAUSAL=causal, num_warps=warps, **flags)

    launch(*fastest(key("attention", flags), [(2,), (1,), (4,)], launch, len(q)))
    return out


def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    for_out: Tensor,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    places: Places,
    heads: int,
    causal: bool,
    sums: bool,
) -> Tensor | None:
    """Writes dq, dk, dv, which lie as q, k and v do; -> Σ ∂q and Σ ∂v of each sentence (B, 2, H d) float32."""
    numbers, flags = _arguments(q, k, places, heads)
    assert dq.stride() == q.stride() and dk.stride() == dv.stride() == k.stride()
    parts = torch.empty(places.sentences, 2, q.shape[-1], device=q.device) if sums else None
    slope = (q.shape[-1] // heads) ** -0.5
    for_out = for_out.contiguous()

    def launch(warps: int) -> None:
        _attend_backward[(places.sentences * heads,)](
            q, k, v, for_out, dq, dk, dv, parts, *numbers, slope, CAUSAL=causal, SUMS=sums, num_warps=warps, **flags
        )

    launch(*fastest(key("attention backward", flags), [(4,), (2,)], launch, len(q)))
    return parts


class SelfAttention(torch.autograd.Function):
    """qkv (N, 3 H d) = x Wᵀ + bias -> (N, H d). The gradient of the bias is taken here."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, bias: Tensor | None, places: Places, heads: int, causal: bool) -> Tensor:
        ctx.save_for_backward(qkv)
        ctx.how, ctx.bias = (places, heads, causal), bias
        return attention_forward(*qkv.chunk(3, -1), *ctx.how)

    @staticmethod
    def backward(ctx: Any, for_out: Tensor) -> tuple[Tensor | None, ...]:
        (qkv,) = ctx.saved_tensors
        dqkv = torch.empty_like(qkv)
        parts = attention_backward(*qkv.chunk(3, -1), for_out, *dqkv.chunk(3, -1), *ctx.how, ctx.bias is not None)
        (for_bias,) = (
            ASIDE.gradients([ctx.bias], lambda: [self_bias(parts, qkv.dtype)], parts)
            if ctx.bias is not None
            else [None]
        )
        return dqkv, for_bias, None, None, None


def self_bias(parts: Tensor, dtype: torch.dtype) -> Tensor:
    """Σ ∂q, Σ ∂v of sentences (B, 2, D) -> the gradient (3 D) of the biases of q, k, v; of keys: none."""
    for_q, for_v = column_sums(parts, dtype)
    return torch.cat([for_q, torch.zeros_like(for_q), for_v])


class Shared:
    """The memory's keys and values for all decoder layers are one product, (M, L 2 H d), and so is their gradient: each
    layer writes its columns here, and the first layer, whose turn comes last, hands over the whole. Otherwise autograd
    would make a tensor of zeros for each layer and add them up."""

    def __init__(self) -> None:
        self.gradient: Tensor | None = None
        self.bias: Tensor | None = None


class CrossAttention(torch.autograd.Function):
    """q (N, H d), memory (M, L 2 H d) of which this layer's two parts are taken -> (N, H d)."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        q_bias: Tensor | None,
        memory: Tensor,
        memory_bias: Tensor | None,
        layer: int,
        shared: Shared,
        places: Places,
        heads: int,
    ) -> Tensor:
        ctx.save_for_backward(q, memory)
        ctx.how, ctx.layer, ctx.shared = (places, heads, False), layer, shared
        ctx.biases = q_bias, memory_bias
        shared.gradient = shared.bias = None
        return attention_forward(q, *CrossAttention.part(memory, layer, q.shape[-1]), *ctx.how)

    @staticmethod
    def part(memory: Tensor, layer: int, dim: int) -> tuple[Tensor, ...]:
        return memory[:, 2 * layer * dim : 2 * (layer + 1) * dim].chunk(2, -1)

    @staticmethod
    def backward(ctx: Any, for_out: Tensor) -> tuple[Tensor | None, ...]:
        q, memory = ctx.saved_tensors
        shared, layer, dim = ctx.shared, ctx.layer, q.shape[-1]
        if shared.gradient is None:
            shared.gradient = torch.empty_like(memory)
            shared.bias = torch.zeros(memory.shape[-1], device=memory.device, dtype=memory.dtype)
        dq = torch.empty_like(q)
        part = CrossAttention.part
        into = part(shared.gradient, layer, dim)
        biased = ctx.biases[0] is not None or ctx.biases[1] is not None
        parts = attention_backward(q, *part(memory, layer, dim), for_out, dq, *into, *ctx.how, biased)
        bias = shared.bias

        def sums() -> list[Tensor]:
            for_q, for_values = column_sums(parts, q.dtype)
            bias[(2 * layer + 1) * dim : (2 * layer + 2) * dim] = for_values
            return [for_q, bias]

        # of the memory's bias, the last to write hands over the whole
        whose = [ctx.biases[0], ctx.biases[1] if layer == 0 else None]
        for_q_bias, for_memory_bias = ASIDE.gradients(whose, sums, parts) if biased else (None, None)
        whole = None
        if layer == 0:
            whole = shared.gradient
            shared.gradient = shared.bias = None
        return dq, for_q_bias, whole, for_memory_bias, None, None, None, None


# For those who compile: an operation the compiler takes whole. Packed where begins are given, else rows of one length.


@torch.library.custom_op(
    "experiments::short_attention",
    mutates_args=(),
    schema="(Tensor qkv, Tensor? begins, Tensor? lengths, int sentences, int longest, int heads, bool causal) "
    "-> Tensor",
)
def self_attention_op(
    qkv: Tensor, begins: Tensor | None, lengths: Tensor | None, sentences: int, longest: int, heads: int, causal: bool
) -> Tensor:
    places = Places(sentences, longest, longest, begins, begins, lengths)
    return attention_forward(*qkv.chunk(3, -1), places, heads, causal)


@self_attention_op.register_fake
def _(qkv: Tensor, begins: Any, lengths: Any, sentences: int, longest: int, heads: int, causal: bool) -> Tensor:
    return qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3)


@torch.library.custom_op(
    "experiments::short_attention_backward",
    mutates_args=(),
    schema="(Tensor for_out, Tensor qkv, Tensor? begins, Tensor? lengths, int sentences, int longest, int heads, "
    "bool causal) -> Tensor",
)
def self_attention_backward_op(
    for_out: Tensor,
    qkv: Tensor,
    begins: Tensor | None,
    lengths: Tensor | None,
    sentences: int,
    longest: int,
    heads: int,
    causal: bool,
) -> Tensor:
    dqkv = torch.empty_like(qkv)
    places = Places(sentences, longest, longest, begins, begins, lengths)
    attention_backward(*qkv.chunk(3, -1), for_out, *dqkv.chunk(3, -1), places, heads, causal, False)
    return dqkv


@self_attention_backward_op.register_fake
def _(for_out: Tensor, qkv: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(qkv)


def _op_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    qkv, begins, lengths, *how = inputs
    ctx.save_for_backward(qkv, begins, lengths)
    ctx.how = how


def _op_backward(ctx: Any, for_out: Tensor) -> tuple[Tensor | None, ...]:
    return self_attention_backward_op(for_out, *ctx.saved_tensors, *ctx.how), None, None, None, None, None, None


self_attention_op.register_autograd(_op_backward, setup_context=_op_context)


def plain_attention(q: Tensor, k: Tensor, v: Tensor, heads: int, seen: Tensor) -> Tensor:
    """The reference: (N, H d), (M, H d) twice, seen (N, M) -> (N, H d), all pairs of tokens."""
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(0, 1) for t in (q, k, v))  # (H, N, d)
    weights = (q @ k.transpose(1, 2) * q.shape[-1] ** -0.5).masked_fill(~seen, float("-inf")).softmax(-1)
    return (weights @ v).transpose(0, 1).flatten(1)


def check() -> None:
    torch.manual_seed(0)
    # the interpreter multiplies bf16 as if it were whole numbers; float16 shows the same slips of types
    for dtype in (torch.float32, torch.float16) if SMOKE else (torch.bfloat16,):
        for packed, causal, longest, heads, dim in (
            (False, False, 9, 2, 16),
            (False, True, 32, 2, 32),
            (True, True, 20, 1, 64),
            (True, False, 40, 2, 32),
            *(((True, True, 64, 8, 64), (False, False, 32, 8, 64), (False, True, 32, 4, 128)) if not SMOKE else ()),
        ):
            check_one(dtype, packed, causal, longest, heads, dim)
    compiles()


def check_one(dtype: torch.dtype, packed: bool, causal: bool, longest: int, heads: int, dim: int) -> None:
    """Self-attention and, over the second of two layers' memory, cross-attention: values and gradients."""
    rows, width = 3, heads * dim
    counts = torch.randint(1, longest + 1, (2, rows), device=DEVICE)
    counts[0, 0] = counts[1, 1] = longest
    numbers = [torch.arange(rows, device=DEVICE).repeat_interleave(n if packed else longest) for n in counts]
    begins = [F.pad(n.cumsum(0), (1, 0)).int() for n in counts]
    place = torch.arange(longest, device=DEVICE).repeat(rows)

    def seen(a: int, b: int) -> Tensor:
        """Which tokens of b those of a see."""
        same = numbers[a][:, None] == numbers[b]
        return same if packed else same & (place < counts[b].repeat_interleave(longest))

    def places(a: int, b: int) -> Places:
        if packed:
            return Places(rows, longest, longest, begins[a], begins[b])
        return Places(rows, longest, longest, lengths=counts[b].int())

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=DEVICE).to(dtype).requires_grad_()

    n, m = len(numbers[0]), len(numbers[1])
    raw, bias, g = normal(n, 3 * width), normal(3 * width), torch.randn(n, width, device=DEVICE).to(dtype)
    qkv = raw + bias.detach()  # as the product adds it; its gradient comes from attention
    ours = SelfAttention.apply(qkv, bias, places(0, 0), heads, causal)
    for_qkv, for_bias = torch.autograd.grad(ours, (qkv, bias), g)
    by_op = self_attention_op(
        qkv, begins[0] if packed else None, None if packed else counts[0].int(), rows, longest, heads, causal
    )
    for_qkv_op = torch.autograd.grad(by_op, qkv, g)[0]
    exact = qkv.detach().float().requires_grad_()
    order = torch.arange(n, device=DEVICE)
    mask = seen(0, 0) & (order[None, :] <= order[:, None]) if causal else seen(0, 0)
    twin = plain_attention(*exact.chunk(3, -1), heads, mask)
    twin_grad = torch.autograd.grad(twin, exact, g.float())[0]
    twin_bias = twin_grad.sum(0)
    twin_bias[width : 2 * width] = 0  # zero but for rounding
    pairs = [(ours, twin), (by_op, twin), (for_qkv, twin_grad), (for_qkv_op, twin_grad), (for_bias, twin_bias)]

    q, memory, q_bias, memory_bias = normal(n, width), normal(m, 4 * width), normal(width), normal(4 * width)
    shared = Shared()
    y0 = CrossAttention.apply(q, q_bias, memory, memory_bias, 0, shared, places(0, 1), heads)
    y1 = CrossAttention.apply(y0, q_bias, memory, memory_bias, 1, shared, places(0, 1), heads)
    grads = torch.autograd.grad(y1, (q, memory, q_bias, memory_bias), g)
    exact_q, exact_memory, zero_q, zero_memory = (
        t.detach().float().requires_grad_() for t in (q, memory, q_bias, memory_bias)
    )
    parts = (exact_memory + zero_memory - zero_memory.detach()).chunk(4, -1)
    twin = plain_attention(exact_q + zero_q - zero_q.detach(), *parts[:2], heads, seen(0, 1))
    twin = plain_attention(twin + zero_q - zero_q.detach(), *parts[2:], heads, seen(0, 1))
    twin_grads = torch.autograd.grad(twin, (exact_q, exact_memory, zero_q, zero_memory), g.float())
    for keys in (slice(0, width), slice(2 * width, 3 * width)):
        twin_grads[3][keys] = 0
    pairs += [(y1, twin), *zip(grads, twin_grads)]
    errors = [relative(a.detach(), b.detach()) for a, b in pairs]
    name = f"{'packed' if packed else 'rows'} causal={causal} {longest} x {heads} x {dim} {dtype}"
    say(name, self=max(errors[:5]), cross=max(errors[5:]))
    assert max(errors) < (1e-5 if dtype == torch.float32 else 2e-2), errors


def compiles() -> None:
    """One graph, forward and backward, without a break."""
    qkv = torch.randn(4 * 16, 3 * 32, device=DEVICE, dtype=HALF).requires_grad_()

    def work(qkv: Tensor) -> Tensor:
        return (self_attention_op(qkv * 2, None, None, 4, 16, 2, True) * 3).sum()

    whole = torch.compile(work, fullgraph=True, backend="aot_eager")
    grads = [torch.autograd.grad(f(qkv), qkv)[0] for f in (work, whole)]
    say("compiled in one graph", apart=relative(grads[1], grads[0]))
    assert relative(grads[1], grads[0]) < 1e-3


def bench(rows: int, length: int, heads: int, dim: int) -> None:
    width, tokens = heads * dim, rows * length
    one = tokens * width * 2
    limits = limit_ms(moved=4 * one) * 1e3, limit_ms(moved=7 * one) * 1e3
    lengths = torch.full((rows,), length, device=DEVICE, dtype=torch.int32)
    begins = torch.arange(0, tokens + 1, length, device=DEVICE, dtype=torch.int32)
    mask = (torch.arange(length, device=DEVICE) < lengths[:, None])[:, None, None]
    bias = torch.zeros(3 * width, device=DEVICE, dtype=HALF).requires_grad_()
    batches = []
    for _ in range(1 if SMOKE else 3):
        qkv = torch.randn(tokens, 3 * width, device=DEVICE, dtype=HALF).requires_grad_()
        batches.append((qkv, torch.randn(tokens, width, device=DEVICE, dtype=HALF)))

    def sdpa(qkv: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        q, k, v = qkv.view(rows, length, 3, heads, dim).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return y.transpose(1, 2).reshape(tokens, width)

    def ours(places: Places, causal: bool) -> Callable[[Tensor], Tensor]:
        return lambda qkv: SelfAttention.apply(qkv, bias, places, heads, causal)

    where = {
        "rows": Places(rows, length, length, lengths=lengths),
        "packed": Places(rows, length, length, begins, begins),
    }
    ways: dict[str, tuple[SDPBackend | None, Callable[[Tensor], Tensor]]] = {
        f"ours, {name}{', causal' if causal else ''}": (None, ours(places, causal))
        for name, places in where.items()
        for causal in (False, True)
    }
    if not SMOKE:
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
            name = backend.name.split("_")[0].lower()
            ways[f"{name}, causal"] = backend, lambda qkv: sdpa(qkv, None, True)
            ways[f"{name}, all"] = backend, lambda qkv: sdpa(qkv, None, False)
            if name != "flash":  # it takes none
                ways[f"{name}, mask"] = backend, lambda qkv: sdpa(qkv, mask, False)
    for way, (chosen, work) in ways.items():

        def one_way(
            way: str = way, chosen: SDPBackend | None = chosen, work: Callable[[Tensor], Tensor] = work
        ) -> None:
            with nullcontext() if chosen is None else sdpa_kernel(chosen):
                ahead = kernel_ms([lambda x=x: work(x) for x, _ in batches]) * 1e3
                both = kernel_ms([lambda x=x, g=g: torch.autograd.grad(work(x), x, g) for x, g in batches]) * 1e3
            us = {"forward_us": ahead, "backward_us": both - ahead}
            limit = f"{limits[0]:.1f} + {limits[1]:.1f}"
            say(f"{rows}x{length} {way}", **us, limits_us=limit, of_limit=sum(limits) / both)

        section(f"{rows}x{length} {way}", one_way, of="bench")


if __name__ == "__main__":
    ceilings()
    section("check", check)
    if SMOKE:
        bench(3, 16, 2, 16)
    else:
        bench(512, 32, 8, 64)
        bench(256, 64, 8, 64)
    last_line()
