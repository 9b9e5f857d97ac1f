"""Rows without an interpreter of their own: the same commands by the same `main`, in milliseconds; and a way to die."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from anaphora.comparing import comparison, running
from anaphora.comparing.running import HINDERED, Job


class Killed(BaseException):
    """As kill -9 does it: nobody is asked to clean up."""


def obey(job: Job) -> int:
    """Do what a row's process would do; its exit code."""
    from anaphora.cli.interruption import SIGNALS
    from anaphora.cli.main import main

    job.log.parent.mkdir(exist_ok=True)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with (
        pytest.MonkeyPatch.context() as patch,
        job.answer.open("w", encoding="utf-8") as answer,
        contextlib.redirect_stdout(answer),
    ):
        patch.setattr(sys, "argv", ["anaphora", *job.arguments, "--json", "--quiet"])
        with pytest.raises(SystemExit) as end:
            main()
    for number, handler in before.items():
        signal.signal(number, handler)
    assert isinstance(end.value.code, int)
    return end.value.code


class Child:
    """A process of its own, made by copying this one: it need not begin by importing everything."""

    def __init__(self, job: Job) -> None:
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                code = obey(job)
            finally:
                os._exit(code)

    def poll(self) -> int | None:
        if self.code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if found else None
        return self.code


@contextlib.contextmanager
def rows_in_this_process(
    dies: Callable[[str, int], bool] = lambda name, number: False, *, whole: bool = False
) -> Iterator[list[str]]:
    """Within the block, rows run here; what was run is listed. dies: before the row of that name, the so-manieth.
    whole: with pictures and a look at alignments, which take most of the time. Several at once are copies of this
    process, started by the scheduler itself."""
    from anaphora.tasks.translation_run import Run

    ran: list[str] = []

    def run_jobs(
        jobs: Sequence[Job], at_once: int, *, started: Any, ended: Any, looked: Any, hindered: Callable[[Job], bool]
    ) -> None:
        if at_once > 1:
            more = {"started": started, "ended": ended, "looked": looked, "hindered": hindered}
            return running.run_jobs(jobs, at_once, **more)
        for job in jobs:
            if dies(job.name, len(ran)):
                raise Killed
            if hindered(job):
                ended(job, HINDERED)
                continue
            started(job)
            ran.append(job.name)
            ended(job, obey(job))
        return None

    def start(job: Job, environment: dict[str, str]) -> None:
        ran.append(job.name)
        job.process = Child(job)  # type: ignore[assignment]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "run_jobs", run_jobs)
        patch.setattr(running.Job, "start", start)
        patch.setattr(running, "LOOK", 0.02)
        if not whole:
            patch.setattr(comparison, "draw", lambda *_, **__: None)
            patch.setattr(Run, "look_back", lambda run: None)
        yield ran
