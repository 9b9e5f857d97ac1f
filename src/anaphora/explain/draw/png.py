"""An alignment as PNG, drawn with Pillow at twice the size of the screen's dots.

Pillow shapes text with HarfBuzz, so Arabic letters join and run from right to left, and it draws emoji in color. Fonts
are found by the characters of each word (fonts.py); where no font has them the word is spelled in code points, and the
caller is told what to install.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from anaphora.alignment.model_alignment import Alignment
from anaphora.explain.draw import fonts
from anaphora.explain.draw.colors import LINK, RGB, color, on
from anaphora.explain.draw.layout import RING, SLANT, Layout, lay_out, shown

if TYPE_CHECKING:
    from PIL.Image import Image

SCALE = 2
MARGIN_PIXELS = 4
"""Around a drawn word, for accents and slanted strokes."""
INK, PALE, LINE = (34, 34, 34), (102, 102, 102), (153, 153, 153)
MOST_PIXELS = 80_000_000


def png(*alignments: Alignment, names: Sequence[str] = ()) -> tuple[bytes, list[str]]:
    """The file's content, and what a person should know about its fonts; several alignments stand side by side, each
    under its name."""
    pen = Pen()
    layouts = [lay_out(one, pen.width, name) for one, name in zip(alignments, names or [""], strict=True)]
    page = pen.begin(sum(one.width for one in layouts), max(one.height for one in layouts))
    for alignment, layout in zip(alignments, layouts):
        _draw(pen, alignment, layout)
        pen.left += layout.width
    file = io.BytesIO()
    page.save(file, format="PNG", optimize=True)
    return file.getvalue(), pen.notes()


class Pen:
    """Draws words and boxes; places are given in unscaled pixels."""

    def __init__(self) -> None:
        self.scale: float = SCALE
        self.left = 0.0
        """Where x = 0 stands on the page."""
        self.page: Image | None = None
        self.missing = fonts.Missing()
        self.unshaped = False

    def begin(self, width: float, height: float) -> Image:
        """An empty page to draw on, coarser where it would have too many dots."""
        from PIL import Image

        while self.scale > 0.25 and width * height * self.scale * self.scale > MOST_PIXELS:
            self.scale /= 2
        self.page = Image.new("RGB", (round(width * self.scale), round(height * self.scale)), "white")
        return self.page

    def notes(self) -> list[str]:
        return [*self.missing.notes(), *([fonts.shaping_advice()] if self.unshaped else [])]

    def width(self, text: str, size: float) -> float:
        return (self.word(text, size * SCALE, INK).width - 2 * MARGIN_PIXELS) / SCALE

    def box(self, x: float, y: float, w: float, h: float, fill: RGB | None, line: RGB | None = None) -> None:
        from PIL import ImageDraw

        assert self.page is not None
        x += self.left
        corners = [round(v * self.scale) for v in (x, y, x + w, y + h)]
        corners[2:] = corners[2] - 1, corners[3] - 1
        if corners[2] < corners[0] or corners[3] < corners[1]:
            return
        draw = ImageDraw.Draw(self.page)
        if line is None:
            draw.rectangle(corners, fill=fill)
        else:
            draw.rounded_rectangle(corners, radius=3 * self.scale, outline=line, width=round(2.5 * self.scale))

    def hatch(self, x: float, y: float, w: float, h: float, ink: RGB, gap: float = 6.0) -> None:
        """Slanting lines, where there is nothing to see."""
        from PIL import Image, ImageDraw

        assert self.page is not None
        x += self.left
        left, top, right, below = (round(v * self.scale) for v in (x, y, x + w, y + h))
        if right <= left or below <= top:
            return
        wide, high = right - left, below - top
        tile = Image.new("RGB", (wide, high), "white")
        draw, step = ImageDraw.Draw(tile), max(round(gap * self.scale), 2)
        first = -((left + top) % step)  # lines go on from one cell to the next
        for shift in range(first, wide + high, step):
            draw.line([(shift, 0), (shift - high, high)], fill=ink, width=max(round(self.scale / 2), 1))
        self.page.paste(tile, (left, top))

    def text(self, x: float, y: float, text: str, size: float, ink: RGB = INK, anchor: str = "left") -> None:
        """`y` is the middle of the line."""
        assert self.page is not None
        word = self.word(text, size * self.scale, ink)
        shift = {"left": MARGIN_PIXELS, "middle": word.width / 2, "right": word.width - MARGIN_PIXELS}[anchor]
        place = round((x + self.left) * self.scale - shift), round(y * self.scale - word.height / 2)
        self.page.paste(word, place, word)

    def leaning(self, x: float, y: float, text: str, size: float) -> None:
        """Written upwards from (x, y), the middle of where it begins."""
        from math import cos, radians, sin

        from PIL import Image

        assert self.page is not None
        word = self.word(text, size * self.scale, INK)
        turned = word.rotate(SLANT, expand=True, resample=Image.Resampling.BICUBIC)
        angle = radians(SLANT)
        # where the middle of the word's left edge comes to lie within the turned picture
        begin = word.width / 2 - MARGIN_PIXELS
        bx, by = turned.width / 2 - begin * cos(angle), turned.height / 2 + begin * sin(angle)
        self.page.paste(turned, (round((x + self.left) * self.scale - bx), round(y * self.scale - by)), turned)

    def word(self, text: str, size: float, ink: RGB) -> Image:
        """A text as a transparent picture, exactly as high for every font of that size."""
        path = fonts.font_for(text)
        if path is None:
            known = [part for part in _runs(text) if fonts.font_for(part) is not None]
            if "".join(known) == text and len(known) > 1:
                return _side_by_side([self.word(part, size, ink) for part in known])
            lacking = [c for c in text if ord(c) not in fonts.INVISIBLE and fonts.font_for(c) is None]
            self.missing.add("".join(lacking))
            text = "".join(f"⟨{ord(c):X}⟩" if c in lacking else c for c in text)
            path = fonts.font_for(text.replace("⟨", "<").replace("⟩", ">"))
            text = text if path and fonts.font_for(text) == path else text.replace("⟨", "<").replace("⟩", ">")
        if path is None:
            text, path = "".join(f"U+{ord(c):X} " for c in text).strip(), fonts.font_for("U+0123456789ABCDEF")
        if any(unicodedata.bidirectional(c) in ("R", "AL") for c in text) and not fonts.shapes_text():
            self.unshaped = True
        return _drawn(text, None if path is None else str(path), round(size, 2), ink)


def _runs(text: str) -> list[str]:
    """A text in parts that one font each can draw."""
    runs: list[str] = []
    for character in text:
        together = runs[-1] + character if runs else character
        if runs and (ord(character) in fonts.INVISIBLE or fonts.font_for(together) is not None):
            runs[-1] = together
        else:
            runs.append(character)
    return runs


@lru_cache(maxsize=4096)
def _drawn(text: str, path: str | None, size: float, ink: RGB) -> Image:
    from pathlib import Path

    from PIL import Image, ImageDraw, ImageFont

    if path is None:  # no font at all on this machine but the one inside Pillow
        font, shrink = ImageFont.load_default(size), 1.0
    else:
        font, shrink = fonts.load(Path(path), size)
    left, _, right, _ = font.getbbox(text, anchor="ls")
    ascent, descent = font.getmetrics()  # type: ignore[union-attr]
    width, height = max(round(right - min(left, 0)), 1), ascent + descent
    margin = round(MARGIN_PIXELS / shrink)
    picture = Image.new("RGBA", (width + 2 * margin, height + 2 * margin), (*ink, 0))
    draw = ImageDraw.Draw(picture)
    draw.text((margin - min(left, 0), margin + ascent), text, font=font, fill=ink, anchor="ls", embedded_color=True)
    if shrink != 1.0:
        smaller = max(round(picture.width * shrink), 1), max(round(picture.height * shrink), 1)
        picture = picture.resize(smaller, Image.Resampling.LANCZOS)
    return picture


def _side_by_side(words: list[Image]) -> Image:
    from PIL import Image

    width = sum(word.width - 2 * MARGIN_PIXELS for word in words) + 2 * MARGIN_PIXELS
    row = Image.new("RGBA", (width, max(word.height for word in words)), (0, 0, 0, 0))
    x = 0
    for word in words:
        row.alpha_composite(word, (x, (row.height - word.height) // 2))
        x += word.width - 2 * MARGIN_PIXELS
    return row


def _draw(pen: Pen, alignment: Alignment, layout: Layout) -> None:
    cell, left, top = layout.cell, layout.left, layout.top
    for number, line in enumerate(layout.heading):
        pen.text(12, 20 + 18 * number, line, 12.5, INK if number == 0 else PALE)
    for s, word in enumerate(alignment.source):
        pen.leaning(left + (s + 0.5) * cell, top - 8, shown(word.text), layout.font)
    for t, word in enumerate(alignment.target):
        pen.text(left - 8, top + (t + 0.5) * cell, shown(word.text), layout.font, anchor="right")
    wide, high = len(alignment.source) * cell, len(alignment.target) * cell
    pen.box(left - 1, top - 1, wide + 2, high + 2, LINE)
    pen.box(left, top, wide, high, color(0))
    links = set(alignment.links)
    for t in range(len(alignment.target)):
        for s in range(len(alignment.source)):
            weight, x, y = float(alignment.weights[t, s]), left + s * cell, top + t * cell
            if weight >= 0.01:
                pen.box(x, y, cell, cell, color(weight))
            if layout.numbers and weight >= 0.05:
                pen.text(x + cell / 2, y + cell / 2, str(round(100 * weight)), 11, on(weight), "middle")
            if (s, t) in links:
                pen.box(x + 1, y + 1, cell - 2, cell - 2, None, LINK)
    x, y = left, top + high + 22
    for step in range(20):
        pen.box(x + 5 * step, y, 5, 12, color(step / 19))
    pen.text(x + 108, y + 6, "0 to 100 %" if layout.numbers else "0 to 1", 11, PALE)
    pen.box(x + RING, y, 12, 12, None, LINK)
    pen.text(x + RING + 18, y + 6, "link", 11, PALE)
