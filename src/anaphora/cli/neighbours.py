"""`anaphora neighbours`: the words nearest to a word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaphora.cli.output import Json, Output, Quiet

Vectors = Annotated[
    Path, typer.Argument(help="Folder of word vectors, or a file of them: .txt .vec .bin .safetensors, also .gz.")
]
Number = Annotated[int, typer.Option("--number", "--topn", "-n", min=1, help="How many words.")]


def neighbours(
    model: Vectors,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Words or items whose neighbours to list.")],
    number: Number = 10,
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate", help="Search by an index (faiss) that is built once and kept beside the vectors."
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the words with the most similar vectors, each with its cosine similarity.

    anaphora neighbours runs/words king queen

    anaphora neighbours GoogleNews.bin.gz king -n 5

    anaphora neighbours runs/books "War and Peace"

    anaphora neighbours millions.bin king --approximate
    """
    from anaphora import api

    out = Output(as_json=json, quiet=quiet)
    loaded = api.load_vectors_model(model)
    for note in loaded.notes:
        out.say(f"note: {note}")
    about = None
    if approximate:
        for word in words:
            loaded.vectors.get_vector(word)  # an unknown one is told before minutes are spent on an index
        index, recall = loaded.index(out.say)
        out.say(f"approximate: of the true ten nearest words, this index finds {recall:.1%}")
        about = {"index": str(loaded.index_file), "recall": recall}
        found = {word: index.most_similar(word, topn=number) for word in dict.fromkeys(words)}
    else:
        found = loaded.vectors.neighbours(dict.fromkeys(words), topn=number)
    for place, (word, near) in enumerate(found.items()):
        if len(found) > 1:
            out.result(("\n" if place else "") + word)
        for name, cosine in near:
            out.result(f"{cosine:7.4f}  {name}")
    document = {word: [{"word": name, "cosine": cosine} for name, cosine in near] for word, near in found.items()}
    out.finish({"model": str(model), "neighbours": document, "approximate": about})
