"""Every line of a side, whatever its bytes: a check must read what training refuses, and say where it is.

Lines are kept in a temporary file and mapped, so a corpus may be larger than memory: what stays in memory is eight
bytes a line. Bytes that are no UTF-8 survive as lone surrogates (Python's "surrogateescape"), which no valid text
holds.
"""

from __future__ import annotations

import mmap
import tempfile
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import overload

from anaphora.data.formats import place
from anaphora.data.lines import Place, whole_lines
from anaphora.data.tables import FORMATS, field, numbered_rows
from anaphora.errors import UserError

READ_AT_ONCE = 4096
"""Rows of a table."""

Problems = dict[str, list[int]]  # by problem, the lines (from 0, over all files of the side) that have it


class Lines(Sequence[str]):
    """Many lines on disk, by number."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as this object
        self.starts = array("q", [0])
        self._map: mmap.mmap | None = None

    def extend(self, texts: Sequence[str]) -> None:
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        try:
            self.file.write(b"\n".join(encoded) + b"\n" if encoded else b"")
        except OSError as error:
            raise UserError(
                f"the temporary folder cannot hold the text ({error.strerror})", cure="free space, or set TMPDIR"
            ) from None
        at = self.starts[-1]
        for line in encoded:
            at += len(line) + 1
            self.starts.append(at)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._bytes[self.starts[number] : self.starts[number + 1] - 1].decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), 4096):
            end = min(begin + 4096, len(self))
            block = self._bytes[self.starts[begin] : self.starts[end] - 1]
            yield from block.decode("utf-8", "surrogateescape").split("\n")

    @property
    def _bytes(self) -> mmap.mmap:
        if self._map is None:
            self.file.flush()
            self._map = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map


class Side:
    """All files of one side, one after the other."""

    def __init__(
        self,
        name: str,
        lines: Sequence[str],
        files: list[str],
        first: list[int],
        problems: Problems,
        begins: Sequence[Sequence[int]] = (),
    ) -> None:
        self.name = name
        self.lines = lines
        self.files = files
        self.first = first  # line (from 0) that each file begins with
        self.problems = problems  # what only reading can see
        self.begins = begins  # of each file, the line (from 1) that each row begins in; empty where rows are lines

    def where(self, number: int) -> tuple[str, int]:
        """The file and its line (from 1) of a line of this side (from 0)."""
        file = max(0, bisect_right(self.first, number) - 1)
        row = number - self.first[file]
        if self.begins and self.begins[file]:
            return self.files[file], self.begins[file][row]
        return self.files[file], row + 1

    def by_file(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        """Lines (from 0) as {file: its lines (from 1)}."""
        found: dict[str, list[int]] = {}
        for number in numbers:
            file, line = self.where(int(number))
            found.setdefault(file, []).append(line)
        return found

    @classmethod
    def of(cls, name: str, texts: Sequence[str], file: str) -> Side:
        """Lines already in memory, as if they stood in that file."""
        return cls(name, texts, [file], [0], {})


def read_side(places: Sequence[str], side: str, progress: Callable[[int], None] | None = None) -> Side:
    """Read all files of a side. Only what cannot be parted into lines at all is an error."""
    lines, first, problems = Lines(), [], dict[str, list[int]]()
    begins: list[array[int]] = []
    for name in places:
        where = place(name, side)
        first.append(len(lines))
        begins.append(array("q"))
        for block in _blocks(where, len(lines), problems, begins[-1]):
            lines.extend(block)
            if progress:
                progress(len(block))
    return Side(side, lines, [str(place(name, side).path) for name in places], first, problems, begins)


def _blocks(where: Place, before: int, problems: Problems, lines: array[int]) -> Iterator[list[str]]:
    """The text of a file, in blocks; `lines`: where each row begins, if rows are no lines."""
    if where.format != "text" and FORMATS[where.format].rows is not None:  # what is no UTF-8 is refused there
        numbered = numbered_rows(where, Counter())
        while rows := list(islice(numbered, READ_AT_ONCE)):
            lines.extend(line for line, _ in rows)
            yield [text for _, text in rows]
        return
    number = before
    for whole, ended in whole_lines(where):
        raw = whole.split(b"\n")
        if number == before and raw and raw[0].startswith(b"\xef\xbb\xbf"):
            raw[0] = raw[0][3:]
            problems.setdefault("bom", []).append(number)
            if raw == [b""] and not ended:
                return
        block = []
        for line in raw:
            if line.endswith(b"\r"):
                line = line[:-1]
                problems.setdefault("crlf", []).append(number)
            try:
                text = line.decode()
            except UnicodeDecodeError:
                text = line.decode("utf-8", "surrogateescape")
                problems.setdefault("utf8", []).append(number)
            block.append(_field(text, where, number - before + 1) if where.format != "text" else text)
            number += 1
        yield block


def _field(line: str, where: Place, number: int) -> str:
    """The text of one column of a table's line; half a surrogate pair becomes "?"."""
    return field(line, where, number, strict=False).replace("\r\n", " ").replace("\n", " ")
