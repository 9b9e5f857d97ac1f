"""`anaphora why`: where does the probability of the next word come from?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.arguments import open_text_model
from anaphora.cli.output import Json, Output, Quiet


def why(
    model: Annotated[Path, typer.Argument(help="Folder of a language model, or an ARPA file.")],
    prefix: Annotated[str, typer.Argument(help="What stands before; nothing: the beginning of a line.")] = "",
    top: Annotated[int, typer.Option(min=0, help="How many of the likeliest next words.")] = 5,
    word: Annotated[
        list[str] | None, typer.Option(help="A word to explain beside them; </s> is the end of a line. Repeatable.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain the next word: which context knew it, what each gave, what the longer ones cost, how it adds up.

    Of a mixture, also what each part says. Ends with checks: whether the explanation leads to the model's own numbers.

    anaphora why runs/plays "I am the"

    anaphora why runs/plays "I am the" --top 3 --word people --word "</s>"

    anaphora why model.arpa.gz "of the" --json
    """
    out = Output(as_json=json, quiet=quiet)
    loaded = open_text_model(out, model)
    found = loaded.why(prefix, top=top, words=word or ())
    for line in found.lines(shutil.get_terminal_size().columns):
        out.result(line)
    out.finish({"model": str(model), **found.document()})
    if not found.holds:
        out.say("a check fails: this is a mistake of ours; please report it")
        raise typer.Exit(1)
