"""N steps, kill -9, the same command, N more = 2N steps, bit for bit on a CPU, with every stateful option on.

The runs are real processes. Kills come at random moments and at chosen ones: while the corpus is being prepared,
before the first checkpoint, while a checkpoint is being written.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from safetensors import safe_open

import anaphora
from anaphora.text.pocket import generate

STEPS = 48
SETTINGS = [
    "tokenizer.vocabulary=400", "tokenizer.dropout=0.1",
    "model.dim=16", "model.layers=1", "model.heads=2", "model.feed_forward=32", "model.dropout=0.2",
    "training.batch_tokens=256", "training.accumulate=2", "training.warmup_steps=10", "training.checkpoint_every=7",
    "training.log_every=3", "training.average=3", "training.ema=0.9", "training.metric=chrf", "training.patience=30",
    "training.samples=1",
]  # fmt: skip
EXACT = ("model.safetensors", "training.safetensors")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(generate("train", 300, seed=5))
    (folder / "train.en").write_text("".join(p.source + "\n" for p in pairs), encoding="utf-8")
    (folder / "train.de").write_text("".join(p.target + "\n" for p in pairs), encoding="utf-8")
    return folder


def command(run: Path, corpus: Path, steps: int = STEPS, *more: str) -> list[str]:
    files = ["--source", str(corpus / "train.en"), "--target", str(corpus / "train.de")]
    return [sys.executable, "-m", "anaphora", "train", str(run), *files, "--device", "cpu", *SETTINGS,
            f"training.max_steps={steps}", *more]  # fmt: skip


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def start(run: Path, corpus: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(run, corpus, STEPS, *more),
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(run: Path, corpus: Path, steps: int = STEPS, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(run, corpus, steps, *more), env=environment(), capture_output=True, text=True)


@pytest.fixture(scope="module")
def unbroken(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("unbroken") / "run"
    done = finish(run, corpus)
    assert done.returncode == 0, done.stderr
    return run


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


def test_killed_at_chosen_moments(corpus: Path, unbroken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    moments: dict[str, Callable[[], bool]] = {
        "preparing": lambda: any(run.glob(".unfinished-*-data")),
        "before the first checkpoint": lambda: (run / "config.yaml").exists(),
        "writing a checkpoint": lambda: any((run / "checkpoints").glob(".unfinished-*")),
        "between checkpoints": lambda: len(checkpoints(run)) >= 3,
    }
    for moment, ready in moments.items():
        assert kill_when(start(run, corpus), ready), moment
        assert_readable(run)
    done = finish(run, corpus)
    assert done.returncode == 0, done.stderr
    assert "was killed" in done.stderr  # the abandoned lock is recognised and said
    assert_same(run, unbroken)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_twenty_times_at_random(corpus: Path, unbroken: Path, tmp_path: Path) -> None:
    """Runs of at most five kills each, twenty in all; every run ends as the unbroken one did."""
    chance, newest, runs = random.Random(7), [], 0
    while len(newest) < 20:
        run, runs = tmp_path / f"run-{runs}", runs + 1
        for kill in range(5):
            process, began = start(run, corpus), time.monotonic()
            if kill:  # count from the moment it holds the lock: importing torch is half of so small a run
                while process.poll() is None and owner(run) != process.pid:
                    time.sleep(0.001)
                began = time.monotonic()
            if not kill_when(process, partial(passed, began + chance.uniform(0.0, 3.0))):
                break  # it came to its end before its time
            newest.append(int(checkpoints(run)[-1].name[-2:]) if checkpoints(run) else 0)
            assert_readable(run)
        done = finish(run, corpus)
        assert done.returncode == 0, done.stderr
        assert_same(run, unbroken)
    print(f"{len(newest)} kills in {runs} runs, when the newest checkpoint was of step {newest} (0: none yet)")
    assert 0 in newest and max(newest) > 0


def test_sigterm_loses_nothing_and_a_second_process_is_refused(corpus: Path, unbroken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(run, corpus)
    while process.poll() is None and not checkpoints(run):
        time.sleep(0.0005)
    process.send_signal(signal.SIGSTOP)  # hold it still while another one knocks
    second = finish(run, corpus)
    assert second.returncode == 2
    assert "is in use by process" in second.stderr and "Traceback" not in second.stderr
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "repeat the command to go on" in said
    newest = json.loads((checkpoints(run)[-1] / "progress.json").read_text())
    logged = [json.loads(line) for line in (run / "logs/log.jsonl").open()]
    assert newest["step"] >= logged[-1]["step"], "the update in flight was saved"
    assert_readable(run)
    done = finish(run, corpus)
    assert done.returncode == 0, done.stderr
    assert_same(run, unbroken)


def test_half_then_raised_equals_whole(corpus: Path, unbroken: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    half = finish(run, corpus, 21)
    assert half.returncode == 0, half.stderr
    refused = finish(run, corpus, STEPS, "training.seed=2")
    assert refused.returncode == 2
    assert "training.seed is 1 there and 2 now" in refused.stderr and "--force" in refused.stderr
    whole = finish(run, corpus)
    assert whole.returncode == 0, whole.stderr
    assert_same(run, unbroken)
    again = finish(run, corpus)
    assert again.returncode == 0 and "48 updates done" in again.stderr
    assert_same(run, unbroken)


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
