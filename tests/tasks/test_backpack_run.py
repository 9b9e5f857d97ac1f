"""Runs of Backpacks: distinct words are found on the host, a stop changes nothing, what is measured is what is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.tasks.recipes import load_recipe
from anaphora.tasks.text_sizes import sized_to_run
from anaphora.training.objectives import language_objective
from language_runs import train


def test_distinct_words_are_found_while_the_batch_is_on_the_host(
    plain_text: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every update would wait for the device, and senses be computed of a number of words unforeseen."""
    found: list[Any] = []
    look = language_objective.distinct
    monkeypatch.setattr(language_objective, "distinct", lambda *given: found.append(look(*given)) or found[-1])
    train(tmp_path / "run", plain_text, "backpack", {"training.accumulate": 2})
    assert len(found) >= 4  # of two updates, two batches each
    assert all(len(types) <= slots.size for types, slots in found)


@pytest.mark.parametrize("settings", [{"model.encoder": "lstm"}, {"data.boundaries": "packed", "training.ema": 0.9}])
def test_half_and_half_is_the_whole(settings: dict[str, Any], plain_text: dict[str, Path], tmp_path: Path) -> None:
    """Dropout inside and around the sense network goes on where it stopped, bit for bit."""
    settings = {**settings, "training.schedule": "constant", "training.checkpoint_every": 3, "model.dropout": 0.3}
    settings |= {"training.samples": 0, "model.output_dropout": 0.2}
    for run, steps in (("run", 3), ("run", 6), ("whole", 6)):
        train(tmp_path / run, plain_text, "backpack", {**settings, "training.max_steps": steps})
    for file in ("checkpoints/step-00000006/training.safetensors", "checkpoints/step-00000006/model.safetensors"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


@pytest.mark.parametrize("settings", [{"model.encoder": "gru", "data.boundaries": "stream"}, {"model.sense_window": 2}])
def test_evaluate_measures_what_the_run_did(
    settings: dict[str, Any], plain_text: dict[str, Path], tmp_path: Path
) -> None:
    outcome = train(tmp_path / "run", plain_text, "backpack", settings)
    model = anaphora.load(tmp_path / "run", "cpu")
    assert isinstance(model, anaphora.TextModel)
    found = model.evaluate(plain_text["valid_text"].read_text(encoding="utf-8").splitlines())
    assert found.perplexity == pytest.approx(outcome.validation["perplexity"], rel=1e-6)


def test_sizes_are_the_contextualisers_and_penalties_nobodys() -> None:
    """What an LSTM says is penalized; what a Backpack says is a sum of senses, and the LSTM only weighs them."""
    manifest = {"train": {"tokens": 2_000_000}, "valid": {"tokens": 1}}
    found = {}
    for kind, own in (("lstm", {}), ("backpack", {"model": {"encoder": "lstm"}}), ("backpack", {})):
        found[kind, bool(own)] = sized_to_run(kind, manifest, load_recipe(kind), own, labeled=False, gently=False)
    lstm, around, usual = (found[key] for key in (("lstm", False), ("backpack", True), ("backpack", False)))
    assert around["model"] == lstm["model"] != usual["model"] and "heads" in usual["model"]
    penalties = {"activation_penalty", "temporal_penalty"}
    assert penalties <= lstm["training"].keys()
    assert around["training"] == {key: value for key, value in lstm["training"].items() if key not in penalties}
