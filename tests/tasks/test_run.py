"""A run and its folder: what may change between two commands, what is kept, what a mistake leaves behind."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.errors import UserError
from deadly import Deadly, in_a_child
from micro_runs import MICRO, write_pairs


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_pairs(tmp_path_factory.mktemp("corpus"), 60)


def train(run: Path, files: dict[str, Path], *, force: bool = False, **changes: Any) -> Any:
    settings = {**MICRO, **{name.replace("__", "."): value for name, value in changes.items()}}
    return anaphora.train(run, **files, settings=settings, device="cpu", force=force)


def test_before_the_first_checkpoint_anything_may_change(files: dict[str, Path], tmp_path: Path) -> None:
    """Nothing was learned yet, so the cure of an error (a smaller batch, say) works in the same folder."""
    with pytest.raises(UserError, match=r"(?i)nan"):
        train(tmp_path / "run", files, training__learning_rate=1e30, training__warmup_steps=0, training__max_steps=9)
    assert not list((tmp_path / "run").glob("checkpoints/step-*"))
    outcome = train(tmp_path / "run", files, training__batch_tokens=100, model__dim=24, tokenizer__vocabulary=300)
    assert outcome.steps == 2
    assert anaphora.load(tmp_path / "run", "cpu").config.model.dim == 24


def test_no_tokeniser_of_an_earlier_attempt_is_left(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"(?i)nan"):
        train(tmp_path / "run", files, training__learning_rate=1e30, training__warmup_steps=0, training__max_steps=9)
    train(tmp_path / "run", files, tokenizer__shared=False)
    names = {path.name for path in (tmp_path / "run").glob("tokenizer*")}
    assert names == {"tokenizer.source.json", "tokenizer.target.json"}
    model = anaphora.load(tmp_path / "run", "cpu")
    assert model.source_tokenizer.fingerprint() != model.target_tokenizer.fingerprint()


def test_a_config_without_a_newer_setting_continues(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, files)
    lines = (run / "config.yaml").read_text().splitlines(keepends=True)
    (run / "config.yaml").write_text("".join(line for line in lines if "final_rate" not in line))
    assert train(run, files, training__max_steps=4).steps == 4


def test_an_average_made_by_hand_stays(files: dict[str, Path], tmp_path: Path) -> None:
    run, settings = tmp_path / "run", {"training__max_steps": 4, "training__checkpoint_every": 1}
    train(run, files, **settings)
    anaphora.average(run, last=3, device="cpu", force=True)
    averaged = (run / "model.safetensors").read_bytes()
    assert "mean of the checkpoints of steps 2, 3, 4" in train(run, files, **settings).weights
    assert (run / "model.safetensors").read_bytes() == averaged
    assert "mean of the checkpoints" in (run / "card.md").read_text()


def test_the_card_names_the_weights_that_are_there(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    outcome = train(run, files, training__max_steps=3, training__checkpoint_every=1, training__average=1)
    step = int(outcome.weights.removeprefix("those of step "))
    chosen = run / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
    assert (run / "model.safetensors").read_bytes() == chosen.read_bytes()
    assert json.loads((run / "metrics.json").read_text())["weights"] == outcome.weights


@pytest.mark.parametrize(
    "mistake",
    [{"training__max_stepz": 3}, {"model__dim": 15}, {"decoding__beam": 0}, {"source": "nowhere.en"}],
)
def test_a_mistake_leaves_no_folder_behind(files: dict[str, Path], tmp_path: Path, mistake: dict[str, Any]) -> None:
    named = {**files, **{key: value for key, value in mistake.items() if key in files}}
    with pytest.raises(UserError):
        train(tmp_path / "run", named, **{key: value for key, value in mistake.items() if key not in files})
    assert not (tmp_path / "run").exists()


def test_patience_is_a_limit_and_may_be_raised(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = {"training__max_steps": 8, "training__checkpoint_every": 1, "training__metric": "bleu"}
    first = train(run, files, training__patience=2, **settings)  # an untrained model's BLEU does not rise
    assert first.steps < 8 and "no better bleu" in first.reason
    assert train(run, files, training__patience=0, **settings).steps == 8


def test_a_limit_of_ones_own_replaces_the_planned_steps(files: dict[str, Path], tmp_path: Path) -> None:
    settings = {name: value for name, value in MICRO.items() if name != "training.max_steps"}
    run = tmp_path / "run"
    anaphora.train(run, **files, settings={**settings, "training.max_tokens": 500}, device="cpu")
    assert anaphora.load(run, "cpu").config.training.max_steps is None


def test_average_takes_what_there_is_unless_told(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, files, training__max_steps=3)
    assert anaphora.average(run, device="cpu")["averaged"] == [1, 2, 3]
    with pytest.raises(UserError, match="has only 3 checkpoints to average, not 4; use last=3"):
        anaphora.average(run, last=4, device="cpu")


def test_a_checkpoint_of_another_version_continues(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, files)
    path = sorted(run.glob("checkpoints/step-*"))[-1] / "progress.json"
    stored = json.loads(path.read_text())
    del stored["metric"]
    path.write_text(json.dumps({**stored, "once_known": 3}))
    assert train(run, files, training__max_steps=4).steps == 4


def test_the_card_is_a_table_on_every_line(micro: Path) -> None:
    """sacreBLEU parts its signature by what parts columns in Markdown."""
    card = (micro / "card.md").read_text()
    (row,) = [line for line in card.splitlines() if line.startswith("| BLEU")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 4 and "nrefs:1\\|case:mixed" in row


def test_a_change_that_is_refused_leaves_the_prepared_text_as_it_was(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, files)
    (tmp_path / "other").mkdir()
    other = write_pairs(tmp_path / "other", 50)
    with pytest.raises(UserError, match=r"model\.dim is .* there and 24 now"):
        train(run, other, force=True, model__dim=24)
    assert train(run, files).steps == 2


def test_killed_while_its_text_is_changed_midway_the_model_stays_usable(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train(run, files)
    before = (run / "model.safetensors").read_bytes()
    (tmp_path / "other").mkdir()
    other = write_pairs(tmp_path / "other", 50)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    for moment in (1, 4, 8, 12):

        def attempt(at: int = moment) -> None:
            Deadly(monkeypatch, at)
            train(run, other, force=True, training__log_every=3)

        assert in_a_child(attempt) == -9
        assert anaphora.load(run, "cpu").translate("the cat").text is not None
        assert (run / "model.safetensors").read_bytes() == before
    assert train(run, other, force=True, training__log_every=3).steps == 2
