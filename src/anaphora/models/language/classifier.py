"""Classifiers: P(class | text), any encoder with a head that chooses.

    ⟨s⟩ w₁ … w_T ⟨/s⟩ → embedding → encoder → mean (or maximum, first, last) → W x + b → softmax

The encoder may be any of the ladder. Those that read one way give their last place the whole text (`pool: last`); with
`bidirectional` they read from both sides, as the Transformer encoder always does. Embedding and encoder have the names
that they have in a language model, so a classifier can begin with what one has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anaphora.models.keywords import by_encoder, by_keywords
from anaphora.models.language.language_settings import LanguageConfig, Pool
from anaphora.models.language.reader import Reader
from anaphora.models.losses import lengths_by_padding, tensors_of, with_balance
from anaphora.nn.encoders import ClassificationHead


def classifier_keywords(
    *,
    vocabulary: int,
    labels: Sequence[str],
    encoder: str = "transformer",
    dim: int = 256,
    layers: int | None = None,
    heads: int | None = None,
    dropout: float | None = None,
    pool: Pool = "mean",
    **settings: Any,
) -> None:
    """What `TextClassifier(…)` takes: the names of the classes, an encoder by its name, and the settings of a model
    with that encoder; what is left out, or None, is as that has it."""


class TextClassifier(Reader):
    """Embedding, encoder, ClassificationHead over `config.labels`.

    model = TextClassifier(encoder="lstm", labels=["good", "bad"], vocabulary=8_000, dim=256)
    logits = model(ids)  # (B, T) from ⟨s⟩ to ⟨/s⟩ -> (B, 2)
    loss = model.loss((ids, classes))
    """

    noun = "a classifier"
    explains = False

    @by_keywords(classifier_keywords, by_encoder)
    def __init__(self, config: LanguageConfig, vocabulary: int) -> None:
        # the row of ⟨mask⟩ stays in the table, though nothing is hidden here: the weights of a masked model fit
        super().__init__(config, vocabulary)
        attends = {"attends"} if self.encoder.attends else set()
        self.capabilities = frozenset({"classifies", "normalised", "batch-invariant", *attends})
        self.labels = tuple(config.labels)
        if len(self.labels) < 2:
            raise ValueError("a classifier chooses between two labels or more; name them in labels")
        self.head = ClassificationHead(
            config.dim, len(self.labels), pool=config.pool, dropout=config.output_dropout or config.dropout
        )

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T) from ⟨s⟩ to ⟨/s⟩, lengths (B,), all but padding unless given -> logits (B, classes)"""
        lengths = lengths_by_padding(ids) if lengths is None else lengths
        return self.head(self.encode(ids, lengths), lengths)

    def answer(self, ids: Tensor) -> Tensor:
        """One row of classes for the whole text: ids (B, T) -> (B, 1, classes)."""
        return self(ids, torch.full((len(ids),), ids.shape[1], device=ids.device))[:, None]

    def answers(self) -> Tensor:
        return torch.arange(len(self.labels))

    def loss(self, batch: Any, *, label_smoothing: float = 0.0) -> Tensor:
        """The mean of -log P(class) over a batch (ids, classes): (B, T) padded with 0, and numbers of labels (B,)."""
        ids, classes = tensors_of(batch, "ids", "classes")
        return with_balance(self, F.cross_entropy(self(ids).float(), classes, label_smoothing=label_smoothing))

    def encode(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) -> (B, T, dim)"""
        return self.contextual(ids, lengths)

    @torch.no_grad()
    def classify(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """log P of every class: (B, T) -> (B, classes)."""
        self.check_length(ids.shape[1])
        return F.log_softmax(self(ids, lengths).float(), dim=-1)

    def flops(self, tokens: int, length: float) -> float:
        """Floating-point operations of one forward pass over that many tokens in rows of that mean length."""
        choice = 2.0 * self.head.linear.weight.numel() / max(length, 1.0)  # once a row
        return tokens * (self.reading_flops(length) + choice)
