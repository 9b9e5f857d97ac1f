"""Where everything stands in the picture of an alignment: the same numbers for SVG and PNG."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from anaphora.alignment.model_alignment import Alignment

MAX_LABEL_CHARACTERS = 28
"""Characters of a label; longer words are cut and shown whole in the SVG's hints."""
NUMBERS_UP_TO = 12
"""Words of the longer side up to which cells hold their percentage."""
SLANT = 60.0
"""Degrees by which the source words lean."""
RING = 190
"""Where the legend has its link: right of the words beside the colors."""


@dataclass(frozen=True)
class Layout:
    """In pixels of an unscaled picture."""

    cell: float
    font: float
    left: float
    """Where the first column begins: the longest target word fits before it."""
    top: float
    """Where the first row begins: heading, then the leaning source words."""
    heading: tuple[str, ...]
    width: float
    height: float
    numbers: bool


def lay_out(alignment: Alignment, measure: Callable[[str, float], float], name: str = "") -> Layout:
    """Sizes from the number of words; `measure(text, font)` says how wide a text is; `name` stands above all."""
    longest = max(len(alignment.source), len(alignment.target), 1)
    cell = 34.0 if longest <= NUMBERS_UP_TO else 26.0 if longest <= 24 else 20.0
    font = 14.0 if longest <= 24 else 12.0
    heading = (*([shown(name)] if name else []), *alignment.method.explain())
    left = 24 + max([measure(shown(word.text), font) for word in alignment.target], default=0)
    left = max(left, 60)
    names = max([measure(shown(word.text), font) for word in alignment.source], default=0)
    top = 26 + 18 * len(heading) + 0.87 * names + 14  # sin 60°
    over = max(
        [
            (place + 1) * cell + 0.5 * measure(shown(word.text), font)
            for place, word in enumerate(alignment.source)  # cos 60°
        ],
        default=0,
    )
    width = left + max(over, len(alignment.source) * cell, RING + 38) + 24
    width = max(width, 24 + max(measure(line, 12.5) for line in heading) + 12)
    height = top + len(alignment.target) * cell + 58
    return Layout(cell, font, left, top, heading, width, height, longest <= NUMBERS_UP_TO)


def drawable(text: str) -> str:
    """Control characters, line ends and halves of surrogate pairs as U+FFFD: no font has them, and a line end makes
    two lines of a label. What joins letters or makes a flag of an emoji stays."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)


def shown(word: str) -> str:
    """A label: what can be drawn of it, and not endless."""
    word = drawable(word)
    return word if len(word) <= MAX_LABEL_CHARACTERS else word[: MAX_LABEL_CHARACTERS - 1] + "…"
