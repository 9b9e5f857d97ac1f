"""What `anaphora evaluate` does with text: language models by what they predict, classifiers by their answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anaphora.cli.arguments import read_text, warn_of_notes
from anaphora.cli.output import Output
from anaphora.errors import UserError
from anaphora.evaluation.draws import DRAWS, Draws
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.pipelines.text_model import TextModel


def evaluate_text(
    out: Output,
    loaded: TextModel,
    text: list[str],
    *,
    log10: bool = False,
    stride: int | None = None,
    patch: list[Path] | None = None,
    beside: TextModel | None = None,
    draws: Draws = DRAWS,
) -> None:
    """Measure how well a language model predicts a text; `beside` another one, which is compared with it."""
    notes: Counter[str] = Counter()
    with out.bar("reading") as bar:
        try:
            lines = read_text(text, notes)
            found = loaded.evaluate(lines, stride=stride, beside=beside, progress=bar, **draws.options())
        except UserError as error:
            if error.file is not None or "stride" in error.what:
                raise
            raise UserError(error.what, file=error.file or text[0], line=error.line, cure=error.cure) from None
    warn_of_notes(out, notes)
    names = [loaded.folder.name, "" if beside is None else beside.folder.name]
    for line in found.report(names, log10=log10):
        out.result(line)
    if found.impossible_tokens:
        cure = "smoothing is for that"
        if getattr(getattr(loaded.model, "config", None), "smoothing", "") == "stupid-backoff":
            cure = "train with tokenizer.minimum_count=2, so that ⟨unk⟩ is seen"
        out.say(
            f"{count(found.impossible_tokens, 'token has', 'tokens have')} probability 0 in this model, so the whole "
            f"text has: {cure}"
        )
    if found.note:
        out.say(f"note: {found.note}")
    log = found.log_probability / (math.log(10) if log10 else 1.0)
    logs = {"log_probability": log, "logarithm": "10" if log10 else "e"}
    named = {"patches": [str(file) for file in patch]} if patch else {}
    document = {"model": str(loaded.folder), **named, **found.document(), **logs}
    if beside is not None:
        document["beside"] = {"model": str(beside.folder), **(document["beside"] or {})}
    out.finish(document)


def evaluate_labels(out: Output, loaded: TextModel, text: list[str], labels: str) -> None:
    """Measure a classifier by the correct labels of a text."""
    if [*text, labels].count("-") > 1:
        raise UserError("stdin can be read only once, and - is given twice", cure="name a file for one of them")
    notes: Counter[str] = Counter()
    correct = [label.strip() for label in read_text([labels], notes)]
    lines = list(read_text(text, notes))
    warn_of_notes(out, notes)
    check_labels(correct, lines, labels)
    with out.bar("classifying", len(lines)) as bar:
        report = loaded.evaluate_labels(lines, correct, progress=bar)
    for line in report.table():
        out.result(line)
    out.finish({"model": str(loaded.folder), **report.document()})


def check_labels(labels: Sequence[str], lines: Sequence[str], file: str) -> None:
    """There must be a label for each line."""
    if len(labels) != len(lines):
        raise UserError(
            f"has {count(len(labels), 'label', 'labels')} for {count(len(lines), 'line', 'lines')} of text",
            file=file,
            cure="give one label per line",
        )
