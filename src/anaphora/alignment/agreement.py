"""Alignment by agreement: what two IBM-1 models, one for each direction, both believe.

IBM-1 errs differently in its two directions: asked for the source of every target word, it gives rare source words too
many targets; asked the other way round, the reverse. What both say is mostly right (Liang et al. 2006, *Alignment by
Agreement*). What neither can know is which of two equal words is meant ("the … the"), since IBM-1 has no positions;
here the one nearer to the diagonal wins, weighted as in fast_align (Dyer et al. 2013).

No gold alignment is used anywhere, so this serves as a yardstick where there is none: to choose the attention head that
aligns best, and as a teacher for guided alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from anaphora.alignment.ibm1 import IBM1

Links = set[tuple[int, int]]
"""(source word, target word), both from 0."""

TENSION = 4.0
"""How strongly the diagonal is preferred; fast_align's default."""


class Agreement:
    """Two IBM-1 models that check each other."""

    def __init__(self, forward: IBM1, backward: IBM1) -> None:
        self.forward, self.backward = forward, backward

    @classmethod
    def fit(cls, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Agreement:
        """Learn from pairs of lines of words. The same lines give the same models."""
        from anaphora.alignment.ibm1 import IBM1  # with numba, a third of a second that every command would wait

        return cls(IBM1.fit(sources, targets), IBM1.fit(targets, sources))

    def beliefs(self, source: Sequence[str], target: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(T, S) twice: P(target word t came from source word s), and P(source word s came from target word t)."""
        return self.forward.posteriors(source, target), self.backward.posteriors(target, source).T

    def links(self, source: Sequence[str], target: Sequence[str]) -> tuple[Links, Links]:
        """What both directions say, and what either says."""
        forward, backward = self.beliefs(source, target)
        near = diagonal(len(source), len(target))
        ours = {(s, t) for t, s in _best(forward, near)}
        theirs = {(s, t) for s, t in _best(backward.T, near.T)}
        return ours & theirs, ours | theirs

    def lesson(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """(T, S): for each target word, where it should look, and in the sum of its row how sure we are (0 to 1)."""
        forward, backward = self.beliefs(source, target)
        both = forward * backward
        where = both * diagonal(len(source), len(target))
        where /= np.maximum(where.sum(axis=1, keepdims=True), 1e-30)
        sure = np.minimum(np.sqrt(both).sum(axis=1, keepdims=True), 1.0)
        return (sure * where).astype(np.float32)

    def plain(self, source: Sequence[str], target: Sequence[str]) -> dict[str, Links]:
        """IBM-1 as it is commonly used: either direction, their intersection and their union."""
        forward = set(self.forward.align(source, target))
        backward = {(s, t) for t, s in self.backward.align(target, source)}
        return {
            "source to target": forward,
            "target to source": backward,
            "intersection": forward & backward,
            "union": forward | backward,
        }


def diagonal(source: int, target: int) -> np.ndarray:
    """(T, S): e^(-tension · |s/S - t/T|), the middle of each word counted."""
    across = (np.arange(source) + 0.5) / max(source, 1)
    down = (np.arange(target) + 0.5) / max(target, 1)
    return np.exp(-TENSION * np.abs(down[:, None] - across))


def _best(belief: np.ndarray, near: np.ndarray) -> list[tuple[int, int]]:
    """(row, its best column), where that is more probable than none at all."""
    if not belief.size:
        return []
    best = (belief * near).argmax(axis=1)
    value = np.take_along_axis(belief, best[:, None], axis=1)[:, 0]
    none = 1 - belief.sum(axis=1)
    return [(row, int(best[row])) for row in np.flatnonzero((value > 0) & (value >= none)).tolist()]
