"""`anaphora why`: where does the probability of the next word come from? What tells two words apart?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.arguments import open_text_model
from anaphora.cli.output import Json, Output, Quiet
from anaphora.errors import UserError


def why(
    model: Annotated[Path, typer.Argument(help="Folder of a language model or of a GloVe run, or an ARPA file.")],
    prefix: Annotated[
        str, typer.Argument(help="What stands before; nothing: the beginning of a line. Of GloVe: a word.")
    ] = "",
    others: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OTHER [WORD…]]", help="Of GloVe: another word, and words to ask about."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many words: the likeliest next; of GloVe, on either side.")] = 5,
    word: Annotated[
        list[str] | None,
        typer.Option(help="A word to explain (of GloVe, to ask about); </s> is the end of a line. Repeatable."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain the next word: which context knew it, what each gave, what the longer ones cost, how it adds up.

    Of a mixture, also what each part says. Ends with checks: whether the explanation leads to the model's own numbers.

    Of a GloVe run, what tells two words apart: how much of the text around each is a word k, and the ratio of the two.

    anaphora why runs/plays "I am the"

    anaphora why runs/plays "I am the" --top 3 --word people --word "</s>"

    anaphora why model.arpa.gz "of the" --json

    anaphora why runs/glove ice steam solid gas water fashion

    anaphora why runs/glove ice steam --top 8
    """
    from anaphora import api

    out = Output(as_json=json, quiet=quiet)
    others, word = others or [], word or []
    if api.is_vectors(model):
        _apart(out, model, [prefix, *others] if prefix else others, word, top)
        return
    if others:
        raise UserError(
            f"one text was expected, and {others[0]!r} stands behind it", cure=f'put quotes around it: "{prefix} …"'
        )
    loaded = open_text_model(out, model)
    found = loaded.why(prefix, top=top, words=word)
    for line in found.lines(shutil.get_terminal_size().columns):
        out.result(line)
    out.finish({"model": str(model), **found.document()})
    if not found.holds:
        out.say("a check fails: this is a mistake of ours; please report it")
        raise typer.Exit(1)


def _apart(out: Output, model: Path, words: list[str], more: list[str], top: int) -> None:
    """What tells two words apart, by the counts of a GloVe run."""
    from anaphora import api

    if len(words) < 2:
        raise UserError(
            "word vectors tell two words apart, and two were not given", file=model, cure="name two: ice steam"
        )
    loaded = api.load_vectors_model(model)
    for note in loaded.notes:
        out.say(f"note: {note}")
    found = loaded.ratios(words[0], words[1], [*words[2:], *more], top=top)
    for line in found.lines(shutil.get_terminal_size().columns):
        out.result(line)
    out.finish({"model": str(model), **found.document()})
