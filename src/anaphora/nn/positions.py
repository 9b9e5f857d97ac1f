"""Positions: attention is blind to order, so somebody must tell it where a token stands.

At the input, as a vector beside the token's (nn/embedding.py):

    sinusoidal                 fixed waves, added                    for any length
    sinusoidal-concatenated    the same waves, W [token ; waves]     for any length
    learned                    a table, added                        ends where the table ends: an error beyond

At every attention, to queries and keys (this file), where only the distance between the two counts:

    rotary      queries and keys are turned by an angle that grows with their place (Su et al. 2021)
    alibi       a score is lowered in proportion to the distance (Press et al. 2022)
    relative    a learned number for each bucket of distances is added to a score (T5, Raffel et al. 2020)

and `none`. All but `learned` can be computed at lengths never trained on. Being computable is not the same as working:
the waves and the angles take values there that nobody has trained with; ALiBi only lowers scores further; relative ends
in one bucket for all far distances.
"""

from __future__ import annotations

import math
from typing import NamedTuple, get_args

import torch
from torch import Tensor, nn

from anaphora.nn.choices import Positions

POSITIONS: tuple[Positions, ...] = get_args(Positions)


def sinusoids(length: int, dim: int) -> Tensor:
    """PE[p, 2i] = sin(p / 10000^(2i/dim)), PE[p, 2i+1] = cos(the same): (length, dim)."""
    rate = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10_000.0) / dim))  # (ceil(dim / 2),)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate  # (length, ceil(dim / 2))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :dim].float()


class Relation(NamedTuple):
    """What an attention is told of where its queries and keys stand."""

    bias: Tensor | PositionBias | None = None
    """Added to the scores: a tensor that broadcasts to (B, H, T, S), or the rule of one."""
    rotation: Tensor | None = None
    """Cosine and sine of the angles by which queries, and keys that are new with them, are turned: (2, …, T, D / 2)."""


NO_POSITIONS = Relation()


# Rotary -------------------------------------------------------------------------------------------------------------


def rotation(positions: Tensor, dim: int, base: float = 10_000.0) -> Tensor:
    """cos and sin of p · base^(-2i/dim): positions (…, T) -> (2, …, T, dim / 2)."""
    rate = base ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float32) / dim)  # (dim / 2,)
    angle = positions[..., None] * rate
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Each pair (x[2i], x[2i+1]) as a point of the plane, turned: x (B, H, T, D), turn (2, …, T, D / 2).

    A dot product of two turned vectors depends on the difference of their angles alone, which is their distance.
    """
    one, other = x.unflatten(-1, (-1, 2)).unbind(-1)  # (B, H, T, D / 2) each
    cos, sin = turn
    turned = torch.stack([one * cos - other * sin, one * sin + other * cos], dim=-1).flatten(-2)
    return turned.to(x.dtype)


# Biases -------------------------------------------------------------------------------------------------------------


class PositionBias(nn.Module):
    """A number added to a score that depends on head and distance alone."""

    heads: int

    def of(self, head: Tensor, distance: Tensor) -> Tensor:
        """For a key `distance` places after the query (before it: negative); both broadcast."""
        raise NotImplementedError

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places (…, T) and (…, S) -> (…, H, T, S)."""
        distance = keys[..., None, None, :] - queries[..., None, :, None]  # (…, 1, T, S)
        return self.of(torch.arange(self.heads, device=distance.device)[:, None, None], distance)

    def materialize(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        """For T queries, the last of them at the last of S keys: (H, T, S)."""
        places = torch.arange(keys, device=device)
        return self(torch.arange(keys - queries, keys, device=device), places)


class Alibi(PositionBias):
    """-slope · |distance|, a fixed slope for each head: 2^(-8/H), 2^(-16/H), …, 2^-8.

    Published for causal attention, where distances have one sign; here it looks both ways alike. Where H is no power of
    two, the slopes are those of the next smaller one and then every second of the next larger one, as published.
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)

    def of(self, head: Tensor, distance: Tensor) -> Tensor:
        return -self.slopes[head] * distance.abs()


def alibi_slopes(heads: int) -> list[float]:
    """One slope a head."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return slopes if power == heads else slopes + alibi_slopes(2 * power)[0::2][: heads - power]


class RelativeBias(PositionBias):
    """table[bucket(distance), head], learned.

    Half of the buckets are single distances, the others grow as the logarithm of the distance up to `furthest`; all
    that is further away shares the last one. With `bidirectional`, half of all buckets are for keys after the query.
    """

    def __init__(self, heads: int, *, bidirectional: bool, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.heads = heads
        self.bidirectional, self.buckets, self.furthest = bidirectional, buckets, furthest
        self.table = nn.Embedding(buckets, heads)
        nn.init.normal_(self.table.weight, std=0.02)

    def bucket(self, distance: Tensor) -> Tensor:
        """The number of the bucket in which a distance (key minus query) falls."""
        buckets, first = self.buckets, torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            first = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)  # a later key is masked anyway
        exact = buckets // 2
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.furthest / exact)
        coarse = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(distance < exact, distance, coarse)

    def of(self, head: Tensor, distance: Tensor) -> Tensor:
        return self.table.weight[self.bucket(distance), head]


class RelativePositions(nn.Module):
    """What one stack of attentions, all its layers alike, is told of positions: places -> Relation.

    For rotary, alibi and relative; for the others, whose positions are in the input, it says nothing. The relative
    table is the only thing learned, one for a stack as in T5. `silent` says that it has nothing to say, so that nobody
    need work out places for it.
    """

    def __init__(self, positions: Positions, heads: int, head_dim: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.rotary, self.head_dim = positions == "rotary", head_dim
        self.silent = positions not in ("rotary", "alibi", "relative")
        if self.rotary and head_dim % 2:
            raise ValueError(f"rotary positions turn pairs: each head's {head_dim} dimensions must be an even number")
        self.bias: PositionBias | None = None
        if positions == "alibi":
            self.bias = Alibi(heads)
        elif positions == "relative":
            self.bias = RelativeBias(heads, bidirectional=bidirectional)

    def forward(self, queries: Tensor, keys: Tensor) -> Relation:
        """Places of queries (T,) or (B, T), of keys (S,): for one row of places, the same for all the batch."""
        if self.rotary:
            turn = rotation(queries, self.head_dim)  # (2, T, D / 2) or (2, B, T, D / 2)
            return Relation(rotation=turn if queries.dim() == 1 else turn[:, :, None])
        if self.bias is not None:
            return Relation(bias=self.bias(queries, keys))
        return NO_POSITIONS

    def whole(self, length: int, device: torch.device) -> Relation:
        """For a row of tokens that look at one another."""
        if self.silent:
            return NO_POSITIONS
        places = torch.arange(length, device=device)
        return self(places, places)

    def rule(self, length: int, device: torch.device) -> Relation:
        """The same as `whole`, the bias left as a rule."""
        return self.whole(length, device) if self.bias is None else Relation(bias=self.bias)
