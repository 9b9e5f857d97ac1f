"""`anaphora demo`: three minutes from nothing to a translator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet, program

if TYPE_CHECKING:
    from anaphora.pocket.demo_run import DemoReport

SHOWN = ("bank", "bat", "crane", "letter", "sick", "spring")
"""Ambiguous words whose examples are printed; --json has all of them."""


def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for the corpus and the model.")] = Path("demo"),
    write: Annotated[
        Path | None, typer.Option(help="Only write the corpus into this folder, with gold alignments and sense labels.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="With --write: number of training pairs.")] = 40_000,
    seed: Annotated[int, typer.Option(help="With --write: random seed of the sentences.")] = 1,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a small English-German translator on a generated corpus, and translate ambiguous words with it.

    anaphora demo

    anaphora demo --write corpus --pairs 10000
    """
    import dataclasses

    out = Output(as_json=json, quiet=quiet)
    if write is not None:
        from anaphora import pocket
        from anaphora.errors import UserError

        if write.exists() and (not write.is_dir() or any(write.iterdir())):
            raise UserError("already exists", file=write, cure="choose a new folder; nothing was changed")
        pocket.write(write, train=pairs, seed=seed)
        out.result(f"{pairs:,} training pairs, validation and test text, alignments and senses are in {write}")
        out.finish({"folder": str(write), "train": pairs, "seed": seed})
        return

    from anaphora.pocket.demo_run import run_demo
    from anaphora.training.interruption import Interrupted

    try:
        report = run_demo(folder, device=device, console=out.console, say=out.say)
    except Interrupted as error:
        out.say(f"interrupted: step {error.step} is saved; repeat the command to continue")
        out.finish({"folder": str(folder), "interrupted": True, "steps": error.step})
        sys.exit(130)
    _show(out, report)
    out.finish(dataclasses.asdict(report))


def _show(out: Output, report: DemoReport) -> None:
    out.result("")
    out.result("The same English word, two meanings; these sentences were not in its training text:")
    out.result("")
    for example in report.examples:
        word, _, sense = example["sense"].partition(".")
        if word not in SHOWN:
            continue
        mark = "✓" if example["translation"] == example["reference"] else "✗"
        out.result(f"  {word:>6}, {sense:<9} {example['source']}")
        out.result(f"  {mark:>17}  {example['translation']}")
        if mark == "✗":
            out.result(f"  {'expected':>17}  {example['reference']}")
    out.result("")
    out.result(f"  {report.exact:6.1%} exactly right, of {report.lines:,} test sentences")
    unseen = "with word combinations or numbers that training never showed"
    out.result(f"  {report.exact_withheld:6.1%} of the {report.withheld_lines} among them {unseen}")
    out.result(f"  {report.ambiguous:6.1%} of {report.ambiguous_words} ambiguous words in the right sense")
    form = f"IBM-1 taught by the same text: {report.aer_ibm1:.1%}, {report.ibm1_form}"
    out.result(f"  {report.aer:6.1%} alignment error against gold links ({form})")
    out.result(f"  {report.seconds:5.0f} s of training")
    _show_alignment(out, report)
    command = program()
    out.result("")
    out.result("Next, type:")
    out.result(f"  echo 'The bank was flooded by the river.' | {command} translate {report.model}")
    test = f"--source {report.corpus}/test.en --target {report.corpus}/test.de"
    out.result(f"  {command} evaluate {report.model} {test}")
    out.result(f"  {command} align {report.model} {test} --line 1")
    out.result(f"  {command} info {report.model}")
    out.result("and with two files of your own that translate each other line by line:")
    out.result(f"  {command} train runs/mine --source my.en --target my.de")
    out.result(f"  {command} translate runs/mine input.txt")


def _show_alignment(out: Output, report: DemoReport) -> None:
    if out.as_json:
        return
    from rich.console import Console

    from anaphora.alignment.model_alignment import Alignment
    from anaphora.explain.draw.terminal import heat_map

    console = Console(highlight=False)
    colors = console.color_system is not None and not console.no_color
    out.result("")
    out.result("Which English word each German word came from (the darker, the more the model looked there):")
    drawn = heat_map(Alignment.from_document(report.alignment), width=console.width, colors=colors)
    console.print(drawn, end="")
