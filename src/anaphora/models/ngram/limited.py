"""Asking a model that is larger than the memory one may take.

A trie is mapped, so its pages count as resident once they were looked at, and the system leaves them there as long as
nobody else wants the room. Where a limit was set, they are given back before it is reached.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.device import resident
from anaphora.models.ngram.kernels.ngrams import F32, U32, Trie, Whole, walk
from anaphora.models.ngram.ngram_file import let_go
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel

TOKEN = 1 << 20
"""Bytes that one token may make resident: the system maps the neighbours of a page that is asked for along with it."""
RESERVE_SHARE = 0.2
"""Part of what the limit leaves to the trie below which its pages are given back."""

LONGEST_STRIDE = 1 << 16
"""Tokens between two looks where the trie fits in as a whole."""


class LimitedModel(NgramModel):
    """The same model within so many bytes of resident memory, the rest of the process included: where the trie does not
    fit in them as a whole, one token after another."""

    def __init__(self, config: NgramConfig, trie: Trie, memory: int) -> None:
        super().__init__(config, trie)
        self.memory = memory
        self.size = sum(array.nbytes for array in trie)
        self._room = memory - resident()  # what the limit leaves to the trie
        self._stride = 0  # tokens that may be read before the memory is looked at again

    def score_flat_orders(
        self, tokens: NDArray[Any], starts: NDArray[np.int64], *, threads: int = 1
    ) -> tuple[F32, NDArray[np.uint8]]:
        if self._fits():
            return super().score_flat_orders(tokens, starts, threads=threads)
        tokens = np.ascontiguousarray(self._checked(tokens), np.uint32)
        scores, orders = np.empty(len(tokens), np.float32), np.empty(len(tokens), np.uint8)
        for begin, end in pairwise(starts.tolist()):
            self._walk(tokens[begin:end], self._begin(), scores[begin:end], orders[begin:end])
        return scores, orders

    def _walk(
        self, tokens: U32, state: tuple[Whole, Whole], scores: F32, orders: NDArray[np.uint8]
    ) -> tuple[Whole, Whole]:
        at = 0
        while at < len(tokens):
            if not self._stride:
                self._stride = self._look()
            some = slice(at, min(at + self._stride, len(tokens)))
            state = walk(tokens[some], *state, self.trie, self.rule, scores[some], orders[some])
            self._stride -= some.stop - at
            at = some.stop
        return state

    def _fits(self) -> bool:
        """Whether there is room for all of the trie."""
        return self.size <= (1 - RESERVE_SHARE) * self._room

    def _look(self) -> int:
        """How many tokens the memory that is left is enough for; where it runs short, pages are given back first."""
        left = self.memory - resident()
        if left < RESERVE_SHARE * self._room:
            let_go(self.trie)
            left = self._room = self.memory - resident()
        return LONGEST_STRIDE if self._fits() else max(left // TOKEN, 1)
