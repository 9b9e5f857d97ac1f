"""What is said before the first update of what a run will cost."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.errors import UserError
from anaphora.models import build_language_model
from anaphora.models.language.transformer_language import TransformerLanguageConfig
from anaphora.tasks import learning, outlook
from anaphora.training.training_settings import TrainingConfig
from language_runs import train

CPU = torch.device("cpu")
NORMAL = {"recipe": "lstm", "parameters": 400_000, "tokens": 5_000, "updates": 1000, "operations": 1e9}


def warned(config: TrainingConfig | None = None, **more: Any) -> str:
    given = {**NORMAL, "config": config or TrainingConfig(), "speed": lambda: 5e10, **more}
    return "\n".join(outlook.warnings(**given))


def test_a_model_in_proportion_needs_no_word_and_no_measurement() -> None:
    def measured() -> float:
        raise AssertionError("nothing is measured for a small run")

    assert warned(speed=measured) == ""


def test_a_large_model_on_little_text_is_warned_of_with_time_and_size() -> None:
    said = warned(recipe="gpt2", parameters=124_000_000, tokens=6_000, updates=120, operations=1e13)
    assert "note: gpt2 is the shape of GPT-2, trained from scratch; it is not pretrained" in said
    assert "warning: 124M parameters for 6k tokens of text" in said
    # 1e13 operations at 5e10 a second; one checkpoint of weights and two moments, 4 bytes each
    assert "an update takes about 3:20 here (1.0e+13 operations), all 120 about 6:40:00" in said
    assert "the folder grows to about 1.5 GB" in said
    assert "for less memory training.batch_tokens" in said


def test_a_long_run_is_warned_of_however_much_text_there_is() -> None:
    assert "all 100,000 about 55:33:20" in warned(tokens=10**9, updates=100_000, operations=1e11)
    assert warned(tokens=10**9, updates=1000, operations=1e11) == ""  # half an hour
    limited = TrainingConfig(max_minutes=10)
    assert warned(limited, tokens=10**9, updates=100_000, operations=1e11) == ""


def test_the_speed_of_this_machine_is_measured_in_a_moment() -> None:
    began = time.process_time()
    assert 1e8 < outlook.matrix_speed(CPU, nullcontext()) < 1e15
    assert time.process_time() - began < 5


def test_warnings_come_before_the_first_update_and_once(
    plain_text: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outlook, "LARGE_PARAMETERS", 1000)
    monkeypatch.setattr(outlook, "MAX_PARAMETERS_PER_TOKEN", 1)
    train(tmp_path / "run", plain_text, "transformer-encoder", {"training.max_steps": 1})
    first = (tmp_path / "run/model.safetensors").read_bytes()
    said = capsys.readouterr().err
    assert said.index("parameters for") < said.index("step 1 ")
    train(tmp_path / "run", plain_text, "transformer-encoder")
    assert "parameters for" not in capsys.readouterr().err
    monkeypatch.undo()
    train(tmp_path / "silent", plain_text, "transformer-encoder", {"training.max_steps": 1})
    assert (tmp_path / "silent/model.safetensors").read_bytes() == first, "the same is learned"


# Thousands of layers ------------------------------------------------------------------------------------------------


def parameters(config: Any) -> int:
    with torch.device("meta"):
        return sum(one.numel() for one in build_language_model(config, 100).parameters())


@pytest.mark.parametrize(
    ("many", "exact"), [({"layers": 80}, True), ({"experts": 90}, True), ({"layers": 70, "experts": 66}, False)]
)
def test_parameters_are_told_without_building_the_model(many: dict[str, int], exact: bool) -> None:
    config = TransformerLanguageConfig(kind="transformer-decoder", dim=16, heads=2, feed_forward=16)
    config = dataclasses.replace(config, layers=4, experts=2 if "experts" in many else None)
    config = dataclasses.replace(config, **many)
    assert outlook.repetitions(config) == many
    assert outlook.estimated_parameters(config, many, parameters) == pytest.approx(
        parameters(config), rel=1e-9 if exact else 0.05
    )


@pytest.mark.parametrize("setting", ["model.layers", "model.experts"])
def test_a_model_that_memory_cannot_hold_is_refused_before_it_is_built(
    setting: str, plain_text: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []
    build: Callable[..., Any] = learning.LearningRun.parameters_with
    monkeypatch.setattr(
        learning.LearningRun, "parameters_with", lambda self, model: (built.append(model), build(self, model))[1]
    )
    monkeypatch.setattr(outlook, "memory_of", lambda device: 100_000_000)
    with pytest.raises(UserError, match=rf"{setting}=10,000 makes .* parameters, .* GB of memory; 0.1 GB are free"):
        train(tmp_path / "run", plain_text, "transformer-decoder", {setting: 10_000})
    assert len(built) == 2


def test_a_model_that_takes_long_to_build_is_announced() -> None:
    said: list[str] = []
    config = TransformerLanguageConfig(kind="transformer-decoder", dim=16, heads=2, layers=65)
    outlook.check_repetitions(config, parameters, TrainingConfig(), CPU, said.append)
    assert len(said) == 1 and said[0].startswith("note: model.layers=65 makes about")


def test_free_memory_is_known_here() -> None:
    if Path("/proc/meminfo").exists():
        there = outlook.memory_of(CPU)
        assert there is not None and there > 1 << 20
