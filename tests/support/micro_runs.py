"""The smallest runs that do everything: a corpus of a few lines, a model of 16 dimensions, two updates, one process."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

WORDS = {
    "the": "der", "a": "ein", "old": "alte", "young": "junge", "dog": "Hund", "cat": "Kater", "sees": "sieht",
    "hears": "hört", "finds": "findet", "big": "große", "red": "rote", "tree": "Baum", "ball": "Ball", "and": "und",
    "not": "nicht", "today": "heute", "here": "hier", "loudly": "laut",
}  # fmt: skip


def pairs(number: int, seed: int = 1, *, longest: int = 9) -> list[tuple[str, str]]:
    """English-like lines and their translation word by word."""
    draw, english = random.Random(seed), list(WORDS)
    lines = [draw.choices(english, k=draw.randint(2, longest)) for _ in range(number)]
    return [(" ".join(line) + ".", " ".join(WORDS[word] for word in line) + ".") for line in lines]


def write_pairs(folder: Path, number: int, seed: int = 1, *, name: str = "train", longest: int = 9) -> dict[str, Path]:
    """NAME.en and NAME.de in the folder: {"source": …, "target": …}."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"source": folder / f"{name}.en", "target": folder / f"{name}.de"}
    both = pairs(number, seed, longest=longest)
    for place, side in enumerate(files.values()):
        side.write_text("".join(pair[place] + "\n" for pair in both), encoding="utf-8")
    return files


MICRO: dict[str, Any] = {
    "tokenizer.vocabulary": 300,
    "model.dim": 16,
    "model.layers": 1,
    "model.heads": 2,
    "model.feed_forward": 32,
    "model.max_length": 64,
    "training.max_steps": 2,
    "training.batch_tokens": 256,
    "training.checkpoint_every": 1,
    "training.warmup_steps": 1,
    "training.learning_rate": 1e-3,
    "training.samples": 1,
    "training.log_every": 1,
    "decoding.max_length_ratio": 1.0,  # after two updates it does not know when to end
    "decoding.max_length_extra": 4,
}
"""The smallest run that does everything: two updates, two checkpoints, validation."""


def arguments(settings: dict[str, Any]) -> list[str]:
    """The same settings as words of a command line."""
    return [f"{name}={'null' if value is None else value}" for name, value in settings.items()]


def command(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """`anaphora WORDS…` in a process of its own, its output captured."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    options = {"capture_output": True, "timeout": 300, "encoding": "utf-8", **options}
    return subprocess.run([sys.executable, "-m", "anaphora", *map(str, words)], env=environment, **options)
