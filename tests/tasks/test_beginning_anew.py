"""A run that is forced to begin anew: the old model or the new one is there, whenever the process is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora import folder as folders
from anaphora.errors import UserError
from anaphora.tasks import vectors_run as vectors
from anaphora.tasks.beginning_anew import beginning_anew, clear_replaced
from deadly import Deadly, in_a_child
from vector_runs import SMALL, grouped, learn

OTHER = {"training.epochs": 1, "model.dim": 8}


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def make(folder: Path, name: str) -> None:
    for file in ("config.yaml", "model.safetensors"):
        folders.write_text(folder / file, f"anaphora_format: 1\nmodel:\n  kind: {name}\n")


def held(folder: Path) -> str:
    (kind,) = {str(folders.read_config(folder)["model"]["kind"]), *_kinds(folder / "model.safetensors")}
    return kind


def _kinds(file: Path) -> list[str]:
    return [file.read_text().split()[-1]]


def begin(run: Path, name: str, patch: pytest.MonkeyPatch | None = None, at: int = 0) -> None:
    """A run that makes two files, killed at the given moment."""
    if patch is not None:
        Deadly(patch, at)
    with folders.RunLock(run):
        clear_replaced(run)
        with beginning_anew(run, ("old", "new")) as new:
            make(new, name)


@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_killed_at_any_moment_the_old_run_or_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "renames":
        monkeypatch.setattr(folders, "exchange", lambda *_: False)
    run, seen = tmp_path / "run", set()
    run.mkdir()
    make(run, "old")
    (run / "notes.txt").write_text("my own")
    (run / "logs").mkdir()
    (run / "logs" / "log.jsonl").write_text("{}\n")
    for moment in range(1, 60):
        code = in_a_child(lambda at=moment: begin(run, "new", monkeypatch, at))  # type: ignore[misc]
        seen.add(held(run))
        begin(run, "old")
        assert held(run) == "old", "a lock, or what was left over, is in nobody's way"
        assert [entry.name for entry in tmp_path.iterdir()] == ["run"], "nothing is left over"
        names = {".lock", "config.yaml", "model.safetensors", "logs", "notes.txt"}
        assert {entry.name for entry in run.iterdir()} == names, "what is no part of a run is kept"
        if code == 0:
            break
        assert code == -9
    assert seen == {"old", "new"} and moment > 6
    assert (run / "logs" / "log.jsonl").read_text() == "{}\n"


def test_the_lock_is_held_all_the_time(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    make(run, "old")

    def another() -> None:
        with pytest.raises(UserError, match="in use"), folders.RunLock(run):
            pass

    with folders.RunLock(run):
        with beginning_anew(run, ("old",)) as new:
            make(new, "new")
        assert held(run) == "new" and in_a_child(another) == 0
    with folders.RunLock(run):
        pass


def test_a_folder_that_cannot_be_replaced_is_named_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    make(run, "old")
    monkeypatch.chdir(run)
    with pytest.raises(UserError, match="it is the working directory"), beginning_anew(Path(), ("old",)):
        pytest.fail("it must not begin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == run)
    with pytest.raises(UserError, match="is mounted there"), beginning_anew(run, ("old",)):
        pytest.fail("it must not begin")
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("texts")
    found = {name: folder / name for name in ("first", "second", "bad")}
    found["first"].write_text(grouped(60))
    found["second"].write_text(grouped(60, groups="ghij"))
    found["bad"].write_text("every word once only\n")
    return found


def test_old_vectors_are_there_until_the_new_ones_are(
    texts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    learn(run, text=texts["first"], settings=OTHER)
    forced: dict[str, Any] = {"text": texts["second"], "settings": OTHER, "force": True}
    seen = []
    for moment in range(3, 60, 9):

        def attempt(at: int = moment) -> None:
            Deadly(monkeypatch, at)
            learn(run, **forced)

        in_a_child(attempt)
        model = anaphora.load(run)
        seen.append("old" if "aword1" in model.vectors else "new")  # type: ignore[union-attr]
        assert ("hword1" in model.vectors) is (seen[-1] == "new")  # type: ignore[union-attr]
        assert model.info()["metrics"]["finished"] is True
        if seen[-1] == "new":
            break
    assert len(seen) > 2
    learn(run, **forced)
    assert "hword1" in anaphora.load(run).vectors and "aword1" not in anaphora.load(run).vectors  # type: ignore[union-attr]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    assert learn(run, **forced).reason == "it was finished already"
    assert (run / "card.md").read_text().startswith("# run\n")


def test_the_command_repeated_goes_on_with_the_new_vectors(
    texts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, said = tmp_path / "run", list[str]()
    learn(run, text=texts["first"], settings=OTHER)
    monkeypatch.setattr(vectors.RunReporter, "message", lambda self, text: said.append(text))
    forced: dict[str, Any] = {"text": texts["first"], "force": True}
    with monkeypatch.context() as patch:
        patch.setattr(vectors, "save_vectors", lambda *_: os._exit(9))
        assert in_a_child(lambda: learn(run, **forced)) == 9
    assert anaphora.load(run).config.vectors[0].dim == 8
    assert learn(run, text=texts["first"], settings=OTHER).reason == "it was finished already"
    assert said[-2].startswith(f"note: {tmp_path / '.anew-run'} holds an unfinished run that force=True began")
    learn(run, **forced)
    assert any(line.startswith("continuing after") for line in said), "what was learned of the new run is not lost"
    assert anaphora.load(run).config.vectors[0].dim == SMALL["model.dim"]
    with monkeypatch.context() as patch:  # with yet other settings
        patch.setattr(vectors, "save_vectors", lambda *_: os._exit(9))
        assert in_a_child(lambda: learn(run, **forced, settings=OTHER)) == 9
    learn(run, **forced, settings={"model.dim": 4, "training.epochs": 1})
    assert any("what was learned of the new vectors is discarded" in line for line in said)
    assert anaphora.load(run).config.vectors[0].dim == 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_mistake_in_the_new_text_costs_nothing(texts: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    learn(run, text=texts["first"], settings=OTHER)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for kind, settings in (("bad", OTHER), ("first", {**OTHER, "training.learning_rate": 900.0, "model.dim": 9})):
        with pytest.raises(UserError, match=r"there is nothing to learn|has diverged|grew without bound"):
            learn(run, text=texts[kind], settings=settings, force=True)
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
        assert learn(run, text=texts["first"], settings=OTHER).reason == "it was finished already"
