"""The hot loop of GloVe, for a CPU (numba): weighted least squares on the logarithms of counts, learned by AdaGrad.

    J = ½ Σ_ij f(X_ij) (w_i · w̃_j + b_i + b̃_j - log X_ij)²        f(x) = min(1, (x / x_max)^α)

Each number θ of a vector has a sum s of squares of its own, one in the beginning (Duchi et al. 2011), as Stanford's
program has it: with u = η ∂J/∂θ, θ becomes θ - u / √s and s becomes s + u². For biases η is 1 there, and here.

X is symmetric and half of it is stored, so a pair i ≤ j is learned as (i, j) and (j, i), with one logarithm and one
power for both. A word's numbers stand together, `stride` floats for each of

    w, b    s of them    w̃, b̃    s of them

with the bias in the last place of the stride. Pairs must come in random order: those of a row one after the other teach
it its bias and little else. Rows are asked for AHEAD pairs before they are needed. Several threads may work on the same
rows without locks (Hogwild).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.models.vectors.kernels.rows import LINE
from anaphora.models.vectors.kernels.word2vec_updates import mixed
from anaphora.nn.kernels.prefetch import prefetch

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

PREFETCH_PAIRS = 1
"""How many pairs ahead rows are asked for."""
PARTS = 4
"""Rows of a word."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Steps of a counter whose `mixed` bits look random."""


class Pairs(NamedTuple):
    """The half of X that is stored: row i has column[begin[i]:begin[i + 1]], each i or above, and X_ij in `size`."""

    begin: I64
    column: U32
    size: F32


class Objective(NamedTuple):
    """What is minimized, and how fast."""

    x_max: np.float32
    alpha: np.float32
    rate: np.float32


@njit(cache=True, inline="always")
def _bucket(seed: np.uint64, number: int, buckets: int) -> np.int64:
    """Where chance puts a pair."""
    bits = mixed(seed + np.uint64(number + 1) * GOLDEN) >> np.uint64(32)
    return np.int64((bits * np.uint64(buckets)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def bucket_ends(pairs: int, buckets: int, seed: np.uint64) -> I64:
    """Where each bucket ends when so many pairs are dealt into them by chance, and 0 in front (buckets + 1,)."""
    ends = np.zeros(buckets + 1, np.int64)
    for number in range(pairs):
        ends[_bucket(seed, number, buckets) + 1] += 1
    return np.cumsum(ends)


@njit(cache=True, nogil=True)
def deal_pairs(pairs: Pairs, ends: I64, seed: np.uint64, keys: U64, counts: F32) -> None:
    """Each pair into its bucket: (i, j) in one number, and its count. Buckets are written side by side, each from its
    beginning to its end, so `keys` and `counts` may be files larger than memory."""
    buckets = len(ends) - 1
    place = ends[:-1].copy()
    row = 0
    for number in range(len(pairs.column)):
        while pairs.begin[row + 1] <= number:
            row += 1
        bucket = _bucket(seed, number, buckets)
        keys[place[bucket]] = (np.uint64(row) << np.uint64(32)) | np.uint64(pairs.column[number])
        counts[place[bucket]] = pairs.size[number]
        place[bucket] += 1


@njit(cache=True, nogil=True)
def shuffle_pairs(keys: U64, counts: F32, seed: np.uint64) -> None:
    """Put pairs into a random order (Fisher and Yates)."""
    counter = seed
    for last in range(len(keys) - 1, 0, -1):
        counter += GOLDEN
        place = np.int64(((mixed(counter) >> np.uint64(32)) * np.uint64(last + 1)) >> np.uint64(32))
        keys[last], keys[place] = keys[place], keys[last]
        counts[last], counts[place] = counts[place], counts[last]


@njit(cache=True, inline="always", fastmath=True, error_model="numpy")
def _learn(w: F32, s: F32, v: F32, t: F32, dim: int, log_x: np.float32, f: np.float32, rate: np.float32) -> np.float32:
    """One entry of X: w, b and v, b̃ with their sums s and t. Returns its loss."""
    dot = np.float32(0.0)
    for d in range(dim):
        dot += w[d] * v[d]
    last = len(w) - 1
    error = dot + w[last] + v[last] - log_x
    slope = f * error
    step = slope * rate
    for d in range(dim):
        a, b = w[d], v[d]
        up, down = step * b, step * a
        w[d] = a - up / np.sqrt(s[d])
        v[d] = b - down / np.sqrt(t[d])
        s[d] += up * up
        t[d] += down * down
    w[last] -= slope / np.sqrt(s[last])
    v[last] -= slope / np.sqrt(t[last])
    s[last] += slope * slope
    t[last] += slope * slope
    return np.float32(0.5) * slope * error


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def learn_pairs(
    keys: U64, counts: F32, table: F32, dim: int, stride: int, objective: Objective
) -> tuple[np.float64, int]:
    """Learn from pairs in the order they have. `dim` is a multiple of LANES below `stride`: vectors end with zeros,
    which stay zeros. Returns the summed loss, and how many entries of X they were."""
    loss, entries = np.float64(0.0), 0
    word = PARTS * stride
    low = np.uint64(0xFFFFFFFF)
    log_max = np.log(objective.x_max)
    for at in range(len(keys)):
        if at + PREFETCH_PAIRS < len(keys):
            key = keys[at + PREFETCH_PAIRS]
            i, j = np.int64(key >> np.uint64(32)) * word, np.int64(key & low) * word
            for place in range(0, word, LINE):
                prefetch(table, i + place)
                prefetch(table, j + place)
        key = keys[at]
        i, j = np.int64(key >> np.uint64(32)) * word, np.int64(key & low) * word
        log_x = np.log(counts[at])
        f = min(np.float32(1.0), np.exp(objective.alpha * (log_x - log_max)))
        first, second = table[i : i + word], table[j : j + word]
        loss += _learn(
            first[:stride],
            first[stride : 2 * stride],
            second[2 * stride : 3 * stride],
            second[3 * stride :],
            dim,
            log_x,
            f,
            objective.rate,
        )
        entries += 1
        if i != j:
            loss += _learn(
                second[:stride],
                second[stride : 2 * stride],
                first[2 * stride : 3 * stride],
                first[3 * stride :],
                dim,
                log_x,
                f,
                objective.rate,
            )
            entries += 1
    return loss, entries
