"""Every option of recurrent translators trains two updates on twenty lines, then translates, scores and averages."""

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
from micro_runs import MICRO

SMALL = {key: value for key, value in MICRO.items() if key not in ("model.heads", "model.feed_forward")}
OPTIONS: list[dict[str, Any]] = [
    {"recipe": "seq2seq", "model.layers": 2},
    {"recipe": "seq2seq", "model.cell": "gru", "model.bidirectional": True, "model.reverse_source": False},
    {"recipe": "seq2seq", "model.encoder": "dan", "model.unroll": "whole"},
    {"recipe": "bahdanau", "model.decoder_layers": 2, "training.guided_alignment": 0.1},
    {"recipe": "bahdanau", "model.cell": "lstm", "model.score": "bilinear", "model.encoder_dim": 12},
    {"recipe": "bahdanau", "model.embedding": 12, "model.attention_dim": 10, "model.readout": 14, "model.tie": "none"},
    {"recipe": "luong", "model.input_feeding": False, "model.score": "dot"},
    {"recipe": "luong", "model.score": "additive", "model.attention_dim": 6, "training.consistency": 1.0},
    {"recipe": "luong", "model.unroll": "steps", "model.score": "scaled-dot", "tokenizer.shared": False},
    {"recipe": "deep-att", "model.layers": 2, "model.attention_dim": 6},
    {"recipe": "gnmt", "model.layers": 3, "model.attention_dim": 6, "training.precision": "bf16"},
    {"recipe": "moe", "model.experts": 4, "model.hidden": 24, "model.expert_hidden": 20, "training.precision": "bf16"},
    {"recipe": "moe", "model.experts_per_token": 3, "model.expert_balance": 0.0, "training.consistency": 1.0},
    # any encoder with any decoder
    {"recipe": "luong", "model.encoder": "transformer", "model.heads": 2, "model.feed_forward": 20},
    {"recipe": "transformer", "model.encoder": "lstm", "model.heads": 2, "model.feed_forward": 20},
    {"recipe": "bahdanau", "model.encoder": "conv"},
    {"recipe": "luong", "model.encoder": "dan"},
    {"recipe": "gnmt", "model.encoder": "window"},
    {"recipe": "transformer", "model.decoder": "bahdanau"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=name)
def test_option_of_a_recurrent_translator(options: dict[str, Any], tmp_path: Path, corpus: dict[str, Path]) -> None:
    said = {key: value for key, value in options.items() if key != "recipe"}
    asked = {"recipe": options["recipe"], "settings": {**SMALL, "model.dropout": 0.1, **said}, "device": "cpu"}
    outcome = anaphora.train(tmp_path / "run", **corpus, **asked)
    assert outcome.steps == 2
    assert math.isfinite(outcome.validation["loss"])
    model = anaphora.load(tmp_path / "run", "cpu")
    for key, value in said.items():
        section, _, field = key.partition(".")
        assert getattr(getattr(model.config, section), field) == value
    assert anaphora.train(tmp_path / "run", **corpus, **asked).steps == 2  # the same call: nothing to do
    exercise(tmp_path / "run")


def test_learning_on_from_a_recurrent_translator(tmp_path: Path, corpus: dict[str, Path]) -> None:
    """Another recipe does not change what the start is; a shape that it has not is refused."""
    first = {"settings": {**SMALL, "model.layers": 2}, "device": "cpu"}
    anaphora.train(tmp_path / "first", **corpus, recipe="gnmt", **first)
    plain = {key: value for key, value in SMALL.items() if not key.startswith(("model.", "tokenizer."))}
    then = anaphora.train(tmp_path / "then", **corpus, start_from=tmp_path / "first", settings=plain, device="cpu")
    assert then.steps == 2
    assert anaphora.load(tmp_path / "then", "cpu").config.model.kind == "gnmt"
    with pytest.raises(UserError, match=r"has model\.layers=2, which cannot become 3"):
        settings = {**plain, "model.layers": 3}
        anaphora.train(tmp_path / "no", **corpus, start_from=tmp_path / "first", settings=settings, device="cpu")


def test_coverage_needs_attention(tmp_path: Path, corpus: dict[str, Path]) -> None:
    anaphora.train(tmp_path / "run", **corpus, recipe="seq2seq", settings=SMALL, device="cpu")
    model = anaphora.load(tmp_path / "run", "cpu")
    assert "occlusion" in model.translate(["the dog."], align=True)[0].alignment.method.name
    with pytest.raises(UserError, match="coverage_penalty needs a model that attends"):
        model.translate(["the dog."], coverage_penalty=0.2)
    with pytest.raises(UserError, match="no attention to walk through"):
        model.walk("the dog.")


def test_every_setting_of_a_recurrent_translator_is_exercised() -> None:
    exercised = {key.partition(".")[2] for case in OPTIONS for key in case if key.startswith("model.")}
    elsewhere = {"kind", "dim", "max_length", "dropout"}  # a recipe's, or SMALL
    for kind in kinds(family="recurrent translators"):
        for field in fields(settings_class(kind)):
            assert field.name in exercised | elsewhere, f"model.{field.name} is tried by no integration test"
