"""Backends: fast twins of the reference attention, and which one is taken, and why.

    sdpa       PyTorch's fused kernels: softmax of dot, scaled dot or bilinear scores, any mask or bias as a tensor
    few        plain products, where a fused kernel takes longer (only `auto` takes it): twice as long for the few
               queries of a decoding step on a CPU and for one query in float32 on a GPU
    flex       FlexAttention: a mask or bias that is a rule is compiled into the kernel; unseen blocks are skipped
    linear     without softmax, Q (Kᵀ V) instead of (Q Kᵀ) V: O(n) instead of O(n²)
    additive   v · tanh(q + k) in tiles (nn/kernels/additive.py), without the (B, H, T, S, D) of the reference

`choose` is asked by `attend` at every call and by `explain_backend`: what is told is what is done. Each twin agrees
with the reference in values and gradients (tests/nn/test_backends.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, get_args
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from anaphora.errors import nearest
from anaphora.nn.choices import Normalizer
from anaphora.nn.kernels.additive import additive_attention
from anaphora.nn.masks import Causal, Mask, Padding, TensorMask, causal_mask, parts
from anaphora.nn.positions import PositionBias
from anaphora.nn.scores import SCORES, Score, spread

Backend = Literal["auto", "reference", "sdpa", "flex", "linear", "additive"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
NORMALIZERS: tuple[Normalizer, ...] = get_args(Normalizer)

FEW_QUERIES = 16
"""Queries a head and sentence: a decoding step has as many as its beam is wide."""
SINGLE_QUERY_PLAIN_TYPES = (torch.float32,)
"""Types in which one query a sentence is sooner done on a GPU by plain products than by a fused kernel: 0.07 against
0.13 ms there and back for 1,024 queries over 50 keys each, on an H200 (benchmarks/attention.py)."""
SHORT_EFFICIENT_TOKENS = 64
"""Queries, keys and dimensions of a head up to which, in 16 bits on a GPU, PyTorch's memory-efficient kernel is sooner
done than cuDNN's, the one PyTorch takes: 0.043 against 0.046 ms there and back, causal against 0.049, for 512 heads of
50 on an H200 (benchmarks/attention.py). With heads of 128 it is the slower one."""
HALF_TYPES = (torch.bfloat16, torch.float16)
FLEX_MIN_KEYS = 256
"""Keys from which on skipping blocks of a rule pays for building its table (FlexAttention, blocks of 128)."""
MAX_FLEX_KERNELS = 64
"""Kernels that FlexAttention may be compiled to in one process."""
FLEX_MIN_HEAD_DIM = 16
"""Dimensions of a head below which FlexAttention's products have no tile."""
MAX_ADDITIVE_NUMBERS = 1 << 22
"""Numbers that the additive reference may form at once on a CPU: 16 MB in float32, about a cache."""
CHUNK_POSITIONS = 64
"""Positions of causal linear attention that are compared with one another directly."""


class Choices(NamedTuple):
    """All that `attend` was asked for besides query, key and value."""

    score: Score = SCORES["scaled-dot"]
    weight: Tensor | None = None
    normalizer: Normalizer = "softmax"
    mask: Tensor | Mask | None = None
    causal: bool = False
    bias: Tensor | PositionBias | None = None
    dropout: float = 0.0


class BackendChoice(NamedTuple):
    """The answer to "why this backend?"."""

    name: str
    reason: str


# Which one ----------------------------------------------------------------------------------------------------------


def choose(query: Tensor, key: Tensor, value: Tensor, choices: Choices, backend: str = "auto") -> BackendChoice:
    """The backend for these tensors and choices; a ValueError where the one that was forced cannot do it."""
    if backend != "auto":
        if backend == "few":
            raise ValueError("backend 'few' is for the few queries of a step alone; leave it to 'auto'")
        if backend not in BACKENDS:
            raise ValueError(f"no attention backend is called {backend!r}; {nearest(backend, BACKENDS)}")
        if why := cannot(backend, choices):
            raise ValueError(f"backend {backend!r} cannot do this: {why}; leave it to 'auto'")
        return BackendChoice(backend, "it was asked for")
    c = choices
    if not c.score.is_product:
        if c.score.kernel != "additive":
            return BackendChoice("reference", f"no kernel computes {c.score.name} scores")
        if why := cannot("additive", c):
            return BackendChoice("reference", f"{why}: (B, H, T, S, D) numbers are formed")
        if query.is_cuda:
            return BackendChoice("additive", "additive scores on a GPU: tanh in registers, tile by tile")
        numbers = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2] * key.shape[3]
        if numbers <= MAX_ADDITIVE_NUMBERS:
            return BackendChoice("reference", "so small that its (B, H, T, S, D) numbers may be formed at once")
        return BackendChoice("additive", "so large that its (B, H, T, S, D) numbers are formed a block at a time")
    if c.normalizer == "none":
        if why := cannot("linear", c):
            return BackendChoice("reference", why)
        if pairs_are_less(query.shape[2], key.shape[2], key.shape[-1], value.shape[-1]):
            return BackendChoice("reference", "so short that scoring every pair is the less work")
        return BackendChoice("linear", "without softmax the keys and values are summed up once, for all queries")
    few = query.shape[2] <= FEW_QUERIES and query.device.type == "cpu" and not torch.is_grad_enabled()
    if few and not c.causal and not c.dropout:
        return BackendChoice("few", f"at most {FEW_QUERIES} queries on a CPU and nothing to learn: plain products")
    if query.is_cuda and query.shape[2] == 1 and query.dtype in SINGLE_QUERY_PLAIN_TYPES and not c.causal:
        return BackendChoice("few", "one query on a GPU, in float32: plain products")
    ruled = isinstance(c.mask, Mask) or isinstance(c.bias, PositionBias)
    long = min(query.shape[2], key.shape[2]) >= FLEX_MIN_KEYS and query.shape[-1] >= FLEX_MIN_HEAD_DIM
    if ruled and long and query.is_cuda and not cannot("flex", c):
        if query.dtype in HALF_TYPES:
            return BackendChoice(
                "flex", f"a mask or bias given as a rule, on a GPU, in 16 bits, over at least {FLEX_MIN_KEYS} keys"
            )
        return BackendChoice(
            "sdpa", "PyTorch's fused kernels, given the rule as a tensor: FlexAttention takes longer except in 16 bits"
        )
    if is_short(query, key, c):
        return BackendChoice(
            "sdpa",
            f"at most {SHORT_EFFICIENT_TOKENS} keys in 16 bits on a GPU: PyTorch's memory-efficient kernel, if it can",
        )
    return BackendChoice("sdpa", "softmax over dot products: PyTorch's fused kernels")


def is_short(query: Tensor, key: Tensor, choices: Choices) -> bool:
    """Whether SDPA prefers its memory-efficient kernel. Only where no mask has to be made ready for it; not while
    torch.compile traces, where the comparison would tie the graph to short sequences."""
    if torch.compiler.is_compiling() or not query.is_cuda or query.dtype not in HALF_TYPES:
        return False
    queries, keys = query.shape[2], key.shape[2]
    if queries == 1 and not torch.is_grad_enabled():
        return False  # a step of decoding: cuDNN has a kernel for it
    plain = choices.mask is None and choices.bias is None and (queries == keys or not choices.causal)
    return plain and max(queries, keys, query.shape[3]) <= SHORT_EFFICIENT_TOKENS and query.shape[1] == key.shape[1]


def pairs_are_less(queries: float, keys: float, key_dim: int, value_dim: int) -> bool:
    """Whether (Q Kᵀ) V takes no more products than Q (Kᵀ V)."""
    return queries * keys * (key_dim + value_dim) <= (queries + keys) * key_dim * value_dim


def cannot(backend: str, choices: Choices) -> str | None:
    """Why a backend cannot do what is asked, or None."""
    c = choices
    if backend in ("sdpa", "flex"):
        if not c.score.is_product:
            return f"{c.score.name} scores are no dot product"
        if c.normalizer != "softmax":
            return "it always applies softmax"
        if backend == "flex" and c.dropout:
            return "it has no dropout on weights"
    elif backend == "linear":
        if c.normalizer != "none":
            return "softmax ties every weight of a row to all others"
        if not c.score.is_product:
            return f"{c.score.name} scores do not factor into queries times keys"
        if c.dropout:
            return "dropout needs the weights one by one"
        if not _only_keys(c.mask):
            return "its sums know padding and causal masks only"
    elif backend == "additive":
        if c.score.kernel != "additive":
            return "it computes additive scores only"
        if c.normalizer != "softmax" or c.bias is not None or c.dropout:
            return "the additive kernel knows softmax without bias or dropout"
    return None


# What they share ----------------------------------------------------------------------------------------------------


def allowed(
    choices: Choices, queries: int, keys: int, device: torch.device, bias: Tensor | None = None
) -> Tensor | None:
    """Mask, causal and a bias that forbids (-inf) as one boolean tensor that broadcasts to (B, H, T, S)."""
    mask = choices.mask
    if isinstance(mask, Mask):
        mask = mask.materialize(queries, keys, device)
    if mask is not None and mask.dim() < 2:
        mask = mask.expand(1, keys)  # the fused kernels want to see both dimensions
    if choices.causal:
        causal = causal_mask(queries, keys, device)
        mask = causal if mask is None else causal & mask
    if bias is not None:
        seen = bias != float("-inf")
        mask = seen if mask is None else seen & mask
    return mask


def added(choices: Choices, query: Tensor, keys: int) -> Tensor | None:
    """The bias as a tensor of the query's type that broadcasts to (B, H, T, S)."""
    bias = choices.bias
    if isinstance(bias, PositionBias):
        bias = bias.materialize(query.shape[2], keys, query.device)
    if bias is not None and bias.dim() < 2:
        bias = bias.expand(1, keys)
    return None if bias is None else bias.to(query.dtype)


def scaled(query: Tensor, choices: Choices) -> tuple[Tensor, float | None]:
    """A query, and what a fused kernel is to multiply its product with a key by, so that it is the score; None is the
    kernel's own 1/√D."""
    size = query.shape[-1]
    by = choices.score.scale(size)
    if by is None:
        return choices.score.prepare(query, choices.weight), 1.0
    return query, None if by == size**-0.5 else by


# SDPA ---------------------------------------------------------------------------------------------------------------


def attend_sdpa(query: Tensor, key: Tensor, value: Tensor, choices: Choices) -> Tensor:
    c, causal, mask, queries, keys = choices, choices.causal, choices.mask, query.shape[-2], key.shape[-2]
    bias = added(c, query, keys)
    if mask is not None or queries != keys or bias is not None:
        # the fused kernels take either their own causal mask (aligned to the first key) or ours
        mask, causal = allowed(c, queries, keys, query.device, bias), False
    query, scale = scaled(query, c)
    join, nothing = mask, None
    if bias is not None and mask is not None and keys:
        # finite, since a row of -inf alone would be 0/0 (it is cleared below), and half of the lowest number, since
        # a kernel may multiply it by log₂ e
        low = torch.finfo(bias.dtype).min / 2
        join = torch.where(mask, bias, low)
        nothing = join.detach().amax(dim=-1, keepdim=True) == low  # on a CPU in a tenth of the time of mask.any
    elif mask is not None and query.is_cuda:
        nothing = ~mask.any(dim=-1, keepdim=True)  # some fused kernels leave a fully masked row undefined
    if is_short(query, key, c) and _efficient_can(query, key, value, c.dropout, causal):
        return _efficient(query, key, value, c.dropout, causal, scale)
    grouped = {"enable_gqa": True} if key.shape[1] != query.shape[1] else {}
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask=join, is_causal=causal, dropout_p=c.dropout, scale=scale, **grouped
    )
    return out if nothing is None else out.masked_fill(nothing, 0.0)


def _efficient_can(query: Tensor, key: Tensor, value: Tensor, dropout: float, causal: bool) -> bool:
    """Whether the memory-efficient kernel can run these (types, alignment, age of the GPU), nobody having switched it
    off."""
    asked = torch.backends.cuda.SDPAParams(query, key, value, None, dropout, causal, False)
    return torch.backends.cuda.can_use_efficient_attention(asked)


def _efficient(query: Tensor, key: Tensor, value: Tensor, dropout: float, causal: bool, scale: float | None) -> Tensor:
    """The operator that SDPA calls when it takes this kernel. `sdpa_kernel`, the public way to prefer one, turns
    switches of the whole process at every call: 10 to 20 µs of the host's time to gain 3 to 6 of the GPU's."""
    learns = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    out: Tensor = kernel(query, key, value, None, learns, dropout, causal, scale=scale)[0]
    return out


def attend_few(query: Tensor, key: Tensor, value: Tensor, choices: Choices) -> Tensor:
    """The reference, writing over its own tensors, and clearing the rows that may look at nothing when they are short
    already. Query heads that share a key head stand below one another in one product."""
    heads, groups, learns = query.shape[1], key.shape[1], torch.is_grad_enabled()
    mask = allowed(choices, query.shape[2], key.shape[2], query.device)
    query = choices.score.prepare(query, choices.weight)
    if heads != groups:
        query = query.reshape(query.shape[0], groups, -1, query.shape[-1])  # (B, G, H / G * T, D)
    scores = query @ key.transpose(-2, -1)
    if heads != groups:
        scores = scores.view(scores.shape[0], heads, -1, scores.shape[-1])  # (B, H, T, S)
    bias = added(choices, scores, key.shape[2])
    # softmax over -inf alone is 0/0. Clearing the output is enough unless its gradient, 0 times that, comes back
    lowest = torch.finfo(scores.dtype).min if learns else float("-inf")
    if bias is not None:
        scores += bias
        if learns:
            scores = scores.clamp(min=lowest)
    if mask is not None:
        scores.masked_fill_(~mask, lowest)
    nothing = None
    if bias is not None and key.shape[2]:  # it may forbid too; the scores tell sooner than a mask joined with it
        nothing = scores.detach().amax(dim=-1, keepdim=True) == lowest
    elif mask is not None:
        nothing = ~mask.any(dim=-1, keepdim=True)
    weights = scores.softmax(dim=-1)
    if choices.dropout:
        weights = F.dropout(weights, choices.dropout)
    if heads != groups:
        out = weights.view(weights.shape[0], groups, -1, weights.shape[-1]) @ value
        out = out.view(out.shape[0], heads, -1, out.shape[-1])
    else:
        out = weights @ value
    return out if nothing is None else out.masked_fill_(nothing, 0.0)


# FlexAttention ------------------------------------------------------------------------------------------------------


def attend_flex(query: Tensor, key: Tensor, value: Tensor, choices: Choices) -> Tensor:
    """The rules of mask and bias inside the kernel: compiled on a GPU, evaluated as written elsewhere (where PyTorch
    has it for forward passes only)."""
    c, (batch, heads, queries, _), keys = choices, query.shape, key.shape[2]
    mask = TensorMask(c.mask) if isinstance(c.mask, Tensor) else c.mask
    if c.causal:
        mask = Causal() if mask is None else mask & Causal()
    query, scale = scaled(query, c)
    flex: Callable[..., Any] = _compiled_flex() if query.is_cuda else _flex().flex_attention
    return flex(
        query,
        key,
        value,
        score_mod=_score_mod(c.bias, queries, keys, query.device),
        block_mask=None if mask is None else _block_mask(mask, batch, heads, queries, keys, query.device),
        scale=scale,
        enable_gqa=key.shape[1] != heads,
    )


_BLOCKS: WeakKeyDictionary[Mask, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()
"""What was built of a mask, for as long as the mask is there: the layers of a stack share one."""


def _block_mask(mask: Mask, batch: int, heads: int, queries: int, keys: int, device: torch.device) -> Any:
    """The table of blocks that FlexAttention visits."""
    built, asked = _BLOCKS.setdefault(mask, {}), (batch, heads, queries, keys, device)
    if asked not in built:
        given = any(isinstance(part, TensorMask) for part in parts(mask))  # the only rule that may tell heads apart
        rule = mask.rule(queries, keys)
        built[asked] = _flex().create_block_mask(rule, batch, heads if given else None, queries, keys, device=device)
    return built[asked]


def _score_mod(
    bias: Tensor | PositionBias | None, queries: int, keys: int, device: torch.device
) -> Callable[..., Tensor] | None:
    """The bias as a function of a score and its four indices."""
    if bias is None:
        return None
    if isinstance(bias, PositionBias):  # one number for each head and distance, of which there are only T + S - 1
        distances = torch.arange(1 - keys, queries, device=device)
        by_distance = bias.of(torch.arange(bias.heads, device=device)[:, None], distances)  # (H, T + S - 1)
        last = queries - 1
        return lambda score, b, h, q, k: score + by_distance[h, k - q + last]
    table = bias.view((1,) * (4 - bias.dim()) + tuple(bias.shape))
    wide = [int(size > 1) for size in table.shape]
    return lambda score, b, h, q, k: score + table[b * wide[0], h * wide[1], q * wide[2], k * wide[3]]


def _flex() -> Any:
    from torch.nn.attention import flex_attention

    return flex_attention


@cache
def _compiled_flex() -> Callable[..., Any]:
    """Compiled once for each kind of rule, type, and with or without gradients. PyTorch gives up on a function after 8
    such kinds and goes on without its kernel, slowly and with all scores in memory; a model and its validation may have
    as many, so here it may go on to `MAX_FLEX_KERNELS`."""
    compiled = torch.compile(_flex().flex_attention)

    def flex(*tensors: Tensor, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return compiled(*tensors, **options)
        with torch._dynamo.config.patch(recompile_limit=MAX_FLEX_KERNELS):
            return compiled(*tensors, **options)

    return flex


# Linear -------------------------------------------------------------------------------------------------------------


def _only_keys(mask: Tensor | Mask | None) -> bool:
    """Whether a mask says the same to every query, but for being causal."""
    if isinstance(mask, Mask):
        return all(isinstance(part, Causal | Padding) for part in parts(mask))
    return mask is None or mask.dim() < 2 or mask.shape[-2] == 1


def attend_linear(query: Tensor, key: Tensor, value: Tensor, choices: Choices) -> Tensor:
    """Σ_s (q · k_s) v_s = q · Σ_s k_s v_sᵀ: one (D, D_v) matrix for all queries, or, causal, one that grows."""
    which, causal = choices.mask, choices.causal
    if isinstance(which, Mask):
        each, which = parts(which), None
        causal = causal or any(isinstance(part, Causal) for part in each)
        for part in each:
            if isinstance(part, Padding):
                real = part.materialize(1, key.shape[2])  # (B, 1, 1, S)
                which = real if which is None else which & real
    query = choices.score.prepare(query, choices.weight)
    key, value = spread(key, query.shape[1]), spread(value, query.shape[1])
    if which is not None:
        value = value.masked_fill(~which.transpose(-2, -1) if which.dim() > 1 else ~which[:, None], 0.0)
    if not causal:
        return query @ (key.transpose(-2, -1) @ value)
    ahead = key.shape[2] - query.shape[2]
    if ahead == 0:
        return _causal_linear(query, key, value)
    if ahead < 0:  # the first queries stand before the first key
        late = _causal_linear(query[:, :, -ahead:], key, value)
        return F.pad(late, (0, 0, -ahead, 0))
    seen = key[:, :, :ahead].transpose(-2, -1) @ value[:, :, :ahead]  # by every query
    return query @ seen + _causal_linear(query, key[:, :, ahead:], value[:, :, ahead:])


def _causal_linear(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Chunk by chunk: all earlier chunks through their sum, the own chunk by its few scores."""
    size = query.shape[2]
    room = -size % CHUNK_POSITIONS
    query, key, value = (F.pad(x, (0, 0, 0, room)).unflatten(2, (-1, CHUNK_POSITIONS)) for x in (query, key, value))
    sums = key.transpose(-2, -1) @ value  # (B, H, chunks, D, D_v)
    # shifted, not `- sums`: a sum from which a large late chunk is taken away again has lost its last digits
    before = F.pad(sums[:, :, :-1].cumsum(dim=2), (0, 0, 0, 0, 1, 0))
    own = (query @ key.transpose(-2, -1)).tril() @ value
    return (query @ before + own).flatten(2, 3)[:, :, :size]


# Additive -----------------------------------------------------------------------------------------------------------


def attend_additive(query: Tensor, key: Tensor, value: Tensor, choices: Choices) -> Tensor:
    assert choices.weight is not None
    heads = query.shape[1]
    mask = allowed(choices, query.shape[2], key.shape[2], query.device)
    return additive_attention(query, spread(key, heads), spread(value, heads), choices.weight, mask=mask)


FAST: dict[str, Callable[[Tensor, Tensor, Tensor, Choices], Tensor]] = {
    "sdpa": attend_sdpa,
    "few": attend_few,
    "flex": attend_flex,
    "linear": attend_linear,
    "additive": attend_additive,
}
