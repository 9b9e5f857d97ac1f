"""The GloVe loop against autograd: what one entry of X changes, and that every pair is learned from once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.models.vectors.kernels.glove_updates import (
    PARTS,
    Objective,
    Pairs,
    bucket_ends,
    deal_pairs,
    learn_pairs,
    shuffle_pairs,
)
from anaphora.models.vectors.kernels.rows import padded

X_MAX, ALPHA, RATE = 100.0, 0.75, 0.05
OBJECTIVE = Objective(np.float32(X_MAX), np.float32(ALPHA), np.float32(RATE))


class Tables:
    """Vectors, biases and sums of squares of a tiny vocabulary."""

    def __init__(self, words: int, dim: int) -> None:
        generator = np.random.default_rng(dim)
        self.dim, self.stride = dim, -(-(padded(dim) + 1) // 16) * 16
        self.table = np.zeros((words, PARTS, self.stride), np.float32)
        self.table[:, :, :dim] = generator.normal(size=(words, PARTS, dim))
        self.table[:, :, -1] = generator.normal(size=(words, PARTS))
        self.table[:, 1::2] = 1 + self.table[:, 1::2] ** 2  # squares seen before

    def learn(self, pairs: list[tuple[int, int, float]]) -> tuple[float, int]:
        keys = np.array([(i << 32) | j for i, j, _ in pairs], np.uint64)
        counts = np.array([x for _, _, x in pairs], np.float32)
        return learn_pairs(keys, counts, self.table.reshape(-1), padded(self.dim), self.stride, OBJECTIVE)  # type: ignore[return-value]


def entry(table: np.ndarray, dim: int, i: int, j: int, x: float) -> float:
    """One entry of X by autograd, in double precision: changes `table` as AdaGrad does, returns the loss."""
    parts = [table[i, 0, :dim], table[i, 0, -1], table[j, 2, :dim], table[j, 2, -1]]
    w, b, v, c = (torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in parts)
    weight = min(1.0, (x / X_MAX) ** ALPHA)
    loss = 0.5 * weight * (w @ v + b + c - np.log(x)) ** 2
    loss.backward()  # type: ignore[no-untyped-call]
    for tensor, word, part, where, rate in (
        (w, i, 0, slice(dim), RATE),
        (b, i, 0, -1, 1.0),
        (v, j, 2, slice(dim), RATE),
        (c, j, 2, -1, 1.0),
    ):
        assert tensor.grad is not None
        step = rate * tensor.grad.numpy()
        table[word, part, where] -= step / np.sqrt(table[word, part + 1, where])
        table[word, part + 1, where] += step**2
    return float(loss.detach())


@pytest.mark.parametrize("dim", [1, 5, 8, 20, 100])
@pytest.mark.parametrize("x", [0.1, 3.7, 99.0, 100.0, 2500.0])
def test_a_pair_changes_what_autograd_says(dim: int, x: float) -> None:
    tables = Tables(4, dim)
    expected = tables.table.astype(np.float64)
    loss, entries = tables.learn([(1, 3, x)])
    losses = entry(expected, dim, 1, 3, x) + entry(expected, dim, 3, 1, x)
    assert entries == 2 and loss == pytest.approx(losses, rel=1e-4)
    np.testing.assert_allclose(tables.table, expected, rtol=2e-4, atol=2e-5)
    assert not tables.table[:, ::2, dim:-1].any()  # padding stays zero


def test_a_word_beside_itself_is_one_entry() -> None:
    tables = Tables(3, 12)
    expected = tables.table.astype(np.float64)
    loss, entries = tables.learn([(2, 2, 5.0)])
    assert entries == 1 and loss == pytest.approx(entry(expected, 12, 2, 2, 5.0), rel=1e-4)
    np.testing.assert_allclose(tables.table, expected, rtol=2e-4, atol=2e-5)


def test_pairs_are_learned_one_after_the_other() -> None:
    pairs = [(0, 1, 2.0), (1, 2, 40.0), (1, 1, 0.3), (0, 2, 7.0)]
    tables = Tables(3, 10)
    expected = tables.table.astype(np.float64)
    loss, entries = tables.learn(pairs)
    losses = [entry(expected, 10, a, b, x) for i, j, x in pairs for a, b in ([(i, j), (j, i)] if i != j else [(i, j)])]
    assert entries == len(losses) and loss == pytest.approx(sum(losses), rel=1e-3)
    np.testing.assert_allclose(tables.table, expected, rtol=1e-3, atol=1e-4)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 2**63))
def test_every_pair_is_dealt_once_and_shuffling_loses_none(sizes: list[int], buckets: int, seed: int) -> None:
    begin = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    total = int(begin[-1])
    column = np.arange(total).astype(np.uint32)
    pairs = Pairs(begin, column, np.arange(total).astype(np.float32))
    ends = bucket_ends(total, buckets, np.uint64(seed))
    keys, counts = np.zeros(total, np.uint64), np.full(total, -1, np.float32)
    deal_pairs(pairs, ends, np.uint64(seed), keys, counts)
    shuffle_pairs(keys, counts, np.uint64(seed))
    rows = np.repeat(np.arange(len(sizes)), sizes)
    assert ends[0] == 0 and ends[-1] == total and (np.diff(ends) >= 0).all()
    assert sorted(counts.tolist()) == list(range(total))
    for key, count in zip(keys.tolist(), counts.tolist()):
        assert (key >> 32, key & 0xFFFFFFFF) == (rows[int(count)], count)


def test_shuffling_favours_no_place() -> None:
    """Where the first of five pairs ends up, over many seeds: each place about as often."""
    found = np.zeros(5)
    for seed in range(5000):
        keys = np.arange(5, dtype=np.uint64)
        shuffle_pairs(keys, np.zeros(5, np.float32), np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64 ^ seed))
        found[int(np.flatnonzero(keys == 0)[0])] += 1
    assert abs(found / 5000 - 0.2).max() < 0.03
