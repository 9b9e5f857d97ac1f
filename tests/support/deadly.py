"""Processes that are killed at every moment at which something is made to last; and which of them hear signals."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DURABLE = ("fsync", "replace", "rename", "unlink", "link")


def in_a_child(work: Callable[[], object]) -> int:
    """Call it in a process of its own; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            work()
            failed = 0
        finally:
            os._exit(failed)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def listens(process: int) -> bool:
    """Whether a process has handlers for more than the interpreter has by itself, which is SIGINT (Linux)."""
    try:
        caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{process}/status").read_text(), re.M)
    except OSError:
        return False
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGHUP - 1) & 1)


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
