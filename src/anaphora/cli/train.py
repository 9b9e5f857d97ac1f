"""`anaphora train`: learn from two files, or go on learning."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet, program


def train(
    run: Annotated[Path, typer.Argument(help="Folder of the run; it is made, or continued.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION.KEY=VALUE]…", help="training.max_steps=2000 or model.score=additive, say."),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="Text to translate from: .txt .tsv .jsonl .parquet, also .gz .xz .zst.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="The same lines in the other language.")] = None,
    valid_source: Annotated[list[str] | None, typer.Option(help="Validation text; else a part is held out.")] = None,
    valid_target: Annotated[list[str] | None, typer.Option(help="Its other side.")] = None,
    recipe: Annotated[
        str, typer.Option(help="tiny, small, base, big, a YAML file, or transformer: sized to the corpus.")
    ] = "transformer",
    from_: Annotated[Path | None, typer.Option("--from", help="Start from this trained model (fine-tuning).")] = None,
    device: Device = "auto",
    force: Annotated[bool, typer.Option("--force", help="Continue a run although its settings change.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a translator. Repeat the command to continue; raise training.max_steps to go further.

    anaphora train runs/en-de --source train.en --target train.de

    anaphora train runs/en-de --source train.tsv --recipe tiny training.max_minutes=30

    anaphora train runs/mine --from runs/en-de --source my.en --target my.de
    """
    # until the loop takes over, SIGTERM ends the preparation as Ctrl-C does
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    import dataclasses

    from anaphora import api
    from anaphora.errors import UserError
    from anaphora.training.loop import Interrupted

    output = Output(as_json=json, quiet=quiet)
    if not source:
        raise UserError("no text to learn from", cure="give --source FILE --target FILE")
    try:
        outcome = api.train(
            run,
            source=source,
            target=target or (),
            valid_source=valid_source or (),
            valid_target=valid_target or (),
            recipe=recipe,
            start_from=from_,
            device=device,
            force=force,
            settings=settings or (),
            console=output.console,
        )
    except Interrupted as error:
        output.say(f"interrupted: step {error.step} is saved in {run}; repeat the command to go on")
        output.finish({"folder": str(run), "interrupted": True, "steps": error.step})
        sys.exit(130)
    output.say(f"finished: {outcome.reason}. Now: {program()} translate {run} input.txt")
    output.finish(dataclasses.asdict(outcome))
