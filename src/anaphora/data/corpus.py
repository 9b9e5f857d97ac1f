"""A prepared corpus: text and ids in Arrow files, mapped into memory rather than loaded.

Each row keeps, for every side, its text (`source`) and its ids (`source_ids`), and its line number in the input; any
tool that reads Arrow reads it. Nothing here assumes two sides: a translator has "source" and "target", a language model
only "text". `preparation.py` writes these files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from anaphora.data.data_settings import DataConfig, Sides
from anaphora.errors import UserError

__all__ = ["Corpus", "DataConfig", "Pairs", "Sides"]


class Pairs(Protocol):
    """What batches are made of: rows of several sides, their text and their ids."""

    sides: tuple[str, ...]
    lengths: np.ndarray  # (n, sides), without special tokens

    def texts(self, side: str, rows: Sequence[int] | np.ndarray) -> list[str]: ...

    def ids(self, side: str, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Corpus:
    """A mapped corpus: `len`, `sides`, `lengths`, and the text and ids of any rows."""

    def __init__(self, shards: list[pa.RecordBatch], sides: Sequence[str]) -> None:
        self.sides = tuple(sides)
        self.shards = shards
        self._starts = np.cumsum([0, *(shard.num_rows for shard in shards)])  # first row of each shard
        self._offsets = {s: [_numpy(shard.column(f"{s}_ids").offsets) for shard in shards] for s in sides}
        self._values = {s: [_numpy(shard.column(f"{s}_ids").values) for shard in shards] for s in sides}
        lengths = [np.concatenate([np.diff(o) for o in self._offsets[s]] or [np.zeros(0, np.int32)]) for s in sides]
        self.lengths: np.ndarray = np.stack(lengths, axis=1).astype(np.int32, copy=False)  # (n, sides), no specials

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Corpus:
        """Map `folder/*.arrow`; the pages are read when they are touched."""
        shards = []
        for path in sorted(Path(folder).glob("*.arrow")):
            try:
                shards.append(pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0))
            except (pa.ArrowException, OSError) as error:
                cure = f"delete the folder {Path(folder).parent}; `anaphora train` prepares it anew"
                raise UserError(f"this shard is damaged ({error})", file=path, cure=cure) from error
        if not shards:
            raise UserError("there is no prepared corpus here", file=folder, cure="prepare the corpus first")
        names = shards[0].schema.names
        return cls(shards, [name.removesuffix("_ids") for name in names if name.endswith("_ids")])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def text(self, side: str, row: int) -> str:
        return self.texts(side, [row])[0]

    def texts(self, side: str, rows: Sequence[int] | np.ndarray) -> list[str]:
        """The text of some rows, in the order asked for."""
        return self._take(side, rows)

    def lines(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Line numbers in the input, from 1. (R,)"""
        return np.array(self._take("line", rows), dtype=np.int64)

    def ids(self, side: str, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of some rows end to end, and where each row starts: `values[offsets[i]:offsets[i + 1]]`."""
        rows, order, runs = self._by_shard(rows)
        lengths = self.lengths[rows, self.sides.index(side)].astype(np.int64)  # (R,), shard by shard from here on
        offsets = _offsets(lengths)
        starts = np.empty(len(rows), dtype=np.int64)
        for shard, a, b in runs:
            starts[a:b] = self._offsets[side][shard][rows[a:b] - self._starts[shard]]
        where = _spread(starts, offsets, lengths)  # for each token, its place in its shard
        values = np.empty(offsets[-1], dtype=np.int32)
        for shard, a, b in runs:
            values[offsets[a] : offsets[b]] = self._values[side][shard][where[offsets[a] : offsets[b]]]
        if len(runs) <= 1:
            return values, offsets
        back = np.argsort(order)  # to the order asked for
        asked = _offsets(lengths[back])
        return values[_spread(offsets[back], asked, lengths[back])], asked

    def _by_shard(self, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int, int]]]:
        """Rows sorted by shard, the order that sorts them, and the runs (shard, from, to) of that order."""
        rows = np.asarray(rows, dtype=np.int64)
        shards = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(shards, kind="stable")
        shards = shards[order]
        borders = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(rows)] if len(rows) else []
        return rows[order], order, [(int(shards[a]), a, b) for a, b in pairwise(borders)]

    def _take(self, name: str, rows: Sequence[int] | np.ndarray) -> list[Any]:
        rows, order, runs = self._by_shard(rows)
        found: list[Any] = []
        for shard, a, b in runs:
            found += self.shards[shard].column(name).take(pa.array(rows[a:b] - self._starts[shard])).to_pylist()
        return found if len(runs) <= 1 else [found[i] for i in np.argsort(order)]


def _offsets(lengths: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _spread(starts: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Rows that start anywhere, laid end to end: the place of each token is its row's start plus how far it is in."""
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


def _numpy(array: pa.Array) -> np.ndarray:
    view: np.ndarray = array.to_numpy(zero_copy_only=True)
    return view
