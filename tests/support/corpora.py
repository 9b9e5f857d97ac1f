"""Text that several tests share."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

WORDS_DE = [
    "der",
    "die",
    "Hund",
    "Katze",
    "Straße",
    "läuft",
    "sieht",
    "über",
    "große",
    "nicht",
    "Fahrradfahrer",
    "<unk>",
]
WORDS_EN = ["the", "a", "dog", "cat", "street", "runs", "sees", "over", "big", "not", "cyclist", "<unk>", "don't"]


def sentences(words: list[str], number: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join(draw.choices(words, k=draw.randint(1, 14))) + draw.choice([".", "!", " ?", ""]) for _ in range(number)
    ]


@pytest.fixture(scope="session")
def german() -> list[str]:
    return sentences(WORDS_DE, 400, 1)


@pytest.fixture(scope="session")
def english() -> list[str]:
    return sentences(WORDS_EN, 400, 2)


@pytest.fixture
def pair_files(tmp_path: Path, german: list[str], english: list[str]) -> dict[str, list[str]]:
    """A small parallel corpus in plain text files."""
    (tmp_path / "train.de").write_bytes("".join(f"{line}\n" for line in german).encode())
    (tmp_path / "train.en").write_bytes("".join(f"{line}\n" for line in english).encode())
    return {"source": [str(tmp_path / "train.de")], "target": [str(tmp_path / "train.en")]}


@pytest.fixture(scope="session")
def multi30k() -> dict[str, list[str]]:
    """The Multi30k training pairs, where they are on this machine."""
    data = Path(os.environ.get("ANAPHORA_DATA") or Path(__file__).parents[3] / "shared" / "data") / "multi30k"
    if not (data / "train.de.gz").exists():
        pytest.skip(f"Multi30k is not in {data} (set ANAPHORA_DATA to the folder that holds multi30k/)")
    return {"source": [str(data / "train.de.gz")], "target": [str(data / "train.en.gz")]}


def pack(path: Path, content: bytes) -> Path:
    """Write bytes, compressed as the name says."""
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".xz":
        content = lzma.compress(content)
    elif path.suffix == ".zst":
        content = pa.Codec("zstd").compress(content, asbytes=True)
    path.write_bytes(content)
    return path


def write(folder: Path, rows: list[tuple[str, str]], format: str, compression: str) -> dict[str, list[str]]:
    """A parallel corpus in one of the formats; the places to read it from."""
    if format == "text":
        files = [pack(folder / f"train.{i}{compression}", "".join(f"{r[i]}\n" for r in rows).encode()) for i in (0, 1)]
        return {"source": [str(files[0])], "target": [str(files[1])]}
    if format == "tsv":
        content = "".join(f"{a}\t{b}\n" for a, b in rows).encode()
    elif format == "csv":
        sheet = io.StringIO()
        csv.writer(sheet).writerows([("source", "target"), *rows])
        content = sheet.getvalue().encode()
    elif format in ("json", "jsonl"):
        content = "".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows).encode()
    else:
        sink = pa.BufferOutputStream()
        parquet.write_table(pa.table({"source": [a for a, _ in rows], "target": [b for _, b in rows]}), sink)
        content = sink.getvalue().to_pybytes()
    file = pack(folder / f"train.{format}{compression}", content)
    return {"source": [str(file)], "target": [str(file)]}


@pytest.fixture(scope="session")
def write_corpus() -> Callable[[Path, list[tuple[str, str]], str, str], dict[str, list[str]]]:
    """`write_corpus(folder, rows, format, compression)`."""
    return write
