"""A run that counts: the same command goes on after any kill, and what it makes is a model folder."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.config import read_yaml
from anaphora.errors import UserError
from anaphora.folder import RunLock
from anaphora.models.ngram import counting as ngram_counting
from anaphora.models.ngram.counting import fit
from anaphora.models.ngram.model import NgramConfig
from anaphora.text.tokenizer import Tokenizer
from anaphora.training import counting
from anaphora.training.settings import TrainingConfig
from deadly import Deadly, in_a_child

WORDS = ["the", "dog", "cat", "sees", "a", "runs", "Straße", ",", "<unk>"]


def lines(number: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, 8))) for _ in range(number)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    folder = tmp_path_factory.mktemp("text")
    found = {"text": folder / "train.txt", "valid_text": folder / "valid.txt"}
    found["text"].write_text("".join(f"{line}\n" for line in lines(300)), encoding="utf-8")
    found["valid_text"].write_text("the dog sees a whale\n\nthe cat runs\n", encoding="utf-8")
    return found


def train(folder: Path, files: dict[str, Path], **more: Any) -> counting.Counted:
    settings = {"model.order": 3, **more.pop("settings", {})}
    outcome = anaphora.train(folder, **files, settings=settings, **more)
    assert isinstance(outcome, counting.Counted)
    return outcome


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Path:
    """A finished run. Read only."""
    folder = tmp_path_factory.mktemp("done") / "run"
    train(folder, files)
    return folder


def model_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file of a folder: which one it is, when it was written, what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (".lock", ".owner.json"):
            found[str(path.relative_to(folder))] = (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
    return found


# -- what it makes -----------------------------------------------------------------------------------------------------


def test_a_model_folder(done: Path, tmp_path: Path) -> None:
    assert {path.name for path in done.iterdir()} == {
        ".lock",
        "card.md",
        "config.yaml",
        "data",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
    }
    metrics = json.loads((done / "metrics.json").read_text())
    tokenizer = Tokenizer.load(done / "tokenizer.json")
    written = [line.split() for line in lines(300)]
    assert metrics["lines"] == 300
    assert metrics["tokens"] == sum(len(line) + 1 for line in written)
    assert metrics["vocabulary"] == len(tokenizer) == 4 + len(WORDS)
    assert metrics["orders"][0] == 3 + len(WORDS)  # as an ARPA file has them: no padding
    assert anaphora.load(done).info()["ngrams"] == metrics["orders"]
    grams = {
        tuple(["<s>", *line, "</s>"][at : at + 3]) for line in written for at in range(len(line)) if len(line) + 2 >= 3
    }
    assert metrics["orders"][2] == len(grams)
    assert len(metrics["discounts"]) == 3 and len(metrics["discounts"][1]) == 4
    assert metrics["vocabularies"] == {"text": tokenizer.vocabulary_fingerprint()}
    assert metrics["unknown_tokens"] == 0, "a literal <unk> is a word"
    fitted = fit(done / "data" / "train.ids", 13, NgramConfig(order=3), tmp_path / "trie", work=tmp_path / "work")
    assert fitted.sizes[1:] == metrics["orders"][1:]
    assert (tmp_path / "trie").read_bytes() == model_of(done)


def test_what_it_says_of_its_validation_text_is_what_the_model_says(done: Path, files: dict[str, Path]) -> None:
    said = json.loads((done / "metrics.json").read_text())["validation"]
    found = anaphora.load(done).evaluate(files["valid_text"].read_text().splitlines()).document()
    for name in ("lines", "tokens", "unknown_tokens", "bytes", "perplexity", "perplexity_known", "bits_per_byte"):
        assert said[name] == pytest.approx(found[name], rel=1e-6), name
    assert (said["lines"], said["tokens"], said["unknown_tokens"]) == (3, 11, 1)
    assert said["bytes"] == files["valid_text"].stat().st_size
    card = (done / "card.md").read_text()
    assert f"| perplexity | {said['perplexity']:.2f} | 11 tokens" in card
    assert "each line is a text of its own" in card and "1 of 11" in card


def test_the_settings_say_what_means_something(done: Path) -> None:
    config = read_yaml(done / "config.yaml")
    assert config["model"]["kind"] == "ngram" and config["model"]["order"] == 3
    assert config["training"] == {"max_memory": None}
    assert config["data"]["boundaries"] == "lines" and "source" not in config["data"]


@pytest.mark.parametrize("boundaries", ["lines", "stream"])
def test_blank_lines_and_boundaries_are_obeyed_by_the_validation(
    tmp_path: Path, files: dict[str, Path], boundaries: str
) -> None:
    settings = {"data.boundaries": boundaries, "data.blank_lines": "drop"}
    found = train(tmp_path / "run", files, settings=settings).validation
    again = anaphora.load(tmp_path / "run").evaluate(files["valid_text"].read_text().splitlines()).document()
    assert found["perplexity"] == pytest.approx(again["perplexity"], rel=1e-6)
    assert (found["lines"], found["dropped_lines"], found["boundaries"]) == (2, 1, boundaries)


@pytest.mark.parametrize("kind", ["word", "character", "byte", "bpe", "unigram"])
@pytest.mark.parametrize("boundaries", ["lines", "stream"])
@pytest.mark.parametrize("limit", [None, "9GB"])
def test_a_run_measures_what_evaluate_does(tmp_path: Path, kind: str, boundaries: str, limit: str | None) -> None:
    """Bytes, tokens and probability of a validation text, whatever cuts it, joins its lines or drops some of them."""
    valid = ["the dog sees a whale", "", " \t", "the\u00a0cat  runs ", "Straße 龍", "a"]
    made = {"text": tmp_path / "text", "valid_text": tmp_path / "valid"}
    made["text"].write_text("".join(f"{line}\n" for line in lines(60)), encoding="utf-8")
    made["valid_text"].write_bytes("".join(f"{line}\r\n" for line in valid).encode())
    settings = {"tokenizer.kind": kind, "data.boundaries": boundaries, "training.max_memory": limit}
    settings |= {"tokenizer.vocabulary": 290} if kind in ("bpe", "unigram") else {}
    for blank_lines in ("keep", "drop"):
        folder = tmp_path / blank_lines
        said = train(folder, made, settings={**settings, "data.blank_lines": blank_lines}).validation
        found = anaphora.load(folder).evaluate(valid).document()
        for name in ("lines", "dropped_lines", "tokens", "unknown_tokens", "bytes"):
            assert said[name] == found[name], name
        for name in ("log_probability", "perplexity", "perplexity_known", "bits_per_byte"):
            assert said[name] == pytest.approx(found[name], rel=1e-6), name


def test_lines_held_out_are_measured(tmp_path: Path, files: dict[str, Path]) -> None:
    found = train(tmp_path / "run", {"text": files["text"]}, settings={"data.hold_out": 20})
    assert found.validation["lines"] == 20
    assert train(tmp_path / "other", {"text": files["text"]}).validation == {}, "by default nothing is held out"


# -- repeated, changed -------------------------------------------------------------------------------------------------


def test_a_finished_run_repeated_changes_nothing(done: Path, files: dict[str, Path], capsys: Any) -> None:
    from rich.console import Console

    before = state(done)
    outcome = train(done, files, console=Console(stderr=True))
    assert outcome.reason == "it was finished already"
    assert "is finished: the same text was counted with the same settings" in " ".join(capsys.readouterr().err.split())
    assert train(done, files, settings={"training.max_memory": "9GB"}).reason == "it was finished already"
    assert train(done, files, force=True).reason == "it was finished already"
    assert state(done) == before


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model.order": 2}, "model.order is 3 there and 2 now"),
        ({"model.smoothing": "add-k"}, "model.smoothing is 'kneser-ney' there and 'add-k' now"),
        ({"data.boundaries": "stream"}, "data.boundaries is 'lines' there and 'stream' now"),
        ({"tokenizer.minimum_count": 2}, "tokenizer.minimum_count is 1 there and 2 now"),
        ({"decoding.temperature": 0.5}, "decoding.temperature is 1.0 there and 0.5 now"),
    ],
)
def test_changed_settings_are_refused_by_name(
    done: Path, files: dict[str, Path], settings: dict[str, Any], said: str
) -> None:
    before = state(done)
    with pytest.raises(UserError) as error:
        train(done, files, settings=settings)
    assert said in str(error.value) and "--force" in str(error.value)
    assert state(done) == before


def test_changed_text_is_refused_by_name(done: Path, files: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("a dog\n")
    before = state(done)
    with pytest.raises(UserError, match="the text changed since"):
        train(done, {**files, "text": other})
    with pytest.raises(UserError, match="the validation text changed since"):
        train(done, {**files, "valid_text": other})
    with pytest.raises(UserError, match="add --force to take it as it is now"):
        train(done, {**files, "text": other})
    assert state(done) == before
    shutil.copy(files["text"], tmp_path / "same.txt")
    assert train(done, {**files, "text": tmp_path / "same.txt"}).reason == "it was finished already"


@pytest.mark.parametrize("smoothing", ["kneser-ney", "stupid-backoff"])
def test_the_card_says_what_does_not_sum_to_one(tmp_path: Path, files: dict[str, Path], smoothing: str) -> None:
    train(tmp_path / "run", {"text": files["text"]}, settings={"model.smoothing": smoothing, "model.prune": "0 0 1"})
    card = (tmp_path / "run" / "card.md").read_text()
    assert ("probabilities need not sum to one" in card) is (smoothing == "stupid-backoff")
    assert read_yaml(tmp_path / "run" / "config.yaml")["model"]["prune"] == [0, 0, 1]


def test_pruning_that_cannot_be_is_refused_before_the_text_is_read(tmp_path: Path) -> None:
    for prune, said in (([0, 0, 0, 1], "has 4 thresholds for order 3"), ("0 2 1", "falls"), (1, "begins with single")):
        with pytest.raises(UserError, match=said):
            train(tmp_path / "run", {"text": tmp_path / "nowhere.txt"}, settings={"model.prune": prune})


def test_forced_it_counts_again(done: Path, files: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(done, tmp_path / "run")
    train(folder, files, settings={"model.order": 2}, force=True)
    train(tmp_path / "fresh", files, settings={"model.order": 2})
    assert model_of(folder) == model_of(tmp_path / "fresh")
    assert model_of(folder) != model_of(done)
    used = train(folder, files, settings={"model.order": 2, "decoding.temperature": 0.5}, force=True)
    assert used.reason == "it was finished already", "how it is used is no reason to count again"
    assert "temperature: 0.5" in (folder / "config.yaml").read_text()


# -- killed ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory limit, however high, makes even a tiny text be counted on disk."""
    monkeypatch.setattr(ngram_counting, "memory_needed", lambda *_: 1 << 60)
    monkeypatch.setattr(ngram_counting, "room_within", lambda *_: 12_000)
    monkeypatch.setattr(counting, "compile_elsewhere", lambda: None)
    monkeypatch.setattr(counting, "give_back_what_is_freed", lambda: None)


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that the system has taken: forcing it onto the disk is for power cuts."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def moments(growth: float) -> Iterator[int]:
    """1, 2, 3, … at first each, then further and further apart."""
    at = 1.0
    while True:
        yield int(at)
        at = max(at + 1, at * growth)


@pytest.mark.usefixtures("no_waiting_for_the_disk")
@pytest.mark.parametrize("growth", [1.5, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("on_disk", [False, True])
def test_killed_at_any_moment(
    tmp_path: Path,
    files: dict[str, Path],
    done: Path,
    spilling: None,
    monkeypatch: pytest.MonkeyPatch,
    on_disk: bool,
    growth: float,
) -> None:
    settings = {"training.max_memory": "9GB"} if on_disk else {}
    ended = 0
    for at in moments(growth):
        folder = tmp_path / str(at)

        def attempt(folder: Path = folder, at: int = at) -> None:
            Deadly(monkeypatch, at)
            train(folder, files, settings=settings)

        killed = in_a_child(attempt)
        if (folder / "model.safetensors").exists():  # a model at every moment, or none
            assert model_of(folder) == model_of(done)
            assert anaphora.load(folder).evaluate(["the dog"]).tokens == 3
        assert train(folder, files, settings=settings).tokens > 0
        assert model_of(folder) == model_of(done)
        assert not (folder / "counting").exists() and not list(folder.rglob(".unfinished*"))
        if killed == 0:
            break
        assert killed == -signal.SIGKILL
        ended += 1
        shutil.rmtree(folder)
    assert ended > 5


@pytest.fixture
def unfinished(tmp_path: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was killed when it had read its text and begun to count."""
    with monkeypatch.context() as patch:
        patch.setattr(counting, "fit", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        assert in_a_child(lambda: train(tmp_path / "run", files)) == -signal.SIGKILL
    return tmp_path / "run"


def test_an_unfinished_run_refuses_other_settings_and_another_text(
    unfinished: Path, files: dict[str, Path], done: Path, tmp_path: Path, capsys: Any
) -> None:
    from rich.console import Console

    console = Console(stderr=True, width=500)
    before = state(unfinished)
    with pytest.raises(UserError, match=r"an unfinished run.*: model.order is 3 there and 2 now.*--force"):
        train(unfinished, files, settings={"model.order": 2}, console=console)
    with pytest.raises(UserError, match=r"tokenizer.minimum_count is 1 there and 2 now"):
        train(unfinished, files, settings={"tokenizer.minimum_count": 2})
    other = tmp_path / "other.txt"
    other.write_text("another text\n")
    with pytest.raises(UserError, match=r"the text changed.*--force"):
        train(unfinished, {**files, "text": other}, console=console)
    said = capsys.readouterr().err
    assert "was killed; what it saved is still there" in said and "going on" not in said
    assert state(unfinished) == before
    train(unfinished, files, settings={"decoding.temperature": 0.5, "training.max_memory": None}, console=console)
    assert "unfinished run; going on" in capsys.readouterr().err
    assert model_of(unfinished) == model_of(done)


def test_an_unfinished_run_forced_says_what_is_discarded(
    unfinished: Path, files: dict[str, Path], tmp_path: Path, capsys: Any
) -> None:
    from rich.console import Console

    other = tmp_path / "other.txt"
    other.write_text("another text\n" * 3)
    files = {**files, "text": other}
    train(unfinished, files, settings={"model.order": 2}, force=True, console=Console(stderr=True, width=500))
    said = capsys.readouterr().err
    assert "changed model.order: 3 → 2" in said and "another text: what was saved is discarded" in said
    train(tmp_path / "fresh", files, settings={"model.order": 2})
    assert model_of(unfinished) == model_of(tmp_path / "fresh")


def test_a_validation_text_comes_too_late(tmp_path: Path, files: dict[str, Path]) -> None:
    train(tmp_path / "run", {"text": files["text"]})
    with pytest.raises(UserError, match=r"counted without a validation text.*anaphora evaluate .*--force"):
        train(tmp_path / "run", files)


@pytest.mark.usefixtures("no_waiting_for_the_disk")
@pytest.mark.parametrize("apart", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_while_a_forced_change_is_made(
    tmp_path: Path, files: dict[str, Path], done: Path, monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    """At every moment the folder is the old model, the new one, or none: never a mixture of both."""
    settings = {"tokenizer.minimum_count": 40, "model.order": 2}
    train(tmp_path / "new", files, settings=settings)
    seen = set()
    for at in range(1, 80, apart):
        folder = shutil.copytree(done, tmp_path / "run", dirs_exist_ok=False)

        def attempt(folder: Path = folder, at: int = at) -> None:
            Deadly(monkeypatch, at)
            train(folder, files, settings=settings, force=True)

        killed = in_a_child(attempt)
        if (folder / "model.safetensors").exists():
            loaded = anaphora.load(folder)
            which = done if loaded.config.model.order == 3 else tmp_path / "new"
            assert model_of(folder) == model_of(which)
            assert (folder / "tokenizer.json").read_bytes() == (which / "tokenizer.json").read_bytes()
            seen.add(which)
        train(folder, files, settings=settings, force=True)
        assert model_of(folder) == model_of(tmp_path / "new")
        shutil.rmtree(folder)
        if killed == 0:
            break
    assert killed == 0 and seen == {done, tmp_path / "new"}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [[], ["training.max_memory=250MB"]])
def test_a_process_killed_now_and_then(tmp_path: Path, limit: list[str]) -> None:
    draw = np.random.default_rng(0)
    numbers = draw.zipf(1.3, 600_000) % 20_000
    text = "\n".join(" ".join(f"w{n}" for n in numbers[at : at + 12]) for at in range(0, len(numbers), 12)) + "\n"
    (tmp_path / "text").write_text(text)

    def command(name: str) -> list[str]:
        return [sys.executable, "-m", "anaphora", "train", str(tmp_path / name), "--text", str(tmp_path / "text"), "-q"]

    subprocess.run(command("whole"), check=True, timeout=300)
    moment = random.Random(1)
    for _ in range(8):
        process = subprocess.Popen([*command("run"), *limit])
        try:
            process.wait(moment.uniform(0.5, 5))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    subprocess.run([*command("run"), *limit], check=True, timeout=300)
    assert model_of(tmp_path / "run") == model_of(tmp_path / "whole")
    if limit:
        cost = json.loads((tmp_path / "run" / "metrics.json").read_text())["cost"]
        assert cost["peak_memory"] <= 250e6


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
        ({"data.hold_out": 10}, "lines are to be held out"),
        ({"model.k": 7}, "model.k means nothing without model.smoothing=add-k; leave it out, or choose that"),
        ({"model.backoff": 0.1}, "model.backoff means nothing without model.smoothing=stupid-backoff"),
        ({"model.smoothing": "add-k", "model.backoff": 0.1}, "model.backoff means nothing without"),
        ({"tokenizer.kind": "byte", "tokenizer.vocabulary": 1000}, "kind is byte, whose vocabulary is the bytes"),
        ({"tokenizer.kind": "byte", "tokenizer.minimum_count": 2}, "kind is byte, whose vocabulary is the bytes"),
        *(
            ({f"decoding.{name}": value}, f"decoding.{name} means nothing for a model of kind ngram; of that section")
            for name, value in {"beam": 3, "sample": True, "n_best": 2, "max_length": 9, "batch_tokens": 9}.items()
        ),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, files: dict[str, Path], settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        train(tmp_path / "run", files, settings=settings)
    assert said in str(error.value)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_the_wrong_sort_of_text(tmp_path: Path, files: dict[str, Path], corpus: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=r"ngram is a language model and learns from plain text.*give --text"):
        anaphora.train(tmp_path / "run", **corpus, recipe="ngram")
    with pytest.raises(UserError, match="transformer learns translations; for --text use --recipe ngram"):
        anaphora.train(tmp_path / "run", **files, recipe="transformer")
    with pytest.raises(UserError, match="both text and pairs are given"):
        anaphora.train(tmp_path / "run", **files, **corpus)
    with pytest.raises(UserError, match=r"data\.boundaries means nothing for a model of kind transformer"):
        anaphora.train(tmp_path / "run", **corpus, settings=["data.boundaries=stream"])
    with pytest.raises(UserError, match=r"training\.max_memory means nothing for a model of kind transformer"):
        anaphora.train(tmp_path / "run", **corpus, settings=["training.max_memory=2GB"])
    with pytest.raises(UserError, match="an n-gram model starts from nothing"):
        anaphora.train(tmp_path / "run", **files, start_from=tmp_path)
    with pytest.raises(UserError, match="on the CPU, not on cuda"):
        anaphora.train(tmp_path / "run", **files, device="cuda")
    assert not (tmp_path / "run").exists()


def test_a_folder_of_something_else(
    tmp_path: Path, micro: Path, files: dict[str, Path], corpus: dict[str, Path], done: Path
) -> None:
    translator = shutil.copytree(micro, tmp_path / "translator")
    before = state(translator)
    with pytest.raises(UserError, match="holds a model of kind transformer"):
        train(translator, files, force=True)
    assert state(translator) == before
    bare = shutil.copytree(done, tmp_path / "bare")
    shutil.rmtree(bare / "data")
    assert train(bare, files).reason == "all lines are counted"
    assert model_of(bare) == model_of(done)
    shutil.rmtree(bare / "data")
    (bare / "metrics.json").unlink()
    with pytest.raises(UserError, match="holds a model that was not counted there"):
        train(bare, files, force=True)
    with pytest.raises(UserError, match="holds a model of kind ngram; choose another folder"):
        anaphora.train(bare, **corpus)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="is no run of Anaphora"):
        train(tmp_path / "mine", files)


def test_a_folder_in_use(tmp_path: Path, files: dict[str, Path]) -> None:
    (tmp_path / "run").mkdir()
    with RunLock(tmp_path / "run"), pytest.raises(UserError, match="is in use by process"):
        train(tmp_path / "run", files)


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


def test_a_vocabulary_without_a_beginning(tmp_path: Path, files: dict[str, Path]) -> None:
    (tmp_path / "words").write_text("</s>\nthe\n")
    with pytest.raises(UserError, match=r"words: this vocabulary lacks <s>.*add the line <s>"):
        train(tmp_path / "run", files, settings={"tokenizer.words": str(tmp_path / "words")})
    (tmp_path / "words").write_text("<s>\n</s>\nthe\n")
    found = train(tmp_path / "run", files, settings={"tokenizer.words": str(tmp_path / "words")})
    assert found.vocabulary == 5 and found.unknown_tokens > 0


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("500MB", 500_000_000),
        ("500MiB", 500 << 20),
        ("1.5 GiB", 3 << 29),
        ("2g", 2_000_000_000),
        ("9kib", 9 << 10),
        ("7", 7),
    ],
)
def test_how_much_a_limit_is(said: str, size: int) -> None:
    assert TrainingConfig(max_memory=said).memory_limit() == size


def test_the_settings_of_a_folder_are_a_recipe(done: Path, files: dict[str, Path], tmp_path: Path) -> None:
    """What a run saves says nothing that a run would refuse."""
    recipe = tmp_path / "mine.yaml"
    saved = read_yaml(done / "config.yaml")
    assert "k" not in saved["model"] and "beam" not in saved["decoding"]
    text = (done / "config.yaml").read_text(encoding="utf-8")
    recipe.write_text("\n".join(line for line in text.splitlines() if not line.startswith("anaphora_format")))
    train(tmp_path / "run", files, recipe=str(recipe))
    assert model_of(tmp_path / "run") == model_of(done)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_nothing_heavy_is_loaded(tmp_path: Path, files: dict[str, Path]) -> None:
    program = (
        "import sys; from anaphora.cli.main import main\n"
        "try: main()\n"
        "finally: print([name for name in ('torch', 'pyarrow', 'transformers', 'pandas') if name in sys.modules])"
    )
    words = ["train", tmp_path / "run", "--text", files["text"], "--valid-text", files["valid_text"], "model.order=2"]
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_limit_that_did_not_hold_is_told(
    tmp_path: Path, files: dict[str, Path], capsys: Any, monkeypatch: Any
) -> None:
    from rich.console import Console

    monkeypatch.setattr(counting, "peak_resident", lambda: 9_100_000_000)
    for number, (limit, told) in enumerate([("9GB", True), ("9.2GB", False), (None, False)]):
        train(tmp_path / str(number), files, settings={"training.max_memory": limit}, console=Console(stderr=True))
        said = "warning: the run took 9,100 MB at its peak, more than training.max_memory (9,000 MB)"
        assert (said in " ".join(capsys.readouterr().err.split())) == told


VALIDATED = """
import json, sys
from pathlib import Path
import anaphora
folder, limit, boundaries = sys.argv[1:]
done = anaphora.train(Path(folder) / boundaries, text=Path(folder) / "text", valid_text=Path(folder) / "valid",
    settings={"model.order": 3, "training.max_memory": limit, "data.boundaries": boundaries})
print(json.dumps({"peak": done.peak_memory, **done.validation}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is measured as Linux does it")
@pytest.mark.parametrize("boundaries", ["lines", "stream"])
def test_a_validation_text_larger_than_the_limit(tmp_path: Path, boundaries: str) -> None:
    limit = 220_000_000
    block = "".join(f"{line}\n" for line in lines(20_000))
    (tmp_path / "text").write_text(block, encoding="utf-8")
    copies = limit // len(block.encode()) + 1
    with (tmp_path / "valid").open("w", encoding="utf-8") as file:
        for _ in range(copies):
            file.write(block)
    command = [sys.executable, "-c", VALIDATED, str(tmp_path), str(limit), boundaries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["lines"] == 20_000 * copies and found["bytes"] > limit
    assert found["peak"] < limit
