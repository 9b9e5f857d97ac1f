"""A run with a bidirectional start: it reads both ways, resumes exactly, and refuses what makes no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import anaphora
from anaphora.errors import UserError
from anaphora.tasks.recipes import complete
from anaphora.training.loop import planned_steps
from anaphora.training.training_settings import TrainingConfig
from micro_runs import MICRO, write_pairs

BOTH: dict[str, Any] = {**MICRO, "training.bidirectional_epochs": 1, "tokenizer.dropout": 0.1}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return dict(write_pairs(tmp_path_factory.mktemp("corpus"), 40))


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    return load_file(run / f"checkpoints/step-{step:08d}/model.safetensors")


def test_goes_on_bit_for_bit_across_the_change_of_direction(tmp_path: Path, corpus: dict[str, Any]) -> None:
    settings = {**BOTH, "training.batch_tokens": 200, "training.checkpoint_every": 1, "training.keep": 50}

    def train(name: str, epochs: float, **changes: Any) -> dict[str, Any]:
        anaphora.train(
            tmp_path / name, **corpus, settings={**settings, **changes, "training.epochs": epochs}, device="cpu"
        )
        return dict(anaphora.load(tmp_path / name).info())

    settings.pop("training.max_steps")
    train("whole", 1.5)
    train("parts", 0.7)
    train("parts", 1.5)
    last = max(int(path.name.removeprefix("step-")) for path in (tmp_path / "whole/checkpoints").glob("step-*"))
    whole, parts = (weights(tmp_path / name, last) for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    train("one-way", 1.5, **{"training.bidirectional_epochs": 0})
    steps = [int(path.name.removeprefix("step-")) for path in (tmp_path / "one-way/checkpoints").glob("step-*")]
    assert max(steps) < last  # the first epoch read every pair once, not twice
    one_way = weights(tmp_path / "one-way", max(steps))
    assert not all(torch.equal(whole[name], one_way[name]) for name in whole)


def test_an_epoch_that_goes_both_ways_counts_twice_in_the_plan() -> None:
    def plan(**settings: Any) -> int | None:
        return planned_steps(TrainingConfig(**settings), batches_an_epoch=10, tokens_an_epoch=100)

    assert plan(epochs=5) == 50
    assert plan(epochs=5, bidirectional_epochs=2) == 70
    assert plan(epochs=1, bidirectional_epochs=2) == 20
    assert plan(max_tokens=250, bidirectional_epochs=2) == 25


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.shared": False}, "tokenizer.shared=false each language has tokens of its own"),
        ({"training.guided_alignment": 0.1}, "training.guided_alignment=0.1 is about one direction"),
        ({"training.bidirectional_epochs": -1}, "bidirectional_epochs must be at least 0"),
    ],
)
def test_mistakes(tmp_path: Path, corpus: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        anaphora.train(tmp_path / "run", **corpus, settings={**BOTH, **changes}, device="cpu")


def test_means_nothing_for_a_language_model(tmp_path: Path, corpus: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"training\.bidirectional_epochs means nothing for a model of kind lstm"):
        anaphora.train(
            tmp_path / "run", text=corpus["source"], recipe="lstm", settings={"training.bidirectional_epochs": 1}
        )


def test_the_preset_is_sized_to_the_corpus() -> None:
    small, larger = (complete("strong", {}, pairs=pairs) for pairs in (5_000, 29_000))
    assert small.translator.dim < larger.translator.dim == complete("transformer", {}, pairs=29_000).translator.dim
    for config in (small, larger):
        training = config.training
        assert (training.bidirectional_epochs, training.consistency, training.max_steps) == (12, 5.0, None)
    reinforced = complete(
        "strong",
        {"training": {"objective": "reinforce"}},
        pairs=29_000,
        start_from="run",
        start=larger.document(),
    )
    assert (reinforced.training.bidirectional_epochs, reinforced.training.consistency) == (0, 0.0)
