"""Small runs of word vectors, for the tests of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import anaphora
from anaphora.tasks.vectors_run import LearnedVectors

GROUPS, MEMBERS = 6, 8
SMALL = {"model.dim": 16, "model.sample": 0.0, "training.threads": 1, "training.epochs": 3}
SMALL |= {"training.learning_rate": 0.05}


def grouped(lines: int = 1200, seed: int = 0, groups: str = "abcdef", blank: str = " ", noise: float = 0.0) -> str:
    """Lines of words of one group each: words of a group belong together, and nothing else does. noise: the share of
    words that are of any group."""
    draw, text = np.random.default_rng(seed), []
    for group in draw.integers(len(groups), size=lines):
        of = [groups[draw.integers(len(groups)) if draw.random() < noise else group] for _ in range(12)]
        text.append(blank.join(f"{one}word{draw.integers(MEMBERS)}" for one in of) + "\n")
    return "".join(text)


def learn(folder: Path, **more: Any) -> LearnedVectors:
    settings = {**SMALL, **more.pop("settings", {})}
    outcome = anaphora.train(folder, recipe=more.pop("recipe", "skipgram"), settings=settings, **more)
    assert isinstance(outcome, LearnedVectors)
    return outcome


def purity(vectors: Any) -> float:
    """How many of the nearest words are of the same group."""
    near = vectors.neighbours(vectors.index_to_key, topn=3)
    return float(np.mean([found[0] == word[0] for word, several in near.items() for found, _ in several]))
