"""`anaphora why`: where does the probability of the next word come from? What distinguishes two words?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.arguments import Patches, check_new_file, open_text_model
from anaphora.cli.output import Json, Output, Quiet
from anaphora.errors import UserError

if TYPE_CHECKING:
    from anaphora.explain.trace_parts import Walk


def why(
    model: Annotated[Path, typer.Argument(help="Folder of a language model or of a GloVe run, or an ARPA file.")],
    prefix: Annotated[
        str, typer.Argument(help="Text before the word. By default the beginning of a line. For GloVe: a word.")
    ] = "",
    others: Annotated[
        list[str] | None,
        typer.Argument(metavar="OTHER", help="For GloVe: another word, and words to compare the two by."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, help="Number of words: the likeliest next ones; for GloVe, on either side.")
    ] = 5,
    word: Annotated[
        list[str] | None,
        typer.Option(help="A word to explain (for GloVe, to compare by); </s> is the end of a line. Repeatable."),
    ] = None,
    patch: Patches = None,
    picture: Annotated[
        Path | None, typer.Option(help="For a Backpack: draw the shares by word and sense as .svg or .png.")
    ] = None,
    alpha: Annotated[
        Path | None, typer.Option(help="For a Backpack: draw the weights α of each sense as .svg or .png.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite pictures.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain where the probability of the next word comes from, with checks that it adds up to the model's own.

    For an n-gram: which contexts knew the word, what each contributes, and what backing off costs. For a mixture, also
    what each part contributes.

    For a Backpack: what each sense of each preceding word adds to the logit.

    For any other language model: its likeliest next words with their ranks, and those of --word; for a masked model,
    of the word in a blank.

    For a GloVe run: what distinguishes two words, by the ratio of their co-occurrence probabilities with other words.

    anaphora why runs/plays "I am the"

    anaphora why runs/plays "I am the" --top 3 --word people --word "</s>"

    anaphora why runs/lstm "I am the" --top 10 --word king

    anaphora why runs/bert "The ___ sat on the mat."

    anaphora why model.arpa.gz "of the" --json

    anaphora why runs/backpack "The doctor saw a sick" --picture shares.svg --alpha alpha.svg

    anaphora why runs/glove ice steam solid gas water fashion

    anaphora why runs/glove ice steam --top 8
    """
    from anaphora import api

    out = Output(as_json=json, quiet=quiet)
    others, word = others or [], word or []
    for file in (picture, alpha):
        if file is not None and file.suffix.lower() not in (".svg", ".png"):
            raise UserError("is not a supported image format", file=file, cure="use a name ending in .svg or .png")
        check_new_file(file, force=force)
    if picture is not None and alpha is not None and picture.resolve() == alpha.resolve():
        raise UserError("is given for both pictures", file=alpha, cure="name two files")
    if api.is_vectors(model):
        if picture is not None or alpha is not None:
            raise UserError("pictures show a Backpack's senses, and these are word vectors", cure="leave it out")
        if patch:
            raise UserError("--patch is for Backpacks, and these are word vectors", cure="leave it out")
        _apart(out, model, [prefix, *others] if prefix else others, word, top)
        return
    if others:
        raise UserError(
            f"one text was expected, but {others[0]!r} follows it", cure=f'put quotes around it: "{prefix} …"'
        )
    loaded = open_text_model(out, model, patches=patch)
    found = loaded.why(prefix, top=top, words=word)
    drawn = {} if picture is None and alpha is None else found.pictures(loaded.folder)
    told = []  # pictures first: whoever reads no more than the first lines has them all the same
    for file, walk in ((picture, drawn.get("shares")), (alpha, drawn.get("alpha"))):
        if file is not None and walk is not None:
            told += _draw(file, walk)
    for line in found.lines(shutil.get_terminal_size().columns):
        out.result(line)
    for line in told:
        out.say(line)
    named = {"patches": [str(file) for file in patch]} if patch else {}
    out.finish({"model": str(model), **named, **found.document()})
    if not found.holds:
        out.say("a check fails: this is a bug; please report it")
        raise typer.Exit(1)


def _draw(file: Path, walk: Walk) -> list[str]:
    """Draws; what is to be told of it."""
    from anaphora.explain.draw.walk_picture import walk_png, walk_svg
    from anaphora.folder import write_bytes

    svg = file.suffix.lower() == ".svg"
    content, notes = (walk_svg([walk]).encode(), list[str]()) if svg else walk_png([walk])
    write_bytes(file, content, pipes=True)
    return [f"drawn: {file}", *(f"note: {note}" for note in notes)]


def _apart(out: Output, model: Path, words: list[str], more: list[str], top: int) -> None:
    """What tells two words apart, by the counts of a GloVe run."""
    from anaphora import api

    if len(words) < 2:
        raise UserError("for word vectors, two words are needed to compare", file=model, cure="name two: ice steam")
    loaded = api.load_vectors_model(model)
    for note in loaded.notes:
        out.say(f"note: {note}")
    found = loaded.ratios(words[0], words[1], [*words[2:], *more], top=top)
    for line in found.lines(shutil.get_terminal_size().columns):
        out.result(line)
    out.finish({"model": str(model), **found.document()})
