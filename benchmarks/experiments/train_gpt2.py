"""GPT-2 124 M training, 32 x 1,024 tokens: which changes carry a step from nanoGPT's rate to 1.2 times it?

Baseline, in the same process: the model of nanoGPT written anew (no biases, autocast to bf16, F.cross_entropy on all
logits, flash attention, clipping, fused AdamW) compiled, and `transformers`' GPT2LMHeadModel compiled. Ours: bf16
weights refreshed by the optimizer (flat_adamw.py), residuals in bf16, the fused loss (fused_loss.py), the trunk
compiled, forward, backward and optimizer in one CUDA graph; attention by flash or cuDNN; with GPT-2's biases or
without.
Limit: 6 x 123.6 M + 6 x 12 x 768 x 1,024 (what is causal computes half) = 0.80 GFLOP a token: 34.8 ms at 751 TFLOP/s.
Prediction (523 k tok/s = 62.6 ms is nanoGPT): bf16 weights and residuals and the fused loss 56 ms; cuDNN's attention
53.5; in a graph 52.5 (624 k tok/s, 1.19 x); biases + 1.5 ms unless their sums are fused; max-autotune - 1.
Measured since: nanoGPT compiled 62.1 ms, ours with cuDNN in a graph 56.8, with biases 59.05; the loss kernel 4.48.
`fused`: the kernels of this folder, nothing compiled. Prediction with biases: the loss kernel - 2.4 ms, norms, GELU and
sums of biases as without biases or better: 54 ms; one chunk of loss - 0.4; aside - 0.7: 53, 1.17 x nanoGPT.
Command: python3 benchmarks/experiments/train_gpt2.py [--smoke] [--only
check,nanogpt,hf,flash,cudnn,biases,fused,fused_one,fused_aside,autotune,curve]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import measure  # isort: skip (before Triton: it chooses the interpreter)

import torch
import torch.nn.functional as F
from aside import ASIDE
from flat_adamw import FlatAdamW
from fused_loss import fused_loss, plain_loss
from fused_norm import add_norm
from measure import DEVICE, HALF, SMOKE, captured, ceilings, compiled, last_line, profile, relative, say, section, timed
from short_layers import Embed, FeedForward, SplitHeads, product
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

VOCABULARY, COLUMNS, DIM, HEADS, LAYERS, ROWS, LENGTH = 50257, 50304, 768, 12, 12, 32, 1024
if SMOKE:
    VOCABULARY, COLUMNS, DIM, HEADS, LAYERS, ROWS, LENGTH = 100, 128, 32, 2, 2, 2, 16
TOKENS = ROWS * LENGTH
FLASH, CUDNN = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION


class Block(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM, bias=bias), nn.LayerNorm(DIM, bias=bias)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=bias), nn.Linear(DIM, DIM, bias=bias)
        self.inner, self.outer = nn.Linear(DIM, 4 * DIM, bias=bias), nn.Linear(4 * DIM, DIM, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)"""
        rows, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, HEADS, dim // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, D / H)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, dim))
        return x + self.outer(F.gelu(self.inner(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(COLUMNS, DIM) * 0.02)  # padded: what stands behind V is never said
        self.positions = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
        self.blocks = nn.ModuleList(Block(bias) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM, bias=bias)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                deep = name.endswith(("out.weight", "outer.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * LAYERS) ** 0.5 if deep else 0.02)

    def trunk(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B * T, D)"""
        x = x + self.positions[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x).flatten(0, 1)

    def fused(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B * T, D), in the kernels of this folder but for the attention: residual, bias and norm are one,
        as are bias and GELU, and gradients of biases are sums on the way."""
        length = tokens.shape[1]
        flat = tokens.flatten()
        sizes = (len(flat),)
        z, _ = Embed.apply(flat, None, sizes, length, self.tokens, self.positions, 1.0, None, 0, 0.0)  # (N, D)
        y, bias = None, None
        for block in self.blocks:
            z, x = add_norm(z, y, bias, block.norm1, pre=True)
            qkv = product(x, block.qkv.weight, block.qkv.bias)
            q, k, v = SplitHeads.apply(qkv, block.qkv.bias, length, HEADS)  # (B, H, T, D / H)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = product(y.transpose(1, 2).reshape(len(flat), DIM), block.out.weight)
            z, x = add_norm(z, y, block.out.bias, block.norm2, pre=True)
            y = FeedForward.apply(x, block.inner.weight, block.inner.bias, block.outer.weight, "gelu")
            bias = block.outer.bias
        return add_norm(z, y, bias, self.norm, pre=True)[1]

    def embed(self, tokens: Tensor) -> Tensor:
        # outside what is compiled: inductor adds gradients with atomics, whose sums come out differently every time;
        # the kernel of torch sorts first
        return F.embedding(tokens, self.tokens)

    def forward(self, tokens: Tensor, labels: Tensor, vocabulary: int = COLUMNS) -> Tensor:
        """nanoGPT's way: all logits as float32, and those of the padding like any others."""
        scale = torch.ones((), device=tokens.device) / labels.numel()
        return plain_loss(self.trunk(self.embed(tokens)), self.tokens, labels.flatten(), scale, 0.0, vocabulary)


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Learnable noise: each token follows from the one before, one time in two. (B, T) twice"""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.randint(0, VOCABULARY, (ROWS, LENGTH + 1), device=DEVICE, generator=generator)
    follow = torch.rand(ROWS, LENGTH, device=DEVICE, generator=generator) < 0.5
    x[:, 1:] = torch.where(follow, (x[:, :-1] * 31 + 7) % 1000 % VOCABULARY, x[:, 1:])
    return x[:, :-1].contiguous(), x[:, 1:].contiguous()


def report(name: str, work: Callable[[], object], seconds: float, base: float) -> float:
    if not SMOKE:
        torch.cuda.reset_peak_memory_stats()
    ms = timed(work)
    limit = TOKENS * (6 * (COLUMNS * DIM + 12 * LAYERS * DIM**2) + 6 * LAYERS * DIM * LENGTH) / measure.PRODUCTS * 1e3
    peak = 0.0 if SMOKE else torch.cuda.max_memory_allocated() / 1e9
    rate = TOKENS / ms
    say(name, ms=ms, ktok_s=rate, of_limit=limit / ms, x_nanogpt=rate / base if base else 1.0, GB=peak, start_s=seconds)
    return rate


def autocast_step(model: nn.Module, loss: Callable[[], Tensor], rate: float = 6e-4) -> Callable[[], Tensor]:
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=not SMOKE)

    def step() -> Tensor:
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=not SMOKE):
            value = loss()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.detach()

    return step


def our_step(
    model: GPT2, x: Tensor, y: Tensor, *, rate: float = 6e-4, fused: bool = False, chunks: int = 4, **how: object
) -> tuple[Callable[[], Tensor], FlatAdamW]:
    """x and y are read at every step: a graph finds new batches where the first one was."""
    optimizer = FlatAdamW(model, rate)
    trunk = model.fused if fused else compiled(model.trunk, **how)
    scale = torch.tensor(1.0 / y.numel(), device=DEVICE)
    value = torch.zeros((), device=DEVICE)

    def step() -> Tensor:
        hidden = trunk(x if fused else model.embed(x))
        loss = fused_loss(hidden, model.tokens, y.flatten(), scale, 0.0, VOCABULARY, rows=max(16, TOKENS // chunks))
        loss.backward()
        ASIDE.join()
        optimizer.step()
        return value.copy_(loss.detach())

    return step, optimizer


def check() -> None:
    """Values and gradients of ours in bf16 against the float32 twin."""
    torch.manual_seed(0)
    twin = GPT2(bias=True).to(DEVICE)
    for name, weight in twin.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(weight, std=0.02)
    x, y = (part[:2] for part in batch())
    scale = torch.tensor(1.0 / y.numel(), device=DEVICE)
    hidden = twin.trunk(twin.embed(x))
    reference = plain_loss(hidden, twin.tokens, y.flatten(), scale, 0.0, VOCABULARY)
    reference.backward()
    for way in ("trunk", "fused"):
        model = GPT2(bias=True).to(DEVICE)
        model.load_state_dict(twin.state_dict())
        model.to(HALF)
        hidden = model.fused(x) if way == "fused" else model.trunk(model.embed(x))
        loss = fused_loss(hidden, model.tokens, y.flatten(), scale, 0.0, VOCABULARY, rows=y.numel() // 2)
        loss.backward()
        errors = [relative(a.grad, b.grad) for a, b in zip(model.parameters(), twin.parameters())]
        value, mean = relative(loss.detach(), reference.detach()), sum(errors) / len(errors)
        say(f"check {way} against float32", loss=value, gradients_worst=max(errors), gradients_mean=mean)
        assert value < (1e-5 if SMOKE else 1e-3) and max(errors) < (1e-4 if SMOKE else 5e-2)


def run() -> None:
    x, y = batch()
    base = 0.0

    def nanogpt() -> None:
        nonlocal base
        start = time.perf_counter()
        model = GPT2().to(DEVICE)
        whole = compiled(model)
        with sdpa_kernel(FLASH) if not SMOKE else nullcontext():
            step = autocast_step(model, lambda: whole(x, y))
            step()
            measure.wait()
            base = report("nanoGPT's way, compiled", step, time.perf_counter() - start, 0.0)
            profile("nanoGPT's way", step)

    def hf() -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        start = time.perf_counter()
        none = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        size = {"vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": DIM, "n_layer": LAYERS, "n_head": HEADS}
        model = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", use_cache=False, **none, **size)).to(DEVICE)
        whole = compiled(model)
        step = autocast_step(model, lambda: whole(input_ids=x, labels=x).loss)
        step()
        measure.wait()
        report("transformers, compiled", step, time.perf_counter() - start, base)

    def ours(name: str, backend: SDPBackend, bias: bool, told: bool, *, aside: bool = False, **how: object) -> None:
        start = time.perf_counter()
        if aside and not SMOKE:
            ASIDE.begin()
        with sdpa_kernel(backend) if not SMOKE else nullcontext():
            step, _ = our_step(GPT2(bias).to(DEVICE), x, y, **how)
            step()
            measure.wait()
            seconds = time.perf_counter() - start
            report(f"ours, {name}", step, seconds, base)
            graph = captured(step)
            report(f"ours, {name}, in a graph", graph, seconds, base)
            if told:
                profile(name, graph, top=24)

    def ours_fused(name: str, **how: Any) -> None:
        try:
            ours(f"fused, biases{name}", CUDNN, True, True, fused=True, **how)
        finally:
            ASIDE.end()

    section("nanogpt", nanogpt)
    if not SMOKE:
        section("hf", hf)
    section("flash", lambda: ours("flash", FLASH, False, False))
    section("cudnn", lambda: ours("cuDNN", CUDNN, False, True))
    section("biases", lambda: ours("cuDNN, biases", CUDNN, True, True))
    section("fused", lambda: ours_fused(""))
    section("fused_one", lambda: ours_fused(", one chunk of loss", chunks=1))
    section("fused_aside", lambda: ours_fused(", one chunk, aside", chunks=1, aside=True))
    section("autotune", lambda: ours("cuDNN, max-autotune", CUDNN, False, True, mode="max-autotune-no-cudagraphs"))


def curve() -> None:
    """Losses of the same 100 updates: float32 master under autocast, and bf16 weights with bf16 residuals."""
    updates = 3 if SMOKE else 100
    told: dict[str, list[float]] = {}
    for name in ("autocast", "ours", "fused"):
        torch.manual_seed(1)
        model = GPT2().to(DEVICE)
        if name == "fused":  # with biases, from 0: the first loss is the same, later ones nearly
            weights, model = model.state_dict(), GPT2(bias=True).to(DEVICE)
            model.load_state_dict({**{k: torch.zeros_like(v) for k, v in model.state_dict().items()}, **weights})
        x, y = batch()
        if name != "autocast":
            step = our_step(model, x, y, fused=name == "fused")[0]
        else:
            whole = compiled(model)
            step = autocast_step(model, lambda whole=whole, x=x, y=y: whole(x, y, VOCABULARY))
        losses = []
        for update in range(updates):
            for place, new in zip((x, y), batch(update)):
                place.copy_(new)
            losses.append(step().clone())
        told[name] = [float(loss) for loss in losses]
    for name in ("ours", "fused"):
        apart = [abs(a - b) for a, b in zip(told["autocast"], told[name])]
        mean = sum(apart[-10:]) / len(apart[-10:])
        ends = {"autocast": told["autocast"][-1], name: told[name][-1]}
        say(f"{updates} updates, {name} apart", at_the_end=mean, most=max(apart), first=apart[0], **ends)


if __name__ == "__main__":
    ceilings()
    section("check", check)
    run()
    section("curve", curve)
    last_line()
