"""Why a Backpack expects the next word, in words and tables: shares of (word, sense) that add up to the logit.

    trick: logit 9.214, P = 0.1713
      word          sense    α here  says for it      adds
      sick              2    0.9731        7.0120    6.8234
      a                 0    0.4420        3.1022    1.3712
      10 other pairs                               1.0194
                                              sum    9.2140

`α here` is how much the sense of that word weighs at this place, `says for it` what the sense says for the next word
wherever it stands (sense vector · row of E), and their product is what it adds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anaphora.explain.columns import NUMBER, number, padded, wrapped
from anaphora.explain.draw.terminal import cells, cut, isolated
from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.models.backpack.sense_shares import SenseCandidate, SensesWhy
from anaphora.models.next_word import NextWord

SHARE_ROWS = 8
"""Pairs of word and sense that a table has rows for."""
TOLERANCE = 1e-5
"""How far the shares' sum may be from the logit: as a share of the largest number in it, where that is more than 1."""
ABOUT = "logit(w) = sum over words and senses of α · (sense · E_w), and P(w) is its softmax"


def share_lines(
    one: SenseCandidate, name: str, words: Sequence[str], width: int, indent: str = "", begin: str = ""
) -> Iterator[str]:
    """The table of one next word; words: ⟨s⟩ and those after it."""
    called = isolated(cut(name, 40))
    yield from wrapped(f"{begin}{called}: logit {one.logit:.4g}, P = {one.probability:.4g}", width, indent)
    shown = one.largest(SHARE_ROWS)
    left = one.shares.size - len(shown)
    rest = f"{left} other {'pair' if left == 1 else 'pairs'}"
    names = [words[place] for place, _ in shown]
    room = width - len(indent) - 3 * (NUMBER + 4) - 9
    label = max(min(max(map(cells, names)), room), len(rest) - 7)
    yield f"{indent}  {'word':<{label}}  sense  {'α here':>{NUMBER}}  {'says for it':>{NUMBER + 2}}  {'adds':>{NUMBER}}"
    for (place, sense), word in zip(shown, names):
        weight, says, share = (float(table[place, sense]) for table in (one.weights, one.says, one.shares))
        numbers = f"{number(weight)}  {says:>{NUMBER + 2}.4g}  {number(share)}"
        yield f"{indent}  {padded(word, label)}  {sense:>5}  {numbers}"
    total = one.total
    if left:
        others = total - math.fsum(float(one.shares[pair]) for pair in shown)
        yield f"{indent}  {rest:<{label + 7 + 2 * NUMBER + 6}}  {number(others)}"
    yield f"{indent}  {'sum':>{label + 7 + 2 * NUMBER + 6}}  {number(total)}"


def origin(one: SenseCandidate, words: Sequence[str]) -> str:
    """The word and sense that add most: sick#2."""
    place = int(np.argmax(one.shares))
    return f"{words[place // one.shares.shape[1]]}#{place % one.shares.shape[1]}"


def sums_of_shares(candidates: Sequence[NextWord]) -> list[Check]:
    """Whether the shares of each word add up to its logit."""
    found = [one for one in candidates if isinstance(one, SenseCandidate)]
    if not found:
        return []
    worst = max(abs(one.total - one.logit) / one.size for one in found)
    return [Check("the shares of each word add up to the logit that the model gives", worst, TOLERANCE)]


def shares_walk(
    found: SensesWhy, words: Sequence[str], names: Sequence[str], checks: Sequence[Check], patched: str = ""
) -> Walk:
    """Tables of word by sense, for pictures: the weights at this place, and the shares of each next word.

    patched: with which patches, in words.
    """
    senses = [str(sense) for sense in range(found.senses)]
    what = "weights of the senses, times the topic's" if found.emphasized else "weights of the senses (columns)"
    how: dict[str, Any] = _scale(found.weights) if found.emphasized else {"shares": True}
    steps = [Step("α", "α at this place", what, words, senses, found.weights, decimals=2, **how)]
    for one, name in zip(found.candidates, names):
        says = f"logit {one.logit:.3f}, P {one.probability:.3g}"
        steps.append(Step(name, f"→ {name}", says, words, senses, one.shares, decimals=2))
    title = "What each sense of each word gives the next one"
    says = f"after {' '.join(words)}" + (f" ({patched})" if patched else "")
    return Walk("why", title, says, steps, list(checks))


def _scale(weights: np.ndarray) -> dict[str, Any]:
    """Weights that a topic raised are no parts of 1, but none is below 0: all are drawn against the largest."""
    return {"up_to": float(weights.max()) or 1.0}


def alpha_walk(found: SensesWhy, words: Sequence[str], patched: str = "") -> Walk:
    """For each sense a table, for pictures: row i, how much the sense weighs at each word before what comes after i."""
    seen, whole = np.tril(np.ones((len(words), len(words)), bool)), not found.emphasized
    how: dict[str, Any] = {"shares": True} if whole else _scale(found.alpha)
    steps = [
        Step(f"α{sense}", f"sense {sense}", "", words, words, table, seen, decimals=2, **how)
        for sense, table in enumerate(found.alpha)
    ]
    off = float(np.abs(found.alpha.sum(-1) - 1).max())
    checks = [Check("every row of every sense sums to 1", off, TOLERANCE)] if whole else []
    says = "A row is a place: the word after it is expected from the senses of the words before, so weighted."
    says += "" if whole else " A topic makes some weigh more, and others less."
    says += f" ({patched})" if patched else ""
    return Walk("alpha", "α: where each sense is taken from", says, steps, checks)
