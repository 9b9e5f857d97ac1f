"""The tab key: what is offered for values, and completion that is installed for a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def offered(say: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`offered("train --rec")`: what bash is given for the last of these words, which may be empty."""

    def ask(typed: str) -> list[str]:
        words = f"anaphora {typed}".split(" ")
        monkeypatch.setenv("_ANAPHORA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        answer = say()
        assert (answer.code, answer.err) == (0, "")
        return str(answer.out).split()

    return ask


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("train run --recipe ls", ["lstm"]),
        ("train run --recipe = ls", ["lstm"]),  # --recipe=ls, as bash parts it
        ("check --recipe backpack-m", ["backpack-micro", "backpack-mini"]),
        ("settings --recipe glo", ["glove"]),
        ("settings training.max_s", ["training.max_steps"]),
        ("settings mod", ["model", *()]),
        ("train run training.max_s", ["training.max_steps="]),
        ("train run training.metric =", ["loss", "gleu", "bleu", "chrf", "accuracy"]),
        ("train run training.metric = b", ["bleu"]),
        ("train run tokenizer.shared = ", ["true", "false"]),
        ("train run --recipe lstm model.hid", ["model.hidden="]),
        ("train run --recipe gnmt model.hid", []),
        ("train run --text x.txt model.smo", ["model.smoothing="]),
        ("compare out --set training.max_s", ["training.max_steps="]),
        ("compare out --recipes ngram,gr", ["ngram,gru"]),
        ("compare out --recipes ngram,lstm : model.hid", ["model.hidden="]),
        ("compare out --recipes lec", ["lectures"]),
        ("translate m --set no_rep", ["no_repeat_ngram="]),
        ("translate m --set split_sentences = ", ["auto", "always", "never"]),
        ("translate m --device c", ["cpu", "cuda"]),
        ("translate m --mbr ", ["chrf", "bleu", "gleu"]),
        ("map m --method t", ["tsne"]),
        ("walk as-", ["as-and-bs"]),
        ("train run --recipe nothing model.d", []),  # no error either
    ],
)
def test_values_are_offered(typed: str, expected: list[str], offered: Any) -> None:
    found = offered(typed)
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) or typed == "settings mod"


def test_models_are_offered_and_ways_to_them(offered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runs/lm", "runs/en-de", "deep/er/model", "with blank"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text("model:\n")
    for name in ("empty", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "small.arpa").write_text("")
    (tmp_path / "text.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    assert offered("generate ") == ["deep/", "runs/", "small.arpa"]
    for typed in ("generate runs/", "translate runs/", "mix out runs/", "translate m --with runs/", "why runs/"):
        assert offered(typed) == ["runs/en-de", "runs/lm"], typed
    assert offered("train next --from runs/e") == ["runs/en-de"]
    assert offered("translate runs/en-de t") == []  # a file of text: the shell knows files


def test_zsh_gets_whole_words(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ANAPHORA_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "anaphora train run training.metric=b")
    assert "training.metric=bleu" in say().out


def anaphora(words: list[str], home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "SHELL"} | {"HOME": str(home), **more}
    command = [sys.executable, "-m", "anaphora", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_named_shell_is_taken(tmp_path: Path) -> None:
    """Where no shell calls: from a script of an editor, or of a test."""
    done = anaphora(["--install-completion", "bash"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "bash completion installed in" in done.stdout
    script = tmp_path / ".bash_completions/anaphora.sh"
    assert str(script) in (tmp_path / ".bashrc").read_text()
    shown = anaphora(["--show-completion", "bash"], tmp_path)
    assert shown.returncode == 0
    assert shown.stdout.strip() == script.read_text().strip()
    assert "nospace" in shown.stdout


def test_a_shell_that_is_none_is_a_mistake(tmp_path: Path) -> None:
    done = anaphora(["--show-completion", "tcsh"], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("anaphora: 'tcsh' is no shell with completion; name one of bash, zsh, fish")


def test_bash_completes_with_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "anaphora").write_text(f'#!/bin/sh\nexec {sys.executable} -m anaphora "$@"\n')
    (tmp_path / "anaphora").chmod(0o755)
    (tmp_path / "lines.sh").write_text(anaphora(["--show-completion", "bash"], tmp_path).stdout)
    typed = "COMP_WORDS=(anaphora train run training.metric = b); COMP_CWORD=5"
    asked = f'source {tmp_path}/lines.sh; {typed}; _anaphora_completion {tmp_path}/anaphora; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
    assert done.stdout == "bleu\n", done.stderr
