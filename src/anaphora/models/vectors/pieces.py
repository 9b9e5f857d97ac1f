"""Work that threads do piece by piece on the same tables, with checkpoints between pieces."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anaphora.device import cores
from anaphora.errors import UserError
from anaphora.models.vectors.pace import Pace

Progress = Callable[["Learned"], None]


class Piece(NamedTuple):
    """What a piece gives."""

    epoch: int
    loss: float
    pairs: int
    tokens: int
    words: int = 0


@dataclass
class Learned:
    """How far a run has come."""

    pieces: int = 0
    """Done, of all epochs."""
    of: int = 0
    tokens: int = 0
    """Read, end marks included; of a table of co-occurrences, entries."""
    words: int = 0
    """Learned from: what subsampling left (word2vec)."""
    seconds: float = 0.0
    """Of learning, all sessions together."""
    thread_seconds: float = 0.0
    """The same, each second counted as often as threads were at work: of those that it was given, as many as paid."""
    loss: list[float] = field(default_factory=list)
    """Of each epoch, summed over the pairs that were measured, as they are learned: those of every 16th word in
    word2vec, all of them in GloVe."""
    pairs: list[int] = field(default_factory=list)
    """How many they are."""
    ended: list[int] = field(default_factory=list)
    """Pieces of each epoch that are done: of several threads, one may be an epoch behind."""
    text: str = ""
    """A print of what is learned from, where nobody else watches over it."""
    known: int = 0
    """Words that were known before, in the vectors that it started from."""

    @property
    def losses(self) -> list[float]:
        """The mean loss of a pair in each epoch that has begun."""
        return [loss / pairs for loss, pairs in zip(self.loss, self.pairs) if pairs]

    @property
    def threads(self) -> float:
        """How many were at work, in the mean."""
        return self.thread_seconds / self.seconds if self.seconds else 0.0

    @property
    def finished(self) -> bool:
        return self.pieces == self.of

    @property
    def epochs(self) -> int:
        """How many are done to the last piece."""
        whole = self.of // len(self.ended) if self.ended else 0
        return next((epoch for epoch, done in enumerate(self.ended) if done < whole), len(self.ended))

    def expect(self, epochs: int, pieces: int) -> None:
        """Make room for so many epochs of so many pieces."""
        self.of = epochs * pieces
        self.loss += [0.0] * (epochs - len(self.loss))
        self.pairs += [0] * (epochs - len(self.pairs))
        self.ended = [min(max(self.pieces - epoch * pieces, 0), pieces) for epoch in range(epochs)]

    def add(self, piece: Piece) -> None:
        """It is done."""
        self.loss[piece.epoch] += piece.loss
        self.pairs[piece.epoch] += piece.pairs
        self.ended[piece.epoch] += 1
        self.pieces, self.tokens, self.words = self.pieces + 1, self.tokens + piece.tokens, self.words + piece.words


def learn_pieces(
    work: Callable[[int], Piece],
    learned: Learned,
    *,
    threads: int | None,
    rate: float,
    progress: Progress,
    save: Callable[[], None] | None,
    seconds: float,
    stop: Callable[[], bool] = lambda: False,
) -> Learned:
    """Do the pieces that are left, begun in their order, at most `threads` at a time (nothing: as many as there are
    cores): as many as are quickest. `learned` is kept up to date and told to `progress` as each ends.

    `save` is called every so many seconds, when no piece is half done, and in the end. `stop`: whether no further piece
    is to be begun. `rate` is named where vectors grow without bound.
    """
    threads = threads or cores()
    todo = iter(range(learned.pieces, learned.of))
    began, before = time.monotonic(), learned.seconds
    saved, since = began, 0
    pace = Pace(threads)

    def done(piece: Piece, busy: float) -> None:
        if not math.isfinite(piece.loss):
            raise UserError(
                f"the vectors grew without bound (epoch {piece.epoch + 1})",
                cure=f"lower training.learning_rate, which is {rate:g}",
            )
        learned.add(piece)
        learned.seconds = before + time.monotonic() - began
        learned.thread_seconds += busy
        progress(learned)

    with ThreadPoolExecutor(threads, thread_name_prefix="learning") as pool:
        running: set[Future[Piece]] = set()
        while True:
            due = save is not None and since > 0 and time.monotonic() - saved > seconds
            while not due and not stop() and len(running) < pace.active and (number := next(todo, None)) is not None:
                running.add(pool.submit(work, number))
            if running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    done(future.result(), pace.ended(len(running)))
                    since += 1
            elif due and save is not None and not stop():
                save()
                saved, since = time.monotonic(), 0
            else:
                break
    if save is not None and since > 0:
        save()
    return learned


def check_ids(ids: NDArray[np.uint32], vocabulary: int) -> None:
    """Compiled loops look rows up without asking: an id that no word has is found out before."""
    if len(ids) and int(ids.max()) >= vocabulary:
        raise UserError(
            f"the prepared text has the id {int(ids.max()):,}, and there are {vocabulary:,}: it is damaged",
            cure="train into another folder, or restore this one from a copy",
        )


def piece_seed(seed: int, piece: int) -> int:
    """Bits to begin with, far from those of other pieces: what is drawn next are multiples of GOLDEN away."""
    number = (seed * 0xD1342543DE82EF95 + piece * 0xAF251AF3B0F025B5 + 1) % 2**64
    number = (number ^ (number >> 31)) * 0x7FB5D329728EA185 % 2**64
    return (number ^ (number >> 27)) * 0x81DADEF4BC2DD44D % 2**64
