"""Prepared data is compared with its checksums before anything is learned from it; damage is named, with its cure."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anaphora.data import checksums
from anaphora.data.checksums import CHECKSUMS, check_data, write_checksums
from anaphora.data.data_settings import DataConfig
from anaphora.data.language_corpus import prepare_text
from anaphora.data.preparation import Prepared, open_prepared, prepare
from anaphora.data.prepared_text import open_text
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import TokenizerConfig
from micro_runs import write_pairs

Change = Callable[[bytes], bytes]


def zeroed(content: bytes) -> bytes:
    """All but the ends, as a power cut leaves it."""
    return content[:1] + bytes(len(content) - 2) + content[-1:]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def damage(path: Path, change: Change) -> None:
    content = path.read_bytes()
    assert change(content) != content
    path.write_bytes(change(content))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(folder, 80)
    again(folder)
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text("the dog sees a cat\na cat sees the dog\n" * 50)
    (folder / "labels.txt").write_text("dog\ncat\n" * 50)
    prepare_text(folder / "data", data(folder), WORDS)
    return folder


WORDS = TokenizerConfig(kind="word", split="blanks")


def data(folder: Path) -> DataConfig:
    return DataConfig(text=[str(folder / "text.txt")], labels=[str(folder / "labels.txt")], hold_out=20)


SAID = r"{}: this (file|list of checksums) is damaged.*; delete the folder .*data and repeat the command"


@pytest.mark.parametrize("change", [zeroed, flipped])
@pytest.mark.parametrize(
    "name", ["train.ids", "valid.ids", "train.classes", "valid.classes", "tokenizer.json", "manifest.json", CHECKSUMS]
)
def test_every_file_of_prepared_text_is_compared(text: Path, tmp_path: Path, name: str, change: Change) -> None:
    run = shutil.copytree(text, tmp_path / "run")
    damage(run / "data" / name, change)
    for use in (lambda: open_text(run / "data"), lambda: prepare_text(run / "data", data(run), WORDS)):
        with pytest.raises(UserError, match=SAID.format(name)):
            use()
    shutil.rmtree(run / "data")  # the cure
    assert prepare_text(run / "data", data(run), WORDS).train.read_bytes() == (text / "data" / "train.ids").read_bytes()


@pytest.mark.parametrize("change", [zeroed, flipped, lambda content: content[:-8]])
@pytest.mark.parametrize(
    "name", ["train/00000.arrow", "valid/00000.arrow", "tokenizer.json", "manifest.json", CHECKSUMS]
)
def test_every_file_of_prepared_pairs_is_compared(pairs: Path, tmp_path: Path, name: str, change: Change) -> None:
    run = shutil.copytree(pairs, tmp_path / "run")
    damage(run / "data" / name, change)
    for use in (lambda: open_prepared(run / "data"), lambda: again(run)):
        with pytest.raises(UserError, match=SAID.format(name)):
            use()
    shutil.rmtree(run / "data")
    again(run)
    assert {path.name: path.read_bytes() for path in (run / "data" / "train").iterdir()} == {
        path.name: path.read_bytes() for path in (pairs / "data" / "train").iterdir()
    }


def test_a_lost_shard_is_missed(pairs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(pairs, tmp_path / "run")
    (run / "data" / "valid" / "00000.arrow").unlink()
    with pytest.raises(UserError, match=r"valid/00000\.arrow: this file of the prepared data is missing; delete"):
        again(run)


def test_every_block_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "BLOCK_BYTES", 16)
    (tmp_path / "ids").write_bytes(bytes(range(100)))
    (tmp_path / "empty").write_bytes(b"")
    write_checksums(tmp_path)
    seen: list[tuple[str, int, int | None]] = []
    check_data(tmp_path, expected=True, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("checking the prepared data", 100, 100)
    for place in range(100):
        content = bytearray(range(100))
        content[place] ^= 1 << place % 8
        (tmp_path / "ids").write_bytes(content)
        first = place // 16 * 16
        with pytest.raises(UserError, match=f"bytes {first} to {min(first + 15, 99)} are not those that were written"):
            check_data(tmp_path, expected=True)


def test_lost_checksums_are_missed_and_older_folders_get_theirs(text: Path, tmp_path: Path) -> None:
    run = shutil.copytree(text, tmp_path / "run")
    (run / "data" / CHECKSUMS).unlink()
    with pytest.raises(UserError, match=r"checksums\.json: the checksums of this data are missing; delete the folder"):
        prepare_text(run / "data", data(run), WORDS)
    manifest = json.loads((run / "data" / "manifest.json").read_text())
    del manifest[CHECKSUMS]  # as an earlier version wrote it
    (run / "data" / "manifest.json").write_text(json.dumps(manifest))
    open_text(run / "data")  # a reader writes nothing
    assert not (run / "data" / CHECKSUMS).exists()
    assert prepare_text(run / "data", data(run), WORDS).reused
    damage(run / "data" / "train.ids", zeroed)
    with pytest.raises(UserError, match=SAID.format("train.ids")):
        prepare_text(run / "data", data(run), WORDS)


def again(folder: Path) -> Prepared:
    """The pairs of a folder, prepared or found."""
    sides = {side: [str(folder / f"train.{name}")] for side, name in (("source", "en"), ("target", "de"))}
    return prepare(folder / "data", sides, tokenizer=TokenizerConfig(vocabulary=300))


@pytest.mark.parametrize("name", ["manifest.json", CHECKSUMS])
@pytest.mark.timeout(20)
def test_a_link_to_a_device_is_no_prepared_data(text: Path, tmp_path: Path, name: str) -> None:
    run = shutil.copytree(text, tmp_path / "run")
    (run / "data" / name).unlink()
    (run / "data" / name).symlink_to("/dev/zero")
    with pytest.raises(UserError, match=rf"{name}: is a pipe or a device"):
        open_text(run / "data")
