"""Files that may be anybody's: read in bounded memory, or refused at once."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from anaphora.errors import UserError
from anaphora.evaluation.alignment import read_pharaoh
from anaphora.evaluation.embeddings import read_similarities
from anaphora.files import LARGE, parse_json, read_bytes, read_json, read_text
from anaphora.folder import METRICS, read_config, read_metrics
from anaphora.models.ngram.file import read_trie
from anaphora.text.tokenizer import Tokenizer
from anaphora.text.word_tokenizer import open_tokenizer


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD = pytest.mark.parametrize(("make", "said"), [(pipe, "is a pipe"), (device, "is a pipe"), (sparse, "is larger")])
Make = Callable[[Path], None]


@ODD
@pytest.mark.parametrize("load", [Tokenizer.load, open_tokenizer, read_json, read_text, read_bytes])
def test_no_pipe_no_device_no_terabyte_is_read(
    tmp_path: Path, make: Make, said: str, load: Callable[[Path], object]
) -> None:
    make(tmp_path / "tokenizer.json")
    with pytest.raises(UserError, match=rf"tokenizer\.json: {said}"):
        load(tmp_path / "tokenizer.json")


@ODD
def test_metrics_that_cannot_be_read_say_nothing(tmp_path: Path, make: Make, said: str) -> None:
    make(tmp_path / METRICS)
    assert read_metrics(tmp_path) == {}


def test_a_pipe_that_a_user_names_is_read(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"0-0 1-1\n")
    os.close(writer)
    try:
        assert len(read_pharaoh(f"/dev/fd/{reader}")) == 1
    finally:
        os.close(reader)
    with pytest.raises(UserError, match="is larger"):
        read_bytes(Path("/dev/zero"), 1000, pipes=True)


def test_a_packed_file_of_pairs_is_unpacked_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anaphora.files.SMALL", 1000)
    monkeypatch.setattr("anaphora.files.unpack.__defaults__", (1000,))
    (tmp_path / "pairs.gz").write_bytes(gzip.compress(b"a b 1\n" * 1000))
    with pytest.raises(UserError, match=r"pairs\.gz: is larger"):
        read_similarities(tmp_path / "pairs.gz")


def test_a_config_of_many_megabytes_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("anaphora_format: 1\nmodel:\n  prune:\n" + "  - 0\n" * 500_000)
    with pytest.raises(UserError, match=r"config\.yaml: is larger than 1 MiB"):
        read_config(tmp_path)


def test_no_more_room_is_made_than_a_file_needs(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text("[1]")
    tracemalloc.start()
    try:
        assert read_json(tmp_path / "small.json", LARGE) == [1]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_brackets_without_end_are_no_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too deep"):
        parse_json("[" * 100_000)
    header = b"[" * 100_000
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(UserError, match=r"cannot be read as an n-gram model \(its brackets go too deep\)"):
        read_trie(tmp_path / "model.safetensors")
