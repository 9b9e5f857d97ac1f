"""`anaphora demo`: three minutes from nothing to a translator."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet


def demo(
    folder: Annotated[Path, typer.Argument(help="Where the corpus and the model go.")] = Path("demo"),
    write: Annotated[
        Path | None, typer.Option(help="Only write the corpus here, with gold alignments and sense labels.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="With --write: training pairs.")] = 40_000,
    seed: Annotated[int, typer.Option(help="With --write: another seed, other sentences.")] = 1,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a small English-German translator on a corpus made here, and watch it tell a river bank from a money
    bank."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    import dataclasses

    out = Output(as_json=json, quiet=quiet)
    if write is not None:
        from anaphora.errors import UserError
        from anaphora.text import pocket

        if write.exists() and any(write.iterdir()):
            raise UserError("exists already", file=write, cure="choose a new folder; nothing was touched")
        pocket.write(write, train=pairs, seed=seed)
        out.result(f"{pairs:,} training pairs, validation and test text, alignments and senses are in {write}")
        out.finish({"folder": str(write), "train": pairs, "seed": seed})
        return

    from anaphora.demo import run_demo
    from anaphora.training.loop import Interrupted

    try:
        report = run_demo(folder, device=device, console=out.console, say=out.say)
    except Interrupted as error:
        out.say(f"interrupted: step {error.step} is saved; repeat the command to go on")
        out.finish({"folder": str(folder), "interrupted": True, "steps": error.step})
        raise typer.Exit(130) from None
    _show(out, report)
    out.finish(dataclasses.asdict(report))


def _show(out: Output, report: object) -> None:
    from anaphora.demo import DemoReport

    assert isinstance(report, DemoReport)
    out.result("")
    out.result("The same English word, two meanings; these sentences were not in its training text:")
    out.result("")
    for example in report.examples[:12]:
        mark = "✓" if example["translation"] == example["reference"] else "✗"
        out.result(f"  {example['word']} ({example['sense']})")
        out.result(f"      {example['source']}")
        out.result(f"    {mark} {example['translation']}")
        if mark == "✗":
            out.result(f"      {example['reference']}   (expected)")
    out.result("")
    out.result(f"  exactly right         {report.exact:6.1%} of {report.lines:,} test sentences")
    out.result(f"  with unseen combinations {report.exact_withheld:.1%} of {report.withheld_lines:,} among them")
    out.result(f"  ambiguous words right {report.ambiguous:6.1%} of {report.ambiguous_words:,}")
    out.result(f"  trained in            {report.seconds:.0f} s")
    out.result("")
    out.result("Next, type:")
    out.result(f"  echo 'The sick farmer slept in the garden.' | anaphora translate {report.model}")
    out.result(f"  anaphora evaluate {report.model} --source {report.corpus}/test.en --target {report.corpus}/test.de")
    out.result(f"  anaphora info {report.model}")
    out.result("and with your own two files, line by line translations of each other:")
    out.result("  anaphora train runs/mine --source my.en --target my.de")
    out.result("  anaphora translate runs/mine input.txt")
