"""How a recurrent decoder looks at the source (Bahdanau et al. 2015, Luong et al. 2015).

    context = Σ_s weight_s · h_s        weight = softmax over the source of score(state, h_s)

    additive     v · tanh(W state + U h_s)     Bahdanau; Luong's *concat* is the same, with W and U written side by side
    bilinear     stateᵀ W h_s                  Luong's *general*
    dot          state · h_s                   Luong; both must have one width
    scaled-dot   state · h_s / √d

One head, and what is summed up are the source's vectors themselves: there are no projections of values, and none of the
result. In all else it is the attention of the house (nn/attention.py): watched, captured and aligned as any other.
What of the keys does not depend on the state (U h_s) is computed once a sentence, by `remember`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from anaphora.nn.attention import MultiHeadAttention
from anaphora.nn.scores import AnyScore, Score, score_named


class SourceAttention(MultiHeadAttention):
    """states (B, T, dim) look at a memory (B, S, memory_dim): contexts (B, T, memory_dim).

    `size` is the width in which additive scores compare the two.
    """

    def __init__(
        self,
        dim: int,
        memory_dim: int,
        *,
        score: AnyScore = "additive",
        size: int | None = None,
    ) -> None:
        nn.Module.__init__(self)  # none of the projections of a Transformer's
        score = score_named(score)
        check_widths(score, dim, memory_dim)
        self.dim, self.memory_dim = dim, memory_dim
        self.heads = self.key_value_heads = 1
        self.score, self.normalizer, self.dropout, self.backend = score, "softmax", 0.0, "auto"
        self.cross = True
        self.query: nn.Module = nn.Identity()  # type: ignore[assignment]
        self.key: nn.Module = nn.Identity()
        self.out = nn.Identity()  # type: ignore[assignment]
        sizes = dim, memory_dim
        if score.projects:
            sizes = size or dim, size or dim
            self.query, self.key = nn.Linear(dim, sizes[0], bias=False), nn.Linear(memory_dim, sizes[1], bias=False)
            for projection in (self.query, self.key):
                nn.init.xavier_uniform_(projection.weight)
        self.sizes = sizes
        """Of queries, and of keys."""
        weight = score.new_weight(1, *sizes, projected=score.projects)
        self.score_weight = None if weight is None else nn.Parameter(weight)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, 1, T, D)"""
        return x[:, None]

    def merge(self, x: Tensor) -> Tensor:
        """(B, 1, T, D) -> (B, T, D)"""
        return self.out(x[:, 0])

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, 1, S, size) and values (B, 1, S, memory_dim)."""
        return self.key(memory)[:, None], memory[:, None]

    def record_steps(self, weights: list[Tensor], value: Tensor, contexts: Tensor) -> Tensor:
        """Tell whoever watches what T steps looked at, as if it had been one look: weights T × (B, 1, 1, S), value
        (B, 1, S, D), contexts (B, T, D), which are given back."""
        for hook in self.hooks:
            if hook.is_active():
                each = torch.cat(weights, dim=2)
                hook.record(each, each, value, contexts[:, None])
        return self.merge(contexts[:, None])

    def has_hooks(self) -> bool:
        """Whether anybody wants to see the weights now."""
        return any(hook.is_active() for hook in self.hooks) if self.hooks else False

    def in_loops(self) -> dict[str, Any] | None:
        """What the hand-written loops of nn/kernels/attentive.py need to compute these scores: the matrix that makes a
        query of a state, v of additive scores, what products are multiplied by. None where they cannot: then the plain
        loop, which asks the score itself, is taken."""
        score, made = self.score, self.query.weight if isinstance(self.query, nn.Linear) else None
        if score.kernel == "additive":
            assert self.score_weight is not None
            return {"query_weight": made, "v": self.score_weight[0]}
        by = score.scale(self.sizes[0])
        if by is not None:
            return {"query_weight": made, "v": None, "scale": by}
        matrix = score.matrix(self.score_weight)
        if matrix is None:
            return None
        turn = matrix[0].t() if matrix.dim() == 3 else matrix.t()
        return {"query_weight": turn if made is None else turn @ made, "v": None}

    def flops(self, source_length: float) -> float:
        """For each state: its query, and over so many source vectors the scores and the sum."""
        query = 2.0 * sum(weight.numel() for weight in self.query.parameters())
        query += self.score.prepare_flops(*self.sizes)
        return query + 2.0 * source_length * (self.sizes[1] + self.memory_dim)

    def remembering_flops(self) -> float:
        """For each source vector: its key."""
        return 2.0 * sum(weight.numel() for weight in self.key.parameters())


def check_widths(score: Score, dim: int, memory_dim: int) -> None:
    """A ValueError where states and source vectors cannot be compared."""
    if dim != memory_dim and not (score.two_sizes or score.projects):
        raise ValueError(
            f"{score.name} scores need states and source vectors of one width; they have {dim} and {memory_dim}; "
            "bilinear scores join two"
        )
