"""A bidirectional start: before it learns one direction, a translator learns both (Ding et al. 2021, "BiT").

Every pair is read twice in an epoch, as it is and turned round, in batches that mix the two; nothing tells the
model which way it goes but the language it reads. That teaches it twice as much about which words belong together from
the same text, which is worth most where there is little of it. Both languages must have one vocabulary. Afterwards the
run goes on with the direction that was asked for; what it learned stays in the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anaphora.data.batches import Batch, Batches, EpochBatches
from anaphora.data.corpus import Corpus


class BidirectionalPairs:
    """A corpus of pairs seen twice: row i < n is pair i, row n + i the same pair turned round."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.sides = corpus, corpus.sides
        self.lengths = np.concatenate([corpus.lengths, corpus.lengths[:, ::-1]])  # (2n, 2)

    def __len__(self) -> int:
        return len(self.lengths)

    def texts(self, side: str, rows: Sequence[int] | np.ndarray) -> list[str]:
        """The text of some rows, in the order asked for."""
        rows, turned = self._pairs(rows)
        found: list[str] = [""] * len(rows)
        for name, there in self._where(side, turned):
            for place, text in zip(there.tolist(), self.corpus.texts(name, rows[there])):
                found[place] = text
        return found

    def ids(self, side: str, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of some rows end to end, and where each row starts."""
        pairs, turned = self._pairs(rows)
        found: list[np.ndarray] = [np.zeros(0, dtype=np.int32)] * len(pairs)
        for name, there in self._where(side, turned):
            values, offsets = self.corpus.ids(name, pairs[there])
            for place, row in zip(there.tolist(), np.split(values, offsets[1:-1])):
                found[place] = row
        return np.concatenate(found), np.cumsum([0, *(len(row) for row in found)])

    def _pairs(self, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each row its pair, and whether it is turned round. Both (R,)"""
        rows = np.asarray(rows, dtype=np.int64)
        return rows % len(self.corpus), rows >= len(self.corpus)

    def _where(self, side: str, turned: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """Which side of the pairs each row has there: (name, places of the rows)."""
        straight, other = side, self.sides[1 - self.sides.index(side)]
        parts = [(straight, np.flatnonzero(~turned)), (other, np.flatnonzero(turned))]
        return [(name, there) for name, there in parts if len(there)]


class BidirectionalStart(EpochBatches[Batch]):
    """The batches of both directions in the first epochs, then those of one."""

    def __init__(self, corpus: Corpus, epochs: int, **settings: Any) -> None:
        """settings: as `Batches` takes them."""
        self.epochs = epochs
        self.after = Batches(corpus, **settings)
        self.before = Batches(BidirectionalPairs(corpus), **settings)
        self.ahead = self.after.ahead

    def at(self, epoch: int) -> Batches:
        return self.before if epoch < self.epochs else self.after

    def count(self, epoch: int) -> int:
        """How many batches an epoch has: at first twice as many as later."""
        return self.at(epoch).count(epoch)

    def batch(self, epoch: int, index: int) -> Batch:
        return self.at(epoch).batch(epoch, index)

    def largest(self) -> Batch:
        """A side that is short in one direction is long in the other, so it is one of both."""
        return max(self.before.largest(), self.after.largest(), key=lambda batch: (batch.cells, batch.width))

    def tokens_an_epoch(self, side: str) -> int:
        """Tokens of that side in an epoch of the one direction, as without such a start."""
        return self.after.tokens_an_epoch(side)
