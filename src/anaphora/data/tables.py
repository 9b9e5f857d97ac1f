"""One column of a table, row by row: TSV, JSON lines, Parquet; and CSV, which has rules of its own (csv_tables.py).
`FORMATS`, at the end, is all that others know of them: a new format is an entry there.

A row is one line of text: line breaks inside a field become spaces, and are counted. Names with dots reach into what is
nested: `pairs.jsonl#translation.en` is `{"translation": {"en": …}}`; a key that has the dots itself comes first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple

from anaphora.data.csv_tables import csv_rows, named_twice
from anaphora.data.lines import BLOCK_BYTES, COMPRESSIONS, LONGEST_LINE, Place, one_line, opened, reading, text_lines
from anaphora.errors import UserError, first_line, nearest, shown

MOST_UNPACKED = LONGEST_LINE
"""Bytes of a packed Parquet file, unpacked: it is read from its end, so all of it has to be in memory."""
MAX_COLUMN_DIGITS = 6
"""Of the number of a column."""


class Format(NamedTuple):
    """How tables of a format are read: line by line, by `field`, or as a whole, by `rows`."""

    endings: tuple[str, ...]
    """Of the names of its files."""
    field: Callable[[str, Place, int, bool], str] | None = None
    """The text of one line, which has that number; strict: half a surrogate pair in it is refused, else it becomes
    "?"."""
    rows: Callable[[Place, Counter[str]], Iterator[tuple[int, str]]] | None = None
    """The text of each row, and the line that it begins in."""
    column: Callable[[str, str, str], str] = lambda named, side, path: named or side
    """Which column is meant: by the one that was named, or by the side."""


def numbered_rows(where: Place, notes: Counter[str]) -> Iterator[tuple[int, str]]:
    """The text of each row, and the line that it begins in; in Parquet, the row."""
    format = FORMATS[where.format]
    if format.rows is not None:
        yield from format.rows(where, notes)
        return
    for number, line in enumerate(text_lines(where, notes), start=1):
        yield number, one_line(field(line, where, number), notes)


def field(line: str, where: Place, number: int, *, strict: bool = True) -> str:
    """The text of one line of a table that is read line by line."""
    read = FORMATS[where.format].field
    assert read is not None
    return read(line, where, number, strict)


def _tsv_column(named: str, side: str, path: str) -> str:
    """The number of a TSV's column, if it is one."""
    column = named or {"target": "2"}.get(side, "1")
    if not (column.isascii() and column.isdigit() and len(column) <= MAX_COLUMN_DIGITS and int(column) > 0):
        what = f"columns of a TSV file are numbers from 1, not {shown.repr(column)}"
        raise UserError(what, file=path, cure=f"write {path}#1")
    return column


def _tsv_field(line: str, where: Place, number: int, strict: bool) -> str:
    fields, column = line.split("\t"), int(where.column)
    if len(fields) < column:
        raise UserError(
            f"column {column} is asked for, but this line has {len(fields)} column{'s' * (len(fields) > 1)}",
            file=where.path,
            line=number,
            cure="separate columns by one tab",
        )
    return fields[column - 1]


def _json_field(line: str, where: Place, number: int, strict: bool) -> str:
    text = _json_text(line, where, number)
    if "\\u" not in line:
        return text
    if not strict:
        return text.encode("utf-8", "replace").decode()
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"{where.column!r} holds half a surrogate pair"
        raise UserError(what, file=where.path, line=number, cure="correct the escape") from error
    return text


def _json_text(line: str, where: Place, number: int) -> str:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = first_line(error) if line.strip() else "it is empty"
        cure = "correct or delete the line"
        if ".json" in [suffix.lower() for suffix in where.path.suffixes]:  # one document over many lines
            cure = f"write one object a line: jq -c '.[]' {where.path.name} > {where.path.stem}.jsonl"
        raise UserError(f"this line is not JSON ({why})", file=where.path, line=number, cure=cure) from error
    if not isinstance(document, dict):
        raise UserError("this line is not a JSON object", file=where.path, line=number, cure='write {"key": "text"}')
    try:
        text = inside(document, where.column)
    except KeyError:
        raise UserError(
            f"this line has no key {where.column!r}",
            file=where.path,
            line=number,
            cure=f"{nearest(where.column, paths(document))} (ask for a key with {where.path.name}#key)",
        ) from None
    if not isinstance(text, str):
        found = "null" if text is None else "object" if isinstance(text, dict) else type(text).__name__
        cure = "put the text in quotes, or leave the line out"
        if isinstance(text, dict) and text:
            cure = f"name a key in it: {where.path.name}#{where.column}.{next(iter(text))}"
        raise UserError(f"{where.column!r} holds {found}, not a string", file=where.path, line=number, cure=cure)
    return text


def inside(document: Mapping[str, Any], key: str) -> Any:
    """What stands under a key, or under a path of keys between dots; a key with the dots in it comes first.

    >>> inside({"a": {"b": 1}, "a.b": 2}, "a.b"), inside({"a": {"b.c": 3}}, "a.b.c")
    (2, 3)
    """
    if key in document:
        return document[key]
    at = key.find(".")
    while at >= 0:
        within = document.get(key[:at])
        if isinstance(within, Mapping):
            try:
                return inside(within, key[at + 1 :])
            except KeyError:
                pass
        at = key.find(".", at + 1)
    raise KeyError(key)


def paths(document: Mapping[str, Any]) -> list[str]:
    """The keys of an object, and of the objects in it: ["id", "translation.de", "translation.en"]."""
    found: list[str] = []
    for key, value in document.items():
        found += [f"{key}.{inner}" for inner in value] if isinstance(value, dict) and value else [key]
    return found


# -- Parquet -----------------------------------------------------------------------------------------------------------


def _parquet_rows(where: Place, notes: Counter[str]) -> Iterator[tuple[int, str]]:
    yield from enumerate((one_line(text, notes) for text in _parquet(where)), start=1)


def _parquet(where: Place) -> Iterator[str]:
    with reading(where.path):
        file = _parquet_file(where)
        schema = file.schema_arrow
    steps = _steps(where, schema)
    number = 0
    with reading(where.path):
        for batch in file.iter_batches(columns=[".".join(steps)]):
            column = batch.column(batch.schema.names.index(steps[0]))
            for value in column.to_pylist():
                number += 1
                for step in steps[1:]:
                    value = None if value is None else value[step]
                if value is None:
                    raise UserError(
                        f"{where.column!r} holds null, not a string",
                        file=where.path,
                        line=number,
                        cure="leave out or fill the rows without text",
                    )
                yield value


def _parquet_file(where: Place) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if where.path.suffix.lower() not in COMPRESSIONS:
        return parquet.ParquetFile(where.path)
    unpacked = BytesIO()
    with opened(where.path) as stream:
        while block := stream.read(BLOCK_BYTES):
            if unpacked.tell() + len(block) > MOST_UNPACKED:
                raise UserError(
                    f"has more than {MOST_UNPACKED >> 20} MB when unpacked, which has to be done in memory",
                    file=where.path,
                    cure="unpack it into a file first; Parquet packs its columns by itself",
                )
            unpacked.write(block)
    return parquet.ParquetFile(pa.BufferReader(pa.py_buffer(unpacked.getbuffer())))


def _steps(where: Place, schema: Any) -> list[str]:
    """The column of text, and the fields in it that lead to the text."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name in schema.names:
        if schema.names.count(name) > 1:
            columns[name] = None
        else:
            columns[name] = _fields(schema.field(name).type)
    leaves = {".".join(steps): steps for steps in _leaves(columns)}
    ambiguous = next((name for name in schema.names if name == where.column.partition(".")[0]), where.column)
    if schema.names.count(where.column) > 1 or (where.column not in leaves and schema.names.count(ambiguous) > 1):
        raise named_twice(where, ambiguous, schema.names.count(ambiguous))
    try:
        kind = inside(columns, where.column)
    except KeyError:
        raise UserError(
            f"there is no column {where.column!r}",
            file=where.path,
            cure=f"{nearest(where.column, leaves)} (ask for a column with {where.path.name}#name)",
        ) from None
    if isinstance(kind, dict) or not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        held = f"struct with {', '.join(kind)}" if isinstance(kind, dict) else kind
        cure = "name a column of text"
        if isinstance(kind, dict) and kind:
            cure = f"name a field in it: {where.path.name}#{where.column}.{next(iter(kind))}"
        raise UserError(f"column {where.column!r} holds {held}, not strings", file=where.path, cure=cure)
    return leaves[where.column] if where.column not in columns else [where.column]


def _fields(kind: Any) -> Any:
    """A struct as a dictionary of its fields, anything else as its type."""
    import pyarrow as pa

    return {one.name: _fields(one.type) for one in kind} if pa.types.is_struct(kind) else kind


def _leaves(columns: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[list[str]]:
    for name, kind in columns.items():
        if isinstance(kind, dict):
            yield from _leaves(kind, (*before, name))
        else:
            yield [*before, name]


# ----------------------------------------------------------------------------------------------------------------------

FORMATS = {
    "tsv": Format((".tsv",), field=_tsv_field, column=_tsv_column),
    "csv": Format((".csv",), rows=csv_rows),
    "jsonl": Format((".jsonl", ".ndjson", ".json"), field=_json_field),
    "parquet": Format((".parquet",), rows=_parquet_rows),
}
"""Every format of a table, by its name; what has another ending is plain text."""
