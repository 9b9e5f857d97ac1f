"""Runs of neural language models that go on: killed or not, with other settings, from another model."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.errors import UserError
from forked import Forked
from language_runs import CARRYING, KILLED, MICRO, of_kind, train

# -- N + N = 2N, killed or not -----------------------------------------------------------------------------------------


def command(run: Path, files: dict[str, Path], kind: str, settings: dict[str, Any]) -> list[str]:
    said = [f"{name}={value}" for name, value in of_kind(kind, settings).items()]
    texts = ["--text", str(files["text"]), "--valid-text", str(files["valid_text"])]
    return ["train", str(run), *texts, "--recipe", kind, "--device", "cpu", "--quiet", *said]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As the process that is killed has: sums in another order have other last digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def assert_same(run: Path, unbroken: Path) -> None:
    checkpoints = [sorted(path.name for path in (one / "checkpoints").iterdir()) for one in (run, unbroken)]
    assert checkpoints[0] == checkpoints[1]
    for name in checkpoints[0]:
        for file in ("model.safetensors", "training.safetensors"):
            mine, theirs = ((one / "checkpoints" / name / file).read_bytes() for one in (run, unbroken))
            assert mine == theirs, f"{name}/{file}"
    assert (run / "model.safetensors").read_bytes() == (unbroken / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("lstm", {"training.activation_penalty": 1.0, "model.weight_dropout": 0.2, "training.ema": 0.9}),
        ("conv", {"training.optimizer": "asgd", "training.trigger": 1, "training.learning_rate": 0.1}),
        ("transformer-encoder", {"data.boundaries": "packed", "model.experts": 4}),
    ],
)
def test_killed_and_continued_is_the_same(
    kind: str, settings: dict[str, Any], plain_text: dict[str, Path], tmp_path: Path
) -> None:
    settings = {**KILLED, **settings}
    unbroken, run = tmp_path / "unbroken", tmp_path / "run"
    train(unbroken, plain_text, kind, settings)
    process = Forked(command(run, plain_text, kind, settings))
    while process.poll() is None:
        if len(list((run / "checkpoints").glob("step-*"))) >= 2:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.001)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    train(run, plain_text, kind, settings)
    assert_same(run, unbroken)


@pytest.mark.parametrize("kind", CARRYING)
def test_half_and_half_is_the_whole(kind: str, plain_text: dict[str, Path], tmp_path: Path) -> None:
    """Six updates in the middle of an epoch's stream, twice, and twelve: the state goes on across the stop."""
    settings = {"training.schedule": "constant", "training.checkpoint_every": 6, "training.batch_tokens": 32}
    train(tmp_path / "run", plain_text, kind, {**settings, "training.max_steps": 6})
    train(tmp_path / "run", plain_text, kind, {**settings, "training.max_steps": 12})
    train(tmp_path / "whole", plain_text, kind, {**settings, "training.max_steps": 12})
    mine, theirs = (
        (tmp_path / one / "checkpoints/step-00000012/training.safetensors").read_bytes() for one in ("run", "whole")
    )
    assert mine == theirs


def test_without_its_state_it_would_go_on_otherwise(plain_text: dict[str, Path], tmp_path: Path) -> None:
    """That the test above can fail."""
    from safetensors.torch import load_file, save_file

    settings = {"training.schedule": "constant", "training.checkpoint_every": 6, "training.batch_tokens": 32}
    train(tmp_path / "run", plain_text, "lstm", {**settings, "training.max_steps": 6})
    shutil.copytree(tmp_path / "run", tmp_path / "robbed")
    path = tmp_path / "robbed/checkpoints/step-00000006/training.safetensors"
    state = {name: t if not name.startswith("carried.") else torch.zeros_like(t) for name, t in load_file(path).items()}
    path.chmod(0o644)
    path.unlink()
    save_file(state, path)
    for name in ("run", "robbed"):
        train(tmp_path / name, plain_text, "lstm", {**settings, "training.max_steps": 8})
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "robbed")]
    assert weights[0] != weights[1]


# -- going on, starting from -------------------------------------------------------------------------------------------


def test_other_settings_are_refused_unless_forced(plain_text: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, plain_text, "gru")
    with pytest.raises(UserError, match=r"training\.learning_rate is .* there and 0\.5 now"):
        train(run, plain_text, "gru", {"training.learning_rate": 0.5})
    forced = {"training.learning_rate": 0.5, "training.max_steps": 3}
    assert train(run, plain_text, "gru", forced, force=True).steps == 3
    with pytest.raises(UserError, match=r"model\.dim"):
        train(run, plain_text, "gru", {"model.dim": 8}, force=True)
    other = tmp_path / "other.txt"
    other.write_text("another text\n" * 40)
    with pytest.raises(UserError, match=r"model\.dim"):
        train(run, {**plain_text, "text": other}, "gru", {"model.dim": 8}, force=True)
    assert train(run, plain_text, "gru", forced).steps == 3, "the text that was prepared is still there"
    with pytest.raises(UserError, match="kind"):
        train(run, plain_text, "lstm")


def test_starting_from_a_model(plain_text: dict[str, Path], tmp_path: Path) -> None:
    train(tmp_path / "first", plain_text, "gru", {"training.max_steps": 20, "training.learning_rate": 0.01})
    first = json.loads((tmp_path / "first/metrics.json").read_text())["validation"]["loss"]
    some = tmp_path / "some.txt"
    some.write_text("a dog runs\n" * 30)
    other = {"text": some, "valid_text": plain_text["valid_text"]}
    own = {key: value for key, value in MICRO.items() if key.startswith("training.")} | {"training.learning_rate": 1e-9}
    outcome = anaphora.train(
        tmp_path / "second", **other, recipe="gru", start_from=tmp_path / "first", settings=own, device="cpu"
    )
    assert outcome.validation["loss"] == pytest.approx(first, abs=1e-3)  # the tokenizer and the weights are the same
    tokenizers = [(tmp_path / name / "tokenizer.json").read_text() for name in ("first", "second")]
    assert tokenizers[0] == tokenizers[1]
    anaphora.train(tmp_path / "unnamed", **other, start_from=tmp_path / "first", settings=own, device="cpu")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("second", "unnamed")]
    assert weights[0] == weights[1]  # who names no recipe stays with the kind of the model
    with pytest.raises(UserError, match=r"model\.dim"):
        anaphora.train(
            tmp_path / "third", **other, recipe="gru", start_from=tmp_path / "first", settings={"model.dim": 8}
        )


def test_average_of_the_last_checkpoints(plain_text: dict[str, Path], tmp_path: Path) -> None:
    train(tmp_path / "run", plain_text, "window", {"training.max_steps": 3})
    found = anaphora.average(tmp_path / "run", 2, device="cpu")
    assert found["averaged"] == [2, 3]
    assert found["after"]["tokens"] == found["before"]["tokens"]
