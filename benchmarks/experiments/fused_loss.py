"""Cross-entropy with label smoothing fused with the projection: which way is fastest, and how near the limit?

Asked: hidden states x (N, D), weight (V', D) of V tokens padded to V' = a multiple of 64, labels (N,); wanted are the
loss and both gradients without ever holding a float32 (N, V) tensor. Ways: `full` (autocast's: float32 logits),
`checkpoint` (chunks, compiled, computed twice), `inductor` and `triton` (gradient written in the forward pass over
bf16 logits, as Liger does: one product forward and two backward for each chunk, the softmax by a compiled function or
one Triton kernel in place).
The kernel: lanes that keep maximum and sum to themselves (`_loss_and_gradient`), beside the first version, in which all
lanes met in every step (`_loss_in_waves`: 4.48 ms for 32,768 x 50,304; 0.81 ms for 16,384 x 32,000).
Prediction: 2.0 ms and 0.65 ms, of limits 1.57 and 0.50. Before, for all: the three products are 6 N V' D operations,
10.3 ms for GPT-2 at 751 TFLOP/s; the kernel in place moves 4 bytes an element, 6.6 GB = 1.6 ms. So triton 12.5 ms,
inductor 13.5, checkpoint 16 (four products, float32 inside), full 25.
Command: python3 benchmarks/experiments/fused_loss.py [--smoke]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import measure  # noqa: F401  # isort: skip (before Triton: it chooses the interpreter)

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from measure import (
    CHOSEN,
    DEVICE,
    HALF,
    MANY,
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
    timed,
)
from torch import Tensor
from torch.utils.checkpoint import checkpoint

IGNORE = -100


LOG2_E = tl.constexpr(1.4426950408889634)
LOW = tl.constexpr(-1.0e30)  # a maximum of nothing yet: finite, so that differences of two are no NaN


@triton.jit
def _loss_and_gradient(
    logits, labels, losses, scale, vocabulary, columns, smoothing,
    IGNORE: tl.constexpr, TILES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Row n of logits (N, columns): loss n, and the loss's gradient in the logits' place, times the number at `scale`.

    -log P(y) = lse - z_y, so with smoothing ε the loss is lse - (1 - ε) z_y - ε mean z, and its gradient P - target.

    A step reads TILES vectors of eight logits (16 bytes) for each of LANES = 32 · warps lanes. Every lane keeps its own
    running maximum and sum, rescaled once in eight; lanes meet once, at the end: no warp waits for another inside a
    loop. The row is read twice, the second time backwards, from the L2 cache (so many rows at once as fit: few, wide
    programs). Steps that lie wholly within the vocabulary have no masks; masks of padding must not cut through a
    load, or it falls apart into single numbers: so loads are masked by `columns`, a multiple of 16, and what is no
    word is replaced afterwards.
    """
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * columns
    label = tl.load(labels + row).to(tl.int32)
    tile, lane, one = tl.arange(0, TILES), tl.arange(0, LANES), tl.arange(0, 8)
    at = (tile[:, None, None] * LANES + lane[None, :, None]) * 8 + one[None, None, :]  # (TILES, LANES, 8)
    STEP: tl.constexpr = TILES * LANES * 8
    if label == IGNORE:
        for first in range(0, columns, STEP):
            tl.store(
                start + first + at, tl.zeros((TILES, LANES, 8), logits.dtype.element_ty), mask=first + at < columns
            )
        tl.store(losses + row, 0.0)
    else:
        said = tl.load(start + label).to(
            tl.float32
        )  # before lanes meet: afterwards a quicker warp may have written there
        top = tl.full((TILES, LANES), LOW, tl.float32)
        mass = tl.zeros((TILES, LANES), tl.float32)
        total = tl.zeros((TILES, LANES), tl.float32)
        whole = vocabulary // STEP * STEP
        for first in range(0, whole, STEP):
            z = tl.load(start + first + at).to(tl.float32)
            higher = tl.maximum(top, tl.max(z, 2))
            powers = tl.exp2(z * LOG2_E - (higher * LOG2_E)[:, :, None])
            mass = mass * tl.exp2((top - higher) * LOG2_E) + tl.sum(powers, 2)
            total += tl.sum(z, 2)
            top = higher
        for first in range(whole, vocabulary, STEP):  # the last, in part
            z = tl.load(start + first + at, mask=first + at < columns, other=0.0).to(tl.float32)
            word = first + at < vocabulary
            total += tl.sum(tl.where(word, z, 0.0), 2)
            z = tl.where(word, z, LOW)
            higher = tl.maximum(top, tl.max(z, 2))
            powers = tl.where(word, tl.exp2(z * LOG2_E - (higher * LOG2_E)[:, :, None]), 0.0)
            mass = mass * tl.exp2((top - higher) * LOG2_E) + tl.sum(powers, 2)
            top = higher
        highest = tl.max(tl.max(top, 1), 0)
        power = highest * LOG2_E + tl.log2(
            tl.sum(tl.sum(mass * tl.exp2((top - highest) * LOG2_E), 1), 0)
        )  # lse · log2(e)
        mean = tl.sum(tl.sum(total, 1), 0) / vocabulary
        tl.store(losses + row, power / LOG2_E - (1 - smoothing) * said - smoothing * mean)
        factor = tl.load(scale)
        all_words, the_word = factor * smoothing / vocabulary, factor * (1 - smoothing)
        for first in range(whole, columns, STEP):
            z = tl.load(start + first + at, mask=first + at < columns, other=0.0).to(tl.float32)
            gradient = tl.exp2(z * LOG2_E - power) * factor - all_words
            gradient -= tl.where(first + at == label, the_word, 0.0)
            gradient = tl.where(first + at < vocabulary, gradient, 0.0)  # padding is never said and never learns
            tl.store(start + first + at, gradient.to(logits.dtype.element_ty), mask=first + at < columns)
        for back in range(STEP, whole + STEP, STEP):
            first = whole - back
            z = tl.load(start + first + at).to(tl.float32)
            gradient = tl.exp2(z * LOG2_E - power) * factor - all_words
            gradient -= tl.where(at == label - first, the_word, 0.0)
            tl.store(start + first + at, gradient.to(logits.dtype.element_ty))


@triton.jit
def _loss_in_waves(
    logits, labels, losses, scale, vocabulary, columns, smoothing, IGNORE: tl.constexpr, BLOCK: tl.constexpr
):
    """Row n of logits (N, columns): loss n, and the loss's gradient in the logits' place, times the number at `scale`.

    -log P(y) = lse - z_y, so with smoothing ε the loss is lse - (1 - ε) z_y - ε mean z, and its gradient P - target.
    The row is read twice, the second time from the cache.
    """
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * columns
    label = tl.load(labels + row)
    at = tl.arange(0, BLOCK)
    if label == IGNORE:
        for first in range(0, columns, BLOCK):
            tl.store(start + first + at, tl.zeros((BLOCK,), tl.float32), mask=first + at < columns)
        tl.store(losses + row, 0.0)
        return
    top, mass, total = float("-inf"), 0.0, 0.0
    for first in range(0, vocabulary, BLOCK):
        here = first + at < vocabulary
        z = tl.load(start + first + at, mask=here, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(z, 0))
        mass = mass * tl.exp(top - higher) + tl.sum(tl.exp(z - higher), 0)
        total += tl.sum(tl.where(here, z, 0.0), 0)
        top = higher
    said = tl.load(start + label).to(tl.float32)
    lse = top + tl.log(mass)
    tl.store(losses + row, lse - (1 - smoothing) * said - smoothing * total / vocabulary)
    factor = tl.load(scale)
    for first in range(0, columns, BLOCK):
        here = first + at < vocabulary
        z = tl.load(start + first + at, mask=here, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(z - lse) - smoothing / vocabulary - tl.where(first + at == label, 1 - smoothing, 0.0)
        gradient = tl.where(here, gradient * factor, 0.0)  # padding of the vocabulary is never said and never learns
        tl.store(start + first + at, gradient.to(logits.dtype.element_ty), mask=first + at < columns)


def in_place(logits: Tensor, labels: Tensor, scale: Tensor, smoothing: float, vocabulary: int) -> tuple[Tensor, Tensor]:
    """logits (n, V') -> losses (n,) and their gradient, where the logits were."""
    rows, columns = logits.shape
    losses = torch.empty(rows, device=logits.device)
    key = "loss", columns, logits.dtype
    # trials overwrite what they are given
    tried = key in CHOSEN or SMOKE or rows < MANY or torch.cuda.is_current_stream_capturing()
    trial = logits if tried else logits.clone()

    def launch(tiles: int, warps: int, registers: int | None, logits: Tensor = trial) -> None:
        _loss_and_gradient[(rows,)](
            logits, labels, losses, scale, vocabulary, columns, smoothing,
            IGNORE=IGNORE, TILES=tiles, LANES=4 if SMOKE else 32 * warps, num_warps=warps, maxnreg=registers,
        )  # fmt: skip

    # 1,024 threads of 32 registers: two programs fit on a multiprocessor; of 39, one
    ways = [(1, 32, None), (1, 32, 32), (2, 32, None), (1, 16, None), (2, 16, None), (4, 8, None)]
    way = fastest(key, ways, launch, rows)
    launch(*way, logits)
    return losses, logits


def in_waves(logits: Tensor, labels: Tensor, scale: Tensor, smoothing: float, vocabulary: int) -> tuple[Tensor, Tensor]:
    rows, columns = logits.shape
    losses = torch.empty(rows, device=logits.device)
    block = min(8192, triton.next_power_of_2(columns))
    _loss_in_waves[(rows,)](
        logits, labels, losses, scale, vocabulary, columns, smoothing, IGNORE=IGNORE, BLOCK=block, num_warps=16
    )
    return losses, logits


def by_softmax(
    logits: Tensor, labels: Tensor, scale: Tensor, smoothing: float, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """The same in plain operations, for the compiler; it writes beside the logits instead of over them."""
    z = logits[:, :vocabulary].float()
    real, label = labels != IGNORE, labels.clamp(min=0)[:, None]
    lse = z.logsumexp(-1, keepdim=True)
    losses = lse[:, 0] - (1 - smoothing) * z.gather(1, label)[:, 0] - smoothing * z.mean(-1)
    said = torch.arange(vocabulary, device=z.device) == label
    gradient = ((z - lse).exp() - smoothing / vocabulary - (1 - smoothing) * said) * (scale * real[:, None])
    return losses * real, F.pad(gradient.to(logits.dtype), (0, logits.shape[1] - vocabulary))


def add_product(total: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    """total + a b, summed in float32 over chunks."""
    if a.device.type == "cpu":
        return a @ b if total is None else total.add_(a @ b)
    if total is None:
        return torch.mm(a, b, out_dtype=torch.float32)
    return torch.addmm(total, a, b, out_dtype=torch.float32)


class LinearCrossEntropy(torch.autograd.Function):
    """x (N, D), weight (V', D), labels (N,), scale () -> scale · sum of losses; both gradients are made on the way."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        labels: Tensor,
        scale: Tensor,
        smoothing: float,
        vocabulary: int,
        rows: int,
        softmax: Callable[..., tuple[Tensor, Tensor]],
    ) -> Tensor:
        dx, dw = torch.empty_like(x), None
        total = torch.zeros((), device=x.device)
        for start in range(0, len(x), rows):
            here = slice(start, start + rows)
            logits = x[here] @ weight.T  # (n, V')
            losses, gradient = softmax(logits, labels[here], scale, smoothing, vocabulary)
            total += losses.sum()
            torch.mm(gradient, weight, out=dx[here])
            dw = gradient.T @ x if rows >= len(x) else add_product(dw, gradient.T, x[here])
        assert dw is not None
        ctx.save_for_backward(dx, dw.to(weight.dtype))
        return total * scale

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        dx, dw = ctx.saved_tensors
        # upstream is 1 where this is the last operation; the products cost 0.1 ms and keep it right where it is not
        return dx * upstream.to(dx.dtype), dw * upstream.to(dw.dtype), None, None, None, None, None, None


def fused_loss(
    x: Tensor,
    weight: Tensor,
    labels: Tensor,
    scale: Tensor,
    smoothing: float,
    vocabulary: int,
    rows: int = 8192,
    softmax: Callable[..., tuple[Tensor, Tensor]] = in_place,
) -> Tensor:
    loss: Tensor = LinearCrossEntropy.apply(x, weight, labels, scale, smoothing, vocabulary, rows, softmax)
    return loss


def plain_loss(x: Tensor, weight: Tensor, labels: Tensor, scale: Tensor, smoothing: float, vocabulary: int) -> Tensor:
    """The reference, in the precision of what it is given, and the peers' way: logits as float32."""
    logits = F.linear(x, weight)[:, :vocabulary].float()
    return scale * F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum")


def checkpointed_loss(
    x: Tensor, weight: Tensor, labels: Tensor, scale: Tensor, smoothing: float, vocabulary: int, rows: int = 8192
) -> Tensor:
    parts = [
        checkpoint(plain_loss, xs, weight, ys, scale, smoothing, vocabulary, use_reentrant=False)
        for xs, ys in zip(x.split(rows), labels.split(rows))
    ]
    return torch.stack(parts).sum()


def softmax_alone(name: str, tokens: int, vocabulary: int, smoothing: float) -> None:
    """The kernels by themselves, over logits that lie there already (overwritten again and again: their time is the
    same)."""
    columns = -(-vocabulary // 64) * 64
    labels = torch.randint(0, vocabulary, (tokens,), device=DEVICE)
    scale = torch.tensor(1.0 / tokens, device=DEVICE)
    for way, softmax in (("lanes", in_place), ("waves", in_waves)):
        logits = torch.randn(tokens, columns, device=DEVICE, dtype=HALF)
        exact = logits[:64].float()  # of the first rows
        losses, gradient = softmax(logits.clone(), labels, scale, smoothing, vocabulary)
        values = losses[:64], gradient[:64]
        twins = by_softmax(exact, labels[:64], scale, smoothing, vocabulary)
        errors = [relative(a, b) for a, b in zip(values, twins)]
        del values, losses, gradient
        ms = kernel_ms([lambda z=logits, s=softmax: s(z, labels, scale, smoothing, vocabulary)], rounds=3)
        limit = limit_ms(moved=4 * logits.numel())
        say(f"{name} softmax in {way}", ms=ms, limit_ms=limit, of_limit=limit / ms, errors=[f"{e:.1e}" for e in errors])
        assert max(errors) < (1e-5 if SMOKE else 1e-2), errors
        del logits


def compare(name: str, tokens: int, dim: int, vocabulary: int, smoothing: float) -> None:
    columns = -(-vocabulary // 64) * 64
    x = torch.randn(tokens, dim, device=DEVICE, dtype=HALF).requires_grad_()
    weight = (torch.randn(columns, dim, device=DEVICE) * 0.3 / dim**0.5 * 8).to(HALF).requires_grad_()
    labels = torch.randint(0, vocabulary, (tokens,), device=DEVICE)
    labels[::7] = IGNORE
    scale = torch.tensor(1.0 / tokens, device=DEVICE)
    given = labels, scale, smoothing, vocabulary
    rows = 16 if SMOKE else 8192

    few = slice(0, min(tokens, 2048))  # the float32 twin reads this many
    exact = [t.detach().float().requires_grad_() for t in (x[few], weight)]
    reference = plain_loss(*exact, labels[few], *given[1:])
    twin = (reference.detach(), *torch.autograd.grad(reference, exact))
    softmax = compiled(by_softmax)
    ways: dict[str, Callable[..., Tensor]] = {
        "full": compiled(plain_loss),
        "checkpoint": compiled(lambda *a: checkpointed_loss(*a, rows=rows)),
        "inductor": lambda *a: fused_loss(*a, rows=rows, softmax=softmax),
        "triton": lambda *a: fused_loss(*a, rows=rows),
        "triton in waves": lambda *a: fused_loss(*a, rows=rows, softmax=in_waves),
        "triton, one chunk": lambda *a: fused_loss(*a, rows=tokens),
    }
    limit = limit_ms(6 * tokens * columns * dim)
    for way, loss in ways.items():

        def work(loss: Callable[..., Tensor] = loss) -> None:
            torch.autograd.grad(loss(x, weight, *given), (x, weight))

        def both(way: str = way, loss: Callable[..., Tensor] = loss, work: Callable[[], None] = work) -> None:
            value = loss(x[few], weight, labels[few], *given[1:])
            grads = torch.autograd.grad(value, (x, weight))
            errors = [relative(a, b) for a, b in zip((value.detach(), grads[0][few], grads[1]), twin)]
            if not SMOKE:
                torch.cuda.reset_peak_memory_stats()
            ms = timed(work)
            peak = 0.0 if SMOKE else torch.cuda.max_memory_allocated() / 1e9
            say(f"{name} {way}", ms=ms, of_limit=limit / ms, peak_GB=peak, errors=[f"{e:.1e}" for e in errors])
            assert max(errors) < (1e-5 if SMOKE else 2e-2), errors

        section(f"{name} {way}", both)


if __name__ == "__main__":
    ceilings()
    if SMOKE:
        section("softmax", lambda: softmax_alone("smoke", 50, 100, 0.1))
        compare("smoke", 50, 32, 100, 0.1)
        compare("smoke", 50, 32, 64, 0.0)
    else:
        section("softmax gpt2", lambda: softmax_alone("gpt2", 32 * 1024, 50257, 0.0))
        section("softmax base", lambda: softmax_alone("base", 512 * 32, 32000, 0.1))
        compare("gpt2", 32 * 1024, 768, 50257, 0.0)
        compare("base", 512 * 32, 512, 32000, 0.1)
    last_line()
