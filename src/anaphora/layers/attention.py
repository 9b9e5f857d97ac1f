"""Attention: a weighted sum of values, the weights being how well each key answers a query.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d) V

One signature, `attend`, with two backends behind it: *reference*, a few plain lines that any reader can check by hand,
and *sdpa*, PyTorch's fused kernels. They agree in values and gradients (tests/layers/test_attention.py). Shapes,
everywhere: query (B, H, T, D); key and value (B, H, S, D); weights (B, H, T, S). A query that may look at nothing gets
zeros.
"""

from __future__ import annotations

from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Backend = Literal["auto", "reference", "sdpa"]
FEW = 16
"""Queries a head and sentence: a decoding step has as many as its beam is wide."""


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """True where a key is a real token: lengths (B,) -> (B, 1, 1, S)."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """True where key s is not later than query t, the last query standing at the last key: (T, S)."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(diagonal=keys - queries)


def attention_weights(query: Tensor, key: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """softmax(Q Kᵀ / √d) over the keys that each query may see: (B, H, T, S)."""
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)  # (B, H, T, S)
    allowed = causal_mask(scores.shape[-2], scores.shape[-1], scores.device) if causal else None
    if mask is not None:
        allowed = mask if allowed is None else allowed & mask
    if allowed is None:
        return scores.softmax(dim=-1)
    # softmax over nothing is 0/0: the fully masked row is set to zero, which is the empty weighted sum
    weights = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    backend: Backend = "auto",
) -> Tensor:
    """Weighted sum of values: (B, H, T, D).

    `mask` is boolean, broadcastable to (B, H, T, S), True where a query may look; `causal` forbids later keys;
    `dropout` is applied to the weights (give 0 outside training). The reference is for reading, testing and tracing;
    `auto` is sdpa, but for the few queries of a decoding step on a CPU, where plain products are twice as fast.
    """
    few = query.shape[-2] <= FEW and query.device.type == "cpu" and not torch.is_grad_enabled()
    if backend == "auto" and few and not causal and not dropout:
        return _attend_few(query, key, value, mask)
    if backend == "reference":
        weights = attention_weights(query, key, mask=mask, causal=causal)
        return F.dropout(weights, dropout) @ value
    if causal and (mask is not None or query.shape[-2] != key.shape[-2]):
        # the fused kernels take either their own causal mask (aligned to the first key) or ours
        allowed = causal_mask(query.shape[-2], key.shape[-2], query.device)
        mask, causal = (allowed if mask is None else allowed & mask), False
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal, dropout_p=dropout)
    if mask is not None and query.is_cuda:
        # some fused kernels leave a fully masked row undefined
        out = out.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return out


def _attend_few(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """The reference, writing over its own tensors, and clearing the rows that may look at nothing when they are short
    already."""
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)  # (B, H, T, S)
    if mask is None:
        return scores.softmax(dim=-1) @ value
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return (scores.softmax(dim=-1) @ value).masked_fill_(~mask.any(dim=-1, keepdim=True), 0.0)


class Watcher(Protocol):
    """Who wants to see what an attention looks at (layers/capture.py has one)."""

    def wants(self) -> bool:
        """Whether it is asking now, in this thread."""
        ...

    def see(self, weights: Tensor, dropped: Tensor, value: Tensor, context: Tensor) -> None:
        """weights (B, H, T, S) before dropout, after it, value (B, H, S, D), their product (B, H, T, D)."""
        ...


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in its own D/H-dimensional projection, then mixed by one more projection.

    Self-attention (`memory_dim` None) projects its input to queries, keys and values in one product; cross-attention
    takes its queries from the input and its keys and values from a memory of width `memory_dim`.
    """

    watchers: tuple[Watcher, ...] = ()
    """None, and then nothing is computed for them; `capture` puts itself here for as long as it lasts."""

    def __init__(
        self, dim: int, heads: int, *, memory_dim: int | None = None, dropout: float = 0.0, backend: Backend = "auto"
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.backend: Backend = backend
        self.cross = memory_dim is not None
        if memory_dim is None:
            self.query_key_value = nn.Linear(dim, 3 * dim)
            projections = list(self.query_key_value.weight.detach().chunk(3))
        else:
            self.query = nn.Linear(dim, dim)
            self.key_value = nn.Linear(memory_dim, 2 * dim)
            projections = [self.query.weight, *self.key_value.weight.detach().chunk(2)]
        self.out = nn.Linear(dim, dim)
        for weight in [*projections, self.out.weight]:  # each projection by its own fans, however it is stored
            nn.init.xavier_uniform_(weight)
        for module in self.children():
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def split(self, x: Tensor) -> Tensor:
        """(B, T, H * D) -> (B, H, T, D)"""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        """(B, H, T, D) -> (B, T, H * D), mixed by the output projection."""
        return self.out(x.transpose(1, 2).flatten(2))

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """`attend` with this layer's dropout and backend; in front of a watcher by the reference, weights in hand."""
        dropout = self.dropout if self.training else 0.0
        watching = [watcher for watcher in self.watchers if watcher.wants()] if self.watchers else ()
        if not watching:
            return attend(query, key, value, mask=mask, causal=causal, dropout=dropout, backend=self.backend)
        weights = attention_weights(query, key, mask=mask, causal=causal)  # (B, H, T, S)
        dropped = F.dropout(weights, dropout) if dropout else weights
        context = dropped @ value  # (B, H, T, D)
        for watcher in watching:
            watcher.see(weights, dropped, value, context)
        return context

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Self-attention over x (B, T, dim)."""
        query, key, value = (self.split(part) for part in self.query_key_value(x).chunk(3, dim=-1))
        return self.merge(self.attend(query, key, value, mask=mask, causal=causal))

    def step(self, x: Tensor, keys: Tensor, values: Tensor, slot: Tensor, seen: Tensor) -> Tensor:
        """One more token for each of the K rows of a sentence, x (B, K, dim): write its key and value into the caches
        (B, H, L * K, D), `slot` (B * H * K,) saying where in the B * H * L * K places, then look at those that `seen`
        (B, 1, K, places) allows, `places` being as many of the cache's first ones as are in use."""
        query, key, value = (self.split(part) for part in self.query_key_value(x).chunk(3, dim=-1))  # (B, H, K, D)
        for cache, new in ((keys, key), (values, value)):
            cache.view(-1, cache.shape[-1]).index_copy_(0, slot, new.reshape(-1, cache.shape[-1]).to(cache.dtype))
        places = seen.shape[-1]
        return self.merge(self.attend(query, keys[:, :, :places], values[:, :, :places], mask=seen))

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S, D) of a memory (B, S, memory_dim): computed once, looked at by every query."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        return self.split(key), self.split(value)

    def look(self, x: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None) -> Tensor:
        """Cross-attention of x (B, T, dim) over what was remembered."""
        return self.merge(self.attend(self.split(self.query(x)), key, value, mask=mask))

    def weights(self, x: Tensor, key: Tensor, *, mask: Tensor | None) -> Tensor:
        """What `look` would look at: (B, H, T, S)."""
        return attention_weights(self.split(self.query(x)), key, mask=mask)
