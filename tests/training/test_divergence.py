"""A loss that is no number any more: the run stops, says what to change, and the last good checkpoint can be used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.errors import UserError
from anaphora.models.weights import read_weights
from anaphora.training.loop import Trainer
from forked import command
from micro_runs import MICRO, arguments


def finite(folder: Path) -> bool:
    files = [*folder.glob("checkpoints/*/model.safetensors"), *folder.glob("model.safetensors")]
    return all(bool(tensor.isfinite().all()) for file in files for tensor in read_weights(file).values())


def test_forced_divergence_stops_with_exit_2_and_keeps_the_good_checkpoint(
    micro: Path, corpus: dict[str, Path], tmp_path: Path
) -> None:
    run = shutil.copytree(micro, tmp_path / "run")
    settings = {**MICRO, "training.max_steps": 50, "training.learning_rate": 1e30}
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    done = command("train", run, *files, "--device", "cpu", "--force", *arguments(settings))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "became" in last
    assert "the checkpoint step-00000002 is good" in last
    for cure in ("lower training.learning_rate (now 1e+30)", "training.warmup_steps", "training.clip_norm=1"):
        assert cure in last
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-00000001", "step-00000002"]
    # usable: it speaks, and speaks as before
    before, after = (anaphora.load(folder, "cpu").translate("the dog sees a cat.") for folder in (micro, run))
    assert before.text == after.text
    # and loadable: with the old rate the run goes on
    settings = {**MICRO, "training.max_steps": 3}
    assert anaphora.train(run, **corpus, settings=settings, device="cpu", force=True).steps == 3


def test_divergence_before_the_first_checkpoint(tmp_path: Path, corpus: dict[str, Path]) -> None:
    settings = {**MICRO, "training.learning_rate": 1e30, "training.max_steps": 50}
    with pytest.raises(UserError, match="no checkpoint was written yet") as caught:
        anaphora.train(tmp_path / "run", **corpus, settings=settings, device="cpu")
    assert caught.value.exit_code == 2
    with pytest.raises(UserError, match="holds no weights yet"):
        anaphora.load(tmp_path / "run")


@pytest.mark.parametrize("where", ["loss", "gradient", "weights"])
@pytest.mark.parametrize("validated", [True, False])
def test_nothing_that_is_not_a_number_is_ever_saved(
    where: str, validated: bool, tmp_path: Path, corpus: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, update = Trainer.learn, Trainer.update

    def spoiled_learn(self: Trainer, batch: Any, tokens: int) -> torch.Tensor:
        loss = learn(self, batch, tokens)
        if self.progress.step == 3 and where == "gradient":
            next(self.model.parameters()).grad.fill_(torch.inf)  # type: ignore[union-attr]
        return loss * torch.nan if self.progress.step == 3 and where == "loss" else loss

    def spoiled_update(self: Trainer, batches: Any) -> Any:
        told = update(self, batches)
        if self.progress.step == 3 and where == "weights":
            with torch.no_grad():
                next(self.model.parameters()).fill_(torch.nan)
        return told

    monkeypatch.setattr(Trainer, "learn", spoiled_learn)
    monkeypatch.setattr(Trainer, "update", spoiled_update)
    settings = {**MICRO, "training.max_steps": 5, **({} if validated else {"data.hold_out": 0})}
    with pytest.raises(UserError, match="the checkpoint step-00000002 is good; start another run with a lower"):
        anaphora.train(tmp_path / "run", **corpus, settings=settings, device="cpu")
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())[-1] == "step-00000002"
    assert finite(tmp_path / "run")
    assert anaphora.load(tmp_path / "run", "cpu").translate("the dog.").n_best
