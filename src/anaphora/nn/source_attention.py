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

import torch
from torch import Tensor, nn

from anaphora.errors import nearest
from anaphora.nn.attention import MultiHeadAttention
from anaphora.nn.scores import SCORES, Score


class SourceAttention(MultiHeadAttention):
    """states (B, T, dim) look at a memory (B, S, memory_dim): contexts (B, T, memory_dim).

    `size` is the width in which additive scores compare the two.
    """

    def __init__(
        self,
        dim: int,
        memory_dim: int,
        *,
        score: Score = "additive",
        size: int | None = None,
    ) -> None:
        nn.Module.__init__(self)  # none of the projections of a Transformer's
        if score not in SCORES:
            raise ValueError(f"no score is called {score!r}; {nearest(score, SCORES)}")
        if score in ("dot", "scaled-dot") and dim != memory_dim:
            raise ValueError(
                f"{score} scores need states and source vectors of one width; they have {dim} and {memory_dim}; "
                "bilinear scores join two"
            )
        self.dim, self.memory_dim = dim, memory_dim
        self.heads = self.key_value_heads = 1
        self.score, self.normaliser, self.dropout, self.backend = score, "softmax", 0.0, "auto"
        self.cross = True
        self.query: nn.Module = nn.Identity()  # type: ignore[assignment]
        self.key: nn.Module = nn.Identity()
        self.out = nn.Identity()  # type: ignore[assignment]
        self.score_weight = None
        if score == "additive":
            size = size or dim
            self.query, self.key = nn.Linear(dim, size, bias=False), nn.Linear(memory_dim, size, bias=False)
            for projection in (self.query, self.key):
                nn.init.xavier_uniform_(projection.weight)
            self.score_weight = nn.Parameter(torch.randn(1, size) * size**-0.5)
        elif score == "bilinear":
            self.score_weight = nn.Parameter(torch.empty(1, dim, memory_dim))
            nn.init.xavier_uniform_(self.score_weight[0])

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, 1, T, D)"""
        return x[:, None]

    def merge(self, x: Tensor) -> Tensor:
        """(B, 1, T, D) -> (B, T, D)"""
        return self.out(x[:, 0])

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, 1, S, size) and values (B, 1, S, memory_dim)."""
        return self.key(memory)[:, None], memory[:, None]

    def see_steps(self, weights: list[Tensor], value: Tensor, contexts: Tensor) -> Tensor:
        """Tell whoever watches what T steps looked at, as if it had been one look: weights T × (B, 1, 1, S), value
        (B, 1, S, D), contexts (B, T, D), which are given back."""
        for watcher in self.watchers:
            if watcher.wants():
                each = torch.cat(weights, dim=2)
                watcher.see(each, each, value, contexts[:, None])
        return self.merge(contexts[:, None])

    def watched(self) -> bool:
        """Whether anybody wants to see the weights now."""
        return any(watcher.wants() for watcher in self.watchers) if self.watchers else False

    def flops(self, source_length: float) -> float:
        """For each state: its query, and over so many source vectors the scores and the sum."""
        query = 2.0 * sum(weight.numel() for weight in self.query.parameters())
        if self.score == "bilinear":
            query += 2.0 * self.dim * self.memory_dim
        compared = self.query.out_features if isinstance(self.query, nn.Linear) else self.memory_dim
        return query + 2.0 * source_length * (compared + self.memory_dim)

    def remembering_flops(self) -> float:
        """For each source vector: its key."""
        return 2.0 * sum(weight.numel() for weight in self.key.parameters())
