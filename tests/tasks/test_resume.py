"""N steps, kill -9, the same command, N more = 2N steps, bit for bit on a CPU, with every stateful option on.

The runs are real processes. Kills come at random moments and at chosen ones: while the corpus is being prepared,
before the first checkpoint, while a checkpoint is being written.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from resumed_runs import (
    STEPS,
    assert_readable,
    assert_same,
    checkpoints,
    finish,
    finish_afresh,
    kill_when,
    owner,
    passed,
    start,
    write_corpus,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def unbroken(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("unbroken") / "run"
    done = finish_afresh(run, corpus)
    assert done.returncode == 0, done.stderr
    return run


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
    assert "was killed" in done.stderr  # the abandoned lock is recognized and said
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
    assert "repeat the command to continue" in said
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
