"""Recurrent translators learn to copy, to reverse and to sort; without attention, what is long is lost.

Sequences as in test_tasks.py. The bottleneck shows on what is longest: 11 to 15 symbols in the same few numbers that
held one. By hand:

    python tests/integration/test_recurrent_tasks.py bahdanau sort
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from test_tasks import SETTINGS, TASKS, sequences

import anaphora

RECURRENT: dict[str, Any] = {
    **{key: value for key, value in SETTINGS.items() if key not in ("model.heads", "model.feed_forward")},
    "model.layers": 1,
    "training.learning_rate": 4e-3,
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "bahdanau": {},
    "luong dot": {"model.score": "dot"},
    "luong general": {"model.score": "bilinear"},
    "luong concat": {"model.score": "additive"},
    "deep-att": {"model.layers": 2, "model.decoder_layers": 2},
    "gnmt": {"model.layers": 3},
    "moe": {"model.layers": 2, "model.experts": 8},
}
UPDATES = 3_000
LONG = 11


def learn(
    system: str, task: str, folder: Path, seen: list[list[str]], unseen: list[list[str]], **changes: Any
) -> list[bool]:
    """Which of the unseen sequences come out exactly right, by greedy search."""
    for side, change in (("source", list), ("target", TASKS[task])):
        (folder / side).write_text("".join(" ".join(change(s)) + "\n" for s in seen))
    settings = {**RECURRENT, "training.max_steps": UPDATES, **SYSTEMS.get(system, {}), **changes}
    files = {"source": folder / "source", "target": folder / "target"}
    anaphora.train(folder / "run", **files, recipe=system.split()[0], settings=settings, device="cpu")
    model = anaphora.load(folder / "run", "cpu")
    said = [translation.text for translation in model.translate([" ".join(s) for s in unseen], beam=1)]
    return [text == " ".join(TASKS[task](s)) for text, s in zip(said, unseen)]


def test_a_small_one_learns_to_reverse(tmp_path: Path) -> None:
    """Of 8 symbols up to 6; seconds."""
    draw = random.Random(1)
    every = [draw.choices("abcdefgh", k=draw.randint(1, 6)) for _ in range(6_000)]
    held = {" ".join(s) for s in every[:150] if len(s) > 3}
    seen = [s for s in every if " ".join(s) not in held]
    changes = {"model.dim": 48, "data.hold_out": 50, "training.max_steps": 260, "training.warmup_steps": 40}
    changes |= {"training.checkpoint_every": 260, "training.learning_rate": 8e-3, "training.batch_tokens": 512}
    right = learn("bahdanau", "reverse", tmp_path, seen, [s.split() for s in sorted(held)], **changes)
    assert sum(right) / len(right) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_learned_to_99_percent_on_unseen_sequences(system: str, task: str, tmp_path: Path) -> None:
    right = learn(system, task, tmp_path, *sequences(train=40_000, test=1_000))
    print(f"{system}, {task}: {sum(right) / len(right):.1%} exactly right")
    assert sum(right) / len(right) >= 0.99


@pytest.mark.slow
def test_without_attention_long_sequences_are_lost(tmp_path: Path) -> None:
    """The same updates on the same sequences, with and without a look back."""
    seen, unseen = sequences(train=40_000, test=1_000)
    found = {}
    for system in ("seq2seq", "bahdanau"):
        (tmp_path / system).mkdir()
        right = learn(system, "reverse", tmp_path / system, seen, unseen)
        long = [ok for ok, s in zip(right, unseen) if len(s) >= LONG]
        found[system] = sum(long) / len(long)
    print(f"reversing {LONG} to 15 symbols: {found}")
    assert found["bahdanau"] >= 0.95
    assert found["seq2seq"] <= found["bahdanau"] - 0.3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        system, task = " ".join(sys.argv[1:-1]), sys.argv[-1]
        seen, unseen = sequences(train=40_000, test=1_000)
        right = learn(system, task, Path(folder), seen, unseen)
        long = [ok for ok, s in zip(right, unseen) if len(s) >= LONG]
        print(f"{system}, {task}: {sum(right) / len(right):.1%} right, of the long ones {sum(long) / len(long):.1%}")
