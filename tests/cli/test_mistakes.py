"""A user's own mistake: exit code 2, one sentence that says what and where and what to do, never a traceback.

Here are slips of the command line; damaged files, folders and disks are in test_hostile.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.average import apart
from forked import command
from micro_runs import MICRO, arguments

FAST = arguments(MICRO)


@pytest.fixture
def mistaken(say: Any) -> Any:
    """Run, check what all mistakes have in common, and give the sentence."""

    def run(*words: object) -> str:
        answer = say(*words)
        assert answer.code == 2, f"{answer.code}\n{answer.out}\n{answer.err}"
        assert "Traceback" not in answer.err
        assert answer.out == ""
        sentences = [line for line in answer.err.splitlines() if line.startswith("anaphora: ")]
        assert len(sentences) == 1, answer.err
        return sentences[0].removeprefix("anaphora: ")

    return run


@pytest.fixture
def train(mistaken: Any, corpus: dict[str, Path], tmp_path: Path) -> Any:
    files = ["--source", corpus["source"], "--target", corpus["target"], "--device", "cpu"]
    return lambda *words: mistaken("train", tmp_path / "run", *files, *words)


def test_missing_files(mistaken: Any, micro: Path, corpus: dict[str, Path], tmp_path: Path) -> None:
    said = mistaken("train", tmp_path / "run", "--source", tmp_path / "absent.en", "--target", corpus["target"], *FAST)
    assert said == f"{tmp_path / 'absent.en'}: there is no such file; check the path"
    near = corpus["source"].with_name("train.enn")
    assert "there is no such file; did you mean 'train.en'?" in mistaken("translate", micro, near)
    assert "no training text given; give --source FILE --target FILE" in mistaken("train", tmp_path / "run")
    assert "--target" in mistaken("train", tmp_path / "run", "--source", corpus["source"], *FAST)
    assert "give --source FILE" in mistaken("score", micro)
    assert "give --target FILE" in mistaken("evaluate", micro, "--source", corpus["source"])


def test_unknown_settings_name_the_nearest(train: Any, mistaken: Any, micro: Path, corpus: dict[str, Path]) -> None:
    assert (
        train("model.head=4")
        == "unknown setting model.head; did you mean 'heads'? `anaphora settings model` lists all of them"
    )
    assert "did you mean 'training'?" in train("trainig.seed=4")
    assert "'seed=4' is not a setting" in train("seed=4")
    said = mistaken("translate", micro, corpus["source"], "--set", "bean=4")
    assert said == "unknown setting decoding.bean; did you mean 'beam'? `anaphora settings decoding` lists all of them"


def test_unknown_recipe(train: Any, tmp_path: Path) -> None:
    assert train("--recipe", "tinny") == "there is no recipe 'tinny'; did you mean 'tiny'?"
    assert not (tmp_path / "run").exists()
    assert "there is no such recipe file" in train("--recipe", "mine.yaml")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("model.dim=wide", "model.dim must be a whole number, not 'wide'"),
        ("model.dim=33", "model: dim (33) must be a multiple of heads (2)"),
        ("model.norm=both", "model.norm cannot be 'both'"),
        ("training.learning_rate=fast", "training.learning_rate must be a number, not 'fast'"),
        ("training.max_steps=0", "training: max_steps must be above 0"),
        ("training.seed=true", "training.seed must be a whole number, not True"),
        ("tokenizer.shared=maybe", "tokenizer.shared must be true or false, not 'maybe'"),
        ("tokenizer.vocabulary=10", "tokenizer.vocabulary is 10"),
        ("model.tie=some", "model.tie cannot be 'some'"),
        ("model.kind=transformr", "unknown model.kind 'transformr'; did you mean 'transformer'?"),
        ("decoding.beam=0", "decoding: beam must be at least 1"),
    ],
)
def test_wrong_values(train: Any, word: str, said: str) -> None:
    assert said in train(*FAST, word)


def test_outputs_that_exist(mistaken: Any, say: Any, micro: Path, corpus: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    assert "already exists; choose another file or add --force" in mistaken(
        "translate", micro, corpus["source"], "--output", tmp_path / "out"
    )
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    assert "already exists" in mistaken("evaluate", micro, *files, "--output", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "precious"
    assert say("translate", micro, corpus["source"], "--output", tmp_path / "out", "--force").code == 0
    assert (tmp_path / "out").read_text() != "precious"
    assert "there is no such folder" in mistaken("translate", micro, corpus["source"], "--output", tmp_path / "a" / "b")
    assert "already exists" in mistaken("demo", "--write", tmp_path)


def test_text_that_is_not_utf8(mistaken: Any, micro: Path, tmp_path: Path) -> None:
    (tmp_path / "latin1").write_bytes("gut\nschön\n".encode("latin1"))
    said = mistaken("translate", micro, tmp_path / "latin1")
    assert said.startswith(f"{tmp_path / 'latin1'}:2: ")
    assert "iconv" in said
    done = command("translate", micro, input=b"gut\nsch\xf6n\n", encoding=None)
    assert done.returncode == 2
    assert b"stdin:2: is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_more_checkpoints_than_there_are(mistaken: Any, micro: Path, tmp_path: Path) -> None:
    run = shutil.copytree(micro, tmp_path / "run")
    assert "has only 2 checkpoints to average, not 5; use --last 2" in mistaken("average", run, "--last", 5)


def test_decoding_that_cannot_be(mistaken: Any, micro: Path, corpus: dict[str, Path]) -> None:
    assert "temperature must be above 0" in mistaken(
        "translate", micro, corpus["source"], "--sample", "--temperature", 0
    )
    assert "top_p must be" in mistaken("translate", micro, corpus["source"], "--sample", "--top-p", 1.5)
    long = "x" * 500
    assert "shorten it" in mistaken("translate", micro, corpus["source"], "--prefix", long)


def test_an_unknown_sacrebleu_tokeniser(mistaken: Any, micro: Path, corpus: dict[str, Path]) -> None:
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    assert "14a" in mistaken("evaluate", micro, *files, "--tokenize", "14a")


def test_unknown_verbs_and_options(say: Any) -> None:
    lists = "lists what there is"
    for words, said in (
        (["trian"], "no such command 'trian'; did you mean 'train'?"),
        (["train", "--sorce", "x"], "no such option: --sorce; did you mean "),
        (["info"], f"missing argument 'model'; `anaphora info --help` {lists}"),
        (
            ["translate", "m", "--beam", "x"],
            f"'--beam': it should be a valid integer; `anaphora translate --help` {lists}",
        ),
        (
            ["translate", "m", "--num-beams=x"],
            f"'--num-beams': it should be a valid integer; `anaphora translate --help` {lists}",
        ),
        (["info", "a", "b"], f"got unexpected extra argument(s) (b); `anaphora info --help` {lists}"),
        (["info", "--device"], f"option '--device' requires an argument; `anaphora info --help` {lists}"),
    ):
        answer = say(*words)
        assert answer.code == 2
        assert answer.err.startswith("anaphora: ") and answer.err.count("\n") == 1
        assert said in answer.err
        answer = say(words[0], "--json", *words[1:])
        assert said in json.loads(answer.last)["error"] and answer.code == 2


def test_text_in_the_place_of_a_file(mistaken: Any, micro: Path) -> None:
    answer = mistaken("translate", micro, "The dog sleeps.")
    cure = 'this takes the name of a file; text itself comes by stdin: echo "…" | anaphora …'
    assert answer == f"The dog sleeps.: there is no such file; {cure}"


def test_a_close_call_is_shown_with_the_digits_that_decide() -> None:
    assert (apart(5.59631, 5.59629), apart(5.59629, 5.59631)) == ("5.59631", "5.59629")
    assert (apart(5.5, 4.25), apart(1.0, 1.0)) == ("5.5000", "1.00000000000000000")
