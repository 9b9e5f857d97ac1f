"""Runs of neural language models: every kind through every option, exact resuming, what they learn, and mistakes."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.errors import UserError
from anaphora.models import NEURAL_MODELS
from anaphora.training.request import Outcome

WORDS = ["the", "dog", "cat", "sees", "a", "runs", "Straße", ",", "tree", "old"]
CAUSAL = [kind for kind in NEURAL_MODELS if kind != "transformer-encoder"]
CARRYING = ("rnn", "gru", "lstm", "window", "conv")
MICRO: dict[str, Any] = {
    "tokenizer.kind": "word",
    "tokenizer.split": "blanks",
    "tokenizer.fallback": "unk",
    "model.dim": 16,
    "model.layers": 2,
    "training.max_steps": 2,
    "training.batch_tokens": 64,
    "training.context": 16,
    "training.checkpoint_every": 1,
    "training.warmup_steps": 1,
    "training.samples": 1,
    "training.log_every": 1,
}


def lines(number: int, seed: int = 1) -> list[str]:
    """Words that follow each other more or less in the order of the alphabet: something to learn."""
    draw, words, found = random.Random(seed), sorted(WORDS), []
    for _ in range(number):
        at, line = draw.randrange(len(words)), []
        for _ in range(draw.randint(1, 8)):
            line.append(words[at])
            at = (at + draw.choice((1, 1, 1, 2))) % len(words)
        found.append(" ".join(line))
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    folder = tmp_path_factory.mktemp("text")
    found = {"text": folder / "train.txt", "valid_text": folder / "valid.txt"}
    for (path, number), seed in zip({found["text"]: 150, found["valid_text"]: 20}.items(), (1, 2)):
        path.write_text("".join(f"{line}\n" for line in lines(number, seed)), encoding="utf-8")
    return found


def of_kind(kind: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The smallest settings of a kind."""
    chosen = dict(MICRO)
    if kind.startswith("transformer"):
        chosen |= {"model.heads": 2, "model.feed_forward": 32}
    elif kind != "conv":
        chosen |= {"model.hidden": 24}
    chosen |= settings or {}
    if chosen.get("data.boundaries") == "lines":
        chosen.pop("training.context", None)
    return chosen


def train(
    folder: Path, files: dict[str, Path], kind: str, settings: dict[str, Any] | None = None, **more: Any
) -> Outcome:
    return anaphora.train(folder, **files, recipe=kind, settings=of_kind(kind, settings), device="cpu", **more)


# -- every kind, every option ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundaries", ["lines", "stream", "packed"])
@pytest.mark.parametrize("kind", NEURAL_MODELS)
def test_two_updates(kind: str, boundaries: str, files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    outcome = train(run, files, kind, {"data.boundaries": boundaries})
    assert (outcome.steps, outcome.kind) == (2, kind)
    assert outcome.tokens > 0 and outcome.flops > 0
    assert math.isfinite(outcome.validation["perplexity"])
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "tokenizer.json", "model.safetensors", "card.md", "metrics.json", "checkpoints"} <= names
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["finished_step"] == 2
    assert metrics["vocabularies"]["text"]
    carried = stored(run / "checkpoints/step-00000002/training.safetensors", "carried.")
    assert bool(carried) == (boundaries == "stream" and kind in CARRYING)
    before = (run / "model.safetensors").stat()
    again = train(run, files, kind, {"data.boundaries": boundaries})  # nothing is left to do
    assert again.steps == 2
    assert (run / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns


def stored(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return {name: tensor for name, tensor in load_file(path).items() if name.startswith(prefix)}


OPTIONS: list[dict[str, Any]] = [
    {"training.optimizer": "sgd", "training.momentum": 0.5, "training.learning_rate": 0.1},
    {"training.optimizer": "asgd", "training.trigger": 0},
    {"training.optimizer": "adam", "training.weight_decay": 0.1},
    {"training.ema": 0.9},
    {"training.accumulate": 2},
    {"training.label_smoothing": 0.1},
    {"training.precision": "bf16"},
    {"training.schedule": "linear", "training.final_rate": 0.1},
    {"training.max_steps": None, "training.epochs": 0.05},
    {"training.max_steps": None, "training.max_tokens": 100},
    {"training.patience": 1, "training.average": 2},
    {"model.dropout": 0.3, "model.input_dropout": 0.2, "model.output_dropout": 0.2, "model.embedding_dropout": 0.2},
    {"model.locked": True, "model.input_dropout": 0.2},
    {"model.tie": False, "model.output_bias": False},
    {"tokenizer.kind": "byte", "tokenizer.split": "punctuation", "tokenizer.fallback": "bytes"},
    {"data.blank_lines": "drop"},
]


@pytest.mark.parametrize(
    "option", OPTIONS, ids=lambda option: next(iter(option)) + "=" + str(next(iter(option.values())))
)
def test_options_of_all(option: dict[str, Any], files: dict[str, Path], tmp_path: Path) -> None:
    for kind in ("lstm", "transformer-decoder", "transformer-encoder"):
        outcome = train(tmp_path / kind, files, kind, {**option, "training.samples": 0})
        assert math.isfinite(outcome.validation["loss"]), kind


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("lstm", {"training.activation_penalty": 2.0, "training.temporal_penalty": 1.0}),
        ("transformer-decoder", {"training.activation_penalty": 2.0, "training.stride": 3}),
        ("rnn", {"model.initial": "orthogonal", "model.weight_dropout": 0.3}),
        ("gru", {"model.weight_dropout": 0.5, "model.layers": 3}),
        ("window", {"model.window": 3}),
        ("conv", {"model.width": 2, "model.dilated": True, "model.gated": False}),
        ("transformer-encoder", {"training.masked": 0.5, "model.transform": True, "model.pooler": True}),
        ("transformer-decoder", {"model.positions": "learned", "model.max_length": 20}),
    ],
)
def test_options_of_one(kind: str, option: dict[str, Any], files: dict[str, Path], tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", files, kind, option)
    assert math.isfinite(outcome.validation["loss"])
    if "training.stride" in option:
        assert (outcome.validation["context"], outcome.validation["stride"]) == (16, 3)


def test_penalties_are_in_the_loss(files: dict[str, Path], tmp_path: Path) -> None:
    """Of the first update, which has the same weights: what is logged is the loss with them."""
    losses = {}
    for name in ("activation", "temporal"):
        for weight in (0.0, 5.0):
            run = tmp_path / f"{name}-{weight}"
            train(run, files, "gru", {f"training.{name}_penalty": weight, "training.max_steps": 1})
            first = (run / "logs/log.jsonl").read_text().splitlines()[0]
            losses[name, weight] = json.loads(first)["loss"]
    for name in ("activation", "temporal"):
        assert losses[name, 5.0] > losses[name, 0.0]


# -- what it learns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NEURAL_MODELS)
def test_it_learns(kind: str, files: dict[str, Path], tmp_path: Path) -> None:
    """Ten words, each followed by one of two: of those that see the last word, perplexity ends far below ten."""
    learned = {"training.max_steps": 120, "training.checkpoint_every": 40, "training.learning_rate": 1e-2}
    learned |= {"training.batch_tokens": 256, "training.warmup_steps": 10, "model.dropout": 0.0}
    learned |= {"model.output_dropout": 0.0, "model.input_dropout": 0.0}
    outcome = train(tmp_path / "run", files, kind, learned)
    floor = 11.0 if kind == "dan" else 6.5  # a mean knows which words came, not which one was the last
    assert outcome.validation["perplexity"] < floor
    history = json.loads((tmp_path / "run/metrics.json").read_text())["history"]
    assert history[-1]["loss"] < history[0]["loss"]


def test_averaged_descent_begins_when_validation_says_so(files: dict[str, Path], tmp_path: Path) -> None:
    from anaphora.models.weights import read_weights

    run = tmp_path / "run"
    settings = {"training.optimizer": "asgd", "training.trigger": 2, "training.learning_rate": 1e-9}
    settings |= {"training.max_steps": 8, "training.schedule": "constant", "training.warmup_steps": 0}
    train(run, files, "gru", settings)  # such a rate never makes it better for long
    progress = json.loads((run / "checkpoints/step-00000008/progress.json").read_text())
    assert progress["averaged_since"] is not None
    fast = tmp_path / "fast"
    settings |= {"training.learning_rate": 1.0, "training.trigger": 0}
    train(fast, files, "gru", settings)
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


@pytest.mark.parametrize("boundaries", ["lines", "stream", "packed"])
@pytest.mark.parametrize("kind", ["lstm", "transformer-decoder", "dan"])
def test_evaluate_measures_what_the_run_did(kind: str, boundaries: str, files: dict[str, Path], tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", files, kind, {"data.boundaries": boundaries})
    model = anaphora.load(tmp_path / "run", "cpu")
    assert isinstance(model, anaphora.TextModel)
    found = model.evaluate(files["valid_text"].read_text(encoding="utf-8").splitlines())
    assert found.perplexity == pytest.approx(outcome.validation["perplexity"], rel=1e-6)
    assert found.bits_per_byte == pytest.approx(outcome.validation["bits_per_byte"], rel=1e-6)
    assert found.tokens == outcome.validation["tokens"]


# -- N + N = 2N, killed or not -----------------------------------------------------------------------------------------

KILLED = {
    "training.max_steps": 60,
    "training.checkpoint_every": 7,
    "training.accumulate": 2,
    "training.average": 3,
    "training.patience": 50,
    "model.dropout": 0.2,
    "model.input_dropout": 0.2,
    "training.schedule": "constant",
}


def command(run: Path, files: dict[str, Path], kind: str, settings: dict[str, Any]) -> list[str]:
    said = [f"{name}={value}" for name, value in of_kind(kind, settings).items()]
    return [sys.executable, "-m", "anaphora", "train", str(run), "--text", str(files["text"]), "--valid-text",
            str(files["valid_text"]), "--recipe", kind, "--device", "cpu", "--quiet", *said]  # fmt: skip


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def assert_same(run: Path, unbroken: Path) -> None:
    checkpoints = [sorted(path.name for path in (one / "checkpoints").iterdir()) for one in (run, unbroken)]
    assert checkpoints[0] == checkpoints[1]
    for name in checkpoints[0]:
        for file in ("model.safetensors", "training.safetensors"):
            mine, theirs = ((one / "checkpoints" / name / file).read_bytes() for one in (run, unbroken))
            assert mine == theirs, f"{name}/{file}"
    assert (run / "model.safetensors").read_bytes() == (unbroken / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("lstm", {"training.activation_penalty": 1.0, "model.weight_dropout": 0.2, "training.ema": 0.9}),
        ("conv", {"training.optimizer": "asgd", "training.trigger": 1, "training.learning_rate": 0.1}),
        ("transformer-encoder", {"data.boundaries": "packed"}),
    ],
)
def test_killed_and_continued_is_the_same(
    kind: str, settings: dict[str, Any], files: dict[str, Path], tmp_path: Path
) -> None:
    settings = {**KILLED, **settings}
    unbroken, run = tmp_path / "unbroken", tmp_path / "run"
    subprocess.run(command(unbroken, files, kind, settings), env=environment(), check=True)
    process = subprocess.Popen(command(run, files, kind, settings), env=environment())
    while process.poll() is None:
        if len(list((run / "checkpoints").glob("step-*"))) >= 2:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.001)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    subprocess.run(command(run, files, kind, settings), env=environment(), check=True)
    assert_same(run, unbroken)


@pytest.mark.parametrize("kind", CARRYING)
def test_half_and_half_is_the_whole(kind: str, files: dict[str, Path], tmp_path: Path) -> None:
    """Six updates in the middle of an epoch's stream, twice, and twelve: the state goes on across the stop."""
    settings = {"training.schedule": "constant", "training.checkpoint_every": 6, "training.batch_tokens": 32}
    train(tmp_path / "run", files, kind, {**settings, "training.max_steps": 6})
    train(tmp_path / "run", files, kind, {**settings, "training.max_steps": 12})
    train(tmp_path / "whole", files, kind, {**settings, "training.max_steps": 12})
    mine, theirs = (
        (tmp_path / one / "checkpoints/step-00000012/training.safetensors").read_bytes() for one in ("run", "whole")
    )
    assert mine == theirs


def test_without_its_state_it_would_go_on_otherwise(files: dict[str, Path], tmp_path: Path) -> None:
    """That the test above can fail."""
    from safetensors.torch import load_file, save_file

    settings = {"training.schedule": "constant", "training.checkpoint_every": 6, "training.batch_tokens": 32}
    train(tmp_path / "run", files, "lstm", {**settings, "training.max_steps": 6})
    shutil.copytree(tmp_path / "run", tmp_path / "robbed")
    path = tmp_path / "robbed/checkpoints/step-00000006/training.safetensors"
    state = {name: t if not name.startswith("carried.") else torch.zeros_like(t) for name, t in load_file(path).items()}
    path.chmod(0o644)
    path.unlink()
    save_file(state, path)
    for name in ("run", "robbed"):
        train(tmp_path / name, files, "lstm", {**settings, "training.max_steps": 8})
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "robbed")]
    assert weights[0] != weights[1]


# -- going on, starting from -------------------------------------------------------------------------------------------


def test_other_settings_are_refused_unless_forced(files: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, files, "gru")
    with pytest.raises(UserError, match=r"training\.learning_rate is .* there and 0\.5 now"):
        train(run, files, "gru", {"training.learning_rate": 0.5})
    forced = {"training.learning_rate": 0.5, "training.max_steps": 3}
    assert train(run, files, "gru", forced, force=True).steps == 3
    with pytest.raises(UserError, match=r"model\.dim"):
        train(run, files, "gru", {"model.dim": 8}, force=True)
    with pytest.raises(UserError, match="kind"):
        train(run, files, "lstm")


def test_starting_from_a_model(files: dict[str, Path], tmp_path: Path) -> None:
    train(tmp_path / "first", files, "gru", {"training.max_steps": 20, "training.learning_rate": 0.01})
    first = json.loads((tmp_path / "first/metrics.json").read_text())["validation"]["loss"]
    some = tmp_path / "some.txt"
    some.write_text("a dog runs\n" * 30)
    other = {"text": some, "valid_text": files["valid_text"]}
    own = {key: value for key, value in MICRO.items() if key.startswith("training.")} | {"training.learning_rate": 1e-9}
    outcome = anaphora.train(
        tmp_path / "second", **other, recipe="gru", start_from=tmp_path / "first", settings=own, device="cpu"
    )
    assert outcome.validation["loss"] == pytest.approx(first, abs=1e-3)  # the tokeniser and the weights are the same
    tokenizers = [(tmp_path / name / "tokenizer.json").read_text() for name in ("first", "second")]
    assert tokenizers[0] == tokenizers[1]
    with pytest.raises(UserError, match=r"model\.dim"):
        anaphora.train(
            tmp_path / "third", **other, recipe="gru", start_from=tmp_path / "first", settings={"model.dim": 8}
        )


def test_average_of_the_last_checkpoints(files: dict[str, Path], tmp_path: Path) -> None:
    train(tmp_path / "run", files, "window", {"training.max_steps": 3})
    found = anaphora.average(tmp_path / "run", 2, device="cpu")
    assert found["averaged"] == [2, 3]
    assert found["after"]["tokens"] == found["before"]["tokens"]


# -- classifiers -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Lines with more As or more Bs. Read only."""
    folder, draw = tmp_path_factory.mktemp("labelled"), random.Random(3)
    found = {"text": folder / "text.txt", "labels": folder / "labels.txt"}
    texts = ["".join(draw.choices("AB", weights=(draw.random(), 1.2))) for _ in range(0)]
    for _ in range(400):
        share = draw.choice((0.2, 0.8))
        texts.append(" ".join("A" if draw.random() < share else "B" for _ in range(9)))
    found["text"].write_text("".join(f"{line}\n" for line in texts))
    found["labels"].write_text("".join("as\n" if line.count("A") > 4 else "bs\n" for line in texts))
    return found


@pytest.mark.parametrize("kind", NEURAL_MODELS)
def test_a_classifier_of_every_kind(kind: str, labelled: dict[str, Path], tmp_path: Path) -> None:
    settings = {"training.max_steps": 60, "training.checkpoint_every": 20, "training.learning_rate": 1e-2}
    settings |= {"training.batch_tokens": 512, "model.dropout": 0.0, "model.pool": "mean", "data.hold_out": 50}
    chosen = {**of_kind(kind), **settings}
    chosen.pop("training.context")
    outcome = anaphora.train(tmp_path / "run", **labelled, recipe=kind, settings=chosen, device="cpu")
    assert outcome.validation["texts"] > 0
    assert outcome.validation["accuracy"] > 0.85
    config = (tmp_path / "run/config.yaml").read_text()
    assert "- as\n" in config and "- bs\n" in config


def test_a_classifier_starts_from_a_language_model(labelled: dict[str, Path], tmp_path: Path) -> None:
    from anaphora.models.weights import read_weights

    train(tmp_path / "model", {"text": labelled["text"]}, "gru", {"data.boundaries": "lines"})
    own = {key: value for key, value in MICRO.items() if key.startswith("training.") and "context" not in key}
    own |= {"training.learning_rate": 1e-9, "training.max_steps": 1}
    anaphora.train(
        tmp_path / "run", **labelled, recipe="gru", start_from=tmp_path / "model", settings=own, device="cpu"
    )
    before, after = (read_weights(tmp_path / name / "model.safetensors") for name in ("model", "run"))
    shared = [name for name in before if name.startswith(("embedding", "encoder"))]
    assert shared
    for name in shared:
        assert torch.allclose(before[name], after[name], atol=1e-6), name


# -- mistakes ----------------------------------------------------------------------------------------------------------


def refused(run: Path, kind: str, settings: dict[str, Any], files: dict[str, Path], **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        train(run, files, kind, settings, **more)
    assert not run.exists(), "a mistake leaves nothing behind"
    return str(caught.value)


def test_no_text(tmp_path: Path) -> None:
    empty, blank = tmp_path / "empty.txt", tmp_path / "blank.txt"
    empty.touch()
    blank.write_text("\n\n\n")
    for kind in ("lstm", "transformer-encoder"):
        for path in (empty, blank):
            assert "there is no text here" in refused(tmp_path / "run", kind, {"data.hold_out": 0}, {"text": path})


def test_a_vocabulary_larger_than_the_text(files: dict[str, Path], tmp_path: Path) -> None:
    subwords = {"tokenizer.kind": "bpe", "tokenizer.split": "punctuation", "tokenizer.fallback": "bytes"}
    said = refused(tmp_path / "run", "lstm", {**subwords, "tokenizer.vocabulary": 30_000}, files)
    assert "tokenizer.vocabulary is 30,000, but this text has no more than" in said


def test_labels_that_do_not_fit(labelled: dict[str, Path], tmp_path: Path) -> None:
    short, one, holes = tmp_path / "short.txt", tmp_path / "one.txt", tmp_path / "holes.txt"
    short.write_text("as\n" * 399)
    one.write_text("as\n" * 400)
    holes.write_text("as\nbs\n\n" + "as\n" * 397)
    run, text = tmp_path / "run", labelled["text"]
    settings = {"data.boundaries": "lines"}
    said = refused(run, "gru", settings, {"text": text, "labels": short})
    assert "there are 400 lines of text, but only 399 labels" in said
    assert "only one label" in refused(run, "gru", settings, {"text": text, "labels": one})
    assert f"{holes}:3: has no label" in refused(run, "gru", settings, {"text": text, "labels": holes})
    assert "labels are of single lines" in refused(run, "gru", {"data.boundaries": "stream"}, labelled)
    assert "does not tell texts apart" in refused_by_recipe(run, "ngram", labelled)


def refused_by_recipe(run: Path, recipe: str, files: dict[str, Path], settings: dict[str, Any] | None = None) -> str:
    with pytest.raises(UserError) as caught:
        anaphora.train(run, **files, recipe=recipe, settings=settings or {})
    assert not run.exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("lstm", {"training.masked": 0.2}, "training.masked means nothing for a model of kind lstm"),
        ("lstm", {"training.consistency": 1}, "training.consistency means nothing"),
        ("lstm", {"training.max_memory": "2GB"}, "training.max_memory means nothing"),
        ("lstm", {"data.max_length": 20}, "data.max_length means nothing"),
        ("lstm", {"tokenizer.dropout": 0.1}, "tokenizer.dropout means nothing"),
        ("lstm", {"model.pool": "last"}, "model.pool means nothing"),
        ("lstm", {"model.heads": 2}, "unknown setting model.heads"),
        ("transformer-encoder", {"training.activation_penalty": 1}, "training.activation_penalty means nothing"),
        ("transformer-encoder", {"training.stride": 1}, "training.stride means nothing"),
        ("lstm", {"training.metric": "bleu"}, "training.metric=bleu means nothing for this model"),
        ("lstm", {"training.metric": "accuracy"}, "training.metric=accuracy means nothing for this model"),
        ("lstm", {"training.context": 100}, "training.batch_tokens=64 does not hold one row"),
        ("transformer-decoder", {"model.max_length": 10}, "training.context=16 is more than the model can read"),
        ("lstm", {"training.stride": 17}, "stride is 17; it must be at least 1 and at most context (16)"),
        ("lstm", {"training.ema": 0.9, "training.optimizer": "asgd"}, "asgd averages weights by itself"),
        ("lstm", {"training.momentum": 0.9}, "momentum is for sgd and asgd"),
    ],
)
def test_settings_that_mean_nothing(
    kind: str, settings: dict[str, Any], said: str, files: dict[str, Path], tmp_path: Path
) -> None:
    assert said in refused(tmp_path / "run", kind, settings, files)


def test_text_settings_mean_nothing_for_translators(corpus: dict[str, Path], tmp_path: Path) -> None:
    for name in ("training.context", "training.masked", "training.activation_penalty"):
        assert f"{name} means nothing" in refused_by_recipe(
            tmp_path / "run", "tiny", corpus, {name: 0.5 if "masked" in name else 1}
        )


def test_context_means_nothing_for_lines(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="means nothing where every line is a row of its own"):
        anaphora.train(
            tmp_path / "run", **files, recipe="lstm", settings={"data.boundaries": "lines", "training.context": 9}
        )


def test_an_average_that_nobody_can_begin(files: dict[str, Path], tmp_path: Path) -> None:
    settings = {"training.optimizer": "asgd", "data.hold_out": 0}
    said = None
    try:
        train(tmp_path / "run", {"text": files["text"]}, "lstm", settings)
    except UserError as error:
        said = str(error)
    assert said is not None and "asgd begins its average when validation says so" in said


# -- that none is forgotten --------------------------------------------------------------------------------------------


def test_every_setting_is_exercised() -> None:
    """A new setting of training or of text must join the lists above."""
    from dataclasses import fields

    from anaphora.text.settings import DataConfig
    from anaphora.training.recipes import meaningful
    from anaphora.training.settings import TrainingConfig

    said = {key for option in OPTIONS for key in option} | set(MICRO) | set(KILLED)
    said |= {"training.activation_penalty", "training.temporal_penalty", "training.masked", "training.stride"}
    said |= {"data.text", "data.valid_text", "data.labels", "data.valid_labels", "data.boundaries", "data.hold_out"}
    said |= {"training.metric", "training.trigger"}
    of_the_loop = {"beta1", "beta2", "epsilon", "clip_norm", "compile", "cuda_graphs", "keep", "seed", "max_minutes"}
    of_the_loop |= {"tokenizer_lines"}  # the same for all that learn: tests/integration/test_options.py
    for section, cls in (("training", TrainingConfig), ("data", DataConfig)):
        for field in fields(cls):
            if meaningful("lstm", section, {field.name: "x"}) and field.name not in of_the_loop:
                assert f"{section}.{field.name}" in said, f"{section}.{field.name} is tried by no test"


def test_validation_labels(labelled: dict[str, Path], tmp_path: Path) -> None:
    valid = {"valid_text": tmp_path / "valid.txt", "valid_labels": tmp_path / "valid.labels"}
    valid["valid_text"].write_text("A A A\nB B B\nB A B\n")
    valid["valid_labels"].write_text("as\nbs\nbs\n")
    chosen = {**of_kind("dan"), "training.metric": "accuracy"}
    chosen.pop("training.context")
    outcome = anaphora.train(tmp_path / "run", **labelled, **valid, recipe="dan", settings=chosen, device="cpu")
    assert outcome.validation["texts"] == 3
    valid["valid_labels"].write_text("as\nbs\ncs\n")
    with pytest.raises(UserError, match=r"valid\.labels:3: the label 'cs' is not among those to learn from \(as, bs\)"):
        anaphora.train(tmp_path / "other", **labelled, **valid, recipe="dan", settings=chosen, device="cpu")


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_the_laboratory_settings_for_a_million_words() -> None:
    """Penn Treebank's 929,589 tokens: what was found to be good for it (docs/lab-notes.md)."""
    from anaphora.training.text_sizes import sized_to_text

    lstm = sized_to_text("lstm", 929_589, labelled=False, recipe={"model": {"kind": "lstm"}})
    assert (lstm["model"]["dim"], lstm["model"]["hidden"], lstm["model"]["layers"]) == (400, 1150, 3)
    assert lstm["training"]["warmup_steps"] == pytest.approx(930, rel=0.1)
    attention = sized_to_text("transformer-decoder", 929_589, labelled=False, recipe={})
    assert (attention["training"]["context"], attention["training"]["batch_tokens"]) == (256, 8192)


@pytest.mark.parametrize("kind", NEURAL_MODELS)
@pytest.mark.parametrize("tokens", [0, 300, 300_000, 1_000_000, 2_000_000, 20_000_000, 10**10])
def test_every_size_is_a_sound_document(kind: str, tokens: int) -> None:
    from anaphora.training.recipes import RunConfig, refuse_meaningless
    from anaphora.training.text_sizes import sized_to_text, text_vocabulary

    for labelled in (False, True):
        document = sized_to_text(kind, tokens, labelled=labelled, recipe={"model": {"kind": kind}})
        document["model"]["kind"] = kind
        if labelled:
            document["model"]["labels"] = ["a", "b"]
            document["data"] = {"text": ["t"], "labels": ["l"]}
        refuse_meaningless(kind, document, classifier=labelled)
        config = RunConfig.read(document)
        assert RunConfig.read(config.document()).document() == config.document()
    assert 1_000 <= text_vocabulary(tokens) <= 32_000


@pytest.mark.parametrize("recipe", ["gpt2", "bert"])
def test_presets_train(recipe: str, files: dict[str, Path], tmp_path: Path) -> None:
    """Their shape made small: what the recipe says beside it goes through."""
    small = {key: value for key, value in MICRO.items() if key != "training.context"}
    small |= {"model.dim": 24, "model.max_length": 16, "training.context": 16, "training.accumulate": 1}
    outcome = anaphora.train(tmp_path / "run", **files, recipe=recipe, settings=small, device="cpu")
    assert outcome.steps == 2
