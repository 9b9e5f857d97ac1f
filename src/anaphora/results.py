"""How results look where Python shows them: one line as `repr`, a table in a notebook.

A notebook may be light or dark: tables have no colors of their own but shades of one that both can bear. Words come
from corpora and models, so nothing of them is taken as HTML.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

MAX_REPR_CHARACTERS = 120
"""Characters of a `repr`."""
MOST_ROWS = 200
"""Rows of a table that a notebook shows."""
EDGE = "border:1px solid rgba(128,128,128,.3);padding:.2em .6em;"


def brief(kind: str, text: str | None, *facts: str) -> str:
    """Kind('the text, cut where it is long …', fact, fact)."""
    known = ["".join(one if one.isprintable() else "\ufffd" for one in fact) for fact in facts if fact]
    room = max(20, MAX_REPR_CHARACTERS - len(kind) - 2 - sum(len(fact) + 2 for fact in known))
    said = [*([quoted(text, room)] if text is not None else []), *known]
    line = f"{kind}({', '.join(said)})"
    return line if len(line) <= MAX_REPR_CHARACTERS else f"{line[: MAX_REPR_CHARACTERS - 2]}…)"


def quoted(text: str, room: int) -> str:
    """As Python writes a string, in so many characters: control characters are spelled."""
    whole = repr(text[: 2 * room])
    if len(whole) <= room and len(text) <= 2 * room:
        return whole
    return f"{whole[: room - 2]}…{whole[0]}"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 line, 2,000 lines, 2 analogies."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


class Facts(dict[str, Any]):
    """What is known by name, whatever JSON can hold: a dict that Python shows in a line, `print` a fact a line, and a
    notebook as a table. said: what stands in that line."""

    def __init__(self, facts: Mapping[str, Any], text: str, *said: str) -> None:
        super().__init__(facts)
        self._line = brief(type(self).__name__, text, *said)

    def __repr__(self) -> str:
        return self._line

    def __str__(self) -> str:
        return "\n".join(f"{name}: {quoted_fact(value)}" for name, value in self.items())

    def _repr_html_(self) -> str:
        return html_table((), [(name, quoted_fact(value)) for name, value in self.items()], left=2)


class Info(Facts):
    """What a model is, what it was made of, how good it was found: as `anaphora info --json` has it."""


def quoted_fact(value: Any) -> str:
    """A value on one line, cut where it is long; what is inside of it is opened by its name."""
    if isinstance(value, str):
        return (
            value if len(value) <= MAX_REPR_CHARACTERS and value.isprintable() else quoted(value, MAX_REPR_CHARACTERS)
        )
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {quoted_fact(one)}" for name, one in list(value.items())[:20] if one is not None)
    elif isinstance(value, list | tuple):
        text = ", ".join(quoted_fact(one) for one in value[:20])
    elif isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= MAX_REPR_CHARACTERS else f"{text[: MAX_REPR_CHARACTERS - 1]}…"


def figure(value: float, form: str = ".2f") -> str:
    """A number for `repr` and tables; what is none is a dash."""
    return "–" if math.isnan(value) else f"{value:{form}}"


def html_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str = "",
    left: int = 1,
    shades: Sequence[Sequence[float]] | None = None,
) -> str:
    """A table for a notebook; the first `left` columns hold text, the others numbers.

    shades: of each cell but those in the first column, 0 to 1.
    """
    rows = list(rows)
    lines = [f'<caption style="text-align:left;padding:.2em 0">{shown(caption)}</caption>'] if caption else []
    if any(heads):
        lines.append("<tr>" + "".join(_cell(head, "th", place < left) for place, head in enumerate(heads)) + "</tr>")
    for number, row in enumerate(rows[:MOST_ROWS]):
        tints = [0.0, *shades[number]] if shades is not None else [0.0] * len(row)
        cells = (_cell(text, "td", place < left, tint) for place, (text, tint) in enumerate(zip(row, tints)))
        lines.append("<tr>" + "".join(cells) + "</tr>")
    more = f"<div>and {len(rows) - MOST_ROWS:,} more</div>" if len(rows) > MOST_ROWS else ""
    inside = "".join(lines)
    return f'<div style="overflow-x:auto"><table style="border-collapse:collapse">{inside}</table>{more}</div>'


def html_lines(lines: Iterable[str]) -> str:
    """What a terminal would show."""
    return f'<pre style="overflow-x:auto">{chr(10).join(shown(line) for line in lines)}</pre>'


def token_table(scores: Sequence[tuple[str, float]], *, caption: str = "") -> str:
    """Tokens side by side, under each its log-probability; the likelier, the darker."""
    if not scores:
        return html_table((), [], caption=caption)
    names, values = zip(*scores)
    tints = [math.exp(min(value, 0.0)) if value == value else 0.0 for value in values]
    rows = [["token", *names], ["log P", *(figure(value) for value in values)]]
    return html_table((), rows, caption=caption, shades=[[0.0] * len(names), tints])


def shown(text: str) -> str:
    """Text inside HTML, without what a browser would obey."""
    known = (one if one.isprintable() or one in "\u200c\u200d" else "\ufffd" for one in text)
    return escape("".join(known))


def _cell(text: str, tag: str, left: bool, tint: float = 0.0) -> str:
    side = "left" if left else "right"
    shade = f"background:rgba(31,119,180,{0.6 * min(max(tint, 0.0), 1.0):.2f});" if tint > 0.005 else ""
    return f'<{tag} style="{EDGE}text-align:{side};{shade}">{shown(text)}</{tag}>'
