"""Long arrays in files: read, written and looked up in blocks, so that none of them is ever in memory as a whole.

Plain reads and writes, no memory map: pages of a map count as resident memory of the process, a file's cache does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import refused_by_system
from anaphora.folder import sync
from anaphora.models.ngram.kernels.ngram_runs import pick, tally


class Column:
    """An array of one type in a file: nothing but its numbers, one after the other."""

    def __init__(self, path: Path, dtype: type[np.generic] = np.uint32) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return self.path.stat().st_size // self.dtype.itemsize

    def read(self, begin: int, end: int) -> NDArray[Any]:
        """The numbers [begin, end)."""
        try:
            return np.fromfile(self.path, self.dtype, max(end - begin, 0), offset=begin * self.dtype.itemsize)
        except OSError as error:
            raise refused_by_system(error, "cannot be read", file=self.path) from None

    def blocks(self, length: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """All of it, a block at a time, each with the place where it begins."""
        for begin in range(0, len(self), length):
            yield begin, self.read(begin, begin + length)

    def append(self, *, keep: bool = True) -> Appending:
        """Write it anew, from its beginning; if it is to be kept, it is forced onto the disk when the block ends."""
        return Appending(self, keep)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


class Held(Column):
    """The same in memory, for what fits: reading gives a view."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values
        self.dtype = values.dtype

    def __len__(self) -> int:
        return len(self.values)

    def read(self, begin: int, end: int) -> NDArray[Any]:
        return self.values[begin:end]

    def append(self, *, keep: bool = True) -> Appending:
        return AppendingHeld(self)

    def remove(self) -> None:
        self.values = self.values[:0].copy()


class Appending:
    """A column while it is written."""

    def __init__(self, column: Column, keep: bool) -> None:
        self.column = column
        self.keep = keep
        self.length = 0

    def __enter__(self) -> Appending:
        try:
            self.file = self.column.path.open("wb", buffering=0)
        except OSError as error:
            raise refused_by_system(error, "cannot be written", file=self.column.path) from None
        return self

    def write(self, values: NDArray[Any], at: int | None = None) -> None:
        """Behind what was written, or at a given place."""
        begin = self.length if at is None else at
        dtype = self.column.dtype
        write_at(self.file.fileno(), values, begin * dtype.itemsize, self.column.path, dtype)
        self.length = max(self.length, begin + values.size)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.file.close()
        if kind is None and self.keep:
            sync(self.column.path)


class AppendingHeld(Appending):
    """The same for one in memory, written from its beginning to its end."""

    def __init__(self, column: Held) -> None:
        self.held = column
        self.parts: list[NDArray[Any]] = []

    def __enter__(self) -> Appending:
        return self

    def write(self, values: NDArray[Any], at: int | None = None) -> None:
        self.parts.append(np.asarray(values, self.held.dtype))

    def __exit__(self, *_: object) -> None:
        if len(self.parts) == 1:
            self.held.values = self.parts[0]
        else:
            self.held.values = np.concatenate([np.zeros(0, self.held.dtype), *self.parts])
        self.parts = []


def write_at(handle: int, values: NDArray[Any], at: int, path: Path, dtype: np.dtype[Any]) -> None:
    """Write numbers at a byte of a file, however many calls the system takes for it."""
    rest = np.ascontiguousarray(values, dtype).reshape(-1).view(np.uint8).data
    try:
        while rest:
            done = os.pwrite(handle, rest, at) if hasattr(os, "pwrite") else _seek_and_write(handle, rest, at)
            rest, at = rest[done:], at + done
    except OSError as error:
        raise refused_by_system(error, "cannot be written", file=path) from None


def _seek_and_write(handle: int, values: memoryview, at: int) -> int:
    """`os.pwrite` where the system has none: one thread alone writes to a file."""
    os.lseek(handle, at, os.SEEK_SET)
    return os.write(handle, values)


def occurrences(index: Column, size: int, room: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """How often each of 0 … size - 1 occurs in a column, in parts that fit in `room` bytes, each part with its
    beginning. A part costs one reading of the column."""
    part, block = max(room // 8, 1), max(room // 16, 1)
    for begin in range(0, size, part):
        counts = np.zeros(min(part, size - begin), np.uint32)
        for _, some in index.blocks(block):
            tally(some, begin, counts)
        yield begin, counts


def gather(source: Column, index: Column, out: Column, room: int, *, keep: bool = True) -> None:
    """out[i] = source[index[i]], with `room` bytes: the index is read once for each part of the source that they hold.

    If the source is in memory, `room` has to be large enough for all of it."""
    part = max(room // 2 // source.dtype.itemsize, 1)
    block = max(room // 4 // (source.dtype.itemsize + 4), 1)  # the next one is read while the last is still there
    size = len(source)
    with out.append(keep=keep) as file:
        for begin in range(0, max(size, 1), part):
            held = source.read(begin, min(begin + part, size))
            for place, some in index.blocks(block):
                picked = np.zeros(len(some), source.dtype) if begin == 0 else out.read(place, place + len(some))
                pick(some, held, begin, picked)
                file.write(picked, at=place)
            del held  # before the next part comes
