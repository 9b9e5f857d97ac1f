"""Language models that learn on a GPU: what is carried along a stream, by kernels and by recorded graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.models.registry import kinds
from language_runs import CARRYING, of_kind, stored

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def learn(run: Path, files: dict[str, Path], kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    import anaphora

    own = {"training.max_steps": 40, "training.checkpoint_every": 20, "training.schedule": "constant", **settings}
    outcome = anaphora.train(run, **files, recipe=kind, settings=of_kind(kind, own), device="cuda")
    return outcome.validation


@pytest.mark.parametrize("kind", kinds("language"))
def test_replayed_graphs_learn_what_kernels_learn(kind: str, plain_text: dict[str, Path], tmp_path: Path) -> None:
    """Over several epochs: states are carried from replay to replay, and are zero again when the text begins anew."""
    settings = {"training.precision": "fp32", "model.dropout": 0.0, "training.masked": 0.3}
    settings |= {"training.max_steps": 60}
    if kind != "transformer-encoder":
        del settings["training.masked"]
    losses, carried = [], []
    for graphs in ("on", "off"):
        run = tmp_path / graphs
        losses.append(learn(run, plain_text, kind, {**settings, "training.cuda_graphs": graphs})["loss"])
        carried.append(stored(run / "checkpoints/step-00000060/training.safetensors", "carried."))
    assert losses[0] == pytest.approx(losses[1], rel=5e-3)
    assert bool(carried[0]) == (kind in CARRYING)
    for name, tensor in carried[0].items():
        torch.testing.assert_close(tensor, carried[1][name], rtol=0.05, atol=0.02)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "transformer-decoder"])
def test_half_precision_learns_too(kind: str, plain_text: dict[str, Path], tmp_path: Path) -> None:
    settings = {"training.learning_rate": 1e-2, "training.max_steps": 120, "training.batch_tokens": 256}
    settings |= {"model.dropout": 0.0, "model.input_dropout": 0.0, "model.output_dropout": 0.0}
    for precision in ("fp32", "bf16"):
        found = learn(tmp_path / precision, plain_text, kind, {**settings, "training.precision": precision})
        assert found["perplexity"] < 6.5


def test_a_stop_in_the_middle_of_a_stream(plain_text: dict[str, Path], tmp_path: Path) -> None:
    settings = {"training.precision": "fp32", "training.checkpoint_every": 10, "model.dropout": 0.0}
    learn(tmp_path / "run", plain_text, "lstm", {**settings, "training.max_steps": 10})
    found = learn(tmp_path / "run", plain_text, "lstm", {**settings, "training.max_steps": 30})
    whole = learn(tmp_path / "whole", plain_text, "lstm", {**settings, "training.max_steps": 30})
    assert found["loss"] == pytest.approx(whole["loss"], rel=2e-3)
