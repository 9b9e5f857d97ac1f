"""Models that are counted: which settings a run of one has. The run itself is counting_run.py. No torch, anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.config import merge
from anaphora.data.data_settings import LanguageData
from anaphora.decoding.decoding_settings import CountingDecoding
from anaphora.errors import UserError
from anaphora.tasks.base import Task, refuse_pairs
from anaphora.tasks.recipes import Document, RunConfig, load_recipe
from anaphora.tokenizers.tokenizer import TextTokenizer
from anaphora.training.training_settings import CountingTraining

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.tasks.learning import LearningRun
    from anaphora.tasks.request import Outcome, Request


class CountingTask(Task):
    """N-grams are counted."""

    name = "counting"
    data = LanguageData
    tokenizer = TextTokenizer
    training = CountingTraining
    decoding = CountingDecoding
    opens_as = "language model"
    learns = False

    def usual_recipe(self, model: Mapping[str, Any]) -> str | None:
        return None

    def counted(self, folder: Path, model: Any) -> bool:
        return True

    def check_files(self, kind: str, data: Mapping[str, Any], recipe: str) -> None:
        refuse_pairs(kind, "a language model", data)
        super().check_files(kind, data, recipe)

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
        return RunConfig.read({"run": {"recipe": recipe, "start_from": start_from}, **merge(load_recipe(recipe), own)})

    def train(self, request: Request, console: Console | None = None) -> Outcome:
        from anaphora.tasks.counting_run import count_run

        return count_run(request, console)

    def try_out(self, folder: Path, request: dict[str, Any]) -> Any:
        from anaphora.tasks.text_proposal import try_whole_run

        return try_whole_run(folder, request)

    def open_run(self, folder: Path, config: RunConfig, device: str) -> LearningRun:
        raise UserError("is a counted model, which has no checkpoints", file=folder, cure="average neural models")
