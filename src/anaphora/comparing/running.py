"""Rows as processes: each is an ordinary `anaphora train`, several at once where that is asked for.

A process of its own gives a row memory that nobody else has used, and lets it die without the others. Ctrl-C is for the
comparison, which hands it on once: the rows save what they have and end. A comparison that is killed takes its rows
with it (on Linux), so that nobody goes on in a folder which the next command wants to continue.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anaphora.device import c_library, cores
from anaphora.files.foreign import check_files

LOOK = 0.2
"""Seconds between two looks at the processes."""
PATIENCE_SECONDS = 120.0
"""Seconds that an interrupted row may take to save what it has."""
HINDERED = -1000
"""The exit code of a row that never began, since one that it is made of is not there."""


@dataclass
class Job:
    """One row to run."""

    name: str
    run: Path
    arguments: Sequence[str]
    """What follows `anaphora`: train FOLDER, mostly."""
    log: Path
    """What it says on its way; its last words go beside it."""
    after: Sequence[str] = ()
    """Rows that must have ended before it."""
    shared: bool = False
    """Whether another row ran at the same time."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def answer(self) -> Path:
        return self.log.with_suffix(".json")

    def command(self) -> list[str]:
        """-P: not the user's own random.py."""
        return [sys.executable, "-P", "-m", "anaphora", *self.arguments, "--json"]

    def start(self, environment: dict[str, str]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        check_files(self.log.parent)
        with self.log.open("ab") as said, self.answer.open("wb") as answer:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=said,
                env=environment,
                start_new_session=True,  # the terminal's Ctrl-C is not for it
                preexec_fn=None if _LIBRARY is None else _die_with_parent,
            )

    def why(self, code: int) -> str:
        """What went wrong, in one sentence."""
        if code == HINDERED:
            return f"it is made of {', '.join(self.after)}, and not all of that is there"
        with suppress(OSError, ValueError, KeyError, IndexError, TypeError):
            return str(json.loads(self.answer.read_text(encoding="utf-8").splitlines()[-1])["error"])
        if code < 0:
            name = signal.Signals(-code).name
            return f"it was killed ({name}), perhaps for want of memory"
        with suppress(OSError, IndexError):
            return self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1]
        return f"it ended with code {code}"


def run_jobs(
    jobs: Sequence[Job],
    at_once: int,
    *,
    started: Callable[[Job], None],
    ended: Callable[[Job, int], None],
    looked: Callable[[Sequence[Job]], None],
    hindered: Callable[[Job], bool] = lambda job: False,
) -> None:
    """Run all of them, at most so many at the same time; `ended` hears of each with its exit code. None begins before
    those that it comes after have ended, and one that is hindered by how they ended (HINDERED) not at all."""
    environment = dict(os.environ)
    if at_once > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores() // at_once)))
    waiting, running = list(jobs), list[Job]()
    try:
        while waiting or running:
            while len(running) < at_once and (job := _ready(waiting, running)) is not None:
                waiting.remove(job)
                if hindered(job):
                    ended(job, HINDERED)
                    continue
                running.append(job)
                if len(running) > 1:
                    for one in running:
                        one.shared = True
                started(job)
                job.start(environment)
            if running:
                time.sleep(LOOK)
            for job in list(running):
                assert job.process is not None
                if (code := job.process.poll()) is not None:
                    running.remove(job)
                    ended(job, code)
            looked(running)
    except BaseException:
        _stop([job.process for job in running if job.process is not None])
        raise


def _ready(waiting: Sequence[Job], running: Sequence[Job]) -> Job | None:
    """The first one whose turn it is."""
    open_ones = {job.name for job in (*waiting, *running)}
    return next((job for job in waiting if not open_ones & set(job.after)), None)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let them save what they have; who is asked a second time does not wait for that."""
    before: dict[int, Any] = {}
    with suppress(ValueError):  # in a thread
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, signal.default_int_handler)
    try:
        for process in processes:
            with suppress(ProcessLookupError):
                process.terminate()  # SIGTERM: what ignores Ctrl-C, as a shell's background does, hears this too
        until = time.monotonic() + PATIENCE_SECONDS
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for one, handler in before.items():
            if handler is not None:
                signal.signal(one, handler)


_PR_SET_PDEATHSIG = 1
_LIBRARY = c_library()


def _die_with_parent() -> None:
    """In the new process, before it becomes `train`: when its parent dies, it gets a SIGTERM, and saves what it has."""
    if _LIBRARY is not None:
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
