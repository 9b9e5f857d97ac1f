"""Ctrl-C, SIGTERM, SIGHUP and SIGQUIT, at whatever moment: one sentence, exit code 130, no traceback.

The first one is a KeyboardInterrupt, so that what is half done is cleaned up, but not while modules are imported, where
one ends in other people's hands (C++ that aborts, `except:` that swallows it) and there is nothing to clean up: then,
and at a second one, the process ends at once. Training has handlers of its own while it learns
(training/interruption.py): there the first one lets the update end and saves.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
LEARNING = ("train", "compare", "demo")
INTERRUPTED = 130
"""The exit code."""

what_is_kept: Callable[[], str] | None = None
"""What a verb has to say of what it has done so far; it must be true at any moment."""
_asked = False


def begin() -> None:
    """From now on; what whoever started the program wants to be ignored (nohup, a job in the background) is."""
    global _asked, what_is_kept
    _asked, what_is_kept = False, None
    _handle(_interrupt)
    atexit.unregister(_ignore)
    atexit.register(_ignore)  # before all others, so that it is called after them


def end() -> None:
    """The work is done and all is said: a signal that comes while the interpreter shuts down ends it."""
    _handle(_leave)


def message() -> str:
    """What is true of what was done before the interruption."""
    if what_is_kept is not None:
        return f"interrupted; {what_is_kept()}"
    if sys.argv[1:2] and sys.argv[1] in LEARNING:
        return "interrupted; what was saved is safe: repeat the command to continue, or to start again if nothing was"
    return "interrupted; nothing was saved"


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        with suppress(ValueError):  # in a thread
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _asked
    if _asked or _importing(frame):
        with suppress(Exception):
            sys.stdout.flush()
        with suppress(Exception):
            os.write(2, f"anaphora: {message()}\n".encode(errors="backslashreplace"))
        if "--json" in sys.argv:
            with suppress(Exception):
                from anaphora.cli.output import json_line

                os.write(1, f"{json_line({'error': message(), 'exit_code': INTERRUPTED})}\n".encode())
        os._exit(INTERRUPTED)
    _asked = True
    raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _ignore() -> None:
    """At the very end the interpreter puts the system's own handlers back, which kill; but what is ignored stays so."""
    for number in SIGNALS:
        with suppress(ValueError):
            signal.signal(number, signal.SIG_IGN)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
