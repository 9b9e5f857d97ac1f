"""`anaphora compare`: many recipes on one text, in one table."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet, program, wrapped


def compare(
    out: Annotated[Path, typer.Argument(help="Folder of the comparison; it is made, or continued.")],
    text: Annotated[list[str] | None, typer.Option(help="Text to learn from: .txt .tsv .jsonl .parquet, .gz.")] = None,
    valid_text: Annotated[list[str] | None, typer.Option(help="Text to measure on; else lines are held out.")] = None,
    test_text: Annotated[
        list[str] | None, typer.Option(help="Text that no checkpoint was chosen by; the table is about it.")
    ] = None,
    recipes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,ROW,…",
            help="Each RECIPE, RECIPE:KEY=VALUE,… or NAME=RECIPE:…; all rungs unless given.",
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

    All rows have the same tokens and the same held-out lines. OUT/report.md has the table, report.png quality against
    cost, OUT/runs/ each row as an ordinary run.

    anaphora compare ladder --text plays.txt

    anaphora compare some --text plays.txt --recipes bigram,lstm,transformer-decoder --budget minutes=5

    anaphora compare widths --text plays.txt --recipes lstm:model.dim=64,big=lstm:model.dim=256,model.layers=2
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the rows as Ctrl-C does
    import os

    from anaphora import api
    from anaphora.comparing.report import table
    from anaphora.errors import UserError

    output = Output(as_json=json, quiet=quiet)
    if not text:
        raise UserError("no text to learn from", cure="give --text FILE")
    found = api.compare(
        out,
        text=text,
        valid_text=valid_text or (),
        test_text=test_text or (),
        recipes=recipes,
        budget=budget,
        jobs=jobs,
        settings=set_ or (),
        device=device,
        estimate=estimate,
        force=force,
        console=output.console,
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
    failed = [row["name"] for row in found.rows if row["state"] == "failed"]
    if failed:
        output.say(f"failed: {', '.join(failed)}; their logs are in {out}/logs, and the same command tries them again")
    done = [row["folder"] for row in found.rows if row["state"] == "finished"]
    if done:
        output.say(f"{out} has report.md, .csv, .json and .png. Now: {program()} generate {done[-1]}")
    output.finish({**found.document, "folder": str(out), "exit_code": found.exit_code})
    if found.exit_code:
        raise typer.Exit(found.exit_code)
