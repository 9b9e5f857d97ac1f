"""Word vectors: which settings a run has. The run itself is vectors_run.py; nothing of torch is in either."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.config import merge
from anaphora.data.data_settings import VectorsData
from anaphora.decoding.decoding_settings import NoDecoding
from anaphora.errors import UserError, option
from anaphora.models.registry import system
from anaphora.tasks.base import PAIRS, Task
from anaphora.tasks.recipes import Document, RunConfig, load_recipe
from anaphora.tokenizers.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.tasks.learning import LearningRun
    from anaphora.tasks.request import Outcome, Request


class VectorsTask(Task):
    """Every word gets a vector, from the words around it."""

    name = "vectors"
    data = VectorsData
    tokenizer = TextTokenizer
    decoding = NoDecoding
    opens_as = "vectors"
    learns = False
    taken_by = "neighbours, analogy, map, evaluate and info take word vectors"

    def section_class(self, section: str, kind: str) -> type[Any]:
        if section != "training":
            return super().section_class(section, kind)
        found: type[Any] = system(kind).settings_class().training_class()
        return found

    def usual_recipe(self, model: Mapping[str, Any]) -> str | None:
        return str(model.get("algorithm", model.get("kind")))

    def vectors(self, model: Any) -> Any:
        return model

    def check_files(self, kind: str, data: Mapping[str, Any], recipe: str) -> None:
        pairs = any(data.get(name) for name in PAIRS)
        if pairs or data.get("valid_text"):
            what = "pairs" if pairs else "a validation text"
            files = f"{option('text', 'FILE')} (or {option('items', 'FILE')})"
            cure = f"give {files} alone; `anaphora evaluate` measures vectors"
            raise UserError(f"word vectors are learned from plain text, and {what} tells them nothing", cure=cure)
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
        from anaphora.tasks.vectors_run import train_vectors

        return train_vectors(request, console)

    def try_out(self, folder: Path, request: dict[str, Any]) -> Any:
        from anaphora.tasks.text_proposal import try_whole_run

        return try_whole_run(folder, request)

    def open_run(self, folder: Path, config: RunConfig, device: str) -> LearningRun:
        raise UserError("holds word vectors, which have no checkpoints", file=folder, cure="average neural models")

    def next_command(self, run: Path) -> str:
        return f"neighbours {run} WORD"
