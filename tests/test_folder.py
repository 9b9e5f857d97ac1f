"""Folders: written whole or not at all, one process at a time, read only if they can be understood."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anaphora import folder
from anaphora.errors import UserError

# Atomic writing -----------------------------------------------------------------------------------------------------


def leftovers(path: Path) -> list[str]:
    return [p.name for p in path.rglob(f"{folder.UNFINISHED}*")]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    folder.write_text(file, "Straße\n")
    assert file.read_bytes() == "Straße\n".encode()
    folder.write_bytes(file, b"new")
    assert file.read_bytes() == b"new"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync", full) if broken == "fsync" else (Path, "replace", full)))
    with pytest.raises(UserError, match=r"a.txt: cannot be written \(No space left on device\)"):
        folder.write_text(file, "new")
    assert file.read_text() == "old"
    assert leftovers(tmp_path) == []


def test_a_file_cannot_be_written_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        folder.write_text(tmp_path / "absent" / "a.txt", "x")


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "link").symlink_to("old.txt")
    folder.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old.txt").read_text() == "new"
    folder.write_text(Path("/dev/null"), "nobody reads this", pipes=True)
    assert Path("/dev/null").is_char_device()
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("make", [os.mkfifo, Path.touch], ids=["pipe", "file"])
def test_what_is_no_folder_is_not_replaced_by_one(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "data")
    said = "/data: is not a folder, and is not replaced; move it away"
    with pytest.raises(UserError, match=said), folder.atomic_folder(tmp_path / "data"):
        pytest.fail("no work is begun")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    folder.discard(tmp_path / "data")  # a checkpoint that is none is deleted all the same
    assert not any(tmp_path.iterdir())


def test_a_folder_takes_its_name_when_it_is_complete(tmp_path: Path) -> None:
    final = tmp_path / "step-1"
    with folder.atomic_folder(final) as temporary:
        (temporary / "a").write_text("1")
        assert not final.exists()
        assert temporary.name.startswith(folder.UNFINISHED)
    assert (final / "a").read_text() == "1"
    with folder.atomic_folder(final) as temporary:
        (temporary / "b").write_text("2")
    assert [p.name for p in final.iterdir()] == ["b"]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("error", [RuntimeError("ours"), KeyboardInterrupt()])
def test_a_folder_that_fails_is_not_there(tmp_path: Path, error: BaseException) -> None:
    final = tmp_path / "step-1"
    with pytest.raises(type(error)), folder.atomic_folder(final) as temporary:
        (temporary / "a").write_text("half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No space left"), folder.atomic_folder(tmp_path / "step-1"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_publish_is_atomic_and_survives_its_source(tmp_path: Path) -> None:
    first, second, published = tmp_path / "1", tmp_path / "2", tmp_path / "model.safetensors"
    first.write_text("first")
    second.write_text("second")
    folder.publish(first, published)
    folder.publish(second, published)
    second.unlink()
    assert published.read_text() == "second"
    assert first.read_text() == "first"
    assert leftovers(tmp_path) == []


def test_publish_copies_where_links_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "1").write_text("first")
    folder.publish(tmp_path / "1", tmp_path / "2")
    assert (tmp_path / "2").read_text() == "first"


def test_sweep_deletes_what_killed_processes_left(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / f"{folder.UNFINISHED}12-step-9").mkdir(parents=True)
    (tmp_path / f"{folder.UNFINISHED}12-config.yaml").write_text("half")
    (tmp_path / "config.yaml").write_text("whole")
    folder.sweep(tmp_path)
    assert leftovers(tmp_path) == []
    assert (tmp_path / "config.yaml").exists()


# The lock -----------------------------------------------------------------------------------------------------------

HOLD = """
import sys, pathlib, time
from anaphora.folder import RunLock
with RunLock(pathlib.Path(sys.argv[1])) as lock:
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Any:
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_and_told_who_is_there(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(UserError, match=f"is in use by process {holder.pid}, since 2.*; wait for it") as caught:
        folder.RunLock(tmp_path).__enter__()
    assert caught.value.file == str(tmp_path)


def test_a_lock_left_by_kill_9_is_recognised(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with folder.RunLock(tmp_path) as lock:
        assert lock.abandoned is not None
        assert lock.abandoned["process"] == holder.pid
    with folder.RunLock(tmp_path) as lock:
        assert lock.abandoned is None  # an orderly end leaves no note


def test_a_torn_note_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".owner.json").write_text('{"proc')
    with folder.RunLock(tmp_path) as lock:
        assert lock.abandoned is None


def test_the_lock_falls_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), folder.RunLock(tmp_path):
        _ = 1 / 0
    with folder.RunLock(tmp_path) as lock:
        assert lock.abandoned is None


# What a model folder holds ------------------------------------------------------------------------------------------


def test_config_goes_there_and_back(tmp_path: Path) -> None:
    document = {"run": {"recipe": "tiny"}, "model": {"dim": 3}}
    folder.write_config(tmp_path, document)
    assert "anaphora_format: 1" in (tmp_path / "config.yaml").read_text()
    assert folder.read_config(tmp_path) == document


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"anaphora_format: {folder.FORMAT + 1}\nnews: {{}}\n")
    with pytest.raises(UserError, match=r"written by a newer Anaphora .*; install a newer version"):
        folder.read_config(tmp_path)


def test_what_is_not_a_model_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder; give the folder that `anaphora train` wrote"):
        folder.read_config(tmp_path / "absent")
    with pytest.raises(UserError, match=r"is not a model folder \(it has no config.yaml\)"):
        folder.read_config(tmp_path)
    (tmp_path / "config.yaml").write_text("model:\n  dim: 3\n")
    with pytest.raises(UserError, match="is not an Anaphora model's config"):
        folder.read_config(tmp_path)


def test_the_weights_are_the_published_ones_else_the_newest_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no weights yet; repeat the `anaphora train` command"):
        folder.weights_file(tmp_path)
    for step in ("step-00000009", "step-00000010", "step-00000011"):
        (tmp_path / "checkpoints" / step).mkdir(parents=True)
        if step != "step-00000011":
            (tmp_path / "checkpoints" / step / "model.safetensors").write_text(step)
    assert folder.weights_file(tmp_path).read_text() == "step-00000010"
    (tmp_path / "model.safetensors").write_text("published")
    assert folder.weights_file(tmp_path).read_text() == "published"
    (tmp_path / folder.WEIGHTS).unlink()
    (tmp_path / folder.WEIGHTS).symlink_to("/dev/zero")  # older weights in its place would be taken for it
    with pytest.raises(UserError, match=r"model\.safetensors: is a pipe or a device"):
        folder.weights_file(tmp_path)


def test_metrics_that_are_missing_or_torn_are_empty(tmp_path: Path) -> None:
    assert folder.read_metrics(tmp_path) == {}
    (tmp_path / "metrics.json").write_text('{"step": 1')
    assert folder.read_metrics(tmp_path) == {}
    folder.write_json(tmp_path / "metrics.json", {"step": 1})
    assert folder.read_metrics(tmp_path) == {"step": 1}
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"step": 1}


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs /dev/shm")
def test_files_in_shared_memory_are_replaced_not_written_through() -> None:
    """A hard link of the old content, such as a checkpoint of a published model, keeps it."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        old, link = Path(name) / "old", Path(name) / "link"
        old.write_bytes(b"best")
        os.link(old, link)
        folder.write_bytes(link, b"averaged")
        assert (old.read_bytes(), link.read_bytes()) == (b"best", b"averaged")
