"""Lines from files and from stdin, as every verb reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from anaphora.errors import UserError


def read_stdin() -> Iterator[str]:
    """Lines of stdin as they come, split on \\n only."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.removesuffix(b"\n").decode("utf-8")
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
    from anaphora.text.formats import read_rows

    if not source:
        raise UserError("no source text given", cure="give --source FILE --target FILE")
    if not target:
        raise UserError("no target text given", cure="give --target FILE")
    rows = list(read_rows({"source": source, "target": target}))
    return [row[0] for row in rows], [row[1] for row in rows]
