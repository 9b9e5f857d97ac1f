"""What a folder of a run already has: its settings, which of them may change, its tokenizers, the model to start from.

A run folder remembers its settings. The same ones continue it, higher limits continue it further, anything else is
named and refused unless forced.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anaphora.alignment.dictionary import Dictionary
from anaphora.alignment.unknown_words import refuse_replacing
from anaphora.config import described
from anaphora.data.batches import DROPOUT_GROWTH
from anaphora.errors import UserError, option
from anaphora.files.foreign import is_there
from anaphora.folder import CONFIG, WEIGHTS, read_config, read_metrics, weights_file
from anaphora.models import build
from anaphora.models.contracts import Translator
from anaphora.models.model_file import brief
from anaphora.models.weights import load_weights, no_larger_than, read_weights
from anaphora.tasks.base import PAIRS, is_of, task_in
from anaphora.tasks.recipes import FREE, Document, RunConfig
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.training.checkpoint import Checkpoints
from anaphora.training.reporting import RunReporter
from anaphora.training.training_settings import LIMITS, REPORTING


def check_replacing(config: RunConfig) -> None:
    """Unknown words can be replaced where there are some; the dictionary is read before any work is done."""
    mode, tokenizer = config.decoding.replace_unknown, config.tokenizer
    words = tokenizer.kind == "word" and tokenizer.fallback == "unk"
    if mode not in (None, "none") and not words:
        refuse_replacing(mode, tokenizer.kind)
    if config.decoding.dictionary is not None:
        if not words or mode in ("copy", "none"):
            what = f"decoding.replace_unknown={mode}" if words else "a model that says no unknown words"
            raise UserError(f"decoding.dictionary means nothing for {what}", cure="leave it out")
        Dictionary.read(Path(config.decoding.dictionary))


def saved_settings(folder: Path, task: str) -> dict[str, Any] | None:
    """The settings of the run that is in a folder and goes on; nothing if none has begun there. A trained model without
    a checkpoint cannot go on: one of this task can be started from, any other one is in the wrong place."""
    if Checkpoints(folder, keep=1, every=1).newest() is not None:
        return RunConfig.read(read_config(folder), file=str(folder / CONFIG)).document()
    if (folder / CONFIG).exists() and task_in(read_config(folder)).holds_others:
        kind = read_config(folder)["model"]["kind"]
        raise UserError(f"holds a model of kind {kind}", file=folder, cure="choose another folder")
    if not (folder / WEIGHTS).exists():  # before the first checkpoint nothing else was learned that could be lost
        return None
    if (folder / CONFIG).exists():
        kind = RunConfig.read(read_config(folder), file=str(folder / CONFIG)).model.kind
        if not is_of(task, kind):
            raise UserError(f"holds a model of kind {kind}", file=folder, cure="choose another folder")
    raise UserError(
        "holds a trained model but no checkpoint to continue from",
        file=folder,
        cure=f"choose another folder; to learn on from this model, add {option('start_from', str(folder))}",
    )


def warn(config: RunConfig, reporter: RunReporter) -> None:
    """The cheap part of `anaphora check`, one line a finding. What reading itself counts or refuses is left to it."""
    from anaphora.checking.check import quick_findings

    data = config.data
    parts = {"train": data.sides()} | ({"valid": data.valid_sides()} if data.valid_sides() else {})
    try:
        findings = quick_findings(parts, max_length=longest(config))
    except UserError:
        return  # preparing the corpus says it, in its own words
    told = [finding for finding in findings if finding.problem not in COUNTED and not finding.stops]
    for finding in told:
        reporter.message(f"warning: {finding}")
    if told:
        reporter.message(f"`anaphora check` tells more, and its {option('write_clean')} mends most of it")


COUNTED = ("bom", "crlf", "separator", "empty", "long", "huge", "no-text")
"""Problems that preparation counts anyway."""


def longest(config: RunConfig) -> int:
    """The most tokens of a sentence to learn from: with its marks, and grown by subword dropout, the model must hold
    it."""
    growth = DROPOUT_GROWTH if config.tokenizer.dropout else 1.0
    return min(config.data.max_length, int((config.translator.max_length - 2) / growth))


FILES = (*PAIRS, "text", "valid_text", "labels", "valid_labels", "paths")
"""Settings that name files, and how to name them: what counts is their content, and `prepare` looks at that."""


def text_settings(document: Mapping[str, Any]) -> Document:
    """What decides how text becomes tokens, without the names of files and what is decided anew in every epoch."""
    data = {key: value for key, value in document["data"].items() if key not in FILES}
    tokenizer = {key: value for key, value in document["tokenizer"].items() if key != "dropout"}
    return {"data": data, "tokenizer": tokenizer}


def refuse(folder: Path, changes: Mapping[str, tuple[Any, Any]], *, force: bool) -> None:
    """Continue with the same settings or higher limits; name any other change.

    What the saved weights mean, the shape of the model and its tokenizer, cannot change at all.
    """
    harmless = {f"training.{name}" for name in (*LIMITS, *REPORTING)} | {f"data.{name}" for name in FILES}
    harmless.add("run.model_file")  # its content is what counts
    then, now = changes.get("run.model_sha256", (None, None))
    if then is None or now is None:
        harmless.add("run.model_sha256")  # of a script, or of a package, nobody knows it
    elif not force:
        refuse_another_file(folder, then, now)
    free = {f"{section}.{name}" for section, names in FREE.items() for name in names}
    named = {name: both for name, both in changes.items() if name not in harmless}
    fixed = {name: both for name, both in named.items() if name.partition(".")[0] in FREE and name not in free}
    wrong = fixed if force else named
    if wrong:
        spoken = described(wrong)
        cure = "repeat the old command to continue it, choose another folder, or "
        cure += f"add {option('force', True)} to change it midway"
        if fixed:
            cure = "repeat the old command to continue it, or choose another folder"
        raise UserError(f"holds a run with other settings: {spoken}", file=folder, cure=cure)


def refuse_another_file(folder: Path, then: str, now: str) -> None:
    """A system of the user's own whose file is another one now may be another system."""
    raise UserError(
        f"the file of its system was changed: its run began with {brief(then)}, and now it is {brief(now)}",
        file=folder,
        cure="put the old file back, choose another folder, "
        f"or add {option('force', True)} to go on with the file as it is now",
    )


def load_tokenizers(folder: Path) -> dict[str, Tokenizer]:
    """By side: one joint tokenizer.json, or tokenizer.source.json and tokenizer.target.json."""
    joint = folder / "tokenizer.json"
    if is_there(joint) or not any(folder.glob("tokenizer.*.json")):
        tokenizer = Tokenizer.load(joint)
        tokenizers = {"source": tokenizer, "target": tokenizer}
    else:
        tokenizers = {side: Tokenizer.load(folder / f"tokenizer.{side}.json") for side in ("source", "target")}
    learned = read_metrics(folder).get("vocabularies")
    for side, tokenizer in tokenizers.items():
        if isinstance(learned, dict) and learned.get(side, "") not in ("", tokenizer.vocabulary_fingerprint()):
            raise UserError(
                f"this is not the tokenizer that the model learned with: its {side} vocabulary is another one",
                file=joint if joint.is_file() else folder / f"tokenizer.{side}.json",
                cure="use the files of one and the same model",
            )
    return tokenizers


def load_start(folder: Path, config: RunConfig) -> Translator:
    """The model of a folder that a run is to start from."""
    settings = config.translator
    tokenizers, file = load_tokenizers(folder), weights_file(folder)
    weights = read_weights(file)
    with no_larger_than(weights, file):
        model = build(settings, *(tokenizers[side].vocabulary_size for side in ("source", "target")))
    load_weights(model, weights, file=file)
    return model
