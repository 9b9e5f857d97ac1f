"""Signals at bad moments: one sentence, exit code 130, no traceback."""

from __future__ import annotations

import ast
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli import interruption
from deadly import listens

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")


class Left(BaseException):
    """In the place of os._exit."""


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Signals as a terminal leaves them: a test run under nohup or in the background inherits some as ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in interruption.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise Left

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(sys, "argv", ["anaphora", "translate", "--json"])
    return codes


@pytest.mark.parametrize("number", interruption.SIGNALS)
def test_the_first_signal_cleans_up_and_the_second_ends_at_once(
    number: int, left: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    interruption.begin()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    with pytest.raises(Left):
        os.kill(os.getpid(), number)
    out, err = capfd.readouterr()
    assert left == [130]
    assert err == "anaphora: interrupted; nothing was saved\n"
    assert out == '{"error": "interrupted; nothing was saved", "exit_code": 130}\n'
    interruption.end()
    with pytest.raises(Left):
        os.kill(os.getpid(), number)
    assert capfd.readouterr() == ("", "")


def test_during_an_import_the_first_one_ends_at_once(
    left: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "knocked_at.py").write_text(
        "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    interruption.begin()
    with pytest.raises(Left):
        __import__("knocked_at")
    assert left == [130]


def test_the_last_moments_cannot_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    monkeypatch.setattr(interruption.atexit, "register", called.append)  # type: ignore[attr-defined]
    interruption.begin()
    for call in called:
        call()
    for number in interruption.SIGNALS:
        os.kill(os.getpid(), number)
    assert len(called) == 1


def test_what_is_to_be_ignored_is_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption.begin()
    os.kill(os.getpid(), signal.SIGHUP)
    interruption.end()
    os.kill(os.getpid(), signal.SIGHUP)


def test_an_interrupted_verb_says_what_is_true(say: Any, micro: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anaphora import api

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "load_translator", interrupted)
    monkeypatch.setattr(api, "train", interrupted)
    answer = say("info", micro)
    assert (answer.code, answer.err) == (130, "anaphora: interrupted; nothing was saved\n")
    answer = say("train", "run", "--text", "a")
    assert answer.code == 130
    assert "repeat the command to continue, or to start again if nothing was" in answer.err


def test_a_signal_while_heavy_modules_are_imported(micro: Path) -> None:
    words = [sys.executable, "-c", "import sys, anaphora.cli.main as m\nprint('begun', flush=True)\nm.main()"]
    process = subprocess.Popen(
        [*words, "translate", micro, "-"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "anaphora: interrupted; nothing was saved\n")


KNOCK = """
import os, signal, sys

class Knock:
    def find_spec(self, name, *_):
        if name == "anaphora.cli.streams":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Knock())
before = set(sys.modules)
import anaphora
print(sorted({name.partition(".")[0] for name in sys.modules.keys() - before}), flush=True)
import anaphora.__main__
"""


def test_a_signal_finds_our_handlers_before_anything_else_is_imported() -> None:
    ended = subprocess.run([sys.executable, "-c", KNOCK, "info", "x"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "anaphora: interrupted; nothing was saved\n")
    assert set(ast.literal_eval(ended.stdout)) <= {"anaphora", "__future__"}, "so that handlers are there at once"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc who listens")
def test_a_storm_of_signals(micro: Path, corpus: dict[str, Path]) -> None:
    """Signals of all kinds, one to three of them, up to 4 seconds after the program has begun: before,
    there is only the interpreter."""
    draw, codes = random.Random(1), Counter[int]()
    words = [sys.executable, "-m", "anaphora", "translate", str(micro), str(corpus["source"]), "--beam", "4"]
    for _ in range(120):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not listens(process.pid):
            time.sleep(0.001)
        time.sleep(draw.choice([0, 0.1, 0.3, 1, 3]) * draw.uniform(1, 1.3))
        for _ in range(draw.randint(1, 3)):
            process.send_signal(draw.choice(interruption.SIGNALS))
            time.sleep(draw.uniform(0, 0.05))
        _, said = process.communicate(timeout=60)
        codes[process.returncode] += 1
        assert "Traceback" not in said and "terminate called" not in said, said
    print(dict(codes))
    assert set(codes) <= {0, 130}
