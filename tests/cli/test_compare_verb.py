"""`anaphora compare`: a table that fits a terminal, an exit code that tells, mistakes that are said before any work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from anaphora.comparing import running
from anaphora.folder import read_metrics
from anaphora.models.weights import read_weights
from forked import Interpreters
from micro_runs import pairs, write_pairs

MICRO = ["tokenizer.vocabulary=300", "model.dim=16", "model.hidden=16", "training.batch_tokens=128"]
MICRO += ["training.context=16", "training.checkpoint_every=4", "training.samples=0", "training.log_every=1"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("".join(f"{line}\n" for line, _ in pairs(400, 3)), encoding="utf-8")
    return file


def test_counted_rows_in_a_table_of_80_columns(
    say: Any, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "subprocess", Interpreters())
    words = ["--text", text, "--recipes", "bigram,unigram", "--set", "tokenizer.vocabulary=300"]
    answer = say("compare", tmp_path / "out", *words)
    assert answer.code == 0, answer.err
    head, bigram, unigram, *notes = answer.out.splitlines()
    assert head.split()[:2] == ["bits/byte", "perplexity"]
    assert float(unigram.split()[1]) > float(bigram.split()[1]) > 0
    assert all(len(line) <= 80 for line in answer.out.splitlines())
    assert any("held-out lines" in note for note in notes)
    assert "reads the text once" in answer.err and "report.md" in answer.err
    again = say("compare", tmp_path / "out", *words, "--json", "--quiet")
    document = json.loads(again.last)
    assert (again.code, again.err) == (0, "") and len(again.out.splitlines()) == 1
    assert [row["state"] for row in document["rows"]] == ["finished"] * 2 and document["exit_code"] == 0
    assert f"{document['rows'][0]['bits_per_byte']:.3f}" == bigram.split()[1]
    assert document["best"] == "bigram" and answer.err.rstrip().endswith("generate " + document["rows"][0]["folder"])
    assert f"- best by bits/byte: bigram ({bigram.split()[1]})" in notes


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--recipes", "lsmt"], "there is no recipe 'lsmt'; did you mean 'lstm'"),
        (["--recipes", "small"], "small learns translations"),
        (["--recipes", "bert"], "guesses words from both sides"),
        (["--recipes", ""], "no recipes to compare"),
        (["--recipes", "lstm,lstm"], "the row lstm is asked for twice"),
        (["--recipes", "lstm:data.seed=3"], "all rows share their text"),
        (["--recipes", "lstm:model.dmi=3"], "unknown setting model.dmi; did you mean 'dim'"),
        (["--budget", "token=3"], "did you mean 'tokens'"),
        (["--recipes", "bigram", "--set", "training.seed=3"], "training.seed means nothing to any row"),
        (["--set", "data.hold_out=0"], "no text is held out to measure on"),
        (["--set", "data.boundaries=packed"], "not all rows can have that"),
        (["--jobs", "0"], "--jobs 0 runs nothing"),
        (["--published"], "the published table is of translators"),
        (["--recipes", "lstm", "--budget", "minutes=1", "--set", "training.epochs=2"], "both say how far to go"),
        (["--test-text", "nowhere.txt"], "there is no such file"),
    ],
)
def test_mistakes_are_said_and_nothing_is_made(
    say: Any, text: Path, tmp_path: Path, words: list[str], says: str
) -> None:
    answer = say("compare", tmp_path / "out", "--text", text, *words)
    assert answer.code == 2 and says in answer.err
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--recipes", "gnmt,lstm"], "row lstm: lstm is a language model and learns from plain text, not from pairs"),
        (["--recipes", "skipgram"], "word vectors are learned from plain text"),
        (["--recipes", "gnnt"], "there is no recipe 'gnnt'; did you mean 'gnmt'"),
        (["--recipes", "gnmt+rl+posunk"], "let it come first: gnmt+posunk+rl"),
        (["--recipes", "gnmt:data.seed=3"], "all rows share their text"),
        (["--recipes", "bytenet:tokenizer.kind=bpe"], "bytenet translates letter by letter"),
        (["--recipes", "bytenet", "--set", "tokenizer.vocabulary=300"], "each of these has its own"),
        (["--recipes", "moe:model.experts_per_token=9,model.experts=4"], "experts"),
        (["--text", "TEXT"], "both text and pairs are given"),
        (["--test-text", "TEXT"], "both text and pairs are given"),
        (["--budget", "tokens=0"], "leaves nothing to spend"),
        (["--budget", "flops=1"], "less than one token costs"),
        (["--budget", "minutes=1", "--set", "training.epochs=2"], "both say how far to go"),
        (["--set", "data.hold_out=0"], "no pairs are held out to measure on"),
        (["--set", "data.source=x"], "give --source FILE"),
        (["--set", "model.order=2"], "model.order means nothing to any row"),
        (["--test-source", "TEXT"], "has no target text beside it"),
        (["--valid-source", "TEXT", "--valid-target", "nowhere.de"], "there is no such file"),
    ],
)
def test_mistakes_about_translators_are_said_in_one_sentence(
    say: Any, text: Path, tmp_path: Path, words: list[str], says: str
) -> None:
    files = [f"--{side}={file}" for side, file in write_pairs(tmp_path / "pairs", 40).items()]
    answer = say("compare", tmp_path / "out", *files, *(text if word == "TEXT" else word for word in words))
    assert answer.code == 2 and says in answer.err and len(answer.err.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "runs").exists()


def test_a_text_without_a_word_is_named(say: Any, tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n\n")
    answer = say("compare", tmp_path / "out", "--text", tmp_path / "blank.txt")
    assert answer.code == 2 and "blank.txt: there is no text here" in answer.err


def test_a_folder_of_something_else_is_left_alone(say: Any, text: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "report.json").write_text("{}")
    (tmp_path / "file").write_text("mine")
    answer = say("compare", tmp_path / "thesis", "--text", text)
    assert answer.code == 2 and "exists and is no comparison" in answer.err
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["report.json"]
    answer = say("compare", tmp_path / "file", "--text", text)
    assert answer.code == 2 and "is a file, not a folder" in answer.err
    answer = say("compare", tmp_path / "new")
    assert answer.code == 2 and "no training text given" in answer.err


def start(out: Path, text: Path) -> subprocess.Popen[bytes]:
    words = ["compare", str(out), "--text", str(text), "--recipes", "bigram,gru", "--budget", "tokens=30000"]
    words += ["--no-estimate", "--device", "cpu", *(word for one in MICRO for word in ("--set", one))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "anaphora", *words], env=environment, stderr=subprocess.PIPE)


def wait_for_rows(out: Path) -> None:
    """Those of a comparison that was killed are still saving, each with its lock."""
    for lock in out.glob("runs/*/.lock"):
        with FileLock(lock, timeout=60):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_interrupted_and_repeated_it_ends_as_if_it_had_not_been(
    text: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    first = start(out, text)
    until = time.monotonic() + 120
    while not list(out.glob("runs/gru/checkpoints/step-*")):
        assert first.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    first.send_signal(number)
    _, said = first.communicate(timeout=120)
    assert first.returncode == (130 if number == signal.SIGINT else -number), said
    bigram = (out / "runs" / "bigram" / "model.safetensors").stat().st_mtime_ns
    wait_for_rows(out)
    for folder in (out, whole):
        again = start(folder, text)
        _, said = again.communicate(timeout=300)
        assert again.returncode == 0, said
    assert (out / "runs" / "bigram" / "model.safetensors").stat().st_mtime_ns == bigram
    mine, unbroken = (read_weights(folder / "runs" / "gru" / "model.safetensors") for folder in (out, whole))
    assert all((mine[name] == unbroken[name]).all() for name in unbroken)
    assert read_metrics(out / "runs" / "gru")["validation"] == read_metrics(whole / "runs" / "gru")["validation"]


@pytest.mark.slow
def test_translators_killed_in_the_middle_and_repeated_end_as_if_nothing_had_been(tmp_path: Path) -> None:
    files = [f"--{side}={file}" for side, file in write_pairs(tmp_path / "pairs", 200).items()]
    own = ["tokenizer.vocabulary=300", "model.dim=16", "model.layers=1", "training.max_steps=400"]
    own += [
        "training.batch_tokens=256",
        "training.checkpoint_every=40",
        "training.warmup_steps=1",
        "training.patience=0",
    ]
    words = [*files, "--recipes=luong,luong+ensemble2", "--jobs=2", "--no-estimate", "--device=cpu"]
    words += [f"--set={one}" for one in own]

    def begin(out: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "anaphora", "compare", str(out), *words, "--json", "-q"]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    first, until = begin(tmp_path / "out"), time.monotonic() + 120
    while not list(tmp_path.glob("out/runs/luong-seed2/checkpoints/step-*")):
        assert first.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    first.kill()
    first.communicate(timeout=60)
    wait_for_rows(tmp_path / "out")
    rows = []
    for folder in (tmp_path / "out", tmp_path / "whole"):
        again = begin(folder)
        told, said = again.communicate(timeout=300)
        assert again.returncode == 0, said
        document = json.loads(told.splitlines()[-1])
        kept = ("name", "bleu", "chrf", "loss", "flops", "tokens", "steps", "seeds")
        rows.append([{key: row[key] for key in kept} for row in document["rows"] + document["parts"]])
    assert rows[0] == rows[1] and [row["name"] for row in rows[0]] == ["luong", "luong+ensemble2", "luong-seed2"]
