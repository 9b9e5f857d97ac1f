"""Senses: from a word's vector to several vectors, and how much of each a context takes (Hewitt et al. 2023).

    senses C(x) = SenseNetwork(E[x])                 (N, dim) -> (N, k, dim), whatever the context
    weights α_ℓij                                    (B, k, T, T), of each sense ℓ, of place j, in what place i says
    o_i = Σ_j Σ_ℓ α_ℓij C(x_j)_ℓ                     (B, T, dim)

The senses of a word are a function of the word alone: so they are made once for each *distinct* word of a batch, and a
table can hold them all. Of the sum, nn/kernels/sense_sums.py has the fast way; here are the few lines that it must
agree with.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DEVIATION = 0.02


class SenseNetwork(nn.Module):
    """The k senses of each word, from its vector: e (N, dim) -> (N, k, dim).

        r = e;  h = norm(r)                  r ← h + r, though nothing was computed in between:
        r = h + r;  h = norm₁(r)             where a Transformer's block attends, this one has nothing; the paper
        r = W₂ gelu(W₁ h) + r;  h = norm₂(r) kept the step, by its own word an accident, and so do its weights
        C = V₂ gelu(V₁ h)                    dim · k numbers, k vectors of dim; no norm and no residual after it

    Dropout stands in front of every residual sum, as in the code that the paper was made with. Where senses are made
    once for each distinct word, one draw of it holds for all the places of that word in the batch.
    """

    def __init__(
        self,
        dim: int,
        senses: int,
        *,
        hidden: int | None = None,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        hidden = hidden or 4 * dim
        self.dim, self.senses = dim, senses
        self.norm = nn.LayerNorm(dim, eps=epsilon)
        self.inner_norm = nn.LayerNorm(dim, eps=epsilon)
        self.outer_norm = nn.LayerNorm(dim, eps=epsilon)
        self.inner, self.outer = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.last_inner, self.last_outer = nn.Linear(dim, hidden), nn.Linear(hidden, dim * senses)
        self.dropout = nn.Dropout(dropout)
        for layer in self.layers():
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def layers(self) -> list[nn.Linear]:
        return [self.inner, self.outer, self.last_inner, self.last_outer]

    def begin_as_gpt2(self, layers: int) -> None:
        """Weights with deviation 0.02; what ends in a residual, less (see models/language/reader.py)."""
        for layer in self.layers():
            ending = DEVIATION / math.sqrt(2 * layers)
            nn.init.normal_(layer.weight, std=ending if layer is self.outer else DEVIATION)

    def forward(self, e: Tensor) -> Tensor:
        r = self.dropout(e)
        r = self.dropout(self.norm(r)) + r
        h = self.inner_norm(r)
        r = self.dropout(self.outer(_gelu(self.inner(h)))) + r
        h = self.outer_norm(r)
        return self.last_outer(_gelu(self.last_inner(h))).unflatten(-1, (self.senses, self.dim))

    def flops(self) -> float:
        """For each word."""
        return 2.0 * sum(layer.weight.numel() for layer in self.layers())


def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def reference_weights(query: Tensor, key: Tensor, documents: Tensor | None = None, window: int | None = None) -> Tensor:
    """α: query and key (B, T, k, D) -> (B, k, T, T), softmax of q·k / √D over the places up to one's own; with
    documents (B, T), their numbers, over those of one's own document; with a window, over so many places at the most.
    """
    length = query.shape[1]
    scores = torch.einsum("bikd,bjkd->bkij", query, key) / math.sqrt(query.shape[-1])
    seen = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    if documents is not None:
        seen = seen & (documents[:, None, :, None] == documents[:, None, None, :])
    if window is not None:
        seen = seen & torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1 - window)
    return scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)


def reference_mix(
    query: Tensor, key: Tensor, senses: Tensor, documents: Tensor | None = None, window: int | None = None
) -> Tensor:
    """The sum as it is written, a product for each sense and then their sum: senses of every place (B, T, k, dim) ->
    (B, T, dim)."""
    weights = reference_weights(query, key, documents, window)  # (B, k, T, T)
    each = weights @ senses.transpose(1, 2)  # (B, k, T, dim)
    return each.sum(dim=1)
