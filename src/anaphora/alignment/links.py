"""From weights to links: which cells of an alignment matrix say "these two words belong together".

The best of each row, of each column, where both agree, either, or the agreement grown to its neighbours (Och & Ney
2003; grow-diag of Koehn et al. 2003).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from anaphora.evaluation.alignment_error import Link

Rule = Literal["target", "source", "intersection", "union", "grow"]
RULES: tuple[Rule, ...] = ("target", "source", "intersection", "union", "grow")
RULE_MEANING = {
    "target": "links: each target word to its best source word",
    "source": "links: each source word to its best target word",
    "intersection": "links: where the best of each row and of each column agree",
    "union": "links: the best of each row and of each column",
    "grow": "links: where rows and columns agree, grown to their neighbours (grow-diag)",
}


def links_of(weights: np.ndarray, rule: Rule) -> list[Link]:
    """(T, S) -> (source word, target word), sorted. Of equals the first wins; a word of weight zero has no link."""
    weights = np.round(weights.astype(np.float64), 5)  # differences below that are rounding, and ties go by order
    if not weights.size:
        return []
    rows = [(s, t) for t, s in enumerate(weights.argmax(axis=1).tolist()) if weights[t, s] > 0]
    columns = [(s, t) for s, t in enumerate(weights.argmax(axis=0).tolist()) if weights[t, s] > 0]
    return sorted(by_rule(set(rows), set(columns), weights, rule))


def by_rule(rows: set[Link], columns: set[Link], weights: np.ndarray, rule: Rule) -> set[Link]:
    """The links of a rule, from the best of each row and the best of each column."""
    if rule == "target":
        return rows
    if rule == "source":
        return columns
    if rule == "union":
        return rows | columns
    links = rows & columns
    if rule == "grow":
        _grow(links, (rows | columns) - links, weights)
    return links


def _grow(links: set[Link], candidates: set[Link], weights: np.ndarray) -> None:
    """Koehn's grow-diag: add what touches a link, also at a corner, as long as it gives a word its first one."""
    order = sorted(candidates, key=lambda link: (-weights[link[1], link[0]], link))
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    grown = True
    while grown:
        grown = False
        for s, t in order:
            if (s, t) in links or (s in sources and t in targets):
                continue
            if any((s + a, t + b) in links for a in (-1, 0, 1) for b in (-1, 0, 1)):
                links.add((s, t))
                sources.add(s)
                targets.add(t)
                grown = True
