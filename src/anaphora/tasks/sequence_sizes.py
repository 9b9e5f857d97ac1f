"""Starting points for learning from whole translations, by how many pairs there are."""

from __future__ import annotations

from typing import Any

from anaphora.models.translation.translator_settings import SMALL_CORPUS_PAIRS


def whole_translations(pairs: int, optimizer: str) -> dict[str, Any]:
    """Settings of training for a model that learns from its own translations (docs/lab-notes.md, "reinforcement").

    Nearly all of such a gradient is noise. So batches are large, and plain descent with momentum goes where their mean
    points; Adam, which divides each number by the size of its noise, mostly wanders. The rate falls to zero, as that of
    the model it starts from did, and a few hundred updates are enough.
    """
    settings: dict[str, Any] = {"schedule": "cosine", "consistency": 0.0, "bidirectional_epochs": 0}
    settings |= {"max_steps": 240, "checkpoint_every": 20}
    if pairs < SMALL_CORPUS_PAIRS:
        settings |= {"learning_rate": 0.2, "warmup_steps": 10, "batch_tokens": 2048}
    else:
        settings |= {"learning_rate": 0.6, "warmup_steps": 10, "batch_tokens": 8192, "accumulate": 2}
    if optimizer in ("sgd", "asgd"):
        return {**settings, "optimizer": optimizer, "momentum": 0.9}
    return {**settings, "learning_rate": 3e-5}
