"""Similarity by sense: do the senses of two words lie as near to each other as people find the words?

A Backpack gives each word k vectors. Sense ℓ of one word is compared with sense ℓ of the other, so that there are k
measures of similarity, and a further one, their minimum: words are alike where no sense tells them apart (Hewitt et al.
2023, §4.2). Which sense is best is not known beforehand: it is chosen on one list of pairs and reported on another. A
model that has one vector for a word, the row of its embedding matrix, is the case k = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.evaluation.vector_benchmarks import spearman
from anaphora.results import brief, figure, html_table

Pair = tuple[str, str, float]


@dataclass(frozen=True)
class SenseSimilarity:
    """How the cosines of pairs, by sense, compare with people's numbers."""

    senses: tuple[float, ...]
    """Spearman's correlation of each sense; not a number where all its cosines are the same."""
    minimum: float
    """Of the least cosine over senses."""
    pairs: int
    """That were compared."""
    unknown: int
    """Left out: a word has no vectors."""
    lacking: tuple[str, ...] = ()
    """The words that have none, each once."""

    def __repr__(self) -> str:
        best = "" if self.best is None else f"best sense {self.best}: {figure(self.senses[self.best], '.3f')}"
        return brief("SenseSimilarity", None, best, f"minimum {figure(self.minimum, '.3f')}", f"{self.pairs} pairs")

    def _repr_html_(self) -> str:
        rows = [(f"sense {sense}", figure(value, ".3f")) for sense, value in enumerate(self.senses)]
        caption = f"Spearman's correlation over {self.pairs} pairs"
        return html_table((), [*rows, ("minimum over senses", figure(self.minimum, ".3f"))], caption=caption)

    @property
    def best(self) -> int | None:
        """The sense that agrees most with people here; None where none does at all."""
        found = [sense for sense, value in enumerate(self.senses) if not math.isnan(value)]
        return max(found, key=lambda sense: self.senses[sense]) if found else None

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "senses": [None if math.isnan(value) else value for value in self.senses],
            "minimum": None if math.isnan(self.minimum) else self.minimum,
            "pairs": self.pairs,
            "unknown": self.unknown,
            "lacking": list(self.lacking),
        }


def cosines(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Of each sense with the same sense of the other word: (…, k, d), (…, k, d) -> (…, k). What is all zeros is like
    nothing: 0."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    sizes = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    return (first * second).sum(-1) / np.where(sizes > 0, sizes, 1.0)


def similarity_by_sense(
    vectors: Mapping[str, NDArray[Any]], pairs: Sequence[Pair], *, senses: int | None = None
) -> SenseSimilarity:
    """Spearman's correlation for each sense and for the minimum, over the pairs of which both words have vectors,
    (k, d) each; senses: k, where there may be no such pair."""
    known = [(vectors[a], vectors[b], score) for a, b, score in pairs if a in vectors and b in vectors]
    gold = [score for _, _, score in known]
    lacking = tuple(dict.fromkeys(word for pair in pairs for word in pair[:2] if word not in vectors))
    if not known:
        return SenseSimilarity((math.nan,) * (senses or 0), math.nan, 0, len(pairs), lacking)
    near = np.stack([cosines(a, b) for a, b, _ in known])  # (pairs, k)
    each = tuple(spearman(gold, near[:, sense].tolist()) for sense in range(near.shape[1]))
    least = spearman(gold, near.min(axis=1).tolist())
    return SenseSimilarity(each, least, len(known), len(pairs) - len(known), lacking)
