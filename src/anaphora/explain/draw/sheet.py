"""Where everything stands on the sheet of a walk: the same marks for SVG and PNG.

Tables stand in reading order, side by side as long as they fit, then in the next row; each has its formula and sentence
above, its words around, and numbers in its cells while there is room for them. What the mask hides is hatched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from anaphora.explain.draw.colors import RGB, color, on_color, signed
from anaphora.explain.draw.layout import drawable, shown
from anaphora.explain.draw.walk_tables import DIMENSIONS, written
from anaphora.explain.trace_parts import Step, Walk

WIDTH = 1400.0
MARGIN, GAP = 28.0, 40.0
INK, PALE, LINE, HATCH = (34, 34, 34), (102, 102, 102), (170, 170, 170), (176, 176, 176)
TITLE, FORMULA, SMALL, LABEL, NUMBER = 18.0, 14.0, 12.0, 13.0, 11.5
NUMBERS_UP_TO = 24
"""Columns up to which cells hold their numbers."""
NARROWEST = 190.0
"""Room for the sentence above a small table."""
MOST_CELLS = 60_000
"""Cells of all tables on a sheet: more would be a file that no viewer opens."""

Measure = Callable[[str, float], float]


@dataclass(frozen=True)
class Mark:
    """A box, a hatched box, or words; in pixels of an unscaled picture."""

    kind: str
    x: float
    y: float
    """Of words: the middle of the line."""
    w: float = 0.0
    h: float = 0.0
    fill: RGB | None = None
    text: str = ""
    size: float = 0.0
    anchor: str = "left"
    bold: bool = False
    leaning: bool = False
    hint: str = ""


@dataclass
class Sheet:
    """All marks of a picture."""

    title: str
    width: float = 0.0
    height: float = 0.0
    marks: list[Mark] = field(default_factory=list)

    def reach(self, x: float) -> None:
        """Something ends there: the sheet is at least as wide."""
        self.width = max(self.width, x + MARGIN)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        ink: RGB = INK,
        *,
        anchor: str = "left",
        bold: bool = False,
        leaning: bool = False,
        hint: str = "",
    ) -> None:
        mark = Mark("words", x, y, text=text, size=size, fill=ink, anchor=anchor, bold=bold, leaning=leaning, hint=hint)
        self.marks.append(mark)

    def box(self, x: float, y: float, w: float, h: float, fill: RGB, hint: str = "") -> None:
        self.marks.append(Mark("box", x, y, w, h, fill, hint=hint))

    def hatch(self, x: float, y: float, w: float, h: float, hint: str = "") -> None:
        self.marks.append(Mark("hatch", x, y, w, h, HATCH, hint=hint))


def lay_out(walks: Sequence[Walk], measure: Measure) -> Sheet:
    """The sheet of some walks, one below the other."""
    sheet = Sheet(" · ".join(walk.title for walk in walks))
    blocks = {(w, s): _Block(step, measure) for w, walk in enumerate(walks) for s, step in enumerate(walk.steps)}
    wide = max([WIDTH - 2 * MARGIN, *(block.width for block in blocks.values())])
    y = MARGIN
    for w, walk in enumerate(walks):
        y = _lines(sheet, y + 8, [walk.title], TITLE, INK, measure, wide, bold=True)
        y = _lines(sheet, y, walk.says.splitlines(), SMALL + 0.5, PALE, measure, wide) + 14
        row: list[_Block] = []
        for s in range(len(walk.steps)):
            block = blocks[w, s]
            if row and sum(b.width + GAP for b in row) + block.width > wide:
                y = _row(sheet, row, y)
                row = []
            row.append(block)
        y = _row(sheet, row, y) if row else y
        for cell in walk.cells:
            lines = [f"{symbol}:  {line}" for symbol, told in cell.lines for line in told]
            y = _lines(sheet, y, [f"The cell of {cell.row} and {cell.column}"], FORMULA, INK, measure, wide, bold=True)
            y = _lines(sheet, y, lines, SMALL, INK, measure, wide) + 10
        y = _lines(sheet, y, [str(check) for check in walk.checks], SMALL, PALE, measure, wide) + 22
    sheet.height = _legend(sheet, y, walks, measure) + MARGIN - 10
    return sheet


def wrapped(text: str, size: float, room: float, measure: Measure) -> list[str]:
    """A paragraph in lines that fit; a single word that does not is left whole."""
    lines: list[str] = []
    for word in drawable(" ".join(text.split())).split():
        if lines and measure(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _lines(
    sheet: Sheet,
    y: float,
    paragraphs: Sequence[str],
    size: float,
    ink: RGB,
    measure: Measure,
    room: float,
    *,
    bold: bool = False,
) -> float:
    for paragraph in paragraphs:
        for line in wrapped(paragraph, size * (1.06 if bold else 1.0), room, measure):
            sheet.words(MARGIN, y + size * 0.75, line, size, ink, bold=bold)
            sheet.reach(MARGIN + measure(line, size) * (1.06 if bold else 1.0))
            y += size * 1.5
    return y


def _row(sheet: Sheet, blocks: Sequence[_Block], y: float) -> float:
    """Tables side by side, their first rows on one line."""
    above = max(block.above for block in blocks)
    x = MARGIN
    for block in blocks:
        block.draw(sheet, x, y + above - block.above)
        sheet.reach(x + block.width)
        x += block.width + GAP
    return y + above + max(block.below for block in blocks) + 26


class _Block:
    """One step: its heading, labels and cells, and how much room they take."""

    def __init__(self, step: Step, measure: Measure) -> None:
        self.step, self.measure = step, measure
        self.columns = list(range(min(len(step.columns), DIMENSIONS) if step.dimensions else len(step.columns)))
        self.left_out = len(step.columns) - len(self.columns)
        self.numbers = written(step) if len(self.columns) <= NUMBERS_UP_TO else []
        names = [shown(step.columns[c]) for c in self.columns]
        longest = max([measure(name, LABEL) for name in names], default=0.0)
        if self.numbers:
            digits = max([measure(text, NUMBER) for row in self.numbers for text in row], default=0.0)
            self.cell = (max(digits + 12, 30.0, min(longest + 10, 58.0)), 25.0)
        else:
            side = 18.0 if len(self.columns) <= 64 else 12.0
            self.cell = (side, max(side, 14.0))
        self.leaning = longest + 6 > self.cell[0]
        self.label = 0.87 * longest + 16 if self.leaning else 22.0  # sin 60°
        self.left = 8 + max([measure(shown(row), LABEL) for row in step.rows], default=0.0)
        grid = self.left + len(self.columns) * self.cell[0]
        over = [
            self.left + (place + 0.6) * self.cell[0] + 0.5 * measure(name, LABEL) + 8
            for place, name in enumerate(names)
        ]
        self.more = f"… and {self.left_out} more dimensions" if self.left_out else ""
        self.note = "" if self.numbers or not step.values.size else _span(step)
        width = max([grid, *(over if self.leaning else ()), NARROWEST, measure(self.more or self.note, SMALL)])
        named = step.formula or step.symbol
        self.heading = wrapped(named, FORMULA * 1.06, width, measure)
        self.says = wrapped(step.says, SMALL, width, measure)
        single = [measure(line, FORMULA * 1.06) for line in self.heading] + [measure(line, SMALL) for line in self.says]
        self.width = max(width, *single) if single else width
        self.above = 21.0 * len(self.heading) + 17.0 * len(self.says) + 6 + self.label
        self.below = len(step.rows) * self.cell[1] + (20 if self.more or self.note else 0)

    def draw(self, sheet: Sheet, x: float, y: float) -> None:
        step, (wide, high) = self.step, self.cell
        for line in self.heading:
            sheet.words(x, y + 10, line, FORMULA, bold=True)
            y += 21
        for line in self.says:
            sheet.words(x, y + 8, line, SMALL, PALE)
            y += 17
        y += 6 + self.label
        left = x + self.left
        for place, c in enumerate(self.columns):
            name, middle = shown(step.columns[c]), left + (place + 0.5) * wide
            hint = step.columns[c] if name != step.columns[c] else ""
            if self.leaning:
                sheet.words(middle, y - 8, name, LABEL, leaning=True, hint=hint)
            else:
                sheet.words(middle, y - 11, name, LABEL, anchor="middle", hint=hint)
        if step.rows and self.columns:
            sheet.box(left - 1, y - 1, len(self.columns) * wide + 2, len(step.rows) * high + 2, LINE)
        paint = _painter(step)
        for r, row in enumerate(step.rows):
            hint = row if shown(row) != row else ""
            sheet.words(left - 7, y + (r + 0.5) * high, shown(row), LABEL, anchor="right", hint=hint)
            for place, c in enumerate(self.columns):
                self._cell(sheet, r, c, left + place * wide, y + r * high, paint)
        below = y + len(step.rows) * high + 13
        if self.more or self.note:
            sheet.words(left, below, self.more or self.note, SMALL, PALE)

    def _cell(self, sheet: Sheet, r: int, c: int, x: float, y: float, paint: Callable[[float], RGB]) -> None:
        step, (wide, high) = self.step, self.cell
        if not step.there(r, c):
            sheet.hatch(x, y, wide, high, f"{step.rows[r]} ← {step.columns[c]}: hidden by the mask")
            return
        value = float(step.values[r, c])
        fill = paint(value)
        sheet.box(x, y, wide, high, fill, f"{step.rows[r]} ← {step.columns[c]}: {value:.4g}")
        if self.numbers:
            sheet.words(x + wide / 2, y + high / 2, self.numbers[r][c], NUMBER, on_color(fill), anchor="middle")


def _painter(step: Step) -> Callable[[float], RGB]:
    """Shares by how dark they are; other numbers brown below zero and blue above it, of the table's largest."""
    if step.up_to is not None:
        most = step.up_to
        return lambda value: color(value / most)
    largest = float(np.abs(step.values).max()) or 1.0
    return lambda value: signed(value / largest)


def _span(step: Step) -> str:
    there = step.values if step.mask is None else step.values[step.mask]
    return f"from {there.min():.3g} to {there.max():.3g}" if there.size else ""


def _legend(sheet: Sheet, y: float, walks: Sequence[Walk], measure: Measure) -> float:
    """What colors mean, as far as they occur."""
    steps = [step for walk in walks for step in walk.steps]
    x, y = MARGIN, y + 4

    def entry(text: str, x: float) -> float:
        sheet.words(x, y + 7, text, SMALL, PALE)
        sheet.reach(x + measure(text, SMALL))
        return x + measure(text, SMALL) + 28

    scales = dict.fromkeys(step.up_to for step in steps if step.up_to is not None)
    for most in scales:
        for place in range(20):
            sheet.box(x + 5 * place, y, 5.3, 13, color(place / 19))
        x = entry(f"from 0 to {most:.3g}", x + 108)
    if any(step.up_to is None for step in steps):
        for place in range(21):
            sheet.box(x + 5 * place, y, 5.3, 13, signed(place / 10 - 1))
        told = "brown below 0, blue above it, against the largest of its table"
        x = entry(f"other numbers: {told}" if scales else told, x + 113)
    if any(step.mask is not None and not step.mask.all() for step in steps):
        sheet.box(x - 1, y - 1, 26, 15, LINE)
        sheet.hatch(x, y, 24, 13)
        entry("hidden by the mask", x + 32)
    return y + 30
