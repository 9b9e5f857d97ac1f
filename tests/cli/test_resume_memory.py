"""What a run remembers besides its numbers: that it had stopped, and which text it learned from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resumed_runs import STEPS, checkpoints, command, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def test_early_stopping_is_remembered(say: Any, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    hasty = ("training.patience=1", "training.learning_rate=1e-9", "training.ema=0")
    first = say(*command(run, corpus, STEPS, *hasty))
    assert first.code == 0, first.err
    stopped = json.loads((checkpoints(run)[-1] / "progress.json").read_text())
    assert stopped["step"] < STEPS and "no better chrf in 1 checkpoint " in first.err
    before = (run / "model.safetensors").read_bytes()
    again = say(*command(run, corpus, STEPS, *hasty))
    assert again.code == 0 and "no better chrf" in again.err
    assert (run / "model.safetensors").read_bytes() == before


def test_changed_text_is_noticed(say: Any, corpus: Path, tmp_path: Path) -> None:
    run, text = tmp_path / "run", tmp_path / "text"
    text.mkdir()
    for side in ("train.en", "train.de"):
        (text / side).write_bytes((corpus / side).read_bytes())
    assert say(*command(run, text, 6)).code == 0
    lines = (text / "train.de").read_text().replace("Der ", "Das ", 1)
    (text / "train.de").write_text(lines)
    refused = say(*command(run, text, 12))
    assert refused.code == 2 and "the target text changed" in refused.err
    forced = say(*command(run, text, 12, "--force"))
    assert forced.code == 0, forced.err
    assert say(*command(run, text, 18)).code == 0, "afterwards the changed text is the run's own"
