"""`anaphora check`: what is wrong with a corpus, before an hour is spent on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.output import Device, Json, Output, Quiet, program
from anaphora.errors import printable
from anaphora.results import count

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.checking.findings import Finding, Report


def check(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings as for train, such as data.max_length=100."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Source text: .txt .tsv .csv .jsonl .parquet, also .gz .xz .zst."),
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its translations, line for line.")] = None,
    valid_source: Annotated[list[str] | None, typer.Option(help="Validation text, source side.")] = None,
    valid_target: Annotated[list[str] | None, typer.Option(help="Validation text, target side.")] = None,
    test_source: Annotated[list[str] | None, typer.Option(help="Test text, source side.")] = None,
    test_target: Annotated[list[str] | None, typer.Option(help="Test text, target side.")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Text of a language model or of word vectors, instead of pairs.")
    ] = None,
    valid_text: Annotated[list[str] | None, typer.Option(help="Validation text of a language model.")] = None,
    test_text: Annotated[list[str] | None, typer.Option(help="Test text of a language model.")] = None,
    write_clean: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a cleaned corpus into this new folder.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Recipe that would be trained; default: transformer, for --text ngram.")
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate/--no-estimate", help="Try a few updates to estimate time and memory.")
    ] = True,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a corpus before training: report problems with file, line and cure, and estimate the cost of training.

    Exit code 2 means that training would refuse this corpus; warnings leave it at 0.

    anaphora check --source train.en --target train.de

    anaphora check --source train.en --target train.de --valid-source val.en --valid-target val.de --no-estimate

    anaphora check --source pairs.tsv --write-clean cleaned

    anaphora check --text book.txt --recipe lstm
    """
    from anaphora import api
    from anaphora.errors import UserError

    output = Output(as_json=json, quiet=quiet)
    if not source and not text:
        raise UserError("no text to check", cure="give --source FILE --target FILE, or --text FILE")
    report = api.check(
        source=source or (),
        target=target or (),
        valid_source=valid_source or (),
        valid_target=valid_target or (),
        test_source=test_source or (),
        test_target=test_target or (),
        text=text or (),
        valid_text=valid_text or (),
        test_text=test_text or (),
        recipe=recipe,
        settings=settings or (),
        write_clean=write_clean,
        estimate=estimate,
        device=device,
        progress=output.console or False,
    )
    if not json:
        from rich.console import Console

        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100
        _print(
            report, Console(highlight=False, width=width), [text] if text else [source or [], target or source or []]
        )
    output.finish({**report.document(), "exit_code": report.exit_code})
    if report.exit_code:
        raise typer.Exit(report.exit_code)


# -- for people --------------------------------------------------------------------------------------------------------


def _print(report: Report, console: Console, sides: list[list[str]]) -> None:
    from rich.text import Text

    what = "line" if len(sides) == 1 else "pair"
    sizes = {name: part[f"{what}s"] for name, part in report.corpus.items()}
    counts = [count(sizes["train"], f"{what} for training", f"{what}s for training")]
    counts += [
        f"{sizes[name]:,} {what}"
        for name, what in (("valid", "for validation"), ("test", "for testing"))
        if name in sizes
    ]
    names = " | ".join(printable(" ".join(files)) for files in sides)
    console.print(Text(f"{', '.join(counts)} ({names})"), soft_wrap=False)
    kinds = dict.fromkeys(finding.kind for finding in report.findings)
    for kind in kinds:
        console.print()
        console.print(Text(kind, style="bold"))
        for found in report.of_kind(kind):
            _print_finding(found, console)
    console.print()
    if not report.findings:
        console.print(Text("No problems found.", style="green"))
    elif report.stops:
        console.print(Text("Training would refuse this corpus: fix what is marked ✗ first.", style="bold red"))
    else:
        console.print(Text("Nothing here stops training; these are warnings.", style="yellow"))
    _print_words(report, console)
    if report.proposal is not None:
        _print_proposal(report.proposal, console)
    if report.cleaned is not None:
        _print_cleaned(report.cleaned, console)


def _print_finding(found: Finding, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    mark, style = ("✗", "bold red") if found.stops else ("!", "yellow")
    where = found.file if found.line is None else f"{found.file}:{found.line}"
    text = Text.assemble((printable(where), "cyan"), "  ", printable(found.message))
    detail = found.details.get(found.line or 0, "")
    alike = len(found.lines) > 1 and len(set(found.details.values())) == 1  # the first says what the message does
    if detail and detail != found.message and not alike:
        text.append(f" (the first: {printable(detail)})")
    if len(found.lines) > 1:
        shown = ", ".join(map(str, found.lines[:8]))
        text.append(f"; lines {shown}" + (" …" if found.count > 8 else ""), style="dim")
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row(Text(f"  {mark}", style=style), text)
    grid.add_row("", Text(f"→ {printable(found.cure)}", style="green"))
    console.print(grid)


def _print_words(report: Report, console: Console) -> None:
    from rich.table import Table

    rows = []
    for name, spoken in (("train", "held out of training"), ("valid", "validation"), ("test", "test")):
        for side, found in report.corpus.get(name, {}).get("unknown_words", {}).items():
            rows.append((f"{side}, {spoken}", f"{found['unknown_tokens']:.1%}", f"{found['unknown_types']:.1%}"))
    if not rows:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), title="Words not in the training text", title_justify="left")
    table.title_style = "bold"
    table.add_column("")
    table.add_column("of the text", justify="right")
    table.add_column("of distinct words", justify="right")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def _print_proposal(proposal: dict[str, Any], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from anaphora.training.reporting import duration, short

    console.print()
    if "error" in proposal:
        console.print(Text("Training would not start here: ", style="bold red") + Text(proposal["error"]))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, title=f"Training here ({proposal['device']})")
    table.title_style, table.title_justify = "bold", "left"
    pairs = isinstance(proposal["vocabulary"], list)
    shape = [f"{proposal['dim']} wide"] if proposal["dim"] else []
    if pairs:
        shape.append(f"{proposal['layers']}+{proposal['decoder_layers']} layers")
    elif proposal["layers"]:
        shape.append(count(proposal["layers"], "layer", "layers"))
    shape.append(f"{short(proposal['parameters'])} parameters")
    vocabulary = "/".join(f"{size:,}" for size in (proposal["vocabulary"] if pairs else [proposal["vocabulary"]]))
    table.add_row("model", f"{proposal['recipe']}: {', '.join(shape)}, vocabulary {vocabulary}")
    speed = f"{short(proposal['tokens_per_second'])} {'target ' * pairs}tokens/s"
    if proposal["seconds_per_update"] is not None:
        update = f"{proposal['seconds_per_update']:.3g} s an update of at most {proposal['batch_tokens']:,} tokens"
        speed = f"{update}, {speed}"
    table.add_row("speed", speed)
    if proposal["steps"] is not None:
        table.add_row(
            "time", f"{duration(proposal['total_seconds'])} for {count(proposal['steps'], 'update')}, at most"
        )
    elif proposal["total_seconds"] is not None:
        table.add_row("time", f"{duration(proposal['total_seconds'])} for the whole run, about")
    table.add_row("memory", f"{proposal['peak_memory'] / 2**30:.2f} GiB at its peak")
    for note in proposal["notes"]:
        table.add_row("", note)
    console.print(table)


def _print_cleaned(cleaned: dict[str, Any], console: Console) -> None:
    from rich.text import Text

    console.print()
    for name, files in cleaned["files"].items():
        dropped, what = cleaned["dropped"][name], "pairs" if "pairs" in cleaned else "lines"
        why = ", ".join(f"{number:,} {problem}" for problem, number in dropped.items() if number) or "nothing"
        console.print(
            Text.assemble(
                (f"{name}: ", "bold"),
                f"{cleaned[what][name]:,} {what} written, {cleaned['mended'][name]:,} lines repaired, dropped: {why}",
            )
        )
        console.print(Text("\n".join(f"  {printable(file)}" for file in files), style="cyan"))
    if cleaned["left"]:
        again = f"{count(cleaned['left'], 'finding is', 'findings are')} left: check what was written once more"
        console.print(Text(again, style="yellow"))
    options = ("--source", "--target") if "pairs" in cleaned else ("--text",)
    first = " ".join(f"{option} {file}" for option, file in zip(options, cleaned["files"]["train"]))
    console.print(Text(printable(f"Now: {program()} train RUN {first}")))
