"""What training on this corpus would be like on this machine: model size, updates, time, memory, by trying it.

A sample of the text is prepared as `train` would prepare all of it, the model that the corpus's size calls for is
built, the largest batch is tried, and a few real updates are made with the run's own trainer and timed. All of that
happens in a process of its own, so that its peak memory is that of a training run and nothing else, and so that running
out of it is a message, not the end.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.config import merge
from anaphora.errors import UserError, first_line
from anaphora.tasks.base import task_in
from anaphora.tasks.recipes import RunConfig, load_recipe
from anaphora.training.training_settings import TrainingConfig

if TYPE_CHECKING:
    pass

SAMPLE_LINES = 20_000  # pairs, or lines, at most
MOST_BYTES = 8_000_000  # of a sample of lines
TRIAL_SECONDS = 8.0  # of updates
MAX_UPDATES = 400  # updates
PATIENCE_FACTOR = 4  # times as long, where the first update alone took all of the time
ENDLESS = 1_000_000_000
LONG_RUN_SECONDS = 2 * 3600.0  # seconds; whoever must wait longer is told what is quicker


def in_a_child(sample: Mapping[str, Sequence[str]], request: dict[str, Any]) -> dict[str, Any]:
    """Try it in a process of its own, with a sample of the text of each side; what it found."""
    request = {**request, "seconds": request.get("seconds") or TRIAL_SECONDS, "sides": list(sample)}
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        folder = Path(name)
        for side, lines in sample.items():
            (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="replace")
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        # -P: not the user's own random.py
        command = [sys.executable, "-P", "-m", "anaphora.tasks.proposal", str(folder)]
        child = subprocess.run(command, capture_output=True, text=True)
        try:
            answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            said = child.stderr.strip().splitlines()
            why = said[-1] if said else f"it ended with code {child.returncode}, perhaps for want of memory"
            raise UserError(f"the trial of training did not end well ({why})", cure="take a smaller recipe") from None
    if "error" in answer:
        raise UserError(answer["error"])
    return answer


def on_trial(training: TrainingConfig, *, on_cpu: bool) -> TrainingConfig:
    """The settings of a run that goes on until a stopwatch ends it."""
    return dataclasses.replace(
        training,
        compile="off",  # compiling takes longer than the trial
        max_steps=ENDLESS,
        epochs=None,
        max_tokens=None,
        max_minutes=None,
        checkpoint_every=ENDLESS,
        log_every=1 if on_cpu else 10,  # looking makes a GPU wait
    )


def slow_notes(config: RunConfig, steps: int | None, update_seconds: float) -> list[str]:
    """What is quicker, for whoever must wait long."""
    if steps is None or steps * update_seconds <= LONG_RUN_SECONDS:
        return []
    quicker = [*config.task.quicker(config), "a limit such as training.max_minutes=60"]
    return [f"quicker, and less good: {' or '.join(quicker)}"]


class Enough(Exception):
    """The trial has lasted long enough."""


def stopwatch(folder: Path, limit: float) -> Any:
    """A reporter that notes the time of every report, and ends the trial when its time is over."""
    from anaphora.training.reporting import RunReporter

    class Stopwatch(RunReporter):
        def start(self, progress: Any, total: int | None, limit: float | None = None) -> None:
            super().start(progress, total, limit)
            self.marks = [(time.perf_counter(), 0, 0)]  # clock, tokens, updates

        def update(self, update: Any, progress: Any) -> None:
            update.loss.item()  # a GPU has done what it was asked for
            self.marks.append((time.perf_counter(), progress.tokens, progress.step))
            passed = self.marks[-1][0] - self.marks[0][0]
            patient = (
                len(self.marks) < 4 and passed < PATIENCE_FACTOR * limit
            )  # the first may take as long as a hundred
            if (passed > limit and not patient) or progress.step >= MAX_UPDATES:
                raise Enough

        def pace(self) -> tuple[float, int, int]:
            """Seconds, tokens and updates of the second half: the first may still warm up, or record graphs."""
            first = self.marks[len(self.marks) // 2 if len(self.marks) > 6 else len(self.marks) > 2]
            return tuple(b - a for a, b in zip(first, self.marks[-1]))  # type: ignore[return-value]

    return Stopwatch(folder, None)


def main(folder: Path) -> None:
    from anaphora.training.memory import is_out_of_memory

    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    try:
        task = task_in(merge(load_recipe(request["recipe"]), request["own"]))
        answer: dict[str, Any] = dataclasses.asdict(task.try_out(folder, request))
    except UserError as error:
        answer = {"error": str(error)}
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        answer = {"error": f"memory ran out ({first_line(error)}); take a smaller recipe"}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
