"""The standard streams, whatever has become of them: closed (`>&-`), full (`> /dev/full`), not read (`| head`)."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


class Steadfast(io.TextIOBase):
    """A stream for progress and messages: that it cannot be written (a reader that has gone, a full disk) does not stop
    the work."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            return self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()


def open_closed() -> None:
    """Put /dev/null in the place of closed standard streams, else the next file to be opened would get their number,
    and results would be written into it. Stdin and stdout are opened the wrong way round: who needs them gets an error
    ("Bad file descriptor") and is not left in the belief that all was read or written; messages are just lost."""
    for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest number that is free: this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def close_stdout() -> None:
    """Keep Python from trying at exit to flush what could not be written."""
    _discard(sys.__stdout__ or sys.stdout)


def settle() -> None:
    """Before the end: messages that could not be written must not change the exit code."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
