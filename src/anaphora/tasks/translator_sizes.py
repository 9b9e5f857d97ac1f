"""Starting points for recurrent and convolutional translators, by kind and by how many pairs there are, and for
learning from whole translations.

What carries a state from word to word learns at half the rate of a Transformer, wants no deep stacks where there is
little text, and is held back by dropout as much as any. Deep-Att and GNMT are deep by their nature: of a small corpus
they get fewer and narrower layers, in the published proportions. ConvS2S gets what its authors gave a small corpus
(four layers that read, three that speak); ByteNet, which has letters to read, many narrow blocks: three sets of five
let a place know of 93 letters on each side.
"""

from __future__ import annotations

from typing import Any

SMALL, MEDIUM, LARGE = 15_000, 80_000, 1_000_000
"""Pairs: below the first a very small model; then those for about 30 k, for about 150 k, and the largest."""


def recurrent_sizes(kind: str, pairs: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(model, training): dimensions, dropout, rate, batch."""
    deep = kind in ("deep-att", "gnmt", "moe")
    training: dict[str, Any] = {"clip_norm": 1.0, "schedule": "cosine", "metric": "bleu"}
    if pairs < SMALL:
        model = {"dim": 128 if deep else 192, "dropout": 0.3}
        training |= {"learning_rate": 2e-3, "warmup_steps": 300, "batch_tokens": 2048}
    elif pairs < MEDIUM:
        model = {"dim": 256 if kind in ("deep-att", "moe") else 384, "dropout": 0.4}
        training |= {"learning_rate": 2e-3, "warmup_steps": 500, "batch_tokens": 4096}
    elif pairs < LARGE:
        model = {"dim": 384 if deep else 512, "dropout": 0.3}
        training |= {"learning_rate": 1e-3, "warmup_steps": 1000, "batch_tokens": 6144}
    else:
        model = {"dim": 1024, "dropout": 0.2}
        training |= {"learning_rate": 5e-4, "warmup_steps": 2000, "batch_tokens": 12_500, "metric": "loss"}
    size = sum(pairs >= border for border in (SMALL, MEDIUM, LARGE))
    model |= _depth(kind, size)
    return model, training


BYTES_A_PAIR = 80
"""Bytes of the longer side, about, where a subword side has 20 tokens."""


def convolutional_sizes(kind: str, pairs: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(model, training): dimensions, dropout, rate, batch (ByteNet's in bytes)."""
    size = sum(pairs >= border for border in (SMALL, MEDIUM, LARGE))
    training: dict[str, Any] = {
        "clip_norm": 1.0,
        "schedule": "cosine",
        "metric": "bleu" if size < 3 else "loss",
        "learning_rate": (1e-3, 1e-3, 1e-3, 5e-4)[size],
        "warmup_steps": (300, 500, 1000, 2000)[size],
    }
    model: dict[str, Any]
    if kind == "bytenet":
        model = {"dim": (256, 512, 640, 1024)[size], "layers": (10, 15, 15, 20)[size]}
        model["dropout"] = (0.2, 0.2, 0.1, 0.0)[size]
        return model, {**training, "batch_tokens": (8192, 16_384, 24_576, 32_768)[size]}
    model = {"dim": (192, 256, 384, 512)[size], "layers": (3, 4, 6, 12)[size]}
    model |= {"decoder_layers": (3, 3, 5, 12)[size], "dropout": (0.3, 0.3, 0.2, 0.1)[size]}
    return model, {**training, "batch_tokens": (2048, 4096, 6144, 12_500)[size]}


def _depth(kind: str, size: int) -> dict[str, Any]:
    """Layers, for the four sizes of a corpus."""
    if kind == "gnmt":
        return {"layers": (2, 3, 4, 8)[size]}
    if kind == "moe":  # as deep as published; a word asks as many experts, of fewer
        return {"experts": (4, 8, 16, 32)[size], **({"experts_per_token": 4} if size == 3 else {}), "tie": "none"}
    if kind == "deep-att":
        return {"layers": (2, 3, 5, 9)[size], "decoder_layers": (2, 2, 4, 7)[size]}
    if kind == "bahdanau":
        return {"layers": (1, 1, 2, 2)[size]}
    return {"layers": (1, 1, 2, 4)[size]}


def whole_translations(pairs: int, optimizer: str) -> dict[str, Any]:
    """Settings of training for a model that learns from its own translations (docs/lab-notes.md, "reinforcement").

    Nearly all of such a gradient is noise. So batches are large, and plain descent with momentum goes where their mean
    points; Adam, which divides each number by the size of its noise, mostly wanders. The rate falls to zero, as that of
    the model it starts from did, and a few hundred updates are enough.
    """
    settings: dict[str, Any] = {"schedule": "cosine", "consistency": 0.0, "bidirectional_epochs": 0}
    settings |= {"max_steps": 240, "checkpoint_every": 20}
    if pairs < SMALL:
        settings |= {"learning_rate": 0.2, "warmup_steps": 10, "batch_tokens": 2048}
    else:
        settings |= {"learning_rate": 0.6, "warmup_steps": 10, "batch_tokens": 8192, "accumulate": 2}
    if optimizer in ("sgd", "asgd"):
        return {**settings, "optimizer": optimizer, "momentum": 0.9}
    return {**settings, "learning_rate": 3e-5}
