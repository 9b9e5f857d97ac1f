"""What a Backpack computes beside its contextualizer, fast: senses once for each distinct word, and their weighted sum
as one matrix product.

    distinct (ids) -> types, slots        which words there are, and which of them stands at each place
    mix (query, key, senses, slots)       o_i = Σ_j Σ_ℓ α_ℓij C(x_j)_ℓ
    segment_sum (values, slots)           the gradient of senses: what all places of a word say, added up

Places and senses are one axis of the sum: (T × k·T) times (k·T × dim), and the (T, k, dim) numbers of the sum before it
is taken are never there. Queries come in blocks, each of which sees the places up to its own end alone, so that most of
what a causal mask would hide is not computed; rows come a few at a time, so that weights, (rows, block, k, T) numbers,
are never all there either. The backward pass computes them again instead of keeping them.

The gradient of a word's senses is a sum over its places in an order that the batch alone decides: no two runs differ.
Nothing here asks the host for anything, so all of it can be recorded in a CUDA graph. A fused kernel would take the
place of `_Mix`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK_QUERIES = 256
"""Queries of a row at once; on a CPU a quarter of it: smaller blocks compute less in vain, larger ones fill a GPU."""
MAX_WEIGHTS = 1 << 27
"""Weights, rows × block × senses × places, at once: a quarter of a gigabyte in bfloat16."""
PIECE_POSITIONS = 64
"""Places of a word that are added up in one go: a frequent word has thousands, and one by one they would take long."""
STEPS = 8
"""Sizes between one power of two and the next that a number of distinct words is rounded up to."""


def distinct(ids: NDArray[Any], vocabulary: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct words of a batch on the host: ids of any shape -> types (U,), ascending, and slots, of the shape of
    ids, with types[slots] == ids. U is rounded up, so that batches come in few shapes; the types that fill it up are 0
    and no slot has them."""
    there = np.zeros(vocabulary, bool)
    there[ids] = True
    types = np.flatnonzero(there)
    place = np.zeros(vocabulary, np.int64)
    place[types] = np.arange(len(types))
    filled = np.zeros(min(rounded(len(types)), max(ids.size, 1)), np.int64)
    filled[: len(types)] = types
    return filled, place[ids]


def rounded(number: int) -> int:
    """Up to the next of eight sizes between two powers of two: at most an eighth more."""
    step = max(1, 1 << max(0, (max(number, 1) - 1).bit_length() - STEPS.bit_length()))
    return -(-number // step) * step


def distinct_of(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The same of ids that are on a device already; the host waits for it."""
    types, slots = torch.unique(ids, return_inverse=True)
    return types, slots


def mix(
    query: Tensor,
    key: Tensor,
    senses: Tensor,
    slots: Tensor,
    documents: Tensor | None = None,
    window: int | None = None,
) -> Tensor:
    """query and key (B, T, k, D), senses of the distinct words (U, k, dim), slots (B, T) -> (B, T, dim).

    documents (B, T): numbers; places of one see nothing of another. window: a place takes senses of so many places, its
    own among them; nothing: of all up to its own.
    """
    return _Mix.apply(query, key, senses, slots, documents, window)


class _Mix(torch.autograd.Function):
    """Weights are made block by block, in both directions; kept are queries, keys and the senses of distinct words."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        senses: Tensor,
        slots: Tensor,
        documents: Tensor | None,
        window: int | None = None,
    ) -> Tensor:
        with torch.autocast(query.device.type, enabled=False):
            query = _by_sense(query) / math.sqrt(query.shape[-1])  # (B, k, T, D)
            key = _by_sense(key).to(query.dtype)
            senses = senses.to(query.dtype)
            batch, length = slots.shape
            out = query.new_empty(batch, length, senses.shape[-1])
            for rows, begin, end in _blocks(query):
                weights = _weights(query[rows], key[rows], begin, end, documents, rows, window)  # (b, m, k, end)
                values = _values(senses, slots[rows, :end])  # (b, k · end, dim)
                torch.bmm(weights.flatten(2), values, out=out[rows, begin:end])
        ctx.save_for_backward(query, key, senses, slots, *([] if documents is None else [documents]))
        ctx.window = window
        return out

    @staticmethod
    @once_differentiable  # what is kept knows nothing of its own making
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, senses, slots, *rest = ctx.saved_tensors
        documents = rest[0] if rest else None
        batch, length = slots.shape
        grad = grad.to(query.dtype)
        with torch.autocast(query.device.type, enabled=False):
            to_query, to_key = torch.empty_like(query), torch.empty_like(key)
            places = senses.new_empty(batch, length, *senses.shape[1:])  # (B, T, k, dim): the gradient of each place
            for rows, begin, end in reversed(_blocks(query)):  # the last block sees all places: it writes, others add
                weights = _weights(query[rows], key[rows], begin, end, documents, rows, ctx.window)  # (b, m, k, end)
                said = grad[rows, begin:end]  # (b, m, dim)
                values = _values(senses, slots[rows, :end])
                asked = torch.bmm(said, values.transpose(1, 2)).unflatten(2, (-1, end))  # (b, m, k, end)
                del values
                scores = torch._softmax_backward_data(asked, weights, -1, weights.dtype)
                spread = (to_query[rows, :, begin:end], to_key[rows, :, :end], places[rows, :end])
                give_back = _spread_by_sense if sense_by_sense(query.device) else _spread
                give_back(weights, scores, said, query[rows, :, begin:end], key[rows, :, :end], spread, end == length)
            to_senses = segment_sum(places.view(batch * length, -1), slots.flatten(), len(senses)).view_as(senses)
        to_query = to_query / math.sqrt(query.shape[-1])
        return to_query.transpose(1, 2), to_key.transpose(1, 2), to_senses, None, None, None


def sense_by_sense(device: torch.device) -> bool:
    """Whether products are taken for one sense after the other, each written to where it belongs. A GPU is so spared
    copies of all weights; a CPU prefers few large products, and copies are cheap beside them."""
    return device.type == "cuda"


Gradients = tuple[Tensor, Tensor, Tensor]
"""Of the block's queries (b, k, m, D), of the keys that it sees (b, k, end, D), of their senses (b, end, k, dim)."""


def _spread_by_sense(
    weights: Tensor, scores: Tensor, said: Tensor, query: Tensor, key: Tensor, to: Gradients, first: bool
) -> None:
    """What a block gives back: weights and the gradient of scores (b, m, k, end), said (b, m, dim). first: nothing
    stands there yet, so it is written, not added."""
    to_query, to_key, places = to
    kept = 0 if first else 1
    for sense in range(weights.shape[2]):
        alpha, score = weights[:, :, sense].transpose(1, 2), scores[:, :, sense]  # (b, end, m), (b, m, end)
        places[:, :, sense].baddbmm_(alpha, said, beta=kept)
        to_key[:, sense].baddbmm_(score.transpose(1, 2), query[:, sense], beta=kept)
        torch.bmm(score, key[:, sense], out=to_query[:, sense])


def _spread(
    weights: Tensor, scores: Tensor, said: Tensor, query: Tensor, key: Tensor, to: Gradients, first: bool
) -> None:
    """The same in three products."""
    to_query, to_key, places = to
    each = torch.bmm(weights.flatten(2).transpose(1, 2), said).unflatten(1, (query.shape[1], -1))  # (b, k, end, dim)
    score = scores.transpose(1, 2)  # (b, k, m, end)
    keys = score.transpose(2, 3) @ query
    to_query.copy_(score @ key)
    if first:
        places.copy_(each.transpose(1, 2))
        to_key.copy_(keys)
    else:
        places.add_(each.transpose(1, 2))
        to_key.add_(keys)


def _by_sense(x: Tensor) -> Tensor:
    """(B, T, k, D) -> (B, k, T, D), contiguous"""
    return x.transpose(1, 2).contiguous()


def _blocks(query: Tensor) -> list[tuple[slice, int, int]]:
    """Which rows, and which places of them, are done at once: (rows, begin, end)."""
    batch, senses, length, _ = query.shape
    found, size = [], BLOCK_QUERIES if query.device.type == "cuda" else BLOCK_QUERIES // 4
    for begin in range(0, length, size):
        end = min(begin + size, length)
        several = max(1, MAX_WEIGHTS // ((end - begin) * end * senses))
        found += [(slice(first, first + several), begin, end) for first in range(0, batch, several)]
    return found


def _weights(
    query: Tensor,
    key: Tensor,
    begin: int,
    end: int,
    documents: Tensor | None = None,
    rows: slice | None = None,
    window: int | None = None,
) -> Tensor:
    """α of the places begin … end - 1, over all places before end: (b, m, k, end). Senses stand beside places, so that
    both together are the one axis of the sum: every sense's product is written to where it belongs."""
    batch, senses = query.shape[:2]
    if sense_by_sense(query.device):
        scores = query.new_empty(batch, end - begin, senses, end)
        for sense in range(senses):
            torch.bmm(query[:, sense, begin:end], key[:, sense, :end].transpose(1, 2), out=scores[:, :, sense])
    else:
        scores = (query[:, :, begin:end] @ key[:, :, :end].transpose(2, 3)).transpose(1, 2).contiguous()
    at = torch.arange(end, device=query.device)
    if documents is None:  # all that is hidden stands in the block's own square
        later = at[None, begin:] > at[begin:, None]  # (m, m)
        scores[..., begin:].masked_fill_(later[None, :, None], float("-inf"))
    else:
        numbers = documents[rows, :end]
        hidden = (at > at[begin:, None]) | (numbers[:, None] != numbers[:, begin:, None])  # (b, m, end)
        scores.masked_fill_(hidden[:, :, None], float("-inf"))
    if window is not None:
        far = at <= at[begin:, None] - window  # (m, end)
        scores.masked_fill_(far[None, :, None], float("-inf"))
    return scores.softmax(dim=-1)


def _values(senses: Tensor, slots: Tensor) -> Tensor:
    """Senses of places, one sense of all places after the other: (U, k, dim), slots (b, n) -> (b, k · n, dim)."""
    number = senses.shape[1]
    where = slots[:, None] * number + torch.arange(number, device=slots.device)[:, None]  # (b, k, n)
    return senses.view(-1, senses.shape[-1]).index_select(0, where.flatten()).view(len(slots), -1, senses.shape[-1])


def segment_sum(values: Tensor, slots: Tensor, number: int) -> Tensor:
    """values (N, F), slots (N,) below `number` -> (number, F): the sum of those with each slot, zeros where there are
    none. Places are sorted, so that each slot's stand together, and added up in pieces, then the pieces: always in the
    same order, without waiting for the host."""
    count = len(slots)
    if not count:
        return values.new_zeros(number, values.shape[1])
    ordered, order = slots.sort(stable=True)
    starts = torch.searchsorted(ordered, torch.arange(number, device=slots.device))  # (number,): a slot's first place
    begins = (torch.arange(count, device=slots.device) - starts[ordered]) % PIECE_POSITIONS == 0  # a piece begins here
    before = F.pad(begins.cumsum(0), (1, 0))  # (N + 1,): pieces that begin before each place
    room = min(number, count) + count // PIECE_POSITIONS  # pieces, at the most
    piece = torch.where(begins, before[:-1], room)
    offsets = torch.full((room + 1,), count, device=slots.device).scatter_(
        0, piece, torch.arange(count, device=slots.device)
    )
    pieces = F.embedding_bag(order, values, offsets[:room], mode="sum")  # (room, F)
    return F.embedding_bag(torch.arange(room, device=slots.device), pieces, before[starts], mode="sum")
