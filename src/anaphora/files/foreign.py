"""Files that may be anybody's, read whole: a regular file of a bounded size, or one sentence that says why not.

A model folder that was downloaded may have a tokenizer.json that is a link to /dev/zero, a pipe that nobody writes to,
a terabyte of zeros that takes no room on the disk, or JSON of a hundred thousand brackets. None of these may hang a
command or fill the memory.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from anaphora.errors import UserError, refused_by_system

MAX_SMALL_FILE_BYTES = 1 << 26
"""Bytes at the most of settings, metrics, manifests."""
MAX_LARGE_FILE_BYTES = 1 << 30
"""Bytes at the most of vocabularies and tables of text."""
ITSELF = "put the file itself in its place"


def check_regular(path: Path, limit: int | None = None) -> None:
    """Refuse a pipe or a device, whose end may never come, and a file larger than `limit`; OSError as `open` has it."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise UserError("is a pipe or a device, not a file", file=path, cure=ITSELF)
    if limit is not None and found.st_size > limit:
        raise _too_large(path, limit)


def is_there(path: Path) -> bool:
    """Whether a file has this name. What is no file (a pipe, a device, a folder, a link that leads nowhere) is refused:
    whoever put it there meant it to be read, so nothing else may quietly be taken in its stead."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a name with a zero in it
        return False
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None
    try:
        check_regular(path)
    except FileNotFoundError:
        raise UserError("is a broken link", file=path, cure=ITSELF) from None
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None
    return True


def check_files(folder: Path) -> None:
    """Refuse a folder that holds something which is neither file nor folder, before files in it are opened by name."""
    for path in folder.iterdir():
        if not path.is_dir():
            check_regular(path)


def open_file(path: Path) -> BufferedReader:
    """Open a file of a folder to read its bytes, if it is one: opening a pipe would wait for whoever writes to it."""
    check_regular(path)
    return path.open("rb")


def read_bytes(path: Path, limit: int = MAX_SMALL_FILE_BYTES, *, pipes: bool = False) -> bytes:
    """All of a file; OSError as `open` has it. pipes: those that a user names, as in `--gold <(zcat gold.gz)`, are
    read, to the same limit."""
    if not pipes:
        check_regular(path, limit)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size or limit  # pipes, and the files of /proc, have no size beforehand
        content = file.read(min(size, limit) + 1)  # room is made for what is asked for, whatever there is
    if len(content) > limit:
        raise _too_large(path, limit)
    return content


def unpack(path: Path, limit: int = MAX_SMALL_FILE_BYTES) -> bytes:
    """All that a gzip file unpacks to; OSError, EOFError and zlib.error where it is damaged."""
    with gzip.open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise _too_large(path, limit)
    return content


def read_text(path: Path, limit: int = MAX_SMALL_FILE_BYTES, *, pipes: bool = False) -> str:
    """All of a text file in UTF-8; ValueError where it is none. Line ends are as Python has them."""
    text = read_bytes(path, limit, pipes=pipes).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says; ValueError where it says nothing, however deep its brackets and long its numbers."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path, limit: int = MAX_SMALL_FILE_BYTES) -> Any:
    """What a JSON file says; OSError and ValueError where it cannot be read."""
    return parse_json(read_text(path, limit))


def _too_large(path: Path, limit: int) -> UserError:
    return UserError(
        f"is larger than {limit >> 20:,} MiB, too large for such a file",
        file=path,
        cure="restore the file that was there",
    )
