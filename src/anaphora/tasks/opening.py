"""A run that is there, opened by its folder: whatever it learns."""

from __future__ import annotations

from pathlib import Path

from anaphora.folder import CONFIG, check_name, read_config
from anaphora.tasks.learning import LearningRun
from anaphora.tasks.recipes import RunConfig


def open_run(folder: Path, device: str = "auto") -> LearningRun:
    """The run of a folder, its model with fresh weights."""
    check_name(folder)
    config = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
    return config.task.open_run(folder, config, device)
