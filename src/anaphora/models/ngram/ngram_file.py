"""A trie on disk: one safetensors file, mapped, of which only what is asked for is read; but for the checksum, which
reads all of it once, unless the one who opens it does without (`verify=False`).

The file holds the arrays of a `Trie` (models/ngram/kernels/ngrams.py) as they are used. `read_trie` maps it into
memory: processes that use the same model share its pages, and a model larger than memory can be asked. Other tools
read it like any safetensors file. The header carries a checksum (files/seal.py).
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError, refused_by_system
from anaphora.files.foreign import open_file, parse_json
from anaphora.files.seal import CURE, DAMAGED, METADATA, UNSEALED, digest, is_sound, read_header
from anaphora.folder import sync, temporary_name
from anaphora.models.ngram.columns import write_at
from anaphora.models.ngram.kernels.ngrams import Trie

TYPES: dict[str, np.dtype[Any]] = {"I64": np.dtype(np.int64), "U32": np.dtype(np.uint32), "F32": np.dtype(np.float32)}
FIELDS = {
    "limits": "I64",
    "word": "U32",
    "first": "U32",
    "link": "U32",
    "log_probability": "F32",
    "log_weight": "F32",
}
LONGEST_HEADER = 1 << 20


def array_lengths(sizes: list[int]) -> dict[str, int]:
    """How long each array of a trie is that has so many n-grams of each order."""
    total = sum(sizes)
    inner = total - sizes[-1] if len(sizes) > 1 else 0
    return {
        "limits": len(sizes),
        "word": total,
        "first": inner + 1,
        "link": total,
        "log_probability": total,
        "log_weight": inner,
    }


class TrieFile:
    """A trie's file while it is written, in any order; `seal` completes it."""

    def __init__(self, path: Path, sizes: list[int]) -> None:
        """Open it for writing; what stands there from an earlier time stays until it is overwritten."""
        self.path = path
        lengths = array_lengths(sizes)
        document: dict[str, Any] = {"__metadata__": METADATA}
        self.begins: dict[str, int] = {}
        self.extents: dict[str, tuple[int, int]] = {}
        """Bytes of the file that were written of each array since `take_extents`, from the first to the last."""
        end = 0
        for name, kind in FIELDS.items():  # the one of 8 bytes each first: so all are aligned
            self.begins[name], end = end, end + lengths[name] * TYPES[kind].itemsize
            document[name] = {"dtype": kind, "shape": [lengths[name]], "data_offsets": [self.begins[name], end]}
        said = json.dumps(document, separators=(",", ":")).encode()
        said += b" " * (-len(said) % 8)
        self.header = len(said).to_bytes(8, "little") + said
        self.size = len(self.header) + end
        try:
            self.handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            os.ftruncate(self.handle, self.size)
        except OSError as error:
            raise refused_by_system(error, "cannot be written", file=path) from None

    def __enter__(self) -> TrieFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def write(self, name: str, at: int, values: NDArray[Any]) -> None:
        """Put numbers into an array of the trie, from place `at` on."""
        dtype = TYPES[FIELDS[name]]
        begin = len(self.header) + self.begins[name] + at * dtype.itemsize
        write_at(self.handle, values, begin, self.path, dtype)
        first, last = self.extents.get(name, (begin, begin))
        self.extents[name] = min(first, begin), max(last, begin + values.size * dtype.itemsize)

    def take_extents(self) -> list[tuple[Path, int, int]]:
        """What was written since this was last asked."""
        found, self.extents = self.extents, {}
        return [(self.path, begin, end) for begin, end in found.values()]

    def sync(self) -> None:
        """Force what was written onto the disk."""
        os.fsync(self.handle)

    def seal(self) -> str:
        """All is written: put in the checksum, and force the file onto the disk. Returns the checksum."""
        with self.path.open("rb") as stream:
            checksum = digest(self.header, stream)
        sealed = self.header.replace(UNSEALED.encode(), checksum.encode(), 1)
        write_at(self.handle, np.frombuffer(sealed, np.uint8), 0, self.path, np.dtype(np.uint8))
        self.sync()
        return checksum


def write_trie(file: Path, trie: Trie) -> None:
    """Replace a trie's file atomically."""
    temporary = temporary_name(file)
    try:
        with TrieFile(temporary, np.diff(trie.limits, prepend=0).tolist()) as out:
            for name in FIELDS:
                out.write(name, 0, getattr(trie, name))
            out.seal()
        temporary.replace(file)
    except OSError as error:
        raise refused_by_system(error, "cannot be written", file=file) from None
    finally:
        temporary.unlink(missing_ok=True)
    sync(file.parent)


def read_trie(file: Path, *, verify: bool = True) -> Trie:
    """Map a trie into memory. `verify=False` leaves the checksum out, for which the whole file has to be read once."""
    try:
        with open_file(file) as stream:
            header = read_header(stream, LONGEST_HEADER)
            arrays = _arrays(parse_json(header[8:]), os.fstat(stream.fileno()).st_size - len(header))
            if verify and not is_sound(header, stream):
                raise UserError(DAMAGED, file=file, cure=CURE)
        found = {name: _map(file, FIELDS[name], len(header) + begin, count) for name, (begin, count) in arrays.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"cannot be read as an n-gram model ({error})", file=file, cure=CURE) from None
    trie = Trie(**found)
    sizes = np.diff(trie.limits, prepend=0).tolist()
    if not sizes or min(sizes) < 0 or {name: len(array) for name, array in found.items()} != array_lengths(sizes):
        raise UserError("cannot be read as an n-gram model (its arrays do not fit each other)", file=file, cure=CURE)
    return trie


def let_go(trie: Trie) -> None:
    """Give the pages of a mapped trie back to the system; what is needed again is read again."""
    for array in trie:
        base: Any = array
        while base is not None and not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
        if base is not None and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)


def read_checksum(file: Path) -> str | None:
    """The checksum that a file carries, taken at its word."""
    with open_file(file) as stream:
        length = int.from_bytes(stream.read(8), "little")
        found = re.search(rb"sha256:[0-9a-f]{64}", stream.read(min(length, LONGEST_HEADER)))
    return found and found[0].decode()


def _map(file: Path, kind: str, begin: int, count: int) -> NDArray[Any]:
    if count == 0:  # a map has at least one byte
        return np.zeros(0, TYPES[kind])
    return np.memmap(file, TYPES[kind], "r", begin, (count,)).view(np.ndarray)


def _arrays(document: Any, size: int) -> dict[str, tuple[int, int]]:
    """Where each array begins and how long it is; ValueError if that cannot be."""
    if not isinstance(document, dict) or document.keys() - {"__metadata__"} != FIELDS.keys():
        raise ValueError(f"it does not hold {', '.join(FIELDS)}")
    found = {}
    for name, kind in FIELDS.items():
        said = document[name]
        (count,), (begin, end) = said["shape"], said["data_offsets"]
        if said["dtype"] != kind or not 0 <= begin <= end <= size or count * TYPES[kind].itemsize != end - begin:
            raise ValueError(f"{name} is not where its header says")
        found[name] = (begin, math.prod(said["shape"]))
    return found
