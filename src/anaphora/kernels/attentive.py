"""Recurrences, among them those that look at a source at every step, with their way back written by hand.

    recurrence             h_t = cell(x_t + U h_{t-1})
    attentive_recurrence   c_t = look(h_{t-1})                      h_t = cell(x_t + C c_t + U h_{t-1})     Bahdanau
    input_feeding          h_t = cells(x_t + F a_{t-1}, h_{t-1})    a_t = tanh(W [look(h_t) ; h_t])         Luong

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

from anaphora.kernels import attentive_steps
from anaphora.kernels.additive import DTYPES, INTERPRETING, TRITON

MOST_KEYS = 256
"""Source tokens up to which a step is Triton's kernels."""


def recurrence(x: Tensor, begun: tuple[Tensor, ...], weights: list[Tensor]) -> Tensor:
    """One layer from left to right: x (B, T, E), begun h (B, H) and of an LSTM c, weights as PyTorch has them -> h
    (B, T, H). On a CPU, and with gradients, it takes less time than PyTorch's own, whose way back adds to the gradient
    of U at every step."""
    wide, recurrent, bias, state_bias = weights
    lstm = len(begun) == 2
    both, own = _biases(bias, state_bias, lstm)
    states: Tensor = _Plain.apply(F.linear(x, wide, both).transpose(0, 1), recurrent, own, *begun)
    return states.transpose(0, 1)


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
    lstm = len(begun) == 2
    words = x.shape[-1]
    both, own = _biases(bias, state_bias, lstm)
    shares = F.linear(x.to(dtype), wide[:, :words].to(dtype), both.to(dtype))
    given = (shares.transpose(0, 1), key, value, wide[:, words:], recurrent, query_weight, v)
    with torch.autocast(x.device.type, enabled=False):
        states, contexts = _Attentive.apply(
            *(None if one is None else one.to(dtype) for one in given),
            None if own is None else own.to(dtype),
            mask,
            scale,
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
    shares = F.linear(x.to(dtype), first[0][:, :words].to(dtype), biases[0][0].to(dtype))
    batch, length, hidden = len(x), x.shape[1], first[1].shape[1]
    masks = None
    if dropout and len(weights) > 1:
        masks = x.new_empty(len(weights) - 1, length, batch, hidden, dtype=dtype).bernoulli_(1 - dropout)
        masks.div_(1 - dropout)
    flat: list[Tensor | None] = []
    for number, ((wide, recurrent, _, _), (bias, own)) in enumerate(zip(weights, biases)):
        flat += [wide[:, words:] if not number else wide, recurrent, None if not number else bias, own]
    flat += [one for state in begun for one in state]
    given = (shares.transpose(0, 1), key, value, combine[:, :memory], combine[:, memory:], query_weight, v)
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
        from anaphora.kernels import attentive_triton

        return attentive_triton
    return attentive_steps


def _of_bias(pasts: Tensor, cell: Any) -> Tensor:
    """What is owed to a GRU's bias of n: pasts (T, R, … r z n) -> (H,)."""
    return pasts[:, :, -cell.size :].sum(dim=(0, 1))


def _product(grads: Tensor, given: Tensor) -> Tensor:
    """Σ over steps and rows of grad ⊗ given: (T, R, G), (T, R, H) -> (G, H)."""
    return grads.flatten(0, 1).t() @ given.flatten(0, 1)


# Nothing to look at -------------------------------------------------------------------------------------------------


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shares: Tensor, recurrent: Tensor, state_bias: Tensor | None, *begun: Tensor) -> Tensor:
        """shares (T, B, gates), W x + b; recurrent (gates, H); state_bias of a GRU -> h (T, B, H)."""
        steps = len(shares)
        cell = (attentive_steps.Lstm if len(begun) == 2 else attentive_steps.Gru)(steps, begun)
        for t in range(steps):
            cell.there(t, shares[t], cell.h[t] @ recurrent.t(), state_bias)
        ctx.kept = cell, recurrent, state_bias is not None
        return cell.h[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError("this recurrence can be differentiated once: what the way back needs is not kept")
        cell, recurrent, biased = ctx.kept
        ctx.kept = None
        gates = cell.h.new_empty(*grad_states.shape[:2], len(recurrent))  # of W x + b
        pasts = torch.empty_like(gates) if biased else gates  # of U h, which in an LSTM are the same
        carried: Tensor | None = None
        for t in reversed(range(len(gates))):
            below = gates[t]
            cell.back(t, grad_states[t], carried, below, pasts[t] if biased else below)
            carried = pasts[t] @ recurrent
        assert carried is not None
        bias = _of_bias(pasts, cell) if biased else None
        return gates, _product(pasts, cell.h[:-1]), bias, *cell.begun(carried)


# Bahdanau -----------------------------------------------------------------------------------------------------------


class _Attentive(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        shares: Tensor,  # (T, B, gates), W x + b
        key: Tensor,
        value: Tensor,
        feed: Tensor,  # (gates, M)
        recurrent: Tensor,  # (gates, H)
        query_weight: Tensor | None,  # (A, H)
        v: Tensor | None,
        state_bias: Tensor | None,  # (H,) of a GRU's n
        mask: Tensor,
        scale: float,
        *begun: Tensor,
    ) -> tuple[Tensor, Tensor]:
        steps, made = len(shares), _steps(shares, key)
        cell = (made.Lstm if len(begun) == 2 else made.Gru)(steps, begun)
        look = made.Look(steps, key, value, mask, v, scale, ctx.needs_input_grad[0])
        # queries and gates are made of the same state: one product
        joined = recurrent if query_weight is None else torch.cat([query_weight, recurrent])
        size = 0 if query_weight is None else len(query_weight)
        for t in range(steps):
            both = cell.h[t] @ joined.t()  # (B, A + gates)
            context = look.there(t, cell.h[t] if query_weight is None else both[:, :size])
            cell.there(t, torch.addmm(shares[t], context, feed.t()), both[:, size:], state_bias)
        ctx.kept = cell, look, joined, feed, size, state_bias is not None
        return cell.h[1:], look.context[:]  # views: an output that its own graph held would outlive its last reader

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_contexts: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError("this recurrence can be differentiated once: what the way back needs is not kept")
        cell, look, joined, feed, size, biased = ctx.kept
        ctx.kept = None
        steps, rows = grad_states.shape[:2]
        gates = cell.h.new_empty(steps, rows, cell.gates * cell.size)  # of W x + b and C c
        pasts = cell.h.new_empty(steps, rows, len(joined))  # of queries and U h
        look.begin_back()
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
        of_query, bias = of_joined[:size] if size else None, _of_bias(pasts, cell) if biased else None
        shares = gates, key, value, _product(gates, look.context), of_joined[size:], of_query, v, bias
        return *shares, None, None, *cell.begun(carried)


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
