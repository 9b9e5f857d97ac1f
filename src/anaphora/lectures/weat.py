"""The association test (Caliskan, Bryson & Narayanan 2017) of four words, each step by hand.

The lectures have no numbers for it. Ours are unit vectors of two numbers, so that each cosine can be read off.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from anaphora.explain.trace_parts import Check, Step, Walk

TARGETS = {"flowers": {"rose": (0.8, 0.6), "tulip": (0.96, 0.28)}, "insects": {"ant": (0.28, 0.96), "wasp": (0.6, 0.8)}}
ATTRIBUTES = {"pleasant": {"love": (1.0, 0.0)}, "unpleasant": {"hatred": (0.0, 1.0)}}


def weat() -> list[Walk]:
    """The association test (Caliskan et al. 2017), each step by hand, and the library's."""
    from anaphora.evaluation.weat import WordLists, association

    named = {
        word: np.array(v) for lists in (TARGETS, ATTRIBUTES) for words in lists.values() for word, v in words.items()
    }
    words = [word for some in TARGETS.values() for word in some]
    attributes = [word for some in ATTRIBUTES.values() for word in some]
    cosines = np.array([[named[word] @ named[a] for a in attributes] for word in words])  # (4, 2)
    s = cosines[:, :1] - cosines[:, 1:]  # one attribute each, so no mean to take
    statistic = s[:2].sum() - s[2:].sum()
    effect = (s[:2].mean() - s[2:].mean()) / s.std(ddof=1)
    divisions = list(combinations(range(4), 2))
    sums = np.array([[s[list(some)].sum() - np.delete(s, some, 0).sum()] for some in divisions])
    p = float((sums >= statistic - 1e-9).mean())
    lists = WordLists(
        {name: list(some) for name, some in TARGETS.items()}, {name: list(some) for name, some in ATTRIBUTES.items()}
    )
    found = association({word: v.astype(np.float64) for word, v in named.items()}, lists)
    steps = [
        Step("cos", "", "how near each word is to each attribute", words, attributes, cosines),
        Step("s", "s = cos(w, love) - cos(w, hatred)", "", words, ["s"], s),
        Step("S", "S = Σ s of flowers - Σ s of insects", "", ["S"], ["S"], [[statistic]]),
        Step("d", "d = (mean - mean) / deviation of all", "the effect size", ["d"], ["d"], [[effect]], decimals=3),
        Step("S′", "", "S of every division of the four words into two and two",
             [" ".join(words[place] for place in some) for some in divisions], ["S′"], sums),
        Step("p", "", "the share of divisions with an S as large", ["p"], ["p"], [[p]], shares=True, decimals=4),
    ]  # fmt: skip
    checks = [
        Check("the library's effect size", abs(found.effect - effect), 1e-12),
        Check("its statistic", abs(found.statistic - statistic), 1e-12),
        Check("its p", abs(found.p - p), 1e-12),
    ]
    says = "Two flowers, two insects, and a pleasant and an unpleasant word, as vectors of two numbers."
    return [Walk("weat", "What do vectors hold together?", says, steps, checks)]
