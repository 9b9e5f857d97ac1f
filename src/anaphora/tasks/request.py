"""What a run is asked for, and how it ended: what counting and learning have in common, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from anaphora.config import merge, overrides
from anaphora.errors import UserError, option
from anaphora.folder import read_config
from anaphora.models import DEFAULT, named_by_decoder, with_encoder_section
from anaphora.models.model_file import choose, open_model_file
from anaphora.results import Facts, brief, count, figure
from anaphora.tasks.base import PAIRS, Task, task_of
from anaphora.tasks.recipes import (
    SECTIONS,
    Document,
    RunConfig,
    load_recipe,
    training_said,
)


@dataclass
class Request:
    """What the user asks for: the arguments of `anaphora train`."""

    run: Path
    own: Document
    """Settings said by the user, files included, by section."""
    recipe: str = "transformer"
    start_from: Path | None = None
    device: str = "auto"
    force: bool = False


@dataclass
class Outcome:
    """How a run ended."""

    folder: Path
    """The run, which is a model folder too."""
    reason: str
    """Why training ended."""
    steps: int
    """Updates made, those of earlier calls included."""
    tokens: int
    """Tokens learned from, repeated ones counted again."""
    seconds: float
    """That this and earlier calls trained."""
    flops: float
    """Floating-point operations of the whole training."""
    parameters: int
    """Of the model."""
    weights: str
    """Which weights the model folder has: those of the best checkpoint, a mean, the last ones."""
    validation: dict[str, Any] = field(default_factory=dict)
    """The scores on the validation text."""
    kind: str = "transformer"
    """What was trained: model.kind."""

    def __repr__(self) -> str:
        from anaphora.training.reporting import describe, duration

        scores = describe(self.validation).replace("  ", ", ")
        return brief(type(self).__name__, str(self.folder), self.reason, scores, duration(self.seconds))

    def next_command(self) -> str:
        """What to do with it, as one types it after `anaphora`."""
        labeled = "accuracy" in self.validation
        return task_of(self.kind, labeled=labeled).next_command(self.folder)


class Average(Facts):
    """How the mean of some checkpoints compares with the model that was there, and which of them was kept: a dict."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        end = "undone" if facts.get("undone") else "kept" if facts["kept"] else "not kept"
        number, metric = len(facts.get("averaged", ())), facts.get("metric", "")
        found = [facts[when][metric] for when in ("before", "after") if facts.get(when)]
        scores = f"{metric} {' → '.join(figure(score, '.4f') for score in found)}" if found else ""
        super().__init__(facts, facts["folder"], count(number, "checkpoint") if number else "", scores, end)


def said_settings(words: Iterable[str]) -> Document:
    """`["training.seed=3", …]` as sections; whoever leaves the section out is told which ones have that setting."""

    def places(key: str) -> list[str]:
        from anaphora.tasks.settings_listing import every_setting

        return list(dict.fromkeys(one.section for one in every_setting() if one.key == key))

    return overrides(words, SECTIONS, places)


def choose_recipe(data: Mapping[str, Any], start_from: Path | None = None) -> str:
    """The recipe of those who name none: plain text is counted, labels are learned by a Transformer that reads both
    ways, pairs by one that translates; whoever starts from a trained model stays with its kind."""
    file_of_vectors = start_from is not None and start_from.is_file()
    model = (read_config(start_from).get("model") or {}) if start_from is not None and not file_of_vectors else {}
    pairs = not data.get("text") or any(data.get(name) for name in PAIRS)
    if "kind" in model:
        its = task_of(model["kind"])
        usual = its.usual_recipe(model) if (its.learns_from == "pairs") == pairs else None
        if usual is not None:
            return usual
    if pairs:
        return DEFAULT
    if data.get("items") or file_of_vectors:
        return "skipgram"
    return "transformer-encoder" if data.get("labels") else "ngram"


def filled(recipe: str, own: Document, data: Mapping[str, Any], start_from: Path | None = None) -> Document:
    """The user's settings, with what a recipe leaves open that names no kind of model (a file of one's own): it is then
    said as by the recipe that would be taken without it."""
    said = load_recipe(recipe)
    whole = merge(said, own).get("model", {})
    if {"kind", "decoder"} & whole.keys():
        if "model" in own:
            own = {**own, "model": with_encoder_section(own["model"], named_by_decoder(whole), twice=False)}
        return own
    usual = load_recipe(choose_recipe(data, start_from))
    if start_from is not None:  # the rest is as it was there
        usual = {"model": usual["model"]}
    return merge(usual, said, own)


def with_model_file(model: str | PathLike[str], recipe: str | None, own: Document) -> tuple[str | None, Document]:
    """Recipe and settings of a run with the system that a file of the user's own registers. Who names a recipe, or a
    kind, that has none of it as its model is taken to have its encoder in mind, and must name that."""
    said = {**({} if recipe is None else load_recipe(recipe).get("model", {})), **own.get("model", {})}
    mine, kind, reader = open_model_file(model), said.get("kind"), said.get("encoder")
    if (reader.get("kind") if isinstance(reader, Mapping) else reader) in mine:
        return recipe, own
    if not {"kind", "decoder"} & said.keys():
        kind = choose(model, ("language",) if own.get("data", {}).get("text") else ("translation",)).kind
        own = own if recipe is None else merge(own, {"model": {"kind": kind}})
    elif not mine.keys() & {kind, said.get("decoder")}:
        cure = f"leave out {option('recipe')}, or name one of them: model.kind={next(iter(mine))}"
        raise UserError(f"registers {', '.join(mine)}, and {recipe or kind} has nothing of that", file=model, cure=cure)
    return recipe or kind, own


def check_files(request: Request) -> Task:
    """The task that is asked for; a misspelled setting, or text of the wrong sort for it, is said before any work."""
    recipe = load_recipe(request.recipe)
    settings = merge(recipe, request.own)
    data = settings.get("data", {})
    text, pairs = data.get("text") or data.get("valid_text"), any(data.get(name) for name in PAIRS)
    if text and pairs:
        raise UserError(
            "both text and pairs are given: one model learns from one of them",
            cure=f"give {option('text')} for a language model, or {option('source')} and {option('target')} "
            "for a translator",
        )
    if pairs and (data.get("labels") or data.get("valid_labels")):
        raise UserError(
            "labels tell the lines of one text apart, and a translator learns from pairs",
            cure=f"leave out {option('labels')}, or give {option('text', 'FILE')} instead of {option('source')} and "
            f"{option('target')}",
        )
    settings = {**settings, "training": training_said(recipe, request.own)}
    config = RunConfig.read(settings)
    kind, task = config.model.kind, config.task
    task.check_files(kind, data, request.recipe)
    if request.own.get("model", {}).get("labels"):
        raise UserError("model.labels are found in the labels themselves", cure=f"give {option('labels', 'FILE')}")
    try:
        said = with_encoder_section(named_by_decoder(settings.get("model", {})))  # under the names that they have there
        task.refuse_foreign(config.model, {**settings, "model": said})
    except UserError as error:
        if "kind" in recipe.get("model", {}):
            raise
        cure = f"{error.cure}, or name the kind that you mean: model.kind=lstm, say"
        raise UserError(error.what, file=request.recipe, cure=cure) from None
    task.check_request(request, settings)
    if (vectors := request.own.get("model", {}).get("embedding_from")) is not None:
        if request.start_from is not None:
            what = f"{option('start_from')} has a table of words, and so has model.embedding_from"
            raise UserError(what, cure="leave one of them out")
        if not Path(str(vectors)).exists():
            raise UserError("there is no such folder or file of word vectors", file=str(vectors), cure="mend its name")
    return task
