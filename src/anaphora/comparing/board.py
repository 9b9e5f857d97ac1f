"""What a person sees while rows run: a bar for each on a terminal, a line for each that begins or ends elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anaphora.comparing.running import Job
from anaphora.comparing.task import Column
from anaphora.errors import UserError, printable
from anaphora.files.foreign import open_file
from anaphora.folder import LOGS
from anaphora.training.bars import live_bar
from anaphora.training.reporting import duration

if TYPE_CHECKING:
    from rich.console import Console

TAIL_BYTES = 2000
"""Bytes at the end of a log in which its last line is found."""


class Board:
    """Used as a context: its bars go when the block ends."""

    def __init__(self, console: Console | None, steps: Mapping[str, int | None]) -> None:
        self.console, self.steps = console, steps
        self.bars: Any = None
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Board:
        self.bars = live_bar(self.console)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def start(self, job: Job) -> None:
        if self.bars is not None:
            self.tasks[job.name] = self.bars.add_task(job.name, total=self.steps.get(job.name), say="beginning")
        else:
            self.say(f"{job.name}: begins")

    def look(self, running: Sequence[Job]) -> None:
        if self.bars is None:
            return
        for job in running:
            if record := last_record(job):
                say = f"step {record['step']}  loss {record['loss']:.3f}  {duration(record['seconds'])}"
                self.bars.update(self.tasks[job.name], completed=record["step"], say=say)

    def end(self, job: Job, row: Mapping[str, Any], quality: Column) -> None:
        if self.bars is not None:
            self.bars.update(self.tasks.pop(job.name), visible=False)
        if row["state"] == "finished":
            reached = "not measured yet" if row.get(quality.key) is None else quality.form(row[quality.key])
            self.say(f"{job.name}: {reached} {quality.head} after {duration(row['seconds'])}")
        else:
            self.say(f"{job.name}: failed: {row['error']} ({job.log})")

    def say(self, text: str) -> None:
        if self.console is not None:
            self.console.print(
                printable(text, lines=True), markup=False, highlight=False, soft_wrap=not self.console.is_terminal
            )


def last_record(job: Job) -> dict[str, Any] | None:
    """The newest update that a run has logged."""
    try:
        with open_file(job.run / LOGS / "log.jsonl") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - TAIL_BYTES))
            lines = log.read().splitlines()
    except (OSError, UserError):
        return None
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:  # it is being written
            continue
        if isinstance(record, dict) and record.get("kind") == "update":
            return record
    return None
