"""Every option of convolutional translators trains two updates on twenty lines, then translates, scores, averages."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from test_options import exercise, name

import anaphora
from anaphora.errors import UserError
from anaphora.models import settings_class
from anaphora.models.registry import kinds
from forked import command
from micro_runs import MICRO

SMALL = {key: value for key, value in MICRO.items() if key not in ("model.heads", "model.feed_forward")}
BYTES = {**SMALL, "tokenizer.vocabulary": None, "model.max_length": 128}
OPTIONS: list[dict[str, Any]] = [
    {"recipe": "bytenet", "model.layers": 3, "model.decoder_layers": 2, "model.dilations": 2},
    {"recipe": "bytenet", "model.width": 5, "model.hidden": 6, "training.precision": "bf16"},
    {"recipe": "bytenet", "model.unfold": 1.5, "model.unfold_extra": 4, "training.consistency": 1.0},
    {"recipe": "bytenet", "tokenizer.kind": "character", "tokenizer.shared": False, "model.tie": "none"},
    {"recipe": "convs2s", "model.decoder_layers": 2, "training.guided_alignment": 0.1, "training.guided_layer": 0},
    {"recipe": "convs2s", "model.embedding": 12, "model.readout": 10, "model.tie": "none"},
    {"recipe": "convs2s", "model.layers": 2, "model.decoder_layers": 2, "model.stages": [[1, 16, 3], [1, 20, 1]]},
    {"recipe": "convs2s", "model.width": 5, "training.consistency": 1.0, "tokenizer.shared": False},
    # any encoder with any decoder
    {"recipe": "convs2s", "model.encoder": "gru", "training.precision": "bf16"},
    {"recipe": "bahdanau", "model.encoder": "convs2s"},
    {"recipe": "bytenet", "model.decoder": "luong"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=name)
def test_option_of_a_convolutional_translator(options: dict[str, Any], tmp_path: Path, corpus: dict[str, Path]) -> None:
    said = {key: value for key, value in options.items() if key != "recipe"}
    small = BYTES if options["recipe"] == "bytenet" else SMALL
    asked = {"recipe": options["recipe"], "settings": {**small, "model.dropout": 0.1, **said}, "device": "cpu"}
    outcome = anaphora.train(tmp_path / "run", **corpus, **asked)
    assert outcome.steps == 2
    assert math.isfinite(outcome.validation["loss"])
    model = anaphora.load(tmp_path / "run", "cpu")
    for key, value in said.items():
        section, _, field = key.partition(".")
        assert getattr(getattr(model.config, section), field) == value
    assert anaphora.train(tmp_path / "run", **corpus, **asked).steps == 2  # the same call: nothing to do
    exercise(tmp_path / "run")


def test_bytenet_is_aligned_by_occlusion_and_convs2s_by_its_looks(tmp_path: Path, corpus: dict[str, Path]) -> None:
    for recipe, small in (("bytenet", BYTES), ("convs2s", SMALL)):
        anaphora.train(tmp_path / recipe, **corpus, recipe=recipe, settings=small, device="cpu")
    bytenet, convs2s = (anaphora.load(tmp_path / recipe, "cpu") for recipe in kinds(family="convolutional translators"))
    assert "occlusion" in bytenet.translate(["the dog."], align=True)[0].alignment.method.name
    assert "occlusion" not in convs2s.translate(["the dog."], align=True)[0].alignment.method.name
    with pytest.raises(UserError, match="no attention to walk through"):
        bytenet.walk("the dog.")
    assert convs2s.translate(["the dog."], coverage_penalty=0.2)


def test_bytenet_on_words_is_said_before_any_work(tmp_path: Path, corpus: dict[str, Path]) -> None:
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    done = command("train", tmp_path / "run", *files, "--recipe", "bytenet", "tokenizer.kind=bpe")
    assert done.returncode == 2
    assert "bytenet translates letter by letter" in done.stderr
    assert "tokenizer.kind=byte" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_every_setting_of_a_convolutional_translator_is_exercised() -> None:
    exercised = {key.partition(".")[2] for case in OPTIONS for key in case if key.startswith("model.")}
    elsewhere = {"kind", "dim", "max_length", "dropout"}  # a recipe's, or SMALL
    for kind in kinds(family="convolutional translators"):
        for field in fields(settings_class(kind)):
            assert field.name in exercised | elsewhere, f"model.{field.name} is tried by no integration test"
