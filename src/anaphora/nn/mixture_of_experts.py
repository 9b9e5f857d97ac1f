"""A mixture of experts: many feed-forward networks, of which every word asks a few (Shazeer et al. 2017).

A network that is twice as wide costs twice as much for every word. But a word need not ask all of a network: let E
small ones, the *experts*, stand side by side, and a *gate* choose k of them for each word. Parameters then grow with E,
the cost of a word with k alone.

    s = W_g x                                      how much the word x would like each expert, (E,)
    h = s + ε · softplus(W_n x)                    while learning: noise ε ~ N(0, 1), as strong as the word wants it
    g = softmax(h of the k largest, else -∞)       the gate: k numbers above zero, one in all
    y = Σ_i g_i · W₂ᵢ relu(W₁ᵢ x + b₁ᵢ) + b₂ᵢ       only the chosen are computed

A gate left to itself soon asks the same few: whoever is asked learns, whoever has learned is asked. Two terms hold
against it, each the squared *coefficient of variation* (variance / mean²) of a number that every expert has, summed
over a batch:

    importance_i = Σ_x g_i(x)                      how much they count
    load_i       = Σ_x P(i is chosen for x)        how often they are asked: the chance that another draw of i's noise
                                                   lifts it above the k-th best of the others, Φ((s_i - that) / σ_i)

Counting who is chosen has no gradient; the chance has one, which is what the noise is for. Both are zero when all
experts are alike. `balance` weighs them (the paper: 0.1 each, in its language models).

What differs from the paper, and why. There the experts were spread over many machines and each received a fixed share
of a batch; here one machine holds them all, no word is ever left out, and groups of any size are multiplied at once
(nn/kernels/grouped.py). The gate is one softmax over all experts; the paper's thousands were found through two gates,
one behind the other. Its translators forced every batch to be balanced exactly, by an expert's best words instead of a
word's best experts, which needs thresholds for later use; here they have the two terms above, as its language models
had. Experts have biases, so that one expert alone is a Transformer's feed-forward network, exactly. Padding is
computed and thrown away, and counts nowhere.

While it is used there is no noise: what a word gets depends on that word alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaphora.nn.kernels.grouped import combine, dispatch, grouped_linear, route

MIN_NOISE = 1e-2
"""Noise that a word cannot do without: chances are divided by it."""
IDLE_SHARE = 0.1
"""An expert that is asked less than this part of its even share is idle."""


@dataclass(frozen=True)
class Experts:
    """How many there are, and who asks them."""

    number: int
    per_token: int = 2
    every: int = 1
    """Layers from one with experts to the next: of 2, each second one has them."""
    balance: float = 0.1

    def __str__(self) -> str:
        where = {1: "", 2: ", in each second layer"}.get(self.every, f", in one of {self.every} layers")
        return f"{self.number} experts ({self.per_token} a token{where})"

    def in_layer(self, layer: int) -> bool:
        """Whether that layer, from 0, has experts."""
        return (layer + 1) % self.every == 0


class MixtureOfExperts(nn.Module):
    """(…, dim) -> (…, dim), by `per_token` of `experts` networks that are `hidden` wide inside."""

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        experts: int,
        per_token: int,
        balance: float = 0.1,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 1 <= per_token <= experts:
            raise ValueError(f"a word cannot ask {per_token} of {experts} experts; it must be 1 to {experts}")
        self.dim, self.hidden, self.experts, self.per_token = dim, hidden, experts, per_token
        self.weight, self.activation, self.dropout = balance, activation, nn.Dropout(dropout)
        # at zero no word prefers anyone, and all of them are tried
        self.gate = nn.Parameter(torch.zeros(experts, dim))
        self.noise = nn.Parameter(torch.zeros(experts, dim))
        self.inner = nn.Parameter(torch.empty(experts, hidden, dim))
        self.outer = nn.Parameter(torch.empty(experts, dim, hidden))
        # biases of all experts in one vector: matrices are pulled towards zero by weight decay, vectors are not
        self.inner_bias = nn.Parameter(torch.zeros(experts * hidden))
        self.outer_bias = nn.Parameter(torch.zeros(experts * dim))
        bound = math.sqrt(6 / (dim + hidden))  # Xavier's, of each expert
        for matrix in (self.inner, self.outer):
            nn.init.uniform_(matrix, -bound, bound)
        self.asked: Tensor
        self.register_buffer("asked", torch.zeros(experts, dtype=torch.long), persistent=False)
        self.real: Tensor | None = None
        """Which places are no padding, (…), where somebody has told (`telling`): only those are counted."""
        self.counting = False
        """Whether to count who is asked, though nothing is learned."""
        self.imbalance: Tensor | None = None
        """Of the latest pass that was told what is real: what balancing adds to the loss, () with its gradient."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.dim)  # (N, dim)
        chosen, weights = self.choose(rows)  # (N, k) twice
        routes = route(chosen, self.experts)
        y = grouped_linear(dispatch(rows, routes), self.inner, self.inner_bias.view(-1, self.hidden), routes)
        y = self.dropout(self.activation(y))  # (N · k, hidden)
        y = combine(grouped_linear(y, self.outer, self.outer_bias.view(-1, self.dim), routes), routes)  # (N, k, dim)
        return (y * weights[:, :, None].to(y.dtype)).sum(dim=1).view(x.shape)

    def choose(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The experts of each row, the best first, and what each counts: (N, dim) -> (N, k), (N, k)."""
        with torch.autocast(rows.device.type, enabled=False):  # a rounded score would ask others
            rows = rows.to(self.gate.dtype)
            clean = F.linear(rows, self.gate)  # (N, E)
            deviation, scores = None, clean
            if self.training:
                deviation = F.softplus(F.linear(rows, self.noise)) + MIN_NOISE
                scores = clean + torch.randn_like(clean) * deviation
            best, order = scores.topk(min(self.per_token + 1, self.experts), dim=-1)
            chosen, weights = order[:, : self.per_token], best[:, : self.per_token].softmax(dim=-1)
            if self.real is not None and (self.training or self.counting):
                self._account(chosen, weights, clean, scores, best, deviation)
        return chosen, weights

    def _account(
        self, chosen: Tensor, weights: Tensor, clean: Tensor, scores: Tensor, best: Tensor, deviation: Tensor | None
    ) -> None:
        """Note who was asked, and how unevenly."""
        assert self.real is not None
        real = self.real.reshape(-1, 1)  # (N, 1)
        with torch.no_grad():
            self.asked.scatter_add_(0, chosen.flatten(), real.expand_as(chosen).flatten().long())
        if deviation is None or not self.weight:
            return
        counted = torch.zeros_like(clean).scatter(1, chosen, weights * real)  # (N, E)
        chances = chance_of_choice(clean, scores, best, deviation, self.per_token) * real
        both = variation(counted.sum(dim=0)) + variation(chances.sum(dim=0))
        self.imbalance = self.weight * both

    def flops(self) -> float:
        """For each token: the gate, and k experts."""
        return 2.0 * self.gate.numel() + 4.0 * self.per_token * self.dim * self.hidden

    def idle_parameters(self) -> int:
        """Numbers that a token does not meet: those of the experts that it does not ask."""
        of_one = 2 * self.dim * self.hidden + self.dim + self.hidden
        return (self.experts - self.per_token) * of_one


def chance_of_choice(clean: Tensor, scores: Tensor, best: Tensor, deviation: Tensor, per_token: int) -> Tensor:
    """P(expert i is among the k best, if its noise alone were drawn again): (N, E), `best` being the k + 1 largest of
    the scores (N, E) in falling order. With k = E there is nobody to lift itself above, and the chance is one."""
    if per_token == clean.shape[1]:
        return torch.ones_like(clean)
    last, next_best = best[:, per_token - 1, None], best[:, per_token, None]  # (N, 1)
    others = torch.where(scores >= last, next_best, last)  # of the others, the k-th best
    return torch.special.ndtr((clean - others) / deviation)


def variation(values: Tensor) -> Tensor:
    """The squared coefficient of variation, variance / mean²: (E,) -> (), 0 if all are alike."""
    return values.var(correction=0) / values.mean().square().clamp(min=1e-10)


def mixtures(model: nn.Module) -> list[MixtureOfExperts]:
    """All layers with experts, from the first to the last."""
    return [part for part in model.modules() if isinstance(part, MixtureOfExperts)]


def active_parameters(model: nn.Module) -> int:
    """Every trained number once, but for those of experts that a token does not ask."""
    return sum(p.numel() for p in model.parameters()) - sum(part.idle_parameters() for part in mixtures(model))


@contextmanager
def telling(model: nn.Module, real: Tensor) -> Iterator[None]:
    """Within the block the layers know which places are no padding: real (B, T), as they are given x (B, T, dim)."""
    layers = mixtures(model)
    for layer in layers:
        layer.real = real
    try:
        yield
    finally:
        for layer in layers:
            layer.real = None


@contextmanager
def counting(model: nn.Module) -> Iterator[list[MixtureOfExperts]]:
    """Within the block it is counted from zero who is asked, though nothing is learned."""
    layers = mixtures(model)
    for layer in layers:
        layer.counting = True
        layer.asked.zero_()
    try:
        yield layers
    finally:
        for layer in layers:
            layer.counting = False


def load(layers: list[MixtureOfExperts]) -> dict[str, Any]:
    """How evenly experts were asked since it was last counted from zero; reading it waits for the device.

    shares: of the choices in each layer, each expert's. cv: their coefficient of variation, 0 if all are alike.
    entropy: of the shares, as a part of what even ones would have. Both are means over layers. idle: experts that were
    asked less than a tenth of their even share, of `experts` in all.
    """
    shares = []
    for layer in layers:
        asked = layer.asked.cpu().double()  # not every device has the type
        shares.append(asked / asked.sum().clamp(min=1.0))
    varied = [math.sqrt(variation(share).item()) for share in shares]
    entropy = [
        torch.special.entr(share).sum().item() / math.log(len(share)) if len(share) > 1 else 1.0 for share in shares
    ]
    idle = sum(int((share * len(share) < IDLE_SHARE).sum()) for share in shares)
    return {
        "shares": [[round(value, 5) for value in share.tolist()] for share in shares],
        "cv": sum(varied) / max(len(layers), 1),
        "entropy": sum(entropy) / max(len(layers), 1),
        "idle": idle,
        "experts": sum(map(len, shares)),
    }
