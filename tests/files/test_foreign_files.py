"""Files that may be anybody's: read in bounded memory, or refused at once."""

from __future__ import annotations

import gzip
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import anaphora
from anaphora.alignment.dictionary import Dictionary
from anaphora.decoding.unfinished_translation import Unfinished
from anaphora.errors import UserError
from anaphora.evaluation.alignment_error import read_pharaoh
from anaphora.evaluation.vector_benchmarks import read_similarities
from anaphora.files.foreign import (
    MAX_LARGE_FILE_BYTES,
    is_there,
    open_file,
    parse_json,
    read_bytes,
    read_json,
    read_text,
)
from anaphora.folder import (
    CHECKPOINTS,
    CONFIG,
    LOCK,
    METRICS,
    WEIGHTS,
    RunLock,
    read_config,
    read_metrics,
    weights_file,
    write_json,
    write_text,
)
from anaphora.models import read_language_model, settings
from anaphora.models.composites.parts import copy_model
from anaphora.models.ngram.ngram_file import read_checksum, read_trie
from anaphora.models.vectors.cooccurrence import Cooccurrences
from anaphora.models.vectors.vector_files import load_vectors
from anaphora.models.weights import read_weights
from anaphora.tasks.recipes import load_recipe
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.word_tokenizer import open_tokenizer
from anaphora.training.checkpoint import Progress
from anaphora.training.reporting import RunReporter


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


NO_FILE = pytest.mark.parametrize("make", [pipe, device])


@NO_FILE
def test_what_stands_in_the_place_of_weights_is_refused_though_a_checkpoint_has_some(
    tmp_path: Path, make: Make
) -> None:
    checkpoint = tmp_path / CHECKPOINTS / "step-00000003"
    checkpoint.mkdir(parents=True)
    (checkpoint / WEIGHTS).write_bytes(b"weights")
    assert weights_file(tmp_path) == checkpoint / WEIGHTS
    make(tmp_path / WEIGHTS)
    with pytest.raises(UserError, match=r"/model\.safetensors: is a pipe or a device, not a file; put the file itself"):
        weights_file(tmp_path)


def test_a_link_that_leads_nowhere_and_a_folder_are_no_files(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS).symlink_to("gone")
    with pytest.raises(UserError, match="is a broken link; put the file itself in its place"):
        weights_file(tmp_path)
    assert not is_there(tmp_path / "gone")
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\); it is a folder; name a file"):
        is_there(tmp_path)


@NO_FILE
@pytest.mark.parametrize("load", [open_file, read_weights, read_trie, read_checksum, load_vectors])
def test_no_pipe_and_no_device_is_opened(tmp_path: Path, make: Make, load: Callable[[Path], object]) -> None:
    make(tmp_path / WEIGHTS)
    with pytest.raises(UserError, match="is a pipe or a device"):
        load(tmp_path / WEIGHTS)


@NO_FILE
@pytest.mark.parametrize("kind", ["ngram", "lstm"])
def test_no_model_is_read_from_a_pipe(tmp_path: Path, make: Make, kind: str) -> None:
    make(tmp_path / WEIGHTS)
    with pytest.raises(UserError, match=r"/model\.safetensors: is a pipe or a device"):
        read_language_model(settings({"kind": kind}), tmp_path)


@NO_FILE
def test_a_table_with_a_pipe_in_it_is_refused(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "total.bin")
    with pytest.raises(UserError, match=r"total\.bin: is a pipe or a device"):
        Cooccurrences(tmp_path)


@NO_FILE
def test_a_run_writes_into_no_pipe(tmp_path: Path, make: Make) -> None:
    for name in (METRICS, CONFIG, LOCK):
        make(tmp_path / name)
    with pytest.raises(UserError, match=r"metrics\.json: is a pipe or a device"):
        write_json(tmp_path / METRICS, {})
    with pytest.raises(UserError, match=r"config\.yaml: is a pipe or a device"):
        write_text(tmp_path / CONFIG, "kind: lstm\n")
    with pytest.raises(UserError, match=r"\.lock: is a pipe or a device"), RunLock(tmp_path):
        pass


@NO_FILE
def test_a_log_that_is_a_pipe_is_refused(tmp_path: Path, make: Make) -> None:
    (tmp_path / "logs").mkdir()
    make(tmp_path / "logs" / "log.jsonl")
    with pytest.raises(UserError, match=r"log\.jsonl: is a pipe or a device"):
        RunReporter(tmp_path, None).start(Progress(), 10)


@NO_FILE
def test_a_translation_does_not_go_on_from_a_pipe(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "out.txt.unfinished")
    with pytest.raises(UserError, match=r"out\.txt\.unfinished: is a pipe or a device"):
        Unfinished(tmp_path / "out.txt", {}, print)


def test_a_pipe_that_a_user_names_is_written_to(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    write_text(Path(f"/dev/fd/{writer}"), "a b\n", pipes=True)
    os.close(writer)
    assert os.read(reader, 100) == b"a b\n"
    os.close(reader)


def test_files_of_folders_are_read_through_one_door() -> None:
    """Whoever opens a file by its name alone waits for ever where that is a pipe."""
    source = Path(anaphora.__file__).parent
    opened = re.compile(r"\.read_(text|bytes)\(|\.open\(\"rb?\"|\bsafe_open\(|\bload_file\(")
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if path.name != "foreign.py" and any(opened.search(line) for line in path.read_text().splitlines())
    }
    own = {
        "comparing/running.py",
        "tasks/proposal.py",
        "device.py",
        "arguments/public_names.py",
        "models/registry.py",
        "files/entries.py",
    }  # /proc, the package's own files
    named = {"data/lines.py", "models/backpack/patch.py", "explain/trace_file.py", "explain/walk_file.py"}  # by a user
    looked_at = {
        "models/weights.py",
        "models/ngram/ngram_file.py",
        "models/backpack/sense_table.py",
        "models/vectors/vector_files.py",
    }
    assert found <= own | named | looked_at | {"interop/backpack_folders.py"}


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
    monkeypatch.setattr("anaphora.files.foreign.MAX_SMALL_FILE_BYTES", 1000)
    monkeypatch.setattr("anaphora.files.foreign.unpack.__defaults__", (1000,))
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
        assert read_json(tmp_path / "small.json", MAX_LARGE_FILE_BYTES) == [1]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_brackets_without_end_are_no_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too deep"):
        parse_json("[" * 100_000)
    header = b"[" * 100_000
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(UserError, match=r"cannot be read as an n-gram model \(it is nested too deeply\)"):
        read_trie(tmp_path / "model.safetensors")


@NO_FILE
def test_what_a_user_names_and_is_no_file_is_not_called_missing(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "words.tsv")
    with pytest.raises(UserError, match=r"words\.tsv: is a pipe or a device"):
        Dictionary.read(tmp_path / "words.tsv")
    (tmp_path / "mine.yaml").symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"mine\.yaml: is larger than 1 MiB"):
        load_recipe(str(tmp_path / "mine.yaml"))


@NO_FILE
def test_no_part_of_a_model_is_left_out_of_its_copy(tmp_path: Path, make: Make) -> None:
    (tmp_path / "copy").mkdir()
    make(tmp_path / "tokenizer.json")
    with pytest.raises(UserError, match=r"tokenizer\.json: is a pipe or a device"):
        copy_model(tmp_path, tmp_path / "copy")
