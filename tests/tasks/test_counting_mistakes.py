"""What a counting run refuses, in one sentence, leaving nothing behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.folder import RunLock
from counting_runs import model_of, state, train

# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"training.learning_rate": 0.1}, "training.learning_rate means nothing for a model of kind ngram"),
        ({"data.max_length": 20}, "data.max_length means nothing"),
        ({"tokenizer.dropout": 0.1}, "tokenizer.dropout means nothing"),
        ({"model.dim": 12}, "unknown setting model.dim"),
        ({"model.order": 0}, "order is 0; an n-gram has at least one word"),
        ({"model.smoothing": "given"}, "model.smoothing=given is for numbers that were read"),
        ({"model.prune": [1]}, "model.prune begins with single words"),
        ({"training.max_memory": "much"}, "max_memory is 'much'; write 500MB or 2GB"),
        ({"training.max_memory": "1MB"}, "a memory limit of 1 MB leaves no room to count in"),
        ({"tokenizer.fallback": "bytes"}, "set tokenizer.split=whitespace or punctuation to spell unknown words"),
        (
            {"model.prune": "0 0 x"},
            "model.prune must be whole numbers, not '0 0 x'; write model.prune='[0, 0, 1]', say",
        ),
        ({"data.hold_out": 10}, "data.hold_out is set too"),
        ({"model.k": 7}, "model.k means nothing without model.smoothing=add-k; leave it out, or choose that"),
        ({"model.backoff": 0.1}, "model.backoff means nothing without model.smoothing=stupid-backoff"),
        ({"model.smoothing": "add-k", "model.backoff": 0.1}, "model.backoff means nothing without"),
        ({"tokenizer.kind": "byte", "tokenizer.vocabulary": 1000}, "kind=byte has the bytes as its vocabulary"),
        ({"tokenizer.kind": "byte", "tokenizer.minimum_count": 2}, "kind=byte has the bytes as its vocabulary"),
        *(
            ({f"decoding.{name}": value}, f"decoding.{name} means nothing for a model of kind ngram; of that section")
            for name, value in {"beam": 3, "sample": True, "n_best": 2, "max_length": 9, "batch_tokens": 9}.items()
        ),
    ],
)
def test_settings_that_cannot_be(
    tmp_path: Path, text_files: dict[str, Path], settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError) as error:
        train(tmp_path / "run", text_files, settings=settings)
    assert said in str(error.value)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_the_wrong_sort_of_text(tmp_path: Path, text_files: dict[str, Path], corpus: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=r"ngram is a language model and learns from plain text.*give text="):
        anaphora.train(tmp_path / "run", **corpus, recipe="ngram")
    with pytest.raises(UserError, match="transformer learns translations; for text use recipe='ngram'"):
        anaphora.train(tmp_path / "run", **text_files, recipe="transformer")
    with pytest.raises(UserError, match="both text and pairs are given"):
        anaphora.train(tmp_path / "run", **text_files, **corpus)
    with pytest.raises(UserError, match=r"data\.boundaries means nothing for a model of kind transformer"):
        anaphora.train(tmp_path / "run", **corpus, settings=["data.boundaries=stream"])
    with pytest.raises(UserError, match=r"training\.max_memory means nothing for a model of kind transformer"):
        anaphora.train(tmp_path / "run", **corpus, settings=["training.max_memory=2GB"])
    with pytest.raises(UserError, match="an n-gram model starts from nothing"):
        anaphora.train(tmp_path / "run", **text_files, recipe="ngram", start_from=tmp_path)
    with pytest.raises(UserError, match="is not a model folder"):  # whose kind would be the recipe
        anaphora.train(tmp_path / "run", **text_files, start_from=tmp_path)
    with pytest.raises(UserError, match="on the CPU, not on cuda"):
        anaphora.train(tmp_path / "run", **text_files, device="cuda")
    assert not (tmp_path / "run").exists()


def test_a_folder_of_something_else(
    tmp_path: Path, micro: Path, text_files: dict[str, Path], corpus: dict[str, Path], done: Path
) -> None:
    translator = shutil.copytree(micro, tmp_path / "translator")
    before = state(translator)
    with pytest.raises(UserError, match="holds a model of kind transformer"):
        train(translator, text_files, force=True)
    assert state(translator) == before
    bare = shutil.copytree(done, tmp_path / "bare")
    shutil.rmtree(bare / "data")
    assert train(bare, text_files).reason == "all lines are counted"
    assert model_of(bare) == model_of(done)
    shutil.rmtree(bare / "data")
    (bare / "metrics.json").unlink()
    with pytest.raises(UserError, match="holds a model that was not counted there"):
        train(bare, text_files, force=True)
    with pytest.raises(UserError, match="holds a model of kind ngram; choose another folder"):
        anaphora.train(bare, **corpus)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="is no run of Anaphora"):
        train(tmp_path / "mine", text_files)


def test_a_folder_in_use(tmp_path: Path, text_files: dict[str, Path]) -> None:
    (tmp_path / "run").mkdir()
    with RunLock(tmp_path / "run"), pytest.raises(UserError, match="is in use by process"):
        train(tmp_path / "run", text_files)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "there is no text here"),
        (b"a\xff\n", ":1: byte 2 of this line (0xFF) is not UTF-8"),
        (None, "no such file"),
    ],
)
def test_text_that_is_none_leaves_no_folder(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "text").write_bytes(content)
    with pytest.raises(UserError) as error:
        anaphora.train(tmp_path / "run", text=tmp_path / "text")
    assert said in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_without_a_beginning(tmp_path: Path, text_files: dict[str, Path]) -> None:
    (tmp_path / "words").write_text("</s>\nthe\n")
    with pytest.raises(UserError, match=r"words: this vocabulary lacks <s>.*add the line <s>"):
        train(tmp_path / "run", text_files, settings={"tokenizer.words": str(tmp_path / "words")})
    (tmp_path / "words").write_text("<s>\n</s>\nthe\n")
    found = train(tmp_path / "run", text_files, settings={"tokenizer.words": str(tmp_path / "words")})
    assert found.vocabulary == 5 and found.unknown_tokens > 0
