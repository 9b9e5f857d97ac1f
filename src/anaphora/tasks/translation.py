"""Translators: which settings a run of one has, what they may be, and what follows from the size of its corpus.

The run itself, which needs torch, is translation_run.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.config import merge
from anaphora.data.data_settings import TranslationData
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.errors import UserError, option
from anaphora.models import DEFAULT
from anaphora.models.registry import system
from anaphora.tasks.base import Task
from anaphora.tasks.recipes import Document, RunConfig, inherit, load_recipe, named_by_kind, training_said
from anaphora.tasks.refusals import check, check_objective, check_spelling, has_dropout
from anaphora.tasks.sequence_sizes import whole_translations
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.training.training_settings import LIMITS, TranslationTraining

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.models.translation.translator_settings import TranslatorConfig
    from anaphora.tasks.learning import LearningRun
    from anaphora.tasks.request import Outcome, Request

CORPUS_SIZES = (5_000, 50_000, 150_000, 500_000, 5_000_000)
"""Pairs of a parallel corpus, one number for each size that decides otherwise."""


class TranslationTask(Task):
    """One text is turned into another."""

    name = "translation"
    data = TranslationData
    tokenizer = TokenizerConfig
    training = TranslationTraining
    decoding = DecodingConfig
    opens_as = "translator"
    learns_from = "pairs"
    sizes = CORPUS_SIZES

    def translator(self, model: Any) -> Any:
        return model

    def quicker(self, config: RunConfig) -> list[str]:
        quicker = [] if config.recipe == "tiny" else [option("recipe", "tiny")]
        return quicker + (["training.consistency=0"] if config.training.consistency else [])

    def check_files(self, kind: str, data: Mapping[str, Any], recipe: str) -> None:
        if data.get("text") or data.get("valid_text"):
            cure = f"for {option('text')} use {option('recipe', 'ngram')}, or lstm, say"
            raise UserError(f"{recipe} learns translations", cure=cure)
        super().check_files(kind, data, recipe)

    def check_request(self, request: Request, settings: Document) -> None:
        check_objective(settings.get("training", {}), started=request.start_from is not None)
        if request.start_from is None:  # else model and tokenizer are those of the start
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
        return complete_pairs(recipe, own, pairs=size, start_from=start_from, start=start)

    def train(self, request: Request, console: Console | None = None) -> Outcome:
        from anaphora.tasks.translation_run import train

        return train(request, console)

    def try_out(self, folder: Path, request: dict[str, Any]) -> Any:
        from anaphora.tasks.pair_proposal import attempt

        return attempt(folder, request)

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


def sized_to(pairs: int, recipe: Document, kind: str = "transformer") -> Document:
    """Starting points by corpus size and kind of translator, for whatever the recipe leaves open.

    Small corpora want small, strongly regularized models and many epochs; large ones the published sizes. Validation
    decides when to stop, so the number of updates is a ceiling.
    """
    cls: type[TranslatorConfig] = system(kind).settings_class()
    model, training = cls.sized(pairs)
    # about 20 tokens a pair: 60 epochs of a small corpus, few of a large one, between 2,000 and 100,000 updates
    tokens = cls.tokens_a_pair * pairs
    updates = 60 * tokens / (training["batch_tokens"] * training.get("accumulate", 1))
    training["max_steps"] = int(min(100_000, max(2_000, round(updates, -3))))
    training["checkpoint_every"] = max(100, min(2_000, training["max_steps"] // 20))
    training["patience"] = 8
    if "model" in recipe and set(recipe["model"]) - SYSTEM:  # the recipe has a size of its own
        model = {}
    return {"model": model, "training": training}


SYSTEM = {"kind", "encoder", "decoder"}
"""Settings of a model that say which one it is, not how large."""


def complete_pairs(
    recipe: str, own: Document, *, pairs: int, start_from: str | None = None, start: Mapping[str, Any] | None = None
) -> RunConfig:
    """The full settings of a run over that many pairs; `own` is what the user said, `start` the settings of the model
    that the run starts from."""
    chosen, own = named_by_kind(load_recipe(recipe), own)
    kind = merge(chosen, own).get("model", {}).get("kind", DEFAULT)
    sized = sized_to(pairs, chosen, str(kind) if start is None else str(start["model"].get("kind")))
    if start is not None:  # fine-tuning: the model is what it is, and learns on gently
        chosen, sized["model"] = inherit(chosen, start), {}
        sized["training"] |= {"learning_rate": sized["training"]["learning_rate"] / 4, "warmup_steps": 100}
    said = training_said(chosen, own)
    check_objective(said, started=start is not None)
    if said.get("objective", "likelihood") != "likelihood":
        mine = own.get("training", {})
        sized["training"] |= whole_translations(pairs, said["optimizer"])
        sized["training"]["metric"] = said.get("reward", "gleu")
        if "objective" in mine:  # the recipe's own rates and limits are for learning from nothing
            kept = {key: value for key, value in chosen.get("training", {}).items() if key not in sized["training"]}
            chosen, said = {**chosen, "training": kept}, {**kept, **mine}
    if any(limit in said for limit in LIMITS[:-1]):
        sized["training"].pop("max_steps")  # whoever says how far to go is not stopped before
    document = merge(sized, chosen, own)
    if "consistency" not in said and not has_dropout(RunConfig.read(document)):
        document["training"]["consistency"] = 0.0  # two draws of no dropout are the same
    training = document["training"]
    if "schedule" not in said and all(training.get(limit) is None for limit in LIMITS[:-1]):
        training["schedule"] = "inverse-sqrt"  # cosine needs to know how long the run is
    shared = document.get("tokenizer", {}).get("shared", True)
    tied = document.setdefault("model", {}).get("tie", "all") == "all"
    if not shared and tied and "tie" not in own.get("model", {}) and start is None:
        document["model"]["tie"] = "target"  # two vocabularies cannot share one table
    config = RunConfig.read({"run": {"recipe": recipe, "start_from": start_from}, **document})
    check(config)
    return config
