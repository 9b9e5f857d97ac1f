"""What stands around two words, and by how much more around one of them: the table of ice and steam (GloVe).

                  k   P(k | ice)  P(k | steam)    ratio
              solid      1.9e-04       2.2e-05      8.9

A word k that belongs to the first has a large ratio, to the second a small one, to both or to neither about one
(Pennington et al. 2014). Differences of vectors are to say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.errors import UserError, option
from anaphora.explain.draw.terminal import cells, cut, isolated
from anaphora.models.vectors.cooccurrence import Cooccurrences, Ratio
from anaphora.results import brief, count, html_table

MIN_SHOWN_COUNT = 5.0
"""Counts, of both together, that a word must have to be shown unasked: rarer ones tell mere chance."""
NUMBER = 12
"""Columns of a number."""


@dataclass(frozen=True)
class RatioTable:
    """The answer: one row for each word k."""

    first: str
    second: str
    rows: list[Ratio]
    counts: list[tuple[float, float]]
    """X of each row's word with the first and with the second: what the probabilities are the shares of."""
    totals: tuple[float, float]
    """All that was counted around the two."""
    window: int
    asked: bool
    """Whether somebody named the words; else they are those that tell the two most apart."""

    def __repr__(self) -> str:
        return brief("RatioTable", f"{self.first} / {self.second}", count(len(self.rows), "word"))

    def __str__(self) -> str:
        return "\n".join(self.lines(80))

    def _repr_html_(self) -> str:
        heads = ("k", f"P(k | {self.first})", f"P(k | {self.second})", "ratio")
        return html_table(heads, [(row.word, f"{row.first:.1e}", f"{row.second:.1e}", told(row)) for row in self.rows])

    def lines(self, width: int) -> list[str]:
        """The table, in so many columns of a terminal."""
        room = max(min(max(cells(row.word) for row in self.rows), width - 3 * NUMBER - 2), 8)
        heads = [f"P(k | {self.first})", f"P(k | {self.second})", "ratio"]
        wide = [min(max(cells(head) + 2, NUMBER), max((width - room) // 3, NUMBER)) for head in heads]
        found = [
            f"around {cut(self.first, 30)}: {self.totals[0]:,.0f} counts; around {cut(self.second, 30)}: "
            f"{self.totals[1]:,.0f} (window {self.window})",
        ]
        if not self.asked:
            found.append(f"the words that tell the two most apart, of those with {MIN_SHOWN_COUNT:g} counts or more")
        found += ["", " " * (room - 1) + "k" + "".join(_right(head, size) for head, size in zip(heads, wide))]
        for row in self.rows:
            values = [f"{row.first:.1e}" if row.first else "0", f"{row.second:.1e}" if row.second else "0", told(row)]
            name = cut(row.word, room)
            line = " " * (room - cells(name)) + isolated(name)
            found.append(line + "".join(_right(value, size) for value, size in zip(values, wide)))
        return found

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "first": self.first,
            "second": self.second,
            "window": self.window,
            "totals": list(self.totals),
            "words": [
                {
                    "word": row.word,
                    "counts": list(counts),
                    "first": row.first,
                    "second": row.second,
                    "ratio": row.ratio,  # null where nothing, or nothing but zero, is below the line
                }
                for row, counts in zip(self.rows, self.counts)
            ],
        }


def told(row: Ratio) -> str:
    """A ratio in three digits."""
    if math.isnan(row.ratio):
        return "none"
    if math.isinf(row.ratio):
        return "∞"
    return f"{row.ratio:.3g}" if row.ratio < 1000 else f"{row.ratio:,.0f}"


def _right(text: str, size: int) -> str:
    text = cut(text, size - 2)
    return " " * (size - cells(text)) + text


def ratio_table(
    table: Cooccurrences, first: str, second: str, words: Sequence[str] = (), *, top: int = 5
) -> RatioTable:
    """The words that are asked about or, if none are, `top` on either side of those that tell the two most apart."""
    if first == second:
        raise UserError(f"{first!r} stands there twice", cure="give two words, such as ice steam")
    for word in (first, second, *words):
        table.row(word)  # an unknown one is refused
    if not words and top < 1:
        raise UserError("nothing is asked for", cure=f"name words, or take {option('top', 5)}")
    chosen = list(dict.fromkeys(words)) or table.telling(first, second, top, least=MIN_SHOWN_COUNT)
    if not chosen:
        raise UserError(
            f"no word was counted {MIN_SHOWN_COUNT:g} times around {first!r} and {second!r}",
            cure="name the words to ask about, or count more text",
        )
    rows = table.ratios(first, second, chosen)
    counts = [(table.cooccurrence(first, word), table.cooccurrence(second, word)) for word in chosen]
    totals = tuple(float(table.total[table.row(word)]) for word in (first, second))
    return RatioTable(first, second, rows, counts, totals, table.window, bool(words))  # type: ignore[arg-type]
