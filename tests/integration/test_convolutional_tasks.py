"""Convolutional translators learn to copy, to reverse and to sort.

Sequences as in test_tasks.py. ByteNet, which has no attention and reads letters, gets the same sequences without
blanks, a letter a symbol. By hand:

    python tests/integration/test_convolutional_tasks.py convs2s sort [training.max_steps=5000 …]
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from test_tasks import SETTINGS, TASKS, sequences

import anaphora

SHARED: dict[str, Any] = {
    key: value for key, value in SETTINGS.items() if key not in ("model.heads", "model.feed_forward")
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "convs2s": {"model.layers": 4, "model.decoder_layers": 3},
    "bytenet": {
        "tokenizer.kind": "byte",
        "tokenizer.split": "punctuation",
        "tokenizer.fallback": "bytes",
        "model.dim": 128,
        "model.layers": 8,
        "model.dilations": 4,
    },
}
UPDATES = {"copy": 500, "reverse": 1_500, "sort": 1_500}
REVERSING: dict[str, Any] = {
    # To reverse without a look, a place must first know how far both ends are, then the symbols must be carried. A set
    # of four blocks reaches 15 places, as far as 15 symbols and their mark ask for and no further; one of five, 31.
    "model.layers": 10,
    "model.decoder_layers": 5,
    "model.dilations": 5,
    # as much text as the others have, in four times as many updates
    "training.max_steps": 6_000,
    "training.batch_tokens": 256,
    "training.learning_rate": 2e-3,
    "training.metric": "loss",  # BLEU of lines without blanks says little
}
"""What ByteNet has for that task."""
WIDE: dict[str, Any] = {"model.dim": 256, "training.batch_tokens": 512, "training.learning_rate": 1e-3}
ON_A_GPU: dict[tuple[str, str], dict[str, Any]] = {
    ("bytenet", "reverse"): {**REVERSING, **WIDE, "training.max_steps": 14_000},
    ("bytenet", "sort"): {**WIDE, "training.max_steps": 9_000},
}
"""A wider one, where that takes a minute or two and not an hour."""


def learn(
    system: str, task: str, folder: Path, seen: list[list[str]], unseen: list[list[str]], **changes: Any
) -> list[bool]:
    """Which of the unseen sequences come out exactly right, by greedy search; on a GPU, where there is one."""
    between = "" if system == "bytenet" else " "
    for side, change in (("source", list), ("target", TASKS[task])):
        (folder / side).write_text("".join(between.join(change(s)) + "\n" for s in seen))
    own = REVERSING if (system, task) == ("bytenet", "reverse") else {}
    own = ON_A_GPU.get((system, task), own) if torch.cuda.is_available() else own
    settings = {**SHARED, "training.max_steps": UPDATES[task], **SYSTEMS[system], **own, **changes}
    files = {"source": folder / "source", "target": folder / "target"}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    anaphora.train(folder / "run", **files, recipe=system, settings=settings, device=device)
    model = anaphora.load(folder / "run", device)
    said = [translation.text for translation in model.translate([between.join(s) for s in unseen], beam=1)]
    return [text == between.join(TASKS[task](s)) for text, s in zip(said, unseen)]


SMALL_ONES: dict[str, dict[str, Any]] = {
    "convs2s reverse": {"model.layers": 2, "model.decoder_layers": 2, "training.max_steps": 260},
    "bytenet copy": {"model.layers": 4, "model.dilations": 2, "training.max_steps": 200},
}


@pytest.mark.parametrize("name", SMALL_ONES)
def test_a_small_one_learns(name: str, tmp_path: Path) -> None:
    """Of 8 symbols up to 6; seconds."""
    draw = random.Random(1)
    every = [draw.choices("abcdefgh", k=draw.randint(1, 6)) for _ in range(6_000)]
    held = {" ".join(s) for s in every[:150] if len(s) > 3}
    seen = [s for s in every if " ".join(s) not in held]
    changes = {"model.dim": 48, "data.hold_out": 50, "training.warmup_steps": 40, "training.learning_rate": 4e-3}
    changes |= {"training.checkpoint_every": 260, "training.batch_tokens": 512, **SMALL_ONES[name]}
    right = learn(*name.split(), tmp_path, seen, [s.split() for s in sorted(held)], **changes)  # type: ignore[misc]
    assert sum(right) / len(right) >= 0.95


FLOORS = {
    ("convs2s", "copy"): 0.99,
    ("convs2s", "reverse"): 0.99,
    ("convs2s", "sort"): 0.99,
    ("bytenet", "copy"): 0.99,
    # One small one on a CPU had 74.1 % and 95.1 %, a wide one on a GPU 99.6 % and 99.4 %: floors below what was seen.
    ("bytenet", "reverse"): 0.99 if torch.cuda.is_available() else 0.65,
    ("bytenet", "sort"): 0.99 if torch.cuda.is_available() else 0.9,
}


@pytest.mark.slow
@pytest.mark.parametrize(("system", "task"), FLOORS)
def test_learned_on_unseen_sequences(system: str, task: str, tmp_path: Path) -> None:
    right = learn(system, task, tmp_path, *sequences(train=40_000, test=1_000))
    print(f"{system}, {task}: {sum(right) / len(right):.1%} exactly right")
    assert sum(right) / len(right) >= FLOORS[system, task]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        system, task = sys.argv[1:3]
        more = dict(one.split("=", 1) for one in sys.argv[3:])
        right = learn(system, task, Path(folder), *sequences(train=40_000, test=1_000), **more)
        print(f"{system}, {task}: {sum(right) / len(right):.1%} exactly right")
