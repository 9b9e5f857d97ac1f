"""Files of word vectors: what word2vec, GloVe and gensim write, and safetensors.

    .txt .vec (.gz)    a line for each word: the word, then its numbers; in front the number of words and of dimensions
                       (word2vec, fastText) or nothing (GloVe)
    .bin (.gz)         the same header, then each word, a blank, and its numbers as 32-bit floats
    .safetensors       `vectors` (V, D), the words as UTF-8 text of lines, their counts, and subwords: all there is

A blank parts a word from its numbers in the first two, so a word with white space in it is refused there, by name; with
`space="_"` it is written with that character instead. safetensors takes any word but one with a line end.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError, option, refused_by_system, shown
from anaphora.files.foreign import check_regular, is_there, parse_json
from anaphora.files.seal import METADATA, check_seal, seal
from anaphora.folder import write_bytes, written_by_others
from anaphora.models.vectors.word_vectors import SubwordTable, Vectors
from anaphora.results import count

FORMATS = "give .txt or .vec (text), .bin (binary) or .safetensors, the first three also as .gz"
FASTTEXT = (793712314).to_bytes(4, "little")
"""What a model of fastText begins with."""
LONGEST_WORD = 10_000  # bytes: beyond that, a binary is not one, or is torn
LONGEST_NUMBER = 64  # bytes of a number in text, its blank included
MOST_DIMENSIONS = 1 << 16
MOST_BLANK_LINES = 10_000
MAX_GZIP_RATIO = 1032
"""Bytes that one byte of a gzip file can stand for, at the most."""
READ_AT_ONCE = 1 << 22


def load_vectors(path: str | os.PathLike[str], *, verify: bool = True) -> Vectors:
    """Read vectors, by the name of the file. `verify=False` leaves out the checksum that safetensors of ours have."""
    path = Path(path)
    kind = _kind(path)
    try:
        if kind == ".safetensors":
            return all_numbers(_read_safetensors(path, verify=verify), path)
        check_regular(path)
        with _opened(path) as stream:
            found = _read_binary(stream, path) if kind == ".bin" else _read_text(stream, path)
        return all_numbers(found, path)
    except EOFError:
        raise UserError("ends too early", file=path, cure="copy the whole file again") from None
    except zlib.error as error:
        raise UserError(f"is damaged ({error})", file=path, cure="copy the whole file again") from None
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None


def save_vectors(
    vectors: Vectors, path: str | os.PathLike[str], *, header: bool = True, space: str | None = None
) -> None:
    """Write vectors, by the name of the file. `header=False` writes text as GloVe does."""
    path = Path(path)
    kind = _kind(path)
    if not header and kind not in (".txt", ".vec"):
        raise UserError(f"{kind} files always say how many vectors they have", file=path, cure="name a .txt file")
    if kind == ".safetensors":
        if space is not None:
            raise UserError("keeps blanks inside of words as they are", file=path, cure="leave out `space`")
        _write_safetensors(vectors, path)
        return
    names = [_written(word, path, space) for word in vectors.index_to_key]
    if len(set(names)) != len(names):
        raise UserError("with blanks replaced, two words become one", file=path, cure="choose another `space`")
    content = io.BytesIO()
    if header or kind == ".bin":
        content.write(b"%d %d\n" % vectors.vectors.shape)
    for name, row in zip(names, vectors.vectors):
        if kind == ".bin":
            content.write(name + b" " + row.astype("<f4").tobytes() + b"\n")
        else:
            content.write(name + b" " + b" ".join([b"%.9g" % value for value in row.tolist()]) + b"\n")
    whole: bytes | memoryview = content.getbuffer()
    write_bytes(path, gzip.compress(whole, 6) if path.suffix == ".gz" else whole, pipes=True)


def _kind(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix not in (".txt", ".vec", ".bin", ".safetensors") or (suffix == ".safetensors" and name != path.name):
        raise UserError("is of no known format of word vectors", file=path, cure=FORMATS)
    return suffix


def _opened(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _written(word: str, path: Path, space: str | None) -> bytes:
    """A word as these formats can hold it."""
    if word.split() != [word]:
        if space is None or not word.strip():
            raise UserError(
                f"the word {word!r} has white space in it, which this format cannot hold",
                file=path,
                cure=f"write .safetensors, or have it replaced: {option('space', '_')}",
            )
        word = space.join(word.split())
    return word.encode()


# -- word2vec's binary -------------------------------------------------------------------------------------------------


def _header(line: bytes, path: Path) -> tuple[int, int]:
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() and len(part) < 12 for part in parts):
        cure = "give a file that begins with its number of words and of dimensions"
        if line.startswith(FASTTEXT):
            cure = "this is a model of fastText, which is not read: give the .vec file that it writes beside it"
        raise UserError("does not begin like a word2vec file", file=path, line=1, cure=cure)
    count, dim = int(parts[0]), int(parts[1])
    if dim == 0:
        raise UserError("says that its vectors have no dimensions", file=path, line=1, cure="give vectors")
    if dim > MOST_DIMENSIONS:
        what = f"says that its vectors have {dim:,} dimensions; {MOST_DIMENSIONS:,} are the most that are read"
        raise UserError(what, file=path, line=1, cure="give word vectors")
    return count, dim


def _read_binary(stream: BinaryIO, path: Path) -> Vectors:
    count, dim = _header(stream.readline(100), path)
    size = 4 * dim
    bytes_ = path.stat().st_size * (MAX_GZIP_RATIO if path.suffix == ".gz" else 1)
    if count * (size + 1) > bytes_:  # before room is made for what is not there
        held = bytes_ // (size + 1)
        raise UserError(
            f"ends too early: it says {count:,} words of {dim} numbers, and holds {held:,} at the most",
            file=path,
            cure="copy or download the whole file again",
        )
    words, matrix = _Words(path), _room(count, dim, path)
    held_bytes, at = b"", 0
    for row in range(count):
        if len(held_bytes) - at < LONGEST_WORD + 1 + size:  # the rest of the block, and the next one
            held_bytes, at = held_bytes[at:] + stream.read(READ_AT_ONCE + size), 0
        end = held_bytes.find(b" ", at, at + LONGEST_WORD)
        if end < 0 or end + 1 + size > len(held_bytes):
            raise UserError(
                f"ends in the middle of word {row + 1:,} of {count:,}",
                file=path,
                cure="copy or download the whole file again",
            )
        words.add(held_bytes[at:end].lstrip(b"\n"), None)
        matrix[row] = np.frombuffer(held_bytes, "<f4", dim, end + 1)
        at = end + 1 + size
    if (held_bytes[at:] + stream.read(100))[:2].strip(b"\n"):  # reading to the end tests an archive's checksum
        raise UserError(
            f"goes on after the last of its {count:,} words: one of them has a blank in it, or its first line is wrong",
            file=path,
            cure="write it again, with another character for blanks inside of words",
        )
    return _made(words.seen, matrix, path)


def _room(count: int, dim: int, path: Path) -> NDArray[np.float32]:
    try:
        return np.empty((count, dim), np.float32)
    except MemoryError:  # a file of holes takes no room on the disk, and is as large as it says
        what = f"says that it has {count:,} words of {dim} numbers, which are {4 * count * dim / 1e9:,.0f} GB"
        raise UserError(what, file=path, line=1, cure="give fewer words, or a machine with more memory") from None


class _Words:
    """The words of a file in their order, each once: what repeats itself is not read to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: dict[str, None] = {}

    def add(self, word: bytes, line: int | None) -> None:
        before = len(self.seen)
        name = _decoded(word, self.path, line)
        self.seen[name] = None
        if len(self.seen) == before:
            what = f"the word {shown.repr(name)} has two vectors"
            raise UserError(what, file=self.path, line=line, cure="keep one of them")


def _decoded(word: bytes, path: Path, line: int | None) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise UserError(f"the word {word[:40]!r} is not UTF-8", file=path, line=line, cure="convert the file") from None


def all_numbers(vectors: Vectors, path: Path) -> Vectors:
    """The vectors, after making sure that each can be compared with others; the sums of squares are needed anyway."""
    odd = np.flatnonzero(~np.isfinite(vectors.norms))
    if len(odd):
        row = int(odd[0])
        what = "holds nan or infinite numbers" if not np.isfinite(vectors.vectors[row]).all() else "is too long"
        more = f", as do those of {count(len(odd) - 1, 'more word')}" if len(odd) > 1 else ""
        word = shown.repr(vectors.index_to_key[row])
        raise UserError(f"the vector of {word} {what}{more}", file=path, cure="leave such words out")
    return vectors


def _made(words: Iterable[str], matrix: NDArray[np.float32], path: Path) -> Vectors:
    try:
        return Vectors(list(words), matrix)
    except UserError as error:
        raise UserError(error.what, file=path, cure=error.cure) from None


# -- text --------------------------------------------------------------------------------------------------------------


def _read_text(stream: BinaryIO, path: Path) -> Vectors:
    first = _line(stream, LONGEST_WORD + LONGEST_NUMBER * MOST_DIMENSIONS, path, 1)
    parts = first.split()
    announced: int | None = None
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        announced, dim = _header(first, path)
    else:
        dim = len(first.rstrip(b" \n\r").split(b" ")) - 1
        if dim < 1:
            raise UserError("is empty" if not first else "has no numbers", file=path, line=1, cure="give word vectors")
    words = _Words(path)
    rows: list[NDArray[np.float32]] = []
    for number, line in _numbered(stream, first if announced is None else None, dim, path):
        word, *values = line.rsplit(b" ", dim)  # a word may have blanks in it (GloVe's has a few)
        try:
            with np.errstate(over="ignore"):  # 1e308 is infinite in 32 bits, and refused by its word
                row = np.array(values, np.float32)
        except ValueError:
            row = np.zeros(0, np.float32)
        if len(row) != dim:
            cure = "each line is a word and its numbers, parted by single blanks"
            raise UserError(f"is not a word and {dim} numbers", file=path, line=number, cure=cure)
        if len(rows) == announced:
            what = f"says {count(announced, 'word')} and has more"
            raise UserError(what, file=path, line=number, cure="mend its first line")
        words.add(word, number)
        rows.append(row)
    if announced is not None and announced != len(rows):
        cure = "copy or download the whole file again"
        raise UserError(f"says {count(announced, 'word')} and has {len(rows):,}", file=path, cure=cure)
    return _made(words.seen, np.array(rows, np.float32).reshape(len(rows), dim), path)


def _numbered(stream: BinaryIO, first: bytes | None, dim: int, path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that have something in them, by their numbers, without their ends."""
    longest, blank, number = LONGEST_WORD + LONGEST_NUMBER * dim, 0, 1
    if first is not None:
        yield 1, first.rstrip(b" \n\r")
    while line := _line(stream, longest, path, number + 1):
        number += 1
        line = line.rstrip(b" \n\r")
        if line:
            yield number, line
            continue
        blank += 1
        if blank > MOST_BLANK_LINES:
            raise UserError("has nothing but blank lines", file=path, line=number, cure="leave them out")


def _line(stream: BinaryIO, longest: int, path: Path, number: int) -> bytes:
    """The next line with its end, nothing behind the last: never more than a word and its numbers can take."""
    line = stream.readline(longest + 1)
    if len(line) > longest:
        cure = "each line is a word and its numbers, parted by single blanks"
        raise UserError(f"is longer than {longest:,} bytes", file=path, line=number, cure=cure)
    return line


# -- safetensors -------------------------------------------------------------------------------------------------------


def store_arrays(path: Path, arrays: dict[str, NDArray[Any]], said: dict[str, str]) -> None:
    """Replace a safetensors file atomically, with its checksum (files/seal.py) and without a copy of it in memory."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with written_by_others(path) as temporary:
        try:
            save_file(arrays, temporary, {**METADATA, **said})
        except SafetensorError as error:  # a Rust library: the number of the system's error is in its text
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
        with temporary.open("r+b") as stream:
            seal(stream)


def words_array(words: Sequence[str]) -> NDArray[np.uint8]:
    """Words as UTF-8 text, a line for each."""
    odd = next((word for word in words if "\n" in word), None)
    if odd is not None:
        raise UserError(f"the word {odd!r} has a line end in it", cure="replace it")
    return np.frombuffer("\n".join([*words, ""]).encode(), np.uint8)


def words_of(array: NDArray[np.uint8], path: Path) -> list[str]:
    """What `words_array` made."""
    return _decoded(array.tobytes(), path, None).split("\n")[:-1]


def _write_safetensors(vectors: Vectors, path: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {"vectors": vectors.vectors, "words": words_array(vectors.index_to_key)}
    said = {}
    if vectors.counts is not None:
        arrays["counts"] = np.asarray(vectors.counts, np.int64)
    if (table := vectors.subwords) is not None:
        arrays |= {"subword_hashes": table.hashes, "subwords": np.ascontiguousarray(table.rows)}
        said["subword_settings"] = json.dumps([table.shortest, table.longest, table.buckets])
    store_arrays(path, arrays, said)


def read_arrays(path: Path, *, verify: bool = True) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays of a safetensors file, and what is said of them, after comparing its checksum if it has one."""
    from safetensors import SafetensorError, safe_open

    if not is_there(path):
        raise UserError("there is no such file", file=path, cure="give a file of word vectors")
    check_regular(path)
    try:
        if verify:
            with path.open("rb") as stream:
                check_seal(stream, path)
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        cure = "copy it again, or write it again"
        raise UserError(f"cannot be read as safetensors ({error})", file=path, cure=cure) from None


def _read_safetensors(path: Path, *, verify: bool) -> Vectors:
    arrays, said = read_arrays(path, verify=verify)
    if not {"vectors", "words"} <= arrays.keys():
        raise UserError("holds no word vectors", file=path, cure="give a file with `vectors` and `words`")
    if arrays["vectors"].dtype.kind != "f":
        raise UserError(f"holds vectors of {arrays['vectors'].dtype}", file=path, cure="write them as 32-bit floats")
    words, counts, table = words_of(arrays["words"], path), arrays.get("counts"), None
    try:
        if "subwords" in arrays:
            shortest, longest, buckets = parse_json(said["subword_settings"])
            hashes, rows = arrays["subword_hashes"], arrays["subwords"]
            if rows.shape != (len(hashes), arrays["vectors"].shape[-1]):
                raise ValueError(f"{len(hashes):,} subwords, but rows of shape {rows.shape}")
            table = SubwordTable(shortest, longest, buckets, hashes, rows)
        if counts is not None and len(counts) != len(words):
            raise ValueError(f"{count(len(words), 'word')}, but {count(len(counts), 'count')}")
        return Vectors(words, arrays["vectors"], counts=counts, subwords=table)
    except UserError as error:
        raise UserError(error.what, file=path, cure=error.cure) from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"is not whole ({error})", file=path, cure="write it again") from None
