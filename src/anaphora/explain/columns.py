"""How the tables of `why` and `senses` are set: names cut to a column, numbers of one width, bars, wrapped lines."""

from __future__ import annotations

import textwrap

from anaphora.explain.draw.terminal import cells, cut, isolated, visible

BAR = " ▏▎▍▌▋▊▉█"
MIN_COLUMNS = 72
NUMBER = 9
"""Columns of a number: four digits and a power of ten."""


def number(value: float) -> str:
    return f"{value:>{NUMBER}.4g}"


def bar(share: float, room: int) -> str:
    """A bar of so many columns at 1, drawn to an eighth of one."""
    eighths = round(share * room * 8)
    return "█" * (eighths // 8) + (BAR[eighths % 8] if eighths % 8 else "")


def padded(text: str, room: int, *, right: bool = False, tail: bool = False) -> str:
    """Exactly so many columns; where it is too long, `tail` keeps its end."""
    text = visible(text)
    if tail and cells(text) > room:
        while text and cells(text) > room - 1:
            text = text[1:]
        text = "…" + text
    text = cut(text, room)
    space = " " * (room - cells(text))
    return space + isolated(text) if right else isolated(text) + space


def wrapped(text: str, width: int, indent: str = "", then: str | None = None) -> list[str]:
    """A paragraph in lines; `then` stands before all but the first, two blanks more than `indent` unless given."""
    then = indent + "  " if then is None else then
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=then, break_on_hyphens=False)
