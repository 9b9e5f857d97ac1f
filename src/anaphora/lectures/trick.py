"""Lecture 5: "That trick was sick". A word has senses; the other words choose between them. Exactly, and by softmax.

Each word has two sense vectors of four dimensions: how positive, how negative, how much of skateboards, how much of
health. A sense of "sick" is chosen by what the other words are of: V holds the first two dimensions of every sense, K
the last two, Q what the lecture's equation says of the other words. The slides do not agree with themselves
everywhere; what they print is computed here as printed, beside what the equation gives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.explain.walk import walk_attention
from anaphora.lectures.trick_backpack import backpack
from anaphora.nn.attention import attend, attention_weights

WORDS = ["that", "trick", "was", "sick"]
SENSES = [f"{word}{number}" for word in WORDS for number in "₀₁"]
NAMES = ["positive", "negative", "skateboard", "health"]
C = torch.tensor(
    [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]],
    dtype=torch.float64,
)
"""The two sense vectors of each word, (8, 4)."""
V = torch.zeros(8, 4, dtype=torch.float64)
V[6, 0] = V[7, 1] = 1
K = torch.zeros(8, 4, dtype=torch.float64)
K[2, 2] = K[6, 2] = K[7, 3] = 1
Q = torch.tensor([[0, 0, 2 / 3, 1 / 3]] * 6 + [[0, 0, 1, 0]] * 2, dtype=torch.float64)
"""V, K and Q as the slides give them, (8, 4): a row for each sense."""
SCALES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
TRICK_0, SICK_0, SICK_1 = (SENSES.index(sense) for sense in ("trick₀", "sick₀", "sick₁"))
SAME_SENSE = torch.eye(8, dtype=torch.bool)
OWN_WORD = torch.eye(4, dtype=torch.bool).repeat_interleave(2, dim=0).repeat_interleave(2, dim=1)  # (8, 8)
ONE_QUERY_A_WORD = slice(0, 8, 2)
"""The two senses of a word have the same query; this takes it once."""


def trick() -> list[Walk]:
    """The weights of the equation, the exact selection, softmax as printed, softmax as the scale grows, and a Backpack
    of the given senses."""
    return [_senses(), _exact(), _softmax(), _scales(), backpack(C, NAMES)]


def alpha() -> tuple[Tensor, Tensor, Tensor]:
    """For each word, what the other words say: their sums of (skateboard, health), (4, 2); the weight of each sense by
    the ratio of these sums, (4, 2); and by the equation to the letter, a sum of ratios with 0 / 0 taken as 0, (4, 2).
    """
    evidence = C.view(4, 2, 4)[:, :, 2:].sum(dim=1)  # (4, 2): of each word, both senses together
    others = evidence.sum(dim=0) - evidence  # r ≠ i
    total = evidence.sum(dim=1, keepdim=True)
    fractions = torch.where(total > 0, evidence / total.clamp(min=1), 0.0)
    return others, others / others.sum(dim=1, keepdim=True), fractions.sum(dim=0) - fractions


def _senses() -> Walk:
    others, ratio, letter = alpha()
    q = torch.zeros(8, 4, dtype=torch.float64)
    q[:, 2:] = ratio.repeat_interleave(2, dim=0)
    senses = ["sense 0", "sense 1"]
    steps = [
        Step("C", "", "the two sense vectors of each word, as given", SENSES, NAMES, C, dimensions=True),
        Step("others", "Σ_{r≠i} C(x_r)", "what the other words are of, added up", WORDS, NAMES[2:], others),
        Step(
            "α", "α = Σ C_{ℓ+2} / Σ (C_2 + C_3)", "a sense's weight, a ratio of sums", WORDS, senses, ratio, shares=True
        ),
        Step("α′", "α′ = Σ (C_{ℓ+2} / (C_2 + C_3))", "to the letter, a sum of ratios", WORDS, senses, letter),
        Step("Q - α", "", "what the slide's queries differ by: those of trick", SENSES, NAMES, Q - q, dimensions=True),
    ]
    sick = torch.tensor([1.0, 0.0], dtype=torch.float64)
    off = max(float((reading[3] - sick).abs().max()) for reading in (ratio, letter))
    return Walk(
        "senses",
        "Two senses a word, and the weights of the equation",
        "A sense of a word weighs as much as the other words are of its kind.",
        steps,
        [Check("both readings give sick the same weights, 1 and 0", off, 1e-12)],
    )


def _exact() -> Walk:
    """The slide's result: no softmax, and each sense may look at itself alone."""
    walk = walk_attention(
        Q,
        K,
        V,
        rows=SENSES,
        score="dot",
        normalizer="none",
        mask=SAME_SENSE,
        dimensions=NAMES,
        value_dimensions=NAMES,
        name="exact",
        title="The exact selection: the scores themselves, each sense its own",
        says="A sense sees itself alone and nothing is normalized: at sick, Q Kᵀ leaves the weights 1 and 0.",
    )
    total = torch.from_numpy(walk.step("Z").values).sum(dim=0)
    walk.steps.append(_sum(total))
    chosen = alpha()[1].reshape(8, 1) * V  # (8, 4): each sense by its weight
    walk.checks.append(Check("α times V gives the same sum", float((chosen.sum(dim=0) - total).abs().max()), 1e-12))
    return walk


def _softmax() -> Walk:
    walk = walk_attention(
        Q,
        K,
        V,
        rows=SENSES,
        dimensions=NAMES,
        value_dimensions=NAMES,
        vectors=False,
        name="softmax",
        title="softmax(Q Kᵀ / √d) V, as printed",
        says="Every row sums to 1, so none is zeros; and to the query of sick, trick₀ and sick₀ are the same key.",
    )
    walk.steps.append(_sum(torch.from_numpy(walk.step("Z").values).sum(dim=0)))
    return walk


def _sum(total: Tensor) -> Step:
    return Step("Σ Z", "", "the sum over all senses", ["sum"], NAMES, total[None], dimensions=True)


def _scales() -> Walk:
    printed, own = [], []
    for scale in SCALES:
        weights, out = _at(scale, slice(None), None)
        row = weights[SICK_0]
        rest = 1 - row[[TRICK_0, SICK_0, SICK_1]].sum()
        printed.append([*row[[TRICK_0, SICK_0, SICK_1]].tolist(), float(rest), *out.sum(dim=0)[:2].tolist()])
        weights, out = _at(scale, slice(None), OWN_WORD)
        _, by_word = _at(scale, ONE_QUERY_A_WORD, OWN_WORD[ONE_QUERY_A_WORD])
        sums = [*out.sum(dim=0)[:2].tolist(), *by_word.sum(dim=0)[:2].tolist()]
        own.append([*weights[SICK_0, [SICK_0, SICK_1]].tolist(), *sums])
    rows = [f"scale {scale:g}" for scale in SCALES]
    sums = ["Σ positive", "Σ negative"]
    as_printed = ["trick₀", "sick₀", "sick₁", "the rest", *sums]
    by_mask = ["sick₀", "sick₁", *sums, "words: Σ +", "Σ -"]
    limits = (torch.tensor([0.5, 0.5, 0, 0, 4, 0]), torch.tensor([1, 0, 2, 0, 1, 0]))
    return Walk(
        "scales",
        "As the scale grows",
        "softmax(scale · Q Kᵀ / √d): the row of sick₀, and the sum over all senses.",
        [
            Step("printed", "", "all keys: trick₀ takes as much as sick₀", rows, as_printed, printed, decimals=3),
            Step("own", "j ≠ i masked", "a word's own senses alone", rows, by_mask, own, decimals=3),
        ],
        [
            Check(f"{what} at scale 100", float((torch.tensor(found[-1]) - limit).abs().max()), 1e-5)
            for what, found, limit in zip(
                ("printed: ½ and ½, sum 4", "own: 1 and 0, sum 2, or 1 with one query a word"), (printed, own), limits
            )
        ],
    )


def _at(scale: float, queries: slice, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weights (T, 8) and outputs (T, 4) of softmax(scale · Q Kᵀ / √d) V."""
    query, key, value = (scale * Q[queries])[None, None], K[None, None], V[None, None]
    weights = attention_weights(query, key, mask=mask)
    return weights[0, 0], attend(query, key, value, mask=mask)[0, 0]
