"""Processes that are killed at every moment at which something is made to last."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
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
