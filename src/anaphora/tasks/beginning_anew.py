"""A run that is forced to begin anew: the model that is there stays usable until the new one can take its place.

    run/  the old model        .anew-run/  the new run, beside it        both exchange their names when it is finished

Killed before that, the old model is there, and the same command goes on with the new run; killed after it, the new
model is there, and the next command deletes what is left of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anaphora.data.phrases import PHRASES
from anaphora.data.prepared_text import TOKENIZER
from anaphora.errors import RIGHTS, UserError
from anaphora.folder import (
    CARD,
    CHECKPOINTS,
    CONFIG,
    COOCCURRENCES,
    COUNTING,
    DATA,
    LOCK,
    METRICS,
    OLD,
    OWNER,
    UNFINISHED,
    WEIGHTS,
    discard,
    left_behind,
    read_config,
    sweep,
    sweep_beside,
    sync,
    take_name,
)
from anaphora.tasks.base import is_of

ANEW = ".anew-"
"""Prefix of the folder in which the new run is made."""
REPLACED = ".replaced"
"""File in a run that is about to be replaced: in a folder `.anew-…` it tells the old run from an unfinished new one."""
MADE = {LOCK, OWNER, REPLACED, CONFIG, WEIGHTS, CARD, METRICS, TOKENIZER, PHRASES}
MADE |= {CHECKPOINTS, DATA, COUNTING, COOCCURRENCES}
"""What a run makes. Whatever else is in its folder is kept: its logs, and files of the user's own."""


@contextmanager
def beginning_anew(run: Path, task: str) -> Iterator[Path]:
    """The folder to make the new run in, with what an earlier process has made of it; it replaces the old run, whose
    lock the caller has, when the block ends well. task: of models that the caller can go on with."""
    place, new = run.resolve(), _beside(run)
    _check_replaceable(run, place)
    if (new / CONFIG).exists() and not is_of(task, (read_config(new).get("model") or {}).get("kind")):
        discard(new)
    new.mkdir(exist_ok=True)
    sweep(new)
    try:
        yield new
    except UserError:  # of a mistake nothing is left
        if not any((new / name).exists() for name in (CHECKPOINTS, COUNTING, WEIGHTS)):
            discard(new)
        raise
    _replace(place, new)


def clear_replaced(run: Path) -> Path | None:
    """Delete what a killed process left of a run that it had replaced; for the owner of the lock. Returns the folder of
    a new run that is not finished, if there is one."""
    place, new = run.resolve(), _beside(run)
    for _, old in left_behind(place, OLD):  # where names cannot be exchanged in one step
        if (old / REPLACED).exists() and not new.exists():
            old.rename(new)
    if (new / REPLACED).exists():
        _delete_replaced(new, place)
    sweep_beside(new)
    sweep_beside(place)
    return new if new.exists() else None


def _beside(run: Path) -> Path:
    place = run.resolve()
    return place.with_name(f"{ANEW}{place.name}")


def _check_replaceable(run: Path, place: Path) -> None:
    """Before any work: can the folder's name be taken by another one?"""
    if os.path.ismount(place) or not os.access(place.parent, os.W_OK):
        why = "is mounted there" if os.path.ismount(place) else f"no folder can be made in {place.parent}"
        cure = "choose another folder for the run" if os.path.ismount(place) else RIGHTS
        raise UserError(f"cannot be replaced by a new run: {why}", file=run, cure=cure)
    if Path.cwd().is_relative_to(place):
        raise UserError(
            "cannot be replaced by a new run: it is the working directory",
            file=run,
            cure="repeat the command from another one",
        )


def _replace(place: Path, new: Path) -> None:
    """Exchange the old run for the finished new one. Both have the same lock: it is held all the time."""
    (new / LOCK).unlink(missing_ok=True)
    try:
        os.link(place / LOCK, new / LOCK)
    except OSError:  # a disk without links
        (new / LOCK).touch()
    (place / REPLACED).touch()
    sync(new)
    sync(place)
    old = take_name(new, place)
    sync(place.parent)
    if old is not None:
        _delete_replaced(old if old == new else old.rename(new), place)


def _delete_replaced(old: Path, place: Path) -> None:
    for entry in old.iterdir():
        kept = entry.name not in MADE and not entry.name.startswith(UNFINISHED)
        if kept and not os.path.lexists(place / entry.name):
            entry.rename(place / entry.name)
    discard(old)
