"""Standard streams in every state, and what a terminal would obey instead of showing it."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.output import Output, json_line
from anaphora.cli.streams import Steadfast
from anaphora.errors import printable
from ngram_folders import ngram_folder

ESCAPES = "\x1b]0;owned\x07\x9b31m"
SHOWN = r"\x1b]0;owned\x07\x9b31m"

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ngram_folder(tmp_path_factory.mktemp("counted") / "model")


@needs_dev_full
def test_a_full_disk_behind_stderr_stops_neither_training_nor_translation(
    micro: Path, corpus: dict[str, Path], tmp_path: Path, say: Any
) -> None:
    plain = say("translate", micro, corpus["source"], "--beam", 1)
    translate, train = ["translate", micro, corpus["source"], "--beam", 1], ["train", tmp_path / "run", "--text"]
    for words, out in ((translate, plain.out), ([*train, corpus["source"]], "")):
        with pytest.MonkeyPatch.context() as patch, open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123
            patch.setattr(sys, "stderr", full)
            answer = say(*words)
        assert (answer.code, answer.out) == (0, out)
    assert (tmp_path / "run" / "model.safetensors").exists()


@needs_dev_full
def test_progress_that_cannot_be_written_is_forgotten() -> None:
    stream = Steadfast(io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True))  # type: ignore[arg-type]
    with pytest.raises(OSError):
        stream.stream.write("x")
    assert stream.write("x" * 100_000) == 100_000
    stream.flush()


def in_a_child(closed: tuple[int, ...], words: list[object], folder: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command that is started with these streams closed."""
    from anaphora.cli.main import main

    child = os.fork()
    if child == 0:
        code: Any = 1
        try:
            for number, name in enumerate(("in", "out", "err")):
                with (folder / name).open("a+b") as file:
                    os.dup2(file.fileno(), number)
                stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
                setattr(sys, f"std{name}", None if number in closed else stream)
                setattr(sys, f"__std{name}__", getattr(sys, f"std{name}"))
            for number in closed:
                os.close(number)
            sys.argv = ["anaphora", *map(str, words)]
            main()
        except SystemExit as ended:
            code = ended.code
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), (folder / "out").read_text(), (folder / "err").read_text()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("words", "closed", "code", "said"),
    [
        (["info", "MODEL"], (1,), 2, "stdout: the system refused (Bad file descriptor); it is closed;"),
        (["info", "MODEL"], (1, 2), 2, ""),
        (["info", "MODEL", "--json"], (0, 2), 0, ""),
        (["score", "MODEL", "--text", "-"], (0,), 2, "stdin: cannot be read (Bad file descriptor); it is closed;"),
        (["translate", "MICRO", "TEXT"], (1,), 2, "stdout: the system refused (Bad file descriptor); it is closed;"),
        (["translate", "MICRO"], (0,), 2, "stdin: cannot be read (Bad file descriptor); it is closed;"),
        (["info", "nowhere"], (0, 1, 2), 2, ""),
        (["train", "RUN", "--text", "TEXT"], (0, 1, 2), 0, ""),
    ],
)
def test_closed_streams(
    words: list[str], closed: tuple[int, ...], code: int, said: str,
    counted: Path, micro: Path, corpus: dict[str, Path], tmp_path: Path,
) -> None:  # fmt: skip
    places = {"MODEL": counted, "MICRO": micro, "TEXT": corpus["source"], "RUN": tmp_path / "run"}
    ended, out, err = in_a_child(closed, [places.get(word, word) for word in words], tmp_path)
    assert ended == code, err
    assert "Traceback" not in err
    assert err.count("anaphora: ") == bool(said) and said in err
    assert (tmp_path / "run" / "model.safetensors").exists() == (words[0] == "train")
    assert bool(out) == ("--json" in words)


def test_control_characters_are_shown_and_scripts_are_left_alone() -> None:
    assert printable(f"a{ESCAPES}\n\udcff") == f"a{SHOWN}" + r"\n\udcff"
    text = "a\tb\nমৃ\u200d \u202bعربي\u202c 👩\u200d🚒\u00ad"
    assert printable(text, lines=True) == text
    assert printable(f"a\n{ESCAPES}\r", lines=True) == f"a\n{SHOWN}\\r"


def test_json_holds_no_control_characters_and_the_same_text() -> None:
    document = {"text": f"{ESCAPES}\x7f\u2028\udcff ü"}
    line = json_line(document)
    assert line.isprintable()
    assert json.loads(line) == document


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_text_is_raw_in_a_pipe_and_visible_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Output(as_json=False, quiet=False)
    for stream, shown in ((io.StringIO(), f"ü\t{ESCAPES}\n"), (Terminal(), f"ü\t{SHOWN}\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        out.text(f"ü\t{ESCAPES}")
        assert stream.getvalue() == shown


def test_what_a_foreign_model_says_of_itself_is_shown(counted: Path, micro: Path, say: Any, tmp_path: Path) -> None:
    for folder in (counted, micro):
        foreign = Path(shutil.copytree(folder, tmp_path / folder.name))
        metrics = json.loads((foreign / "metrics.json").read_text()) if folder == micro else {"lines": 1, "tokens": 1}
        metrics["trained_on"] = {"text": [ESCAPES], "source": [ESCAPES], "lines": 1, "pairs": 1}
        metrics["weights"] = ESCAPES
        (foreign / "metrics.json").write_text(json.dumps(metrics))
        shown = say("info", foreign)
        assert shown.code == 0
        assert SHOWN in shown.out
        assert printable(shown.out, lines=True) == shown.out
        document = json.loads(say("info", foreign, "--json").last)
        assert document["metrics"]["trained_on"]["text"] == [ESCAPES]


def test_words_of_foreign_vectors_are_shown(say: Any, tmp_path: Path) -> None:
    file = tmp_path / "foreign.vec"
    file.write_text(f"4 2\nking 1 0\nqu{ESCAPES} 1 0.1\nman 0 1\nboy 0.1 1\n")
    for words in (["neighbours", file, "king"], ["analogy", file, "man", "king", "boy"]):
        shown = say(*words)
        assert shown.code == 0, shown.err
        assert f"qu{SHOWN}" in shown.out
        assert printable(shown.out, lines=True) == shown.out


ODD = os.fsdecode(b"\xff\xfe")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf8(
    micro: Path, corpus: dict[str, Path], say: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text and models of counts work; where a library cannot open such a file, a sentence comes before any work."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ODD).mkdir()
    text = Path(shutil.copy(corpus["source"], tmp_path / ODD / f"text{ODD}"))
    for words in (
        ["train", "run", "--text", text],
        ["evaluate", "run", "--text", text, "--json"],
        ["convert", "run", f"{ODD}.arpa"],
        ["evaluate", f"{ODD}.arpa", "--text", text],
        ["translate", micro, text, "--beam", 1, "--output", ODD + "out"],
        ["check", "--source", text, "--target", corpus["target"], "--no-estimate"],
    ):
        answer = say(*words)
        assert answer.code in ((0, 1) if words[0] == "check" else (0,)), answer.err
        assert "Traceback" not in answer.err
    shutil.copytree(micro, ODD + "model")
    for words in (
        ["train", ODD + "run", "--text", text],
        ["train", f"{ODD}/run", "--text", text],
        ["compare", ODD + "run", "--text", text],
        ["translate", ODD + "model", text],
        ["average", ODD + "model"],
        ["train", "new", "--source", text, "--target", corpus["target"], "--from", ODD + "model"],
    ):
        before = sorted(tmp_path.rglob("*"))
        answer = say(*words)
        assert (answer.code, answer.err.count("\n")) == (2, 1), answer.err
        assert "its name is not UTF-8; choose another name, or rename it" in answer.err
        assert sorted(tmp_path.rglob("*")) == before
        assert "not UTF-8" in json.loads(say(*words, "--json").last)["error"]


class Keyboard(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "words", [["translate", "MICRO"], ["score", "MODEL", "--text", "-"], ["generate", "MODEL", "--file", "-"]]
)
def test_who_types_is_told_how(
    words: list[str], micro: Path, counted: Path, say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = micro if "MICRO" in words else counted
    words = [str(model) if word in ("MICRO", "MODEL") else word for word in words]

    def typed(*more: str) -> Any:
        monkeypatch.setattr(sys, "stdin", Keyboard(io.BytesIO(b"a dog\nthe cat\n")))
        return say(*words, *more)

    answer = typed()
    assert answer.code == 0
    together = {"generate": "type lines and press Enter; Ctrl-D ends, and all are answered"}
    hint = together.get(words[0], "type a line and press Enter; Ctrl-D ends")
    assert answer.err.startswith(f"loading {model} …\n{hint}\n> ")
    assert answer.err.count("> ") == 3  # two lines and the end
    assert "> " not in answer.out and answer.out.count("\n") == 2
    assert typed("--quiet").err == ""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a dog\nthe cat\n")))
    assert "> " not in say(*words).err
