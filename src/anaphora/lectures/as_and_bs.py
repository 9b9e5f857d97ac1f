"""Lectures 1 and 2: finding the B in "A A B A", first with a query of our own, then with every word as a query.

A = [1, 0] and B = [0, 1]; the keys are the vectors of the words themselves until W_K and W_Q make others of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.explain.walk import walk_attention, walk_projected
from anaphora.nn.attention import attend, attention_weights
from anaphora.nn.encoders import AveragingEncoder
from anaphora.nn.scores import scores

WORDS = ["A", "A", "B", "A"]
NAMES = ["A", "B"]
E = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
"""A vector for each word, (4, 2)."""
FIND_B = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
"""The query that is the vector of B: (1, 2)."""
IDENTITY = torch.eye(2, dtype=torch.float64)
BASE = 3.0
"""The lecture takes 3 in place of e, so that the weights are fractions a person can add."""


def as_and_bs() -> list[Walk]:
    """Scores, softmax and weighted sum for one query; a sharper query; both beside an average."""
    return [
        walk_attention(
            FIND_B,
            E,
            E,
            rows=["query"],
            columns=WORDS,
            score="dot",
            base=BASE,
            dimensions=NAMES,
            value_dimensions=NAMES,
            name="find-the-b",
            title="Find the B, with 3 in place of e",
            says="The query is B's own vector, so a key scores 1 where it is a B and 0 where it is an A.",
        ),
        walk_attention(
            10 * FIND_B,
            E,
            E,
            rows=["query"],
            columns=WORDS,
            score="dot",
            dimensions=NAMES,
            value_dimensions=NAMES,
            name="ten-times-the-query",
            title="Ten times the query",
            says="Scores ten times as large, and with e: now the B has nearly all of the weight.",
        ),
        _beside_averaging(),
    ]


def _beside_averaging() -> Walk:
    """The weights and outputs of an average, of the query in both bases, and of ten times the query."""
    log_base = float(torch.tensor(BASE, dtype=torch.float64).log())  # 3^s = e^(s · ln 3)
    ways = {
        "no query (0)": 0 * FIND_B,
        "query, base 3": log_base * FIND_B,
        "query, base e": FIND_B,
        "10 · query": 10 * FIND_B,
    }
    queries = torch.cat(list(ways.values()))[None, None]  # (1, 1, 4, 2)
    keys = E[None, None]  # (1, 1, 4, 2)
    weights = attention_weights(queries, keys, score="dot")[0, 0]  # (4, 4)
    outputs = attend(queries, keys, keys, score="dot")[0, 0]  # (4, 2)
    average = AveragingEncoder(2)(E[None], torch.tensor([len(WORDS)]))[0, -1]  # (2,)
    return Walk(
        "beside-averaging",
        "Beside an average",
        "An average gives each word the same weight; attention is an average that a query has bent.",
        [
            Step(
                "A",
                "A = softmax(S)",
                "the weights, by the way of asking",
                list(ways),
                WORDS,
                weights,
                decimals=3,
                shares=True,
            ),
            Step("Z", "Z = A E", "what comes out", list(ways), NAMES, outputs, decimals=3, dimensions=True),
            Step("mean", "", "what AveragingEncoder gives", ["mean"], NAMES, average[None], dimensions=True),
        ],
        [Check("a query of zeros gives the average", float((outputs[0] - average).abs().max()), 1e-12)],
    )


def keys_and_queries() -> list[Walk]:
    """W_K = I and W_Q = 10 · I for the query B; then every word is a query: S = E Eᵀ, and S = 10 · E Eᵀ."""
    decoupled = walk_projected(
        FIND_B,
        10 * IDENTITY,
        IDENTITY,
        IDENTITY,
        rows=["B"],
        memory=E,
        columns=WORDS,
        dimensions=NAMES,
        score="dot",
        name="decoupled",
        title="Keys and queries decoupled",
        says="The target is B; W_Q makes the query [0, 10] of its vector. W_V = I: the values are the words' vectors.",
    )
    by_hand = _scores(10 * FIND_B, E)
    decoupled.checks.append(_same("the scores are those of the query [0, 10]", decoupled.step("S"), by_hand))
    plain = walk_attention(
        E,
        E,
        E,
        rows=WORDS,
        score="dot",
        dimensions=NAMES,
        value_dimensions=NAMES,
        name="self-attention",
        title="Self-attention: every word is a query",
        says="Q = K = V = E. A word gives a word of its own kind the score 1 and the other kind 0.",
    )
    sharp = walk_projected(
        E,
        IDENTITY,
        10 * IDENTITY,
        IDENTITY,
        rows=WORDS,
        dimensions=NAMES,
        score="dot",
        name="version-2",
        title="Version 2: W_Q = I, W_K = 10 · I",
        says="Q = E and K = 10 E, so S = 10 · E Eᵀ: each word now looks at its own kind alone, nearly.",
    )
    other = _scores(E @ (10 * IDENTITY), E @ IDENTITY)
    sharp.checks.append(_same("W_Q = 10 · I with W_K = I gives the same scores", sharp.step("S"), other))
    return [decoupled, plain, sharp]


def _scores(query: Tensor, key: Tensor) -> Tensor:
    """(T, D), (S, D) -> (T, S)"""
    return scores(query[None, None], key[None, None], "dot")[0, 0]


def _same(what: str, step: Step, wanted: Tensor) -> Check:
    return Check(what, float(abs(step.values - wanted.numpy()).max()), 1e-12)
