"""The command line within this process, where one of its own is not the point: the same `main`, in milliseconds."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostile_world import TEXT, World


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.out.splitlines()[-1]


Say = Callable[..., Answer]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Say:
    """`say("translate", folder, file)` -> exit code, stdout, stderr."""
    from anaphora.cli.main import main

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["anaphora", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, out, err)

    return run


@pytest.fixture
def world(tmp_path: Path, micro: Path, say: Any) -> World:
    (tmp_path / "good.en").write_bytes(TEXT)
    (tmp_path / "good.de").write_bytes(TEXT.replace(b"dog", b"Hund"))
    return World(tmp_path, micro, say)


@pytest.fixture
def own(world: World, micro: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same, with a model of its own that may be damaged."""
    world.model = shutil.copytree(micro, tmp_path_factory.mktemp("own") / "model")
    return world
