"""A text and a finished counting run, shared by the tests of such runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from counting_runs import lines, train


@pytest.fixture(scope="module")
def text_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    folder = tmp_path_factory.mktemp("text")
    found = {"text": folder / "train.txt", "valid_text": folder / "valid.txt"}
    found["text"].write_text("".join(f"{line}\n" for line in lines(300)), encoding="utf-8")
    found["valid_text"].write_text("the dog sees a whale\n\nthe cat runs\n", encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, text_files: dict[str, Path]) -> Path:
    """A finished run. Read only."""
    folder = tmp_path_factory.mktemp("done") / "run"
    train(folder, text_files)
    return folder
