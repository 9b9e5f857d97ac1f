"""`--model my_model.py`, verb by verb: a system of one's own at the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.app import app
from anaphora.models import registry
from anaphora.nn.encoder_settings import ENCODERS
from micro_runs import arguments

FILE = Path(__file__).parents[2] / "docs" / "examples" / "my_model.py"
RUN: dict[str, Any] = {
    "model.dim": 16,
    "model.heads": 2,
    "tokenizer.vocabulary": 300,
    "training.max_steps": 1,
    "training.samples": 0,
    "decoding.max_length_ratio": 1.0,
    "decoding.max_length_extra": 4,
}
OPENING = ("translate", "generate", "fill", "score", "evaluate", "classify", "encode", "align", "walk", "why", "info",
           "average", "mix")  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    registry._registered().clear()
    ENCODERS.registered.clear()


@pytest.fixture
def trained(say: Any, corpus: dict[str, Path], tmp_path: Path) -> Path:
    run = tmp_path / "run"
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    done = say("train", run, *files, "--model", FILE, "--device", "cpu", "--set", "model.layers=1", *arguments(RUN))
    assert done.code == 0, done.err
    assert f"translate {run} input.txt --model {FILE}" in " ".join(done.err.split())  # what is told next works as it is
    registry._registered().clear()
    return run


def test_every_verb_that_opens_a_folder_has_the_option() -> None:
    taken = {info.callback.__name__ for info in app.registered_commands if info.callback is not None}  # type: ignore[union-attr]
    assert set(OPENING) <= taken
    import inspect

    for info in app.registered_commands:
        assert info.callback is not None
        name, parameters = info.callback.__name__, inspect.signature(info.callback).parameters
        assert ("model_files" in parameters) == (name in OPENING), name


def test_a_translator_of_ones_own(trained: Path, say: Any, corpus: dict[str, Path], tmp_path: Path) -> None:
    refused = say("translate", trained, corpus["source"])
    assert refused.code == 2 and refused.err.strip() == (
        f"anaphora: {trained}: its system, rwkv-translator, came from a file, my_model.py, and a model folder holds no "
        "code; name that file: --model my_model.py"
    )
    done = say("translate", trained, corpus["source"], "--model", FILE, "--beam", "2", "--json")
    assert done.code == 0 and len(json.loads(done.last)["translations"]) == 20
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    for verb in ("align", "score", "evaluate"):
        done = say(verb, trained, *files, "--model", FILE)
        assert done.code == 0 and done.out, (verb, done.err)
    done = say("info", trained, "--model", FILE, "--json")
    assert json.loads(done.last)["kind"] == "rwkv-translator"
    changed = tmp_path / "changed.py"
    changed.write_bytes(FILE.read_bytes() + b"# changed\n")
    registry._registered().clear()
    done = say("info", trained, "--model", changed)
    assert done.code == 0 and done.err.count("warning: ") == 1 and "and changed.py is another one now" in done.err
    assert not say("info", trained, "--model", changed, "--quiet").err


def test_settings_of_ones_own_are_listed(say: Any) -> None:
    done = say("settings", "model.heads", "--model", f"{FILE}:rwkv")
    assert done.code == 0 and "model.heads  whole number; default 4" in done.out and "Memories of a block" in done.out
    refused = say("settings", "model", "--model", FILE)
    assert (
        refused.code == 2
        and f"registers 2 systems: rwkv, rwkv-translator; say which one: --model {FILE}:rwkv" in refused.err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "model.haeds=2"], "unknown setting model.haeds; did you mean 'heads'?"),
        (["model.heads=many"], "model.heads must be a whole number, not 'many'"),
        (["--recipe", "luong"], "registers rwkv, rwkv-translator, and luong has nothing of that"),
        (["model.heads=3", "model.dim=16"], "dim (16) must be a multiple of heads (3)"),
    ],
)
def test_mistakes_are_told(words: list[str], said: str, say: Any, corpus: dict[str, Path], tmp_path: Path) -> None:
    files = ["--source", corpus["source"], "--target", corpus["target"]]
    done = say("train", tmp_path / "run", *files, "--model", FILE, "--device", "cpu", *words)
    assert done.code == 2 and said in done.err and "Traceback" not in done.err


def test_what_goes_wrong_in_the_file_while_it_learns_is_told_by_its_line(
    say: Any, corpus: dict[str, Path], tmp_path: Path
) -> None:
    file, files = tmp_path / "mine.py", ["--source", corpus["source"], "--target", corpus["target"]]
    file.write_text(FILE.read_text().replace("nn.Linear(2 * dim, dim)", "nn.Linear(3 * dim, dim)"))
    done = say("train", tmp_path / "run", *files, "--model", file, "--device", "cpu", *arguments(RUN))
    line = 1 + file.read_text()[: file.read_text().index("torch.tanh(self.join")].count("\n")
    assert done.code == 2 and "Traceback" not in done.err
    assert f"mine.py:{line}: RuntimeError: mat1 and mat2 shapes cannot be multiplied" in done.err


def test_help_is_not_slowed_down() -> None:
    code = "import sys; from anaphora.cli.app import app; print({'torch', 'anaphora.models'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
