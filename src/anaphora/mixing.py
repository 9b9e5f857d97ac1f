"""Several language models as one folder: weights tuned on held-out text, the parts inside, nothing else needed.

    OUT/config.yaml       kind: mixture, the names of the parts and their weights
    OUT/tokenizer.json    the one tokeniser that all of them share
    OUT/NAME/             each part, a model folder of its own

The mathematics is in models/mixture.py.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anaphora.converting import arpa_config, write_arpa_folder
from anaphora.errors import UserError
from anaphora.evaluation.language import perplexity
from anaphora.folder import (
    CARD,
    CONFIG,
    METRICS,
    WEIGHTS,
    atomic_folder,
    publish,
    read_config,
    refuse_existing_folder,
    weights_file,
    write_config,
    write_json,
    write_text,
)
from anaphora.text.formats import file_names
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.text_model import TextModel

Path_ = str | PathLike[str]
RESERVED = {CONFIG, METRICS, CARD, WEIGHTS, "tokenizer.json"}


@dataclass(frozen=True)
class MixedPart:
    """One part, and how it does alone."""

    name: str
    """Of its folder inside the mixture's."""
    model: str
    """Where it came from."""
    weight: float
    perplexity: float | None
    """On the text that weights were tuned on; nothing where they were given."""
    valid_perplexity: float | None


@dataclass(frozen=True)
class Mixed:
    """A mixture that was made."""

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

    def document(self) -> dict[str, Any]:
        return asdict(self)


def mix(
    out: Path_,
    models: Sequence[Path_],
    *,
    text: Path_ | Sequence[Path_] = (),
    valid_text: Path_ | Sequence[Path_] = (),
    weights: Sequence[float] | None = None,
    force: bool = False,
) -> Mixed:
    """Mix language models (folders or ARPA files that share a vocabulary) into the new folder `out`.

    text: held-out text, of the sort that is wanted and that no part was made of; the weights are those under which it
    is most probable. valid_text: other such text, to see what the mixture is worth. weights: one for each model,
    instead of a text to tune them on. See docs/ngrams.md.
    """
    from anaphora.models.mixture import tune, weighted_mean
    from anaphora.text.formats import describe_notes
    from anaphora.text_model import TextModel

    out = Path(out)
    if len(models) < 2:
        raise UserError(f"a mixture needs at least two models, not {len(models)}", cure="name more of them")
    if weights is not None:
        _check_weights(weights, len(models), file_names(text))
    refuse_existing_folder(out, force=force)
    for path in models:
        if (
            out.exists()
            and Path(path).exists()
            and (out.samefile(path) or out.resolve() in Path(path).resolve().parents)
        ):
            raise UserError("is one of the parts itself, or holds it", file=out, cure="choose another folder")
    loaded = [TextModel(Path(path)) for path in models]
    _check_fit(loaded, models)
    names = part_names(models)
    notes: Counter[str] = Counter()
    logs = _log_probabilities(loaded, text, notes) if weights is None else None
    tuning = None if logs is None else tune(logs)
    shares = [float(weight) for weight in (weights or ())] if tuning is None else list(tuning.weights)
    valid = _log_probabilities(loaded, valid_text, notes) if file_names(valid_text) else None
    mixed = Mixed(
        folder=str(out),
        parts=[
            MixedPart(name, str(path), weight, _perplexity(logs, place), _perplexity(valid, place))
            for place, (name, path, weight) in enumerate(zip(names, models, shares))
        ],
        tokens=0 if logs is None else logs.shape[1],
        perplexity=None if logs is None else _perplexity(weighted_mean(logs, shares)[None], 0),
        valid_tokens=0 if valid is None else valid.shape[1],
        valid_perplexity=None if valid is None else _perplexity(weighted_mean(valid, shares)[None], 0),
        rounds=0 if tuning is None else len(tuning.likelihoods) - 1,
        impossible_tokens=0 if tuning is None else tuning.impossible,
        note="; ".join(filter(None, [describe_notes(notes), _overshooting(loaded, names)])),
    )
    with atomic_folder(out) as folder:
        _write(folder, mixed, loaded, models, text, valid_text)
    return mixed


def _check_weights(weights: Sequence[float], models: int, text: Sequence[str]) -> None:
    if text:
        raise UserError(
            "the weights are given, and a text to tune them on",
            cure="leave one of them out; --valid-text measures, and tunes nothing",
        )
    if len(weights) != models:
        raise UserError(f"{models} models have {len(weights)} weights", cure="give one for each, in their order")
    if not all(0 <= weight <= 1 for weight in weights) or not math.isclose(math.fsum(weights), 1, abs_tol=1e-6):
        raise UserError(
            f"the weights {', '.join(f'{weight:g}' for weight in weights)} are not shares of one",
            cure="give numbers between 0 and 1 that sum to 1",
        )


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


def _one_vocabulary(first: TextModel, path: Path_) -> str:
    """How other models get the vocabulary of the first one."""
    if first.tokenizer.split == "blanks":
        return "train all of them with one vocabulary: tokenizer.words=FILE, one word a line"
    return f"train the others on the text of {path}, with {' '.join(first.vocabulary_settings())}"


def _check_fit(loaded: Sequence[TextModel], models: Sequence[Path_]) -> None:
    """Ids of one must mean the same to the other, and lines too."""
    first, *others = loaded
    for path, other in zip(models[1:], others):
        if other.tokenizer.vocabulary_fingerprint() != first.tokenizer.vocabulary_fingerprint():
            sizes = other.tokenizer.vocabulary_size, first.tokenizer.vocabulary_size
            how = (
                f"({sizes[0]:,} tokens, {sizes[1]:,} there)" if sizes[0] != sizes[1] else "(as large, but not the same)"
            )
            raise UserError(
                f"has another vocabulary than {models[0]} {how}, so that an id of one means nothing to the other",
                file=path,
                cure=_one_vocabulary(first, models[0]),
            )
        for what in ("kind", "split"):
            mine, its = getattr(first.tokenizer, what), getattr(other.tokenizer, what)
            if mine != its:
                raise UserError(
                    f"cuts text otherwise than {models[0]}: tokenizer.{what} is {its} here, {mine} there",
                    file=path,
                    cure="train all of them with the same tokenizer settings",
                )
        for what in ("boundaries", "blank_lines"):
            mine, its = getattr(first, what), getattr(other, what)
            if mine != its:
                raise UserError(
                    f"takes lines otherwise than {models[0]}: data.{what} is {its} here, {mine} there",
                    file=path,
                    cure=f"train all of them with the same data.{what}",
                )


def _log_probabilities(loaded: Sequence[TextModel], text: Path_ | Sequence[Path_], notes: Counter[str]) -> np.ndarray:
    """log P of each token of a text under each model: (models, N); `notes` counts what was odd about the text."""
    from anaphora.decoding.language import is_blank, line_encoder, score_ids
    from anaphora.text.formats import read_column

    first, files = loaded[0], file_names(text)
    if not files:
        raise UserError(
            "no text was given to tune the weights on",
            cure="add --text FILE: text that no part was made of; or --weights",
        )
    lines = read_column(files, "text", notes, strict=False)
    kept = [line for line in lines if first.blank_lines == "keep" or not is_blank(line)]
    if not kept:
        raise UserError("there are no lines in this file", file=files[0], cure="give text with at least one line")
    ids, starts = line_encoder(first.tokenizer)(kept)
    return np.stack([score_ids(one.model, ids, starts, first.boundaries)[0].astype(np.float64) for one in loaded])


def _overshooting(loaded: Sequence[TextModel], names: Sequence[str]) -> str:
    """Which parts EM may trust too much: it takes probabilities as they are."""
    found = [name for name, one in zip(names, loaded) if "normalised" not in one.model.capabilities]
    if not found:
        return ""
    return (
        f"the probabilities of {', '.join(found)} need not sum to one (stupid back-off, or a file taken as it is): "
        "where they sum to more, the weight is too high and perplexity too low"
    )


def _perplexity(logs: np.ndarray | None, place: int) -> float | None:
    """Of one row of log P."""
    return None if logs is None else perplexity(float(logs[place].sum()), logs.shape[1])


# -- the folder --------------------------------------------------------------------------------------------------------


def _write(
    folder: Path,
    mixed: Mixed,
    loaded: Sequence[TextModel],
    models: Sequence[Path_],
    text: Path_ | Sequence[Path_],
    valid_text: Path_ | Sequence[Path_],
) -> None:
    for part, one, path in zip(mixed.parts, loaded, models):
        (folder / part.name).mkdir()
        if one.config is None:
            write_arpa_folder(folder / part.name, one, name=part.name)
        else:
            copy_model(Path(path), folder / part.name)
    first = loaded[0]
    settings = arpa_config(1) if first.config is None else first.config
    document = settings.document()
    document["run"] = {"recipe": "mixture", "start_from": None}
    names, weights = [part.name for part in mixed.parts], [part.weight for part in mixed.parts]
    document["model"] = {"kind": "mixture", "parts": names, "weights": weights}
    data = {"boundaries": first.boundaries, "blank_lines": first.blank_lines}
    document["data"] = {"text": file_names(text), "valid_text": file_names(valid_text), **data}
    write_config(folder, document)
    first.tokenizer.save(folder / "tokenizer.json")
    tokenizer = first.tokenizer
    write_json(
        folder / METRICS,
        {
            "anaphora": __version__,
            "finished": True,
            "vocabularies": {"text": tokenizer.vocabulary_fingerprint()},
            "vocabulary": tokenizer.vocabulary_size,
            "mixture": {**mixed.document(), "folder": None},
        },
    )
    write_text(folder / CARD, _card(mixed, text))


def copy_model(source: Path, target: Path) -> None:
    """A model folder without what else a run keeps. Weights are shared with the original where the disk allows: neither
    is ever written into, so neither can change the other."""
    for name in (CONFIG, METRICS, CARD, *(path.name for path in source.glob("tokenizer*.json"))):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    model = read_config(source).get("model") or {}
    if model.get("kind") == "mixture":
        for name in model["parts"]:
            (target / name).mkdir()
            copy_model(source / name, target / name)
    else:
        publish(weights_file(source), target / WEIGHTS)


def _card(mixed: Mixed, text: Path_ | Sequence[Path_]) -> str:
    name = Path(mixed.folder).resolve().name
    tuned = f"The weights make `{' '.join(file_names(text))}` ({mixed.tokens:,} tokens) most probable."
    rows = [
        f"| {part.name} | {part.weight:.4f} | {_shown(part.perplexity)} | {_shown(part.valid_perplexity)} |"
        for part in mixed.parts
    ]
    lines = [
        f"# {name}",
        "",
        f"A mixture of {len(mixed.parts)} language models, made with Anaphora {__version__}: P is the weighted mean of "
        f"what its parts say. {'The weights were given.' if mixed.perplexity is None else tuned}",
        "",
        "| part | weight | perplexity there | on the validation text |",
        "|---|---|---|---|",
        *rows,
        f"| the mixture | | {_shown(mixed.perplexity)} | {_shown(mixed.valid_perplexity)} |",
        "",
        *([f"Of these numbers: {mixed.note}.", ""] if mixed.note else []),
        "## Use",
        "```",
        f"anaphora evaluate {name} --text FILE",
        f'anaphora why {name} "a beginning"',
        "```",
    ]
    return "\n".join(lines) + "\n"


def _shown(perplexity: float | None) -> str:
    return "" if perplexity is None else f"{perplexity:.2f}"
