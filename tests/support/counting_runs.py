"""Small runs that count, for the tests of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import anaphora
from anaphora.tasks import counting_run as counting

WORDS = ["the", "dog", "cat", "sees", "a", "runs", "Straße", ",", "<unk>"]


def lines(number: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, 8))) for _ in range(number)]


def train(folder: Path, files: dict[str, Path], **more: Any) -> counting.Counted:
    settings = {"model.order": 3, **more.pop("settings", {})}
    outcome = anaphora.train(folder, **files, settings=settings, **more)
    assert isinstance(outcome, counting.Counted)
    return outcome


def model_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file of a folder: which one it is, when it was written, what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (".lock", ".owner.json"):
            found[str(path.relative_to(folder))] = (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
    return found
