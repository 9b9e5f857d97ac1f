"""What runs of neural language models learn, and which weights stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from anaphora.models.registry import kinds
from language_runs import stored, train


@pytest.mark.parametrize("kind", kinds("language"))
def test_it_learns(kind: str, plain_text: dict[str, Path], tmp_path: Path) -> None:
    """Ten words, each followed by one of two: of those that see the last word, perplexity ends far below ten."""
    learned = {"training.max_steps": 120, "training.checkpoint_every": 40, "training.learning_rate": 1e-2}
    learned |= {"training.batch_tokens": 256, "training.warmup_steps": 10, "model.dropout": 0.0}
    learned |= {"model.output_dropout": 0.0, "model.input_dropout": 0.0}
    outcome = train(tmp_path / "run", plain_text, kind, learned)
    floor = 11.0 if kind == "dan" else 6.5  # a mean knows which words came, not which one was the last
    assert outcome.validation["perplexity"] < floor
    history = json.loads((tmp_path / "run/metrics.json").read_text())["history"]
    assert history[-1]["loss"] < history[0]["loss"]


def test_averaged_descent_begins_when_validation_says_so(plain_text: dict[str, Path], tmp_path: Path) -> None:
    from anaphora.models.weights import read_weights

    run = tmp_path / "run"
    settings = {"training.optimizer": "asgd", "training.trigger": 2, "training.learning_rate": 1e-9}
    settings |= {"training.max_steps": 8, "training.schedule": "constant", "training.warmup_steps": 0}
    train(run, plain_text, "gru", settings)  # such a rate never makes it better for long
    progress = json.loads((run / "checkpoints/step-00000008/progress.json").read_text())
    assert progress["averaged_since"] is not None
    fast = tmp_path / "fast"
    settings |= {"training.learning_rate": 1.0, "training.trigger": 0}
    train(fast, plain_text, "gru", settings)
    state = stored(fast / "checkpoints/step-00000008/training.safetensors", "live.")
    mean = read_weights(fast / "checkpoints/step-00000008/model.safetensors")
    means: dict[str, torch.Tensor] = {}
    for step in range(4, 9):  # the mean of all weights since the beginning, from those that were kept
        checkpoint = fast / f"checkpoints/step-{step:08d}"
        live = stored(checkpoint / "training.safetensors", "live.")
        here = read_weights(checkpoint / "model.safetensors")
        if means:
            for name, tensor in here.items():
                expected = means[name] + (live[f"live.{name}"] - means[name]) / step
                assert torch.allclose(tensor, expected, atol=1e-6), name
        means = here
    assert any(not torch.equal(state[f"live.{name}"], tensor) for name, tensor in mean.items())
