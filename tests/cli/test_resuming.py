"""The same command again: nothing to do, or further; any other change is named and refused, unless forced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from anaphora.folder import read_config
from anaphora.models.weights import read_weights
from micro_runs import MICRO, arguments


@pytest.fixture
def run(micro: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(micro, tmp_path / "run"))


@pytest.fixture
def train(say: Any, corpus: dict[str, Path], run: Path) -> Any:
    files = ["--source", corpus["source"], "--target", corpus["target"], "--device", "cpu"]

    def again(*words: str, **changes: Any) -> Any:
        settings = {**MICRO, **{key.replace("__", "."): value for key, value in changes.items()}}
        return say("train", run, *files, *arguments(settings), *words)

    return again


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def test_the_same_command_on_a_finished_run_changes_nothing(train: Any, run: Path) -> None:
    before, stamp = weights(run), (run / "metrics.json").read_bytes()
    answer = train("--json")
    assert answer.code == 0
    assert json.loads(answer.last)["steps"] == 2
    assert "continuing from step-00000002" in answer.err
    assert (weights(run), (run / "metrics.json").read_bytes()) == (before, stamp)


def test_raising_the_steps_continues_and_ends_as_one_long_run(
    train: Any, run: Path, say: Any, corpus: dict[str, Path], tmp_path: Path
) -> None:
    assert json.loads(train("--json", training__max_steps=4).last)["steps"] == 4
    files = ["--source", corpus["source"], "--target", corpus["target"], "--device", "cpu"]
    say("train", tmp_path / "whole", *files, *arguments({**MICRO, "training.max_steps": 4}))
    parts, whole = (
        read_weights(folder / "checkpoints" / "step-00000004" / "model.safetensors")
        for folder in (run, tmp_path / "whole")
    )
    assert all((parts[name] == whole[name]).all() for name in whole)
    assert read_config(run)["training"]["max_steps"] == 4


def test_lowering_the_steps_is_no_error(train: Any, run: Path) -> None:
    answer = train("--json", training__max_steps=1)
    assert answer.code == 0
    assert json.loads(answer.last)["steps"] == 2


def test_reporting_may_change(train: Any) -> None:
    assert train(training__log_every=7, training__samples=0).code == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"training__seed": 2}, "training.seed is 1 there and 2 now"),
        ({"training__learning_rate": 0.5}, "training.learning_rate is 0.001 there and 0.5 now"),
        ({"model__dropout": 0.25}, "model.dropout is"),
        ({"model__dim": 32}, "model.dim is 16 there and 32 now"),
        ({"tokenizer__kind": "word"}, "tokenizer.kind is 'bpe' there and 'word' now"),
        ({"data__hold_out": 3}, "data.hold_out is not set there and 3 now"),
        ({"decoding__beam": 7}, "decoding.beam is 5 there and 7 now"),
    ],
)
def test_other_changes_are_named_and_refused(train: Any, run: Path, change: dict[str, Any], named: str) -> None:
    before = read_config(run)
    answer = train(**change, training__max_steps=3)
    assert answer.code == 2
    assert named in answer.err
    assert "choose another folder" in answer.err
    assert read_config(run) == before
    assert not (run / "checkpoints" / "step-00000003").exists()


def test_force_accepts_and_says_what_changed(train: Any, run: Path) -> None:
    answer = train("--force", training__learning_rate=0.5, training__max_steps=3)
    assert answer.code == 0
    assert "changed training.learning_rate: 0.001 → 0.5" in answer.err
    assert read_config(run)["training"]["learning_rate"] == 0.5
    # from now on that is the run's own setting
    assert train(training__max_steps=3).code == 2
    assert train(training__learning_rate=0.5, training__max_steps=3).code == 0


@pytest.mark.parametrize("change", [{"model__dim": 32}, {"model__norm": "post"}, {"tokenizer__kind": "word"}])
def test_not_even_force_changes_what_the_weights_mean(train: Any, run: Path, say: Any, change: dict[str, Any]) -> None:
    before = read_config(run)
    answer = train("--force", **change, training__max_steps=3)
    assert answer.code == 2
    assert next(iter(change)).replace("__", ".") in answer.err
    assert "Traceback" not in answer.err
    assert read_config(run) == before
    assert say("info", run).code == 0


def test_other_text_is_noticed(train: Any, run: Path, say: Any, corpus: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.de"
    other.write_text(corpus["target"].read_text(encoding="utf-8").replace("Hund", "Hunt"), encoding="utf-8")
    words = ["--source", corpus["source"], "--target", other, "--device", "cpu", *arguments(MICRO)]
    answer = say("train", run, *words)
    assert answer.code == 2
    assert "target text" in answer.err
    same = tmp_path / "same.de"
    shutil.copy(corpus["target"], same)
    words[3] = same
    assert say("train", run, *words).code == 0  # another name is no other text


def test_another_recipe_is_refused(train: Any) -> None:
    answer = train("--recipe", "tiny")
    assert answer.code == 2
    assert "run.recipe is 'transformer' there and 'tiny' now" in answer.err
