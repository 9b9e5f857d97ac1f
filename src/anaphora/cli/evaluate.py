"""`anaphora evaluate`: BLEU with its signature, chrF, loss and speed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.arguments import (
    Force,
    OutputFile,
    Set,
    check_new_file,
    count,
    decoding_settings,
    read_pairs,
    warn_of_notes,
)
from anaphora.cli.output import Device, Json, Output, Quiet


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model or run folder.")],
    source: Annotated[list[str] | None, typer.Option(help="Text in the source language.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Reference translations, line for line.")] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.")] = None,
    set_: Set = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokeniser: 13a, intl, zh, char, …")] = "13a",
    output: OutputFile = None,
    force: Force = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Translate text that has references and compare: sacreBLEU, chrF, loss, lines a second."""
    import dataclasses

    from anaphora import api
    from anaphora.evaluation.translation import bleu
    from anaphora.folder import write_text

    out = Output(as_json=json, quiet=quiet)
    check_new_file(output, force=force, inputs=[*(source or ()), *(target or ())])
    bleu([""], [""], tokenize=tokenize)  # an unknown tokeniser is named before the work is done
    notes: Counter[str] = Counter()
    sources, targets = read_pairs(source, target, notes)
    warn_of_notes(out, notes)
    decoding = decoding_settings(set_, beam=beam)
    loaded = api.load(model, device)
    with out.bar("translating", len(sources)) as bar:
        found = loaded.evaluate(sources, targets, tokenize=tokenize, progress=bar, **decoding)
    out.result(f"BLEU {found.bleu:.2f}  {found.bleu_signature}")
    out.result(f"chrF {found.chrf:.2f}  {found.chrf_signature}")
    out.result(f"loss {found.loss:.4f}  perplexity {found.perplexity:.3f}")
    out.result(f"{found.lines} lines, {found.lines_per_second:.1f} lines/s, beam {found.beam}, {found.device}")
    if found.split_lines:
        out.say(f"{count(found.split_lines, 'line was', 'lines were')} too long for the model and translated in pieces")
    if found.unscored_lines:
        out.say(f"{count(found.unscored_lines, 'pair was', 'pairs were')} too long to be scored")
    if output is not None:
        write_text(output, "".join(translation.text + "\n" for translation in found.translations))
    document = {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name != "translations"}
    out.finish({"model": str(model), **document})
