"""What one attention layer is told and answers, noted while a model runs as fast as it always does.

Fused kernels keep scores and weights to themselves, but what goes in and comes out passes through plain projections.
Hooks there copy it: queries, keys and values as they were projected, the heads' joined sums, the layer's output; and
from the call itself mask, rotation and bias. Nothing is changed, and when the block ends the hooks are gone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from anaphora.nn.attention import MultiHeadAttention
from anaphora.nn.masks import Mask, causal_mask
from anaphora.nn.positions import NO_POSITIONS, PositionBias, rotate


@dataclass
class Noted:
    """What the fast run put into one layer and got out of it, of the one sentence, on the CPU."""

    projected: dict[str, Tensor] = field(default_factory=dict)
    """Outputs of the projections, (length, width): query_key_value, or query and key_value."""
    context: Tensor | None = None
    """(T, H · D): the heads' weighted sums, joined, as the output projection got them."""
    output: Tensor | None = None
    """(T, dim): what the layer answered."""
    called: dict[str, Any] = field(default_factory=dict)
    """mask, causal and relation of self-attention."""


@contextmanager
def exact() -> Iterator[None]:
    """Float32 as float32, on a GPU too: the rounding of tf32 would hide what is compared."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def noting(layer: MultiHeadAttention) -> Iterator[Noted]:
    """Hooks that copy what passes, and change nothing: the layer takes its fast path."""
    noted, handles = Noted(), []

    def project(name: str) -> Callable[..., None]:
        def note(module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
            noted.projected[name] = out[0].detach().float().cpu()

        return note

    def mix(module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        noted.context, noted.output = given[0][0].detach().float().cpu(), out[0].detach().float().cpu()

    for name in ("query_key_value",) if not layer.cross else ("query", "key_value"):
        handles.append(getattr(layer, name).register_forward_hook(project(name)))
    handles.append(layer.out.register_forward_hook(mix))
    try:
        with hearing({"": layer}) as heard:
            yield noted
            noted.called = heard[""]
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def hearing(layers: Mapping[str, MultiHeadAttention]) -> Iterator[dict[str, dict[str, Any]]]:
    """What each self-attention is called with: mask, causal, relation, by the layer's path."""
    heard: dict[str, dict[str, Any]] = {path: {} for path in layers}

    def listener(path: str) -> Callable[..., None]:
        def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            heard[path] = _called(module, args, kwargs)

        return call

    handles = [layer.register_forward_pre_hook(listener(path), with_kwargs=True) for path, layer in layers.items()]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


def _called(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(MultiHeadAttention.forward).bind(module, *args, **kwargs).arguments
    return {name: bound[name] for name in ("mask", "causal", "relation") if name in bound}


def heads_of(layer: MultiHeadAttention, noted: Noted) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor] | None]:
    """Queries, keys, values of all heads, (heads, length, D); and queries and keys before rotary positions turned
    them, where they do."""

    def split(x: Tensor) -> Tensor:
        return layer.split(x[None])[0]

    if layer.cross:
        key, value = (split(part) for part in noted.projected["key_value"].chunk(2, dim=-1))
        return split(noted.projected["query"]), key, value, None
    query, key, value = (split(part) for part in noted.projected["query_key_value"].split(layer.parts, dim=-1))
    turn = noted.called.get("relation", NO_POSITIONS).rotation
    if turn is None:
        return query, key, value, None
    turn = turn.float().cpu()
    return rotate(query[None], turn)[0], rotate(key[None], turn)[0], value, (query, key)


def mask_of(called: Mapping[str, Any], queries: int, keys: int) -> tuple[Tensor | None, str]:
    """What the layer was told: (T, S), and `none` (it hides nothing), `causal`, or for any other `given`."""
    mask, causal = called.get("mask"), bool(called.get("causal"))
    where = torch.ones(queries, keys, dtype=torch.bool)
    if isinstance(mask, Mask):
        mask = mask.materialize(queries, keys)
    if mask is not None:
        mask = mask.cpu()
        where = where & mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))[0, 0]
    given = not bool(where.all())
    if causal:
        where = where & causal_mask(queries, keys, where.device)
    if given:
        return where, "given"
    return (where, "causal") if causal else (None, "none")


def bias_of(called: Mapping[str, Any], head: int, queries: int, keys: int) -> Tensor | None:
    """(T, S) of this head."""
    bias = called.get("relation", NO_POSITIONS).bias
    if bias is None:
        return None
    if isinstance(bias, PositionBias):
        bias = bias.materialize(queries, keys, next(iter([*bias.parameters(), *bias.buffers()])).device)
    table = bias.detach().float().cpu()
    table = table.reshape((1,) * (4 - table.dim()) + tuple(table.shape))[0]  # (H or 1, T or 1, S)
    return table[head if table.shape[0] > 1 else 0].expand(queries, keys)
