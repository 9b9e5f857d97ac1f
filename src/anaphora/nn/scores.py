"""Scores: how well a key answers a query, one number for each pair.

    scaled-dot   q · k / √d          Vaswani et al. 2017: the size of a score does not grow with d
    dot          q · k               Luong et al. 2015; weighs like scaled-dot, but sharper the larger d is
    bilinear     qᵀ W k              Luong's "general": q and k may have different sizes, W is (d_q, d_k)
    additive     v · tanh(q + k)     Bahdanau et al. 2015; with q = W s and k = U h projected beforehand it is the
                                     published v · tanh(W s + U h)

Shapes: query (B, H, T, D_q), key (B, G, S, D_k) -> scores (B, H, T, S). G divides H: G = H is one key head for each
query head, G = 1 is multi-query attention, anything between is grouped. A weight (v or W) is shared by the heads, or
has a first dimension H.
"""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from anaphora.errors import nearest
from anaphora.nn.choices import Score

SCORES: tuple[Score, ...] = get_args(Score)


def spread(x: Tensor, heads: int) -> Tensor:
    """Each of G key heads for the H / G query heads that share it: (B, G, S, D) -> (B, H, S, D)."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def scores(query: Tensor, key: Tensor, score: Score = "scaled-dot", weight: Tensor | None = None) -> Tensor:
    """The score of each query and key, (B, H, T, S), by the formulas above."""
    key = spread(key, query.shape[1])
    if score == "additive":
        assert weight is not None
        sums = torch.tanh(query[:, :, :, None] + key[:, :, None])  # (B, H, T, S, D)
        return sums @ weight if weight.dim() == 1 else torch.einsum("bhtsd,hd->bhts", sums, weight)
    return prepared(query, score, weight) @ key.transpose(-2, -1)


def prepared(query: Tensor, score: Score, weight: Tensor | None) -> Tensor:
    """The query whose plain product with a key is the score: q / √d, q, or q W. Additive scores have none."""
    if score == "scaled-dot":
        return query * query.shape[-1] ** -0.5
    return query @ weight if weight is not None else query


def check_score(query: Tensor, key: Tensor, score: str, weight: Tensor | None) -> None:
    """A one-line ValueError where the score cannot be computed from these shapes."""
    if score not in SCORES:
        raise ValueError(f"no score is called {score!r}; {nearest(score, SCORES)}")
    heads, of_query, of_key = query.shape[1], query.shape[-1], key.shape[-1]
    if score == "bilinear":
        _check_weight("bilinear", "W", weight, (of_query, of_key), heads)
        return
    if of_query != of_key:
        raise ValueError(
            f"{score} needs queries and keys of one size; they have {of_query} and {of_key} (bilinear joins two sizes)"
        )
    if score == "additive":
        _check_weight("additive", "v", weight, (of_query,), heads)
    elif weight is not None:
        raise ValueError(f"{score} has no weight; bilinear has W, additive has v")


def _check_weight(score: str, name: str, weight: Tensor | None, shape: tuple[int, ...], heads: int) -> None:
    found = None if weight is None else tuple(weight.shape)
    if found not in (shape, (heads, *shape)):
        what = "none was given" if found is None else f"it has shape {found}"
        raise ValueError(f"{score} needs {name} as weight, of shape {shape} or {(heads, *shape)}; {what}")
