"""Neural language models, masked ones and classifiers: which settings a run of one has.

The run itself, which needs torch, is language_run.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from anaphora.data.data_settings import ClassificationData, LanguageData
from anaphora.decoding.decoding_settings import LanguageDecoding
from anaphora.models.language.language_settings import OF_CLASSIFIERS
from anaphora.models.registry import system
from anaphora.tasks.base import Task, refuse_pairs
from anaphora.tasks.recipes import Document, RunConfig
from anaphora.tasks.text_sizes import complete_text
from anaphora.tokenizers.tokenizer import TextTokenizer
from anaphora.training.training_settings import ClassificationTraining, LanguageTraining, MaskedTraining

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.tasks.learning import LearningRun
    from anaphora.tasks.request import Outcome, Request

TEXT_SIZES = (350_000, 1_000_000, 12_000_000)
"""Tokens of a text, one number for each size that decides otherwise."""
FEWEST, MOST = 20_000, 500_000_000
"""Tokens of texts that are shorter and longer than all of these: what is the same of all follows from the kind."""


class LanguageTask(Task):
    """Each word is guessed from those before it."""

    name = "language"
    data = LanguageData
    tokenizer = TextTokenizer
    training: ClassVar[type[Any]] = LanguageTraining
    decoding = LanguageDecoding
    opens_as = "language model"
    takes_labels = True
    labeled = False
    sizes = (FEWEST, *TEXT_SIZES, MOST)

    def variant(self, kind: str, *, labeled: bool) -> Task:
        if labeled:
            return ClassificationTask()
        return MaskedTask() if getattr(system(kind).settings_class(), "masked", False) else self

    def neural(self, model: Any) -> Any:
        return model

    def sized_by_bytes(self, config: RunConfig) -> set[tuple[str, str]]:
        cut = config.tokenizer.kind in ("bpe", "unigram") and config.tokenizer.vocabulary is None
        return {("data", "hold_out"), *([("tokenizer", "vocabulary")] if cut else [])}

    def check_files(self, kind: str, data: Mapping[str, Any], recipe: str) -> None:
        refuse_pairs(kind, "a language model", data)

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
        manifest = {"train": {"tokens": size}, "valid": {"tokens": 1} if measured else {}}
        return complete_text(recipe, own, manifest, labeled=self.labeled)

    def train(self, request: Request, console: Console | None = None) -> Outcome:
        from anaphora.tasks.language_run import train_text

        return train_text(request, console)

    def try_out(self, folder: Path, request: dict[str, Any]) -> Any:
        from anaphora.tasks.text_proposal import try_some_updates

        return try_some_updates(folder, request)

    def open_run(self, folder: Path, config: RunConfig, device: str) -> LearningRun:
        from anaphora.data.prepared_text import open_text
        from anaphora.device import choose_device
        from anaphora.folder import DATA
        from anaphora.tasks.language_run import LanguageRun
        from anaphora.training.reporting import RunReporter

        text = open_text(folder / DATA)
        return LanguageRun(folder, config, text, RunReporter(folder, None), choose_device(device))


class MaskedTask(LanguageTask):
    """Hidden words are guessed from those on both sides."""

    training = MaskedTraining

    def next_command(self, run: Path) -> str:
        return f'fill {run} "some words and a ____ ."'


class ClassificationTask(LanguageTask):
    """Whole texts are told apart, as those were that have labels."""

    data = ClassificationData
    training = ClassificationTraining
    labeled = True
    taken_by = "classify and evaluate take classifiers"

    @property
    def noun(self) -> str:
        return "a classifier"

    def described(self, kind: str) -> str:
        return f"a classifier of kind {kind}"

    def meaning(self, section: str, model: Any) -> list[str]:
        known = super().meaning(section, model)
        return [*known, *(name for name in OF_CLASSIFIERS if name not in known)] if section == "model" else known

    def next_command(self, run: Path) -> str:
        return f"classify {run} input.txt"
