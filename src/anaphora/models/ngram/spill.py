"""Counting n-grams out of core: the same numbers as in memory, with files in place of arrays.

    text    ids of words, each sentence ⟨s⟩ w … ⟨/s⟩, in one long file
    runs    for every stretch of text that fits in memory: its distinct n-grams, sorted
    merge   the runs read side by side: the n-grams of the whole text in order, so each has its number
    ids     the number of the n-gram that begins at each position of the text: what the next order starts from

One order after the other, from two words on: an n-gram is the number of its first n - 1 words and its last word, so
every sort is one of plain 64-bit numbers. What is in memory at any time is one run, or one block of each.

Everything stands in a *work folder*. A finished stage leaves a note there, written last and atomically, so a process
that is killed loses the stage it was in and no more; a repeated call goes on from the notes. A note has the CRC-32 of
what its stage made, and of itself: any number is as good a count as another, so damage would be counted on from without
a word. Whoever goes on compares them first.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from anaphora.errors import UserError, refused_by_system
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, check_files, open_file, read_json
from anaphora.folder import UNFINISHED, write_json
from anaphora.models.ngram.columns import Appending, Column, Held
from anaphora.models.ngram.kernels.ngram_runs import (
    COLUMNS,
    CONTEXT,
    COUNT,
    SUFFIX,
    WORD,
    first_children,
    merge_rows,
    put_numbers,
    row_keys,
    run_keys,
    run_rows,
    sort_run,
)
from anaphora.models.ngram.kernels.ngrams import NOWHERE, U32
from anaphora.models.ngram.smoothing import Grams
from anaphora.tokenizers.tokenizer import BOS

Say = Callable[[str], None]
PLAN = "plan.json"
SCHEMA = "ngram-work/2"
KEPT_COLUMNS = ("word", "first", "suffix", "count", "ids", "probability", "link")
"""Columns that outlive their stage."""
Extent = tuple[Path, int, int]
"""Bytes [begin, end) of a file."""
THREADS = 2
ROW_COST = 80
"""Bytes of memory that a position of a run, or a row of a merge, takes at the most: its key, place and order, the
sorted rows, what was read and what is written."""


@dataclass(frozen=True)
class Spilled:
    """The n-grams of one order in files: `Grams` that do not fit."""

    word: Column
    first: Column
    suffix: Column
    count: Column


class Work:
    """A work folder: what it is for, and which stages are done."""

    durable = True

    def __init__(self, folder: Path, plan: dict[str, Any], say: Say) -> None:
        """Open it for this plan. A folder of another plan is emptied, one that is no work folder is refused."""
        self.folder = folder
        self.say = say
        self.made: set[str] = set()
        """Columns that are in some note."""
        plan = {"schema": SCHEMA, **plan}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stands = any(folder.iterdir())
        except OSError as error:
            raise refused_by_system(error, "cannot be used", file=folder) from None
        if stands:
            found = self._read_plan()
            if found is None:
                raise UserError("holds other files", file=folder, cure="choose an empty folder to count in")
            if found == plan:
                check_files(folder)
                damaged = self._compare()
                if damaged is None:
                    return
                say(f"{damaged} is damaged: what was counted is discarded, and counted anew")
            else:
                changed = sorted(key for key in found.keys() | plan.keys() if found.get(key) != plan.get(key))
                say(f"{folder} was begun for something else ({', '.join(changed)}); it is begun anew")
            write_json(folder / PLAN, {"schema": SCHEMA, "is": "being emptied"})  # no plan: a kill here leaves no doubt
            for path in folder.iterdir():
                if path.name != PLAN:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            self.made.clear()
        write_json(folder / PLAN, plan)

    def _compare(self) -> Path | None:
        """A file that is not what the notes say, if there is one. What is no longer there is not needed any more."""
        for file in sorted(self.folder.glob("*.json")):
            if file.name == PLAN:
                continue
            try:
                note = read_json(file)
                if note.pop("crc32") != _own(note):
                    return file
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                return file
            for name, begin, end, found in note["made"]:
                self.made.add(name)
                if (path := self.folder / name).exists() and _checksum((path, begin, end)) != found:
                    return path
        return None

    def _read_plan(self) -> dict[str, Any] | None:
        try:
            plan = read_json(self.folder / PLAN)
        except (OSError, ValueError):
            killed_at_once = all(path.name.startswith(UNFINISHED) for path in self.folder.iterdir())
            return {} if killed_at_once else None
        return plan if isinstance(plan, dict) and str(plan.get("schema", "")).startswith("ngram-work/") else None

    def note(self, stage: str) -> dict[str, Any] | None:
        """What a finished stage left, or nothing."""
        try:
            return read_json(self.folder / f"{stage}.json", MAX_LARGE_FILE_BYTES)
        except FileNotFoundError:
            return None

    def finish(self, stage: str, note: dict[str, Any], also: Sequence[Extent] = ()) -> None:
        """The stage's columns are complete. also: what it made in other files of the folder."""
        columns = [path for path in sorted(self.folder.glob("*.bin")) if path.stem.partition("-")[0] in KEPT_COLUMNS]
        new = [(path, 0, path.stat().st_size) for path in columns if path.name not in self.made]
        made = [[one[0].name, one[1], one[2], _checksum(one)] for one in (*new, *also)]
        self.made.update(path.name for path, _, _ in new)
        note = {**note, "made": made}
        write_json(self.folder / f"{stage}.json", {**note, "crc32": _own(note)})
        self.say(stage)

    def column(self, name: str, dtype: type[np.generic] = np.uint32) -> Column:
        return Column(self.folder / f"{name}.bin", dtype)

    def grams(self, order: int) -> Spilled:
        return Spilled(*(self.column(f"{name}-{order}") for name in ("word", "first", "suffix", "count")))


class HeldWork(Work):
    """The same for what is counted in memory: nothing is written, nothing can be taken up again."""

    durable = False

    def __init__(self, orders: Sequence[Grams]) -> None:
        self.orders = [Spilled(*(Held(array) for array in (g.word, g.first, g.suffix, g.count))) for g in orders]
        self.columns: dict[str, Held] = {}

    def note(self, stage: str) -> dict[str, Any] | None:
        return None

    def finish(self, stage: str, note: dict[str, Any], also: Sequence[Extent] = ()) -> None:
        pass

    def column(self, name: str, dtype: type[np.generic] = np.uint32) -> Column:
        return self.columns.setdefault(name, Held(np.zeros(0, dtype)))

    def grams(self, order: int) -> Spilled:
        return self.orders[order - 1]


def _checksum(extent: Extent) -> str:
    """CRC-32 of a part of a file; of what there is, where the file is too short."""
    path, begin, end = extent
    found = 0
    try:
        with open_file(path) as file:
            file.seek(begin)
            while begin < end and (block := file.read(min(end - begin, 1 << 20))):
                found, begin = crc32(block, found), begin + len(block)
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None
    return f"{found:08x}"


def _own(note: dict[str, Any]) -> str:
    return f"{crc32(json.dumps(note, sort_keys=True).encode()):08x}"


def digest(text: Column, room: int) -> str:
    """A fingerprint of the whole text."""
    found = hashlib.sha256()
    for _, block in text.blocks(max(min(room // 4, 1 << 20), 1)):
        found.update(block.data)
    return f"sha256:{found.hexdigest()}"


def count_spilled(text: Column, words: int, order: int, work: Work, room: int) -> list[int]:
    """Count all n-grams of a text of ids up to `order`, into the work folder; returns how many there are of each order.

    `room` is how many bytes arrays may take. The result does not depend on it.
    """
    sizes: list[int] = []
    for length in range(1, order + 1):
        stage = f"count-{length}"
        note = work.note(stage)
        if note is None:
            if length == 1:
                size = _count_words(text, words, work, room)
            else:
                ids = text if length == 2 else work.column(f"ids-{length - 1}")
                size = _count_longer(text, ids, length, sizes[-1], work, room, last=length == order)
            note = {"size": size}
            work.finish(stage, note)
        if length > 2:
            work.column(f"ids-{length - 1}").remove()
        sizes.append(int(note["size"]))
    return sizes


def _count_words(text: Column, words: int, work: Work, room: int) -> int:
    counts = np.zeros(words, np.int64)
    for _, block in text.blocks(max(room // 16, 1)):
        if len(block) and int(block.max()) >= words:
            raise UserError(f"has the id {block.max()}, outside the vocabulary of {words:,}", file=text.path)
        counts += np.bincount(block, minlength=words)
    with work.grams(1).count.append() as out:
        out.write(counts.astype(np.uint32))
    return words


def _count_longer(text: Column, ids: Column, order: int, contexts: int, work: Work, room: int, *, last: bool) -> int:
    """One order from the ids of the one below; leaves its grams and, unless it is the last, its ids."""
    rows, local, numbers = work.column("runs"), work.column("local"), work.column("numbers")
    starts = [0]
    stretch = max(room // (THREADS * ROW_COST), 1)
    with (
        rows.append(keep=False) as row_file,
        local.append(keep=False) as local_file,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        for begin in range(0, len(text), THREADS * stretch):
            side_by_side = range(begin, min(begin + THREADS * stretch, len(text)), stretch)
            for found, rows_of_position in pool.map(lambda at: _run(text, ids, order - 1, at, stretch), side_by_side):
                row_file.write(found)
                starts.append(starts[-1] + len(found))
                if not last:
                    local_file.write(rows_of_position)
            del found, rows_of_position
    size = _merge(rows, starts, numbers, work.grams(order), contexts, room, keep_numbers=not last)
    if not last:
        with work.column(f"ids-{order}").append() as out:
            for run, (begin, end) in enumerate(pairwise(starts)):
                some = local.read(run * stretch, (run + 1) * stretch)
                put_numbers(some, numbers.read(begin, end))
                out.write(some)
    for column in (rows, local, numbers):
        column.remove()
    return size


def _run(text: Column, ids: Column, length: int, begin: int, stretch: int) -> tuple[U32, U32]:
    """Of a stretch of text: the distinct n-grams (rows, 4), and which of them begins at each position."""
    end = min(begin + stretch, len(text))
    numbers = ids.read(begin, end + 1)
    keys, places = run_keys(text.read(begin + length, end + length), numbers, BOS)  # shorter at the end of the text
    local = np.full(end - begin, NOWHERE, np.uint32)
    keys, places = sort_run(keys, places)
    return run_rows(keys, places, numbers, local), local


def _merge(
    runs: Column, starts: list[int], numbers: Column, out: Spilled, contexts: int, room: int, *, keep_numbers: bool
) -> int:
    """The n-grams of the text from those of its runs; `numbers` gets the number of every row. Returns how many.

    Of each run a block is held. Nothing that is still in the files is smaller than the smallest of the blocks' last
    rows, so all rows up to that one can be merged at once, and no n-gram is met again later.
    """
    count = len(starts) - 1
    block = max(room // ROW_COST // max(count, 1), 1)
    ahead = starts[:-1].copy()  # up to where each run was read
    held = [np.zeros((0, COLUMNS), np.uint32) for _ in range(count)]
    found = passed = 0
    with (
        out.word.append() as word,
        out.first.append() as first,
        out.suffix.append() as suffix,
        out.count.append() as counts,
        numbers.append(keep=False) as places,
    ):
        while True:
            for run in range(count):
                if not len(held[run]) and ahead[run] < starts[run + 1]:
                    end = min(ahead[run] + block, starts[run + 1])
                    held[run] = runs.read(COLUMNS * ahead[run], COLUMNS * end).reshape(-1, COLUMNS)
                    ahead[run] = end
            lasts = [row_keys(held[run][-1:])[0] for run in range(count) if ahead[run] < starts[run + 1]]
            keys = [row_keys(rows) for rows in held]
            cuts = [int(np.searchsorted(k, min(lasts), "right")) if lasts else len(k) for k in keys]
            if not sum(cuts):
                break
            rows = np.concatenate([rows[:cut] for rows, cut in zip(held, cuts)])
            key = np.concatenate([k[:cut] for k, cut in zip(keys, cuts)])
            merged, number = merge_rows(rows, key, np.argsort(key, kind="stable"), found)  # quick where runs are sorted
            del keys, key, rows
            begin = 0
            for run, cut in enumerate(cuts):
                if keep_numbers:
                    places.write(number[begin : begin + cut], at=ahead[run] - len(held[run]))
                held[run] = held[run][cut:]
                begin += cut
            word.write(merged[:, WORD])
            suffix.write(merged[:, SUFFIX])
            counts.write(merged[:, COUNT])
            passed = _write_first(first, merged[:, CONTEXT].copy(), passed, int(merged[-1, CONTEXT]) + 1, found, block)
            found += len(merged)
            if found >= int(NOWHERE):
                raise UserError(f"a text with more than {found:,} different n-grams of one order cannot be counted")
        _write_first(first, np.zeros(0, np.uint32), passed, contexts + 1, found, max(block, 1024))
    return found


def _write_first(first: Appending, contexts: U32, begin: int, end: int, number: int, block: int) -> int:
    """Where the children of contexts begin … end - 1 begin, in blocks: many contexts in a row can have none."""
    for some in range(begin, end, block):
        first.write(first_children(contexts, some, min(some + block, end), number))
    return end
