"""Cross-entropy with label smoothing fused with the projection: which way is fastest, and how near the limit?

Asked: hidden states x (N, D), weight (V', D) of V tokens padded to V' = a multiple of 64, labels (N,); wanted are the
loss and both gradients without ever holding a float32 (N, V) tensor. Ways: `full` (autocast's: float32 logits),
`checkpoint` (chunks, compiled, computed twice), `inductor` and `triton` (gradient written in the forward pass over
bf16 logits, as Liger does: one product forward and two backward for each chunk, the softmax by a compiled function or
one Triton kernel in place).
Prediction: the three products are 6 N V' D operations, 10.3 ms for GPT-2 at 751 TFLOP/s; the kernel in place moves 4
bytes an element, 6.6 GB = 1.6 ms. So triton 12.5 ms, inductor 13.5, checkpoint 16 (four products, float32 inside),
full 25.
Command: python3 benchmarks/experiments/fused_loss.py [--smoke]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import DEVICE, HALF, SMOKE, ceilings, compiled, limit_ms, relative, say, section, timed  # isort: skip

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.utils.checkpoint import checkpoint

IGNORE = -100


@triton.jit
def _loss_and_gradient(
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
    block = min(8192, triton.next_power_of_2(columns))
    _loss_and_gradient[(rows,)](
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
        compare("smoke", 50, 32, 100, 0.1)
    else:
        compare("gpt2", 32 * 1024, 768, 50257, 0.0)
        compare("base", 512 * 32, 512, 32000, 0.1)
