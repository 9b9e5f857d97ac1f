"""Small runs of neural language models, for the tests of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.errors import UserError
from anaphora.tasks.request import Outcome

WORDS = ["the", "dog", "cat", "sees", "a", "runs", "Straße", ",", "tree", "old"]
CARRYING = ("rnn", "gru", "lstm", "window", "conv")
MICRO: dict[str, Any] = {
    "tokenizer.kind": "word",
    "tokenizer.split": "blanks",
    "tokenizer.fallback": "unk",
    "model.dim": 16,
    "model.layers": 2,
    "training.max_steps": 2,
    "training.batch_tokens": 64,
    "training.context": 16,
    "training.checkpoint_every": 1,
    "training.warmup_steps": 1,
    "training.samples": 1,
    "training.log_every": 1,
}


KILLED = {
    "training.max_steps": 60,
    "training.checkpoint_every": 7,
    "training.accumulate": 2,
    "training.average": 3,
    "training.patience": 50,
    "model.dropout": 0.2,
    "model.input_dropout": 0.2,
    "training.schedule": "constant",
}


OPTIONS: list[dict[str, Any]] = [
    {"training.optimizer": "sgd", "training.momentum": 0.5, "training.learning_rate": 0.1},
    {"training.optimizer": "asgd", "training.trigger": 0},
    {"training.optimizer": "adam", "training.weight_decay": 0.1},
    {"training.ema": 0.9},
    {"training.accumulate": 2},
    {"training.label_smoothing": 0.1},
    {"training.precision": "bf16"},
    {"training.schedule": "linear", "training.final_rate": 0.1},
    {"training.max_steps": None, "training.epochs": 0.05},
    {"training.max_steps": None, "training.max_tokens": 100},
    {"training.patience": 1, "training.average": 2},
    {"model.dropout": 0.3, "model.input_dropout": 0.2, "model.output_dropout": 0.2, "model.embedding_dropout": 0.2},
    {"model.locked": True, "model.input_dropout": 0.2},
    {"model.tie": False, "model.output_bias": False},
    {"tokenizer.kind": "byte", "tokenizer.split": "punctuation", "tokenizer.fallback": "bytes"},
    {"data.blank_lines": "drop"},
]


def lines(number: int, seed: int = 1) -> list[str]:
    """Words that follow each other more or less in the order of the alphabet: something to learn."""
    draw, words, found = random.Random(seed), sorted(WORDS), []
    for _ in range(number):
        at, line = draw.randrange(len(words)), []
        for _ in range(draw.randint(1, 8)):
            line.append(words[at])
            at = (at + draw.choice((1, 1, 1, 2))) % len(words)
        found.append(" ".join(line))
    return found


def of_kind(kind: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The smallest settings of a kind."""
    chosen = dict(MICRO)
    if kind == "backpack":
        chosen |= {"model.senses": 4}
        if "model.encoder" not in (settings or {}):
            chosen |= {"model.heads": 2, "model.feed_forward": 32}
    elif kind.startswith("transformer"):
        chosen |= {"model.heads": 2, "model.feed_forward": 32}
    elif kind != "conv":
        chosen |= {"model.hidden": 24}
    chosen |= settings or {}
    if chosen.get("data.boundaries") == "lines":
        chosen.pop("training.context", None)
    return chosen


def train(
    folder: Path, files: dict[str, Path], kind: str, settings: dict[str, Any] | None = None, **more: Any
) -> Outcome:
    return anaphora.train(folder, **files, recipe=kind, settings=of_kind(kind, settings), device="cpu", **more)


def stored(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return {name: tensor for name, tensor in load_file(path).items() if name.startswith(prefix)}


def refused(run: Path, kind: str, settings: dict[str, Any], files: dict[str, Path], **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        train(run, files, kind, settings, **more)
    assert not run.exists(), "a mistake leaves nothing behind"
    return str(caught.value)


def refused_by_recipe(run: Path, recipe: str, files: dict[str, Path], settings: dict[str, Any] | None = None) -> str:
    with pytest.raises(UserError) as caught:
        anaphora.train(run, **files, recipe=recipe, settings=settings or {})
    assert not run.exists()
    return str(caught.value)
