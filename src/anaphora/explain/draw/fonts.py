"""Fonts for pictures made here: which installed font has the characters of a word?

A drawing library that lacks a character draws a box. So before a word is drawn, the first font that has all of its
characters is looked up: plain ones first, then whatever is installed, for Chinese, Arabic or emoji. What no font has is
named, with the package that would have it.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
    "/System/Library/Fonts",
    "/Library/Fonts",
    "~/Library/Fonts",
    "C:/Windows/Fonts",
)
PREFERRED = ("NotoSans-Regular", "DejaVuSans", "Arial", "Helvetica")
BITMAP_SIZE = 109
"""The one size at which color emoji fonts made of bitmaps can be drawn."""

PACKAGES = {
    "CJK": "fonts-noto-cjk",
    "HIRAGANA": "fonts-noto-cjk",
    "KATAKANA": "fonts-noto-cjk",
    "HANGUL": "fonts-noto-cjk",
    "FULLWIDTH": "fonts-noto-cjk",
    "IDEOGRAPHIC": "fonts-noto-cjk",
}
"""By the first word of a character's Unicode name; all other letters: fonts-noto-core, all pictures:
fonts-noto-color-emoji (Debian's names; others' are alike)."""

INVISIBLE = {0x200C, 0x200D, 0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)}
"""Joiners, selectors, skin tones: a font may handle them without listing them."""


@dataclass
class Missing:
    """Characters that no font here has, by the package that would have them."""

    by_package: dict[str, set[str]] = field(default_factory=dict)

    def add(self, characters: str) -> None:
        for character in characters:
            self.by_package.setdefault(package_for(character), set()).add(character)

    def notes(self) -> list[str]:
        """A sentence for each package."""
        return [
            f"no font here has {' '.join(sorted(characters)[:8])}{' …' if len(characters) > 8 else ''}: install "
            f"{package}, or write an .svg, which is drawn with the viewer's fonts"
            for package, characters in sorted(self.by_package.items())
        ]


def package_for(character: str) -> str:
    if unicodedata.category(character) in ("So", "Sk") or ord(character) >= 0x1F000:
        return "fonts-noto-cjk" if 0x20000 <= ord(character) < 0x40000 else "fonts-noto-color-emoji"
    return PACKAGES.get(unicodedata.name(character, "").split(" ")[0].split("-")[0], "fonts-noto-core")


@cache
def installed() -> tuple[Path, ...]:
    """Font files, upright and regular ones of plain design first."""
    own = Path(_matplotlib_fonts())
    found = [path for folder in FOLDERS for path in _files(Path(folder).expanduser())]
    return tuple(sorted(dict.fromkeys([*found, *_files(own)]), key=_taste))


def _matplotlib_fonts() -> str:
    """DejaVu, which comes with matplotlib: the alphabets of Europe wherever it is installed."""
    from importlib.util import find_spec

    spec = find_spec("matplotlib")
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf")


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [
        Path(where) / name
        for where, _, names in os.walk(folder)
        for name in sorted(names)
        # the last resort has a box for every character there is, which is what is to be avoided
        if name.lower().endswith((".ttf", ".otf", ".ttc")) and not name.lower().startswith("lastresort")
    ]


def _taste(path: Path) -> tuple[int, ...]:
    name = path.stem
    odd = ("Bold", "Italic", "Oblique", "Light", "Thin", "Black", "Condensed", "Mono", "Serif", "Display", "Medium")
    return (
        PREFERRED.index(name) if name in PREFERRED else len(PREFERRED),
        sum(word in name for word in (*odd, "Semi", "Extra", "Looped", "UI")),
        0 if "Regular" in name else 1,
        len(name),
        *name.encode(),
    )


@cache
def characters_of(path: Path) -> frozenset[int]:
    """The code points a font has; none if it cannot be read."""
    from fontTools.ttLib import TTFont, TTLibError

    try:
        with TTFont(path, fontNumber=0, lazy=True) as font:
            return frozenset(font.getBestCmap() or ())
    except (TTLibError, OSError, KeyError, ValueError, AssertionError):
        return frozenset()


@cache
def font_for(text: str) -> Path | None:
    """The first font with all of these characters; emoji from a color font where there is one."""
    needed = {ord(character) for character in text} - INVISIBLE
    fonts = installed()
    if "\ufe0f" in text or any(code >= 0x1F000 for code in needed):
        fonts = tuple(sorted(fonts, key=lambda path: "emoji" not in path.stem.lower()))
    return next((path for path in fonts if needed <= characters_of(path)), None)


def load(path: Path, size: float) -> tuple[FreeTypeFont, float]:
    """The font, and by how much what it draws must be scaled to have the size asked for."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype(str(path), size=round(size), layout_engine=_engine()), 1.0
    except OSError:  # bitmaps of one size
        return ImageFont.truetype(str(path), size=BITMAP_SIZE, layout_engine=_engine()), size / BITMAP_SIZE


@cache
def shapes_text() -> bool:
    """Whether letters are joined and turned as Arabic needs it: that takes libraqm and fribidi."""
    from PIL import features

    return bool(features.check("raqm"))


@cache
def _engine() -> Any:
    from PIL import ImageFont

    return ImageFont.Layout.RAQM if shapes_text() else ImageFont.Layout.BASIC


def shaping_advice() -> str:
    library = "libfribidi0" if sys.platform.startswith("linux") else "fribidi"
    return f"right-to-left words are not joined as they should be: install {library}, or write an .svg"
