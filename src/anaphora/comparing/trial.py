"""How long a row will take: some real updates on its real text, timed, and a validation.

As `anaphora check` does it (tasks/proposal.py), with the run's own trainer; here in this process, since it is asked
for time and not for memory.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from anaphora.device import choose_device
from anaphora.errors import UserError
from anaphora.tasks.learning import LearningRun
from anaphora.tasks.proposal import Enough, on_trial, stopwatch
from anaphora.tasks.recipes import RunConfig
from anaphora.training.interruption import Interrupted
from anaphora.training.loop import Trainer
from anaphora.training.memory import is_out_of_memory

TRIAL_SECONDS = 1.0
"""Of updates."""


NewRun = Callable[[Path, RunConfig, Any, torch.device], LearningRun]
"""(folder, settings, reporter, device): a run as `train` has it."""


def validate(run: LearningRun, trainer: Trainer) -> None:
    """As at a checkpoint."""
    if run.validator is not None:
        run.validator(run.model, autocast=trainer.autocast())


def time_updates(
    config: RunConfig,
    new_run: NewRun,
    device_name: str,
    steps: int,
    *,
    validate: Callable[[LearningRun, Trainer], float | None] = validate,
    seconds: float = TRIAL_SECONDS,
) -> float | None:
    """Seconds that so many updates and the validations between them will take; nothing if it does not even begin: why,
    the run itself will say. validate: does it once, or does a part of it and tells how many such parts there are."""
    device = choose_device(device_name)
    took = _tried(config, new_run, device, steps, validate, seconds)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # the rows need it, and they are other processes
    return took


def _tried(
    config: RunConfig,
    new_run: NewRun,
    device: torch.device,
    steps: int,
    validate: Callable[[LearningRun, Trainer], float | None],
    seconds: float,
) -> float | None:
    trial = on_trial(config.training, on_cpu=device.type == "cpu")
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        watch = stopwatch(Path(name), seconds)
        try:
            run = new_run(Path(name), dataclasses.replace(config, training=trial), watch, device)
            trainer = run.trainer()
            try:
                trainer.fit()
            except Enough:
                pass
            except Interrupted:
                raise KeyboardInterrupt from None
            took, _, updates = watch.pace()
            began = time.perf_counter()
            times = validate(run, trainer)
            validating = (time.perf_counter() - began) * (1.0 if times is None else times)
        except UserError:
            return None
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None
    checkpoints = math.ceil(steps / config.training.checkpoint_every) + 1  # the last: the measure of the final model
    return steps * took / max(updates, 1) + checkpoints * validating
