"""Whatever file the same text comes in, the same weights are learned."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import anaphora
from anaphora.data.batches import Batches
from anaphora.data.preparation import open_prepared
from anaphora.models.weights import read_weights
from micro_runs import MICRO, pairs

FORMATS = ("text", "tsv", "csv", "jsonl", "parquet")
COMPRESSIONS = ("", ".gz", ".xz", ".zst")
TEXT = [
    *pairs(17),
    ('a "quoted" \\ line\u2028here', "Straße\x85 'ß'"),
    ("tag <unk> \u00a0 x", "⟨s⟩ 猫🙂"),
    ("é", "e\u0301"),
]


def pack(path: Path, content: bytes) -> None:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".xz":
        path.write_bytes(lzma.compress(content))
    elif path.suffix == ".zst":
        path.write_bytes(pa.Codec("zstd").compress(content, asbytes=True))
    else:
        path.write_bytes(content)


def write(folder: Path, format: str, compression: str) -> dict[str, Path]:
    """TEXT as files of that format: where its two sides are."""
    if format == "text":
        files = {"source": folder / f"a.en{compression}", "target": folder / f"a.de{compression}"}
        for place, file in enumerate(files.values()):
            pack(file, "".join(pair[place] + "\n" for pair in TEXT).encode())
        return files
    file = folder / f"pairs.{format}{compression}"
    if format == "tsv":
        content = "".join(f"{source}\t{target}\n" for source, target in TEXT).encode()
    elif format == "csv":
        sheet = io.StringIO()
        csv.writer(sheet).writerows([("en", "id", "de"), *((source, "1", target) for source, target in TEXT)])
        content = sheet.getvalue().encode()
    elif format == "jsonl":
        lines = [json.dumps({"source": s, "target": t, "id": 1}, ensure_ascii=bool(compression)) for s, t in TEXT]
        content = "".join(line + "\n" for line in lines).encode()
    else:
        sink = pa.BufferOutputStream()
        columns = {"target": [t for _, t in TEXT], "source": [s for s, _ in TEXT]}
        pyarrow.parquet.write_table(pa.table(columns), sink)
        content = sink.getvalue().to_pybytes()
    pack(file, content)
    return {"source": file, "target": file}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    anaphora.train(folder / "run", **write(folder, "text", ""), settings=MICRO, device="cpu")
    return folder / "run"


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", FORMATS)
def test_the_same_batches_and_the_same_weights(format: str, compression: str, plain: Path, tmp_path: Path) -> None:
    anaphora.train(tmp_path / "run", **write(tmp_path, format, compression), settings=MICRO, device="cpu")
    one, other = (Batches(open_prepared(run / "data").train, 256, 1) for run in (plain, tmp_path / "run"))
    assert one.count(0) == other.count(0)
    for index in range(one.count(0)):
        for side in ("source", "target"):
            assert (one.batch(0, index).tokens[side] == other.batch(0, index).tokens[side]).all()
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "run" / name).exists()
    assert (plain / "tokenizer.json").read_bytes() == (tmp_path / "run" / "tokenizer.json").read_bytes()
    expected, found = read_weights(plain / "model.safetensors"), read_weights(tmp_path / "run" / "model.safetensors")
    assert expected.keys() == found.keys()
    assert all((expected[name] == found[name]).all() for name in expected)


def test_one_run_goes_on_with_the_same_text_in_another_format(plain: Path, tmp_path: Path) -> None:
    """What counts is the content of the files, not their names."""
    anaphora.train(tmp_path / "run", **write(tmp_path, "text", ""), settings=MICRO, device="cpu")
    more = {**MICRO, "training.max_steps": 3}
    assert anaphora.train(tmp_path / "run", **write(tmp_path, "jsonl", ".xz"), settings=more, device="cpu").steps == 3


def test_changed_text_is_noticed(tmp_path: Path) -> None:
    files = write(tmp_path, "text", "")
    anaphora.train(tmp_path / "run", **files, settings=MICRO, device="cpu")
    files["target"].write_text(files["target"].read_text(encoding="utf-8").replace("Hund", "Hunt"), encoding="utf-8")
    with pytest.raises(anaphora.UserError, match="target text"):
        anaphora.train(tmp_path / "run", **files, settings={**MICRO, "training.max_steps": 3}, device="cpu")


def test_several_files_are_one_corpus(plain: Path, tmp_path: Path) -> None:
    sides: dict[str, list[Path]] = {"source": [], "target": []}
    for part, (start, stop) in enumerate(((0, 7), (7, 20))):
        for place, side in enumerate(sides):
            file = tmp_path / f"{side}{part}.txt"
            file.write_bytes("".join(pair[place] + "\n" for pair in TEXT[start:stop]).encode())
            sides[side].append(file)
    anaphora.train(tmp_path / "run", **sides, settings=MICRO, device="cpu")
    assert (plain / "model.safetensors").read_bytes() == (tmp_path / "run" / "model.safetensors").read_bytes()
