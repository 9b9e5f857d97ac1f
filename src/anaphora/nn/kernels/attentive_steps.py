"""One step of a recurrence that looks at a source, there and back: cells and looks in plain PyTorch.

Each keeps what its way back needs, for all steps, in tensors made once; a step writes into its place of them.
nn/kernels/attentive_triton.py has the same in one kernel each, for a GPU.

    there(t, …)   what step t says, from what it is given
    back(t, …)    what it owes to what it was given, from what is owed to it; steps come in reverse
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

ops: Any = torch.ops.aten
"""σ and tanh on the way back, from what they gave, are one walk each: grad · y (1 - y), grad · (1 - y²)."""
MAX_KEPT_NUMBERS = 1 << 26
"""Numbers of σ(2 (q + k)), over all steps, that are kept for the way back (256 MB in float32); beyond, they are
computed a second time."""


def wide(dtype: torch.dtype) -> torch.dtype:
    """What memories, weights and sums are kept in."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def tanh_(x: Tensor) -> Tensor:
    """tanh x = 2 σ(2x) - 1, in place: on a CPU PyTorch's σ takes a fifth of the time of its tanh."""
    return x.tanh_() if x.is_cuda else x.mul_(2).sigmoid_().mul_(2).sub_(1)


def room(steps: int, like: Tensor, width: int, dtype: torch.dtype | None = None) -> Tensor:
    """For numbers of every step: like (R, H) -> (steps, R, width); like (ways, R, H), ways that are gone side by side,
    -> (steps, ways, R, width), each way in one piece."""
    *ways, rows, _ = like.shape
    return like.new_empty(*ways, steps, rows, width, dtype=dtype).movedim(-3, 0)


def each(kept: Tensor, size: int, *, joined: int = 1) -> list[tuple[Tensor, ...]]:
    """Of each step its views: the first `joined` blocks of `size` numbers as one, then the blocks one by one. Cut once
    and for all: a step has so little to do that cutting would be a good part of it."""
    blocks = [kept[..., : joined * size], *kept.split(size, dim=-1)]
    return list(zip(*(block.unbind(0) for block in blocks)))


def _into(place: Tensor, slope: Any, grad: Tensor, y: Tensor) -> None:
    """slope(grad, y), written where it belongs. A GPU rounds y to the type of the place before it forms 1 - y, and of
    an open gate nothing would be left: so only where the types agree is it written at once."""
    if place.dtype == y.dtype:
        slope(grad, y, grad_input=place)
    else:
        place.copy_(slope(grad, y))


class Lstm:
    """i, f, o = σ, g = tanh of the gates; c = f c' + i g; h = o tanh(c). Gates stand as i, f, g, o.

    Rows (R, …) may also be (ways, R, …).
    """

    gates = 4

    def __init__(self, steps: int, begun: tuple[Tensor, ...]) -> None:
        h, c = begun
        self.size, full = h.shape[-1], wide(h.dtype)
        self.h, self.c = room(steps + 1, h, self.size), room(steps + 1, h, self.size, full)
        self.h[0], self.c[0] = h, c
        self.memories = self.h, self.c
        self.opened = room(steps, h, 4 * self.size, full)
        self.owed: Tensor | None = None  # to c, by the step after

    @cached_property
    def views(self) -> list[tuple[Tensor, ...]]:
        return each(self.opened, self.size, joined=2)

    def there(self, t: int, below: Tensor, state: Tensor, bias: Tensor | None = None) -> None:
        """below (R, 4H) and state = U h' (R, 4H), where the gates come from; h goes into its place."""
        first_two, i, f, g, o = self.views[t]
        torch.add(below, state, out=self.opened[t])
        first_two.sigmoid_()
        tanh_(g)
        o.sigmoid_()
        torch.mul(f, self.c[t], out=self.c[t + 1]).addcmul_(i, g)
        torch.mul(self.c[t + 1].tanh(), o, out=self.h[t + 1])

    def back(self, t: int, grad: Tensor, carried: Tensor | None, below: Tensor, past: Tensor) -> None:
        """grad (R, H) of h, and what later steps owe to it: written are those of below and of U h', (R, 4H) each."""
        _, i, f, g, o = self.views[t]
        grad = grad.to(o.dtype) if carried is None else grad + carried
        bent = self.c[t + 1].tanh()
        memory = ops.tanh_backward(grad * o, bent)
        if self.owed is not None:
            memory += self.owed
        at_i, at_f, at_g, at_o = (below.narrow(-1, place * self.size, self.size) for place in range(4))
        _into(at_i, ops.sigmoid_backward, memory * g, i)
        _into(at_f, ops.sigmoid_backward, memory * self.c[t], f)
        _into(at_g, ops.tanh_backward, memory * i, g)
        _into(at_o, ops.sigmoid_backward, grad * bent, o)
        if past is not below:
            past.copy_(below)
        self.owed = memory.mul_(f)

    def begun(self, carried: Tensor) -> tuple[Tensor, ...]:
        """What is owed to the first states, `carried` being what U h' owes."""
        assert self.owed is not None
        return carried, self.owed.to(carried.dtype)


class Gru:
    """r, z = σ(below + state); n = tanh(below + r · (state + bias)); h = (1 - z) n + z h'. Gates stand as r, z, n; what
    r and z have of the state's bias is part of `below`."""

    gates = 3

    def __init__(self, steps: int, begun: tuple[Tensor, ...]) -> None:
        (h,) = begun
        self.size = h.shape[-1]
        self.h = room(steps + 1, h, self.size)
        self.h[0] = h
        self.memories = (self.h,)
        # r, z, n and, beside them, what of n comes from the state before r closes it
        self.opened = room(steps, h, 4 * self.size, wide(h.dtype))
        self.owed: Tensor | None = None  # to h, by the step after, past U

    @cached_property
    def views(self) -> list[tuple[Tensor, ...]]:
        return each(self.opened, self.size, joined=2)

    def there(self, t: int, below: Tensor, state: Tensor, bias: Tensor | None = None) -> None:
        assert bias is not None
        first_two, r, z, n, own = self.views[t]
        size = self.size
        torch.add(below.narrow(-1, 0, 2 * size), state.narrow(-1, 0, 2 * size), out=first_two).sigmoid_()
        torch.add(state.narrow(-1, 2 * size, size), bias, out=own)
        tanh_(torch.addcmul(below.narrow(-1, 2 * size, size).to(own.dtype), r, own, out=n))
        if n.dtype == self.h.dtype:
            torch.lerp(n, self.h[t], z, out=self.h[t + 1])
        else:
            self.h[t + 1] = torch.lerp(n, self.h[t].to(n.dtype), z)

    def back(self, t: int, grad: Tensor, carried: Tensor | None, below: Tensor, past: Tensor) -> None:
        _, r, z, n, own = self.views[t]
        grad = grad.to(z.dtype) if carried is None else grad + carried
        if self.owed is not None:
            grad = grad.add_(self.owed) if carried is not None else grad + self.owed
        size = self.size
        bent = ops.tanh_backward(torch.addcmul(grad, grad, z, value=-1), n)
        _into(below.narrow(-1, 0, size), ops.sigmoid_backward, bent * own, r)
        _into(below.narrow(-1, size, size), ops.sigmoid_backward, (self.h[t] - n).mul_(grad), z)
        below.narrow(-1, 2 * size, size).copy_(bent)
        past.narrow(-1, 0, 2 * size).copy_(below.narrow(-1, 0, 2 * size))
        torch.mul(bent, r, out=past.narrow(-1, 2 * size, size))
        self.owed = grad * z

    def begun(self, carried: Tensor) -> tuple[Tensor, ...]:
        assert self.owed is not None
        return (carried + self.owed.to(carried.dtype),)


class Look:
    """weights = softmax(score(q, key)), context = Σ weights · value, at one step after another.

    v (A,): additive scores, v · tanh(q + k); without it scale · q · k. mask (R, S): True at real source tokens.

    For the sake of its time (see `tanh_`), b = σ(2 (q + k)) is made and kept in the place of tanh: the score is
    2 v · b, less a number that is the same for all keys and means nothing to a softmax, and 1 - tanh² is 4 b (1 - b).
    """

    def __init__(
        self, steps: int, key: Tensor, value: Tensor, mask: Tensor, v: Tensor | None, scale: float, learns: bool
    ) -> None:
        """learns: whether there will be a way back, for which something is kept; without, it would take longer."""
        self.learns = learns
        self.key, self.value, self.mask, self.v, self.scale = key, value, mask, v, scale
        self.hidden = ~mask
        rows, places = mask.shape
        self.weights = key.new_empty(steps, rows, places, dtype=wide(key.dtype))
        self.context = key.new_empty(steps, rows, value.shape[2])
        self.query: Any = [None] * steps  # (R, A) each
        self.bent: Tensor | None = self.room(steps)

    def room(self, steps: int) -> Tensor | None:
        """For b of all steps, (T, R, S, A)."""
        if self.v is None:
            return None
        self.twice = 2 * self.key
        kept = self.learns and steps * self.key.numel() <= MAX_KEPT_NUMBERS
        return self.key.new_empty(steps, *self.key.shape) if kept else None

    def _bend(self, t: int) -> Tensor:
        """b, (R, S, A)"""
        out = None if self.bent is None else self.bent[t]
        return torch.add(self.twice, self.query[t][:, None], alpha=2, out=out).sigmoid_()

    def there(self, t: int, query: Tensor) -> Tensor:
        """query (R, A) -> context (R, M)"""
        self.query[t] = query
        if self.v is not None:
            scores = (self._bend(t).flatten(0, 1) @ self.v).mul_(2).view(self.hidden.shape)  # (R, S)
        else:
            scores = (self.key * query[:, None]).sum(dim=-1).mul_(self.scale)  # bmm takes far longer on a CPU
        scores = scores.to(self.weights.dtype).masked_fill_(self.hidden, torch.finfo(self.weights.dtype).min)
        torch.softmax(scores, dim=-1, out=self.weights[t])
        torch.bmm(self.weights[t][:, None].to(self.value.dtype), self.value, out=self.context[t][:, None])
        return self.context[t]

    def begin_back(self) -> None:
        """Room for what is added up on the way back."""
        self.back_context = torch.empty_like(self.context)
        if self.v is None:
            self.back_scores = torch.empty_like(self.weights)
        else:
            self.back_key = self.key.new_zeros(self.key.shape, dtype=wide(self.key.dtype))
            self.back_v = self.v.new_zeros(self.v.shape, dtype=wide(self.v.dtype))
            self.steep = 4 * self.v

    def back(self, t: int, query: Tensor) -> None:
        """Of the context, in its place in `back_context` (R, M); written is that of the query (R, A)."""
        moved = (self.value * self.back_context[t][:, None]).sum(dim=-1).to(self.weights.dtype)
        moved = torch._softmax_backward_data(moved, self.weights[t], -1, self.weights.dtype)  # (R, S)
        if self.v is None:
            torch.mul(moved, self.scale, out=self.back_scores[t])
            query.copy_(torch.bmm(self.back_scores[t][:, None].to(self.key.dtype), self.key)[:, 0])
            return
        pull = moved.to(self.key.dtype)
        bent = self._bend(t) if self.bent is None else self.bent[t]
        self.back_v += pull.flatten() @ bent.flatten(0, 1)  # here, while b is at hand
        slope = bent.addcmul_(bent, bent, value=-1)  # b (1 - b)
        torch.mul(torch.bmm(pull[:, None], slope)[:, 0], self.steep, out=query)
        self.back_key.addcmul_(slope, pull[:, :, None])

    def end_back(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """What is owed to key, value and v: sums over all steps."""
        over = self.weights.permute(1, 2, 0).to(self.value.dtype)  # (R, S, T)
        value = torch.bmm(over, self.back_context.transpose(0, 1))
        if self.v is None:
            key = torch.bmm(self.back_scores.permute(1, 2, 0).to(self.key.dtype), torch.stack(self.query, dim=1))
            return key, value, None
        # Σ ∂s tanh = 2 Σ ∂s b, since the ∂s of a softmax sum to 0
        return (self.back_key * self.steep).to(self.key.dtype), value, (2 * self.back_v).to(self.v.dtype)
