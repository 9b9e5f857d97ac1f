"""`anaphora convert`: a model folder as an ARPA file, as vectors, as a published Backpack, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Json, Output, Quiet


def convert(
    from_: Annotated[
        Path, typer.Argument(metavar="FROM", help="Model folder, ARPA file (.arpa, .arpa.gz), file of vectors.")
    ],
    to: Annotated[Path, typer.Argument(metavar="TO", help="ARPA file, file of vectors, or new model folder.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file or model folder.")] = False,
    header: Annotated[
        bool,
        typer.Option(help="For vectors as text: begin with a line of their number and size (GloVe files have none)."),
    ] = True,
    space: Annotated[
        str | None, typer.Option(help="For vectors as text: what stands for a space inside a word.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert between model folders and the files of other tools: ARPA, word vectors, published Backpacks.

    A counted language model becomes an ARPA file, and an ARPA file a model folder.

    Word vectors become the file that its name asks for: .txt or .vec (text), .bin (binary), both also .gz, or
    .safetensors; such a file becomes another one, or a model folder.

    A published Backpack's folder (config.json, weights, vocab.json, merges.txt) becomes a model folder, and a Backpack
    of that shape becomes such a folder.

    anaphora convert runs/plays plays.arpa.gz

    anaphora convert theirs.arpa theirs

    anaphora convert backpack-gpt2 runs/published

    anaphora convert runs/words words.bin

    anaphora convert runs/words glove.txt --no-header
    """
    from dataclasses import asdict

    from anaphora.interop.conversion import convert as make

    out = Output(as_json=json, quiet=quiet)
    made = make(from_, to, force=force, header=header, space=space)
    for note in made.notes:
        out.say(f"note: {note}")
    if made.renamed:
        shown = ", ".join(f"{token!r} is {name!r}" for token, name in list(made.renamed.items())[:5])
        more = f", and {len(made.renamed) - 5:,} more (--json lists them)" if len(made.renamed) > 5 else ""
        out.say(f"note: renamed, because the file format cannot store them: {shown}{more}")
    about = {"source": str(from_), "target": str(to)}
    if made.words is not None:
        out.result(f"{to} holds {made.words:,} words, {made.dim} numbers each")
        out.finish({**about, "words": made.words, "dim": made.dim})
        return
    counted = ", ".join(f"{size:,} {order}-grams" for order, size in enumerate(made.sizes, start=1))
    backpack = made.parameters is not None
    out.result(f"{to} holds a Backpack of {made.parameters:,} parameters" if backpack else f"{to} holds {counted}")
    document = asdict(made) | about
    out.finish({name: value for name, value in document.items() if name not in ("words", "dim")})
