"""Transformer-base training, 512 sentences x (32 -> 32), V = 32,000: what reaches 2.5 times Marian's rate?

Peers in the same process: `transformers`' MarianMTModel eager and compiled (autocast, attention mask, no smoothing:
its own loss). Ours: post-norm 6 + 6 layers, smoothing 0.1, dropout 0.1, bf16 weights refreshed by the optimizer, the
fused loss, the stacks compiled, one CUDA graph. Three layouts:

    masked   (B, S, D) with a boolean mask of keys, as src does today
    packed   (N, D), all real tokens of a batch one behind the other, attention by the places where sentences begin
             (flash, varlen). Nothing is computed for padding, and the shape of a batch is two numbers, the tokens of
             source and target, rounded up; places of sentences are data. So few graphs serve all batches. Keys and
             values of the memory are one product for all layers.

    short    kernels of this folder throughout, nothing compiled: short_attention.py reads and writes q, k, v where the
             products leave them, fused_norm.py, biases' gradients on the way (short_layers.py); (N, D), rows of one
             length or, when lengths are mixed, packed. `aside`: weights' gradients on a second stream (aside.py)

Lengths `full` (all 32) and `mixed` (16 to 32, padded to 32; rates count real target tokens).
Limit: 6 x 60.5 M x 16,384 = 5.9 TFLOP = 7.9 ms at 751 TFLOP/s, 2.07 M tok/s.
Prediction: products 512 wide run at 450 to 550 TFLOP/s: 12 ms; loss + 0.6; norms, sums, dropout 3.3; attention 1.3;
optimizer 0.5: 18 ms, 900 k tok/s, 2.1 x Marian compiled (427 k); packed equals masked - 1.5 ms when full, and is 1.3
x as fast mixed.
Measured since, one H200: Marian compiled 32.6 ms, masked in a graph 23.4 (1.39 x): 976 launches; attention 4.55 ms,
norms 3.6, ReLU 1.2, biases 0.5, loss 0.8; products, optimizer and embeddings 12.3. Prediction for short: attention 1.1,
norms 1.6, ReLU's slope 0.7, loss 0.6, embeddings 0.3 (of the 12.3), some 380 launches: 12.3 + 4.0 + gaps 0.3 = 16.6 ms,
1.96 x; aside 15.6, 2.1 x; mixed and packed 0.76 of it. 2.5 x (13.0 ms) asks for products at 750 TFLOP/s, which 512
columns do not reach.
Command: python3 benchmarks/experiments/train_translator.py [--smoke] [--only
check,curve,products,marian,marian_compiled,marian_mixed,masked,short,short_aside,short_mixed,packed,packed_mixed,masked_mixed]
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable

import measure  # isort: skip (before Triton: it chooses the interpreter)

import torch
import torch.nn.functional as F
from aside import ASIDE
from flat_adamw import FlatAdamW
from fused_loss import IGNORE, fused_loss, plain_loss
from fused_norm import add_norm
from measure import DEVICE, HALF, SMOKE, captured, ceilings, compiled, last_line, profile, relative, say, section, timed
from short_attention import CrossAttention, Places, SelfAttention, Shared
from short_layers import Embed, FeedForward, product
from torch import Tensor, nn

VOCABULARY, DIM, HEADS, LAYERS, INNER, ROWS, LENGTH = 32000, 512, 8, 6, 2048, 512, 32
if SMOKE:
    VOCABULARY, DIM, HEADS, LAYERS, INNER, ROWS, LENGTH = 96, 32, 2, 2, 64, 5, 8
SMOOTHING = 0.1


def spans(starts: Tensor, tokens: int) -> Tensor:
    """Where sentences begin (B + 1,) -> of each token, the sentence it belongs to (N,)."""
    return torch.searchsorted(starts[1:].contiguous(), torch.arange(tokens, device=starts.device), right=True)


def packed_attention(q: Tensor, k: Tensor, v: Tensor, where_q: Tensor, where_k: Tensor, causal: bool) -> Tensor:
    """(N, H, d), (M, H, d) twice, beginnings (B + 1,) int32 twice -> (N, H, d)."""
    if q.device.type == "cuda":
        from torch.nn.attention.varlen import varlen_attn

        if "window_size" in inspect.signature(varlen_attn).parameters:
            how = {"window_size": (-1, 0) if causal else (-1, -1)}
        else:
            how = {"is_causal": causal}
        return varlen_attn(q, k, v, where_q, where_k, LENGTH, LENGTH, **how)
    seen = spans(where_q, len(q))[:, None] == spans(where_k, len(k))
    if causal:
        seen = seen & (torch.arange(len(q))[:, None] >= torch.arange(len(k)))
    return F.scaled_dot_product_attention(*(t.transpose(0, 1) for t in (q, k, v)), attn_mask=seen).transpose(0, 1)


class Layout:
    """How sentences lie: masked, (B, T, D) and a mask; or packed, (N, D) and beginnings."""

    def __init__(self, source_lengths: Tensor, target_lengths: Tensor, packed: bool) -> None:
        self.packed, self.rows = packed, len(source_lengths)
        lengths = source_lengths, target_lengths
        if packed:
            none = torch.zeros(1, dtype=torch.int32, device=DEVICE)
            self.source, self.target = (torch.cat([none, n.cumsum(0).int()]) for n in lengths)
        else:
            self.source, self.target = (
                (torch.arange(LENGTH, device=DEVICE) < n[:, None])[:, None, None] for n in lengths
            )  # (B, 1, 1, T)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, what: str) -> Tensor:
        """(…, D) three times, by heads -> (…, D)"""
        shape, causal = q.shape, what == "target"
        if self.packed:
            q, k, v = (t.unflatten(-1, (HEADS, -1)) for t in (q, k, v))
            own, other = {"source": (0, 0), "target": (1, 1), "memory": (1, 0)}[what]
            where = self.source, self.target
            return packed_attention(q, k, v, where[own], where[other], causal).reshape(shape)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q, k, v))
        mask = None if causal else self.source
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return y.transpose(1, 2).reshape(shape)


class Block(nn.Module):
    def __init__(self, decoder: bool, dropout: float) -> None:
        super().__init__()
        self.decoder, self.dropout = decoder, dropout
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        if decoder:
            self.query, self.over = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.inner, self.outer = nn.Linear(DIM, INNER), nn.Linear(INNER, DIM)
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(3 if decoder else 2))

    def add(self, x: Tensor, y: Tensor, norm: int) -> Tensor:
        return self.norms[norm](x + F.dropout(y, self.dropout))

    def forward(self, x: Tensor, layout: Layout, memory: tuple[Tensor, Tensor] | None = None) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        x = self.add(x, self.out(layout.attend(q, k, v, what="target" if self.decoder else "source")), 0)
        if memory is not None:
            x = self.add(x, self.over(layout.attend(self.query(x), *memory, what="memory")), 1)
        return self.add(x, self.outer(F.relu(self.inner(x))), -1)


class Transformer(nn.Module):
    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = dropout
        self.tokens = nn.Parameter(torch.randn(VOCABULARY, DIM) * DIM**-0.5)
        self.positions = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
        self.encoder = nn.ModuleList(Block(False, dropout) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Block(True, dropout) for _ in range(LAYERS))
        self.remember = nn.Linear(DIM, LAYERS * 2 * DIM)  # keys and values for all layers at once

    def stacks(self, source: Tensor, target: Tensor, layout: Layout) -> Tensor:
        x = F.dropout(source, self.dropout)
        for block in self.encoder:
            x = block(x, layout)
        memory = self.remember(x).chunk(2 * LAYERS, -1)
        y = F.dropout(target, self.dropout)
        for number, block in enumerate(self.decoder):
            y = block(y, layout, memory[2 * number : 2 * number + 2])
        return y.flatten(0, -2)  # (N, D)

    def embed(self, tokens: Tensor, places: Tensor) -> Tensor:
        return F.embedding(tokens, self.tokens) * DIM**0.5 + F.embedding(places, self.positions)


def short_hidden(model: Transformer, data: Data, seed: Tensor) -> Tensor:
    """The whole of `embed` and `stacks` in the kernels of this folder: -> (N, D). Between sublayers goes a pair, the
    same tensor for the sublayer and for the residual."""
    sites = itertools.count(2)  # 0 and 1 are the embeddings'
    if data.layout.packed:
        begins, rows = (data.layout.source, data.layout.target), data.layout.rows
        places = [Places(rows, LENGTH, LENGTH, begins[a], begins[b]) for a, b in ((0, 0), (1, 1), (1, 0))]
    else:
        counts = data.source_lengths
        places = [Places(ROWS, LENGTH, LENGTH, lengths=n) for n in (counts, None, counts)]
    of_source, of_target, of_memory = places

    def add(residual: Tensor, y: Tensor, bias: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        return add_norm(residual, y, bias, norm, seed=seed, site=next(sites), dropout=model.dropout, pre=False)

    def itself(block: Block, pair: tuple[Tensor, Tensor], where: Places) -> tuple[Tensor, Tensor]:
        qkv = product(pair[0], block.qkv.weight, block.qkv.bias)
        y = SelfAttention.apply(qkv, block.qkv.bias, where, HEADS, block.decoder)
        return add(pair[1], product(y, block.out.weight), block.out.bias, block.norms[0])

    def feed(block: Block, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        y = FeedForward.apply(pair[0], block.inner.weight, block.inner.bias, block.outer.weight, "relu")
        return add(pair[1], y, block.outer.bias, block.norms[-1])

    sizes = data.source.numel(), data.target.numel()
    packed_places = data.both_places if data.layout.packed else None
    x, x_again, y, y_again = Embed.apply(
        data.both, packed_places, sizes, LENGTH, model.tokens, model.positions, DIM**0.5, seed, 0, model.dropout
    )
    pair = x, x_again
    for block in model.encoder:
        pair = feed(block, itself(block, pair, of_source))
    memory, shared = product(pair[0], model.remember.weight, model.remember.bias), Shared()
    pair = y, y_again
    for layer, block in enumerate(model.decoder):
        pair = itself(block, pair, of_target)
        q = product(pair[0], block.query.weight, block.query.bias)
        y = CrossAttention.apply(
            q, block.query.bias, memory, model.remember.bias, layer, shared, of_memory, HEADS
        )  # fmt: skip
        pair = feed(block, add(pair[1], product(y, block.over.weight), block.over.bias, block.norms[1]))
    return pair[0]


class Data:
    """A batch in both layouts: what is packed is what the mask leaves."""

    def __init__(self, mixed: bool, packed: bool, multiple: int = 8 if SMOKE else 256) -> None:
        torch.manual_seed(3)
        shortest = LENGTH // 2 if mixed else LENGTH
        lengths = [torch.randint(shortest, LENGTH + 1, (ROWS,), device=DEVICE) for _ in range(2)]
        words = [torch.randint(3, VOCABULARY, (ROWS, LENGTH), device=DEVICE) for _ in range(3)]
        self.real = int(lengths[1].sum())
        place = torch.arange(LENGTH, device=DEVICE).expand(ROWS, -1)
        there = [place < n[:, None] for n in lengths]
        if packed:
            # What fills up to the multiple are a few sentences more, each of a token at least: rows of no sentence
            # would be left unwritten by the kernel, and nothing times not-a-number is not nothing.
            more = -(-multiple // (LENGTH - 1))
            fill = [more + -(int(n.sum()) + more) % multiple for n in lengths]
            spread = [n // more + (torch.arange(more, device=DEVICE) < n % more).long() for n in fill]
            assert all(int(n.max()) <= LENGTH for n in spread)
            self.source, self.target = (F.pad(words[i][there[i]], (0, fill[i])) for i in (0, 1))
            self.places = [F.pad(place[there[i]], (0, fill[i])) for i in (0, 1)]
            self.labels = F.pad(words[2][there[1]], (0, fill[1]), value=IGNORE)
            lengths = [torch.cat([n, s]) for n, s in zip(lengths, spread)]
        else:
            self.source, self.target = words[:2]
            self.places = [place, place]
            self.labels = words[2].masked_fill(~there[1], IGNORE).flatten()
        self.source_lengths = lengths[0].int()
        self.both = torch.cat([self.source.flatten(), self.target.flatten()])  # source, then target
        self.both_places = torch.cat([part.flatten() for part in self.places])
        self.layout = Layout(*lengths, packed)


def our_loss(model: Transformer, data: Data, stacks: Callable[..., Tensor], *, plain: bool = False) -> Tensor:
    source, target = model.embed(data.source, data.places[0]), model.embed(data.target, data.places[1])
    hidden = stacks(source, target, data.layout)
    scale = torch.full((), 1.0 / data.real, device=DEVICE)
    if plain:
        return plain_loss(hidden, model.tokens, data.labels, scale, SMOOTHING, VOCABULARY)
    return fused_loss(hidden, model.tokens, data.labels, scale, SMOOTHING, VOCABULARY, rows=len(hidden))


def short_loss(model: Transformer, data: Data, seed: Tensor) -> Tensor:
    hidden = short_hidden(model, data, seed)
    scale = torch.full((), 1.0 / data.real, device=DEVICE)
    return fused_loss(hidden, model.tokens, data.labels, scale, SMOOTHING, VOCABULARY, rows=len(hidden))


def short_step(model: Transformer, data: Data, optimizer: FlatAdamW) -> Callable[[], Tensor]:
    """One update; dropout draws anew because the seed is counted up on the device."""
    seed = torch.zeros((), device=DEVICE, dtype=torch.int32)

    def step() -> Tensor:
        seed.add_(1)
        loss = short_loss(model, data, seed)
        loss.backward()
        ASIDE.join()
        optimizer.step()
        return loss.detach()

    return step


def products() -> None:
    """The step's products alone, on random numbers, one behind the other: nothing that is fused comes below this."""
    rows = ROWS * LENGTH
    kinds = (  # how often, inputs, outputs
        (12, DIM, 3 * DIM, "q, k, v"),
        (24, DIM, DIM, "D x D"),
        (12, DIM, INNER, "inner"),
        (12, INNER, DIM, "outer"),
        (1, DIM, 2 * LAYERS * DIM, "memory"),
        (1, DIM, VOCABULARY, "vocabulary"),
    )
    whole = 0.0
    for count, inputs, outputs, name in kinds:
        sets = []
        for _ in range(1 if SMOKE else 3):
            x, g = (torch.randn(rows, n, device=DEVICE).to(HALF) for n in (inputs, outputs))
            sets.append((x, torch.randn(outputs, inputs, device=DEVICE).to(HALF), g))
        parts = 8 if rows % 8 == 0 else 1

        def in_parts(x: Tensor, g: Tensor, parts: int = parts) -> Tensor:
            """Σ g xᵀ as one batch of partial sums: more tiles than a small matrix has."""
            a, b = (t.view(parts, -1, t.shape[1]) for t in (g, x))
            return torch.bmm(a.transpose(1, 2), b).sum(0)

        ways: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
            "y": lambda x, w, g: x @ w.T,
            "dx": lambda x, w, g: g @ w,
            "dw": lambda x, w, g: g.T @ x,
        }
        if outputs <= INNER:
            ways["dw in 8 parts"] = lambda x, w, g: in_parts(x, g)
        ms = {way: measure.kernel_ms([lambda w=w, s=s: w(*s) for s in sets]) for way, w in ways.items()}
        rates = {f"{way}_TFLOP_s": 2e-9 * rows * inputs * outputs / took for way, took in ms.items()}
        each = ms["y"] + ms["dx"] + min(took for way, took in ms.items() if way.startswith("dw"))
        whole += count * each
        say(f"products, {count} x {name}", ms_of_step=count * each, **rates)
    say("products of a step", ms=whole, limit_ms=6e3 * weights() * rows / measure.PRODUCTS)


def weights() -> int:
    return LAYERS * (12 * DIM**2 + 4 * DIM * INNER) + VOCABULARY * DIM


def report(name: str, work: Callable[[], object], real: int, seconds: float) -> None:
    if not SMOKE:
        torch.cuda.reset_peak_memory_stats()
    ms = timed(work)
    limit = 6 * weights() * real / measure.PRODUCTS * 1e3
    peak = 0.0 if SMOKE else torch.cuda.max_memory_allocated() / 1e9
    say(name, ms=ms, ktok_s=real / ms, of_limit=limit / ms, GB=peak, start_s=seconds)


def ours(mixed: bool, packed: bool) -> None:
    name = f"{'packed' if packed else 'masked'}, {'mixed' if mixed else 'full'}"
    start = time.perf_counter()
    data, model = Data(mixed, packed), Transformer().to(DEVICE)
    optimizer = FlatAdamW(model, 1e-4)
    stacks = compiled(lambda source, target: model.stacks(source, target, data.layout))

    def step() -> None:
        our_loss(model, data, lambda source, target, layout: stacks(source, target)).backward()
        optimizer.step()

    step()
    measure.wait()
    seconds = time.perf_counter() - start
    report(f"ours, {name}", step, data.real, seconds)
    graph = captured(step)
    report(f"ours, {name}, in a graph", graph, data.real, seconds)
    if not mixed or packed:
        profile(name, graph)


def short(mixed: bool, aside: bool) -> None:
    """Not compiled: the host needs longer than the card, so the first number is the host's; a graph is the point."""
    name = f"short{', aside' if aside else ''}, {'mixed' if mixed else 'full'}"
    start = time.perf_counter()
    data, model = Data(mixed, packed=mixed), Transformer().to(DEVICE)
    if aside and not SMOKE:
        ASIDE.begin()
    try:
        step = short_step(model, data, FlatAdamW(model, 1e-4))
        step()
        measure.wait()
        seconds = time.perf_counter() - start
        report(f"ours, {name}", step, data.real, seconds)
        graph = captured(step)
        report(f"ours, {name}, in a graph", graph, data.real, seconds)
        profile(name, graph, top=30)
    finally:
        ASIDE.end()


def marian(mixed: bool, whole: bool) -> None:
    from transformers import MarianConfig, MarianMTModel

    start = time.perf_counter()
    size = {
        "vocab_size": VOCABULARY,
        "d_model": DIM,
        "max_position_embeddings": 512,
        "dropout": 0.1,
        "activation_function": "relu",
    }
    for side in ("encoder", "decoder"):
        size |= {f"{side}_layers": LAYERS, f"{side}_attention_heads": HEADS, f"{side}_ffn_dim": INNER}
    marks = {
        "pad_token_id": 0,
        "eos_token_id": 2,
        "bos_token_id": 1,
        "decoder_start_token_id": 1,
        "forced_eos_token_id": None,
    }
    model = MarianMTModel(MarianConfig(**size, **marks, attn_implementation="sdpa")).to(DEVICE).train()
    data = Data(mixed, packed=False)
    mask = data.layout.source[:, 0, 0].long()
    labels = data.labels.view(ROWS, LENGTH)
    forward = compiled(model) if whole else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = forward(input_ids=data.source, attention_mask=mask, labels=labels).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    measure.wait()
    name = f"Marian{', compiled' if whole else ''}, {'mixed' if mixed else 'full'}"
    report(name, step, data.real, time.perf_counter() - start)


def check() -> None:
    """Packed and short in bf16 against masked in float32, without dropout: values and gradients."""
    torch.manual_seed(0)
    twin = Transformer(0.0).to(DEVICE)
    for norm in (n for n in twin.modules() if isinstance(n, nn.LayerNorm)):
        nn.init.normal_(norm.bias, std=0.1)
    for name, weight in twin.named_parameters():
        if name.endswith("bias") and "norms" not in name:
            nn.init.normal_(weight, std=0.1)
    masked = Data(True, False)
    reference = our_loss(twin, masked, twin.stacks, plain=True)
    reference.backward()
    seed = torch.zeros((), device=DEVICE, dtype=torch.int32)
    ways: dict[str, tuple[bool, Callable[[Transformer, Data], Tensor]]] = {
        "packed": (True, lambda model, data: our_loss(model, data, model.stacks)),
        "short, rows": (False, lambda model, data: short_loss(model, data, seed)),
        "short, packed": (True, lambda model, data: short_loss(model, data, seed)),
        "short, rows, aside": (False, lambda model, data: short_loss(model, data, seed)),
    }
    for name, (packed, loss_of) in ways.items():
        model = Transformer(0.0).to(DEVICE)
        model.load_state_dict(twin.state_dict())
        model.to(HALF)
        if name.endswith("aside") and not SMOKE:
            ASIDE.begin()
        loss = loss_of(model, Data(True, packed))
        loss.backward()
        ASIDE.join()
        ASIDE.end()
        measure.wait()
        errors = {n: relative(a.grad, b.grad) for (n, a), b in zip(model.named_parameters(), twin.parameters())}
        # keys' biases have no gradient but rounding
        errors = {n: e for n, e in errors.items() if not n.endswith(("qkv.bias", "remember.bias"))}
        for n in ("encoder.0.qkv.bias", "remember.bias"):  # of these, then, the parts that have one
            ours, theirs = (dict(m.named_parameters())[n].grad.float() for m in (model, twin))
            parts = [i for i in range(len(ours) // DIM) if (i != 1 if "qkv" in n else i % 2 == 1)]
            errors[n] = relative(*(torch.cat([t[i * DIM : (i + 1) * DIM] for i in parts]) for t in (ours, theirs)))
        value, worst = relative(loss.detach(), reference.detach()), max(errors, key=lambda n: errors[n])
        mean = sum(errors.values()) / len(errors)
        say(f"check {name}", loss=value, gradients_worst=errors[worst], where=worst, gradients_mean=mean)
        assert value < (1e-5 if SMOKE else 5e-3) and errors[worst] < (1e-3 if SMOKE else 0.1)


def curve() -> None:
    """Losses of the same 20 updates, without dropout: masked and short, on one batch of mixed lengths."""
    told: dict[str, list[float]] = {}
    for name, packed in (("masked", False), ("short, rows", False), ("short, packed", True)):
        torch.manual_seed(1)
        model, data = Transformer(0.0).to(DEVICE), Data(True, packed)
        optimizer = FlatAdamW(model, 1e-3)
        if name == "masked":
            losses = []
            for _ in range(20):
                loss = our_loss(model, data, model.stacks, plain=SMOKE)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        else:
            step = short_step(model, data, optimizer)
            losses = [step() for _ in range(20)]
        told[name] = [float(loss) for loss in losses]
    for name in list(told)[1:]:
        apart = [abs(a - b) for a, b in zip(told["masked"], told[name])]
        say(
            f"20 updates, {name}",
            apart_most=max(apart),
            masked=told["masked"][-1],
            short=told[name][-1],
            first=told[name][0],
        )
        assert max(apart) < (1e-3 if SMOKE else 0.1)


if __name__ == "__main__":
    ceilings()
    section("check", check)
    section("curve", curve)
    section("products", products)
    if not SMOKE:
        section("marian", lambda: marian(False, False))
        section("marian_compiled", lambda: marian(False, True))
        section("marian_mixed", lambda: marian(True, True))
    section("masked", lambda: ours(False, False))
    section("short", lambda: short(False, False))
    section("short_aside", lambda: short(False, True))
    section("short_mixed", lambda: short(True, False))
    section("packed", lambda: ours(False, True))
    section("packed_mixed", lambda: ours(True, True))
    section("masked_mixed", lambda: ours(True, False))
    last_line()
