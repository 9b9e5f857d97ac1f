"""How long a language model will take: some real updates on its real text, timed, and one validation.

As `anaphora check` does it for translators (training/proposal.py), with the run's own trainer; here in this process,
since it is asked for time and not for memory.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from pathlib import Path

from anaphora.device import choose_device
from anaphora.errors import UserError
from anaphora.text.language_corpus import PreparedText
from anaphora.training.language import LanguageRun
from anaphora.training.memory import is_out_of_memory
from anaphora.training.proposal import Enough, on_trial, stopwatch
from anaphora.training.recipes import RunConfig
from anaphora.training.request import Interrupted

SECONDS = 1.0
"""Of updates."""


def time_updates(
    config: RunConfig, prepared: PreparedText, device_name: str, steps: int, *, seconds: float = SECONDS
) -> float | None:
    """Seconds that so many updates and the validations between them will take; nothing if it does not even begin: why,
    the run itself will say."""
    device = choose_device(device_name)
    trial = on_trial(config.training, on_cpu=device.type == "cpu")
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        watch = stopwatch(Path(name), seconds)
        try:
            run = LanguageRun(Path(name), dataclasses.replace(config, training=trial), prepared, watch, device)
            trainer = run.trainer()
            try:
                trainer.fit()
            except Enough:
                pass
            except Interrupted:
                raise KeyboardInterrupt from None
            took, _, updates = watch.pace()
            validating = 0.0
            if run.validator is not None:
                began = time.perf_counter()
                run.validator(run.model, autocast=trainer.autocast())
                validating = time.perf_counter() - began
        except UserError:
            return None
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None
    checkpoints = math.ceil(steps / config.training.checkpoint_every) + 1  # the last: the measure of the final model
    return steps * took / max(updates, 1) + checkpoints * validating
