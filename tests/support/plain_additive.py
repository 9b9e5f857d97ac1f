"""The reference of additive attention (nn/attention.py) in the shapes of its kernel."""

from __future__ import annotations

from torch import Tensor

from anaphora.nn.attention import attend


def plain_additive(query: Tensor, key: Tensor, value: Tensor, v: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """query (..., n, d), key (..., m, d), value (..., m, e), v (d,) or (H, d) -> (..., n, e)"""
    lead, n, m = query.shape[:-2], query.shape[-2], key.shape[-2]
    heads = lead[-1] if len(lead) > 1 else 1
    if mask is not None:
        mask = mask.expand(*lead, n, m).reshape(-1, heads, n, m)
    query, key, value = (x.reshape(-1, heads, *x.shape[-2:]) for x in (query, key, value))  # (B, H, length, size)
    context = attend(query, key, value, score="additive", weight=v, mask=mask, backend="reference")
    return context.reshape(*lead, n, -1)
