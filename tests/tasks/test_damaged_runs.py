"""Damage that a run survives: logs, cards and checkpoints that it can do without. What it cannot is named, with a cure
that works."""

from __future__ import annotations

import json
import re
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import anaphora
from anaphora.errors import UserError
from micro_runs import MICRO

LONGER = {**MICRO, "training.max_steps": 3}
STEPS = 3


def train(run: Path, corpus: dict[str, Path], settings: dict[str, Any] = LONGER) -> tuple[Any, str]:
    said = StringIO()
    outcome = anaphora.train(run, **corpus, settings=settings, device="cpu", console=Console(file=said, width=500))
    return outcome, said.getvalue()


@pytest.fixture
def run(micro: Path, tmp_path: Path) -> Path:
    """A run of two updates that may go on to three."""
    return Path(shutil.copytree(micro, tmp_path / "run"))


def flip(file: Path, place: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0x80
    file.unlink()  # the published model is another name of it
    file.write_bytes(content)


def weights(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:08d}" / "model.safetensors"


# Logs and cards -----------------------------------------------------------------------------------------------------


def test_a_bad_byte_in_the_log_is_left_out_with_one_word(run: Path, corpus: dict[str, Path]) -> None:
    log = run / "logs" / "log.jsonl"
    lines = log.read_bytes().splitlines()
    log.write_bytes(
        b"\n".join([lines[0][:20] + b"\xff" + lines[0][20:], b"[" * 100_000, b"\x00" * 40, *lines[1:]]) + b"\n"
    )
    outcome, said = train(run, corpus)
    assert outcome.steps == STEPS
    assert len(re.findall(r"log\.jsonl has 3 damaged lines, left out", said)) == 1
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["step"] for one in told if one["kind"] == "update"] == [2, 3]


def test_the_torn_last_line_of_a_killed_run_is_no_news(run: Path, corpus: dict[str, Path]) -> None:
    log = run / "logs" / "log.jsonl"
    log.write_bytes(log.read_bytes() + '{"kind": "update", "st\xe9'.encode()[:-1])
    assert "left out" not in train(run, corpus)[1]


@pytest.mark.parametrize("name", ["metrics.json", "card.md", "alignment.json", ".owner.json"])
@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b'{"cost": 3, "step": "x", "validation": [], "weights": {}}', b"[" * 100_000]
)
def test_files_that_only_inform_stop_no_run(run: Path, corpus: dict[str, Path], name: str, content: bytes) -> None:
    (run / name).write_bytes(content)
    assert train(run, corpus)[0].steps == STEPS
    assert (run / name).exists() is (name != ".owner.json")
    assert b"\xff" not in (run / "metrics.json").read_bytes()


# Checkpoints --------------------------------------------------------------------------------------------------------


def test_a_damaged_old_checkpoint_is_left_out_of_the_average_and_named(run: Path, corpus: dict[str, Path]) -> None:
    best = json.loads((run / "checkpoints/step-00000002/progress.json").read_text())["best_step"]
    old = 3 - best  # the one of both that is not the best
    if old == 2:
        pytest.skip("the newest is not an old one")
    flip(weights(run, old))
    outcome, said = train(run, corpus)
    assert outcome.steps == STEPS
    assert f"step-{old:08d}/model.safetensors: is damaged" in said
    assert f"delete the folder checkpoints/step-{old:08d} and repeat the command: no other checkpoint needs it" in said
    assert "average of the last 2 checkpoints" in said
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["finished_step"] == STEPS
    if metrics["weights"].startswith("the mean"):
        assert f"left out, damaged: step {old}" in metrics["weights"]
    again, said = train(run, corpus)
    assert again.steps == STEPS and "left out" not in said, "what is finished is finished"


@pytest.mark.parametrize("deleted", [False, True])
def test_a_best_checkpoint_that_is_damaged_or_deleted_leaves_its_place_to_the_next(
    run: Path, corpus: dict[str, Path], deleted: bool
) -> None:
    """The published model is another name of it, and damaged with it."""
    progress = run / "checkpoints/step-00000002/progress.json"
    document = json.loads(progress.read_text())
    document |= {"best_step": 1, "best": 0.0}  # whatever comes, the first stays the best
    progress.write_text(json.dumps(document))
    if deleted:
        shutil.rmtree(weights(run, 1).parent)
    else:
        flip(weights(run, 1))
    outcome, said = train(run, corpus)
    assert outcome.steps == STEPS
    assert re.search(r"those of step [23], the best that is left: the checkpoint of step 1 is damaged or missing", said)
    assert anaphora.load(run, "cpu").translate("the dog").text is not None


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "progress.json"])
def test_the_cure_of_a_damaged_newest_checkpoint_works(run: Path, corpus: dict[str, Path], name: str) -> None:
    newest = run / "checkpoints" / "step-00000002"
    flip(newest / name, 0 if name == "progress.json" else -1)
    cure = "delete the folder checkpoints/step-00000002 and repeat the command: the run goes on from step-00000001"
    for _ in range(2):
        with pytest.raises(UserError, match=cure) as caught:
            train(run, corpus)
        assert caught.value.file == str(newest / name)
    shutil.rmtree(newest)
    assert train(run, corpus)[0].steps == STEPS


def test_the_only_checkpoint_damaged_the_run_begins_anew(run: Path, corpus: dict[str, Path]) -> None:
    shutil.rmtree(run / "checkpoints" / "step-00000001")
    flip(weights(run, 2))
    with pytest.raises(UserError, match=r"delete the folder checkpoints/step-00000002 .*: the run begins anew"):
        train(run, corpus)


def test_a_flipped_step_in_progress_is_found(run: Path, corpus: dict[str, Path]) -> None:
    progress = run / "checkpoints/step-00000002/progress.json"
    progress.write_text(progress.read_text().replace('"step": 2', '"step": 3', 1))
    with pytest.raises(UserError, match=r"progress.json: cannot be read \(step 3 in step-00000002\)"):
        train(run, corpus)


# Averages -----------------------------------------------------------------------------------------------------------


def published(run: Path) -> dict[str, bytes]:
    names = ("model.safetensors", "card.md", "metrics.json", "alignment.json")
    return {name: (run / name).read_bytes() for name in names}


def worsen(run: Path, monkeypatch: pytest.MonkeyPatch, by: float) -> None:
    """Make the mean that much worse than it is."""
    from anaphora.tasks import learning

    mean = learning.average_weights
    monkeypatch.setattr(
        learning, "average_weights", lambda *of: {name: tensor + by for name, tensor in mean(*of).items()}
    )


def test_average_measures_as_train_does(run: Path) -> None:
    found = anaphora.average(run, 2, device="cpu", force=True)
    reported = json.loads((run / "metrics.json").read_text())
    assert found["before"]["beam"] == 5
    assert found["after"] == reported["validation"]
    anaphora.average(run, undo=True)
    assert found["before"] == json.loads((run / "metrics.json").read_text())["validation"]


def test_a_worse_mean_is_not_kept_unless_forced_and_can_be_undone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = published(run)
    worsen(run, monkeypatch, 1.0)
    found = anaphora.average(run, 2, device="cpu")
    assert found["kept"] is False and found["metric"] == "loss"
    assert found["after"]["loss"] > found["before"]["loss"]
    assert published(run) == before
    with pytest.raises(UserError, match="has no average to undo"):
        anaphora.average(run, undo=True)
    for last in (2, 1):
        forced = anaphora.average(run, last, device="cpu", force=True)
        assert forced["kept"] is True
    assert published(run)["model.safetensors"] != before["model.safetensors"]
    undone = anaphora.average(run, undo=True)
    assert published(run) == before
    assert undone == {"folder": str(run), "undone": True, "weights": json.loads(before["metrics.json"])["weights"]}
    assert not list(run.glob(".unfinished-*")) and not (run / "before-average").exists()


def test_there_is_nothing_to_undo_once_training_has_published_another_model(run: Path, corpus: dict[str, Path]) -> None:
    anaphora.average(run, 1, device="cpu", force=True)
    train(run, corpus)
    with pytest.raises(UserError, match="has no average to undo"):
        anaphora.average(run, undo=True)


def test_undo_stands_alone(run: Path) -> None:
    with pytest.raises(UserError, match="leave out last and force"):
        anaphora.average(run, 2, undo=True)


def test_average_refuses_a_damaged_checkpoint_with_its_cure(run: Path) -> None:
    before = published(run)
    flip(weights(run, 1))
    with pytest.raises(UserError, match="delete the folder checkpoints/step-00000001 and repeat the command"):
        anaphora.average(run, 2, device="cpu")
    assert published(run) == before


def test_average_sweeps_what_a_killed_one_left(run: Path) -> None:
    (run / ".unfinished-4194305-metrics.json").write_text("{")
    anaphora.average(run, 2, device="cpu", force=True)
    assert not list(run.glob(".unfinished-*"))
