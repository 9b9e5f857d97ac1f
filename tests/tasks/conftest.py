"""Texts and a finished counting run, shared by the tests of runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import language_runs
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


@pytest.fixture(scope="module")
def plain_text(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Something to learn for a neural language model. Read only."""
    folder = tmp_path_factory.mktemp("text")
    found = {"text": folder / "train.txt", "valid_text": folder / "valid.txt"}
    for (path, number), seed in zip({found["text"]: 150, found["valid_text"]: 20}.items(), (1, 2)):
        path.write_text("".join(f"{line}\n" for line in language_runs.lines(number, seed)), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def labeled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Lines with more As or more Bs. Read only."""
    folder, draw = tmp_path_factory.mktemp("labelled"), random.Random(3)
    found = {"text": folder / "text.txt", "labels": folder / "labels.txt"}
    texts = []
    for _ in range(400):
        share = draw.choice((0.2, 0.8))
        texts.append(" ".join("A" if draw.random() < share else "B" for _ in range(9)))
    found["text"].write_text("".join(f"{line}\n" for line in texts))
    found["labels"].write_text("".join("as\n" if line.count("A") > 4 else "bs\n" for line in texts))
    return found
