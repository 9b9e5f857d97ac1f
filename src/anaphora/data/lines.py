"""Files to lines: bytes read and unpacked in blocks, parted at line feeds, and checked to be UTF-8.

Everything streams, and nothing is believed about how long a line or how large an unpacked file may be.
"""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from anaphora.errors import UserError, first_line, refused_by_system

BLOCK_BYTES = 1 << 20  # bytes read at a time
LONGEST_LINE = 1 << 28  # bytes: a file with a longer one is no text, and would fill the memory
COMPRESSIONS = (".gz", ".xz", ".zst")


class Place(NamedTuple):
    """One file, and the column of it that holds the text."""

    path: Path
    format: str  # text, tsv, csv, jsonl, parquet
    column: str  # the side where none was named; "" in plain text
    named: bool = False  # whether the column was named


def whole_lines(where: Place) -> Iterator[tuple[bytes, bool]]:
    """Blocks of complete lines as bytes, parted at line feeds only, without the last feed; and whether there was one.
    A last line without a feed counts like the others."""
    number = 0
    rest: list[bytes] = []  # the beginning of a line whose end has not been read yet
    with reading(where.path), opened(where.path) as stream:
        while block := stream.read(BLOCK_BYTES):
            ended, feed, begun = block.rpartition(b"\n")
            if not feed:
                rest.append(block)
                if len(rest) * BLOCK_BYTES > LONGEST_LINE and sum(map(len, rest)) > LONGEST_LINE:
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


def without_mark(where: Place, notes: Counter[str]) -> Iterator[bytes]:
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


def text_lines(where: Place, notes: Counter[str]) -> Iterator[str]:
    """Lines of UTF-8, without what editors add."""
    number = 0
    for whole in without_mark(where, notes):
        lines = decode(whole, where.path, number).split("\n")
        if b"\r" in whole:
            notes["crlf"] += sum(line.endswith("\r") for line in lines)
            lines = [line.removesuffix("\r") for line in lines]
        number += len(lines)
        yield from lines


def decode(block: bytes, path: Path, before: int) -> str:
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
        return "other lines are UTF-8, so correct or drop this one; `anaphora check --write-clean` drops such lines"
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
            raise UserError(
                f"is a link to {target}, which does not exist", file=path, cure="correct the link"
            ) from error
        beside = [name for name in beside if get_close_matches(path.stem, [Path(name).stem])]  # ends are alike by habit
        close = get_close_matches(path.name, beside, n=1)
        cure = f"did you mean {close[0]!r}?" if close else "check the path"
        if not close and len(path.parts) == 1 and " " in path.name and not path.suffix.strip("."):
            cure = 'this takes the name of a file; text itself comes by stdin: echo "…" | anaphora …'
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


def one_line(text: str, notes: Counter[str]) -> str:
    if "\n" not in text:
        return text
    notes["newline"] += 1
    return text.replace("\r\n", " ").replace("\n", " ")
