"""All steps of a walk on one sheet, as SVG or PNG: the marks of sheet.py drawn by svg.py's and png.py's means.

In SVG words are text in the viewer's fonts, and every cell says its number when pointed at; PNG is drawn with the fonts
found here, twice as fine as the screen.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from anaphora.errors import UserError, option
from anaphora.explain.draw.colors import hexadecimal
from anaphora.explain.draw.layout import SLANT
from anaphora.explain.draw.png import Pen
from anaphora.explain.draw.sheet import HATCH, INK, MOST_CELLS, Mark, Sheet, lay_out
from anaphora.explain.draw.svg import FONTS, estimated_width, markup
from anaphora.explain.draw.walk_tables import DIMENSIONS
from anaphora.explain.trace_parts import Walk

ANCHORS = {"left": "start", "middle": "middle", "right": "end"}


def walk_svg(walks: Sequence[Walk]) -> str:
    """The whole document."""
    _check(walks)
    sheet = lay_out(walks, estimated_width)
    width, height = round(sheet.width), round(sheet.height)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family={quoteattr(FONTS)} fill="{hexadecimal(INK)}">',
        f"<title>{markup(sheet.title)}</title>",
        '<defs><pattern id="hidden" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="6" height="6" fill="#fff"/><path d="M0 0V6" stroke="{hexadecimal(HATCH)}"/></pattern></defs>',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    return "\n".join([*head, *(_element(mark) for mark in sheet.marks), "</svg>", ""])


def walk_png(walks: Sequence[Walk]) -> tuple[bytes, list[str]]:
    """The file's content, and what a person should know about its fonts."""
    _check(walks)
    pen = Pen()
    sheet = lay_out(walks, pen.width)
    page = pen.begin(sheet.width, sheet.height)
    _draw(pen, sheet)
    file = io.BytesIO()
    page.save(file, format="PNG")  # the smallest file would take three times as long
    return file.getvalue(), pen.notes()


def _check(walks: Sequence[Walk]) -> None:
    columns = [
        (len(step.rows), min(len(step.columns), DIMENSIONS) if step.dimensions else len(step.columns))
        for walk in walks
        for step in walk.steps
    ]
    cells = sum(r * c for r, c in columns)
    if cells > MOST_CELLS:
        raise UserError(
            f"a picture of {cells:,} cells is more than can be drawn ({MOST_CELLS:,})",
            cure=f"draw one word's row: {option('query', 'WORD')}, or its number from 0",
        )


def _element(mark: Mark) -> str:
    hint = f"<title>{markup(mark.hint)}</title>" if mark.hint else ""
    if mark.kind == "words":
        where = f'x="{mark.x:.1f}" y="{mark.y:.1f}" dy="0.35em" text-anchor="{ANCHORS[mark.anchor]}"'
        if mark.leaning:
            where = f'transform="translate({mark.x:.1f} {mark.y:.1f}) rotate(-{SLANT:g})" dy="0.35em"'
        style = f'font-size="{mark.size:g}" fill="{hexadecimal(mark.fill or INK)}"'
        bold = ' font-weight="600"' if mark.bold else ""
        return f'<text {where} {style}{bold} xml:space="preserve">{hint}{markup(mark.text)}</text>'
    fill = "url(#hidden)" if mark.kind == "hatch" else hexadecimal(mark.fill or INK)
    place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" width="{mark.w:.1f}" height="{mark.h:.1f}"'
    return f'<rect {place} fill="{fill}">{hint}</rect>' if hint else f'<rect {place} fill="{fill}"/>'


def _draw(pen: Pen, sheet: Sheet) -> None:
    for mark in sheet.marks:
        ink = mark.fill or INK
        if mark.kind == "box":
            pen.box(mark.x, mark.y, mark.w, mark.h, ink)
        elif mark.kind == "hatch":
            pen.hatch(mark.x, mark.y, mark.w, mark.h, ink)
        elif mark.leaning:
            pen.leaning(mark.x, mark.y, mark.text, mark.size)
        else:
            pen.text(mark.x, mark.y, mark.text, mark.size, ink, mark.anchor)
            if mark.bold:  # the same word once more, a hair to the right
                pen.text(mark.x + 0.5, mark.y, mark.text, mark.size, ink, mark.anchor)
