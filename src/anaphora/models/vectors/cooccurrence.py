"""Which words stand near which, and how often: counted from ids on disk into a table on disk, which can be asked.

    train.ids (mapped) ──► threads: head in memory, events of the tail ──► sorted runs ──► merge ──► a folder

X_ij, the count of word j around word i, is the sum of 1/d over all places where they are d ≤ window words apart in a
line. It is symmetric, so the folder has the half i ≤ j, row after row:

    begin.bin     where each row begins, (V + 1) int64        column.bin   the other words, uint32, rising in a row
    total.bin     Σ_j X_ij of each word, (V,) float64         count.bin    X_ij, float32
    words.txt     the words, a line each                      manifest.json  what it was counted from, and how

What does not fit into the memory that is given goes to the disk in sorted runs, read side by side in the end (as
sorting out of core is done everywhere). Sums are exact whole numbers until they are written, so neither the memory nor
the number of threads changes a bit of the table.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.data.checksums import CHECKSUMS, check_data, check_file, write_checksums
from anaphora.device import cores
from anaphora.errors import UserError, refused_by_system
from anaphora.files.foreign import check_files, read_json
from anaphora.folder import atomic_folder, write_bytes, write_json
from anaphora.models.vectors.kernels.cooccurrence_counts import (
    FARTHEST,
    UNIT,
    Head,
    Place,
    add_events,
    count_near,
    find_pair,
    full_row,
    head_pairs,
    head_shape,
    merge_pairs,
    shares,
)
from anaphora.models.vectors.pieces import check_ids
from anaphora.models.vectors.vector_files import words_array, words_of
from anaphora.tokenizers.tokenizer import EOS, SPECIALS

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Say = Callable[[int, int], None]
"""Called with the tokens that were read, and how many there are."""

SCHEMA = "cooccurrences/1"
MANIFEST_FILE, WORDS_FILE = "manifest.json", "words.txt"
PIECE_TOKENS = 1 << 20
"""Tokens that a thread takes at once."""
MIN_MEMORY_BYTES = 4 << 20
"""Bytes of memory below which counting makes no sense."""
MOST_CELLS = 1 << 22
"""Cells of a head: more of them are farther away than a sort."""
EVENT_COST = 24
"""Bytes of an event: itself, and what its pair takes when the run is written."""
PAIR_COST = 64
"""Bytes of a pair in a merge: read, joined, ordered and written."""


@dataclass(frozen=True)
class Ratio:
    """How much more word is around one word than around another: what a vector should know (Pennington et al. 2014)."""

    word: str
    first: float
    """P(word | first)"""
    second: float
    """P(word | second)"""

    @property
    def ratio(self) -> float:
        """Large: of the first; small: of the second; about one: of both, or of neither."""
        if self.second == 0:
            return math.inf if self.first > 0 else math.nan
        return self.first / self.second


class Cooccurrences:
    """A table on disk: `words`, and the half of X that is stored (`begin`, `column`, `count`), mapped."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            check_files(self.folder)
            self.manifest: dict[str, Any] = read_json(self.folder / MANIFEST_FILE)
            if self.manifest["schema"] != SCHEMA:
                raise ValueError(self.manifest["schema"])
            self.words = words_of(np.fromfile(self.folder / WORDS_FILE, np.uint8), self.folder / WORDS_FILE)
            vocabulary, pairs = int(self.manifest["words"]), int(self.manifest["pairs"])
        except (OSError, ValueError, KeyError, TypeError):
            cure = "give the folder that the counting wrote"
            raise UserError("is no table of co-occurrences", file=self.folder, cure=cure) from None
        self.window = int(self.manifest["window"])
        self.begin: I64 = self._mapped("begin.bin", np.int64, vocabulary + 1)
        self.total: F64 = self._mapped("total.bin", np.float64, vocabulary)
        self.column: U32 = self._mapped("column.bin", np.uint32, pairs)
        self.count: F32 = self._mapped("count.bin", np.float32, pairs)

    def _mapped(self, name: str, dtype: type[np.generic], length: int) -> NDArray[Any]:
        path = self.folder / name
        try:
            if path.stat().st_size != length * np.dtype(dtype).itemsize:
                raise UserError("is not as long as the manifest says", file=path, cure="count again")
            return np.memmap(path, dtype, "r") if length else np.zeros(0, dtype)
        except OSError as error:
            raise refused_by_system(error, "cannot be read", file=path) from None

    def __len__(self) -> int:
        """Pairs that are stored: each i ≤ j."""
        return len(self.column)

    def __repr__(self) -> str:
        return f"<Cooccurrences: {len(self.words):,} words, {len(self):,} pairs, window {self.window}>"

    @property
    def entries(self) -> int:
        """Entries of the whole X that are not zero."""
        return int(self.manifest["entries"])

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def row(self, word: str) -> int:
        found = self._rows.get(word)
        if found is None:
            near = get_close_matches(word, self.words[:50_000], 3)
            cure = f"did you mean {', '.join(near)}?" if near else "ask for a word of the text"
            raise UserError(f"the word {word!r} is not in the table", file=self.folder, cure=cure)
        return found

    def counts(self, word: str) -> F32:
        """X_ij of one word with every other (V,)."""
        found = np.empty(len(self.words), np.float32)
        full_row(np.asarray(self.begin), np.asarray(self.column), np.asarray(self.count), self.row(word), found)
        return found

    def cooccurrence(self, word: str, other: str) -> float:
        """X_ij: how often they stood near one another, each time by 1 / distance."""
        first, second = sorted((self.row(word), self.row(other)))
        place = find_pair(np.asarray(self.begin), np.asarray(self.column), first, second)
        return float(self.count[place]) if place >= 0 else 0.0

    def probability(self, word: str, given: str) -> float:
        """P(word | given) = X_given,word / Σ_k X_given,k: how much of what is around `given` is `word`."""
        total = float(self.total[self.row(given)])
        return self.cooccurrence(given, word) / total if total else 0.0

    def ratios(self, first: str, second: str, words: Sequence[str]) -> list[Ratio]:
        """P(k | first) beside P(k | second) for each word k: the table of ice and steam."""
        return [Ratio(word, self.probability(word, first), self.probability(word, second)) for word in words]

    def telling(self, first: str, second: str, number: int, *, least: float = 5.0) -> list[str]:
        """Words that tell the two apart: so many of the first, from the largest ratio down, then so many of the second,
        down to the smallest. Only those that were counted `least` times around the two together, and not the two.

        They are put in order with half a count added to each side, so that a word which one side lacks comes before
        others only if the other side has much of it.
        """
        rows = [self.row(first), self.row(second)]
        one, two = (self.counts(word).astype(np.float64) for word in (first, second))  # (V,) each
        enough = one + two >= least
        enough[rows] = False
        known = np.flatnonzero(enough)
        totals = np.maximum(self.total[rows], 1.0)
        tells = np.log((one[known] + 0.5) / totals[0]) - np.log((two[known] + 0.5) / totals[1])
        order = known[np.argsort(-tells, kind="stable")]
        ahead = int((tells > 0).sum())
        return [self.words[row] for row in (*order[:ahead][:number], *order[ahead:][-number:])]


# -- counting ----------------------------------------------------------------------------------------------------------


def count_cooccurrences(
    ids: U32,
    words: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    window: int = 10,
    memory: int = 2_000_000_000,
    threads: int | None = None,
    progress: Say = lambda read, of: None,
) -> Cooccurrences:
    """Count ids as data/language_corpus.py writes them (mapped or not) into a folder. Words: ids from len(SPECIALS) on.

    A folder that already has the table of the same text, words and window is opened as it is; one that has anything
    else is refused. `memory`: bytes that arrays may take.
    """
    folder = Path(folder)
    if not 1 <= window <= FARTHEST:
        raise UserError(f"a window must be at least 1 and at most {FARTHEST}, not {window}", cure="set model.window")
    if not len(words):
        raise UserError("no word is left to count", cure="give more text, or lower tokenizer.minimum_count")
    spelled = words_array(words)
    said = {"schema": SCHEMA, "window": window, "words": len(words), "text": _digest(ids, spelled)}
    if folder.exists():
        check_file(folder, MANIFEST_FILE)
        table = Cooccurrences(folder)
        if any(table.manifest.get(key) != value for key, value in said.items()):
            cure = "choose another folder, or remove this one"
            raise UserError("is the table of another text or window", file=folder, cure=cure)
        check_data(folder, expected=CHECKSUMS in table.manifest, add=True)
        return table
    threads = threads or cores()
    with atomic_folder(folder) as unfinished:
        counting = _Counting(ids, len(words), window, unfinished, max(memory, MIN_MEMORY_BYTES), threads)
        counting.read(progress)
        pairs, entries = counting.merge()
        write_bytes(unfinished / WORDS_FILE, spelled.data)
        write_json(unfinished / MANIFEST_FILE, {**said, "pairs": pairs, "entries": entries, CHECKSUMS: True})
        write_checksums(unfinished)
    return Cooccurrences(folder)


def _digest(ids: U32, words: NDArray[np.uint8]) -> str:
    """A fingerprint of the whole text and of the words that its ids stand for."""
    found = hashlib.sha256(words.data)
    for begin in range(0, len(ids), PIECE_TOKENS):
        found.update(np.ascontiguousarray(ids[begin : begin + PIECE_TOKENS]).data)
    return f"sha256:{found.hexdigest()}"


class _Counting:
    """Runs of sorted pairs in two files, keys and sums, run after run."""

    def __init__(self, ids: U32, words: int, window: int, folder: Path, memory: int, threads: int) -> None:
        self.ids, self.words, self.window, self.folder = ids, words, window, folder
        self.memory, self.threads = memory, threads
        self.bits = max(words - 1, 1).bit_length()
        self.share = shares(window)
        self.starts = [0]
        """Where each run begins, and the last one ends."""
        self.keys, self.sums = folder / "keys.run", folder / "sums.run"
        mine = memory // threads
        self.begin, self.limit, self.cells = head_shape(words, min(mine // 4 // 8, MOST_CELLS))
        self.room = min((mine - 8 * self.cells) // EVENT_COST, len(ids) * window) + window

    def read(self, progress: Say) -> None:
        """The whole text into runs: each thread has a head and room for events, and takes a piece at a time."""
        todo = iter(range(0, len(self.ids), PIECE_TOKENS))
        guard, done = Lock(), 0

        def one(_: int) -> U64:
            nonlocal done
            head = Head(np.zeros(self.cells, np.uint64), self.begin, self.limit)
            events, filled = np.empty(self.room, np.uint64), 0
            while (begin := next(todo, None)) is not None:
                tokens = np.ascontiguousarray(self.ids[begin : begin + PIECE_TOKENS])
                check_ids(tokens, len(SPECIALS) + self.words)
                at, place = 0, self._before(begin)
                while at < len(tokens):
                    at, found = count_near(
                        tokens, at, len(SPECIALS), EOS, self.share, head, self.bits, place, events[filled:]
                    )
                    filled += found
                    if filled + self.window > len(events):
                        run = self._run(events[:filled])
                        with guard:
                            self._append(*run)
                        filled = 0
                with guard:
                    done += len(tokens)
                    progress(done, len(self.ids))
            run = self._run(events[:filled])
            with guard:
                self._append(*run)
            return head.cells

        with ThreadPoolExecutor(self.threads, "counting") as pool:
            heads = list(pool.map(one, range(self.threads)))
        cells = heads.pop()
        while heads:
            cells += heads.pop()
        row, run = 0, self.starts[-1]
        room = (
            np.empty(max(self.words, PIECE_TOKENS // 8), np.uint64),
            np.empty(max(self.words, PIECE_TOKENS // 8), np.uint64),
        )
        while row < self.words:
            row, found = head_pairs(Head(cells, self.begin, self.limit), row, self.bits, *room)
            self._append(room[0][:found], room[1][:found])
        self.starts = [start for start in self.starts if start <= run] + [self.starts[-1]]  # the head is one run

    def _before(self, begin: int) -> Place:
        """Where the reader of a piece stands: it knows the last words of the line that it begins in."""
        recent = np.zeros(1 << self.window.bit_length(), np.int64)
        words: list[int] = []
        end = begin
        while end > 0 and len(words) < self.window:
            some = np.asarray(self.ids[max(end - 4096, 0) : end])
            breaks = np.flatnonzero(some == EOS)
            line = some[int(breaks[-1]) + 1 :] if len(breaks) else some
            words = [*(line[line >= len(SPECIALS)].astype(np.int64) - len(SPECIALS)).tolist(), *words]
            end = 0 if len(breaks) else end - len(some)
        words = words[-self.window :]
        recent[: len(words)] = words
        return Place(recent, np.array([len(words)], np.int64))

    def _run(self, events: U64) -> tuple[U64, U64]:
        """Sort events, add up those of a pair."""
        events.sort()
        keys, sums = np.empty(len(events), np.uint64), np.empty(len(events), np.uint64)
        found = add_events(events, self.share, self.bits, keys, sums)
        return keys[:found], sums[:found]

    def _append(self, keys: U64, sums: U64) -> None:
        if len(keys):
            for path, values in ((self.keys, keys), (self.sums, sums)):
                with path.open("ab") as file:
                    values.tofile(file)
            self.starts.append(self.starts[-1] + len(keys))

    def merge(self) -> tuple[int, int]:
        """The table from the runs. Returns its pairs, and the entries of the whole X.

        Of each run a block is held. Nothing that is still in the files is smaller than the smallest of the blocks' last
        keys, so all up to that one can be merged at once, and no pair is met again later.
        """
        runs = list(pairwise(self.starts))
        block = max(self.memory // PAIR_COST // max(len(runs), 1), 1)
        ahead = [begin for begin, _ in runs]
        none = np.zeros(0, np.uint64)
        held: list[tuple[U64, U64]] = [(none, none) for _ in runs]
        sizes, totals = np.zeros(self.words, np.int64), np.zeros(self.words, np.uint64)
        pairs = same = 0
        with (self.folder / "column.bin").open("wb") as column, (self.folder / "count.bin").open("wb") as count:
            while True:
                for run, (_, end) in enumerate(runs):
                    if not len(held[run][0]) and ahead[run] < end:
                        size = min(block, end - ahead[run])
                        held[run] = self._read(self.keys, ahead[run], size), self._read(self.sums, ahead[run], size)
                        ahead[run] += size
                lasts = [held[run][0][-1] for run, (_, end) in enumerate(runs) if ahead[run] < end]
                cuts = [int(np.searchsorted(k, min(lasts), "right")) if lasts else len(k) for k, _ in held]
                if not sum(cuts):
                    break
                keys = np.concatenate([k[:cut] for (k, _), cut in zip(held, cuts)])
                sums = np.concatenate([s[:cut] for (_, s), cut in zip(held, cuts)])
                held = [(k[cut:], s[cut:]) for (k, s), cut in zip(held, cuts)]
                columns, counts = np.empty(len(keys), np.uint32), np.empty(len(keys), np.float32)
                found, twice = merge_pairs(keys, sums, np.argsort(keys), self.bits, sizes, totals, columns, counts)
                columns[:found].tofile(column)
                counts[:found].tofile(count)
                pairs, same = pairs + found, same + twice
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64).tofile(self.folder / "begin.bin")
        (totals / UNIT).astype(np.float64).tofile(self.folder / "total.bin")
        self.keys.unlink(missing_ok=True)
        self.sums.unlink(missing_ok=True)
        return pairs, 2 * pairs - same

    def _read(self, path: Path, begin: int, length: int) -> U64:
        return np.fromfile(path, np.uint64, length, offset=8 * begin)
