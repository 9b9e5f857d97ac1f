"""`anaphora encode`: text becomes vectors."""

from __future__ import annotations

import io
import json as json_format
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.arguments import Force, check_new_file, read_text, reads_terminal, warn_of_notes
from anaphora.cli.output import Device, Json, Output, Quiet
from anaphora.results import count

if TYPE_CHECKING:
    from anaphora.pipelines.text_model import TextModel

FORMATS = (".npy", ".jsonl", ".safetensors")
DECIMAL_DIGITS = 6


def encode(
    model: Annotated[Path, typer.Argument(help="Folder of a neural language model or classifier.")],
    file: Annotated[str, typer.Argument(help="Text, one sentence a line; - is stdin.")] = "-",
    output: Annotated[
        Path | None,
        typer.Option(help="Write to this file: .npy, .jsonl or .safetensors. By default prints JSON lines."),
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="One vector per word, in its context.")] = False,
    pool: Annotated[
        str | None, typer.Option(help="How to make one vector of a line: mean, max, last or first.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer to take the vectors from; 0 is the embedding. By default the last.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="With --words: how to split words, punctuation or whitespace.")
    ] = None,
    force: Force = False,
    device: Device = "auto",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Encode text as vectors: one per line, or one per word in its context.

    A .npy file holds an array (lines, dim), a .jsonl file one object per line, a .safetensors file `vectors`
    (lines, dim) or with --words (words, dim) and `starts`, where each line's words begin.
    --json without --output holds them all.

    anaphora encode runs/bert lines.txt --output lines.npy

    anaphora encode runs/lstm lines.txt --words --layer 2 --output w.safetensors

    echo 'the bank of the river' | anaphora encode runs/bert --words
    """
    from anaphora import api
    from anaphora.errors import UserError, nearest
    from anaphora.folder import write_bytes, write_text

    out = Output(as_json=json, quiet=quiet)
    kind = ".jsonl" if output is None else output.suffix
    if kind not in FORMATS:
        raise UserError(
            f"vectors cannot be written as {kind or 'a file without an ending'}", cure=nearest(kind, FORMATS)
        )
    if words and kind == ".npy":
        raise UserError(
            "a .npy array cannot store which line each word belongs to", cure="write .safetensors or .jsonl"
        )
    if words and pool is not None:
        raise UserError("--pool is for sentence vectors, and --words gives word vectors", cure="leave one of them out")
    if split is not None and (not words or split not in ("punctuation", "whitespace")):
        cure = "write --words too" if not words else "use punctuation or whitespace"
        raise UserError(f"--split {split} has no meaning here", cure=cure)
    check_new_file(output, force=force, inputs=[file])
    reads_terminal(out, model, file)
    loaded = api.load_text_model(model, device)
    notes: Counter[str] = Counter()
    lines = list(read_text([file], notes, together=True))
    warn_of_notes(out, notes)
    if not lines:
        out.say(f"warning: {file} is empty: there is nothing to encode")
    how: dict[str, Any] = {"layer": layer}
    encodings: list[dict[str, Any]] = []
    how |= {"split": split or "punctuation"} if words else {"pool": pool or "mean"}
    try:
        if kind == ".jsonl":
            written: list[str] = []
            size = dim = 0
            for row, (n, d) in _as_lines(loaded, lines, words=words, how=how):
                size, dim = size + n, max(dim, d)
                if output is not None:
                    written.append(json_format.dumps(row, ensure_ascii=False) + "\n")
                elif json:
                    encodings.append(row)
                else:
                    out.text(json_format.dumps(row, ensure_ascii=False))
            if output is not None:
                write_text(output, "".join(written), pipes=True)
        else:
            assert output is not None
            content, (size, dim) = _as_arrays(loaded, lines, words=words, how=how, kind=kind)
            write_bytes(output, content, pipes=True)
    except UserError as error:
        where = file if error.line is not None and error.file is None else error.file
        raise UserError(error.what, file=where, line=error.line, cure=error.cure) from None
    what = count(size, "vector", "vectors")
    out.say(f"{what} of {dim:,} numbers, of {count(len(lines), 'line', 'lines')}" + (f": {output}" if output else ""))
    document = {"model": str(model), "lines": len(lines), "vectors": size, "dim": dim, **how}
    inside = {"encodings": encodings} if output is None else {}
    out.finish({**document, "output": None if output is None else str(output), **inside})


def _as_lines(
    loaded: TextModel, lines: list[str], *, words: bool, how: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], tuple[int, int]]]:
    """An object for each line, and how many vectors it has, how wide."""
    if words:
        for line in loaded.stream_word_vectors(lines, **how):
            own = [
                {"word": word.text, "vector": [round(value, DECIMAL_DIGITS) for value in vector]}
                for word, vector in zip(line.words, line.vectors.tolist())
            ]
            shape = line.vectors.shape
            yield {"text": line.text, "words": own}, (len(own), shape[1])
        return
    for text, vector in zip(lines, loaded.encode(lines, **how)):
        numbers = [round(value, DECIMAL_DIGITS) for value in vector.tolist()]
        yield {"text": text, "vector": numbers}, (1, len(numbers))


def _as_arrays(
    loaded: TextModel, lines: list[str], *, words: bool, how: dict[str, Any], kind: str
) -> tuple[bytes, tuple[int, int]]:
    """The bytes of a file of arrays, and how many vectors of which width it has."""
    import numpy as np

    if not words:
        vectors = loaded.encode(lines, **how)
        if kind == ".npy":
            stream = io.BytesIO()
            np.save(stream, vectors)
            return stream.getvalue(), (vectors.shape[0], vectors.shape[1])
        tensors, told = {"vectors": vectors}, {}
    else:
        found = loaded.word_vectors(lines, **how)
        starts = np.cumsum([0, *(len(line.words) for line in found)])
        vectors = np.concatenate([line.vectors for line in found]) if found else np.zeros((0, 0), np.float32)
        tensors = {"vectors": vectors, "starts": starts}
        told = {"words": json_format.dumps([word.text for line in found for word in line.words], ensure_ascii=False)}
    from safetensors.numpy import save

    return save(tensors, {"format": "np", **told}), (vectors.shape[0], vectors.shape[1])
