"""`anaphora analogy`: a is to b as c is to what?"""

from __future__ import annotations

from typing import Annotated

import typer

from anaphora.cli.neighbours import Number, Vectors
from anaphora.cli.output import Json, Output, Quiet


def analogy(
    model: Vectors,
    a: Annotated[str, typer.Argument(help="A word.")],
    b: Annotated[str, typer.Argument(help="A word related to A.")],
    c: Annotated[str, typer.Argument(help="Another word, in the place of A.")],
    number: Number = 5,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Complete "A is to B as C is to …": the words nearest to the vector B - A + C, without these three.

    anaphora analogy runs/words man king woman

    anaphora analogy glove.6B.100d.txt france paris italy -n 1
    """
    from anaphora import api

    out = Output(as_json=json, quiet=quiet)
    loaded = api.load_vectors_model(model)
    for note in loaded.notes:
        out.say(f"note: {note}")
    found = loaded.vectors.analogy(a, b, c, topn=number)
    out.say(f"{a} is to {b} as {c} is to …")
    for name, cosine in found:
        out.result(f"{cosine:7.4f}  {name}")
    answers = [{"word": name, "cosine": cosine} for name, cosine in found]
    out.finish({"model": str(model), "a": a, "b": b, "c": c, "answers": answers})
