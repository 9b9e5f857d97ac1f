"""A file or folder that replaces another: a reader finds one of them, a kill loses neither and leaves nothing for
long, writers at once all end well."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaphora import folder
from anaphora.errors import UserError
from anaphora.files import exchange as exchanging
from anaphora.models.vectors.vector_files import store_arrays
from anaphora.tokenizers.tokenizer import Tokenizer
from deadly import Deadly, in_a_child


def fill(path: Path, name: str) -> None:
    """Put a folder of two files there, in place of whatever stands there."""
    with folder.atomic_folder(path) as temporary:
        (temporary / "config.yaml").write_text(name)
        (temporary / "weights").write_text(name)


def held(path: Path) -> set[str]:
    assert sorted(file.name for file in path.iterdir()) == ["config.yaml", "weights"]
    return {file.read_text() for file in path.iterdir()}


def cannot(*_: Any) -> bool:
    return False


needs_exchange = pytest.mark.skipif(
    not hasattr(exchanging.ctypes.CDLL(None), "renameat2"), reason="this system exchanges no names"
)


@pytest.fixture(params=["exchange", "renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "renames":
        monkeypatch.setattr(folder, "exchange", cannot)
    return str(request.param)


def test_killed_at_any_moment_of_replacing_one_of_both_is_there(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    for moment in range(1, 60):
        fill(path, "old")

        def replace(at: int = moment) -> None:
            Deadly(monkeypatch, at)
            fill(path, "new")

        code = in_a_child(replace)
        folder.recover(path)  # what every reader and every writer does first
        assert held(path) in ({"old"}, {"new"}), moment
        fill(path, "next")
        assert [entry.name for entry in tmp_path.iterdir()] == ["model"], "nothing is left over"
        if code == 0:
            return
        assert code == -9
    pytest.fail("it never came to its end")


WRITERS: dict[str, Callable[[Path, str], Any]] = {
    "text": folder.write_text,
    "second-name": lambda path, text: folder.publish(path.parent / "source", path),
    "vectors": lambda path, text: store_arrays(path, {text: np.ones(1, np.float32)}, {}),
    "tokenizer": lambda path, text: Tokenizer.of_words(["a", "b", text]).save(path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_whose_writer_was_killed_leaves_nothing_once_it_is_written_again(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "file", WRITERS[writer]
    (tmp_path / "source").write_text("new")
    write(path, "new")
    new = path.read_bytes()
    for moment in range(1, 20):
        path.unlink()  # it may have a second name
        path.write_text("old")

        def replace(at: int = moment) -> None:
            Deadly(monkeypatch, at)
            write(path, "new")

        code = in_a_child(replace)
        assert path.read_bytes() in (b"old", new), moment
        write(path, "new")
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "source"], moment
        assert path.read_bytes() == new
        if code == 0:
            return
        assert code == -9
    pytest.fail("it never came to its end")


def test_what_belongs_to_others_is_left_alone_when_a_file_is_written(tmp_path: Path) -> None:
    nobody = 4194305  # no process has that number
    mine = [
        f"{folder.UNFINISHED}{os.getppid()}-file",  # of a process that runs
        f"{folder.UNFINISHED}{nobody}-file.txt",
        f"{folder.UNFINISHED}{nobody}-my-file",
        f"{folder.UNFINISHED}notes-file",
        f"x{folder.UNFINISHED}{nobody}-file",
        "file.unfinished",
    ]
    for name in mine:
        (tmp_path / name).touch()
    (tmp_path / f"{folder.UNFINISHED}{nobody}-file").touch()
    folder.write_text(tmp_path / "file", "new")
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", *mine}


def test_what_a_kill_left_is_found_by_whoever_opens_replaces_or_continues_it(tmp_path: Path) -> None:
    def left(name: str) -> Path:
        aside = tmp_path / f"{folder.UNFINISHED}4194305+old-{name}"  # no process has that number
        aside.mkdir()
        folder.write_config(aside, {"model": {"kind": "ngram"}})
        return tmp_path / name

    assert folder.read_config(left("opened")) == {"model": {"kind": "ngram"}}
    with pytest.raises(UserError, match="already exists; choose another folder or add force=True"):
        folder.refuse_existing_folder(left("replaced"), force=False)
    made = left("made")
    with folder.atomic_folder(made):
        assert (made / "config.yaml").exists(), "it is there until the new one is"
    run = tmp_path / "run"
    run.mkdir()
    (run / f"{folder.UNFINISHED}4194305+old-data").mkdir()
    with folder.RunLock(run):
        assert (run / "data").is_dir()


def test_a_half_written_folder_called_old_is_not_taken_for_what_was_there(tmp_path: Path) -> None:
    half = tmp_path / f"{folder.UNFINISHED}4194305-old-model"  # of one to be called old-model
    half.mkdir()
    folder.recover(tmp_path / "model")
    fill(tmp_path / "model", "new")
    assert half.exists()
    fill(tmp_path / "old-model", "new")
    assert not half.exists()


@needs_exchange
def test_a_reader_never_finds_it_missing(tmp_path: Path) -> None:
    path, done = tmp_path / "model", tmp_path / "done"
    fill(path, "0")
    child = os.fork()
    if child == 0:
        try:
            for number in range(30):
                fill(path, str(number))
        finally:
            done.touch()
            os._exit(0)
    looks = missing = 0
    while not done.exists():
        for _ in range(200):
            looks += 1
            missing += not os.path.lexists(path)
    os.waitpid(child, 0)
    assert looks > 1000 and missing == 0
    assert held(path) == {"29"}


def test_without_an_exchange_a_reader_waits_for_the_moment_between(tmp_path: Path) -> None:
    """The writer lives, and is between its two renames."""
    path = tmp_path / "model"
    aside = tmp_path / f"{folder.UNFINISHED}{os.getpid()}+old-model"
    aside.mkdir()
    folder.write_config(aside, {"model": {}})
    child = os.fork()
    if child == 0:
        time.sleep(0.02)
        aside.rename(path)
        os._exit(0)
    assert folder.read_config(path) == {"model": {}}
    os.waitpid(child, 0)


def test_writers_at_the_same_time_all_end_well(tmp_path: Path, way: str) -> None:
    path = tmp_path / "model"

    def write() -> None:
        for number in range(10):
            fill(path, f"{os.getpid()} {number}")

    children = [_started(write) for _ in range(3)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert len(held(path)) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def _started(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_rename_that_is_refused_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path, rename = tmp_path / "model", Path.rename
    fill(path, "old")
    monkeypatch.setattr(folder, "exchange", cannot)

    def refused(self: Path, target: Path) -> Path:
        if target == path and "+old-" not in self.name:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises((UserError, KeyboardInterrupt)):
        fill(path, "new")
    assert held(path) == {"old"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_link_to_a_folder_stays_one(tmp_path: Path, way: str) -> None:
    fill(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    fill(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert held(tmp_path / "real") == {"new"}


def test_what_a_killed_deletion_left_is_not_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"

    def delete() -> None:
        monkeypatch.setattr(folder.shutil, "rmtree", lambda *_, **__: os._exit(9) if path.exists() is False else None)
        folder.discard(path)

    fill(path, "old")
    assert in_a_child(delete) == 9
    folder.recover(path)
    assert not path.exists()
    fill(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@needs_exchange
def test_names_are_exchanged_or_the_system_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x").touch()
    assert exchanging.exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "x").exists()
    with pytest.raises(FileNotFoundError):
        exchanging.exchange(tmp_path / "a", tmp_path / "absent")
    monkeypatch.setattr(exchanging.ctypes, "CDLL", lambda *_, **__: object())  # a system that has no such call
    assert not exchanging.exchange(tmp_path / "a", tmp_path / "b")
