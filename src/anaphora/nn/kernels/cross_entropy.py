"""Cross-entropy over a large vocabulary, with its gradient, in one walk over the logits.

The plain way writes half a dozen tensors as large as the logits (log-probabilities, probabilities, their differences, a
gradient of each), hundreds of megabytes that a CPU must fetch again and again. But the loss is a sum over positions and
its gradient is known in closed form, so both are computed position by position, a few rows at a time that stay in the
cache, and the gradient is all that is kept:

    CE(P) = -Σ_v y_v log P_v,  y = (1 - ε) · label + ε / V        ∂CE/∂z = P - y
    J = KL(P‖Q) + KL(Q‖P)                                         ∂J/∂z_P = P · (log P - log Q - KL(P‖Q)) + P - Q

`reference_cross_entropy` says the same in a few plain lines; tests/kernels compares values and gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS_ON_CPU = 128  # positions at a time: 128 × 8,000 float32 numbers are 4 MB


def reference_cross_entropy(
    logits: Tensor, labels: Tensor, *, smoothing: float = 0.0, consistency: float = 0.0, ignore: int = 0
) -> Tensor:
    """logits (B, T, V), labels (B, T) -> the sum over labels other than `ignore`; with `consistency`, logits (2B, T, V)
    are two readings P and Q of the same batch, and the sum is that of ½ (CE(P) + CE(Q)) + consistency / 4 · J."""
    if not consistency:
        flat = logits.flatten(0, 1).float()
        return F.cross_entropy(flat, labels.flatten(), ignore_index=ignore, label_smoothing=smoothing, reduction="sum")
    both = [reference_cross_entropy(half, labels, smoothing=smoothing, ignore=ignore) for half in logits.chunk(2)]
    p, q = (F.log_softmax(half.float(), dim=-1) for half in logits.chunk(2))  # (B, T, V)
    # KL(P‖Q) + KL(Q‖P) = Σ P (log P - log Q) + Σ Q (log Q - log P) = Σ (P - Q) (log P - log Q)
    divergence = ((p.exp() - q.exp()) * (p - q)).sum(dim=-1)  # (B, T)
    return sum(both) / 2 + consistency / 4 * (divergence * (labels != ignore)).sum()


def cross_entropy(
    logits: Tensor, labels: Tensor, *, smoothing: float = 0.0, consistency: float = 0.0, ignore: int = 0
) -> Tensor:
    """The same as `reference_cross_entropy`, in less time and memory."""
    loss: Tensor = _CrossEntropy.apply(logits, labels, smoothing, consistency, ignore, False)
    return loss


def token_log_probabilities(logits: Tensor, labels: Tensor, *, ignore: int = 0) -> Tensor:
    """log P of each label: logits (B, T, V), labels (B, T) -> (B, T) float32, 0 where the label is `ignore`."""
    losses: Tensor = _CrossEntropy.apply(logits, labels, 0.0, 0.0, ignore, True)
    return -losses


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, smoothing: float, consistency: float, ignore: int, each: bool
    ) -> Tensor:
        vocabulary = logits.shape[-1]
        readings = [half.reshape(-1, vocabulary) for half in (logits.chunk(2) if consistency else (logits,))]  # (N, V)
        shape, labels = labels.shape, labels.reshape(-1)  # (N,)
        wanted = ctx.needs_input_grad[0]
        gradient = torch.empty_like(logits, memory_format=torch.contiguous_format) if wanted else None
        parts = [half.view(-1, vocabulary) for half in gradient.chunk(len(readings))] if gradient is not None else []
        rows = ROWS_ON_CPU if logits.device.type == "cpu" else max(1, len(labels))
        total = torch.zeros(len(labels) if each else (), device=logits.device)
        for start in range(0, len(labels), rows):
            here = slice(start, start + rows)
            chunks = [half[here].float() for half in readings]
            padding = (labels[here] == ignore).unsqueeze(1)  # (n, 1)
            places = [part[here] for part in parts]
            if wanted and not consistency and logits.device.type == "cpu":  # where every walk over (n, V) counts
                losses, gradients = _step(chunks[0], labels[here, None], smoothing, places[0])
            else:
                losses, gradients = _walk(chunks, labels[here, None], smoothing, consistency, with_gradient=wanted)
            losses = losses.masked_fill(padding, 0.0)  # not times zero: what stands there may be infinite
            if each:
                total[here] = losses[:, 0]
            else:
                total += losses.sum()
            for place, values in zip(places, gradients):
                _clear(values, padding)
                if place is not values:
                    place.copy_(values)
        ctx.gradient = gradient
        return total.view(shape) if each else total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            raise RuntimeError("this loss can be differentiated once: its gradient is not kept")
        return gradient.mul_(scale.unsqueeze(-1) if scale.dim() else scale), None, None, None, None, None


def _clear(values: Tensor, padding: Tensor) -> None:
    """Zeros where padding (n, 1) is True: values (n, V)."""
    if values.device.type == "cpu":  # the few rows that are meant, and not a look at every number
        values.index_fill_(0, padding[:, 0].nonzero()[:, 0], 0.0)
    else:
        values.masked_fill_(padding, 0.0)


def _step(chunk: Tensor, labels: Tensor, smoothing: float, place: Tensor) -> tuple[Tensor, list[Tensor]]:
    """`_walk` of one reading with its gradient, which is written into its place where the types agree: P alone, without
    the logarithm of every one. -log P(y) = (max z - z_y) - log max P, and max P never vanishes."""
    p = torch.softmax(chunk, dim=-1, out=place) if place.dtype == chunk.dtype else torch.softmax(chunk, dim=-1)
    top = chunk.amax(dim=-1, keepdim=True)  # (n, 1)
    losses = (1 - smoothing) * (top - chunk.gather(1, labels)) - p.amax(dim=-1, keepdim=True).log_()
    if smoothing:
        losses += smoothing * (top - chunk.mean(dim=-1, keepdim=True))
        p -= smoothing / p.shape[-1]
    p.scatter_add_(1, labels, torch.full_like(labels, smoothing - 1, dtype=p.dtype))
    return losses, [p]


def _walk(
    chunks: list[Tensor], labels: Tensor, smoothing: float, consistency: float, *, with_gradient: bool
) -> tuple[Tensor, list[Tensor]]:
    """One or two readings (n, V) float32, labels (n, 1) -> loss (n, 1), and its gradient for each reading."""
    logs = [chunk.log_softmax(dim=-1) for chunk in chunks]
    share = 1 / len(logs)
    losses = torch.zeros_like(labels, dtype=logs[0].dtype)
    for log in logs:
        losses -= share * (1 - smoothing) * log.gather(1, labels)
        if smoothing:
            losses -= share * smoothing * log.mean(dim=-1, keepdim=True)
    if not with_gradient and not consistency:
        return losses, []
    probabilities = [log.exp() for log in logs]
    gradients = []
    if consistency:
        (p, q), (log_p, log_q) = probabilities, logs
        difference = log_p.sub_(log_q)  # log P - log Q; log P is not needed any more
        apart = p - q
        forth = (p * difference).sum(dim=-1, keepdim=True)  # KL(P‖Q)
        back = -(q * difference).sum(dim=-1, keepdim=True)  # KL(Q‖P)
        weight = consistency / 4
        losses += weight * (forth + back)
        if with_gradient:
            # ½ P + weight · (P (d - KL(P‖Q)) + P - Q), and for Q with d turned round
            gradients.append(difference.sub(forth).mul_(weight).add_(share).mul_(p).add_(apart, alpha=weight))
            gradients.append(difference.neg_().sub_(back).mul_(weight).add_(share).mul_(q).sub_(apart, alpha=weight))
    else:
        gradients = [probability.mul_(share) for probability in probabilities]
    for gradient in gradients:
        if smoothing:
            gradient -= share * smoothing / gradient.shape[-1]
        gradient.scatter_add_(1, labels, torch.full_like(labels, -share * (1 - smoothing), dtype=gradient.dtype))
    return losses, gradients
