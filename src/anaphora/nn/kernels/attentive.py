"""Recurrences, among them those that look at a source at every step, with their way back written by hand.

    bidirectional_recurrence  h_t = cell(x_t + U h_{t-1}) from left to right, and another cell from right to left
    attentive_recurrence      c_t = look(h_{t-1})                      h_t = cell(x_t + C c_t + U h_{t-1})     Bahdanau
    input_feeding             h_t = cells(x_t + F a_{t-1}, h_{t-1})    a_t = tanh(W [look(h_t) ; h_t])         Luong

A plain loop pays twice for each step: once to run its small operations, once to note them down for the way back, where
each step then adds its share to the gradient of every matrix. Here nothing is noted down but what the way back needs.
There the loop carries only what one step owes to the one before it; all that is a sum over steps (the gradients of the
matrices, of the values, of product scores' keys) is one large product after the loop.

What does not wait for a state comes in ready: the words' share of the gates, W x_t + b, and the source's keys. States
are kept time first, as the loop writes them. What a step does is in attentive_steps.py and, as kernels of a GPU, in
attentive_triton.py. `models/recurrent` has the plain loops; tests compare values and gradients. Differentiable once.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from anaphora.nn.kernels import attentive_steps
from anaphora.nn.kernels.triton_support import DTYPES, INTERPRETING, TRITON

MOST_KEYS = 256
"""Source tokens up to which a step is Triton's kernels."""


def bidirectional_recurrence(x: Tensor, lengths: Tensor, weights: list[list[Tensor]]) -> Tensor:
    """One layer of two cells, of which the second begins at each row's last token and reads backwards, both from zeros:
    x (B, T, E), lengths (B,), of each cell its four weights as PyTorch has them, GRU or LSTM -> (B, T, 2H), the two
    side by side; nothing of use at padding. For a CPU: with gradients it takes less time there than PyTorch's own,
    whose way back adds to the gradient of U at every step."""
    both: Tensor = _BidirectionalRecurrence.apply(x, lengths, *weights[0], *weights[1])
    return both


def attentive_recurrence(
    x: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    begun: tuple[Tensor, ...],
    weights: list[Tensor],
    *,
    query_weight: Tensor | None,
    v: Tensor | None,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """x (B, T, E), key (B, S, A), value (B, S, M), mask (B, S) True at real tokens, begun h (B, H) and of an LSTM c;
    weights of the cell as PyTorch has them, W (gates, E + M), U, two biases. query_weight (A, H) makes queries of
    states, v (A,) is additive scores' (without it, the score is scale · q · k). -> h (B, T, H), c (B, T, M)"""
    dtype = _type(x)
    wide, recurrent, bias, state_bias = weights
    both, own = _biases(bias, state_bias, len(begun) == 2)
    # time first, as all that follows: the gradient of the gates then needs no turning round
    given = (x.transpose(0, 1).contiguous(), wide, both, key, value, recurrent, query_weight, v, own)
    with torch.autocast(x.device.type, enabled=False):
        states, contexts = _Attentive.apply(
            *(None if one is None else one.to(dtype) for one in given),
            mask,
            scale,
            torch.is_grad_enabled(),
            *(one.to(dtype) for one in begun),
        )
    return states.transpose(0, 1), contexts.transpose(0, 1)


def input_feeding(
    x: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    begun: list[tuple[Tensor, ...]],
    weights: list[list[Tensor]],
    combine: Tensor,
    *,
    dropout: float,
    query_weight: Tensor | None,
    v: Tensor | None,
    scale: float = 1.0,
) -> Tensor:
    """Layers of cells, the first of which reads [x_t ; a_{t-1}]: x (B, T, E), key, value, mask, query_weight, v and
    scale as above; of each layer its first state (B, H) and weights; combine (O, M + H); dropout between layers.
    -> a (B, T, O)"""
    dtype, words, memory = _type(x), x.shape[-1], value.shape[-1]
    lstm = len(begun[0]) == 2
    first = weights[0]
    biases = [_biases(bias, state_bias, lstm) for _, _, bias, state_bias in weights]
    shares = F.linear(x.transpose(0, 1).to(dtype), first[0][:, :words].to(dtype), biases[0][0].to(dtype))
    batch, length, hidden = len(x), x.shape[1], first[1].shape[1]
    masks = None
    if dropout and len(weights) > 1:
        masks = x.new_empty(len(weights) - 1, length, batch, hidden, dtype=dtype).bernoulli_(1 - dropout)
        masks.div_(1 - dropout)
    flat: list[Tensor | None] = []
    for number, ((wide, recurrent, _, _), (bias, own)) in enumerate(zip(weights, biases)):
        flat += [wide[:, words:] if not number else wide, recurrent, None if not number else bias, own]
    flat += [one for state in begun for one in state]
    given = (shares, key, value, combine[:, :memory], combine[:, memory:], query_weight, v)
    with torch.autocast(x.device.type, enabled=False):
        vectors: Tensor = _Feeding.apply(
            *(None if one is None else one.to(dtype) for one in given),
            mask,
            masks,
            scale,
            len(weights),
            *(None if one is None else one.to(dtype) for one in flat),
        )
    return vectors.transpose(0, 1)


def _biases(bias: Tensor, state_bias: Tensor, lstm: bool) -> tuple[Tensor, Tensor | None]:
    """What is added once and for all, and what a GRU's r closes with the rest of the state's share of n."""
    if lstm:
        return bias + state_bias, None
    size = len(bias) // 3
    return bias + F.pad(state_bias[: 2 * size], (0, size)), state_bias[2 * size :]


def _type(x: Tensor) -> torch.dtype:
    """As cuDNN's cells are run: in 16 bits where autocast asks for it, on a GPU alone."""
    if x.is_cuda and torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    return x.dtype if x.dtype == torch.float64 else torch.float32


def _by_hand(x: Tensor, key: Tensor) -> bool:
    """Whether the steps are Triton's kernels."""
    return (x.is_cuda or INTERPRETING) and TRITON and x.dtype in DTYPES and 0 < key.shape[1] <= MOST_KEYS


def _steps(x: Tensor, key: Tensor) -> Any:
    """Where cells and looks come from: attentive_triton, or attentive_steps."""
    if _by_hand(x, key):
        from anaphora.nn.kernels import attentive_triton

        return attentive_triton
    return attentive_steps


def _of_bias(pasts: Tensor, cell: Any) -> Tensor:
    """What is owed to a GRU's bias of n: pasts (T, R, … r z n) -> (H,)."""
    return pasts[:, :, -cell.size :].sum(dim=(0, 1))


def _product(grads: Tensor, given: Tensor) -> Tensor:
    """Σ over steps and rows of grad ⊗ given: (T, R, G), (T, R, H) -> (G, H)."""
    return grads.flatten(0, 1).t() @ given.flatten(0, 1)


# Nothing to look at -------------------------------------------------------------------------------------------------


class _BidirectionalRecurrence(torch.autograd.Function):
    """Two cells, one step of each at a time. The second is given the row from behind, padding first, and its state is
    kept at zero until its row begins."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor, *weights: Tensor) -> Tensor:
        (rows, steps, _), (wide, recurrent) = x.shape, (_pair(weights, place) for place in (0, 1))  # (2, gates, …)
        size = recurrent.shape[2]
        lstm = recurrent.shape[1] == 4 * size
        biases, owns = zip(*(_biases(weights[place + 2], weights[place + 3], lstm) for place in (0, 4)))
        bias, own = torch.stack(biases)[:, None], None if lstm else torch.stack(owns)[:, None]  # (2, 1, …)
        turned = _both_orders(x, x)  # (2, T, B, E)
        shares = torch.baddbmm(bias, turned.flatten(1, 2), wide.transpose(1, 2)).view(2, steps, rows, wide.shape[1])
        begun = (x.new_zeros(2, rows, size),) * (2 if lstm else 1)
        cell = (attentive_steps.Lstm if lstm else attentive_steps.Gru)(steps, begun)
        late = steps - int(lengths.min())  # steps at which some rows have not begun
        real = (torch.arange(late)[:, None] >= steps - lengths)[..., None].to(x.dtype)  # (late, B, 1)
        for t, share in enumerate(shares.unbind(1)):
            cell.there(t, share, torch.bmm(cell.h[t], recurrent.transpose(1, 2)), own)
            if t < late:
                for memory in cell.memories:
                    memory[t + 1, 1] *= real[t]
        ctx.kept = cell, turned, wide, recurrent, real, lstm
        there, back = cell.h[1:].unbind(1)  # (T, B, H)
        return torch.cat([there.transpose(0, 1), back.flip(0).transpose(0, 1)], dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError("this recurrence can be differentiated once: what the way back needs is not kept")
        cell, turned, wide, recurrent, real, lstm = ctx.kept
        ctx.kept = None
        steps, rows = turned.shape[1:3]
        grads = _both_orders(*grad.split(cell.size, dim=-1))  # (2, T, B, H)
        late = len(real)
        grads[1, :late] *= real
        gates = grad.new_empty(2, steps, rows, wide.shape[1])  # of W x + b
        pasts = gates if lstm else torch.empty_like(gates)  # of U h
        carried: Tensor | None = None
        for t in reversed(range(steps)):
            if t < late:
                for owed in (carried, cell.owed):
                    if owed is not None:
                        owed[1] *= real[t]
            below = gates[:, t]
            cell.back(t, grads[:, t], carried, below, below if lstm else pasts[:, t])
            if t:
                carried = torch.bmm(pasts[:, t], recurrent)
        flat, past = gates.flatten(1, 2), pasts.flatten(1, 2)  # (2, T B, gates)
        of_wide = torch.bmm(flat.transpose(1, 2), turned.flatten(1, 2))
        of_recurrent = torch.bmm(past.transpose(1, 2), cell.h[:-1].transpose(0, 1).flatten(1, 2))
        of_bias = flat.sum(dim=1)
        of_state_bias = of_bias.clone() if lstm else past.sum(dim=1)  # not the same memory: it is clipped in place
        there, back = torch.bmm(flat, wide).view_as(turned)
        of_x = (there + back.flip(0)).transpose(0, 1)
        ways = (one[way] for way in (0, 1) for one in (of_wide, of_recurrent, of_bias, of_state_bias))
        return of_x, None, *ways


def _pair(weights: Any, place: int) -> Tensor:
    """The same matrix of both cells, which have half of the weights each."""
    return torch.stack([weights[place], weights[place + len(weights) // 2]])


def _both_orders(there: Tensor, back: Tensor) -> Tensor:
    """(B, T, E) as it stands, and (B, T, E) from behind: (2, T, B, E)."""
    return torch.stack([there.transpose(0, 1), back.flip(1).transpose(0, 1)])


# Bahdanau -----------------------------------------------------------------------------------------------------------


class _Attentive(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # (T, B, E)
        wide: Tensor,  # (gates, E + M)
        bias: Tensor,  # (gates,)
        key: Tensor,
        value: Tensor,
        recurrent: Tensor,  # (gates, H)
        query_weight: Tensor | None,  # (A, H)
        v: Tensor | None,
        state_bias: Tensor | None,  # (H,) of a GRU's n
        mask: Tensor,
        scale: float,
        learns: bool,
        *begun: Tensor,
    ) -> tuple[Tensor, Tensor]:
        steps, made = len(x), _steps(x, key)
        words, feed = wide[:, : x.shape[2]], wide[:, x.shape[2] :].contiguous()  # (gates, E), (gates, M)
        shares = F.linear(x, words, bias)  # (T, B, gates)
        cell = (made.Lstm if len(begun) == 2 else made.Gru)(steps, begun)
        look = made.Look(steps, key, value, mask, v, scale, learns)
        # queries and gates are made of the same state: one product
        joined = recurrent if query_weight is None else torch.cat([query_weight, recurrent])
        size = 0 if query_weight is None else len(query_weight)
        for t in range(steps):
            both = cell.h[t] @ joined.t()  # (B, A + gates)
            context = look.there(t, cell.h[t] if query_weight is None else both[:, :size])
            cell.there(t, torch.addmm(shares[t], context, feed.t()), both[:, size:], state_bias)
        ctx.kept = cell, look, joined, x, words, feed, size, state_bias is not None
        return cell.h[1:], look.context[:]  # views: an output that its own graph held would outlive its last reader

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_contexts: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError("this recurrence can be differentiated once: what the way back needs is not kept")
        cell, look, joined, x, words, feed, size, biased = ctx.kept
        ctx.kept = None
        steps, rows = grad_states.shape[:2]
        gates = cell.h.new_empty(steps, rows, cell.gates * cell.size)  # of W x + b and C c
        pasts = cell.h.new_empty(steps, rows, len(joined))  # of queries and U h
        look.begin_back()
        if x.is_cuda or INTERPRETING:  # Triton's kernels know no strides of these
            grad_states, grad_contexts = grad_states.contiguous(), grad_contexts.contiguous()
        carried: Tensor | None = None
        for t in reversed(range(steps)):
            cell.back(t, grad_states[t], carried, gates[t], pasts[t, :, size:])
            torch.addmm(grad_contexts[t], gates[t], feed, out=look.back_context[t])
            query = pasts[t, :, :size] if size else torch.empty_like(cell.h[0])
            look.back(t, query)
            carried = pasts[t] @ joined if size else torch.addmm(query, pasts[t], joined)
        assert carried is not None
        of_joined = _product(pasts, cell.h[:-1])
        key, value, v = look.end_back()
        of_query, of_own = of_joined[:size] if size else None, _of_bias(pasts, cell) if biased else None
        of_wide = torch.cat([_product(gates, x), _product(gates, look.context)], dim=1)
        of_x, of_bias = gates @ words, gates.sum(dim=(0, 1))
        found = of_x, of_wide, of_bias, key, value, of_joined[size:], of_query, v, of_own
        return *found, None, None, None, *cell.begun(carried)


# Luong --------------------------------------------------------------------------------------------------------------


class _Feeding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        shares: Tensor,  # (T, B, gates), W x + b of the first layer
        key: Tensor,
        value: Tensor,
        of_context: Tensor,  # (O, M)
        of_state: Tensor,  # (O, H)
        query_weight: Tensor | None,
        v: Tensor | None,
        mask: Tensor,
        masks: Tensor | None,  # (layers - 1, T, B, H), dropout
        scale: float,
        layers: int,
        *rest: Tensor | None,  # of each layer F or W, U, its bias, a GRU's bias of U; then the first states
    ) -> Tensor:
        (steps, batch), made_of = shares.shape[:2], _steps(shares, key)
        matrices = [rest[4 * layer : 4 * layer + 4] for layer in range(layers)]
        each = (len(rest) - 4 * layers) // layers
        firsts = [rest[4 * layers + each * layer : 4 * layers + each * (layer + 1)] for layer in range(layers)]
        cells = [(made_of.Lstm if each == 2 else made_of.Gru)(steps, begun) for begun in firsts]
        look, top = made_of.Look(steps, key, value, mask, v, scale, ctx.needs_input_grad[0]), cells[-1]
        vectors = shares.new_empty(steps, batch, len(of_context))
        # all that is made of the last layer's new state: its query, its share of the vector, and of the next gates
        size, out = (0 if query_weight is None else len(query_weight)), len(of_context)
        recurrent = _given(matrices[-1][1])
        joined = torch.cat([of_state, recurrent] if query_weight is None else [query_weight, of_state, recurrent])
        gates = top.h[0] @ recurrent.t()
        for t in range(steps):
            below = shares[t] if not t else torch.addmm(shares[t], vectors[t - 1], _given(matrices[0][0]).t())
            for layer, (wide, own, bias, state_bias) in enumerate(matrices):
                if layer:
                    under = cells[layer - 1].h[t + 1]
                    below = torch.addmm(
                        _given(bias), under if masks is None else under * masks[layer - 1, t], _given(wide).t()
                    )
                state = gates if layer == layers - 1 else cells[layer].h[t] @ _given(own).t()
                cells[layer].there(t, below, state, state_bias)
            made = top.h[t + 1] @ joined.t()  # (B, A + O + gates)
            context = look.there(t, top.h[t + 1] if query_weight is None else made[:, :size])
            torch.addmm(made[:, size : size + out], context, of_context.t(), out=vectors[t]).tanh_()
            gates = made[:, size + out :]
        ctx.kept = cells, look, vectors, matrices, joined, of_context, masks, size
        return vectors[:]  # a view, as above

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_vectors: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError("this recurrence can be differentiated once: what the way back needs is not kept")
        cells, look, vectors, matrices, joined, of_context, masks, size = ctx.kept
        ctx.kept = None
        steps, batch, out = grad_vectors.shape
        layers, top = len(cells), cells[-1]
        new, width = top.h.new_empty, top.gates * top.size
        gates = [new(steps, batch, width) for _ in cells]  # of what comes from below
        pasts = [new(steps, batch, width) for _ in cells[:-1]]  # of U h
        tops = new(steps + 1, batch, len(joined))  # of all that is made of the last layer's states, h_0 first
        tops[-1, :, size + out :] = 0  # the last of them goes into no gate
        tops[0, :, : size + out] = 0  # and the first into nothing else
        look.begin_back()
        carried: list[Tensor | None] = [None for _ in cells]  # of h, from the step after
        fed: Tensor | None = None  # of the vector, from the step after
        for t in reversed(range(steps)):
            grad = grad_vectors[t] if fed is None else grad_vectors[t] + fed
            bent = torch.addcmul(grad, grad * vectors[t], vectors[t], value=-1)  # of what tanh bends
            tops[t + 1, :, size : size + out] = bent
            torch.mm(bent, of_context, out=look.back_context[t])
            query = tops[t + 1, :, :size] if size else torch.empty_like(top.h[0])
            look.back(t, query)
            grad = tops[t + 1] @ joined if size else torch.addmm(query, tops[t + 1], joined)
            for layer in reversed(range(layers)):
                last = layer == layers - 1
                past = tops[t, :, size + out :] if last else pasts[layer][t]
                cells[layer].back(t, grad, carried[layer], gates[layer][t], past)
                if not last:
                    carried[layer] = past @ matrices[layer][1]
                if layer:
                    grad = gates[layer][t] @ matrices[layer][0]
                    if masks is not None:
                        grad *= masks[layer - 1, t]
            fed = gates[0][t] @ matrices[0][0] if t else None
        carried[-1] = tops[0, :, size + out :] @ matrices[-1][1]
        made = _product(tops, top.h)  # of queries, of the state's share of the vector, of U
        back: list[Tensor | None] = []
        for layer, (cell, (_, _, bias, state_bias)) in enumerate(zip(cells, matrices)):
            if layer:
                under = cells[layer - 1].h[1:]
                back.append(_product(gates[layer], under if masks is None else under * masks[layer - 1]))
            else:
                back.append(_product(gates[0][1:], vectors[:-1]))
            last = layer == layers - 1
            back.append(made[size + out :] if last else _product(pasts[layer], cell.h[:-1]))
            back.append(None if bias is None else gates[layer].sum(dim=(0, 1)))
            past = tops[:-1, :, size + out :] if last else pasts[layer]
            back.append(None if state_bias is None else _of_bias(past, cell))
        for cell, owed in zip(cells, carried):
            back += cell.begun(owed)
        key, value, v = look.end_back()
        of_context_too = _product(tops[1:, :, size : size + out], look.context)
        of_query = made[:size] if size else None
        firsts = gates[0], key, value, of_context_too, made[size : size + out], of_query, v
        return *firsts, None, None, None, None, *back


def _given(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor
