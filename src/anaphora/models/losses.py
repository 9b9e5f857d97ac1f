"""`model.loss(batch)`: what a model is trained by, one number, for a loop of one's own.

    a translator          (source, target), target from ⟨s⟩ to ⟨/s⟩        -log P(next token)
    a language model      ids from ⟨s⟩ on, or (ids, labels)                -log P(next token)
    a masked one          ids, of which it hides 15 %, or (ids, labels)    -log P(hidden token)
    a classifier          (ids, classes)                                   -log P(class)

Ids are padded with 0, and so are labels where nothing is to be said. A batch may be a tuple, a dictionary with those
names, or, where there is one tensor, that. The loss is the mean over all that is predicted; where the model has
experts, it holds what keeps them all in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from anaphora.errors import shown
from anaphora.nn.kernels.cross_entropy import cross_entropy
from anaphora.nn.mixture_of_experts import mixtures
from anaphora.tokenizers.tokenizer import PAD


def tensors_of(batch: Any, *names: str, optional: str | None = None) -> tuple[Tensor, ...]:
    """The tensors of a batch, in the order of their names; the last is left out where the batch has no `optional`."""
    found: Any
    if isinstance(batch, Tensor):
        found = (batch,)
    elif isinstance(batch, Mapping):
        found = tuple(batch[name] for name in (*names, optional) if name in batch)
    elif isinstance(batch, Sequence):
        found = tuple(batch)
    else:
        found = ()
    right = len(names) <= len(found) <= len(names) + (optional is not None)
    if not right or not all(isinstance(tensor, Tensor) for tensor in found):
        wanted = f"({', '.join(names)})" if len(names) > 1 else names[0]
        more = f" or ({', '.join((*names, optional))})" if optional else ""
        raise ValueError(f"a batch is {wanted}{more}, tensors all of them; it is {shown.repr(batch)}")
    return found


def mean_cross_entropy(model: nn.Module, logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """logits (B, T, V), labels (B, T), PAD where there are none -> (): the mean over labels, and what experts need."""
    if logits.shape[:2] != labels.shape:
        raise ValueError(f"labels must be {tuple(logits.shape[:2])}, as the logits; they are {tuple(labels.shape)}")
    total = cross_entropy(logits, labels, smoothing=smoothing, ignore=PAD)
    return with_balance(model, total / (labels != PAD).sum().clamp(min=1))


def with_balance(model: nn.Module, loss: Tensor) -> Tensor:
    """The loss, and what keeps the experts of the latest pass in use, where the model has any."""
    layers = mixtures(model)
    told = [layer.imbalance for layer in layers if layer.imbalance is not None]
    for layer in layers:
        layer.imbalance = None  # it holds the whole graph
    return loss + torch.stack(told).sum() if told else loss


def lengths_by_padding(ids: Tensor) -> Tensor:
    """Where each row's padding begins: ids (B, T) -> (B,)."""
    if not ids.shape[1]:
        return ids.new_zeros(len(ids))
    places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    return torch.where(ids != PAD, places, 0).amax(dim=1)
