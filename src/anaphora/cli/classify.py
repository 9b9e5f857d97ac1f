"""`anaphora classify`: what kind of text is each line?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.cli.arguments import read_text, reads_terminal, warn_of_notes
from anaphora.cli.evaluate_text import check_labels
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count


def classify(
    model: Annotated[Path, typer.Argument(help="Folder of a classifier, trained with --labels.")],
    file: Annotated[str, typer.Argument(help="Text to classify, line by line; - is stdin.")] = "-",
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", help="The correct labels, line for line: evaluate the classifier.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Print every label with its probability.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Classify each line of a text: print its label and probability.

    With --labels, also accuracy beside that of the commonest label, macro F1, precision, recall and F1 of each class,
    and the confusion matrix (on stderr).

    anaphora classify runs/senses lines.txt

    echo 'the bank of the river' | anaphora classify runs/senses --all

    anaphora classify runs/senses test.txt --labels test.labels --json
    """
    from anaphora import api
    from anaphora.errors import UserError
    from anaphora.evaluation.class_scores import report_of

    out = Output(as_json=json, quiet=quiet)
    interactive = reads_terminal(out, model, file)
    loaded = api.load_text_model(model, device)
    notes: Counter[str] = Counter()
    if labels == file == "-":
        raise UserError("stdin can be read only once, and - is given twice", cure="name a file for one of them")
    lines: Iterable[str] = read_text([file], notes, together=labels is not None)
    gold: list[str] | None = None
    if labels is not None:
        gold, lines = [label.strip() for label in read_text([labels], notes)], list(lines)
        check_labels(gold, lines, labels)
    documents: list[dict[str, Any]] = []
    answers: list[str] = []
    cut = 0
    with nullcontext() if interactive else out.bar("classifying") as bar:
        try:
            for found in loaded.stream_classify(lines, window=1 if interactive else None):
                ranked = list(found.probabilities.items())
                shown = ranked if all_ else ranked[:1]
                out.text("\t".join(f"{label}\t{p:.4f}" for label, p in shown), flush=interactive)
                cut += found.cut
                answers.append(found.label)
                if json:
                    documents.append(
                        {
                            "text": found.text,
                            "label": found.label,
                            "probabilities": found.probabilities,
                            "cut": found.cut,
                        }
                    )
                if bar is not None:
                    bar(1)
        except UserError as error:
            raise UserError(error.what, file=error.file or file, line=error.line, cure=error.cure) from None
    warn_of_notes(out, notes)
    if not answers:
        out.say(f"warning: {file} is empty: there is nothing to classify")
    if cut:
        longest = loaded.model.max_length
        out.say(f"note: of {count(cut, 'line', 'lines')} longer than {longest:,} tokens only the beginning was read")
    known = list(getattr(loaded.model, "labels", ()))
    document: dict[str, Any] = {"model": str(model), "labels": known, "lines": documents}
    if gold is not None:
        if odd := sorted(set(gold) - set(known)):
            out.say(
                f"note: the model was not trained with the label {odd[0]!r}" + (" and others" if len(odd) > 1 else "")
            )
        document["accuracy"] = None
        if gold:
            report = report_of(gold, answers, known)
            document |= report.document() | {"lines": documents}
            for line in report.table():
                out.say(line)
    out.finish(document)
