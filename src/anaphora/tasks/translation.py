"""Translators: which settings a run of one has, what they may be, and what follows from the size of its corpus.

The run itself, which needs torch, is translation_run.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.data.data_settings import TranslationData
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.errors import UserError, option
from anaphora.tasks.base import Task
from anaphora.tasks.recipes import Document, RunConfig, complete
from anaphora.tasks.refusals import check_objective, check_spelling
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.training.training_settings import TranslationTraining

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.tasks.learning import LearningRun
    from anaphora.tasks.request import Outcome, Request


class TranslationTask(Task):
    """One text is turned into another."""

    name = "translation"
    data = TranslationData
    tokenizer = TokenizerConfig
    training = TranslationTraining
    decoding = DecodingConfig
    opens_as = "translator"
    learns_from = "pairs"

    def check_files(self, kind: str, data: Mapping[str, Any], recipe: str) -> None:
        if data.get("text") or data.get("valid_text"):
            cure = f"for {option('text')} use {option('recipe', 'ngram')}, or lstm, say"
            raise UserError(f"{recipe} learns translations", cure=cure)
        super().check_files(kind, data, recipe)

    def check_request(self, request: Request, settings: Document) -> None:
        check_objective(settings.get("training", {}), started=request.start_from is not None)
        if request.start_from is None:  # else model and tokeniser are those of the start
            check_spelling(RunConfig.read(settings))

    def complete(
        self,
        recipe: str,
        own: Document,
        *,
        size: int,
        measured: bool = True,
        start_from: str | None = None,
        start: Mapping[str, Any] | None = None,
    ) -> RunConfig:
        return complete(recipe, own, pairs=size, start_from=start_from, start=start)

    def train(self, request: Request, console: Console | None = None) -> Outcome:
        from anaphora.tasks.translation_run import train

        return train(request, console)

    def open_run(self, folder: Path, config: RunConfig, device: str) -> LearningRun:
        from anaphora.data.preparation import open_prepared
        from anaphora.device import choose_device
        from anaphora.folder import DATA
        from anaphora.tasks.translation_run import Run
        from anaphora.training.reporting import RunReporter

        prepared = open_prepared(folder / DATA)
        return Run(folder, config, prepared, RunReporter(folder, None), choose_device(device))

    def next_command(self, run: Path) -> str:
        return f"translate {run} input.txt"
