"""A run that is there, opened by its folder: whatever kind of model it learns."""

from __future__ import annotations

from pathlib import Path

from anaphora.device import choose_device
from anaphora.errors import UserError
from anaphora.folder import CONFIG, DATA, check_name, read_config
from anaphora.models import COUNTED_MODELS, ENSEMBLES, NEURAL_MODELS, VECTOR_MODELS
from anaphora.tasks.learning import LearningRun
from anaphora.tasks.recipes import RunConfig
from anaphora.training.reporting import RunReporter


def open_run(folder: Path, device: str = "auto") -> LearningRun:
    """The run of a folder, its model with fresh weights."""
    check_name(folder)
    config = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
    kind = config.model.kind
    if kind in COUNTED_MODELS:
        raise UserError("is a counted model, which has no checkpoints", file=folder, cure="average neural models")
    if kind in ENSEMBLES:
        raise UserError("is an ensemble, which has no checkpoints", file=folder, cure="average its members' runs")
    if kind in VECTOR_MODELS:
        raise UserError("holds word vectors, which have no checkpoints", file=folder, cure="average neural models")
    if kind in NEURAL_MODELS:
        from anaphora.data.prepared_text import open_text
        from anaphora.tasks.language_modelling import LanguageRun

        text = open_text(folder / DATA)
        return LanguageRun(folder, config, text, RunReporter(folder, None), choose_device(device))
    from anaphora.data.preparation import open_prepared
    from anaphora.tasks.translation import Run

    prepared = open_prepared(folder / DATA)
    return Run(folder, config, prepared, RunReporter(folder, None), choose_device(device))
