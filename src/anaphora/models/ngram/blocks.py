"""From counts to a trie in a file: the smoothing of smoothing.py and the trie of ngram_model.py, in blocks.

The contexts of an order stand in the order of their children, so both are read side by side, a block of contexts with
all their children at a time. What has to be looked up elsewhere, the numbers of an n-gram's suffix one order lower, is
gathered into columns first (columns.py), in files or in memory like the counts themselves.

Whatever the size of the blocks, each number is computed by the same operations in the same order as by `estimate` and
`build_trie`, which show the whole without blocks: the file is the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.models.ngram.columns import Column, gather, occurrences
from anaphora.models.ngram.kernels.ngrams import NOWHERE, U32, count_of_counts, interpolate, relative
from anaphora.models.ngram.ngram_file import TrieFile
from anaphora.models.ngram.smoothing import (
    Smoothing,
    discounts_from,
    interpolate_words,
    log,
    predictable,
    pruning_thresholds,
    relative_words,
)
from anaphora.models.ngram.spill import Spilled, Work
from anaphora.tokenizers.tokenizer import BOS, PAD

GRAM_COST = 160
"""Bytes of memory that an n-gram of a block takes at the most, with what is left of the block before."""
LARGEST_BLOCK = 1 << 18
"""More n-grams at once would not be quicker."""


@dataclass(frozen=True)
class Fitted:
    """What came out: how many n-grams of each order, and the discounts of each (Kneser-Ney only)."""

    sizes: list[int]
    discounts: list[tuple[float, ...]]
    fell_back: list[bool]


@dataclass(frozen=True)
class Block:
    """Contexts [begin, end) with their children [low, high)."""

    begin: int
    end: int
    low: int
    high: int
    first: U32
    """From low on: (end - begin + 1,)."""


class BlockSmoother:
    """Makes the trie of what was counted in a work folder, an order at a time."""

    def __init__(
        self, work: Work, counted: list[int], smoothing: Smoothing, *, prune: list[int], k: float, room: int
    ) -> None:
        self.work = work
        self.counted = counted
        self.order = len(counted)
        self.smoothing = smoothing
        self.thresholds = pruning_thresholds(self.order, prune)
        self.added = k if smoothing == "add-k" else 0.0
        self.words = int(predictable(counted[0]).sum())
        self.block = max(min(room // GRAM_COST, LARGEST_BLOCK), 1)
        self.room = room

    def run(self, file: Path) -> Fitted:
        """All stages that are not done yet; `file` is the trie's, complete when this returns."""
        if (sealed := self.work.note("sealed")) is not None:
            return Fitted(sealed["sizes"], [tuple(of) for of in sealed["discounts"]], sealed["fell_back"])
        sizes = self._sizes()
        self.bases = np.cumsum([0, *sizes]).tolist()
        if self.bases[-1] >= int(NOWHERE):
            raise UserError(
                f"{self.bases[-1]:,} n-grams are more than a model can number",
                cure="leave out rare ones (model.prune) or lower model.order",
            )
        notes = []
        with TrieFile(file, sizes) as trie:
            for order in range(1, self.order + 1):
                note = self.work.note(f"smooth-{order}")
                if note is None:
                    note = self._words(trie) if order == 1 else self._longer(order, trie)
                    if self.work.durable:
                        trie.sync()
                    self.work.finish(f"smooth-{order}", note, trie.take_extents())
                self._forget(order)
                notes.append(note)
            trie.write("limits", 0, np.array(self.bases[1:], np.int64))
            trie.write("first", self.bases[-2] if self.order > 1 else 0, np.array([self.bases[-1]]))
            checksum = trie.seal()
        fitted = Fitted(sizes, [tuple(note["discounts"]) for note in notes], [note["fell_back"] for note in notes])
        self.work.finish("sealed", {"checksum": checksum, "counted": self.counted, **asdict(fitted)})
        return fitted

    def _sizes(self) -> list[int]:
        """How many n-grams stay; every word does, to keep its number."""
        sizes = self.counted[:1]
        for order in range(2, self.order + 1):
            if self.thresholds[order - 1] == 0:
                sizes.append(self.counted[order - 1])
            else:
                blocks = self.work.grams(order).count.blocks(self.block)
                sizes.append(sum(int((block > self.thresholds[order - 1]).sum()) for _, block in blocks))
        return sizes

    def _forget(self, order: int) -> None:
        """Delete what no later stage reads."""
        for name, of in (("probability", -1), ("link", -1), ("lower", 0), ("answers", 0), ("adjusted", 0)):
            self.work.column(f"{name}-{order + of}").remove()

    # -- single words ----------------------------------------------------------------------------------------------

    def _words(self, trie: TrieFile) -> dict[str, Any]:
        adjusted = self._adjusted(1)
        counts = adjusted.read(0, len(adjusted)).copy()
        counts[[PAD, BOS]] = 0
        minus: tuple[float, ...] = ()
        fell_back = False
        if self.smoothing == "kneser-ney":
            minus, fell_back = discounts_from(count_of_counts(counts))
            probability = interpolate_words(counts, np.array(minus))
        else:
            probability = relative_words(counts, self.added)
        trie.write("word", 0, np.arange(len(counts), dtype=np.uint32))
        trie.write("link", 0, np.full(len(counts), NOWHERE, np.uint32))
        trie.write("log_probability", 0, log(probability))
        with self.work.column("probability-1", np.float64).append() as out:
            out.write(probability)
        with self.work.column("link-1").append() as out:
            out.write(np.full(len(counts), NOWHERE, np.uint32))
        return {"discounts": list(minus), "fell_back": fell_back}

    # -- longer ones -----------------------------------------------------------------------------------------------

    def _longer(self, order: int, trie: TrieFile) -> dict[str, Any]:
        grams = self.work.grams(order)
        threshold = self.thresholds[order - 1]
        self._contexts(order, grams, trie)
        lower, link = self.work.column(f"lower-{order}", np.float64), self.work.column(f"link-{order}")
        gather(self.work.column(f"answers-{order}"), grams.suffix, link, self.room)
        adjusted, fell_back = grams.count, False
        minus: tuple[float, ...] = ()
        if self.smoothing == "kneser-ney":
            gather(self.work.column(f"probability-{order - 1}", np.float64), grams.suffix, lower, self.room, keep=False)
            adjusted = self._adjusted(order)
            t = np.zeros(5, np.int64)
            for _, some in adjusted.blocks(self.block):
                t += count_of_counts(some)
            minus, fell_back = discounts_from(t)
        table = np.array(minus, np.float64)
        placed, contexts_placed = self.bases[order - 1], self.bases[order - 2]
        with self.work.column(f"probability-{order}", np.float64).append() as out:
            for block in self._blocks(grams.first, self.counted[order - 2]):
                count = grams.count.read(block.low, block.high)
                keep = count > threshold
                if self.smoothing == "kneser-ney":
                    used = adjusted.read(block.low, block.high)
                    below = lower.read(block.low, block.high)
                    probability, weight = interpolate(
                        used, block.first, np.arange(len(used), dtype=np.uint32), below, table, keep
                    )
                    if order < self.order:
                        out.write(probability)
                else:
                    used = np.where(keep, count, 0).astype(np.uint32)
                    probability, weight = relative(used, block.first, self.added, self.words)
                trie.write("word", placed, grams.word.read(block.low, block.high)[keep])
                trie.write("link", placed, link.read(block.low, block.high)[keep])
                trie.write("log_probability", placed, log(probability[keep]))
                stays = self._stays(order - 1, block)
                trie.write("log_weight", contexts_placed, log(weight)[stays])
                placed += int(keep.sum())
                contexts_placed += int(stays.sum())
        return {"discounts": list(minus), "fell_back": fell_back}

    def _contexts(self, order: int, grams: Spilled, trie: TrieFile) -> None:
        """Where the children of each context begin; and what to answer one that falls back to it: its own number, or,
        if nothing follows it, where it falls back to itself."""
        placed, next_child = self.bases[order - 2], self.bases[order - 1]
        link = self.work.column(f"link-{order - 1}")
        with self.work.column(f"answers-{order}").append(keep=False) as answers:
            for block in self._blocks(grams.first, self.counted[order - 2]):
                keep = grams.count.read(block.low, block.high) > self.thresholds[order - 1]
                before = np.append(0, np.cumsum(keep))[block.first] + next_child  # children that stay, before each's
                stays = self._stays(order - 1, block)
                number = placed + np.cumsum(stays) - stays
                followed = before[1:] != before[:-1]
                answers.write(np.where(followed, number, link.read(block.begin, block.end)))
                trie.write("first", placed, before[:-1][stays])
                placed += int(stays.sum())
                next_child += int(keep.sum())

    def _stays(self, order: int, block: Block) -> NDArray[np.bool_]:
        """Which contexts are n-grams of the model."""
        if order == 1:
            return np.ones(block.end - block.begin, np.bool_)
        return self.work.grams(order).count.read(block.begin, block.end) > self.thresholds[order - 1]

    def _blocks(self, first: Column, contexts: int) -> Iterator[Block]:
        """All contexts, in blocks of so many with so many children; a context is never parted from its children."""
        begin = 0
        while begin < contexts:
            some = first.read(begin, min(begin + self.block, contexts) + 1)
            fitting = int(np.searchsorted(some, int(some[0]) + self.block, "right")) - 1
            some = some[: max(fitting, 1) + 1]
            end = begin + len(some) - 1
            yield Block(begin, end, int(some[0]), int(some[-1]), some - some[0])
            begin = end

    def _adjusted(self, order: int) -> Column:
        """What Kneser-Ney counts (`adjusted_counts`); any other smoothing takes the counts as they are."""
        counts = self.work.grams(order).count
        if order == self.order or self.smoothing != "kneser-ney":
            return counts
        adjusted = self.work.column(f"adjusted-{order}")
        with adjusted.append(keep=False) as out:
            for begin, found in occurrences(self.work.grams(order + 1).suffix, self.counted[order - 1], self.room // 2):
                np.copyto(found, counts.read(begin, begin + len(found)), where=found == 0)
                out.write(found)
        return adjusted
