"""Several language models as one folder: weights tuned on held-out text, the parts inside, nothing else needed.

    OUT/config.yaml       kind: mixture, the names of the parts and their weights
    OUT/tokenizer.json    the one tokenizer that all of them share
    OUT/NAME/             each part, a model folder of its own

The mathematics is in models/composites/mixture.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anaphora.arguments.checked import checked
from anaphora.arguments.given import files_of, paths_of
from anaphora.data.formats import file_names
from anaphora.errors import UserError, option
from anaphora.evaluation.bits_per_byte import perplexity
from anaphora.files.shared_names import names_of
from anaphora.folder import (
    CARD,
    METRICS,
    atomic_folder,
    read_config,
    recover,
    refuse_existing_folder,
    write_config,
    write_json,
    write_text,
)
from anaphora.interop.conversion import arpa_config, write_arpa_folder
from anaphora.models.composites.parts import (
    Files,
    Mixed,
    MixedPart,
    Path_,
    check_weights,
    copy_model,
    part_names,
    refuse_holding,
)
from anaphora.tasks.base import task_in
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.pipelines.text_model import TextModel


@checked()
def mix(
    out: Path_,
    models: Sequence[Path_],
    *,
    text: Files = (),
    valid_text: Files = (),
    source: Files = (),
    target: Files = (),
    valid_source: Files = (),
    valid_target: Files = (),
    weights: Sequence[float] | None = None,
    mean: str = "probabilities",
    device: str = "auto",
    force: bool = False,
) -> Mixed:
    """Put several models into the new folder `out`, as one: language models (folders or ARPA files that share a
    vocabulary) make a mixture, translators with one target vocabulary an ensemble.

    text: held-out text, of the sort that is wanted and that no part was made of; the weights are those under which it
    is most probable. valid_text: other such text, to see what the mixture is worth. weights: one for each model,
    instead of a text to tune them on. For translators source and target, valid_source and valid_target are such text;
    without it all have one weight. mean: what an ensemble averages, probabilities or logs. See docs/ngrams.md and
    docs/ensembles.md.
    """
    text, valid_text = files_of(text, "text"), files_of(valid_text, "valid_text")
    pairs = {"source": source, "target": target, "valid_source": valid_source, "valid_target": valid_target}
    pairs = {name: files_of(files, name) for name, files in pairs.items()}
    models = paths_of(models, "models")
    if translators := [path for path in models if is_translator(path)]:
        from anaphora.pipelines.ensembling import ensemble

        if odd := next((path for path in models if Path(path).exists() and not is_translator(path)), None):
            what = f"is a translator, and {odd} is none: they have no words to choose together"
            cure = "translators make an ensemble with one another, language models a mixture"
            raise UserError(what, file=translators[0], cure=cure)
        if files := [*text, *valid_text]:
            what = "is text of one language, and a translator is measured on pairs"
            raise UserError(what, file=files[0], cure="give source and target files, or weights")
        return ensemble(out, models, **pairs, weights=weights, mean=mean, device=device, force=force)
    if name := next((name for name, files in pairs.items() if files), None):
        raise UserError(f"{option(name)} is about translators", cure=f"language models take {option('text', 'FILE')}")
    if device not in ("auto", "cpu"):
        raise UserError("language models are mixed on the CPU", cure=f"leave out the device {device}")
    if mean != "probabilities":
        raise UserError("a mixture is a mean of probabilities", cure=f"leave out the mean {mean}")
    from anaphora.data.formats import describe_notes
    from anaphora.models.composites.mixture import tune, weighted_mean
    from anaphora.pipelines.text_model import TextModel

    out = Path(out)
    if len(models) < 2:
        raise UserError(f"a mixture needs at least two models, not {len(models)}", cure="name more of them")
    if weights is not None:
        weights = check_weights(weights, len(models), text)
    refuse_existing_folder(out, force=force)
    refuse_holding(out, models)
    loaded = [TextModel(Path(path)) for path in models]
    _check_fit(loaded, models)
    names = part_names(models)
    notes: Counter[str] = Counter()
    logs = _log_probabilities(loaded, text, notes) if weights is None else None
    tuning = None if logs is None else tune(logs)
    shares = [float(weight) for weight in (weights or ())] if tuning is None else list(tuning.weights)
    valid = _log_probabilities(loaded, valid_text, notes) if valid_text else None
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


def is_translator(path: Path_) -> bool:
    """Whether a folder holds a translator, an ensemble of them included; a file never does."""
    recover(Path(path))
    return Path(path).is_dir() and task_in(read_config(Path(path))).opens_as == "translator"


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


def _log_probabilities(loaded: Sequence[TextModel], text: Files, notes: Counter[str]) -> np.ndarray:
    """log P of each token of a text under each model: (models, N); `notes` counts what was odd about the text."""
    from anaphora.data.formats import read_column
    from anaphora.decoding.text_scoring import is_blank, line_encoder, score_ids

    first, files = loaded[0], file_names(text)
    if not files:
        raise UserError(
            "no text was given to tune the weights on",
            cure=f"add {option('text', 'FILE')}: text that no part was made of; or {option('weights')}",
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
    text: Files,
    valid_text: Files,
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
            "mixture": mixed.kept(),
        },
    )
    write_text(folder / CARD, _card(mixed, text))


def _card(mixed: Mixed, text: Files) -> str:
    name = Path(mixed.folder).resolve().name
    tuned = f"The weights make `{' '.join(names_of(file_names(text)))}` ({mixed.tokens:,} tokens) most probable."
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
