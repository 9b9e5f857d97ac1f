"""Reading lines of text from the files people have: plain text, TSV, CSV, JSONL, Parquet; bare or as .gz, .xz, .zst.

A side of a corpus ("source", "target", "text") is a list of places, read one after the other. A place is a path, and
for files with columns which column: `pairs.tsv#2` (columns count from 1; there is no header), `pairs.csv#de` or
`pairs.csv#2`, `pairs.jsonl#de`, `pairs.jsonl#translation.de`, `pairs.parquet#de`. Without one, a source is column 1 or
the key "source", a target column 2 or the key "target", and any other side column 1 or the key of its own name; of CSV
the header decides, if there is one (csv_tables.py).

Everything streams. A line ends at "\\n" and nowhere else: U+2028, "\\x0b" or "\\x85" inside a line are text, and tools
that split there shift one side against the other; such lines are counted. Only what editors add is taken off, and
counted: a byte-order mark at the start, "\\r" at line ends. A line break inside a field of a table becomes a
space, since a line is a line. A NUL is no text, it is what UTF-16 and binary files look like: it stops the reader, or,
where `strict` is off (text to translate: N lines in, N lines out), becomes a space and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, zip_longest
from os import PathLike
from pathlib import Path

from anaphora.data.lines import COMPRESSIONS, Place, decode, text_lines, without_mark
from anaphora.data.tables import FORMATS, numbered_rows
from anaphora.errors import UserError

BLOCK_LINES = 8192  # lines of a table put together
ENDINGS = {ending: name for name, format in FORMATS.items() for ending in format.endings}
"""Of the names of tables; anything else is plain text."""


def file_names(files: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    """One file or several, as people give them: their names."""
    return [str(files)] if isinstance(files, str | PathLike) else [str(path) for path in files]


def place(name: str, side: str) -> Place:
    """Read `path#column`, with the column the side has by default."""
    if not name:
        raise UserError("the name of a file is empty", cure=f"name the file of the {side}")
    if name == "-" and not Path(name).exists():
        raise UserError("- would be stdin, which cannot be read here", cure="write the text into a file first")
    path, _, column = name.rpartition("#")
    with suppress(OSError, ValueError):  # a name that no file can have is refused when it is opened
        if not path or Path(name).exists():  # a "#" may be part of the file's own name
            path, column = name, ""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    format = ENDINGS.get(last, "text")
    format = "text" if side == "items" else format  # of a sequence, tabs part the items
    if format == "text" and column:
        raise UserError(f"plain text has no columns, but {name!r} asks for column {column!r}", cure=f"write {path!r}")
    taken = FORMATS[format].column(column, side, path) if format != "text" else ""
    return Place(Path(path), format, taken, named=bool(column))


def refuse_stream(path: Path) -> None:
    """What is read more than once, or to its end before anything is done, must be a file that has one."""
    with suppress(OSError, ValueError):  # a name that no file can have is refused when it is opened
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError("is a pipe or a device", file=path, cure="write it into a file first")


def same_table(source: list[str]) -> list[str]:
    """The target of a source whose files are tables: the same files (one pair a row). Plain text holds one side
    only."""
    tables = source and all(place(name, "source").format != "text" and "#" not in name for name in source)
    return list(source) if tables else []


NOTES = {
    "bom": ("byte-order mark taken off", "byte-order marks taken off"),
    "crlf": (r"line end \r\n read as \n", r"line ends \r\n read as \n"),
    "newline": ("line break inside a line became a space", "line breaks inside lines became spaces"),
    "separator": ("line contains a separator such as U+2028", "lines contain separators such as U+2028"),
    "nul": ("line contains NUL characters, read as spaces", "lines contain NUL characters, read as spaces"),
}
"""What reading counts, in words."""
SEPARATORS = "\r\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"  # where other tools, and Python's splitlines, begin a new line
ODD = tuple(character.encode() for character in "\0" + SEPARATORS)


def describe_notes(notes: Mapping[str, int]) -> str:
    """`{"bom": 1, "crlf": 20}` -> "1 byte-order mark taken off, 20 line ends \\r\\n read as \\n"."""
    words = {name: NOTES.get(name, (name, name)) for name in notes}
    return ", ".join(f"{number:,} {words[name][number > 1]}" for name, number in notes.items() if number)


def read_rows(
    sides: dict[str, list[str]], notes: Counter[str] | None = None, *, strict: bool = True
) -> Iterator[tuple[str, ...]]:
    """The rows of a corpus, one string a side; `notes` counts what was tidied and what is odd (see `NOTES`).

    >>> list(read_rows({"source": ["train.de"], "target": ["train.en"]}))  # doctest: +SKIP
    [("Zwei junge weiße Männer …", "Two young, White males …"), …]
    """
    notes = Counter() if notes is None else notes
    columns = [read_column(places, side, notes, strict=strict) for side, places in sides.items()]
    counts = [0] * len(columns)
    for number, row in enumerate(zip_longest(*columns), start=1):
        if None in row:  # a side has ended; count the others to the end, to name both numbers
            counts = [number - (text is None) for text in row]
            for side, column in enumerate(columns):
                counts[side] += sum(1 for _ in column)
            named = list(zip(sides, counts))
            (_, least), (_, most) = min(named, key=lambda s: s[1]), max(named, key=lambda s: s[1])
            said = [
                f"{', '.join(sides[side])} has {count:,} line{'s' * (count != 1)}"
                for side, count in named
                if count in (least, most)
            ]
            raise UserError(
                f"the sides do not match: {' but '.join(said)}", cure="line n of each side must translate line n"
            )
        yield row


def read_column(places: list[str], side: str, notes: Counter[str], *, strict: bool = True) -> Iterator[str]:
    """All lines of one side, file after file."""
    for name in places:
        where = place(name, side)
        plain = where.format == "text"
        rows = enumerate(text_lines(where, notes), start=1) if plain else numbered_rows(where, notes)
        for number, text in rows:
            # characters that hardly any line has: one look each, and the usual line goes through
            yield text if text.isprintable() else tidy(text, notes, where.path, number, strict=strict)


def read_blocks(places: list[str], side: str, notes: Counter[str]) -> Iterator[bytes]:
    """The lines of `read_column` as UTF-8, many in a block, each ended by "\\n": for those who read bytes.

    Plain text goes through without becoming Python strings; what is checked, taken off and counted is the same.
    """
    for name in places:
        where = place(name, side)
        if where.format == "text":
            yield from _blocks(where, notes)
            continue
        lines = read_column([name], side, notes)
        while some := list(islice(lines, BLOCK_LINES)):
            yield "\n".join([*some, ""]).encode()


def tidy(text: str, notes: Counter[str], file: Path | str, line: int, *, strict: bool) -> str:
    """What control characters mean for a line: separators are counted; a NUL is refused, or counted and made a
    space."""
    if any(separator in text for separator in SEPARATORS):
        notes["separator"] += 1
    if "\0" not in text:
        return text
    if strict:
        raise UserError(
            f"character {text.index(chr(0)) + 1} of this line is NUL, as in UTF-16 or binary files",
            file=file,
            line=line,
            cure=f"convert the file: iconv -f UTF-16 -t UTF-8 {Path(file).name}, or take the NULs out: tr -d '\\000'",
        )
    notes["nul"] += 1
    return text.replace("\0", " ")


def _blocks(where: Place, notes: Counter[str]) -> Iterator[bytes]:
    """`text_lines` and `tidy` for whole blocks: each is looked through for what is odd, and hardly any block has it."""
    number = 0
    for whole in without_mark(where, notes):
        if not whole.isascii():
            decode(whole, where.path, number)
        if b"\r" in whole:
            notes["crlf"] += whole.count(b"\r\n") + whole.endswith(b"\r")
            whole = whole.replace(b"\r\n", b"\n").removesuffix(b"\r")
        if any(odd in whole for odd in ODD):
            for line, text in enumerate(whole.decode().split("\n"), start=number + 1):
                if not text.isprintable():
                    tidy(text, notes, where.path, line, strict=True)
        number += whole.count(b"\n") + 1
        yield whole + b"\n"
