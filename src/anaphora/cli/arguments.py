"""What several verbs take: lines from files and from stdin, decoding settings, a file to write."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from anaphora.errors import UserError

Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any decoding setting.")]
OutputFile = Annotated[Path | None, typer.Option(help="Write the translations here.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]


def decoding_settings(set_: Sequence[str] | None, **flags: Any) -> dict[str, Any]:
    """`--set KEY=VALUE` and the flags that were given, as changes to a model's decoding settings."""
    from anaphora.config import overrides

    for item in set_ or ():
        if "=" not in item:
            raise UserError(f"--set {item} has no value", cure="write --set KEY=VALUE, such as --set length_penalty=1")
    changes = overrides([f"decoding.{item}" for item in set_ or ()], ["decoding"]).get("decoding", {})
    return changes | {key: value for key, value in flags.items() if value is not None}


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def check_new_file(path: Path | None, *, force: bool) -> None:
    """Before any work: is there room for the output, and nothing in its place?"""
    if path is None:
        return
    if path.exists() and not force:
        raise UserError("exists already", file=path, cure="choose another file or add --force")
    if not path.absolute().parent.is_dir():
        raise UserError("there is no such folder", file=path.parent, cure="make it first")


def read_stdin() -> Iterator[str]:
    """Lines of stdin as they come, split on \\n only."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.removesuffix(b"\n").decode("utf-8")
            yield text.removeprefix("\ufeff") if number == 1 else text  # a byte-order mark, as in files
        except UnicodeDecodeError as error:
            raise UserError(
                f"is not UTF-8 (byte {error.start + 1} of the line)",
                file="stdin",
                line=number,
                cure="convert it: iconv",
            ) from None


def read_side(files: list[str], side: str) -> list[str]:
    """All lines of one side of a corpus."""
    from anaphora.text.formats import read_rows

    return [row[0] for row in read_rows({side: files})]


def read_pairs(source: list[str] | None, target: list[str] | None) -> tuple[list[str], list[str]]:
    """Both sides, line for line; a table (.tsv, .jsonl, .parquet) may hold the two."""
    from anaphora.text.formats import read_rows, same_table

    if not source:
        raise UserError("no source text given", cure="give --source FILE --target FILE")
    target = target or same_table(source)
    if not target:
        raise UserError("no target text given", cure="give --target FILE")
    rows = list(read_rows({"source": source, "target": target}))
    return [row[0] for row in rows], [row[1] for row in rows]
