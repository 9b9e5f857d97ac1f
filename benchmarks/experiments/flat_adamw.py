"""AdamW over one flat vector: float32 master weights and moments, bf16 weights that the model computes with.

Asked: can a step do without autocast's casts, and what does the optimizer then cost? The model's parameters are views
of one bf16 vector (each begins at a multiple of 128 bytes, as the matrix units want it); gradients are gathered into
another, the norm is one reduction, and one kernel reads gradient, master and moments and writes master, moments and
the bf16 copy. Rate, step and norm lie on the device, so that a CUDA graph holds the whole update.
Prediction: 30 bytes a parameter: 124 M parameters 3.7 GB = 0.9 ms; fused AdamW of torch with float32 gradients moves
28 bytes, but zeroing, clipping and casting add 20 and some 150 launches.
Command: python3 benchmarks/experiments/flat_adamw.py [--smoke]
"""

from __future__ import annotations

from measure import DEVICE, HALF, SMOKE, captured, ceilings, limit_ms, relative, say, section, timed  # isort: skip

import torch
import triton
import triton.language as tl
from torch import nn

ALIGN = 64  # elements


@triton.jit
def _adamw(
    master, mean, square, shadow, gradient, norm, rate, step, count, decayed, beta1, beta2, epsilon, decay, clip,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = at < count
    lr, t = tl.load(rate), tl.load(step)
    factor = tl.minimum(clip / (tl.load(norm) + 1e-6), 1.0)
    g = tl.load(gradient + at, mask=here, other=0.0).to(tl.float32) * factor
    w = tl.load(master + at, mask=here, other=0.0)
    m = beta1 * tl.load(mean + at, mask=here, other=0.0) + (1 - beta1) * g
    v = beta2 * tl.load(square + at, mask=here, other=0.0) + (1 - beta2) * g * g
    w = w * (1 - lr * tl.where(at < decayed, decay, 0.0))
    whole1, whole2 = 1 - tl.exp(t * tl.log(beta1)), 1 - tl.exp(t * tl.log(beta2))
    w -= lr * (m / whole1) / (tl.sqrt(v / whole2) + epsilon)
    tl.store(master + at, w, mask=here)
    tl.store(mean + at, m, mask=here)
    tl.store(square + at, v, mask=here)
    tl.store(shadow + at, w.to(shadow.dtype.element_ty), mask=here)


class FlatAdamW:
    """Matrices stand first and decay, vectors behind them and do not."""

    def __init__(
        self,
        model: nn.Module,
        rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        epsilon: float = 1e-8,
        decay: float = 0.1,
        clip: float = 1.0,
        dtype: torch.dtype = HALF,
    ) -> None:
        parameters = list(model.parameters())
        self.parameters = sorted(parameters, key=lambda p: p.dim() < 2)  # stable
        self.betas, self.epsilon, self.decay, self.clip = betas, epsilon, decay, clip
        starts, count, decayed = [], 0, 0
        for parameter in self.parameters:
            starts.append(count)
            count += -(-parameter.numel() // ALIGN) * ALIGN
            decayed = count if parameter.dim() >= 2 else decayed
        self.decayed = decayed
        self.master = torch.zeros(count, device=DEVICE)
        self.mean, self.square = torch.zeros_like(self.master), torch.zeros_like(self.master)
        self.shadow, self.gradient = (torch.zeros(count, device=DEVICE, dtype=dtype) for _ in range(2))
        self.rate = torch.tensor(rate, device=DEVICE)
        self.steps = torch.zeros((), device=DEVICE)
        self.places = []
        for parameter, start in zip(self.parameters, starts):
            here = slice(start, start + parameter.numel())
            self.master[here] = parameter.detach().flatten().float()
            self.places.append(self.gradient[here].view(parameter.shape))
            parameter.data = self.shadow[here].view(parameter.shape)
        self.shadow.copy_(self.master)

    @torch.no_grad()
    def step(self) -> None:
        torch._foreach_copy_(self.places, [p.grad for p in self.parameters])
        for parameter in self.parameters:
            parameter.grad = None
        norm = torch.linalg.vector_norm(self.gradient, dtype=torch.float32)
        self.steps += 1
        count, block = len(self.master), 2048
        _adamw[(triton.cdiv(count, block),)](
            self.master, self.mean, self.square, self.shadow, self.gradient, norm, self.rate, self.steps, count,
            self.decayed, *self.betas, self.epsilon, self.decay, self.clip, BLOCK=block, num_warps=8,
        )  # fmt: skip


def check() -> None:
    """Three steps against torch's AdamW in float32, clipping and decay included."""
    torch.manual_seed(0)
    ours, theirs = (nn.Sequential(nn.Linear(33, 50), nn.LayerNorm(50), nn.Linear(50, 7)).to(DEVICE) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    flat = FlatAdamW(ours, 1e-2, dtype=torch.float32)
    matrices = [p for p in theirs.parameters() if p.dim() > 1]
    vectors = [p for p in theirs.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    torch_adamw = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))
    for _ in range(3):
        x = torch.randn(20, 33, device=DEVICE)
        for model in (ours, theirs):
            (model(x) ** 2).sum().backward()
        flat.step()
        nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        torch_adamw.step()
        torch_adamw.zero_grad()
    error = max(relative(a.detach(), b.detach()) for a, b in zip(ours.parameters(), theirs.parameters()))
    say("flat AdamW, error after 3 steps", error=error)
    assert error < 1e-5


def cost() -> None:
    shapes = [(50304, 768)] + [(768, 768 * n) for _ in range(12) for n in (3, 1, 4, 4)]
    shapes = [(64, 32)] if SMOKE else shapes
    model = nn.ParameterList(nn.Parameter(torch.randn(shape, device=DEVICE)) for shape in shapes)
    flat = FlatAdamW(model, 1e-4)
    gradients = [torch.randn_like(p) for p in model]

    def step() -> None:
        for p, g in zip(model, gradients):
            p.grad = g
        flat.step()

    ms = timed(captured(step))
    say("flat AdamW, 124 M in a graph", ms=ms, of_limit=limit_ms(moved=30 * len(flat.master)) / ms)
    if SMOKE:
        return
    plain = nn.ParameterList(nn.Parameter(torch.randn(shape, device=DEVICE)) for shape in shapes)
    fused = torch.optim.AdamW(plain.parameters(), lr=1e-4, fused=True)
    for p in plain:
        p.grad = torch.randn_like(p)

    def theirs() -> None:
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        fused.step()

    say("torch fused AdamW and clipping", ms=timed(theirs))


if __name__ == "__main__":
    ceilings()
    section("check", check)
    section("cost", cost)
