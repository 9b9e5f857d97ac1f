"""The command line within this process, where one of its own is not the point: the same `main`, in milliseconds."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.out.splitlines()[-1]


Say = Callable[..., Answer]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Say]:
    """`say("translate", folder, file)` -> exit code, stdout, stderr."""
    from anaphora.cli.main import main

    before = signal.getsignal(signal.SIGTERM)

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["anaphora", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, out, err)

    yield run
    signal.signal(signal.SIGTERM, before)
