"""What must never happen to a folder: losing someone's files, a model, or a good checkpoint."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import anaphora
import forked
from anaphora.errors import UserError
from anaphora.folder import discard, publish
from anaphora.training.checkpoint import Checkpoints
from anaphora.training.loop import Trainer
from anaphora.training.reporting import RunReporter
from anaphora.training.translation_validation import Validator
from micro_runs import MICRO, arguments, write_pairs

STEPS_OFF_SCHEDULE = {**MICRO, "training.max_steps": 5, "training.checkpoint_every": 2}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return write_pairs(tmp_path / "corpus", 60)


def train(run: Path, files: dict[str, Path], settings: dict[str, Any] = MICRO, **more: Any) -> Any:
    return anaphora.train(run, **files, settings=settings, device="cpu", **more)


def test_a_project_folder_with_its_own_data_is_not_touched(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_pairs(project / "data", 30)
    (project / "config.yaml").write_text("my: precious\n")
    with pytest.raises(UserError, match="exists and is no run of Anaphora"):
        train(project, files)
    assert sorted(path.name for path in (project / "data").iterdir()) == ["train.de", "train.en"]
    assert (project / "config.yaml").read_text() == "my: precious\n"


def test_a_model_without_checkpoints_is_not_trained_over(files: dict[str, Path], tmp_path: Path) -> None:
    train(tmp_path / "run", files)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.yaml", "tokenizer.json", "model.safetensors"):
        shutil.copy(tmp_path / "run" / name, copy)
    before = (copy / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match=r"holds a trained model .* start_from="):
        train(copy, files)
    assert (copy / "model.safetensors").read_bytes() == before
    assert train(tmp_path / "on", files, start_from=copy).steps == 2


def test_repeating_a_run_that_ended_between_checkpoints_changes_nothing(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, files, STEPS_OFF_SCHEDULE)
    newest = sorted(run.glob("checkpoints/step-*"))[-1]
    before = (newest / "progress.json").read_bytes(), (newest / "model.safetensors").stat().st_ino
    train(run, files, STEPS_OFF_SCHEDULE)
    assert ((newest / "progress.json").read_bytes(), (newest / "model.safetensors").stat().st_ino) == before
    assert [entry["step"] for entry in json.loads(before[0])["history"]] == [2, 4, 5]


def test_a_clean_end_leaves_nothing_unfinished_and_files_that_others_can_read(
    files: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(run, files)
    assert not list(run.rglob(".unfinished-*"))
    assert {oct((run / name).stat().st_mode & 0o044) for name in ("model.safetensors", "config.yaml")} == {oct(0o044)}


def test_a_folder_is_replaced_without_ever_being_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while deleting: what stands under the name is whole or absent."""
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "file").write_text("whole")
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # the deletion that never came to its end
    discard(tmp_path / "step-1")
    assert not (tmp_path / "step-1").exists()


def test_publishing_twice_is_publishing_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("weights")
    for _ in range(2):
        publish(tmp_path / "a", tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_best_checkpoint_that_was_never_published_is_published_on_resuming(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        save = Checkpoints.save

        def killed_after(self: Checkpoints, *state: Any) -> Path:
            save(self, *state)
            raise KeyboardInterrupt

        patch.setattr(Checkpoints, "save", killed_after)
        with pytest.raises(KeyboardInterrupt):
            train(run, files)
    assert not (run / "model.safetensors").exists()
    assert anaphora.load(run, "cpu").translate("the cat").text is not None  # the checkpoint serves meanwhile
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(run, files)
    assert (run / "model.safetensors").exists()


def test_another_metric_starts_its_own_best(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, files, {**MICRO, "training.max_steps": 3})
    train(run, files, {**MICRO, "training.max_steps": 5, "training.metric": "chrf"}, force=True)
    progress = json.loads((sorted(run.glob("checkpoints/step-*"))[-1] / "progress.json").read_text())
    assert progress["metric"] == "chrf"
    assert progress["best"] in [entry.get("chrf") for entry in progress["history"]]


def test_sentences_longer_than_the_model_are_left_out_and_counted(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, 40, longest=9)
    for side in files.values():
        side.write_text(side.read_text() + "word " * 90 + "\n")
    run = tmp_path / "run"
    train(run, files, {**MICRO, "data.hold_out": 2, "model.max_length": 40, "training.epochs": 2})
    manifest = json.loads((run / "data" / "manifest.json").read_text())
    assert manifest["train"]["left_out"] == {"too long": 1}


def test_a_recipe_cannot_change_the_shape_of_what_it_starts_from(files: dict[str, Path], tmp_path: Path) -> None:
    train(tmp_path / "run", files)
    with pytest.raises(UserError, match=r"has model.dim=16, which cannot become 128"):
        train(tmp_path / "on", files, {"training.max_steps": 1}, start_from=tmp_path / "run", recipe="tiny")
    (tmp_path / "gentle.yaml").write_text("model: {dropout: 0.05}\ntraining: {epochs: 1}\n")
    recipe = str(tmp_path / "gentle.yaml")
    train(tmp_path / "on", files, {"training.samples": 0}, start_from=tmp_path / "run", recipe=recipe)
    config = anaphora.load(tmp_path / "on", "cpu").config
    assert (config.model.dropout, config.model.dim) == (0.05, 16)
    assert config.training.max_steps is None  # the recipe's own limit holds


def test_a_falling_schedule_follows_the_clock_of_a_time_limit(files: dict[str, Path], tmp_path: Path) -> None:
    settings = {**MICRO, "training.schedule": "cosine", "training.max_minutes": 0.05, "training.log_every": 1}
    del settings["training.max_steps"]
    settings |= {"training.checkpoint_every": 100_000}
    train(tmp_path / "run", files, settings)
    log = [json.loads(line) for line in (tmp_path / "run" / "logs" / "log.jsonl").open()]
    rates = [entry["learning_rate"] for entry in log if entry["kind"] == "update"]
    assert max(rates) > 9e-4 and rates[-1] < 1e-4 < rates[len(rates) // 2], "it falls slowly, not at once"
    del settings["training.max_minutes"]
    with pytest.raises(UserError, match="needs to know how long the run is"):
        train(tmp_path / "endless", files, {**settings, "training.max_steps": None, "training.patience": 3})


@pytest.mark.parametrize("stage", ["reading", "encoding"])
def test_an_interrupted_preparation_says_how_to_go_on(
    files: dict[str, Path], tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: RunReporter, name: str, done: int, total: int) -> None:
        if name == stage:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(RunReporter, "stage", interrupted)
    words = ["train", tmp_path / "run", "--source", files["source"], "--target", files["target"], *arguments(MICRO)]
    done = forked.command(*words, "--json")
    assert done.returncode == 130
    assert "repeat the command to continue" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["exit_code"] == 130


def test_sigterm_during_the_last_validation_loses_nothing(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, times = Validator._measure, itertools.count(1)

    def interrupted(self: Validator, *rest: Any) -> Any:
        if next(times) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return measure(self, *rest)

    monkeypatch.setattr(Validator, "_measure", interrupted)
    run = tmp_path / "run"
    words = ["train", run, "--source", files["source"], "--target", files["target"], *arguments(STEPS_OFF_SCHEDULE)]
    done = forked.command(*words)
    assert done.returncode == 130, done.stderr
    assert [path.name for path in sorted(run.glob("checkpoints/step-*"))][-1] == "step-00000005"


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="needs pipes as Unix has them")
def test_progress_that_nobody_reads_does_not_stop_training(files: dict[str, Path], tmp_path: Path) -> None:
    words = ["train", tmp_path / "run", "--source", files["source"], "--target", files["target"], *arguments(MICRO)]
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = forked.Forked(words, **streams, env={**os.environ, "NO_COLOR": "1"})
    assert process.stdout is not None and process.stdout.readline()
    process.stdout.close()  # as `| head -1` does
    assert process.wait(timeout=120) == 0
    assert (tmp_path / "run" / "model.safetensors").exists()
