"""Asking a model that is larger than the memory one may take.

A trie is mapped, so its pages count as resident once they were looked at, and the system leaves them there as long as
nobody else wants the room. Where a limit was set, they are given back before it is reached.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.kernels.ngrams import F32, Trie, Whole, walk
from anaphora.models.ngram.counting import resident
from anaphora.models.ngram.file import let_go
from anaphora.models.ngram.model import NgramConfig, NgramModel

STRIDE = 8
"""Tokens between two looks at the memory; each may make a megabyte resident, since the system maps the neighbours of a
page that is asked for along with it."""
FULL = 0.8
"""Part of the limit from which on pages are given back."""


class LimitedModel(NgramModel):
    """The same model, one token after another, within so many bytes of resident memory, the rest of the process
    included."""

    def __init__(self, config: NgramConfig, trie: Trie, memory: int) -> None:
        super().__init__(config, trie)
        self.memory = memory

    def score_flat_orders(
        self, tokens: NDArray[Any], starts: NDArray[np.int64], *, threads: int = 1
    ) -> tuple[F32, NDArray[np.uint8]]:
        tokens = np.ascontiguousarray(tokens, np.uint32)
        scores, orders = np.empty(len(tokens), np.float32), np.empty(len(tokens), np.uint8)
        since = 0
        for begin, end in pairwise(starts.tolist()):
            state: Whole
            length: Whole
            state, length = self._begin()
            for at in range(begin, end, STRIDE):
                some = slice(at, min(at + STRIDE, end))
                found = scores[some], orders[some]
                state, length = walk(tokens[some], state, length, self.trie, self.rule, *found)
                since += some.stop - at
                if since >= STRIDE:
                    since = 0
                    if resident() > self.memory * FULL:
                        let_go(self.trie)
        return scores, orders
