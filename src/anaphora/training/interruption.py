"""Ctrl-C, SIGTERM, SIGHUP and SIGQUIT while something is learned: what is being computed is finished, and saved."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
LEFT_ALONE = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGQUIT") if hasattr(signal, name))
"""Those that stay ignored where whoever started the process had them ignored (nohup)."""
STOPPING = "stopping: what is being computed is finished and saved first; interrupt again to stop at once"


class Interrupted(Exception):
    """Ctrl-C, SIGTERM, SIGHUP or SIGQUIT; everything up to this moment is saved.

    step: of what learns in updates; 0 where none was made."""

    def __init__(self, step: int | None = None) -> None:
        self.step = step
        super().__init__("interrupted")


@contextmanager
def interruptible(message: Callable[[str], None]) -> Iterator[threading.Event]:
    """Within the block, the first signal sets the event and is announced at once; a second one is a
    KeyboardInterrupt."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.getsignal(number) for number in SIGNALS}
    ours = [n for n in SIGNALS if before[n] is not None and not (n in LEFT_ALONE and before[n] is signal.SIG_IGN)]
    with _announced(message):
        for number in ours:
            signal.signal(number, ask)
        try:
            yield asked
        finally:
            for number in ours:
                signal.signal(number, before[number])


@contextmanager
def _announced(message: Callable[[str], None]) -> Iterator[None]:
    """A thread speaks: Python calls the main thread's handlers only between two of its own instructions, and one of
    them, the gradient of a large batch say, may take minutes. The number of the signal is in the socket at once."""
    listening, written = socket.socketpair()
    written.setblocking(False)
    others = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        spoken = False
        while numbers := listening.recv(64):
            if others >= 0:
                with suppress(OSError):
                    os.write(others, numbers)
            if not spoken and any(number in SIGNALS for number in numbers):
                spoken = True
                with suppress(OSError, ValueError):  # a terminal that is gone
                    message(STOPPING)

    thread = threading.Thread(target=listen, name="signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(others)
        written.close()
        thread.join()
        listening.close()
