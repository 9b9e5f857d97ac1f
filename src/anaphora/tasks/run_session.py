"""Working in a run folder: made if it is not there, locked, and left clean when the command was a mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anaphora.errors import CURES, UserError, first_line, option, refused_by_system
from anaphora.folder import RunLock, check_name, discard_empty, is_run, recover
from anaphora.tasks.beginning_anew import clear_replaced
from anaphora.training.reporting import RunReporter


def check_folder(folder: Path) -> None:
    """Before any work: may a run be made or continued there?"""
    check_name(folder)
    recover(folder)
    try:
        there = folder.exists()
    except OSError as error:
        raise refused_by_system(error, "cannot be made", file=folder) from None
    if there and not folder.is_dir():
        raise UserError("is a file, not a folder", file=folder, cure="choose another name for the run")
    if folder.is_dir() and any(folder.iterdir()) and not is_run(folder):
        raise UserError(
            "exists and is no run of Anaphora", file=folder, cure="choose a new folder; nothing was changed"
        )


@contextmanager
def working_in(folder: Path, reporter: RunReporter, *, smaller: str) -> Iterator[None]:
    """The folder is this process's own while the block runs; what goes wrong there is told in one sentence.

    smaller: what to do where memory runs out.
    """
    fresh = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refused_by_system(error, "cannot be made", file=folder) from None
    try:
        with RunLock(folder) as lock:
            unfinished = clear_replaced(folder)
            if lock.abandoned is not None:
                killed = lock.abandoned["process"]
                reporter.message(f"the last process here ({killed}) was killed; what it saved is still there")
            if unfinished is not None:
                begun = f"holds an unfinished run that {option('force', True)} began"
                reporter.message(f"note: {unfinished} {begun}; it may be deleted")
            yield
    except UserError:
        if fresh:
            discard_empty(folder)
        raise
    except OSError as error:  # a log that a full disk refuses, say; what is written atomically has spoken already
        if fresh:
            discard_empty(folder)
        if error.errno not in CURES:
            raise
        raise refused_by_system(error, "cannot be written", file=error.filename or folder) from None
    except (RuntimeError, MemoryError) as error:
        from anaphora.training.memory import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        if fresh:
            discard_empty(folder)
        raise UserError(f"memory ran out ({first_line(error)})", file=folder, cure=smaller) from None
    finally:
        reporter.finish()
