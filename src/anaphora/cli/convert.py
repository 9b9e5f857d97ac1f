"""`anaphora convert`: a model folder as an ARPA file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Json, Output, Quiet


def convert(
    from_: Annotated[Path, typer.Argument(metavar="FROM", help="Model folder, or ARPA file (.arpa, .arpa.gz).")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="ARPA file, or new model folder.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file or model folder.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn a counted language model into an ARPA file, which other toolkits read, or an ARPA file into a model folder.

    anaphora convert runs/plays plays.arpa.gz

    anaphora convert theirs.arpa theirs
    """
    from dataclasses import asdict

    from anaphora.converting import convert as make

    out = Output(as_json=json, quiet=quiet)
    made = make(from_, to, force=force)
    for note in made.notes:
        out.say(f"note: {note}")
    if made.renamed:
        shown = ", ".join(f"{token!r} is {name!r}" for token, name in list(made.renamed.items())[:5])
        more = f", and {len(made.renamed) - 5:,} more (--json lists them)" if len(made.renamed) > 5 else ""
        out.say(f"note: renamed, because the file cannot hold them: {shown}{more}")
    counted = ", ".join(f"{size:,} {order}-grams" for order, size in enumerate(made.sizes, start=1))
    out.result(f"{to} holds {counted}")
    out.finish({**asdict(made), "source": str(from_), "target": str(to)})
