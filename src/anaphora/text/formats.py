"""Reading lines of text from the files people have: plain text, TSV, JSONL, Parquet; bare or as .gz, .xz, .zst.

A side of a corpus ("source", "target", "text") is a list of places, read one after the other. A place is a path, and
for files with columns which column: `pairs.tsv#2` (columns count from 1; there is no header), `pairs.jsonl#de`,
`pairs.parquet#de`. Without one, a source is column 1 or the key "source", a target column 2 or the key "target", and
any other side column 1 or the key of its own name.

Everything streams. A line ends at "\\n" and nowhere else: U+2028, "\\x0b" or "\\x85" inside a line are text, and tools
that split there shift one side against the other; such lines are counted. Only what editors add is taken off, and
counted: a byte-order mark at the start, "\\r" at line ends. A line break inside a JSON or Parquet string becomes a
space, since a line is a line. A NUL is no text, it is what UTF-16 and binary files look like: it stops the reader, or,
where `strict` is off (text to translate: N lines in, N lines out), becomes a space and is counted.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice, zip_longest
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from anaphora.errors import UserError, first_line, nearest, refused_by_system

BLOCK = 1 << 20  # bytes read at a time
BLOCK_LINES = 8192  # lines of a table put together
LONGEST_LINE = 1 << 28  # bytes: a file with a longer one is no text, and would fill the memory
COMPRESSIONS = (".gz", ".xz", ".zst")


def file_names(files: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    """One file or several, as people give them: their names."""
    return [str(files)] if isinstance(files, str | PathLike) else [str(path) for path in files]


class Place(NamedTuple):
    """One file, and the column of it that holds the text."""

    path: Path
    format: str  # text, tsv, jsonl, parquet
    column: str  # "" in plain text


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
    format = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}.get(last, "text")
    format = "text" if side == "items" else format  # of a sequence, tabs part the items
    if format == "text" and column:
        raise UserError(f"plain text has no columns, but {name!r} asks for column {column!r}", cure=f"write {path!r}")
    if format == "tsv":
        column = column or {"target": "2"}.get(side, "1")
        if not column.isascii() or not column.isdigit() or int(column) < 1:
            raise UserError(
                f"columns of a TSV file are numbers from 1, not {column!r}", file=path, cure=f"write {path}#1"
            )
    return Place(Path(path), format, column or (side if format != "text" else ""))


def same_table(source: list[str]) -> list[str]:
    """The target of a source whose files are tables: the same files (one pair a row). Plain text holds one side
    only."""
    tables = source and all(place(name, "source").format != "text" and "#" not in name for name in source)
    return list(source) if tables else []


NOTES = {
    "bom": ("byte-order mark taken off", "byte-order marks taken off"),
    "crlf": (r"line end \r\n read as \n", r"line ends \r\n read as \n"),
    "newline": ("line break inside a line became a space", "line breaks inside lines became spaces"),
    "separator": ("line holds a separator such as U+2028", "lines hold separators such as U+2028"),
    "nul": ("line holds NUL characters, read as spaces", "lines hold NUL characters, read as spaces"),
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
    readers: dict[str, Callable[[Place, Counter[str]], Iterator[str]]]
    readers = {"text": _lines, "tsv": _tsv, "jsonl": _jsonl, "parquet": _parquet}
    for name in places:
        where = place(name, side)
        for number, text in enumerate(readers[where.format](where, notes), start=1):
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


# -- the four formats --------------------------------------------------------------------------------------------------


def _tsv(where: Place, notes: Counter[str]) -> Iterator[str]:
    column = int(where.column)
    for number, line in enumerate(_lines(where, notes), start=1):
        fields = line.split("\t")
        if len(fields) < column:
            found = f"{len(fields)} column{'s' * (len(fields) > 1)}"
            raise UserError(
                f"column {column} is asked for, but this line has {found}",
                file=where.path,
                line=number,
                cure="part columns by one tab",
            )
        yield _one_line(fields[column - 1], notes)


def _jsonl(where: Place, notes: Counter[str]) -> Iterator[str]:
    for number, line in enumerate(_lines(where, notes), start=1):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = first_line(error) if line.strip() else "it is empty"
            raise UserError(
                f"this line is not JSON ({why})", file=where.path, line=number, cure="mend or delete the line"
            ) from error
        if not isinstance(document, dict):
            raise UserError(
                "this line is not a JSON object", file=where.path, line=number, cure='write {"key": "text"}'
            )
        if where.column not in document:
            raise UserError(
                f"this line has no key {where.column!r}",
                file=where.path,
                line=number,
                cure=f"{nearest(where.column, document)} (ask for a key with {where.path.name}#key)",
            )
        text = document[where.column]
        if not isinstance(text, str):
            found = "null" if text is None else type(text).__name__
            raise UserError(
                f"{where.column!r} holds {found}, not a string",
                file=where.path,
                line=number,
                cure="put the text in quotes, or leave the line out",
            )
        if "\\u" in line:
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise UserError(
                    f"{where.column!r} holds half a surrogate pair",
                    file=where.path,
                    line=number,
                    cure="mend the escape",
                ) from error
        yield _one_line(text, notes)


def _parquet(where: Place, notes: Counter[str]) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with reading(where.path):
        if where.path.suffix.lower() in COMPRESSIONS:  # Parquet is read from its end, so it is unpacked in memory
            with opened(where.path) as stream:
                file = parquet.ParquetFile(pa.BufferReader(b"".join(iter(lambda: stream.read(BLOCK), b""))))
        else:
            file = parquet.ParquetFile(where.path)
        names = file.schema_arrow.names
    if where.column not in names:
        raise UserError(
            f"there is no column {where.column!r}",
            file=where.path,
            cure=f"{nearest(where.column, names)} (ask for a column with {where.path.name}#name)",
        )
    kind = file.schema_arrow.field(where.column).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise UserError(
            f"column {where.column!r} holds {kind}, not strings", file=where.path, cure="name a column of text"
        )
    number = 0
    with reading(where.path):
        for batch in file.iter_batches(columns=[where.column]):
            for text in batch.column(0).to_pylist():
                number += 1
                if text is None:
                    raise UserError(
                        f"{where.column!r} holds null, not a string",
                        file=where.path,
                        line=number,
                        cure="leave out or fill the rows without text",
                    )
                yield _one_line(text, notes)


def _one_line(text: str, notes: Counter[str]) -> str:
    if "\n" not in text:
        return text
    notes["newline"] += 1
    return text.replace("\r\n", " ").replace("\n", " ")


# -- bytes to lines ----------------------------------------------------------------------------------------------------


def whole_lines(where: Place) -> Iterator[tuple[bytes, bool]]:
    """Blocks of complete lines as bytes, parted at line feeds only, without the last feed; and whether there was one.
    A last line without a feed counts like the others."""
    number = 0
    rest: list[bytes] = []  # the beginning of a line whose end has not been read yet
    with reading(where.path), opened(where.path) as stream:
        while block := stream.read(BLOCK):
            ended, feed, begun = block.rpartition(b"\n")
            if not feed:
                rest.append(block)
                if len(rest) * BLOCK > LONGEST_LINE and sum(map(len, rest)) > LONGEST_LINE:
                    raise UserError(
                        f"this line has more than {LONGEST_LINE >> 20} MB; lines of text end at \\n",
                        file=where.path,
                        line=number + 1,
                        cure="check that this is a text file, one sentence a line",
                    )
                continue
            whole, rest = b"".join((*rest, ended)), [begun] if begun else []
            number += whole.count(b"\n") + 1
            yield whole, True
    if rest:
        yield b"".join(rest), False


def _without_mark(where: Place, notes: Counter[str]) -> Iterator[bytes]:
    """The blocks of a file, without the byte-order mark at its beginning."""
    first = True
    for whole, ended in whole_lines(where):
        if first and whole.startswith(b"\xef\xbb\xbf"):
            whole = whole[3:]
            notes["bom"] += 1
            if not whole and not ended:
                return
        first = False
        yield whole


def _lines(where: Place, notes: Counter[str]) -> Iterator[str]:
    """Lines of UTF-8, without what editors add."""
    number = 0
    for whole in _without_mark(where, notes):
        lines = _decode(whole, where.path, number).split("\n")
        if b"\r" in whole:
            notes["crlf"] += sum(line.endswith("\r") for line in lines)
            lines = [line.removesuffix("\r") for line in lines]
        number += len(lines)
        yield from lines


def _blocks(where: Place, notes: Counter[str]) -> Iterator[bytes]:
    """`_lines` and `tidy` for whole blocks: each is looked through for what is odd, and hardly any block has it."""
    number = 0
    for whole in _without_mark(where, notes):
        if not whole.isascii():
            _decode(whole, where.path, number)
        if b"\r" in whole:
            notes["crlf"] += whole.count(b"\r\n") + whole.endswith(b"\r")
            whole = whole.replace(b"\r\n", b"\n").removesuffix(b"\r")
        if any(odd in whole for odd in ODD):
            for line, text in enumerate(whole.decode().split("\n"), start=number + 1):
                if not text.isprintable():
                    tidy(text, notes, where.path, line, strict=True)
        number += whole.count(b"\n") + 1
        yield whole + b"\n"


def _decode(block: bytes, path: Path, before: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        start = block.rfind(b"\n", 0, error.start) + 1
        raise UserError(
            f"byte {error.start - start + 1} of this line (0x{block[error.start]:02X}) is not UTF-8",
            file=path,
            line=before + block.count(b"\n", 0, error.start) + 1,
            cure=encoding_cure(block, path.name),
        ) from error


def encoding_cure(block: bytes, name: str) -> str:
    """What to do with a file of which this beginning is not all UTF-8. Converting a file that is UTF-8 but for some
    lines would spoil all the others."""
    if block[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"this looks like UTF-16; convert the file: iconv -f UTF-16 -t UTF-8 {name}"
    if any(not line.isascii() and _is_utf8(line) for line in block.split(b"\n")):
        return "other lines are UTF-8, so mend or drop this one; `anaphora check --write-clean` drops such lines"
    return f"convert the file: iconv -f LATIN1 -t UTF-8 {name} (with the encoding it has)"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def opened(path: Path) -> Any:
    """A stream of the file's bytes, unpacked."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return gzip.open(path, "rb")
    if suffix == ".xz":
        return lzma.open(path, "rb")
    if suffix == ".zst":
        import pyarrow as pa  # where it is needed: it takes 40 MB of memory

        return pa.input_stream(str(path), compression="zstd")
    return path.open("rb")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a file into one sentence."""
    try:
        if path.is_dir():
            raise UserError("this is a folder, not a file", file=path, cure="name the files inside it")
        yield
    except FileNotFoundError as error:
        beside: list[str] = []
        with suppress(OSError):  # there may be no such folder either
            beside = [other.name for other in path.parent.iterdir() if other.name != path.name]
        if path.is_symlink():
            target = path.readlink()
            raise UserError(f"is a link to {target}, which is not there", file=path, cure="mend the link") from error
        close = get_close_matches(path.name, beside, n=1)
        cure = f"did you mean {close[0]!r}?" if close else "check the path"
        raise UserError("there is no such file", file=path, cure=cure) from error
    except PermissionError as error:
        raise UserError("this file may not be read", file=path, cure=f"chmod +r {path.name}") from error
    except _what_reading_raises() as error:
        if path.suffix.lower() in (*COMPRESSIONS, ".parquet") and getattr(error, "filename", None) is None:
            raise UserError(
                f"this archive is damaged or cut short ({first_line(error)})",
                file=path,
                cure="copy or download it again",
            ) from error
        if isinstance(error, OSError):
            raise refused_by_system(error, "this file cannot be read", file=path) from error
        raise UserError(f"this file cannot be read ({first_line(error)})", file=path, cure="check the path") from error


def _what_reading_raises() -> tuple[type[Exception], ...]:
    """The errors of the libraries that unpack; Arrow's only if anybody has asked for Arrow."""
    arrow = sys.modules.get("pyarrow")
    more = () if arrow is None else (arrow.ArrowException,)
    return (OSError, EOFError, zlib.error, lzma.LZMAError, UnicodeDecodeError, ValueError, *more)
