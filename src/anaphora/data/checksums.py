"""Checksums of prepared data: written when a folder is prepared, compared before anything is learned from it.

    checksums.json   {"block": 1048576, "files": {"train.ids": {"size": …, "crc32": ["9ae0daaf", …]}, …}, "crc32": "…"}

Any number is as good an id as another, so a page of zeros (what a power cut leaves) or a flipped bit in prepared data
would be learned from without a word. Every file of the folder therefore has a CRC-32 for each block of 1 MiB, and the
list of them has one of its own. Opening the data compares all of them, once: it reads at the speed of the disk, and
costs less than the reading of the text itself, which every start of a run does anyway (benchmarks/checksums.py).

Folders prepared by earlier versions have no list. They get one when a run next opens them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

from anaphora.errors import UserError, refused_by_system
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, open_file, read_json
from anaphora.folder import UNFINISHED, write_json

CHECKSUMS = "checksums.json"
BLOCK_BYTES = 1 << 20
"""Bytes that one checksum is of."""

Progress = Callable[[str, int, int | None], None]  # (stage, done, total if known)


class DamagedData(UserError):
    """A file of prepared data is not what was written."""

    def __init__(self, what: str, path: Path, folder: Path) -> None:
        cure = f"delete the folder {folder} and repeat the command, which prepares it again"
        super().__init__(what, file=path, cure=cure)


def write_checksums(folder: Path) -> None:
    """List what the files of a folder hold now."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != CHECKSUMS and not path.name.startswith(UNFINISHED):
            files[path.relative_to(folder).as_posix()] = {"size": path.stat().st_size, "crc32": _blocks(path)}
    document: dict[str, Any] = {"block": BLOCK_BYTES, "files": files}
    write_json(folder / CHECKSUMS, {**document, "crc32": _own(document)})


def check_file(folder: Path, name: str) -> None:
    """Compare one file, where the folder has checksums: the manifest, before anything else is believed."""
    if (listed := read_checksums(folder)) is not None:
        _check(folder, [name], listed, lambda stage, done, total: None)


def check_data(
    folder: Path, *, expected: bool, add: bool = False, progress: Progress = lambda stage, done, total: None
) -> None:
    """Compare every file of a folder. Without checksums: an error where they are `expected`; else, with `add`, they
    are written."""
    listed = read_checksums(folder)
    if listed is not None:
        _check(folder, listed["files"], listed, progress)
    elif expected:
        raise DamagedData("the checksums of this data are missing", folder / CHECKSUMS, folder)
    elif add:
        write_checksums(folder)


def read_checksums(folder: Path) -> dict[str, Any] | None:
    """The list of a folder; nothing where there is none."""
    path = folder / CHECKSUMS
    try:
        document: dict[str, Any] = read_json(path, MAX_LARGE_FILE_BYTES)
        own = document.pop("crc32")
        if own != _own(document) or document["block"] != BLOCK_BYTES:
            raise ValueError(own)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedData("this list of checksums is damaged", path, folder) from None
    return document


def _check(folder: Path, names: Iterable[str], listed: dict[str, Any], progress: Progress) -> None:
    total = sum(file["size"] for file in listed["files"].values())
    done = 0

    def tell(read: int) -> None:
        progress("checking the prepared data", done + read, total)

    for name in names:
        path, file = folder / name, listed["files"].get(name)
        if file is None:
            raise DamagedData(f"this list of checksums lacks {name}", folder / CHECKSUMS, folder)
        if not path.is_file():
            raise DamagedData("this file of the prepared data is missing", path, folder)
        if path.stat().st_size != file["size"]:
            size = f"has {path.stat().st_size:,} bytes, and was written with {file['size']:,}"
            raise DamagedData(f"this file is damaged: it {size}", path, folder)
        found = _blocks(path, tell)
        for number, (now, then) in enumerate(zip(found, file["crc32"], strict=True)):
            if now != then:
                last = min((number + 1) * BLOCK_BYTES, file["size"]) - 1
                where = f"bytes {number * BLOCK_BYTES:,} to {last:,} are not those that were written"
                raise DamagedData(f"this file is damaged: {where}", path, folder)
        done += file["size"]


def _blocks(path: Path, progress: Callable[[int], None] = lambda read: None) -> list[str]:
    found, buffer, read = [], bytearray(BLOCK_BYTES), 0
    view = memoryview(buffer)
    try:
        with open_file(path) as file:
            while size := file.readinto(buffer):
                found.append(f"{crc32(view[:size]):08x}")
                read += size
                progress(read)
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None
    return found


def _own(document: dict[str, Any]) -> str:
    return f"{crc32(json.dumps(document, sort_keys=True).encode()):08x}"
