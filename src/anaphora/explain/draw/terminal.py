"""An alignment as a heat map of characters, for a terminal of any width.

Each source word has a column, its name standing above on a staircase (a line for each, so that any script, long words
and right-to-left words stay whole); each target word has a row. A cell is darker the more the target word looked there,
in color or, where there is none, in shades of character; ● marks a link.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anaphora.explain.draw.colors import LINK, color, hexadecimal, on

if TYPE_CHECKING:  # the widths of words are asked for where nothing needs PyTorch
    from rich.text import Text

    from anaphora.alignment.model_alignment import Alignment

SHADES = " ░▒▓█"
LEFT_TO_RIGHT, ISOLATE, END_ISOLATE = "\u200e", "\u2068", "\u2069"


def heat_map(alignment: Alignment, *, width: int = 80, colors: bool = True) -> Text:
    """Lines of at most `width` cells; more source words than fit go into a second map below, and so on."""
    from rich.text import Text

    picture = Text(no_wrap=True, overflow="crop")
    for line in alignment.method.explain():
        picture.append(cut(line, width) + "\n", style="dim")
    if not alignment.source or not alignment.target:
        picture.append("(no words)\n")
        return picture
    label = min(max(cells(word.text) for word in alignment.target), max(width // 4, 4))
    room = max(width - label - 1, 8)
    columns = len(alignment.source)
    tail = max(cells(word.text) for word in alignment.source[-3:])  # names at the right end need space as well
    cell = next((size for size in (3, 2) if size * (columns - 1) + max(tail + size // 3, size) <= room), 1)
    per_map = max(1, (room - (cell - 1)) // cell)
    marked = any(right_to_left(word.text) for word in (*alignment.source, *alignment.target))
    begin = LEFT_TO_RIGHT if marked else ""
    links = set(alignment.links)
    for first in range(0, columns, per_map):
        places = range(first, min(first + per_map, columns))
        _staircase(picture, [alignment.source[s].text for s in places], label, cell, width, begin)
        for t, word in enumerate(alignment.target):
            name = cut(word.text, label)
            picture.append(begin + " " * (label - cells(name)) + isolated(name) + " ")
            for s in places:
                _cell(picture, float(alignment.weights[t, s]), (s, t) in links, cell, colors)
            picture.append("\n")
    return picture


def _staircase(picture: Text, names: Sequence[str], label: int, cell: int, width: int, begin: str) -> None:
    for place, name in enumerate(names):
        before = begin + " " * (label + 1 + cell // 3)  # above the middle of its cell
        for _ in range(place):
            before += "│".ljust(cell)
        room = max(width - (label + 1 + cell // 3) - place * cell, 1)
        picture.append(before, style="dim")
        picture.append(isolated(cut(name, room)) + "\n")


def _cell(picture: Text, weight: float, linked: bool, cell: int, colors: bool) -> None:
    if colors:
        style = f"{hexadecimal(on(weight))} on {hexadecimal(color(weight))}"
        picture.append((" ● " if cell == 3 else "● " if cell == 2 else "●") if linked else " " * cell, style=style)
        return
    glyph = SHADES[min(int(weight * 5), 4)] if weight > 0.04 else " "
    if not linked:
        picture.append(glyph * cell)
    elif cell == 1:
        picture.append("●", style=f"bold {hexadecimal(LINK)}")
    else:
        picture.append((glyph + "●" + glyph)[:cell] if cell == 3 else "●" + glyph)


def cells(text: str) -> int:
    """Columns that a terminal gives a text: two for wide characters and for an emoji, none for combining marks."""
    from rich.cells import cell_len

    if "\u200d" in text or _emoji(text):
        return 2
    return sum(0 if unicodedata.combining(c) or unicodedata.category(c) == "Cf" else cell_len(c) for c in text)


def _emoji(text: str) -> bool:
    flag = len(text) == 2 and all("\U0001f1e6" <= c <= "\U0001f1ff" for c in text)
    return flag or (len(text) > 1 and ("\ufe0f" in text or any("\U0001f3fb" <= c <= "\U0001f3ff" for c in text[1:])))


def shown(text: str, room: int = 60) -> str:
    """A text that a terminal may be given: no control characters, and not endless."""
    return cut(text, room)


def visible(text: str) -> str:
    """Control characters, which a terminal would obey, as U+FFFD."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else "\ufffd" for c in text)


def cut(text: str, room: int) -> str:
    """At most so many columns, the cut shown by an ellipsis; control characters become visible."""
    text = visible(text)
    if cells(text) <= room:
        return text
    kept = text[: 4 * room + 64]  # a character may have no width, but not many in a row
    while kept and cells(kept) > room - 1:
        kept = kept[:-1]
    return kept + "…"


def right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def isolated(text: str) -> str:
    """A terminal that knows right-to-left text turns the word round, and nothing beside it."""
    return f"{ISOLATE}{text}{END_ISOLATE}" if right_to_left(text) else text
