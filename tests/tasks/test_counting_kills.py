"""A counting run killed at any moment: the same command goes on and comes to the same bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.models.ngram import counting as ngram_counting
from anaphora.tasks import counting_run as counting
from counting_runs import model_of, state, train
from deadly import Deadly, in_a_child

# -- killed ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory limit, however high, makes even a tiny text be counted on disk."""
    monkeypatch.setattr(ngram_counting, "memory_needed", lambda *_: 1 << 60)
    monkeypatch.setattr(ngram_counting, "room_within", lambda *_: 12_000)
    monkeypatch.setattr(counting, "compile_elsewhere", lambda: None)
    monkeypatch.setattr(counting, "give_back_what_is_freed", lambda: None)


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that the system has taken: forcing it onto the disk is for power cuts."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def moments(growth: float) -> Iterator[int]:
    """1, 2, 3, … at first each, then further and further apart."""
    at = 1.0
    while True:
        yield int(at)
        at = max(at + 1, at * growth)


@pytest.mark.usefixtures("no_waiting_for_the_disk")
@pytest.mark.parametrize("growth", [1.5, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("on_disk", [False, True])
def test_killed_at_any_moment(
    tmp_path: Path,
    text_files: dict[str, Path],
    done: Path,
    spilling: None,
    monkeypatch: pytest.MonkeyPatch,
    on_disk: bool,
    growth: float,
) -> None:
    settings = {"training.max_memory": "9GB"} if on_disk else {}
    ended = 0
    for at in moments(growth):
        folder = tmp_path / str(at)

        def attempt(folder: Path = folder, at: int = at) -> None:
            Deadly(monkeypatch, at)
            train(folder, text_files, settings=settings)

        killed = in_a_child(attempt)
        if (folder / "model.safetensors").exists():  # a model at every moment, or none
            assert model_of(folder) == model_of(done)
            assert anaphora.load(folder).evaluate(["the dog"]).tokens == 3
        assert train(folder, text_files, settings=settings).tokens > 0
        assert model_of(folder) == model_of(done)
        assert not (folder / "counting").exists() and not list(folder.rglob(".unfinished*"))
        if killed == 0:
            break
        assert killed == -signal.SIGKILL
        ended += 1
        shutil.rmtree(folder)
    assert ended > 5


@pytest.fixture
def unfinished(tmp_path: Path, text_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was killed when it had read its text and begun to count."""
    with monkeypatch.context() as patch:
        patch.setattr(counting, "fit", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        assert in_a_child(lambda: train(tmp_path / "run", text_files)) == -signal.SIGKILL
    return tmp_path / "run"


def test_an_unfinished_run_refuses_other_settings_and_another_text(
    unfinished: Path, text_files: dict[str, Path], done: Path, tmp_path: Path, capsys: Any
) -> None:
    from rich.console import Console

    console = Console(stderr=True, width=500)
    before = state(unfinished)
    with pytest.raises(UserError, match=r"an unfinished run.*: model.order is 3 there and 2 now.*force=True"):
        train(unfinished, text_files, settings={"model.order": 2}, console=console)
    with pytest.raises(UserError, match=r"tokenizer.minimum_count is 1 there and 2 now"):
        train(unfinished, text_files, settings={"tokenizer.minimum_count": 2})
    other = tmp_path / "other.txt"
    other.write_text("another text\n")
    with pytest.raises(UserError, match=r"the text changed.*force=True"):
        train(unfinished, {**text_files, "text": other}, console=console)
    said = capsys.readouterr().err
    assert "was killed; what it saved is still there" in said and "going on" not in said
    assert state(unfinished) == before
    train(unfinished, text_files, settings={"decoding.temperature": 0.5, "training.max_memory": None}, console=console)
    assert "unfinished run; going on" in capsys.readouterr().err
    assert model_of(unfinished) == model_of(done)


def test_an_unfinished_run_forced_says_what_is_discarded(
    unfinished: Path, text_files: dict[str, Path], tmp_path: Path, capsys: Any
) -> None:
    from rich.console import Console

    other = tmp_path / "other.txt"
    other.write_text("another text\n" * 3)
    files = {**text_files, "text": other}
    train(unfinished, files, settings={"model.order": 2}, force=True, console=Console(stderr=True, width=500))
    said = capsys.readouterr().err
    assert "changed model.order: 3 → 2" in said and "another text: what was saved is discarded" in said
    train(tmp_path / "fresh", files, settings={"model.order": 2})
    assert model_of(unfinished) == model_of(tmp_path / "fresh")


def test_a_validation_text_comes_too_late(tmp_path: Path, text_files: dict[str, Path]) -> None:
    train(tmp_path / "run", {"text": text_files["text"]})
    with pytest.raises(UserError, match=r"counted without a validation text.*anaphora evaluate .*force=True"):
        train(tmp_path / "run", text_files)


@pytest.mark.usefixtures("no_waiting_for_the_disk")
@pytest.mark.parametrize("apart", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_while_a_forced_change_is_made(
    tmp_path: Path, text_files: dict[str, Path], done: Path, monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    """At every moment the folder is the old model or the new one."""
    settings = {"tokenizer.minimum_count": 40, "model.order": 2}
    train(tmp_path / "new", text_files, settings=settings)
    seen = set()
    for at in range(1, 80, apart):
        folder = shutil.copytree(done, tmp_path / "run", dirs_exist_ok=False)

        def attempt(folder: Path = folder, at: int = at) -> None:
            Deadly(monkeypatch, at)
            train(folder, text_files, settings=settings, force=True)

        killed = in_a_child(attempt)
        loaded = anaphora.load(folder)
        which = done if loaded.config.model.order == 3 else tmp_path / "new"
        assert model_of(folder) == model_of(which)
        assert (folder / "tokenizer.json").read_bytes() == (which / "tokenizer.json").read_bytes()
        assert loaded.info()["metrics"]["finished"] is True
        seen.add(which)
        train(folder, text_files, settings=settings, force=True)
        assert model_of(folder) == model_of(tmp_path / "new")
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["new", "run"], "nothing is left over"
        shutil.rmtree(folder)
        if killed == 0:
            break
    assert killed == 0 and seen == {done, tmp_path / "new"}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [[], ["training.max_memory=250MB"]])
def test_a_process_killed_now_and_then(tmp_path: Path, limit: list[str]) -> None:
    draw = np.random.default_rng(0)
    numbers = draw.zipf(1.3, 600_000) % 20_000
    text = "\n".join(" ".join(f"w{n}" for n in numbers[at : at + 12]) for at in range(0, len(numbers), 12)) + "\n"
    (tmp_path / "text").write_text(text)

    def command(name: str) -> list[str]:
        return [sys.executable, "-m", "anaphora", "train", str(tmp_path / name), "--text", str(tmp_path / "text"), "-q"]

    subprocess.run(command("whole"), check=True, timeout=300)
    moment = random.Random(1)
    for _ in range(8):
        process = subprocess.Popen([*command("run"), *limit])
        try:
            process.wait(moment.uniform(0.5, 5))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    subprocess.run([*command("run"), *limit], check=True, timeout=300)
    assert model_of(tmp_path / "run") == model_of(tmp_path / "whole")
    if limit:
        cost = json.loads((tmp_path / "run" / "metrics.json").read_text())["cost"]
        assert cost["peak_memory"] <= 250e6
