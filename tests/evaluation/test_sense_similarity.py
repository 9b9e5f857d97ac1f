"""Similarity by sense: cosines of like senses, their minimum, and the sense that is chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anaphora.evaluation.sense_similarity import cosines, similarity_by_sense
from anaphora.evaluation.vector_benchmarks import spearman

PAIRS = [("a", "b", 9.0), ("a", "c", 5.0), ("b", "c", 4.0), ("c", "d", 1.0)]


def vectors(seed: int = 3, senses: int = 3) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {word: random.normal(size=(senses, 5)).astype(np.float32) for word in "abcd"}


def test_each_sense_is_compared_with_the_same_sense() -> None:
    found = vectors()
    near = cosines(found["a"], found["b"])
    for sense in range(3):
        a, b = found["a"][sense].astype(float), found["b"][sense].astype(float)
        assert near[sense] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert cosines(np.zeros((1, 5)), found["a"][:1]).tolist() == [0.0]


def test_a_table_by_sense_and_the_minimum() -> None:
    words = vectors()
    found = similarity_by_sense(words, PAIRS)
    near = np.stack([cosines(words[a], words[b]) for a, b, _ in PAIRS])
    gold = [score for _, _, score in PAIRS]
    assert found.senses == tuple(spearman(gold, near[:, sense].tolist()) for sense in range(3))
    assert found.minimum == spearman(gold, near.min(axis=1).tolist())
    assert found.best == int(np.argmax(found.senses))
    assert (found.pairs, found.unknown) == (4, 0)


def test_words_without_vectors_are_left_out_and_counted() -> None:
    words = vectors()
    del words["d"]
    found = similarity_by_sense(words, PAIRS)
    assert (found.pairs, found.unknown) == (3, 1) and found.lacking == ("d",)
    none = similarity_by_sense({}, PAIRS, senses=2)
    assert none.lacking == ("a", "b", "c", "d") and none.document()["lacking"] == list("abcd")
    assert none.pairs == 0 and none.best is None and len(none.senses) == 2 and math.isnan(none.minimum)
    assert none.document()["senses"] == [None, None] and none.document()["minimum"] is None


def test_one_vector_a_word_is_the_case_of_one_sense() -> None:
    words = {word: own[:1] for word, own in vectors().items()}
    found = similarity_by_sense(words, PAIRS)
    assert len(found.senses) == 1 and found.minimum == found.senses[0]
