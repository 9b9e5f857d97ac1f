"""What a run of a neural language model refuses, in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.errors import UserError
from language_runs import MICRO, of_kind, refused, refused_by_recipe, train


def test_no_text(tmp_path: Path) -> None:
    empty, blank = tmp_path / "empty.txt", tmp_path / "blank.txt"
    empty.touch()
    blank.write_text("\n\n\n")
    for kind in ("lstm", "transformer-encoder"):
        for path in (empty, blank):
            assert "there is no text here" in refused(tmp_path / "run", kind, {"data.hold_out": 0}, {"text": path})


def test_a_folder_that_holds_another_model(plain_text: dict[str, Path], tmp_path: Path) -> None:
    """One that was counted cannot be started from, one that was learned can."""
    run = tmp_path / "run"
    anaphora.train(run, text=plain_text["text"], recipe="ngram")
    with pytest.raises(UserError, match="holds a model of kind ngram; choose another folder"):
        train(run, plain_text, "lstm")
    train(tmp_path / "learned", plain_text, "lstm")
    shutil.rmtree(tmp_path / "learned" / "checkpoints")
    with pytest.raises(UserError, match=r"holds a trained model but no checkpoint to continue from.*start_from="):
        train(tmp_path / "learned", plain_text, "lstm")


def test_a_vocabulary_larger_than_the_text(plain_text: dict[str, Path], tmp_path: Path) -> None:
    subwords = {"tokenizer.kind": "bpe", "tokenizer.split": "punctuation", "tokenizer.fallback": "bytes"}
    said = refused(tmp_path / "run", "lstm", {**subwords, "tokenizer.vocabulary": 30_000}, plain_text)
    assert "tokenizer.vocabulary is 30,000, but this text has no more than" in said


def test_a_text_that_repeats_itself_has_the_vocabulary_it_has(tmp_path: Path) -> None:
    """Nobody asked for one, so there is nothing to refuse; a draft is told the size that there is."""
    text = tmp_path / "again.txt"
    text.write_text("the cat sat on the mat\n" * 600)
    run, subwords = tmp_path / "run", {"tokenizer.kind": "bpe", "tokenizer.split": None, "tokenizer.fallback": None}
    subwords = {name: value for name, value in {**MICRO, **subwords}.items() if value is not None}
    anaphora.train(run, text=text, recipe="lstm", settings=subwords, device="cpu")
    model = anaphora.load(run, "cpu")
    assert isinstance(model, anaphora.TextModel)
    found = model.tokenizer.vocabulary_size
    assert found < 300
    assert f"tokenizer.vocabulary={found}" in model.vocabulary_settings()
    again = anaphora.train(run, text=text, recipe="lstm", settings={**subwords, "training.max_steps": 3}, device="cpu")
    assert again.steps == 3
    counted = dict(one.split("=") for one in model.vocabulary_settings())
    anaphora.train(tmp_path / "draft", text=text, recipe="ngram", settings={**counted, "data.boundaries": "stream"})
    draft = anaphora.load(tmp_path / "draft")
    assert isinstance(draft, anaphora.TextModel)
    assert model.generate("the", tokens=3, draft=draft)


def test_a_context_that_is_too_long_is_refused_before_the_text_is_read(
    plain_text: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the text was prepared")

    monkeypatch.setattr("anaphora.tasks.language_settling.prepare_text", never)
    settings = {"training.context": 513, "training.batch_tokens": 1024}  # the longest is nowhere said: 512 by default
    said = refused(tmp_path / "run", "transformer-decoder", settings, plain_text)
    assert "training.context=513 is more than the model can read, model.max_length=512" in said


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("lstm", {"training.masked": 0.2}, "training.masked means nothing for a model of kind lstm"),
        ("lstm", {"training.consistency": 1}, "training.consistency means nothing"),
        ("lstm", {"training.max_memory": "2GB"}, "training.max_memory means nothing"),
        ("lstm", {"data.max_length": 20}, "data.max_length means nothing"),
        ("lstm", {"tokenizer.dropout": 0.1}, "tokenizer.dropout means nothing"),
        ("lstm", {"model.pool": "last"}, "model.pool means nothing"),
        ("lstm", {"model.bidirectional": True}, "model.bidirectional means nothing"),
        ("lstm", {"model.heads": 2}, "unknown setting model.heads"),
        ("transformer-encoder", {"training.activation_penalty": 1}, "training.activation_penalty means nothing"),
        ("transformer-encoder", {"training.stride": 1}, "training.stride means nothing"),
        ("lstm", {"training.metric": "bleu"}, "training.metric=bleu means nothing for this model"),
        ("lstm", {"training.metric": "accuracy"}, "training.metric=accuracy means nothing for this model"),
        ("lstm", {"training.context": 100}, "training.batch_tokens=64 is less than one row"),
        ("transformer-decoder", {"model.max_length": 10}, "training.context=16 is more than the model can read"),
        ("lstm", {"training.stride": 17}, "stride is 17; it must be at least 1 and at most context (16)"),
        ("lstm", {"training.ema": 0.9, "training.optimizer": "asgd"}, "asgd already averages the weights"),
        ("lstm", {"training.momentum": 0.9}, "momentum is for sgd and asgd"),
    ],
)
def test_settings_that_mean_nothing(
    kind: str, settings: dict[str, Any], said: str, plain_text: dict[str, Path], tmp_path: Path
) -> None:
    assert said in refused(tmp_path / "run", kind, settings, plain_text)


def test_text_settings_mean_nothing_for_translators(corpus: dict[str, Path], tmp_path: Path) -> None:
    for name in ("training.context", "training.masked", "training.activation_penalty"):
        assert f"{name} means nothing" in refused_by_recipe(
            tmp_path / "run", "tiny", corpus, {name: 0.5 if "masked" in name else 1}
        )


def test_context_means_nothing_for_lines(plain_text: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="means nothing where every line is a row of its own"):
        anaphora.train(
            tmp_path / "run", **plain_text, recipe="lstm", settings={"data.boundaries": "lines", "training.context": 9}
        )


def test_rows_longer_than_the_text(plain_text: dict[str, Path], tmp_path: Path) -> None:
    """Said by the user a mistake; a default fits itself to a text of a few words."""
    settings = {"training.context": 5000, "training.batch_tokens": 5000}
    with pytest.raises(UserError, match=r"train\.txt: training\.context=5000, but the whole text has \d+ tokens"):
        train(tmp_path / "run", plain_text, "lstm", settings)
    few = tmp_path / "few.txt"
    few.write_text("the dog sees a cat\n")
    for kind in ("lstm", "transformer-decoder"):
        own = {key: value for key, value in of_kind(kind).items() if key != "training.context"}
        small = {"text": few, "valid_text": plain_text["valid_text"]}
        outcome = anaphora.train(tmp_path / kind, **small, recipe=kind, settings=own, device="cpu")
        assert outcome.tokens == 2 * 6  # two updates over five words and an end mark


def test_starting_from_what_cannot_be_started_from(
    plain_text: dict[str, Path], corpus: dict[str, Path], tmp_path: Path
) -> None:
    train(tmp_path / "lstm", plain_text, "lstm")
    anaphora.train(tmp_path / "ngram", **plain_text)
    run = tmp_path / "run"
    for recipe, start, said in (
        ("gru", "lstm", "has model.kind=lstm, which cannot become gru"),
        ("lstm", "ngram", "is a model of kind ngram, from which no language model can start"),
        ("lstm", "nowhere", "there is no such folder"),
    ):
        with pytest.raises(UserError) as caught:
            anaphora.train(run, **plain_text, recipe=recipe, start_from=tmp_path / start, device="cpu")
        assert said in str(caught.value)
    with pytest.raises(UserError, match="lstm is a language model, and this needs a translator"):
        anaphora.train(run, **corpus, start_from=tmp_path / "lstm", device="cpu")
    assert not run.exists()


def test_an_average_that_nobody_can_begin(plain_text: dict[str, Path], tmp_path: Path) -> None:
    settings = {"training.optimizer": "asgd", "data.hold_out": 0}
    said = None
    try:
        train(tmp_path / "run", {"text": plain_text["text"]}, "lstm", settings)
    except UserError as error:
        said = str(error)
    assert said is not None and "asgd averages once validation stops improving" in said
