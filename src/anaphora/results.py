"""How results look where Python shows them: one line as `repr`, a table in a notebook.

A notebook may be light or dark: tables have no colours of their own but shades of one that both can bear. Words come
from corpora and models, so nothing of them is taken as HTML.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

LONGEST = 120
"""Characters of a `repr`."""
MOST_ROWS = 200
"""Rows of a table that a notebook shows."""
EDGE = "border:1px solid rgba(128,128,128,.3);padding:.2em .6em;"


def brief(kind: str, text: str | None, *facts: str) -> str:
    """Kind('the text, cut where it is long …', fact, fact)."""
    known = ["".join(one if one.isprintable() else "\ufffd" for one in fact) for fact in facts if fact]
    room = max(20, LONGEST - len(kind) - 2 - sum(len(fact) + 2 for fact in known))
    said = [*([quoted(text, room)] if text is not None else []), *known]
    line = f"{kind}({', '.join(said)})"
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 2]}…)"


def quoted(text: str, room: int) -> str:
    """As Python writes a string, in so many characters: control characters are spelled."""
    whole = repr(text[: 2 * room])
    if len(whole) <= room and len(text) <= 2 * room:
        return whole
    return f"{whole[: room - 2]}…{whole[0]}"


def count(number: int, one: str, many: str = "") -> str:
    """1 line, 2,000 lines; `many` where an s does not do."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


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
