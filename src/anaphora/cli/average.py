"""`anaphora average`: the mean of a run's last checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Device, Json, Output, Quiet


def average(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    last: Annotated[
        int | None, typer.Option(min=1, help="Number of checkpoints, the latest ones. [default: 5, or all there are]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Keep the average even if it is worse.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore the model that training produced.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replace a run's model by the average of its last checkpoints; the training state stays as it is.

    Both models are evaluated on the validation text. An average that is worse by training.metric is not kept.

    anaphora average runs/en-de

    anaphora average runs/plays-lstm --last 3 --json

    anaphora average runs/en-de --undo
    """
    from anaphora import api
    from anaphora.errors import UserError
    from anaphora.training.reporting import describe

    out = Output(as_json=json, quiet=quiet)
    if undo:
        if last is not None or force:
            raise UserError(
                "--undo restores the model that training produced, and takes no other options",
                cure="leave out --last and --force",
            )
        undone = api.average(run, undo=True)
        out.result(
            f"restored in {run}: the weights that training published, {undone['weights'] or 'its newest checkpoint'}"
        )
        out.finish(undone)
        return
    found = api.average(run, last, device=device, force=force)
    steps = found["averaged"]
    several = len(steps) > 1
    out.result(f"averaged {len(steps)} checkpoint{'s' * several}: step{'s' * several} {', '.join(map(str, steps))}")
    for when in ("before", "after"):
        if found[when]:
            out.result(f"{when:>6}  {describe(found[when])}")
    if not found["kept"]:
        before, after = (found[when][found["metric"]] for when in ("before", "after"))
        out.result(
            f"not kept: {found['metric']} {apart(after, before)} is worse than {apart(before, after)}; {run} stays as "
            "it is (--force keeps the average all the same)"
        )
    out.finish(found)


def apart(value: float, other: float) -> str:
    """With as many decimal places, four or more, as tell it from the other."""
    places = next((places for places in range(4, 17) if f"{value:.{places}f}" != f"{other:.{places}f}"), 17)
    return f"{value:.{places}f}"
