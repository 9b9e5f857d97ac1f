"""A run that counts: the same command goes on after any kill, and what it makes is a model folder."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.folder import RunLock
from anaphora.models.ngram import counting as ngram_counting
from anaphora.models.ngram.counting import fit
from anaphora.models.ngram.model import NgramConfig
from anaphora.text.tokenizer import Tokenizer
from anaphora.training import counting

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
        if path.is_file() and path.name != ".lock":
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
    assert metrics["orders"][0] == metrics["vocabulary"] == len(tokenizer) == 4 + len(WORDS)
    grams = {
        tuple(["<s>", *line, "</s>"][at : at + 3]) for line in written for at in range(len(line)) if len(line) + 2 >= 3
    }
    assert metrics["orders"][2] == len(grams)
    assert len(metrics["discounts"]) == 3 and len(metrics["discounts"][1]) == 4
    assert metrics["vocabularies"] == {"text": tokenizer.vocabulary_fingerprint()}
    assert metrics["unknown_tokens"] == 0, "a literal <unk> is a word"
    fitted = fit(done / "data" / "train.ids", 13, NgramConfig(order=3), tmp_path / "trie", work=tmp_path / "work")
    assert fitted.sizes == metrics["orders"]
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
    from anaphora.config import read_yaml

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
    assert state(done) == before
    shutil.copy(files["text"], tmp_path / "same.txt")
    assert train(done, {**files, "text": tmp_path / "same.txt"}).reason == "it was finished already"


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


def in_a_child(work: Callable[[], object]) -> int:
    """Call it in a process of its own; the signal that ended that one, or 0."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory limit, however high, makes even a tiny text be counted on disk."""
    monkeypatch.setattr(ngram_counting, "memory_needed", lambda *_: 1 << 60)
    monkeypatch.setattr(ngram_counting, "room_within", lambda *_: 3_000)
    monkeypatch.setattr(counting, "compile_elsewhere", lambda: None)
    monkeypatch.setattr(counting, "give_back_what_is_freed", lambda: None)


DURABLE = ("fsync", "replace", "rename", "unlink", "link")


class Deadly:
    """Kills its process at the n-th of all the calls that make something last."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int) -> None:
        self.left = at
        for name in DURABLE:
            patch.setattr(os, name, self.wrap(getattr(os, name)))

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **more)

        return called


def moments() -> Iterator[int]:
    """1, 2, 3, … at first each, then further and further apart."""
    at = 1.0
    while True:
        yield int(at)
        at = max(at + 1, at * 1.25)


@pytest.mark.parametrize("on_disk", [False, True])
def test_killed_at_any_moment(
    tmp_path: Path,
    files: dict[str, Path],
    done: Path,
    spilling: None,
    monkeypatch: pytest.MonkeyPatch,
    on_disk: bool,
) -> None:
    settings = {"training.max_memory": "9GB"} if on_disk else {}
    ended = 0
    for at in moments():
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
    assert ended > 12


def test_killed_while_a_forced_change_is_made(
    tmp_path: Path, files: dict[str, Path], done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every moment the folder is the old model, the new one, or none: never a mixture of both."""
    settings = {"tokenizer.minimum_count": 40, "model.order": 2}
    train(tmp_path / "new", files, settings=settings)
    seen = set()
    for at in range(1, 80):
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
        ({"tokenizer.fallback": "bytes"}, "set tokenizer.fallback=unk"),
        ({"data.hold_out": 10}, "lines are to be held out"),
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


def test_a_folder_of_something_else(tmp_path: Path, micro: Path, files: dict[str, Path], done: Path) -> None:
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
