"""A model folder that holds others: their names, their weights, and copies that need nothing else.

What mixtures of language models (pipelines/mixing.py) and ensembles of translators (pipelines/ensembling.py) have in
common.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from anaphora.config import convert
from anaphora.errors import UserError, option, shown
from anaphora.files.foreign import is_there, read_text
from anaphora.files.shared_names import as_wished, by_name, name_of, paths_in, without_folders
from anaphora.folder import (
    CARD,
    CONFIG,
    METRICS,
    WEIGHTS,
    publish,
    read_config,
    read_metrics,
    weights_file,
    write_config,
    write_json,
    write_text,
)
from anaphora.results import brief, figure, html_table

Path_ = str | PathLike[str]
Files = Path_ | Sequence[Path_]
RESERVED = {CONFIG, METRICS, CARD, WEIGHTS, "tokenizer.json"}
BESIDE = ("alignment.json", "dictionary.tsv")
"""What else a translator's folder may hold that it speaks by."""


@dataclass(frozen=True)
class MixedPart:
    """One part, and how it does alone."""

    name: str
    """Of its folder inside that of the whole."""
    model: str
    """Where it came from."""
    weight: float
    perplexity: float | None
    """On the text that weights were tuned on; nothing where they were given."""
    valid_perplexity: float | None


@dataclass(frozen=True)
class Mixed:
    """A mixture or an ensemble that was made."""

    folder: str
    parts: list[MixedPart]
    tokens: int
    perplexity: float | None
    valid_tokens: int
    valid_perplexity: float | None
    rounds: int
    """Of EM; none where the weights were given."""
    impossible_tokens: int
    """Tokens of the tuning text that no part can say: they had no say in the weights."""
    note: str
    """What was odd about the text or the parts; mostly nothing."""

    def __repr__(self) -> str:
        measured = "" if self.perplexity is None else f"perplexity {figure(self.perplexity)}"
        return brief("Mixed", str(self.folder), f"{len(self.parts)} parts", measured)

    def _repr_html_(self) -> str:
        def told(value: float | None) -> str:
            return "" if value is None else figure(value, ",.3f")

        rows = [(one.name, f"{one.weight:.4f}", told(one.perplexity), told(one.valid_perplexity)) for one in self.parts]
        rows.append(("all", "", told(self.perplexity), told(self.valid_perplexity)))
        return html_table(("part", "weight", "perplexity", "on valid text"), rows)

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return asdict(self)

    def kept(self) -> dict[str, Any]:
        """For its metrics.json, which is shared: the names of the parts, without their folders."""
        parts = [{**asdict(part), "model": name_of(part.model)} for part in self.parts]
        return {**asdict(self), "folder": None, "parts": parts}


def part_names(models: Sequence[Path_]) -> list[str]:
    """A name for the folder of each part: its own, made different from the others'."""
    names: list[str] = []
    for path in models:
        own = Path(path).resolve().name
        for ending in (".gz", ".arpa"):
            own = own[: -len(ending)] if own.lower().endswith(ending) else own
        own = own or "model"
        name, number = own, 2
        while name in names or name in RESERVED or name.startswith("."):
            name, number = f"{own.lstrip('.')}-{number}", number + 1
        names.append(name)
    return names


def check_weights(weights: Sequence[float], models: int, tuned_on: Sequence[str]) -> list[float]:
    """Weights of one's own, as numbers: shares of one, and no text to find others on."""
    if tuned_on:
        raise UserError(
            "the weights are given, and a text to tune them on",
            cure=f"leave one of them out; {option('valid_text')} measures, and tunes nothing (of translators "
            f"{option('valid_source')})",
        )
    if isinstance(weights, str | bytes) or not isinstance(weights, Iterable):
        raise UserError(f"weights are {shown.repr(weights)}", cure="give a list of numbers, one for each model")
    weights = [convert(weight, float, name=f"weights[{place}]") for place, weight in enumerate(weights)]
    if len(weights) != models:
        raise UserError(f"{models} models have {len(weights)} weights", cure="give one for each, in their order")
    if not all(0 <= weight <= 1 for weight in weights) or not math.isclose(math.fsum(weights), 1, abs_tol=1e-6):
        raise UserError(
            f"the weights {', '.join(f'{weight:g}' for weight in weights)} are not shares of one",
            cure="give numbers between 0 and 1 that sum to 1",
        )
    return weights


def refuse_holding(out: Path, models: Sequence[Path_]) -> None:
    """A folder cannot become a copy of itself: neither may it be one of the parts, nor hold one."""
    for path in models:
        if (
            out.exists()
            and Path(path).exists()
            and (out.samefile(path) or out.resolve() in Path(path).resolve().parents)
        ):
            raise UserError("is one of the parts itself, or holds it", file=out, cure="choose another folder")


def copy_model(source: Path, target: Path) -> None:
    """A model folder without what else a run keeps. Weights are shared with the original where the disk allows: neither
    is ever written into, so neither can change the other."""
    for name in (*BESIDE, *(path.name for path in source.glob("tokenizer*.json"))):
        if is_there(source / name):
            shutil.copyfile(source / name, target / name)
    document = read_config(source)
    write_config(target, document)
    _copy_description(source, target, document)
    model = document.get("model") or {}
    if "parts" in model:
        for name in model["parts"]:
            (target / name).mkdir()
            copy_model(source / name, target / name)
    else:
        publish(weights_file(source), target / WEIGHTS)


def _copy_description(source: Path, target: Path, document: dict[str, Any]) -> None:
    """The metrics and the card of a model, which name files as its settings do."""
    metrics = read_metrics(source)
    paths = paths_in(document, metrics) if as_wished(document) == by_name(document) else set()
    if metrics:
        write_json(target / METRICS, without_folders(metrics, paths))
    if (source / CARD).is_file():
        with suppress(UserError, ValueError):  # a damaged one says nothing
            write_text(target / CARD, without_folders(read_text(source / CARD), paths))
