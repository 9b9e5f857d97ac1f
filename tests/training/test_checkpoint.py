"""Checkpoints: what was saved comes back exactly, what the rule keeps stays, what does not fit is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from anaphora.errors import UserError
from anaphora.folder import UNFINISHED
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.models.weights import load_weights, model_weights, read_weights, write_weights
from anaphora.training.averaging import MovingAverage
from anaphora.training.checkpoint import Checkpoints, Progress
from anaphora.training.optimizer import build_optimizer
from anaphora.training.training_settings import TrainingConfig


def model(seed: int, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    shape = {"dim": 16, "layers": 1, "heads": 2, "feed_forward": 24, "max_length": 16, "dropout": 0.2}
    return Transformer(TransformerConfig(**{**shape, **changes}), 30, 30)


def learn(net: Transformer, torch_optimizer: torch.optim.Optimizer, ema: MovingAverage | None, step: int) -> None:
    """One update on tokens drawn from torch's generator, with dropout: it depends on the whole state."""
    net.train()
    source, target = torch.randint(3, 30, (2, 4, 6))
    net(source, target).square().mean().backward()
    torch_optimizer.step()
    torch_optimizer.zero_grad(set_to_none=True)
    if ema is not None:
        ema.update(step)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("with_ema", [False, True])
@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_everything_comes_back_exactly(tmp_path: Path, tie: str, with_ema: bool, optimizer: str) -> None:
    """Save, go on; restore into another model, go on: the same weights, moments, average and random numbers."""
    config = TrainingConfig(optimizer=optimizer)  # type: ignore[arg-type]
    checkpoints = Checkpoints(tmp_path, keep=3, every=1)
    first = model(1, tie=tie)
    torch_optimizer, ema = build_optimizer(first, config), MovingAverage(first, 0.9) if with_ema else None
    for step in range(1, 4):
        learn(first, torch_optimizer, ema, step)
    progress = Progress(step=3, epoch=1, index=2, tokens=72, best=1.25, best_step=2, stale=1, history=[{"loss": 1.25}])
    path = checkpoints.save(first, torch_optimizer, ema, progress)
    for step in range(4, 6):
        learn(first, torch_optimizer, ema, step)

    second = model(99, tie=tie)
    again, mean = build_optimizer(second, config), MovingAverage(second, 0.9) if with_ema else None
    learn(second, again, mean, 1)  # whatever state it has must be forgotten
    assert checkpoints.restore(path, second, again, mean) == (progress, {})
    for step in range(4, 6):
        learn(second, again, mean, step)

    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    if ema is not None and mean is not None:
        assert all(torch.equal(tensor, mean.mean[name]) for name, tensor in ema.mean.items())
    for (name, p), q in zip(first.named_parameters(), second.parameters()):
        for key, tensor in torch_optimizer.state[p].items():
            assert torch.equal(tensor, again.state[q][key]), (name, key)
    assert torch.equal(torch.rand(3), _after(checkpoints, path, second, again, mean))


def _after(checkpoints: Checkpoints, path: Path, *state: Any) -> torch.Tensor:
    """The random numbers that come two updates after the checkpoint."""
    checkpoints.restore(path, *state)
    for step in range(4, 6):
        learn(*state, step)
    return torch.rand(3)


def test_the_model_to_use_is_the_moving_average(tmp_path: Path) -> None:
    net = model(1)
    torch_optimizer, ema = build_optimizer(net, TrainingConfig()), MovingAverage(net, 0.9)
    learn(net, torch_optimizer, ema, 1)
    path = Checkpoints(tmp_path, keep=1, every=1).save(net, torch_optimizer, ema, Progress(step=1))
    stored = load_file(path / "model.safetensors")
    assert all(torch.equal(stored[name], tensor) for name, tensor in ema.mean.items())
    assert not torch.equal(stored["projection.weight" if "projection.weight" in stored else next(iter(stored))],
                           net.projection.weight)  # fmt: skip


def test_tied_tables_are_stored_once(tmp_path: Path) -> None:
    for tie, tables in (("none", 3), ("target", 2), ("all", 1)):
        write_weights(tmp_path / f"{tie}.safetensors", model_weights(model(1, tie=tie)))
        with safe_open(tmp_path / f"{tie}.safetensors", "pt") as file:
            assert sum(file.get_slice(name).get_shape() == [30, 16] for name in file.keys()) == tables  # noqa: SIM118
    net = model(2, tie="all")
    load_weights(net, read_weights(tmp_path / "all.safetensors"), file=tmp_path / "all.safetensors")
    assert net.projection.weight is net.source_embedding.table.weight
    assert torch.equal(net.projection.weight, model(1, tie="all").projection.weight)


def steps(checkpoints: Checkpoints) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in checkpoints.all()]


def test_what_stays(tmp_path: Path) -> None:
    """The newest `keep` made on schedule, the best, the newest of all; an interruption's goes with the next one."""
    net = model(1)
    torch_optimizer = build_optimizer(net, TrainingConfig())
    checkpoints = Checkpoints(tmp_path, keep=2, every=10)
    for step, best, expected in [
        (10, 10, [10]),
        (20, 10, [10, 20]),
        (25, 10, [10, 20, 25]),  # Ctrl-C, off schedule
        (30, 10, [10, 20, 30]),
        (40, 10, [10, 30, 40]),  # 10 stays: it is the best
        (50, 50, [40, 50]),
        (60, None, [50, 60]),
    ]:
        checkpoints.save(net, torch_optimizer, None, Progress(step=step, best_step=best))
        assert steps(checkpoints) == expected
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.name == "step-00000060"
    assert [path.name for path in Checkpoints(tmp_path, keep=2, every=50).scheduled()] == ["step-00000050"]


def test_no_checkpoint_is_ever_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = model(1)
    torch_optimizer, checkpoints = build_optimizer(net, TrainingConfig()), Checkpoints(tmp_path, keep=2, every=1)
    checkpoints.save(net, torch_optimizer, None, Progress(step=1))

    def torn(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dumps", torn)  # the last of the three files
    with pytest.raises(UserError, match="No space left"):
        checkpoints.save(net, torch_optimizer, None, Progress(step=2))
    assert steps(checkpoints) == [1]
    assert not list(tmp_path.rglob(f"{UNFINISHED}*"))


def test_another_models_weights_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write_weights(file, model_weights(model(1)))
    with pytest.raises(UserError, match=r"model.safetensors: does not fit its config.yaml \(decoder.blocks.1"):
        load_weights(model(1, layers=2), read_weights(file), file=file)
    with pytest.raises(UserError, match=r"feed_forward.inner.* has shape \[24.*\] where the config means \[32"):
        load_weights(model(1, feed_forward=32), read_weights(file), file=file)
    untouched = model(5, feed_forward=32)
    before = {name: tensor.clone() for name, tensor in untouched.state_dict().items()}
    with pytest.raises(UserError):
        load_weights(untouched, read_weights(file), file=file)
    assert all(torch.equal(tensor, before[name]) for name, tensor in untouched.state_dict().items())


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", b"\xff" * 64])
def test_damaged_weights_are_a_users_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot be read .*; restore the file or train again"):
        read_weights(file)
    with pytest.raises(UserError, match="cannot be read"):
        read_weights(tmp_path / "absent.safetensors")


def test_progress_survives_json(tmp_path: Path) -> None:
    net = model(1)
    checkpoints = Checkpoints(tmp_path, keep=1, every=1)
    progress = Progress(step=7, seconds=0.1 + 0.2, flops=1e19 / 3, best=1 / 3, best_step=7)
    path = checkpoints.save(net, build_optimizer(net, TrainingConfig()), None, progress)
    assert checkpoints.read_progress(path) == progress
