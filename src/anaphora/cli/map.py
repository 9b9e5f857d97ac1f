"""`anaphora map`: words as dots on a plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.cli.arguments import Force, check_new_file
from anaphora.cli.neighbours import Vectors
from anaphora.cli.output import Json, Output, Quiet
from anaphora.errors import UserError, printable


def map_(
    model: Vectors,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="Words to draw. By default the most frequent ones.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the map as .png or .svg.")] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=3, help="Number of the most frequent words.")] = 200,
    around: Annotated[int, typer.Option(min=0, help="With words: also this many neighbours of each.")] = 0,
    method: Annotated[str, typer.Option(help="pca, or tsne (needs scikit-learn).")] = "pca",
    clusters: Annotated[int | None, typer.Option(min=1, help="Number of clusters, each in a color.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the clusters and of tsne.")] = 1,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw a map of word vectors in two dimensions, and measure how much it distorts.

    Colors are clusters of the vectors themselves; words are labeled where there is room.

    anaphora map runs/words --picture map.png

    anaphora map runs/words king paris monday --around 15 --method tsne --picture some.png

    anaphora map runs/words --json
    """
    from anaphora import api

    out = Output(as_json=json, quiet=quiet)
    if picture is None and not json:
        raise UserError("no output is given for the map", cure="give --picture FILE.png, or --json for the numbers")
    if picture is not None and picture.suffix.lower() not in (".png", ".svg"):
        raise UserError("is not a supported image format", file=picture, cure="use a name ending in .png or .svg")
    check_new_file(picture, force=force)
    if words and number != 200:
        raise UserError("-n is for the most frequent words, but words are given", cure="leave one of them out")
    if around and not words:
        raise UserError("--around needs words, and none are given", cure="give some, or leave it out")
    loaded = api.load_vectors_model(model)
    for note in loaded.notes:
        out.say(f"note: {note}")
    how: dict[str, Any] = {"number": number, "around": around, "method": method, "clusters": clusters, "seed": seed}
    found = loaded.map(words, **how)
    if picture is not None:
        from anaphora.explain.draw.vector_map_picture import draw_map
        from anaphora.files.shared_names import name_of
        from anaphora.folder import write_bytes

        drawn = draw_map(
            found, format=picture.suffix[1:].lower(), title=f"{printable(name_of(model))}: {len(found.words):,} words"
        )
        write_bytes(picture, drawn, pipes=True)
        out.result(f"{picture}: {len(found.words):,} words")
    out.result(found.note())
    if found.near and found.kept < 0.5:
        out.say(
            "note: more than half of the neighbors on this map are not the nearest in the full space: read it with care"
        )
    drawn_to = None if picture is None else str(picture)
    out.finish({"model": str(model), "picture": drawn_to, **found.document()})
