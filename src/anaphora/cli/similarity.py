"""`anaphora evaluate MODEL --similarity FILE`, of a language model: a table by sense, a column for each file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.cli.output import Output
from anaphora.explain.draw.terminal import cut
from anaphora.models.backpack.sense_shares import has_senses

if TYPE_CHECKING:
    from anaphora.evaluation.sense_similarity import SenseSimilarity
    from anaphora.pipelines.text_model import TextModel

LABEL, WIDE = 22, 14
ACROSS = 4
"""Files that have room beside each other in 80 columns."""
NAMED = 5
"""Words without vectors that are told by name."""


def evaluate_similarity(out: Output, model: TextModel, files: list[str], patches: Sequence[Path] = ()) -> None:
    """Measure each file, choose a sense on the first, and say what it gives on the others."""
    what = "senses" if has_senses(model.model) else "embedding matrix"
    files = list(dict.fromkeys(files))
    found = {file: model.evaluate_similarity(file) for file in files}
    first = found[files[0]]
    chosen = first.best
    senses = len(first.senses)
    for begin in range(0, len(files), ACROSS):
        some = files[begin : begin + ACROSS]
        if begin:
            out.result("")
        for line in _table(some, found, chosen, what):
            out.result(line)
    if senses > 1 and chosen is not None:
        for file in files[1:]:
            said = _said(found[file].senses[chosen])
            out.result(f"sense {chosen}, chosen on {_name(files[0])}: Spearman {said} on {_name(file)}")
        if len(files) == 1:
            out.say("note: the sense was chosen on the same pairs: give a second file to measure it on")
    lacking = list(dict.fromkeys(word for one in found.values() for word in one.lacking))
    if lacking:
        named = ", ".join(repr(cut(word, 40)) for word in lacking[:NAMED])
        others = f" and {len(lacking) - NAMED:,} more" if len(lacking) > NAMED else ""
        out.say(f"note: the vocabulary does not have {named}{others}: their pairs are left out")
    if not any(one.pairs for one in found.values()):
        out.say("warning: no pair has vectors for both words")
    document: dict[str, Any] = {
        "model": str(model.folder),
        **({"patches": [str(file) for file in patches]} if patches else {}),
        "what": what,
        "similarity": {file: one.document() for file, one in found.items()},
        "chosen_sense": chosen if senses > 1 else None,
        "chosen_on": files[0] if senses > 1 else None,
    }
    out.finish(document)


def _table(files: list[str], found: dict[str, SenseSimilarity], chosen: int | None, what: str) -> list[str]:
    """Spearman's correlation, a row for each sense."""
    names = [_name(file) for file in files]
    rows = [f"{'Spearman':<{LABEL}}" + "".join(f"  {name[-WIDE:]:>{WIDE}}" for name in names)]
    senses = len(found[files[0]].senses)
    for sense in range(senses):
        mark = " (chosen)" if senses > 1 and sense == chosen else ""
        label = f"sense {sense}{mark}" if what == "senses" else "the embedding matrix"
        rows.append(f"{label:<{LABEL}}" + "".join(f"  {_said(found[file].senses[sense]):>{WIDE}}" for file in files))
    if senses > 1:
        rows.append(f"{'least over senses':<{LABEL}}" + "".join(f"  {_said(found[f].minimum):>{WIDE}}" for f in files))
    counts = "".join(f"  {f'{found[f].pairs:,} ({found[f].unknown:,})':>{WIDE}}" for f in files)
    return [*rows, f"{'pairs (left out)':<{LABEL}}{counts}"]


def _said(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _name(file: str) -> str:
    return Path(file).name.split(".")[0]
