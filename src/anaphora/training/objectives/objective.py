"""What a run minimizes: an objective sends a batch to the device and gives its loss; the loop adds nothing to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from anaphora.data.batches import Batch
from anaphora.models.contracts import Translator
from anaphora.nn.kernels.cross_entropy import cross_entropy
from anaphora.tokenizers.tokenizer import PAD


@dataclass
class TranslationBatch:
    """A batch on the device that computes: what a translator reads and what it should say."""

    source: Tensor  # (B, S), each row ending in EOS
    source_lengths: Tensor  # (B,)
    target: Tensor  # (B, T), BOS … without the last token: what the decoder is given
    labels: Tensor  # (B, T), … EOS without the first token: what it should say, PAD where nothing
    tokens: int  # real labels, known on the host
    source_tokens: int
    rows: int  # without those that only fill the batch up

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> TranslationBatch:
        target = batch.tokens["target"]
        return cls(
            source=send(batch.tokens["source"], device),
            source_lengths=send(batch.lengths["source"], device),
            target=send(target[:, :-1].copy(), device),
            labels=send(target[:, 1:].copy(), device),
            tokens=int((batch.lengths["target"] - 1).sum()),
            source_tokens=int(batch.lengths["source"][: len(batch)].sum()),
            rows=len(batch),
        )


Forward = Callable[..., Tensor]
"""A model's forward pass, compiled or not: for a translator (source, target, source_lengths) -> logits (B, T, V)."""


class Objective(Protocol):
    """All that the loop knows of what a system learns."""

    side: str
    """The side of the corpus whose tokens are learned and counted."""

    def send(self, batch: Any, device: torch.device) -> Any:
        """The batch on the device; its `tokens` are those that the loss is a sum over."""
        ...

    def __call__(self, forward: Forward, batch: Any) -> Tensor:
        """The loss, summed over the batch's tokens."""
        ...

    def flops(self, model: Any, batch: Any) -> float:
        """Floating-point operations of one forward pass over the batch."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """What the next batch needs of those before it; it is saved in checkpoints."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from there; from nothing, as at the beginning."""
        ...

    def metrics(self) -> dict[str, Any]:
        """What else the log should know of the batches since this was last asked."""
        ...


class StatelessObjective:
    """Of an objective whose batches have nothing to do with each other."""

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        pass

    def metrics(self) -> dict[str, Any]:
        return {}


def send(array: object, device: torch.device) -> Tensor:
    """An array, without waiting until it is there."""
    tensor = torch.as_tensor(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class TranslationObjective(StatelessObjective):
    """Cross-entropy of the target's tokens, summed over a batch:

        (1 - ε) · -log P(label) + ε · mean over the vocabulary of -log P

    Label smoothing (ε > 0) keeps the model from growing ever more certain; validation is measured without it.

    With `consistency` α > 0 every sentence is read twice, under two draws of dropout, and the two predictions P and Q
    are pulled together (R-Drop, Liang et al. 2021): small corpora are learned by heart more slowly, and a model that is
    asked without dropout is closer to the one that was trained. The loss is half the published one, and α the paper's:

        ½ · (CE(P) + CE(Q)) + α/4 · (KL(P‖Q) + KL(Q‖P))
    """

    side = "target"

    def __init__(self, smoothing: float = 0.0, consistency: float = 0.0) -> None:
        self.smoothing = smoothing
        self.consistency = consistency

    def send(self, batch: Batch, device: torch.device) -> TranslationBatch:
        return TranslationBatch.of(batch, device)

    def __call__(self, forward: Forward, batch: TranslationBatch) -> Tensor:
        given: tuple[Tensor, ...] = (batch.source, batch.target, batch.source_lengths)
        if self.consistency:
            given = tuple(torch.cat([x, x]) for x in given)  # one pass over 2B rows
        logits = forward(*given)  # (B, T, V) or (2B, T, V)
        return cross_entropy(logits, batch.labels, smoothing=self.smoothing, consistency=self.consistency, ignore=PAD)

    def flops(self, model: Translator, batch: TranslationBatch) -> float:
        lengths = batch.source_tokens / batch.rows, batch.tokens / batch.rows
        once = model.flops(batch.source_tokens, batch.tokens, *lengths)
        return 2 * once if self.consistency else once
