"""Batches of a language model's text: rows of tokens, each of which is predicted from those before it.

    LineBatches     a row is a line, ⟨s⟩ w … ⟨/s⟩; lines of like length together, as for translators
    StreamBatches   the text is one; a row is `context` tokens of it. A model that carries a state reads B places of the
                    text at once, each batch going on where the last one stopped; for one that does not, rows are
                    shuffled
    PackedBatches   whole documents end to end in rows of `context` tokens, numbered, so that a model can keep them
                    apart: what separate rows would give, with hardly any padding

The text is mapped, not loaded: a file of ids as data/language_corpus.py writes it. Whatever begins anew begins with
⟨s⟩: a line, a document, the piece of one that is too long for a row, and the first row of a stream, where ⟨s⟩ stands in
the place of the token before. ⟨s⟩ is never predicted. Every other token is predicted once an epoch.

As in batches.py, a batch is a pure function of (seed, epoch, index), so a place in the text is two numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anaphora.data.batches import EpochBatches, RowBatches
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, PAD

READ_AT_ONCE = 1 << 22
"""Ids that are looked through at once."""
POOL_DOCUMENTS = 1 << 16
"""Documents that are packed together: enough to fill every row, few enough to do it quickly."""
NO_DOCUMENT = -1
"""Number of what only fills a row up."""

U32 = NDArray[np.uint32]


def open_ids(path: Path) -> U32:
    """A file of ids, mapped."""
    return np.memmap(path, np.uint32, "r") if path.stat().st_size else np.zeros(0, np.uint32)


@dataclass
class LanguageBatch:
    """Some rows as arrays."""

    tokens: np.ndarray  # (B, T + 1) int64, PAD after the end: T of them are read, the next ones predicted
    lengths: np.ndarray  # (B,) int64, real tokens of each row
    rows: int  # without those that only fill the batch up
    fresh: bool = True  # no row goes on where one of the batch before stopped
    documents: np.ndarray | None = None  # (B, T + 1) int64, each token's document within its row
    classes: np.ndarray | None = None  # (B,) int64, what kind of text each row is

    @property
    def height(self) -> int:
        return len(self.tokens)

    @property
    def width(self) -> int:
        return self.tokens.shape[1]

    def labels(self) -> np.ndarray:
        """What each token but the last is to predict: the next one, PAD where that is none or ⟨s⟩ (B, T)."""
        following = self.tokens[:, 1:]
        return np.where(following == BOS, PAD, following)

    def first(self, rows: int) -> LanguageBatch:
        some = None if self.documents is None else self.documents[:rows]
        classes = None if self.classes is None else self.classes[:rows]
        return replace(
            self,
            tokens=self.tokens[:rows],
            lengths=self.lengths[:rows],
            rows=min(rows, self.rows),
            documents=some,
            classes=classes,
        )


def line_starts(ids: U32) -> NDArray[np.int64]:
    """Where the lines of a framed text begin, and where the last one ends: (n + 1,)."""
    found = [
        at + np.flatnonzero(ids[at : at + READ_AT_ONCE] == BOS).astype(np.int64)
        for at in range(0, len(ids), READ_AT_ONCE)
    ]
    return np.concatenate([*found, [len(ids)]])


@dataclass
class Pieces:
    """Lines, and of those longer than a row the pieces: ⟨s⟩ and ids[start + 1 : start + size] of each."""

    starts: NDArray[np.int64]  # (n,)
    sizes: NDArray[np.int64]  # (n,) ⟨s⟩ included
    cut: int  # lines that had to be cut

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, ids: U32, longest: int | None, *, whole: bool = False) -> Pieces:
        """Every line in pieces of at most `longest` tokens, ⟨s⟩ included; `whole`: of each line the first alone."""
        starts = line_starts(ids)
        sizes = np.diff(starts)
        starts = starts[:-1]
        if longest is None or not len(sizes) or sizes.max() <= longest:
            return cls(starts, sizes, 0)
        cut = int((sizes > longest).sum())
        if whole:
            return cls(starts, np.minimum(sizes, longest), cut)
        step = longest - 1  # the first token of a piece is ⟨s⟩, and all others are predicted
        number = np.maximum(-(-(sizes - 1) // step), 1)  # pieces of each line
        line = np.repeat(np.arange(len(sizes)), number)
        place = np.arange(len(line)) - np.repeat(np.cumsum(number) - number, number)  # of a piece in its line
        return cls(starts[line] + place * step, np.minimum(sizes[line] - place * step, longest), cut)

    def read(self, ids: U32, rows: np.ndarray, into: np.ndarray) -> None:
        """Write these pieces into the first rows of `into` (B, width)."""
        sizes = self.sizes[rows]
        inside = np.arange(into.shape[1]) < sizes[:, None]  # (rows, width)
        where = self.starts[rows][:, None] + np.arange(into.shape[1])
        into[: len(rows)][inside] = ids[where[inside]]
        into[: len(rows), 0] = BOS


def _check_room(batch_tokens: int, context: int) -> None:
    if batch_tokens < context:
        raise UserError(
            f"training.batch_tokens={batch_tokens} is less than one row of training.context={context} tokens",
            cure=f"make batch_tokens at least {context}, or context smaller",
        )


class LineBatches(RowBatches[LanguageBatch]):
    """A row is a line. rows × longest ≤ batch_tokens; with `multiple`, few shapes, as in `Batches`.

    classes: of each line, for a classifier, which reads a line whole or, where it is too long, its beginning.
    """

    def __init__(
        self,
        ids: U32,
        batch_tokens: int,
        seed: int = 1,
        *,
        max_length: int | None = None,
        multiple: int = 1,
        classes: np.ndarray | None = None,
    ) -> None:
        self.ids, self.classes = ids, classes
        self.pieces = Pieces.of(ids, max_length, whole=classes is not None)
        lengths = (self.pieces.sizes - 2).astype(np.int32)[:, None]  # ⟨s⟩ and the last token are counted as marks
        super().__init__(("text",), lengths, batch_tokens, seed, multiple=multiple, max_length=max_length)

    def _make(self, rows: np.ndarray, seed: tuple[int, ...] | None) -> LanguageBatch:
        height = self._height(rows)
        tokens = np.full((height, int(self._lengths[rows].max())), PAD, np.int64)
        tokens[:, 0] = BOS
        self.pieces.read(self.ids, rows, tokens)
        lengths = np.ones(height, np.int64)
        lengths[: len(rows)] = self.pieces.sizes[rows]
        classes = None
        if self.classes is not None:
            classes = np.zeros(height, np.int64)
            classes[: len(rows)] = self.classes[rows]
        return LanguageBatch(tokens, lengths, len(rows), classes=classes)

    def tokens_an_epoch(self, side: str) -> int:
        return self.size if self.classes is not None else super().tokens_an_epoch(side)


class StreamBatches(EpochBatches[LanguageBatch]):
    """Rows of `context` tokens of one long text, all batches of one shape.

    The text is taken as a ring, which each epoch enters at another place, so that the borders of rows are never the
    same. What is read across the joint is ⟨/s⟩ ⟨s⟩, the end and the beginning.
    """

    def __init__(self, ids: U32, batch_tokens: int, context: int, seed: int = 1, *, carries: bool) -> None:
        if len(ids) < 2:
            raise UserError("there is no training text", cure="give a text with at least one word")
        _check_room(batch_tokens, context)
        self.ids, self.seed, self.carries = ids, seed, carries
        self.context = context = min(context, len(ids))
        self.windows = -(-len(ids) // context)  # rows of an epoch
        self.streams = min(batch_tokens // context, self.windows)  # rows of a batch
        self.stream = -(-len(ids) // self.streams)  # tokens of each, where the state is carried
        self._batches = -(-self.stream // context) if carries else -(-self.windows // self.streams)
        self._shuffled = lru_cache(maxsize=2)(self._shuffle)

    def count(self, epoch: int) -> int:
        return self._batches

    def tokens_an_epoch(self, side: str) -> int:
        return len(self.ids) - 1

    def _random(self, epoch: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, epoch]))

    def _offset(self, epoch: int) -> int:
        return int(self._random(epoch).integers(len(self.ids)))

    def _shuffle(self, epoch: int) -> NDArray[np.int64]:
        random = self._random(epoch)
        random.integers(len(self.ids))  # the offset's
        return np.argsort(random.random(self.windows))

    def batch(self, epoch: int, index: int) -> LanguageBatch:
        if self.carries:
            begins = np.arange(self.streams) * self.stream
            ends = np.minimum(begins + self.stream, len(self.ids))
            begins = begins + index * self.context
            return self._read(self._offset(epoch), begins, ends, fresh=index == 0)
        chosen = self._shuffled(epoch)[index * self.streams : (index + 1) * self.streams]
        begins = np.full(self.streams, len(self.ids))  # those that fill the batch up are beyond the end
        begins[: len(chosen)] = chosen * self.context
        return self._read(self._offset(epoch), begins, np.full(self.streams, len(self.ids)), fresh=True)

    def _read(self, offset: int, begins: np.ndarray, ends: np.ndarray, *, fresh: bool) -> LanguageBatch:
        """From each place of the ring `context` tokens, and the one after them, but no token beyond its end."""
        reads = np.clip(ends - begins, 0, self.context)  # (B,) tokens read
        lengths = np.where(reads > 0, reads + 1, 1)  # and the last one predicted
        column = np.arange(self.context + 1)
        where = (offset + begins[:, None] + column) % len(self.ids)
        tokens = np.where(column < lengths[:, None], self.ids[where], PAD).astype(np.int64)
        if fresh:
            tokens[:, 0] = BOS
        return LanguageBatch(tokens, lengths, int((reads > 0).sum()), fresh=fresh)

    def largest(self) -> LanguageBatch:
        return self.batch(0, 0)


class PackedBatches(EpochBatches[LanguageBatch]):
    """Documents end to end in rows of `context` tokens, all batches of one shape.

    Documents are shuffled, taken by the tens of thousands, and put into rows longest first, each where it leaves least
    room. Those longer than a row are cut.
    """

    ahead = True

    def __init__(self, ids: U32, batch_tokens: int, context: int, seed: int = 1) -> None:
        _check_room(batch_tokens, context)
        self.ids, self.seed, self.context = ids, seed, context
        self.pieces = Pieces.of(ids, context + 1)
        if not len(self.pieces):
            raise UserError("there is no training text", cure="give a text with at least one word")
        self.streams = batch_tokens // context
        self.order = lru_cache(maxsize=2)(self._order)

    def _order(self, epoch: int) -> list[list[int]]:
        """The pieces of each row of an epoch."""
        random = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        shuffled = np.argsort(random.random(len(self.pieces)))
        rows: list[list[int]] = []
        for at in range(0, len(shuffled), POOL_DOCUMENTS):
            rows += pack(shuffled[at : at + POOL_DOCUMENTS], self.pieces.sizes, self.context + 1)
        return [rows[place] for place in np.argsort(random.random(len(rows)))]

    def count(self, epoch: int) -> int:
        return -(-len(self.order(epoch)) // self.streams)

    def tokens_an_epoch(self, side: str) -> int:
        return int((self.pieces.sizes - 1).sum())

    def batch(self, epoch: int, index: int) -> LanguageBatch:
        return self._make(self.order(epoch)[index * self.streams : (index + 1) * self.streams])

    def _make(self, rows: list[list[int]]) -> LanguageBatch:
        tokens = np.full((self.streams, self.context + 1), PAD, np.int64)
        documents = np.full_like(tokens, NO_DOCUMENT)
        lengths = np.ones(self.streams, np.int64)
        tokens[:, 0] = BOS  # of rows that only fill the batch up
        for row, inside in enumerate(rows):
            at = 0
            for number, piece in enumerate(inside):
                begin, size = int(self.pieces.starts[piece]), int(self.pieces.sizes[piece])
                tokens[row, at : at + size] = self.ids[begin : begin + size]
                tokens[row, at] = BOS
                documents[row, at : at + size] = number
                at += size
            lengths[row] = at
        return LanguageBatch(tokens, lengths, len(rows), documents=documents)

    def largest(self) -> LanguageBatch:
        return self.batch(0, 0)


def pack(pieces: np.ndarray, sizes: np.ndarray, room: int) -> list[list[int]]:
    """Put pieces of these sizes into rows of `room` tokens, longest first, each into the row that it fills best."""
    rows: list[list[int]] = []
    having: list[list[int]] = [[] for _ in range(room + 1)]  # rows by the room that is left in them
    some = 0  # bit r: there is a row with room for r
    for piece in pieces[np.argsort(-sizes[pieces], kind="stable")].tolist():
        size = int(sizes[piece])
        fitting = some >> size
        if fitting:
            left = size + (fitting & -fitting).bit_length() - 1  # the least that is enough
            row = having[left].pop()
            if not having[left]:
                some &= ~(1 << left)
        else:
            left, row = room, len(rows)
            rows.append([])
        rows[row].append(piece)
        having[left - size].append(row)
        some |= 1 << (left - size)
    return rows
