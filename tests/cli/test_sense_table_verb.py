"""`anaphora senses --table`: written once, looked up by every verb, never for other weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaphora.models.backpack.sense_table import FILE
from anaphora.models.weights import read_weights, write_weights
from anaphora.pipelines.text_model import TextModel
from neural_folders import neural_folder

LINE = "the cat sat on the mat"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return neural_folder(tmp_path / "model", "backpack")


def score(folder: Path) -> float:
    return float(TextModel(folder).log_probabilities([LINE])[0])


def test_a_table_is_looked_up_by_whoever_opens_the_folder(model: Path, say: Any) -> None:
    computed, first = score(model), say("generate", model, "the", "--greedy", "--tokens", "6")
    answer = say("senses", model, "--table", "--exact")
    assert (answer.code, f"{FILE}" in answer.err) == (0, True)
    (model / "other").write_text("")
    assert (model / FILE).stat().st_mode == (model / "other").stat().st_mode  # for whoever may read the rest
    opened: Any = TextModel(model)
    assert opened.model.table is not None and opened.model.table.senses.dtype == torch.float32
    assert score(model) == pytest.approx(computed, abs=1e-4)
    assert say("generate", model, "the", "--greedy", "--tokens", "6").out == first.out
    asked = json.loads(say("senses", model, "cat", "--table", "--json").last)
    assert asked["table"] == str(model / FILE) and asked["words"][0]["word"] == "cat"
    idle = say("senses", model, "--table", "--nearest")
    assert idle.code == 2 and "no word is given; give one, or --table alone" in idle.err
    opened = TextModel(model)
    assert opened.model.table.senses.dtype == torch.bfloat16
    assert score(model) == pytest.approx(computed, rel=0.05)
    (model.parent / "text.txt").write_text(LINE + "\n")
    answer = say("evaluate", model, "--text", model.parent / "text.txt", "--json")
    assert answer.code == 0, answer.err
    assert np.isfinite(json.loads(answer.last)["perplexity"])


def test_a_table_of_weights_that_have_changed_is_left_alone(model: Path, say: Any) -> None:
    assert say("senses", model, "--table").code == 0
    weights = read_weights(model / "model.safetensors")
    weights["sense_network.outer.bias"] += 1
    write_weights(model / "model.safetensors", weights)
    opened: Any = TextModel(model)
    assert opened.model.table is None
    assert any("of another model" in note for note in opened.notes)
    assert say("senses", model, "--table").code == 0
    assert not any("of another model" in note for note in TextModel(model).notes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no word is given"),
        (["cat", "--exact"], "--exact needs --table"),
    ],
)
def test_what_makes_no_sense_is_told(words: list[str], said: str, model: Path, say: Any) -> None:
    answer = say("senses", model, *words)
    assert (answer.code, said in answer.err) == (2, True)
    assert not (model / FILE).exists()


def test_only_a_backpack_has_a_table(tmp_path: Path, say: Any) -> None:
    answer = say("senses", neural_folder(tmp_path / "lstm", "lstm"), "--table")
    assert answer.code == 2
    assert not (tmp_path / "lstm" / FILE).exists()


def test_info_says_how_far_back_senses_come_from(tmp_path: Path, model: Path, say: Any) -> None:
    assert "2 senses weighed by transformer-decoder" in say("info", model).out
    near = neural_folder(tmp_path / "near", "backpack", sense_window=3)
    assert "2 senses of the last 3 words weighed by transformer-decoder" in say("info", near).out
