"""Attention: a weighted sum of values, the weights being how well each key answers a query.

    weights = softmax(score(Q, K) + bias)  where a query may look, 0 elsewhere        Attention(Q, K, V) = weights · V

One signature, `attend`, with named choices:

    score        scaled-dot (the usual one), dot, bilinear, additive, one's own    nn/scores.py
    normalizer   softmax, or none: the scores themselves weigh (linear attention)
    mask         padding, causal, window, documents, any boolean tensor            nn/masks.py
    bias         a number for each head and distance (ALiBi, relative), a tensor   nn/positions.py
    heads        a key head for each query head, for a group of them, or for all

`attention_weights` is the reference: a few plain lines that any reader can check by hand. Fast twins stand behind the
same signature (nn/attention_backends.py); `explain_backend` says which is taken and why. What makes no sense is
refused by name.

Shapes, everywhere: query (B, H, T, D); key (B, G, S, D) and value (B, G, S, D_v), where G divides H; weights
(B, H, T, S). Keys and values may come from anywhere, from the place of the queries (self-attention) or from another
(cross-attention), and from different places. A query that may look at nothing gets zeros.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.errors import nearest
from anaphora.nn.attention_backends import (
    FAST,
    FEW_QUERIES,
    NORMALIZERS,
    Backend,
    BackendChoice,
    Choices,
    Normalizer,
    added,
    allowed,
    cannot,
    choose,
    pairs_are_less,
)
from anaphora.nn.masks import Causal, Mask, causal_mask, check_mask, padding_mask
from anaphora.nn.positions import NO_POSITIONS, PositionBias, Relation, rotate
from anaphora.nn.scores import AnyScore, Score, score_named, scores, spread

__all__ = [
    "FEW_QUERIES",
    "AttentionHook",
    "Backend",
    "MultiHeadAttention",
    "attend",
    "attention_weights",
    "causal_mask",
    "explain_backend",
    "padding_mask",
]


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    score: AnyScore = "scaled-dot",
    weight: Tensor | None = None,
    normalizer: Normalizer = "softmax",
    mask: Tensor | Mask | None = None,
    causal: bool = False,
    bias: Tensor | PositionBias | None = None,
) -> Tensor:
    """The reference: how much each query takes of each key's value, (B, H, T, S).

    With softmax, each row is positive and sums to one over the keys that its query may see. Without, it holds the
    scores themselves: of any sign and any sum.
    """
    choices = Choices(score_named(score), weight, normalizer, mask, causal, bias)
    check(query, key, None, choices)
    return _weights(query, key, choices)


def _weights(query: Tensor, key: Tensor, choices: Choices) -> Tensor:
    weights = scores(query, key, choices.score, choices.weight)  # (B, H, T, S)
    bias = added(choices, weights, key.shape[-2])
    if bias is not None:
        weights = weights + bias
    where = allowed(choices, query.shape[-2], key.shape[-2], query.device, bias)
    if choices.normalizer == "softmax":
        weights = weights if where is None else weights.masked_fill(~where, float("-inf"))
        weights = weights.softmax(dim=-1)
    # softmax over nothing is 0/0: the fully masked row is set to zero, which is the empty weighted sum
    return weights if where is None else weights.masked_fill(~where, 0.0)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: AnyScore = "scaled-dot",
    weight: Tensor | None = None,
    normalizer: Normalizer = "softmax",
    mask: Tensor | Mask | None = None,
    causal: bool = False,
    bias: Tensor | PositionBias | None = None,
    dropout: float = 0.0,
    backend: Backend = "auto",
) -> Tensor:
    """Weighted sum of values: (B, H, T, D_v).

    `weight` is what the score has learned: v (D,) or (H, D) of additive, W (D_q, D_k) or (H, D_q, D_k) of bilinear.
    `mask` is a Mask or a boolean tensor that broadcasts to (B, H, T, S), True where a query may look; `causal` forbids
    later keys, the last query standing at the last key. `bias` is added to the scores; -inf forbids as a mask does.
    `dropout` is applied to the weights (give 0 outside training). `backend` forces one; `auto` takes the fastest that
    can do it.
    """
    if isinstance(mask, Causal):
        mask, causal = None, True
    choices = Choices(score_named(score), weight, normalizer, mask, causal, bias, dropout)
    check(query, key, value, choices)
    name = choose(query, key, value, choices, backend).name
    if name != "reference":
        return FAST[name](query, key, value, choices)
    weights = _weights(query, key, choices)
    return F.dropout(weights, dropout) @ spread(value, query.shape[1])


def explain_backend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: AnyScore = "scaled-dot",
    weight: Tensor | None = None,
    normalizer: Normalizer = "softmax",
    mask: Tensor | Mask | None = None,
    causal: bool = False,
    bias: Tensor | PositionBias | None = None,
    dropout: float = 0.0,
    backend: Backend = "auto",
) -> BackendChoice:
    """Which backend `attend` takes for the same arguments, and why: (name, reason). It computes nothing."""
    if isinstance(mask, Causal):
        mask, causal = None, True
    choices = Choices(score_named(score), weight, normalizer, mask, causal, bias, dropout)
    check(query, key, value, choices)
    return choose(query, key, value, choices, backend)


def check(query: Tensor, key: Tensor, value: Tensor | None, choices: Choices) -> None:
    """A one-line ValueError that names what was expected, where shapes do not fit or choices make no sense together.

    While torch.compile traces, shapes are symbols, and every comparison would tie the graph to one: nothing is checked.
    """
    if torch.compiler.is_compiling():
        return
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor is not None and tensor.dim() != 4:
            raise ValueError(f"{name} must be (B, H, length, size); it has shape {tuple(tensor.shape)}")
    batch, heads, queries, _ = query.shape
    groups, keys = key.shape[1], key.shape[2]
    if key.shape[0] != batch:
        raise ValueError(f"query and key must have one batch size; they have {batch} and {key.shape[0]}")
    if groups < 1 or heads % groups:
        raise ValueError(f"{heads} query heads cannot share {groups} key heads: the second must divide the first")
    if value is not None and value.shape[:3] != key.shape[:3]:
        found = tuple(value.shape)
        raise ValueError(f"each key needs its value: value must be {tuple(key.shape[:3])} and a size; it has {found}")
    choices.score.check(query, key, choices.weight)
    if choices.normalizer != "softmax":
        if choices.normalizer not in NORMALIZERS:
            raise ValueError(
                f"no normalizer is called {choices.normalizer!r}; {nearest(choices.normalizer, NORMALIZERS)}"
            )
        if choices.bias is not None:
            raise ValueError(
                "a bias (ALiBi, relative positions) shifts a softmax; with normalizer 'none' there is none"
            )
    if isinstance(choices.mask, Mask):
        choices.mask.check(batch, heads, queries, keys)
    elif choices.mask is not None:
        check_mask(choices.mask, batch, heads, queries, keys)
    _check_bias(choices.bias, batch, heads, queries, keys)


def _check_bias(bias: Tensor | PositionBias | None, batch: int, heads: int, queries: int, keys: int) -> None:
    if isinstance(bias, PositionBias):
        if bias.heads != heads:
            raise ValueError(f"a bias for {bias.heads} heads does not fit {heads}")
    elif bias is not None:
        wanted = (batch, heads, queries, keys)
        if bias.dim() > 4 or any(size not in (1, want) for size, want in zip(bias.shape[::-1], wanted[::-1])):
            raise ValueError(f"a bias of shape {tuple(bias.shape)} does not broadcast to (B, H, T, S) = {wanted}")


class AttentionHook(Protocol):
    """Who wants to see what an attention looks at (nn/attention_capture.py has one)."""

    def is_active(self) -> bool:
        """Whether it is asking now, in this thread."""
        ...

    def record(self, weights: Tensor, dropped: Tensor, value: Tensor, context: Tensor) -> None:
        """weights (B, H, T, S) before dropout, after it, value (B, H, S, D), their product (B, H, T, D)."""
        ...


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in its own D = dim / H dimensional projection, mixed by one more projection.

        head_h = Attention(x W^Q_h, m W^K_h, m W^V_h)        out = [head_1; …; head_H] W^O        (B, T, dim)

    Self-attention (`memory_dim` None, m = x) projects its input to queries, keys and values in one product;
    cross-attention takes its queries from the input and its keys and values from a memory of width `memory_dim`.
    With fewer `key_value_heads` than heads, each is shared by a group of query heads (Ainslie et al. 2023); with one,
    by all (multi-query, Shazeer 2019): smaller caches, the same number of attentions.
    """

    hooks: tuple[AttentionHook, ...] = ()
    """None, and then nothing is computed for them; `capture` puts itself here for as long as it lasts."""

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        memory_dim: int | None = None,
        key_value_heads: int | None = None,
        score: AnyScore = "scaled-dot",
        normalizer: Normalizer = "softmax",
        dropout: float = 0.0,
        backend: Backend = "auto",
        factor: float = 1.0,
    ) -> None:
        """factor: scores of self-attention are multiplied by it."""
        super().__init__()
        self.heads, self.factor = heads, factor
        self.key_value_heads = key_value_heads or heads
        if heads < 1 or dim % heads:
            raise ValueError(f"dim ({dim}) must be a multiple of heads ({heads})")
        if not 1 <= self.key_value_heads <= heads or heads % self.key_value_heads:
            raise ValueError(f"key_value_heads ({key_value_heads}) must divide heads ({heads})")
        self.score: Score = score_named(score)
        self.normalizer: Normalizer = normalizer
        self.dropout = dropout
        self.backend: Backend = backend
        self.cross = memory_dim is not None
        size = dim // heads
        shared = size * self.key_value_heads  # width of all keys, and of all values
        if memory_dim is None:
            self.parts = [dim, shared, shared]
            self.query_key_value = nn.Linear(dim, dim + 2 * shared)
            projections = list(self.query_key_value.weight.detach().split(self.parts))
        else:
            self.query = nn.Linear(dim, dim)
            self.key_value = nn.Linear(memory_dim, 2 * shared)
            projections = [self.query.weight, *self.key_value.weight.detach().chunk(2)]
        self.out = nn.Linear(dim, dim)
        for weight in [*projections, self.out.weight]:  # each projection by its own fans, however it is stored
            nn.init.xavier_uniform_(weight)
        for module in self.children():
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        weight = self.score.new_weight(heads, size, size, projected=True)  # (H, …)
        self.score_weight = None if weight is None else nn.Parameter(weight)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, heads * D) -> (B, heads, T, D), as many heads as there are in x."""
        return x.unflatten(-1, (-1, self.out.in_features // self.heads)).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        """(B, H, T, D) -> (B, T, H * D), mixed by the output projection."""
        return self.out(x.transpose(1, 2).flatten(2))

    def project(self, x: Tensor, turn: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, D), keys and values (B, G, T, D) of self-attention, turned where positions are rotary."""
        query, key, value = (self.split(part) for part in self.query_key_value(x).split(self.parts, dim=-1))
        if self.factor != 1.0:
            query = query * self.factor
        return (query, key, value) if turn is None else (rotate(query, turn), rotate(key, turn), value)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | Mask | None = None,
        causal: bool = False,
        bias: Tensor | PositionBias | None = None,
        backend: Backend | None = None,
    ) -> Tensor:
        """`attend` with this layer's choices; in front of a watcher by the reference, weights in hand."""
        dropout = self.dropout if self.training else 0.0
        active_hooks = [hook for hook in self.hooks if hook.is_active()] if self.hooks else ()
        if not active_hooks:
            return attend(
                query,
                key,
                value,
                score=self.score,
                weight=self.score_weight,
                normalizer=self.normalizer,
                mask=mask,
                causal=causal,
                bias=bias,
                dropout=dropout,
                backend=backend or self.backend,
            )
        weights = self.weights_of(query, key, mask=mask, causal=causal, bias=bias)  # (B, H, T, S)
        dropped = F.dropout(weights, dropout) if dropout else weights
        value = spread(value, self.heads)  # (B, H, S, D)
        context = dropped @ value  # (B, H, T, D)
        for hook in active_hooks:
            hook.record(weights, dropped, value, context)
        return context

    def weights_of(
        self,
        query: Tensor,
        key: Tensor,
        *,
        mask: Tensor | Mask | None = None,
        causal: bool = False,
        bias: Tensor | PositionBias | None = None,
    ) -> Tensor:
        """`attention_weights` with this layer's choices: (B, H, T, S)."""
        return attention_weights(
            query,
            key,
            score=self.score,
            weight=self.score_weight,
            normalizer=self.normalizer,
            mask=mask,
            causal=causal,
            bias=bias,
        )

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | Mask | None = None,
        causal: bool = False,
        relation: Relation = NO_POSITIONS,
    ) -> Tensor:
        """x (B, T, dim) looks at itself, or, cross-attention, at memory (B, S, memory_dim): (B, T, dim)."""
        if self.cross != (memory is not None):
            raise ValueError(
                "cross-attention needs a memory (B, S, memory_dim) to look at"
                if self.cross
                else "self-attention looks at its own input: for a memory, make it with memory_dim"
            )
        if memory is not None:
            if relation is not NO_POSITIONS or causal:
                raise ValueError("positions and causal masks compare places in one text; a memory is another text")
            return self.look(x, *self.remember(memory), mask=mask)
        query, key, value = self.project(x, relation.rotation)
        return self.merge(self.attend(query, key, value, mask=mask, causal=causal, bias=relation.bias))

    def step(
        self, x: Tensor, keys: Tensor, values: Tensor, slot: Tensor, seen: Tensor, relation: Relation = NO_POSITIONS
    ) -> Tensor:
        """One more token for each of the K rows of a sentence, x (B, K, dim): write its key and value into the caches
        (B, G, L * K, D), `slot` (B * G * K,) saying where in the B * G * L * K places, then look at those that `seen`
        (B, 1, K, places) allows, `places` being as many of the cache's first ones as are in use."""
        query, key, value = self.project(x, relation.rotation)  # (B, H, K, D), (B, G, K, D) twice
        for cache, new in ((keys, key), (values, value)):
            cache.view(-1, cache.shape[-1]).index_copy_(0, slot, new.reshape(-1, cache.shape[-1]).to(cache.dtype))
        places = seen.shape[-1]
        # FlexAttention would compile a kernel for every length of the cache
        backend: Backend | None = "auto" if self.backend == "flex" else None
        looked = self.attend(
            query, keys[:, :, :places], values[:, :, :places], mask=seen, bias=relation.bias, backend=backend
        )
        return self.merge(looked)

    def sums_first(self, queries: float, keys: float) -> bool:
        """Whether attention between so many is taken as Q (Kᵀ V): linear, long enough (nn/attention_backends.py)."""
        size = self.out.in_features // self.heads
        choices = Choices(self.score, self.score_weight, self.normalizer, dropout=self.dropout)
        linear = self.backend == "auto" and cannot("linear", choices) is None
        return linear and not pairs_are_less(queries, keys, size, size)

    def prepare_flops(self) -> float:
        """For each position: what its query's score needs beyond projections, in all heads."""
        size = self.out.in_features // self.heads
        return self.heads * self.score.prepare_flops(size, size)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, G, S, D) of a memory (B, S, memory_dim): computed once, looked at by every query."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        return self.split(key), self.split(value)

    def look(self, x: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | Mask | None) -> Tensor:
        """Cross-attention of x (B, T, dim) over what was remembered."""
        return self.merge(self.attend(self.split(self.query(x)), key, value, mask=mask))

    def weights(self, x: Tensor, key: Tensor, *, mask: Tensor | Mask | None) -> Tensor:
        """What `look` would look at: (B, H, T, S)."""
        return self.weights_of(self.split(self.query(x)), key, mask=mask)
