"""A Transformer learns to copy, to reverse and to sort: 99 % exactly right on sequences it never saw.

Sequences of 1 to 15 symbols out of 20. Each task asks for something else: to look at the same place, at the mirrored
place (which depends on the length), at no place but at the content (the next larger symbol, as often as it is there).
One model and one schedule for all three; only the task differs. By hand:

    python tests/integration/test_tasks.py sort
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import anaphora
from anaphora.evaluation.translation_metrics import exact_match

SYMBOLS = "abcdefghijklmnopqrst"
TASKS: dict[str, Callable[[list[str]], list[str]]] = {"copy": list, "reverse": lambda s: s[::-1], "sort": sorted}
SETTINGS = {
    "tokenizer.kind": "word",
    "tokenizer.split": "whitespace",
    "tokenizer.fallback": "unk",
    "data.hold_out": 200,
    "model.dim": 64,
    "model.layers": 2,
    "model.heads": 4,
    "model.feed_forward": 256,
    "model.dropout": 0.0,
    "training.max_steps": 2_000,
    "training.batch_tokens": 1_024,
    "training.learning_rate": 3e-3,
    "training.warmup_steps": 200,
    "training.schedule": "cosine",
    "training.label_smoothing": 0.0,
    "training.checkpoint_every": 500,
    "training.average": 1,
    "training.samples": 0,
}


def sequences(train: int, test: int, seed: int = 1) -> tuple[list[list[str]], list[list[str]]]:
    """Every length as often as any other; also of the 20 + 400 shortest, those of the test are not trained on."""
    draw = random.Random(seed)

    def sequence() -> list[str]:
        return draw.choices(SYMBOLS, k=draw.randint(1, 15))

    room = {1: 4, 2: 60}  # that many of the shortest are withheld; of the others there are always more
    unseen: dict[str, list[str]] = {}
    while len(unseen) < test:
        s = sequence()
        if sum(len(t) == len(s) for t in unseen.values()) < room.get(len(s), test):
            unseen[" ".join(s)] = s
    seen: list[list[str]] = []
    while len(seen) < train:
        s = sequence()
        if " ".join(s) not in unseen:
            seen.append(s)
    return seen, list(unseen.values())


def learn(task: str, folder: Path, **changes: object) -> tuple[float, float]:
    """Share of 1,000 unseen sequences that come out exactly right, by greedy search; and the seconds of training."""
    seen, unseen = sequences(train=40_000, test=1_000)
    assert not {" ".join(s) for s in seen} & {" ".join(s) for s in unseen}
    for side, change in (("source", list), ("target", TASKS[task])):
        (folder / side).write_text("".join(" ".join(change(s)) + "\n" for s in seen))
    settings = {**SETTINGS, **changes}
    outcome = anaphora.train(
        folder / "run", source=folder / "source", target=folder / "target", settings=settings, device="cpu"
    )
    model = anaphora.load(folder / "run", "cpu")
    said = [t.text for t in model.translate([" ".join(s) for s in unseen], beam=1)]
    return exact_match(said, [" ".join(TASKS[task](s)) for s in unseen]), outcome.seconds


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_learned_to_99_percent_on_unseen_sequences(task: str, tmp_path: Path) -> None:
    right, seconds = learn(task, tmp_path)
    print(f"{task}: {right:.1%} exactly right after {seconds:.0f} s")
    assert right >= 0.99


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        right, seconds = learn(sys.argv[1], Path(folder))
        print(
            f"{sys.argv[1]}: {right:.1%} exactly right, {seconds:.0f} s of training, {time.monotonic() - began:.0f} s"
        )
