"""What language models minimize: the next word's surprise, that of hidden words, or a wrong class.

    LanguageObjective          -log P(w_t | w_1 … w_{t-1}), and penalties on the vectors that it is read from
    MaskedObjective            -log P(w_t | all others), for the few places that are hidden
    ClassificationObjective    -log P(class | text)

A recurrent model goes on from chunk to chunk of a stream. What it carries is kept here, cut off from the gradient, in
tensors that stay where they are (a recorded CUDA graph writes into them), and is saved with every checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anaphora.data.language_batches import LanguageBatch
from anaphora.models.language.masked import hide
from anaphora.nn.kernels.cross_entropy import cross_entropy
from anaphora.nn.kernels.sense_sums import distinct
from anaphora.tokenizers.tokenizer import PAD
from anaphora.training.objectives.objective import Forward, StatelessObjective, send


@dataclass
class LanguageTensors:
    """A batch on the device that computes: what a language model reads and what it should say."""

    ids: Tensor  # (B, T), from ⟨s⟩ on or, where a stream goes on, from the last token predicted
    labels: Tensor  # (B, T), the next tokens, PAD where there is none
    documents: Tensor | None  # (B, T)
    goes_on: Tensor  # (), bool: the rows continue those of the batch before
    tokens: int  # real labels, known on the host
    rows: int  # without those that only fill the batch up
    types: Tensor | None = None  # (U,), the distinct words of the batch, where a model wants to know them
    slots: Tensor | None = None  # (B, T), which of them stands where


class LanguageObjective:
    """Cross-entropy of the next tokens, with label smoothing as for translators, and two penalties (Merity et al. 2018)
    on the encoder's last vectors, h after dropout and g before it:

        activation_penalty · Σ_t mean (h_t²)  +  temporal_penalty · Σ_t mean ((g_t - g_{t-1})²)

    carries: batches are consecutive chunks of a stream, and the model keeps a state between them.
    distinct: of how large a vocabulary the distinct words of a batch are looked for, while it is still on the host, for
    a model that computes something once for each of them (models/backpack/backpack.py).
    """

    side = "text"

    def __init__(
        self,
        smoothing: float = 0.0,
        *,
        activation_penalty: float = 0.0,
        temporal_penalty: float = 0.0,
        carries: bool = False,
        distinct: int | None = None,
    ) -> None:
        self.smoothing = smoothing
        self.activation_penalty, self.temporal_penalty = activation_penalty, temporal_penalty
        self.carries, self.distinct = carries, distinct
        self._past: dict[str, Tensor] | None = None

    def send(self, batch: LanguageBatch, device: torch.device) -> LanguageTensors:
        labels, ids = batch.labels(), np.ascontiguousarray(batch.tokens[:, :-1])
        types, slots = (None, None) if self.distinct is None else distinct(ids, self.distinct)
        return LanguageTensors(
            ids=send(ids, device),
            labels=send(labels, device),
            documents=None if batch.documents is None else send(np.ascontiguousarray(batch.documents[:, :-1]), device),
            goes_on=send(np.array(not batch.fresh), device),
            tokens=max(1, int((labels != PAD).sum())),  # a batch of nothing has a loss of nothing
            rows=batch.rows,
            types=None if types is None else send(types, device),
            slots=None if slots is None else send(slots, device),
        )

    def __call__(self, forward: Forward, batch: LanguageTensors) -> Tensor:
        model: Any = forward
        past = self._before(batch) if self.carries else None
        known = {} if batch.types is None else {"distinct": (batch.types, batch.slots)}
        # padding stands at the end of rows, where a model that reads one way cannot see it: no lengths are needed
        x, raw, after = model.encode(batch.ids, None, batch.documents, past, **known)  # (B, T, dim) twice
        if self.carries:
            self._keep(after)
        loss = cross_entropy(model.head(x), batch.labels, smoothing=self.smoothing, ignore=PAD)
        real = (batch.labels != PAD).float()  # (B, T)
        if self.activation_penalty:
            loss = loss + self.activation_penalty * (x.float().pow(2).mean(dim=-1) * real).sum()
        if self.temporal_penalty:
            steps = (raw[:, 1:] - raw[:, :-1]).float().pow(2).mean(dim=-1)  # (B, T - 1)
            within = real[:, 1:]
            if batch.documents is not None:  # from one document to the next is no step
                within = within * (batch.documents[:, 1:] == batch.documents[:, :-1])
            loss = loss + self.temporal_penalty * (steps * within).sum()
        return loss

    def flops(self, model: Any, batch: LanguageTensors) -> float:
        known = {} if batch.types is None else {"types": len(batch.types)}
        return float(model.flops(batch.tokens, batch.tokens / max(1, batch.rows), **known))

    # -- what is carried -----------------------------------------------------------------------------------------------

    def _before(self, batch: LanguageTensors) -> dict[str, Tensor] | None:
        """The state after the batch before, or that of the beginning, which is all zeros."""
        past = self._past
        if past is None or any(len(tensor) != len(batch.ids) for tensor in past.values()):
            return None
        return {name: torch.where(batch.goes_on, tensor, torch.zeros_like(tensor)) for name, tensor in past.items()}

    @torch.no_grad()
    def _keep(self, after: dict[str, Tensor]) -> None:
        past = self._past
        if past is None or any(past[name].shape != tensor.shape for name, tensor in after.items()):
            self._past = {name: tensor.detach().clone() for name, tensor in after.items()}
            return
        for name, tensor in after.items():
            past[name].copy_(tensor)

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self._past or {})

    def metrics(self) -> dict[str, float]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._past = {name: tensor.clone() for name, tensor in state.items()} or None


@dataclass
class MaskedTensors:
    """A batch of which some tokens are hidden."""

    ids: Tensor  # (B, T), ⟨s⟩ w … ⟨/s⟩
    lengths: Tensor  # (B,)
    documents: Tensor | None  # (B, T)
    places: Tensor  # (N,) of the tokens to guess, rows laid end to end; as many for every batch of a shape
    labels: Tensor  # (N,), what stood there, PAD where there is nothing to guess
    tokens: int
    read: int  # real tokens, hidden or not
    rows: int


class MaskedObjective(StatelessObjective):
    """Cross-entropy of some tokens, chosen anew for every batch, that the model sees hidden, replaced by another, or as
    they are, so that it has to think of all (Devlin et al. 2019). Marks are never asked for."""

    side = "text"

    def __init__(self, mask: int, vocabulary: int, share: float = 0.15, smoothing: float = 0.0) -> None:
        self.mask, self.vocabulary, self.share, self.smoothing = mask, vocabulary, share, smoothing

    def send(self, batch: LanguageBatch, device: torch.device) -> MaskedTensors:
        tokens = torch.from_numpy(batch.tokens)
        seen, places, labels = hide(tokens, self.mask, self.vocabulary, self.share)
        return MaskedTensors(
            ids=send(seen, device),
            lengths=send(batch.lengths, device),
            documents=None if batch.documents is None else send(batch.documents, device),
            places=send(places, device),
            labels=send(labels, device),
            tokens=max(1, int((labels != PAD).sum())),
            read=int(batch.lengths[: batch.rows].sum()),
            rows=batch.rows,
        )

    def __call__(self, forward: Forward, batch: MaskedTensors) -> Tensor:
        model: Any = forward
        x = model.encode(batch.ids, batch.lengths, batch.documents)  # (B, T, dim)
        logits = model.head(x.flatten(0, 1)[batch.places])  # (N, V)
        return cross_entropy(logits[None], batch.labels[None], smoothing=self.smoothing, ignore=PAD)

    def flops(self, model: Any, batch: MaskedTensors) -> float:
        return float(model.flops(batch.read, batch.read / max(1, batch.rows), len(batch.places)))


@dataclass
class ClassTensors:
    """Texts and what kind of text each is."""

    ids: Tensor  # (B, T), ⟨s⟩ w … ⟨/s⟩
    lengths: Tensor  # (B,)
    classes: Tensor  # (B,), -1 for rows that only fill the batch up
    tokens: int  # texts: the loss is a mean over them
    read: int


class ClassificationObjective(StatelessObjective):
    """Cross-entropy of the class of each text."""

    side = "text"

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def send(self, batch: LanguageBatch, device: torch.device) -> ClassTensors:
        assert batch.classes is not None
        classes = batch.classes.copy()
        classes[batch.rows :] = -1
        return ClassTensors(
            ids=send(batch.tokens, device),
            lengths=send(batch.lengths, device),
            classes=send(classes, device),
            tokens=batch.rows,
            read=int(batch.lengths[: batch.rows].sum()),
        )

    def __call__(self, forward: Forward, batch: ClassTensors) -> Tensor:
        logits = forward(batch.ids, batch.lengths)  # (B, classes)
        return torch.nn.functional.cross_entropy(
            logits.float(), batch.classes, ignore_index=-1, label_smoothing=self.smoothing, reduction="sum"
        )

    def flops(self, model: Any, batch: ClassTensors) -> float:
        return float(model.flops(batch.read, batch.read / max(1, batch.tokens)))
