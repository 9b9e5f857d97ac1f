"""Runs in processes of their own, that are killed, continued and compared: for test_resume*.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open

import anaphora
import forked
from anaphora.pocket import generate
from forked import Forked

STEPS = 48
SETTINGS = [
    "tokenizer.vocabulary=400", "tokenizer.dropout=0.1",
    "model.dim=16", "model.layers=1", "model.heads=2", "model.feed_forward=32", "model.dropout=0.2",
    "training.batch_tokens=256", "training.accumulate=2", "training.warmup_steps=10", "training.checkpoint_every=7",
    "training.log_every=3", "training.average=3", "training.ema=0.9", "training.metric=chrf", "training.patience=30",
    "training.samples=1", "decoding.max_length_ratio=1", "decoding.max_length_extra=4",
]  # fmt: skip
EXACT = ("model.safetensors", "training.safetensors")


def write_corpus(folder: Path) -> Path:
    pairs = list(generate("train", 300, seed=5))
    (folder / "train.en").write_text("".join(p.source + "\n" for p in pairs), encoding="utf-8")
    (folder / "train.de").write_text("".join(p.target + "\n" for p in pairs), encoding="utf-8")
    return folder


def command(run: Path, corpus: Path, steps: int = STEPS, *more: str) -> list[str]:
    files = ["--source", str(corpus / "train.en"), "--target", str(corpus / "train.de")]
    return ["train", str(run), *files, "--device", "cpu", *SETTINGS, f"training.max_steps={steps}", *more]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def start(run: Path, corpus: Path, *more: str) -> subprocess.Popen[str]:
    more_of_it: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return Forked(command(run, corpus, STEPS, *more), env=environment(), **more_of_it)


def finish(run: Path, corpus: Path, steps: int = STEPS, *more: str) -> subprocess.CompletedProcess[str]:
    return forked.run(command(run, corpus, steps, *more), env=environment(), capture_output=True, text=True)


def finish_afresh(run: Path, corpus: Path) -> subprocess.CompletedProcess[str]:
    """By an interpreter of its own: what it computes is what its copies compute."""
    words = [sys.executable, "-m", "anaphora", *command(run, corpus)]
    return subprocess.run(words, env=environment(), capture_output=True, text=True)


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("step-*"))


def assert_same(run: Path, unbroken: Path) -> None:
    """Every number of every checkpoint, of the published model, and of the progress but for the clock."""
    assert [p.name for p in checkpoints(run)] == [p.name for p in checkpoints(unbroken)]
    for mine, theirs in zip(checkpoints(run), checkpoints(unbroken)):
        for name in EXACT:
            assert (mine / name).read_bytes() == (theirs / name).read_bytes(), f"{mine.name}/{name}"
        progress = [json.loads((path / "progress.json").read_text()) for path in (mine, theirs)]
        for one in progress:
            del one["seconds"]
        assert progress[0] == progress[1]
    assert (run / "model.safetensors").read_bytes() == (unbroken / "model.safetensors").read_bytes()
    steps = [
        [json.loads(line)["step"] for line in (r / "logs/log.jsonl").open() if '"update"' in line]
        for r in (run, unbroken)
    ]
    assert steps[0] == steps[1], "the log tells every step once"


def assert_readable(run: Path) -> None:
    """Whatever a kill left: every checkpoint is complete, and the folder is a model as soon as there is one."""
    for path in checkpoints(run):
        json.loads((path / "progress.json").read_text())
        for name in EXACT:
            with safe_open(path / name, "pt") as file:
                for key in file.keys():  # noqa: SIM118
                    file.get_tensor(key)
    if checkpoints(run):
        assert anaphora.load(run, "cpu").translate("The man sleeps.").text is not None


def kill_when(process: subprocess.Popen[str], ready: Callable[[], bool], limit: float = 60.0) -> bool:
    """kill -9 at the moment `ready` holds; False if the process ended before."""
    began = time.monotonic()
    while process.poll() is None:
        if ready() or time.monotonic() - began > limit:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.0005)
    return False


def owner(run: Path) -> int | None:
    try:
        return int(json.loads((run / ".owner.json").read_text())["process"])
    except (OSError, ValueError):
        return None


def passed(moment: float) -> bool:
    return time.monotonic() > moment
