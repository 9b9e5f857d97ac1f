"""Runs of neural language models: every kind through every option."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.models.registry import kinds
from language_runs import CARRYING, KILLED, MICRO, OPTIONS, stored, train


@pytest.mark.parametrize("boundaries", ["lines", "stream", "packed"])
@pytest.mark.parametrize("kind", kinds("language"))
def test_two_updates(kind: str, boundaries: str, plain_text: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    outcome = train(run, plain_text, kind, {"data.boundaries": boundaries})
    assert (outcome.steps, outcome.kind) == (2, kind)
    assert outcome.tokens > 0 and outcome.flops > 0
    assert math.isfinite(outcome.validation["perplexity"])
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "tokenizer.json", "model.safetensors", "card.md", "metrics.json", "checkpoints"} <= names
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["finished_step"] == 2
    assert metrics["vocabularies"]["text"]
    carried = stored(run / "checkpoints/step-00000002/training.safetensors", "carried.")
    assert bool(carried) == (boundaries == "stream" and kind in CARRYING)
    before = (run / "model.safetensors").stat()
    again = train(run, plain_text, kind, {"data.boundaries": boundaries})  # nothing is left to do
    assert again.steps == 2
    assert (run / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize(
    "option", OPTIONS, ids=lambda option: next(iter(option)) + "=" + str(next(iter(option.values())))
)
def test_options_of_all(option: dict[str, Any], plain_text: dict[str, Path], tmp_path: Path) -> None:
    for kind in ("lstm", "transformer-decoder", "transformer-encoder"):
        outcome = train(tmp_path / kind, plain_text, kind, {**option, "training.samples": 0})
        assert math.isfinite(outcome.validation["loss"]), kind


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("lstm", {"training.activation_penalty": 2.0, "training.temporal_penalty": 1.0}),
        ("transformer-decoder", {"training.activation_penalty": 2.0, "training.stride": 3}),
        ("rnn", {"model.initial": "orthogonal", "model.weight_dropout": 0.3}),
        ("gru", {"model.weight_dropout": 0.5, "model.layers": 3}),
        ("window", {"model.window": 3}),
        ("conv", {"model.width": 2, "model.dilated": True, "model.gated": False}),
        ("transformer-encoder", {"training.masked": 0.5, "model.transform": True, "model.pooler": True}),
        ("transformer-decoder", {"model.positions": "learned", "model.max_length": 20}),
        ("transformer-decoder", {"model.experts": 4, "model.experts_every": 2, "training.accumulate": 2}),
        ("transformer-encoder", {"model.experts": 3, "model.experts_per_token": 3, "training.precision": "bf16"}),
        ("transformer-decoder", {"model.experts": 4, "model.expert_balance": 0.0, "data.boundaries": "packed"}),
        ("backpack", {"model.encoder": "lstm", "model.hidden": 12}),
        ("backpack", {"training.precision": "bf16", "training.accumulate": 2, "data.boundaries": "packed"}),
    ],
)
def test_options_of_one(kind: str, option: dict[str, Any], plain_text: dict[str, Path], tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", plain_text, kind, option)
    assert math.isfinite(outcome.validation["loss"])
    if "model.experts" in option:
        told = anaphora.load(tmp_path / "run", "cpu").info()
        assert told["active_parameters"] < told["parameters"] or "model.experts_per_token" in option
        assert told["metrics"]["validation"]["experts"]["experts"] % option["model.experts"] == 0
    if "training.stride" in option:
        assert (outcome.validation["context"], outcome.validation["stride"]) == (16, 3)


def test_penalties_are_in_the_loss(plain_text: dict[str, Path], tmp_path: Path) -> None:
    """Of the first update, which has the same weights: what is logged is the loss with them."""
    losses = {}
    for name in ("activation", "temporal"):
        for weight in (0.0, 5.0):
            run = tmp_path / f"{name}-{weight}"
            train(run, plain_text, "gru", {f"training.{name}_penalty": weight, "training.max_steps": 1})
            first = (run / "logs/log.jsonl").read_text().splitlines()[0]
            losses[name, weight] = json.loads(first)["loss"]
    for name in ("activation", "temporal"):
        assert losses[name, 5.0] > losses[name, 0.0]


@pytest.mark.parametrize("boundaries", ["lines", "stream", "packed"])
@pytest.mark.parametrize("kind", ["lstm", "transformer-decoder", "dan"])
def test_evaluate_measures_what_the_run_did(
    kind: str, boundaries: str, plain_text: dict[str, Path], tmp_path: Path
) -> None:
    stride = {"training.stride": 3} if boundaries == "stream" else {}  # not the half of 16 that it is by itself
    outcome = train(tmp_path / "run", plain_text, kind, {"data.boundaries": boundaries, **stride})
    model = anaphora.load(tmp_path / "run", "cpu")
    assert isinstance(model, anaphora.TextModel)
    found = model.evaluate(plain_text["valid_text"].read_text(encoding="utf-8").splitlines())
    assert found.perplexity == pytest.approx(outcome.validation["perplexity"], rel=1e-6)
    assert found.bits_per_byte == pytest.approx(outcome.validation["bits_per_byte"], rel=1e-6)
    assert found.tokens == outcome.validation["tokens"]
    if stride and kind != "lstm":
        assert (found.stride, outcome.validation["stride"]) == (3, 3)


@pytest.mark.parametrize("boundaries", ["stream", "packed"])
@pytest.mark.parametrize("kind", ["transformer-decoder", "transformer-encoder"])
def test_rows_as_long_as_the_model_can_read(
    kind: str, boundaries: str, plain_text: dict[str, Path], tmp_path: Path
) -> None:
    own = {"model.max_length": 16, "model.positions": "learned", "data.boundaries": boundaries}
    assert train(tmp_path / "run", plain_text, kind, own).steps == 2  # rows of 16, of whoever reads the last token too


@pytest.mark.parametrize("recipe", ["gpt2", "bert"])
def test_presets_train(recipe: str, plain_text: dict[str, Path], tmp_path: Path) -> None:
    """Their shape made small: what the recipe says beside it goes through."""
    small = {key: value for key, value in MICRO.items() if key != "training.context"}
    small |= {"model.dim": 24, "model.max_length": 16, "training.context": 16, "training.accumulate": 1}
    outcome = anaphora.train(tmp_path / "run", **plain_text, recipe=recipe, settings=small, device="cpu")
    assert outcome.steps == 2


def test_every_setting_is_exercised() -> None:
    """A new setting of training or of text must join the lists above."""
    from dataclasses import fields

    from anaphora.data.data_settings import ClassificationData
    from anaphora.training.training_settings import LanguageTraining, MaskedTraining

    said = {key for option in OPTIONS for key in option} | set(MICRO) | set(KILLED)
    said |= {"training.activation_penalty", "training.temporal_penalty", "training.masked", "training.stride"}
    said |= {"data.text", "data.valid_text", "data.labels", "data.valid_labels", "data.boundaries", "data.hold_out"}
    said |= {"data.paths"}  # tests/files/test_shared_names.py
    said |= {"training.metric", "training.trigger"}
    of_the_loop = {"beta1", "beta2", "epsilon", "clip_norm", "compile", "cuda_graphs", "keep", "seed", "max_minutes"}
    of_the_loop |= {"tokenizer_lines"}  # the same for all that learn: tests/integration/test_options.py
    for section, cls in (("training", LanguageTraining), ("training", MaskedTraining), ("data", ClassificationData)):
        for field in fields(cls):
            if field.name not in of_the_loop:
                assert f"{section}.{field.name}" in said, f"{section}.{field.name} is tried by no test"


@pytest.mark.parametrize("kind", ["lstm", "transformer-decoder"])
def test_samples_show_where_the_model_goes_on(
    kind: str,
    plain_text: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from anaphora.training.text_validation import TextValidator

    seen, measure = [], TextValidator.__call__

    def watched(self: TextValidator, *given: Any, **more: Any) -> Any:
        seen.append(measure(self, *given, **more))
        return seen[-1]

    monkeypatch.setattr(TextValidator, "__call__", watched)
    train(tmp_path / "run", plain_text, kind, {"training.samples": 2, "training.max_steps": 1})
    lines = plain_text["valid_text"].read_text().splitlines()
    begun = [sample.text.partition(" ▸ ")[0] for sample in seen[0].samples]
    assert len(set(begun)) == 2
    assert capsys.readouterr().err.partition("final model: ")[2].count(" ▸") == 2, "the model that stays speaks, too"
    assert all(any(line.startswith(one) and 1 <= len(one.split()) <= 4 for line in lines) for one in begun)
