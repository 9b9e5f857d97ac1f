"""Lecture 4: "Thinking Machines", the scores 112 and 96 divided by 8, and what would be without the division.

The slide shows boxes, not vectors: of q₁, k₁ and k₂ it says the two products and that √d is 8, so d = 64. The vectors
here are the plainest that have these products: q₁ is all ones, each number of k₁ is 112 / 64 and of k₂ 96 / 64. The
slide's values are boxes too, three wide; ours are such that the sum shows the weights.
"""

from __future__ import annotations

import torch

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.explain.walk import walk_attention

WORDS = ["Thinking", "Machines"]
SIZE = 64
PRODUCTS = (112.0, 96.0)
"""q₁ · k₁ and q₁ · k₂, as the slide has them."""
QUERY = torch.ones(1, SIZE, dtype=torch.float64)
KEY = torch.tensor(PRODUCTS, dtype=torch.float64)[:, None].expand(2, SIZE) / SIZE
VALUE = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
"""v₁ and v₂: the first two dimensions keep the words apart, the third is 1 in both."""


def thinking_machines() -> list[Walk]:
    """The slide's row for "Thinking", each value times its weight, and the same scores undivided."""
    walk = walk_attention(
        QUERY,
        KEY,
        VALUE,
        rows=WORDS[:1],
        columns=WORDS,
        name="thinking-machines",
        title="Thinking Machines",
        says='The query of "Thinking" over the keys of both words; 8 is √64.',
    )
    weights = torch.from_numpy(walk.step("A").values)  # (1, 2)
    parts = weights.mT * VALUE  # (2, 3): softmax × value, the slide's last row but one
    names = walk.step("V").columns
    shares = Step("A × V", "", "each value times its weight: Z is their sum", WORDS, names, parts, dimensions=True)
    walk.steps.insert(-1, shares)
    total = float((parts.sum(dim=0) - torch.from_numpy(walk.step("Z").values)[0]).abs().max())
    walk.checks.append(Check("the weighted values add up to Z", total, 1e-12))
    undivided = walk_attention(
        QUERY,
        KEY,
        VALUE,
        rows=WORDS[:1],
        columns=WORDS,
        score="dot",
        vectors=False,
        name="undivided",
        title="Without the division by 8",
        says="A difference of 16 instead of 2: softmax leaves Machines about a ten-millionth.",
    )
    return [walk, undivided]
