"""`anaphora compare`: many recipes on one text, in one table."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet, program, wrapped


def compare(
    out: Annotated[Path, typer.Argument(help="Folder of the comparison; created, or continued.")],
    text: Annotated[
        list[str] | None,
        typer.Option(help="Training text for language models: .txt .tsv .csv .jsonl .parquet, also .gz."),
    ] = None,
    valid_text: Annotated[
        list[str] | None, typer.Option(help="Validation text; by default lines are held out.")
    ] = None,
    test_text: Annotated[list[str] | None, typer.Option(help="Test text; the table reports it.")] = None,
    source: Annotated[list[str] | None, typer.Option(help="Training text for translators, source side.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    valid_source: Annotated[
        list[str] | None, typer.Option(help="Validation text, source side; by default pairs are held out.")
    ] = None,
    valid_target: Annotated[list[str] | None, typer.Option(help="Validation text, target side.")] = None,
    test_source: Annotated[list[str] | None, typer.Option(help="Test text, source side; the table reports it.")] = None,
    test_target: Annotated[list[str] | None, typer.Option(help="Test text, target side.")] = None,
    recipes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,ROW,…",
            help="Rows, each RECIPE, RECIPE:KEY=VALUE,… or NAME=RECIPE:…; by default every kind of model. For "
            "translators also RECIPE+rl, +posunk, +big, +ensemble; `lectures`: the rows of the lectures' table.",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="KIND=N", help="Limit for each row: tokens=N, flops=N or minutes=N.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Rows to train in parallel; times are comparable only with 1.")] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting for all rows, such as training.seed=2."),
    ] = None,
    device: Device = "auto",
    estimate: Annotated[
        bool, typer.Option("--estimate/--no-estimate", help="Try a few updates of each row to estimate the time.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Restart rows whose text or settings have changed.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Add the lectures' table with its published figures.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train several recipes on one text and compare them in a table. Repeat the command to continue.

    Language models are compared by bits per byte, translators by BLEU, on the same lines and, where possible, with the
    same tokens. OUT/report.md has the table, OUT/report.png shows quality against cost, and OUT/runs/ holds each row as
    an ordinary run.

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
        raise UserError("no training text given", cure=cure)
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
        published=published,
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
    if found.best is not None:
        verb = "generate" if text else "translate"
        output.say(f"{out} has report.md, .csv, .json and .png. Now: {program()} {verb} {found.best['folder']}")
    output.finish({**found.document, "folder": str(out), "exit_code": found.exit_code})
    if found.exit_code:
        raise typer.Exit(found.exit_code)
