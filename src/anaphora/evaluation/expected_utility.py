"""Which of many translations of a sentence is most like all the others? Expected utilities, for minimum Bayes risk.

A model's most probable translation is one among millions, and need not be a typical one. Minimum-Bayes-risk decoding
(Kumar and Byrne 2004; with samples: Eikema and Aziz 2020) takes instead the translation y with the greatest expected
utility, which is how good y would be, by some measure u, were the truth a translation r that the model believes in:

    U(y) = Σ_r P(r) u(y, r)        P(r): how often r was drawn, or how probable it is

The measures are the sentence scores of evaluation/sentence_scores.py: chrF, BLEU, GLEU. For N different texts that is
N² pair scores, and the plain way counts the n-grams of every text N times. Here they are counted once. All n-grams of
a pool go into one table, in which each has the list of the texts that hold it; walking the lists, every two texts of a
list share that n-gram, as often as both have it. So the cost is that of counting once, and of one addition for each
n-gram that two texts share: what they do not share costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.evaluation.sentence_scores import Counts, bleu_of, characters_of, chrf_of, gleu_of, longer, words_of

Utility = Literal["chrf", "bleu", "gleu"]
UTILITIES: dict[
    str, tuple[Callable[..., list[tuple[Counts, Counts]]], int, Callable[[Counts], NDArray[np.float64]]]
] = {
    "chrf": (characters_of, 6, chrf_of),
    "bleu": (words_of, 4, bleu_of),
    "gleu": (words_of, 4, gleu_of),
}
"""By name: what a text consists of, how long its n-grams are, and the score that their counts make."""


def utilities(texts: Sequence[str], utility: Utility) -> NDArray[np.float64]:
    """Of each text, were each of them the reference: (N,) -> (N hypotheses, N references)."""
    symbols_of, order, score = UTILITIES[utility]
    ((symbols, starts),) = symbols_of(texts)
    found = shared_ngrams(symbols, starts, order)  # (order, N, N)
    lengths = np.maximum(np.diff(starts)[None] - np.arange(order)[:, None], 0)  # (order, N): n-grams that a text has
    counts = np.stack(np.broadcast_arrays(lengths[:, :, None], lengths[:, None, :], found), axis=-1)
    return score(np.moveaxis(counts, 0, -2))


def expected_utilities(texts: Sequence[str], weights: Sequence[float], utility: Utility) -> NDArray[np.float64]:
    """U of each text: (N,). weights: of each as a reference, of any sum; 0 for a text that is only a candidate."""
    shares: NDArray[Any] = np.asarray(weights, dtype=np.float64)
    return utilities(texts, utility) @ (shares / shares.sum())


@njit(nogil=True, cache=True)
def shared_ngrams(symbols: Counts, starts: Counts, order: int) -> Counts:
    """How many n-grams every two texts share, each as often as both have it: (order, N, N)."""
    texts, total = len(starts) - 1, len(symbols)
    shared = np.zeros((order, texts, texts), dtype=np.int64)
    size = 16
    while size < 2 * total:
        size *= 2
    # an open table: which n-gram stands in a slot, and the newest entry of its list
    names, newest = np.zeros(size, dtype=np.uint64), np.full(size, -1, dtype=np.int64)
    taken = np.zeros(total, dtype=np.int64)
    # an entry: a text that holds the n-gram, how often, and the entry before it
    holder, times, before = np.zeros(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.int64)
    numbers = np.zeros(total, dtype=np.uint64)
    for n in range(order):
        slots = entries = 0
        for text in range(texts):
            first, stop = starts[text], starts[text + 1]
            longer(numbers[first:stop], symbols[first:stop], n)
            shared[n, text, text] = max(stop - first - n, 0)
            for place in range(first, stop - n):
                number = numbers[place]
                slot = number & np.uint64(size - 1)
                while newest[slot] >= 0 and names[slot] != number:
                    slot = (slot + np.uint64(1)) & np.uint64(size - 1)
                entry = newest[slot]
                if entry >= 0 and holder[entry] == text:
                    times[entry] += 1
                    continue
                if entry < 0:
                    names[slot] = number
                    taken[slots] = slot
                    slots += 1
                holder[entries], times[entries], before[entries] = text, 1, entry
                newest[slot] = entries
                entries += 1
        for slot in taken[:slots]:
            one = newest[slot]
            newest[slot] = -1  # empty for the next length
            while one >= 0:
                other = before[one]
                while other >= 0:
                    shared[n, holder[one], holder[other]] += min(times[one], times[other])
                    other = before[other]
                one = before[one]
        for text in range(texts):
            for other in range(text):
                shared[n, other, text] = shared[n, text, other]
    return shared
