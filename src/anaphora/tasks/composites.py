"""Models that are put together of others (`anaphora mix`): their folders are read, and nothing of them is trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from anaphora.config import merge
from anaphora.data.data_settings import LanguageData, TranslationData
from anaphora.decoding.decoding_settings import CountingDecoding, DecodingConfig
from anaphora.errors import UserError
from anaphora.folder import CONFIG, read_config
from anaphora.tasks.base import Task
from anaphora.tasks.recipes import Document, RunConfig, load_recipe
from anaphora.tokenizers.tokenizer import TextTokenizer, TokenizerConfig
from anaphora.training.training_settings import CountingTraining, TranslationTraining

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.tasks.learning import LearningRun
    from anaphora.tasks.request import Outcome, Request


class CompositeTask(Task):
    """Several models speak as one."""

    learns = False
    holds_others = True
    trained: ClassVar[str]
    """What is trained in its place."""

    def usual_recipe(self, model: Mapping[str, Any]) -> str | None:
        return None

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
        return RunConfig.read(merge(load_recipe(recipe), own))

    def train(self, request: Request, console: Console | None = None) -> Outcome:
        raise self._refusal()

    def check_files(self, kind: str, data: Mapping[str, Any], recipe: str) -> None:
        raise self._refusal()

    def try_out(self, folder: Path, request: dict[str, Any]) -> Any:
        raise self._refusal()

    def _refusal(self) -> UserError:
        cure = f"train its {self.trained}, then put them together: anaphora mix"
        return UserError(f"{'a mixture' if self.name == 'mixture' else self.noun} is not trained", cure=cure)


class EnsembleTask(CompositeTask):
    """Translators that choose every word together."""

    name = "ensemble"
    data = TranslationData
    tokenizer = TokenizerConfig
    training = TranslationTraining
    decoding = DecodingConfig
    opens_as = "translator"
    learns_from = "pairs"
    trained = "members"

    def translator(self, model: Any) -> Any:
        raise UserError("an ensemble has no model of its own", cure="give one of its members, a folder inside it")

    def open_run(self, folder: Path, config: RunConfig, device: str) -> LearningRun:
        raise UserError("is an ensemble, which has no checkpoints", file=folder, cure="average its members' runs")


class MixtureTask(CompositeTask):
    """Language models whose probabilities are averaged."""

    name = "mixture"
    data = LanguageData
    tokenizer = TextTokenizer
    training = CountingTraining
    decoding = CountingDecoding
    opens_as = "language model"
    trained = "parts"

    def counted(self, folder: Path, model: Any) -> bool:
        parts = [folder / name for name in model.parts]
        configs = [RunConfig.read(read_config(part), file=str(part / CONFIG)) for part in parts]
        return all(config.task.counted(part, config.model) for part, config in zip(parts, configs))

    def open_run(self, folder: Path, config: RunConfig, device: str) -> LearningRun:
        raise UserError("is a counted model, which has no checkpoints", file=folder, cure="average neural models")
