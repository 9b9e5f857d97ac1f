"""Thirty updates give the stored losses: whatever changes what is learned, on purpose or not, shows here.

The curve is of one machine; others round otherwise, hence the tolerance. If a change is meant to move it, store the
new one, and say why in the commit:

    python tests/training/test_loss_curve.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora

CURVE = Path(__file__).with_name("loss_curve.json")
SETTINGS: dict[str, Any] = {
    "tokenizer.vocabulary": 320,
    "tokenizer.dropout": 0.1,
    "data.hold_out": 20,
    "model.dim": 24,
    "model.layers": 2,
    "model.heads": 4,
    "model.feed_forward": 48,
    "model.max_length": 128,
    "model.dropout": 0.1,
    "training.max_steps": 30,
    "training.batch_tokens": 400,
    "training.accumulate": 2,
    "training.learning_rate": 5e-3,
    "training.warmup_steps": 10,
    "training.checkpoint_every": 15,
    "training.ema": 0.9,
    "training.weight_decay": 0.01,
    "training.log_every": 1,
    "training.samples": 0,
}

NOUNS = {"dog": "Hund", "farmer": "Bauer", "bird": "Vogel", "baker": "Bäcker", "king": "König", "wolf": "Wolf"}
VERBS = {"sees": "sieht", "hears": "hört", "finds": "findet", "follows": "verfolgt"}
WHEN = {"today": "heute", "often": "oft", "never": "nie", "here": "hier", "quietly": "leise"}


def text() -> list[tuple[str, str]]:
    """400 sentences of a small grammar, mixed. Of its own, so that no change elsewhere moves the curve."""
    lines = [
        (f"{when} the {a} {verb} the {b} .", f"{WHEN[when]} {VERBS[verb]} der {NOUNS[a]} den {NOUNS[b]} .")
        for when in WHEN
        for verb in VERBS
        for a in NOUNS
        for b in NOUNS
    ]
    return [lines[(place * 257) % len(lines)] for place in range(400)]


def curve(folder: Path) -> dict[str, list[float]]:
    """The loss of every update, the gradient's norm, and the validation losses (of the moving average)."""
    torch.set_num_threads(1)
    for name, side in (("source", 0), ("target", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in text()), encoding="utf-8")
    anaphora.train(folder / "run", source=folder / "source", target=folder / "target", settings=SETTINGS, device="cpu")
    records = [json.loads(line) for line in (folder / "run" / "logs" / "log.jsonl").read_text().splitlines()]
    updates = [record for record in records if record["kind"] == "update"]
    return {
        "loss": [record["loss"] for record in updates],
        "gradient_norm": [record["gradient_norm"] for record in updates],
        "validation": [record["loss"] for record in records if record["kind"] == "validation"],
    }


def test_the_stored_curve_is_reproduced(tmp_path: Path) -> None:
    stored, now = json.loads(CURVE.read_text()), curve(tmp_path)
    assert len(now["loss"]) == 30
    assert now["loss"][-1] < 0.8 * now["loss"][0]  # it does learn
    assert now["loss"] == pytest.approx(stored["loss"], rel=1e-4)
    assert now["validation"] == pytest.approx(stored["validation"], rel=1e-4)
    assert now["gradient_norm"] == pytest.approx(stored["gradient_norm"], rel=1e-3)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        CURVE.write_text(json.dumps(curve(Path(folder)), indent=1) + "\n")
        print(f"wrote {CURVE}", file=sys.stderr)
