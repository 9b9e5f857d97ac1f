"""A walk as text: labeled tables that keep to the width of the terminal, in any script.

    S = Q Kᵀ / √2: scaled, so that scores do not grow with the dimensions
            A     A     B     A
      A  7.07     ·     ·     ·
      A  7.07  7.07     ·     ·

A dot is a cell that the mask hides: nobody may look there. A table wider than the terminal goes on below, and says
which columns it shows. Of vectors with many dimensions the first few are shown, and how many are left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from anaphora.errors import option
from anaphora.explain.draw.colors import color, hexadecimal, on
from anaphora.explain.draw.terminal import LEFT_TO_RIGHT, cells, cut, isolated, right_to_left, visible
from anaphora.results import html_lines, html_table

if TYPE_CHECKING:
    from rich.text import Text

    from anaphora.explain.trace_parts import Cell, Step, Walk

MASKED = "·"
DIMENSIONS = 8
"""Dimensions of a vector that a table shows."""
LABEL = 16
"""Columns of the terminal that a word above a table may take."""
MOST_ROWS = 200
"""Rows of a table that are printed."""
MOST_COLUMNS = 50
"""Columns of a table in a notebook."""


def walk_text(walk: Walk, *, width: int = 80, colors: bool = False) -> Text:
    """Title, what it is about, every step, the cells asked for, every check."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    _paragraph(text, walk.title, width, style="bold")
    for line in walk.says.splitlines():
        _paragraph(text, line, width)
    for step in walk.steps:
        text.append("\n")
        text.append_text(step_text(step, width=width, colors=colors))
    for cell in walk.cells:
        text.append("\n")
        text.append_text(cell_text(cell, width=width))
    if walk.checks:
        text.append("\n")
    for check in walk.checks:
        _paragraph(text, str(check), width, style="" if check.holds else "bold red", hang=2)
    return text


def step_text(step: Step, *, width: int = 80, colors: bool = False) -> Text:
    """The heading of one step and its table."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    _paragraph(text, heading(step), width, style="bold", hang=2)
    if not step.rows or not step.columns:
        text.append("(nothing)\n")
        return text
    numbers = written(step)
    shown = range(min(len(step.columns), DIMENSIONS) if step.dimensions else len(step.columns))
    rows = range(min(len(step.rows), MOST_ROWS))
    marked = any(right_to_left(name) for name in (*step.rows, *step.columns))
    begin = LEFT_TO_RIGHT if marked else ""
    sizes = [max(min(cells(step.columns[c]), LABEL), *(len(numbers[r][c]) for r in rows)) + 2 for c in shown]
    spare = width - 2 - sum(sizes)  # a long label is cut to a quarter, or to what the numbers leave
    label = min(max(cells(step.rows[r]) for r in rows), max(width // 4, spare, 4))
    shaded = colors and step.shares
    parts = _parts(sizes, max(width - label - 2, 1))
    for part in parts:
        text.append(begin + " " * (label + 2), style="dim")
        for c in part:
            name = cut(step.columns[c], sizes[c] - 2)
            text.append(" " * (sizes[c] - cells(name)) + isolated(name), style="dim")
        text.append("\n")
        for r in rows:
            name = cut(step.rows[r], label)
            text.append(begin + "  " + " " * (label - cells(name)) + isolated(name), style="dim")
            for c in part:
                value = float(step.values[r, c])
                style = (
                    f"{hexadecimal(on(value))} on {hexadecimal(color(value))}" if shaded and step.there(r, c) else ""
                )
                text.append("  ")
                text.append(numbers[r][c].rjust(sizes[c] - 2), style=style)
            text.append("\n")
        if len(parts) > 1:
            first, last = part[0] + 1, part[-1] + 1
            _paragraph(text, f"  (columns {first} to {last} of {len(step.columns)})", width, style="dim")
    left = len(step.columns) - len(shown)
    if left:
        more = (
            f"  … and {left} more of {len(step.columns)} dimensions: {option('json', python='the trace')} has them all"
        )
        _paragraph(text, more, width, style="dim", hang=4)
    if len(step.rows) > MOST_ROWS:
        more = f"  … and {len(step.rows) - MOST_ROWS} more rows: {option('json', python='the trace')} has them all"
        _paragraph(text, more, width, style="dim", hang=4)
    return text


def cell_text(cell: Cell, *, width: int = 80) -> Text:
    """The arithmetic of one cell."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    _paragraph(
        text, f"How the cell of {isolated(cell.row)} and {isolated(cell.column)} came about", width, style="bold"
    )
    room = max((cells(symbol) for symbol, _ in cell.lines), default=0)
    for symbol, lines in cell.lines:
        for number, line in enumerate(lines):
            name = symbol if number == 0 else ""
            _paragraph(text, f"  {name}{' ' * (room - cells(name))}  {line}", width, hang=room + 6)
    return text


def walk_html(walk: Walk) -> str:
    """The same for a notebook, which has room to the right."""
    parts = [html_lines([walk.title, *walk.says.splitlines()]), *map(step_html, walk.steps)]
    parts += [html_lines(cell_text(cell).plain.splitlines()) for cell in walk.cells]
    return "".join([*parts, html_lines(map(str, walk.checks)) if walk.checks else ""])


def step_html(step: Step) -> str:
    """One step as a table of a notebook."""
    shown = min(len(step.columns), DIMENSIONS if step.dimensions else MOST_COLUMNS)
    more = ["…"] * (len(step.columns) > shown)
    rows = [[name, *row[:shown], *more] for name, row in zip(step.rows, written(step))]
    shades = None
    if step.up_to:  # what is hidden has the number 0
        shades = [[value / step.up_to for value in row[:shown]] + [0.0] * len(more) for row in step.values.tolist()]
    return html_table(["", *step.columns[:shown], *more], rows, caption=heading(step), shades=shades)


def heading(step: Step) -> str:
    """`S = Q Kᵀ: how well …`, or where there is no formula `Q: a query …`."""
    named = step.formula or step.symbol
    return f"{named}: {step.says}" if step.says else named


def written(step: Step) -> list[list[str]]:
    """Every cell as it is shown: with as many digits as its table needs, a dot where the mask is."""
    there = step.values if step.mask is None else step.values[step.mask]
    digits = decimals(there) if step.decimals is None else step.decimals
    return [
        [_number(value, digits) if step.there(r, c) else MASKED for c, value in enumerate(row)]
        for r, row in enumerate(step.values.tolist())
    ]


def decimals(values: np.ndarray) -> int | None:
    """Digits after the point: as few as show all numbers exactly, at most three; None where only powers of ten fit."""
    largest = float(np.abs(values).max()) if values.size else 0.0
    if largest >= 1e6 or 0 < largest < 1e-3:
        return None
    most = 3 if largest < 10 else 2 if largest < 1000 else 1
    for digits in range(most):
        if np.abs(values - np.round(values, digits)).max(initial=0.0) < 1e-9:
            return digits
    return most


def _number(value: float, digits: int | None) -> str:
    text = f"{value:.2e}" if digits is None else f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.e+") else text


def _parts(sizes: Sequence[int], room: int) -> list[range]:
    """Columns that stand beside one another: as many as fit, then the next ones below."""
    parts, first, used = [], 0, 0
    for place, size in enumerate(sizes):
        if used + size > room and place > first:
            parts.append(range(first, place))
            first, used = place, 0
        used += size
    return [*parts, range(first, len(sizes))]


def _paragraph(text: Text, words: str, width: int, *, style: str = "", hang: int = 0) -> None:
    words = visible(words)
    begin = words[: len(words) - len(words.lstrip())]
    lines = textwrap.wrap(words.strip(), max(width - len(begin), 20), subsequent_indent=" " * max(hang - len(begin), 0))
    for line in lines:
        text.append(begin + line + "\n", style=style)
