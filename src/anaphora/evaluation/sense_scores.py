"""Do vectors tell the senses of a word apart? Nearest centroid: the mean vector of each sense, and which is nearest.

A classifier with nothing to learn: what it gets right is in the vectors (Loureiro et al. 2021). Where all vectors of a
word are the same, as those of an embedding table, all means are equally near, and the commonest sense is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

EQUAL = 1e-9
"""Squared distances that differ by less than this share of the vectors' own squared size are equal."""


@dataclass(frozen=True)
class SenseAccuracy:
    """What a rule got right."""

    accuracy: float
    """Share of all uses."""
    macro: float
    """Mean over the senses of the share of each: who always says the commonest of two gets 1/2."""
    uses: int


def nearest_centroid(vectors: NDArray[Any], senses: Sequence[str], asked: NDArray[Any]) -> list[str]:
    """The sense whose mean vector is nearest to each of `asked` (m, dim); learned from vectors (n, dim) with their
    senses. Of equally near ones, the one with most examples; of those, the first by name."""
    vectors, asked = np.asarray(vectors, np.float64), np.asarray(asked, np.float64)
    if len(vectors) != len(senses) or not len(vectors):
        raise ValueError(f"{len(vectors)} vectors with {len(senses)} senses; each needs one, and there must be some")
    counts = Counter(senses)
    names = sorted(counts, key=lambda name: (-counts[name], name))  # so that the first of equals is the commonest
    given = np.asarray(senses)
    center = vectors.mean(axis=0)  # distances do not change with it; their rounding does
    means = np.stack([(vectors[given == name] - center).mean(axis=0) for name in names])  # (senses, dim)
    shifted = asked - center
    squares = ((shifted[:, None] - means) ** 2).sum(axis=-1)  # (m, senses)
    size = (vectors**2).sum(axis=-1).mean() + (asked**2).sum(axis=-1, keepdims=True)
    near = squares <= squares.min(axis=1, keepdims=True) + EQUAL * size
    return [names[place] for place in near.argmax(axis=1).tolist()]


def sense_accuracy(said: Sequence[str], gold: Sequence[str]) -> SenseAccuracy:
    """How often what was said is right, over all uses and over senses."""
    if len(said) != len(gold) or not gold:
        raise ValueError(f"{len(said)} answers for {len(gold)} uses")
    total, right = Counter(gold), Counter(a for a, b in zip(said, gold) if a == b)
    macro = sum(right[sense] / total[sense] for sense in total) / len(total)
    return SenseAccuracy(sum(right.values()) / len(gold), macro, len(gold))


def commonest(senses: Sequence[str], number: int) -> list[str]:
    """The rule that looks at nothing: always the commonest sense."""
    counts = Counter(senses)
    return [min(counts, key=lambda name: (-counts[name], name))] * number
