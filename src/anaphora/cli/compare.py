"""`anaphora compare`: many recipes on one text, in one table."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet, program, wrapped


def compare(
    out: Annotated[Path, typer.Argument(help="Folder of the comparison; it is made, or continued.")],
    text: Annotated[
        list[str] | None, typer.Option(help="Text to learn from: .txt .tsv .csv .jsonl .parquet, .gz.")
    ] = None,
    valid_text: Annotated[list[str] | None, typer.Option(help="Text to measure on; else lines are held out.")] = None,
    test_text: Annotated[
        list[str] | None, typer.Option(help="Text that no checkpoint was chosen by; the table is about it.")
    ] = None,
    source: Annotated[list[str] | None, typer.Option(help="Translators: text to translate from,")] = None,
    target: Annotated[list[str] | None, typer.Option(help="and the same lines in the other language.")] = None,
    valid_source: Annotated[list[str] | None, typer.Option(help="Pairs to measure on; else some are held out.")] = None,
    valid_target: Annotated[list[str] | None, typer.Option(help="Their other side.")] = None,
    test_source: Annotated[
        list[str] | None, typer.Option(help="Pairs that no checkpoint was chosen by; the table is about them.")
    ] = None,
    test_target: Annotated[list[str] | None, typer.Option(help="Their other side.")] = None,
    recipes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,ROW,…",
            help="Each RECIPE, RECIPE:KEY=VALUE,… or NAME=RECIPE:…; all rungs unless given. Of translators also "
            "RECIPE+rl, +posunk, +big, +ensemble; `lectures`: the rows of the lectures' table.",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="KIND=N", help="For each row: tokens=N, flops=N or minutes=N.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Rows at the same time; alone, their time is their own.")] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="For all rows: training.seed=2, say.")
    ] = None,
    device: Device = "auto",
    estimate: Annotated[
        bool, typer.Option("--estimate/--no-estimate", help="Try some updates of each row, for the time.")
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Begin rows anew whose text or settings are other ones.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train many recipes on one text and lay them side by side. Repeat the command to continue.

    Language models by bits per byte, translators by BLEU, all on the same lines,
    with the same tokens where they can. OUT/report.md has the table, report.png
    quality against cost, OUT/runs/ each row as an ordinary run.

    anaphora compare ladder --text plays.txt

    anaphora compare systems --source train.en --target train.de --budget minutes=10

    anaphora compare table --source train.tsv --recipes lectures --jobs 3

    anaphora compare rl --source train.tsv --recipes gnmt,gnmt+rl:training.candidates=4,transformer+ensemble

    anaphora compare some --text plays.txt --recipes bigram,lstm,transformer-decoder --budget minutes=5

    anaphora compare widths --text plays.txt --recipes lstm:model.dim=64,big=lstm:model.dim=256,model.layers=2
    """
    import os

    from anaphora import api
    from anaphora.comparing.report import extract_table, table
    from anaphora.errors import UserError

    output = Output(as_json=json, quiet=quiet)
    if not text and not source:
        cure = "give --text FILE for language models, or --source FILE --target FILE for translators"
        raise UserError("no text to learn from", cure=cure)
    found = api.compare(
        out,
        text=text or (),
        valid_text=valid_text or (),
        test_text=test_text or (),
        source=source or (),
        target=target or (),
        valid_source=valid_source or (),
        valid_target=valid_target or (),
        test_source=test_source or (),
        test_target=test_target or (),
        recipes=recipes,
        budget=budget,
        jobs=jobs,
        settings=set_ or (),
        device=device,
        estimate=estimate,
        force=force,
        progress=output.console or False,
        command=shlex.join(["anaphora", *sys.argv[1:]]),
    )
    width = 80
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        import shutil

        width = max(60, shutil.get_terminal_size().columns)
    for line in table(found.rows, found.columns, width):
        output.result(line)
    for note in found.notes:
        output.result(wrapped(f"- {note}", width, indent="  "))
    for extract in found.extracts:
        for line in ("", *extract_table(extract)):
            output.result(line)
        output.result(wrapped(extract.source, width))
    failed = [row["name"] for row in [*found.rows, *found.parts] if row["state"] == "failed"]
    if failed:
        output.say(f"failed: {', '.join(failed)}; their logs are in {out}/logs, and the same command tries them again")
    done = [row["folder"] for row in found.rows if row["state"] == "finished"]
    if done:
        verb = "generate" if text else "translate"
        output.say(f"{out} has report.md, .csv, .json and .png. Now: {program()} {verb} {done[-1]}")
    output.finish({**found.document, "folder": str(out), "exit_code": found.exit_code})
    if found.exit_code:
        raise typer.Exit(found.exit_code)
