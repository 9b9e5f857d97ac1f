"""Several translators as one folder: weights equal, given, or tuned on held-out pairs; the members inside.

    OUT/config.yaml       kind: ensemble, the names of the members and their weights, how to speak
    OUT/NAME/             each member, a model folder of its own with its tokenizers

The mathematics is in models/composites/ensemble.py; what can be done with it, in pipelines/ensemble_model.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from anaphora.data.formats import file_names, read_rows, same_table
from anaphora.errors import UserError, nearest, option
from anaphora.evaluation.bits_per_byte import perplexity
from anaphora.files.shared_names import name_of, names_of
from anaphora.folder import (
    CARD,
    METRICS,
    atomic_folder,
    refuse_existing_folder,
    write_config,
    write_json,
    write_text,
)
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
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.models.translation.translator_settings import Mean
    from anaphora.pipelines.ensemble_model import EnsembleModel
    from anaphora.pipelines.translation_model import TranslationModel

MEANS = ("probabilities", "logs")


def ensemble(
    out: Path_,
    models: Sequence[Path_],
    *,
    source: Files = (),
    target: Files = (),
    valid_source: Files = (),
    valid_target: Files = (),
    weights: Sequence[float] | None = None,
    mean: str = "probabilities",
    device: str = "auto",
    force: bool = False,
) -> Mixed:
    """Put translators that share a target vocabulary into the new folder `out`, as one.

    source, target: held-out pairs; the weights are those under which the targets are most probable. Without them and
    without weights of one's own, all members count the same, which is hard to beat for models of one kind.
    valid_source, valid_target: other pairs, to see what the ensemble is worth.
    """
    from anaphora.data.formats import describe_notes
    from anaphora.device import choose_device
    from anaphora.models.composites.mixture import tune
    from anaphora.pipelines.ensemble_model import EnsembleModel, open_member

    out, tuned_on = Path(out), file_names(source)
    if len(models) < 2:
        raise UserError(f"an ensemble needs at least two models, not {len(models)}", cure="name more of them")
    if mean not in MEANS:
        raise UserError(f"{option('mean', mean)} is unknown", cure=nearest(mean, MEANS))
    if weights is not None:
        weights = check_weights(weights, len(models), tuned_on)
    if tuned_on and mean == "logs":
        raise UserError("weights are tuned for a mean of probabilities", cure="leave out mean=logs, or the pairs")
    refuse_existing_folder(out, force=force)
    refuse_holding(out, models)
    at = choose_device(device)
    members = [open_member(Path(path), at) for path in models]
    names, how = part_names(models), cast("Mean", mean)
    EnsembleModel(members, weights=weights, mean=how, names=names)  # what does not fit is said before the work
    notes: Counter[str] = Counter()
    logs = _log_probabilities(members, _pairs(source, target, notes)) if tuned_on else None
    tuning = None if logs is None else tune(logs)
    shares = [1 / len(models)] * len(models) if weights is None else list(map(float, weights))
    shares = shares if tuning is None else list(tuning.weights)
    whole = EnsembleModel(members, weights=shares, mean=how, names=names)
    valid = (
        _log_probabilities([*members, whole], _pairs(valid_source, valid_target, notes))
        if file_names(valid_source)
        else None
    )
    made = Mixed(
        folder=str(out),
        parts=[
            MixedPart(name, str(path), weight, _perplexity(logs, place), _perplexity(valid, place))
            for place, (name, path, weight) in enumerate(zip(names, models, shares))
        ],
        tokens=0 if logs is None else logs.shape[1],
        perplexity=None
        if tuning is None or logs is None
        else perplexity(tuning.likelihoods[-1] * logs.shape[1], logs.shape[1]),
        valid_tokens=0 if valid is None else valid.shape[1],
        valid_perplexity=_perplexity(valid, len(members)),
        rounds=0 if tuning is None else len(tuning.likelihoods) - 1,
        impossible_tokens=0 if tuning is None else tuning.impossible,
        note=describe_notes(notes),
    )
    with atomic_folder(out) as folder:
        _write(folder, made, whole, models, {"source": source, "target": target})
    return made


def _pairs(source: Files, target: Files, notes: Counter[str]) -> tuple[list[str], list[str]]:
    """Both sides, line for line; a table may hold the two."""
    files = file_names(source)
    others = file_names(target) or same_table(files)
    if not others:
        raise UserError("has no translations beside it", file=files[0], cure="give its target file too")
    rows = list(read_rows({"source": files, "target": others}, notes))
    if not rows:
        raise UserError("there are no lines in this file", file=files[0], cure="give files with at least one line")
    return [row[0] for row in rows], [row[1] for row in rows]


def _log_probabilities(members: Sequence[TranslationModel], pairs: tuple[list[str], list[str]]) -> np.ndarray:
    """log P of each target token under each model: (models, N); pairs that one cannot read are left out for all."""
    scored = [one.score(*pairs) for one in members]
    able = [row for row in range(len(pairs[0])) if all(found[row].problem is None for found in scored)]
    if not able:
        raise UserError("no pair is short enough for all members", cure="give shorter lines")
    return np.array([[value for row in able for _, value in found[row].token_scores] for found in scored])


def _perplexity(logs: np.ndarray | None, place: int) -> float | None:
    return None if logs is None else perplexity(float(logs[place].sum()), logs.shape[1])


def _write(folder: Path, made: Mixed, whole: EnsembleModel, models: Sequence[Path_], pairs: dict[str, Files]) -> None:
    for part, path in zip(made.parts, models):
        (folder / part.name).mkdir()
        copy_model(Path(path), folder / part.name)
    document = whole.config.document()
    document["data"] = {side: file_names(files) for side, files in pairs.items()}
    del document["training"]  # nothing is learned; each member's own says how it was
    write_config(folder, document)
    vocabularies = {"target": whole.target_tokenizer.vocabulary_fingerprint()}
    kept = {"anaphora": __version__, "finished": True, "vocabularies": vocabularies}
    write_json(folder / METRICS, {**kept, "ensemble": made.kept()})
    write_text(folder / CARD, _card(made, whole, pairs))


def _card(made: Mixed, whole: EnsembleModel, pairs: dict[str, Files]) -> str:
    name, tuned = Path(made.folder).resolve().name, " ".join(names_of(file_names(pairs["source"])))
    how = f"The weights make the translations of `{tuned}` ({made.tokens:,} tokens) most probable." if tuned else ""

    def shown(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    rows = [
        f"| {part.name} | {name_of(one.config.recipe)} ({one.config.model.kind}) | {one.model.parameter_count():,} "
        f"| {part.weight:.4f} | {shown(part.perplexity)} | {shown(part.valid_perplexity)} |"
        for part, one in zip(made.parts, whole.members)
    ]
    lines = [
        f"# {name}",
        "",
        f"An ensemble of {len(made.parts)} translators, made with Anaphora {__version__}: every word is chosen by the "
        f"mean of their {whole.ensemble.mean}. {how}".rstrip(),
        "",
        "| member | recipe | parameters | weight | perplexity there | on the validation pairs |",
        "|---|---|---|---|---|---|",
        *rows,
        f"| the ensemble | | {whole.model.parameter_count():,} | | {shown(made.perplexity)} "
        f"| {shown(made.valid_perplexity)} |",
        "",
        "## Use",
        "```",
        f"anaphora translate {name} FILE",
        f"anaphora evaluate {name} --source FILE --target FILE",
        "```",
    ]
    return "\n".join(lines) + "\n"
