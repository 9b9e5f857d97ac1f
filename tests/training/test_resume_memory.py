"""What a run remembers besides its numbers: that it had stopped, and which text it learned from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from resumed_runs import STEPS, checkpoints, finish, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def test_early_stopping_is_remembered(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    hasty = ("training.patience=1", "training.learning_rate=1e-9", "training.ema=0")
    first = finish(run, corpus, STEPS, *hasty)
    assert first.returncode == 0, first.stderr
    stopped = json.loads((checkpoints(run)[-1] / "progress.json").read_text())
    assert stopped["step"] < STEPS and "no better chrf in 1 checkpoints" in first.stderr
    before = (run / "model.safetensors").read_bytes()
    again = finish(run, corpus, STEPS, *hasty)
    assert again.returncode == 0 and "no better chrf" in again.stderr
    assert (run / "model.safetensors").read_bytes() == before


def test_changed_text_is_noticed(corpus: Path, tmp_path: Path) -> None:
    run, text = tmp_path / "run", tmp_path / "text"
    text.mkdir()
    for side in ("train.en", "train.de"):
        (text / side).write_bytes((corpus / side).read_bytes())
    assert finish(run, text, 6).returncode == 0
    lines = (text / "train.de").read_text().replace("Der ", "Das ", 1)
    (text / "train.de").write_text(lines)
    refused = finish(run, text, 12)
    assert refused.returncode == 2 and "the target text changed" in refused.stderr
    forced = finish(run, text, 12, "--force")
    assert forced.returncode == 0, forced.stderr
    assert finish(run, text, 18).returncode == 0, "afterwards the changed text is the run's own"
