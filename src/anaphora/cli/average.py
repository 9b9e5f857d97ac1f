"""`anaphora average`: the mean of a run's last checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet


def average(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    last: Annotated[
        int | None, typer.Option(min=1, help="How many checkpoints, from the newest. [default: 5, or all there are]")
    ] = None,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the mean of the last checkpoints the folder's model; its training state stays as it is.

    anaphora average runs/en-de

    anaphora average runs/plays-lstm --last 3 --json
    """
    from anaphora import api
    from anaphora.training.reporting import describe

    out = Output(as_json=json, quiet=quiet)
    found = api.average(run, last, device=device)
    out.result(f"averaged steps {', '.join(map(str, found['averaged']))}")
    for when in ("before", "after"):
        if found[when]:
            out.result(f"{when:>6}  {describe(found[when])}")
    out.finish(found)
