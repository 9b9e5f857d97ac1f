"""Batches: which rows are learned together, in which order, as padded arrays.

A batch holds rows of about the same length, as many as fit: rows × longest ≤ `batch_tokens`, counted with special
tokens and padding, because that is what a device computes and stores. Everything is a pure function of (corpus,
batch_tokens, seed, epoch, index): there is no state to save, and a run that resumes at a position gets the batch it
would have got.

The order of an epoch: rows are sorted by length, a little shaken, cut greedily into batches, and the batches are
shuffled. A corpus of many millions of rows is first parted into pools of whole blocks (a random choice of blocks for
each pool, another one every epoch), so that reading stays near and sorting stays cheap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from anaphora.data.corpus import Pairs
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    from anaphora.tokenizers.subword_dropout import SubwordSampler

BLOCK_ROWS, POOL_BLOCKS = 65_536, 16  # a pool: about a million rows
JITTER_TOKENS = 2.0  # tokens by which the other side may be out of order; 4 % padding on Multi30k, 3 % without
DROPOUT_GROWTH = 1.5  # room for subword dropout; BPE-dropout of 0.1 makes text 1.3 times as long
Position = tuple[int, int]  # (epoch, index)


class AnyBatch(Protocol):
    """What is known of every batch: how large it is, and that fewer rows of it are a batch too."""

    @property
    def height(self) -> int:
        """Rows, with those that only fill the batch up."""
        ...

    @property
    def width(self) -> int:
        """Tokens of its longest side."""
        ...

    def first(self, rows: int) -> AnyBatch:
        """The same batch with fewer rows, as wide as before."""
        ...


B = TypeVar("B", bound=AnyBatch)


class EpochBatches(ABC, Generic[B]):
    """Batches by epoch and index, each a pure function of its place: all that the loop takes of a text."""

    ahead = False
    """Whether making a batch takes so long that another thread should make it ahead of time."""

    @abstractmethod
    def count(self, epoch: int) -> int:
        """How many batches an epoch has; epochs may differ by a few."""

    @abstractmethod
    def batch(self, epoch: int, index: int) -> B:
        """One batch, always the same for the same position."""

    @abstractmethod
    def largest(self) -> B | None:
        """The batch that needs most memory, to be tried first, if that is known."""

    @abstractmethod
    def tokens_an_epoch(self, side: str) -> int:
        """Tokens of that side that are learned in an epoch."""

    def from_position(self, epoch: int, index: int, *, prefetch: bool = False) -> Iterator[tuple[B, Position]]:
        """Batches from a position on, without end, each with the position after it; `prefetch` only adds speed."""
        if not prefetch:
            for here, after in self._positions(epoch, index):
                yield self.batch(*here), after
            return
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as worker:
            waiting: list[tuple[Future[B], Position]] = []
            try:
                for here, after in self._positions(epoch, index):
                    waiting.append((worker.submit(self.batch, *here), after))
                    if len(waiting) > 3:
                        future, then = waiting.pop(0)
                        yield future.result(), then
            finally:
                for future, _ in waiting:
                    future.cancel()

    def _positions(self, epoch: int, index: int) -> Iterator[tuple[Position, Position]]:
        while True:
            after = (epoch, index + 1) if index + 1 < self.count(epoch) else (epoch + 1, 0)
            if index < self.count(epoch):
                yield (epoch, index), after
            epoch, index = after


@dataclass
class Batch:
    """Some rows as arrays. A source is ids + EOS; any other side is BOS + ids + EOS."""

    rows: np.ndarray  # (B,) row numbers in the corpus
    tokens: dict[str, np.ndarray]  # per side (B, T) int64, PAD after the end
    lengths: dict[str, np.ndarray]  # per side (B,) int64, special tokens included

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cells(self) -> int:
        """Everything a device sees, padding included."""
        return sum(tokens.size for tokens in self.tokens.values())

    @property
    def height(self) -> int:
        return len(next(iter(self.tokens.values())))

    @property
    def width(self) -> int:
        return max(tokens.shape[1] for tokens in self.tokens.values())

    def first(self, rows: int) -> Batch:
        return Batch(
            rows=self.rows[:rows],
            tokens={side: tokens[:rows] for side, tokens in self.tokens.items()},
            lengths={side: lengths[:rows] for side, lengths in self.lengths.items()},
        )


class RowBatches(EpochBatches[B]):
    """The batches of rows of about the same length, whatever is made of them: order and borders."""

    def __init__(
        self,
        sides: Sequence[str],
        lengths: np.ndarray,
        batch_tokens: int,
        seed: int,
        *,
        growth: float = 1.0,
        multiple: int = 1,
        max_length: int | None = None,
    ) -> None:
        """lengths (n, sides): of every row, without special tokens."""
        if batch_tokens < 1:
            raise UserError(f"training.batch_tokens is {batch_tokens}", cure="make it a few thousand")
        if seed < 0:
            raise UserError(f"training.seed is {seed}", cure="make it 0 or more")
        self.sides, self.size, self.batch_tokens, self.seed = tuple(sides), len(lengths), batch_tokens, seed
        self.growth, self.multiple = growth, multiple
        self.max_length = max_length or 1 << 30
        self.begins = {side: int(side != "source") for side in sides}  # BOS in front?
        specials = np.array([1 + self.begins[side] for side in sides], dtype=np.int32)
        self._tokens = lengths.sum(axis=0) + len(lengths)  # (sides,) with end marks
        self._lengths: np.ndarray = self._rounded_up(lengths + specials)  # (n, sides)
        self._longest: np.ndarray = self._lengths.max(axis=1)  # (n,)
        self.order = lru_cache(maxsize=2)(self._order)  # an epoch and the next, for the prefetcher

    @abstractmethod
    def _make(self, rows: np.ndarray, seed: tuple[int, ...] | None) -> B:
        """Rows as arrays, whatever is random about them drawn with this seed, if there is one."""

    # -- order ---------------------------------------------------------------------------------------------------------

    def _order(self, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch, in the order of training."""
        random = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        blocks = np.argsort(random.random(-(-self.size // BLOCK_ROWS)))
        batches: list[np.ndarray] = []
        for start in range(0, len(blocks), POOL_BLOCKS):
            pool = [
                np.arange(b * BLOCK_ROWS, min((b + 1) * BLOCK_ROWS, self.size))
                for b in sorted(blocks[start : start + POOL_BLOCKS].tolist())
            ]
            cut = self._cut(np.concatenate(pool), random)
            batches += [cut[i] for i in np.argsort(random.random(len(cut)))]
        return batches

    def _cut(self, rows: np.ndarray, random: np.random.Generator | None) -> list[np.ndarray]:
        """Sort rows by length and cut greedily; without `random`, equals stay in the order of the corpus."""
        longest, lengths = self._longest[rows], self._lengths[rows]
        # Among rows of the same longest side, neighbours should agree on the other one as well. Every second group runs
        # backwards, so that the end of one group is like the start of the next.
        backwards = longest // self.multiple % 2
        skew = (lengths[:, 0] - lengths[:, -1]) * (1.0 - 2.0 * backwards)  # (n,) which side is longer, by how much
        if random is not None:
            skew += random.random(len(rows)) * JITTER_TOKENS
        rows = rows[np.lexsort((skew, longest))]  # stable: without `random`, equals stay in the order of the corpus
        longest = self._longest[rows]
        batches, start = [], 0
        budget = int(self.batch_tokens / self.growth)
        room = budget if random is None else int(budget * random.random())  # shifts every border
        while start < len(rows):
            most = max(1, room // int(longest[start]))  # longer rows follow, so at most this many fit
            window = longest[start : start + most]
            fits = max(1, int(np.searchsorted(window * np.arange(1, len(window) + 1), room, side="right")))
            batches.append(rows[start : start + fits])
            start, room = start + fits, budget
        return batches

    def count(self, epoch: int) -> int:
        """How many batches an epoch has; epochs may differ by a few."""
        return len(self.order(epoch))

    # -- batches -------------------------------------------------------------------------------------------------------

    def batch(self, epoch: int, index: int) -> B:
        """One batch, always the same for the same position."""
        return self._make(self.order(epoch)[index], (self.seed, epoch, index))

    def fixed(self) -> Iterator[B]:
        """Every row once, by length, without dropout: for validation."""
        for rows in self._cut(np.arange(self.size), None):
            yield self._make(rows, None)

    def _most(self) -> np.ndarray:
        """The rows of the batch that needs most memory.

        Epochs cut a little differently, so one of theirs may have a row more; `batch_tokens` bounds them all.
        """
        cuts = self._cut(np.arange(self.size), None)
        cells = [self._height(rows) * int(self._lengths[rows].max(axis=0).sum()) for rows in cuts]
        most = max(range(len(cuts)), key=lambda i: (cells[i], int(self._longest[cuts[i]].max())))
        return cuts[most]

    def largest(self) -> B:
        return self._make(self._most(), None)

    def tokens_an_epoch(self, side: str) -> int:
        return int(self._tokens[self.sides.index(side)])

    def _height(self, rows: np.ndarray) -> int:
        """How many rows a batch of these has, with those that fill it up."""
        most = int(self.batch_tokens / self.growth) // int(self._longest[rows].max())
        return max(len(rows), most) if self.multiple > 1 else len(rows)

    def _rounded_up(self, lengths: np.ndarray) -> np.ndarray:
        """To the next multiple, but not beyond what the model takes."""
        return np.maximum(lengths, np.minimum(-(-lengths // self.multiple) * self.multiple, self.max_length))


class Batches(RowBatches[Batch]):
    """The batches of a corpus, by epoch and index.

    With a sampler for a side, its text is cut anew into subwords at every visit (subword dropout). Its rows then grow,
    some far more than others, and one long row would widen all of its batch. So a batch is cut with room to grow by
    half, and the few rows that outgrow it are drawn again with less dropout: the bound holds all the same.

    With `multiple` above 1 batches have few shapes: widths are multiples of it, and a batch has as many rows as its
    width allows, the missing ones filled up with rows that say nothing (one mark on the source side, no label).
    Neither this nor subword dropout makes a row wider than `max_length`, the most that the model takes.
    """

    def __init__(
        self,
        corpus: Pairs,
        batch_tokens: int,
        seed: int = 1,
        *,
        samplers: Mapping[str, SubwordSampler] | None = None,
        dropout: float = 0.0,
        multiple: int = 1,
        max_length: int | None = None,
    ) -> None:
        self.corpus = corpus
        self.samplers = dict(samplers or {}) if dropout > 0 else {}
        self.dropout = dropout
        self.ahead = bool(self.samplers)  # cutting words anew takes a while
        growth = DROPOUT_GROWTH if self.samplers else 1.0
        super().__init__(
            corpus.sides, corpus.lengths, batch_tokens, seed, growth=growth, multiple=multiple, max_length=max_length
        )

    def largest(self) -> Batch:
        """The batch that needs most memory, to be tried first; under dropout as wide as a draw may make it."""
        batch = super().largest()
        for side, tokens in batch.tokens.items():
            wider = self._widest(tokens.shape[1]) - tokens.shape[1] if side in self.samplers else 0
            batch.tokens[side] = np.pad(tokens, ((0, 0), (0, wider)), constant_values=PAD)
        return batch

    def _widest(self, width: int) -> int:
        widest = min(int(width * self.growth), max(width, self.max_length))
        return max(width, widest if widest == self.max_length else widest // self.multiple * self.multiple)

    def _make(self, rows: np.ndarray, seed: tuple[int, ...] | None) -> Batch:
        """Rows as arrays, subwords drawn with this seed if there is one."""
        tokens, lengths = {}, {}
        for number, side in enumerate(self.corpus.sides):
            if seed is not None and side in self.samplers:
                room = self._widest(int(self._lengths[rows, number].max())) - 1 - self.begins[side]
                ids = self._draw(side, self.corpus.texts(side, rows), room, (*seed, number))
                values, size = np.concatenate(ids), np.array([len(row) for row in ids], dtype=np.int64)
            else:
                values, offsets = self.corpus.ids(side, rows)
                size = np.diff(offsets)
            width = int(self._rounded_up(size.max() + self.begins[side] + 1))
            tokens[side], lengths[side] = pad(values, size, self.begins[side], self._height(rows), width)
        return Batch(rows, tokens, lengths)

    def _draw(self, side: str, texts: list[str], room: int, seed: tuple[int, ...]) -> list[np.ndarray]:
        """Subword dropout in rows of at most `room` ids; a longer one is drawn again, with less and less dropout."""
        ids = self.samplers[side].encode_batch(texts, self.dropout, (*seed, 0))
        for attempt, dropout in enumerate((self.dropout / 2, self.dropout / 4, 0.0), start=1):
            long = [i for i, row in enumerate(ids) if len(row) > room]
            if not long:
                break
            again = self.samplers[side].encode_batch([texts[i] for i in long], dropout, (*seed, attempt))
            for i, row in zip(long, again):
                ids[i] = row
        return ids


def pad(
    values: np.ndarray, size: np.ndarray, begin: int, height: int | None = None, width: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows laid end to end -> (B, T) with EOS, PAD after it, and with `begin` BOS in front; and lengths (B,).

    B and T are as small as can be, or `height` and `width`; rows beyond those given hold one mark alone.
    """
    rows = len(size)
    lengths = np.ones(height or rows, dtype=np.int64)
    lengths[:rows] = size + begin + 1
    column = np.arange(width or lengths.max())  # (T,)
    tokens = np.full((len(lengths), len(column)), PAD, dtype=np.int64)
    tokens[:rows][(column >= begin) & (column < (size + begin)[:, None])] = values
    tokens[np.arange(rows), size + begin] = EOS
    tokens[rows:, 0] = EOS
    if begin:
        tokens[:, 0] = BOS
    return tokens, lengths
