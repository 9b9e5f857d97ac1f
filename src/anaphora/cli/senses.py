"""`anaphora senses`: what do the senses of a Backpack's words say, and where does a text use them?"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.cli.arguments import Patches, check_new_file, open_text_model, read_text, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.errors import UserError

NEAREST = 5
"""Nearest senses that `--nearest` shows."""


def senses(
    model: Annotated[Path, typer.Argument(help="Folder of a Backpack language model.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="Words to look up.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of words that each sense raises and lowers.")] = 10,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="FILE", help="Find uses of the words in this text; - is stdin. Repeatable."),
    ] = None,
    examples: Annotated[
        int | None, typer.Option(min=0, help="With --text: lines to show for each sense. By default 2.")
    ] = None,
    nearest: Annotated[
        bool, typer.Option("--nearest", help=f"Show the {NEAREST} nearest senses of other words.")
    ] = False,
    table: Annotated[
        bool,
        typer.Option("--table", help="Precompute the senses of all tokens and store them beside the weights."),
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Store that table in full precision instead of bfloat16.")
    ] = False,
    patch: Patches = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the words that each sense raises as .svg or .png.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the picture.")] = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the senses of words in a Backpack: the next words that each sense raises and lowers most.

    With --text, also the share of the weight that each sense has in that text, and the lines that use it most.

    anaphora senses runs/backpack sick bank

    anaphora senses runs/backpack bank --text corpus.txt --examples 3

    anaphora senses runs/backpack bank --nearest --top 6 --picture bank.png

    anaphora senses runs/backpack --table
    """
    out = Output(as_json=json, quiet=quiet)
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise UserError("is not a supported image format", file=picture, cure="use a name ending in .svg or .png")
    check_new_file(picture, force=force, inputs=text or [])
    if exact and not table:
        raise UserError("--exact needs --table", cure="add --table")
    if examples is not None and not text:
        raise UserError("--examples needs a text", cure="add --text FILE")
    if not words and (not table or text or nearest or picture is not None):
        raise UserError("no word is given", cure="give one, or --table alone")
    if table and patch:
        raise UserError("a table holds the senses of the model without patches", cure="leave out --patch")
    loaded = open_text_model(out, model, device, patch)
    named: dict[str, Any] = {"model": str(model)}
    if table:
        made = loaded.make_sense_table(exact=exact)
        named["table"] = str(made)
        out.say(f"senses of {loaded.model.vocabulary:,} tokens, {made.stat().st_size / 1e6:,.1f} MB: {made}")
        if not words:
            out.finish(named)
            return
    notes: Counter[str] = Counter()
    lines = None if not text else read_text(text, notes)
    how = {} if examples is None else {"examples": examples}
    found = loaded.senses(words or [], top=top, nearest=NEAREST if nearest else 0, text=lines, **how)
    warn_of_notes(out, notes)
    if picture is not None:  # first: whoever reads no more than the first lines has it all the same
        from anaphora.explain.draw.senses_picture import draw_senses
        from anaphora.folder import write_bytes

        write_bytes(picture, draw_senses(found, format=picture.suffix.lower()[1:]), pipes=True)
    for line in found.lines(shutil.get_terminal_size().columns):
        out.result(line)
    if picture is not None:
        out.say(f"drawn: {picture}")
    if patch:
        named["patches"] = [str(file) for file in patch]
    out.finish({**named, **found.document()})
