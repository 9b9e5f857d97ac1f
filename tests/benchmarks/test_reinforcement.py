"""The reward curve: read from what a run has written, drawn, and told as JSON; other runs have none."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import reinforcement

import anaphora
from micro_runs import MICRO


def test_from_run_to_picture(
    tmp_path: Path,
    corpus: dict[str, Path],
    micro: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = {name: value for name, value in MICRO.items() if name.startswith("training.")}
    settings |= {"training.objective": "minimum-risk", "training.candidates": 3}
    files: Any = corpus
    anaphora.train(tmp_path / "run", **files, start_from=micro, settings=settings, device="cpu")
    picture = tmp_path / "reward.png"
    monkeypatch.setattr(sys, "argv", ["reinforcement.py", str(tmp_path / "run"), "--picture", str(picture)])
    reinforcement.main()
    (told,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    history = json.loads((tmp_path / "run/metrics.json").read_text())["history"]
    assert told["gleu_start"] == history[0]["gleu"]
    assert told["gleu_best"] == max(entry["gleu"] for entry in history)
    assert told["risk_sharpness"] == 1.0
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit, match="no rewards here"):
        reinforcement.read(micro)
