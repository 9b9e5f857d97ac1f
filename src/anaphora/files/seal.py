"""The checksum that a safetensors file of ours carries in its own header: the same for weights, n-grams and vectors.

    {"__metadata__": {"format": "pt", "sha256": "sha256:9ae0…", …}, "vectors": {"dtype": …}, …}

safetensors checks that a header makes sense, not that numbers are what they were: a page of zeros (what a power cut
leaves) would be believed. So each file carries the SHA-256 of itself with zeros in the checksum's place. It travels
with every copy and link of the file, and no second file can disagree with it, whenever the power goes. A file without
one (of other tools, of earlier versions) is read as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from anaphora.errors import UserError
from anaphora.files.foreign import parse_json

CHECKSUM = "sha256"
UNSEALED = "sha256:" + "0" * 64
METADATA = {"format": "pt", CHECKSUM: UNSEALED}
"""What is said of the tensors of a file that is to be sealed; more may stand behind it."""
PLACE = '"__metadata__":'
STORED = re.compile(rb'"(sha256:[0-9a-f]{64})"')  # with its quotes: inside of a longer text, those are escaped
LONGEST_HEADER = 100_000_000  # as the library has it
DAMAGED = "is damaged: its content no longer has the checksum it was written with"
CURE = "restore the file from a copy, or train again"


def read_header(stream: BinaryIO, longest: int = LONGEST_HEADER) -> bytes:
    """The length (8 bytes) and the header itself; ValueError if that cannot be."""
    size = os.fstat(stream.fileno()).st_size if not isinstance(stream, BytesIO) else len(stream.getbuffer())
    stream.seek(0)
    length = stream.read(8)
    announced = int.from_bytes(length, "little")
    if len(length) < 8 or announced > min(size - 8, longest):
        raise ValueError(f"its header is to have {announced:,} bytes, the whole file has {size:,}")
    return length + stream.read(announced)


def digest(header: bytes, stream: BinaryIO) -> str:
    """SHA-256 of a header, given with zeros for the checksum, and of all that stands behind it in the stream."""
    found = hashlib.sha256(header)
    stream.seek(len(header))
    while block := stream.read(1 << 20):
        found.update(block)
    return f"sha256:{found.hexdigest()}"


def seal(stream: BinaryIO) -> None:
    """Put the checksum where the zeros of METADATA are, and what else is said in one order: the library's is random."""
    header = read_header(stream)
    text = header[8:].decode()
    begin = text.index(PLACE) + len(PLACE)
    said, end = json.JSONDecoder().raw_decode(text, begin)

    def sealed(checksum: str) -> bytes:
        ordered = {**METADATA, **dict(sorted(said.items())), CHECKSUM: checksum}
        written = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False)
        return header[:8] + f"{text[:begin]}{written}{text[end:]}".encode()

    zeros = sealed(UNSEALED)
    assert len(zeros) == len(header)
    whole = sealed(digest(zeros, stream))
    stream.seek(0)
    stream.write(whole)


def is_sound(header: bytes, stream: BinaryIO) -> bool:
    """Whether a file is what it was; ValueError where its header cannot be. The whole file is read once."""
    document = parse_json(header[8:])
    metadata = document.get("__metadata__", {}) if isinstance(document, dict) else {}
    named = metadata.get(CHECKSUM) if isinstance(metadata, dict) else None
    found = STORED.findall(header)
    if named is None and not found:  # one flipped bit can hide the name or the value, not both
        return True
    if not isinstance(named, str) or found != [named.encode()]:
        return False
    return digest(header.replace(found[0], UNSEALED.encode(), 1), stream) == named


def check_seal(stream: BinaryIO, file: Path, cure: str = CURE) -> None:
    """Refuse a file of which a bit has changed since it was written."""
    if not is_sound(read_header(stream), stream):
        raise UserError(DAMAGED, file=file, cure=cure)
