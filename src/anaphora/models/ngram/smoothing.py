"""From counts to probabilities: the four ways that a course teaches, each as numbers on one trie.

    maximum-likelihood   c(h w) / c(h): nothing that was not seen can happen
    add-k                (c(h w) + k) / (c(h) + k V): everything was seen k times more often
    stupid-backoff       c(h w) / c(h), else α times that of a shorter context (Brants et al. 2007); does not sum to one
    kneser-ney           interpolated modified Kneser-Ney (Chen and Goodman 1998): discounts from counts of counts, what
                         they set free goes to the shorter context, and a shorter context counts not how often a word
                         was seen but after how many different words
    given                numbers that were not counted here but read (an ARPA file)

A *context* h has at most order - 1 words; a sentence begins after ⟨s⟩ and ends with ⟨/s⟩, predicted like a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.models.ngram.kernels.ngrams import F64, U32, count_of_counts, interpolate, relative
from anaphora.models.ngram.ngram_settings import Smoothing, pruning_thresholds
from anaphora.tokenizers.tokenizer import BOS, PAD

SMOOTHINGS: tuple[Smoothing, ...] = get_args(Smoothing)
FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""Discounts where counts of counts do not give any: text so small or so odd that no n-gram was seen once, or twice."""


@dataclass(frozen=True)
class Grams:
    """The n-grams of one order, in the trie's order: last word, first child of each context, suffix, and how often.

    Of single words, `first` and `suffix` are empty: a word's number is its id."""

    word: U32
    first: U32
    suffix: U32
    count: U32


@dataclass(frozen=True)
class Estimate:
    """One order's numbers: P(last word | the others), and the weight of each context one order lower."""

    probability: F64
    weight: F64
    discounts: tuple[float, ...] = ()
    fell_back: bool = False


def adjusted_counts(orders: Sequence[Grams]) -> list[U32]:
    """What Kneser-Ney counts: of the highest order how often; below, after how many different words.

    An n-gram that begins a sentence has nothing in front of it, so its plain count stands.
    """
    adjusted = []
    for grams, longer in zip(orders, [*orders[1:], None]):
        if longer is None:
            counts = grams.count.copy()
        else:
            counts = np.bincount(longer.suffix, minlength=len(grams.count)).astype(np.uint32)
            np.copyto(counts, grams.count, where=counts == 0)
        adjusted.append(counts)
    adjusted[0][[PAD, BOS]] = 0  # nobody predicts them
    return adjusted


def discounts(counts: U32) -> tuple[tuple[float, ...], bool]:
    """`discounts_from` the counts of these counts."""
    return discounts_from(count_of_counts(counts))


def discounts_from(t: NDArray[np.int64]) -> tuple[tuple[float, ...], bool]:
    """(0, D₁, D₂, D₃₊) of Chen and Goodman, and whether they had to be made up.

    Y = t₁ / (t₁ + 2 t₂)        D_k = k - (k + 1) Y t_{k+1} / t_k        t_k: how many n-grams have count k
    """
    if (t[1:4] == 0).any():
        return FALLBACK, True
    y = t[1] / (t[1] + 2 * t[2])
    found = (0.0, *(float(k - (k + 1) * y * t[k + 1] / t[k]) for k in (1, 2, 3)))
    if any(not 0 <= discount <= k for k, discount in enumerate(found)):
        return FALLBACK, True
    return found, False


def predictable(words: int) -> NDArray[np.bool_]:
    """Which ids a model may predict: all but padding and the beginning of a sentence."""
    able = np.ones(words, np.bool_)
    able[[PAD, BOS]] = False
    return able


def kept(orders: Sequence[Grams], prune: Sequence[int]) -> list[NDArray[np.bool_]]:
    """Which n-grams stay: those seen more often than their order's threshold."""
    return [grams.count > threshold for grams, threshold in zip(orders, pruning_thresholds(len(orders), prune))]


def estimate(
    orders: Sequence[Grams], smoothing: Smoothing, *, prune: Sequence[int] = (), k: float = 1.0
) -> list[Estimate]:
    """The numbers of every order; n-grams that are pruned have a probability all the same, for the caller to drop."""
    if smoothing == "given":
        raise UserError(
            "model.smoothing is given, that is a model read from a file: its numbers do not come from counts",
            cure=f"choose one of {', '.join(SMOOTHINGS[:-1])}",
        )
    stay = kept(orders, prune)
    words = len(orders[0].count)
    able = predictable(words)
    if smoothing == "kneser-ney":
        return _kneser_ney(orders, stay)
    counts = [np.where(keep, grams.count, 0).astype(np.uint32) for grams, keep in zip(orders, stay)]
    counts[0][[PAD, BOS]] = 0
    added = k if smoothing == "add-k" else 0.0
    estimates = [Estimate(relative_words(counts[0], added), np.zeros(0))]
    for grams, count in zip(orders[1:], counts[1:]):
        estimates.append(Estimate(*relative(count, grams.first, added, int(able.sum()))))
    return estimates


def relative_words(counts: U32, added: float) -> F64:
    """P(word) without any context: (count + added) / (total + added · V)."""
    able = predictable(len(counts))
    return (counts + added * able) / (counts.sum() + added * able.sum())


def interpolate_words(counts: U32, discount: F64) -> F64:
    """P(word) without any context, Kneser-Ney: what the discounts set free, every word has in equal parts."""
    able = predictable(len(counts))
    taken = discount[np.minimum(counts, 3)]
    return (counts - taken) / counts.sum() + taken.sum() / counts.sum() * (able / able.sum())


def _kneser_ney(orders: Sequence[Grams], stay: Sequence[NDArray[np.bool_]]) -> list[Estimate]:
    estimates: list[Estimate] = []
    for grams, counts, keep in zip(orders, adjusted_counts(orders), stay):
        minus, fell_back = discounts(counts)
        table = np.array(minus)
        if not estimates:
            estimates.append(Estimate(interpolate_words(counts, table), np.zeros(0), minus, fell_back))
            continue
        lower = estimates[-1].probability
        estimates.append(
            Estimate(*interpolate(counts, grams.first, grams.suffix, lower, table, keep), minus, fell_back)
        )
    return estimates


def log(numbers: F64) -> NDArray[np.float32]:
    """Natural logarithms; of zero, minus infinity."""
    with np.errstate(divide="ignore"):
        return np.log(numbers).astype(np.float32)
