"""Masks: which query may look at which key.

    Padding(lengths)        a key is a real token
    Causal()                a key is not later than the query
    Window(size)            a key is fewer than `size` places away
    Documents(numbers)      query and key belong to the same document of a packed row
    Given(allowed)          whatever a boolean tensor says
    Padding(lengths) & Causal() & Window(4)      all of them

A mask is a *rule* of four indices, written once: may query q of head h of row b look at key k? Evaluated at all indices
it is the boolean tensor that the reference uses and that can be drawn; handed to FlexAttention it is compiled into the
kernel, which then skips what nobody may see.

Where there are fewer queries than keys, the last query stands at the last key: query q is at place q + (S - T). So a
mask says the same to one new query over a cache and to the last row of a whole pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(b, h, q, k), index tensors that broadcast -> True where the query may look."""


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """True where a key is a real token: lengths (B,) -> (B, 1, 1, S)."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """True where key s is not later than query t, the last query standing at the last key: (T, S)."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(diagonal=keys - queries)


class Mask:
    """A rule that says who may look at whom; `&` joins two."""

    def rule(self, queries: int, keys: int) -> Rule:
        """The rule for T queries and S keys, as a function of indices."""
        raise NotImplementedError

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """A one-line ValueError where the mask was made for other shapes."""

    def tensors(self) -> tuple[Tensor, ...]:
        """What the rule reads besides indices."""
        return ()

    @property
    def rows(self) -> int:
        """Rows of a batch that it tells apart: 1 where all are alike."""
        return max((tensor.shape[0] for tensor in self.tensors()), default=1)

    def materialize(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        """True where a query may look: a tensor that broadcasts to (B, H, T, S)."""
        if device is None and self.tensors():
            device = self.tensors()[0].device
        b = torch.arange(self.rows, device=device).view(-1, 1, 1, 1)
        h = torch.zeros(1, 1, 1, dtype=torch.long, device=device)  # no rule but a given tensor tells heads apart
        q, k = torch.arange(queries, device=device)[:, None], torch.arange(keys, device=device)
        return self.rule(queries, keys)(b, h, q, k)

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """A key is not later than the query."""

    def rule(self, queries: int, keys: int) -> Rule:
        ahead = keys - queries
        return lambda b, h, q, k: k <= q + ahead


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """A key is fewer than `size` places away: with Causal, the last `size` keys, the query's own place among them."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a window holds at least the query's own place: size {self.size} is below 1")

    def rule(self, queries: int, keys: int) -> Rule:
        ahead, size = keys - queries, self.size
        return lambda b, h, q, k: (k - q - ahead).abs() < size


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """A key is a real token: those before its row's length (B,)."""

    lengths: Tensor

    def rule(self, queries: int, keys: int) -> Rule:
        lengths = self.lengths
        return lambda b, h, q, k: k < lengths[b]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        if self.lengths.dim() != 1 or self.lengths.shape[0] not in (1, batch):
            raise ValueError(f"padding needs lengths ({batch},), one a row; they have shape {_shape(self.lengths)}")

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.lengths,)


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Query and key belong to the same document: keys (B, S) and queries (B, T) carry its number; those below 0 are
    padding, which sees nothing and is seen by nobody. The queries are the keys' last ones unless given."""

    keys: Tensor
    queries: Tensor | None = None

    def rule(self, queries: int, keys: int) -> Rule:
        of_keys = self.keys
        of_queries = of_keys[:, keys - queries :] if self.queries is None else self.queries
        return lambda b, h, q, k: (of_queries[b, q] == of_keys[b, k]) & (of_keys[b, k] >= 0)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        if self.queries is None and queries > keys:
            raise ValueError(f"{queries} queries over {keys} keys: say to which documents the queries belong")
        for name, tensor, size in (("keys", self.keys, keys), ("queries", self.queries, queries)):
            if tensor is not None and (
                tensor.dim() != 2 or tensor.shape[0] not in (1, batch) or tensor.shape[1] != size
            ):
                raise ValueError(f"documents of {name} must be ({batch}, {size}); they have shape {_shape(tensor)}")

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.keys,) if self.queries is None else (self.keys, self.queries)


@dataclass(frozen=True, eq=False)
class TensorMask(Mask):
    """Whatever a boolean tensor says that broadcasts to (B, H, T, S)."""

    allowed: Tensor

    def rule(self, queries: int, keys: int) -> Rule:
        allowed = self.allowed.view((1,) * (4 - self.allowed.dim()) + tuple(self.allowed.shape))
        wide = [int(size > 1) for size in allowed.shape]  # a dimension of 1 stands for all
        return lambda b, h, q, k: allowed[b * wide[0], h * wide[1], q * wide[2], k * wide[3]]

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        check_mask(self.allowed, batch, heads, queries, keys)

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.allowed,) if self.allowed.dim() == 4 else ()

    def materialize(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        return self.allowed


@dataclass(frozen=True, eq=False)
class Both(Mask):
    """What both masks allow."""

    one: Mask
    other: Mask

    def rule(self, queries: int, keys: int) -> Rule:
        one, other = self.one.rule(queries, keys), self.other.rule(queries, keys)
        return lambda b, h, q, k: one(b, h, q, k) & other(b, h, q, k)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self.one.check(batch, heads, queries, keys)
        self.other.check(batch, heads, queries, keys)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.one.tensors() + self.other.tensors()

    def materialize(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        if device is None and self.tensors():
            device = self.tensors()[0].device
        return self.one.materialize(queries, keys, device) & self.other.materialize(queries, keys, device)


def check_mask(allowed: Tensor, batch: int, heads: int, queries: int, keys: int) -> None:
    """A one-line ValueError where a tensor is no mask for these shapes."""
    if allowed.dtype != torch.bool:
        raise ValueError(f"a mask is boolean, True where a query may look; this one is {allowed.dtype}")
    wanted = (batch, heads, queries, keys)
    if allowed.dim() > 4 or any(size not in (1, want) for size, want in zip(allowed.shape[::-1], wanted[::-1])):
        raise ValueError(f"a mask of shape {_shape(allowed)} does not broadcast to (B, H, T, S) = {wanted}")


def parts(mask: Mask) -> list[Mask]:
    """The simple masks that a joined one is made of."""
    return [*parts(mask.one), *parts(mask.other)] if isinstance(mask, Both) else [mask]


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
