"""The arithmetic of one cell, with its real numbers, as a person would write it beside the table.

    q·k = 0·1 + 10·1 = 10
    10 / √2 = 7.071
    e^1 / (e^0 + e^0 + e^1 + e^0) = 2.718 / 5.718 = 0.4754

Sums of many terms show the first few and say how many more there are; the total is of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

TERMS = 6
"""Terms of a sum that are written out."""
MAX_EXPONENT = 30.0
"""Exponents beyond this are shown less the largest of their row, as a careful softmax computes them."""


def number(value: float) -> str:
    """Four digits that matter, and no more than needed: 10, 7.071, 0.4754, 22026, 1.203e+07."""
    text = f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return "0" if text == "-0" else text


def factor(value: float) -> str:
    """A number inside a product or a sum: negative ones in brackets."""
    return f"({number(value)})" if value < 0 and number(value) != "0" else number(value)


def total(terms: Sequence[str], *, shown: int = TERMS) -> str:
    """Terms joined by plus; of many the first few."""
    if len(terms) <= shown + 1:
        return " + ".join(terms) or "0"
    return f"{' + '.join(terms[:shown])} + … ({len(terms) - shown} more)"


def dot(left: Sequence[float], right: Sequence[float]) -> str:
    """2·1 + 3·0 = 2"""
    terms = [f"{factor(a)}·{factor(b)}" for a, b in zip(left, right, strict=True)]
    return f"{total(terms)} = {number(math.fsum(a * b for a, b in zip(left, right)))}"


def summed(terms: Sequence[str], value: float) -> str:
    """2·tanh(1 + 0.5) + … = 1.81"""
    return f"{total(terms, shown=3)} = {number(value)}"


def scaled(value: float, scale: float, size: int | None) -> str:
    """A score times its scale; 1/√d is written as the division that it is."""
    if size is not None and math.isclose(scale, size**-0.5):
        root = number(math.sqrt(size))
        spelled = f"√{size}" if root != str(math.isqrt(size)) else f"√{size} = {number(value)} / {root}"
        return f"{number(value)} / {spelled} = {number(value * scale)}"
    if 0 < abs(scale) < 1 and math.isclose(1 / scale, round(1 / scale), rel_tol=1e-9):
        return f"{number(value)} / {factor(1 / scale)} = {number(value * scale)}"
    return f"{number(value)} · {factor(scale)} = {number(value * scale)}"


def softmax(scores: Sequence[float], place: int, base: float = math.e) -> list[str]:
    """The weight of one score among those that its query may see."""
    name = "e" if base == math.e else factor(base)
    lines = []
    top = max(scores) if base >= 1 else min(scores)
    if abs(top * math.log(base)) > MAX_EXPONENT:
        lines.append(f"less the largest score, {number(top)}, which changes no weight: ")
        scores = [score - top for score in scores]
        lines[0] += f"{number(scores[place] + top)} - {factor(top)} = {number(scores[place])}"
    powers = [base**score for score in scores]
    below = math.fsum(powers)
    spelled = total([f"{name}^{factor(score)}" for score in scores], shown=4)
    lines.append(
        f"{name}^{factor(scores[place])} / ({spelled}) = {number(powers[place])} / {number(below)} = "
        f"{number(powers[place] / below)}"
    )
    return lines
