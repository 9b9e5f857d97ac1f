"""Rows as recipes with settings: what a row is told by those of all rows, by its own, and by the budget."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anaphora.comparing.budget import LIMITS, Budget
from anaphora.comparing.rows import Entry
from anaphora.comparing.task import Plan, Task
from anaphora.config import merge, names
from anaphora.errors import UserError, option
from anaphora.folder import publish, read_metrics
from anaphora.models import settings_class
from anaphora.tasks.base import PAIRS, task_of
from anaphora.tasks.recipes import Document, load_recipe
from anaphora.tasks.request import Request, check_files
from anaphora.training.training_settings import TrainingConfig

FILES = (*PAIRS, "text", "valid_text")
"""Settings of section `data` that name files: their content is compared, not their names."""


def planned_tokens(training: TrainingConfig, an_epoch: float, an_update: float) -> int | None:
    """Tokens until the first limit that says; nothing where only time does. an_epoch, an_update: tokens of one."""
    plans = [] if training.max_tokens is None else [float(training.max_tokens)]
    plans += (
        []
        if training.epochs is None
        else [(training.epochs + min(training.epochs, training.bidirectional_epochs)) * an_epoch]
    )
    plans += [] if training.max_steps is None else [training.max_steps * an_update]
    return math.ceil(min(plans)) if plans else None


def share_text(folder: Path, there: Path, manifest: str) -> None:
    """Give a run prepared text under second names of the same files, unless it has some; the manifest, which makes it
    whole, comes last."""
    if (there / manifest).exists():
        return
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for file in sorted(files, key=lambda file: file == folder / manifest):
        copy = there / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        publish(file, copy)


class RecipeTask(Task):
    """A task whose rows are recipes of `anaphora train`."""

    alone: Sequence[str]
    """Sections that no row may set for itself, since all share their text."""

    def __init__(self, common: Document, own: Document, device: str) -> None:
        """common: said to every row; own: of the settings of all rows the others, which hold where they mean
        something."""
        self.common, self.own, self.device = common, own, device

    # -- what a row is told --------------------------------------------------------------------------------------------

    def kind(self, entry: Entry) -> str:
        return str(merge(load_recipe(entry.recipe), entry.settings).get("model", {}).get("kind", "transformer"))

    def own_of(self, entry: Entry) -> Document:
        """Of the settings of all rows, those that mean something to this one."""
        kind, found = self.kind(entry), {}
        for section, values in self.own.items():
            its = settings_class(kind) if section == "model" else task_of(kind).section_class(section, kind)
            if known := {key: value for key, value in values.items() if key in names(its)}:
                found[section] = known
        return found

    def request(self, entry: Entry, limits: Mapping[str, Any] | None = None) -> Request:
        own = merge(self.common, self.own_of(entry), entry.settings, {"training": limits} if limits else {})
        return Request(run=Path(entry.name), own=own, recipe=entry.recipe, device=self.device)

    # -- mistakes ------------------------------------------------------------------------------------------------------

    def check(self, entry: Entry, budget: Budget | None) -> None:
        for section in self.alone:
            if entry.settings.get(section):
                name = f"{section}.{next(iter(entry.settings[section]))}"
                raise UserError(
                    f"{name} is set for the row {entry.name} alone, and all rows share their text",
                    cure=f"set it for all: {option('settings', [name + '=…'], shell=f'--set {name}=…')}",
                )
        request = self.request(entry)
        try:
            check_files(request)
        except UserError as error:
            raise UserError(f"row {entry.name}: {error.what}", file=error.file, cure=error.cure) from None
        for limit in LIMITS:
            if budget is not None and request.own.get("training", {}).get(limit) is not None:
                raise UserError(
                    f"row {entry.name}: training.{limit} and {option('budget')} both say how far to go",
                    cure="leave one of them out",
                )

    def check_settings(self, entries: Sequence[Entry]) -> None:
        """A setting of all rows that means nothing to any of them is a mistake."""
        for section, values in self.own.items():
            for key in values:
                if not any(key in self.own_of(entry).get(section, {}) for entry in entries):
                    raise UserError(f"{section}.{key} means nothing to any row", cure="leave it out")

    # -- the command ---------------------------------------------------------------------------------------------------

    def arguments(self, entry: Entry, plan: Plan, run: Path) -> list[str]:
        data = plan.settings["data"]
        files = [f"--{key.replace('_', '-')}={name}" for key in FILES for name in data.get(key, [])]
        said = [
            f"{section}.{key}={json.dumps(value)}"
            for section, values in plan.settings.items()
            for key, value in values.items()
            if key not in FILES and not (section == "tokenizer" and value is None)
        ]
        where = [] if plan.counted else [f"--device={self.device}"]
        return ["train", str(run), *files, f"--recipe={entry.recipe}", *where, *said]

    def finished(self, run: Path) -> bool:
        metrics = read_metrics(run)
        return metrics.get("finished") is True or metrics.get("finished_step") is not None
