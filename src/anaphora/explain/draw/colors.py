"""Two color scales for all pictures: from near white to dark blue, in steps that look equal; and for numbers of both
signs the same blue above zero and brown below it.

A single hue whose lightness falls evenly reads the same for every kind of color vision, in gray print too. The steps
are even in OKLab (Ottosson 2020), a space made so that equal distances look equal. Links are marked by a shape, and in
vermilion, which no common color blindness confuses with blue. Blue and brown of one lightness differ in the one
direction that most color-blind people still see; where it matters the number with its sign stands in the cell.
"""

from __future__ import annotations

import math
from functools import cache

RGB = tuple[int, int, int]

LINK: RGB = (213, 94, 0)  # vermilion of Okabe & Ito (2008)
LIGHTNESS, CHROMA, HUE = (0.985, 0.32), (0.005, 0.125), math.radians(255)
BELOW = math.radians(55)
"""Hue of numbers below zero."""


@cache
def shade(step: int, hue: float = HUE) -> RGB:
    """Colour number 0 (nothing) to 100 (all)."""
    x = min(max(step, 0), 100) / 100
    lightness = LIGHTNESS[0] + x * (LIGHTNESS[1] - LIGHTNESS[0])
    chroma = CHROMA[0] + min(1.0, x * 1.6) * (CHROMA[1] - CHROMA[0])  # dark blues hold little chroma
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short
    green = -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short
    blue = -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short
    return _encoded(red), _encoded(green), _encoded(blue)


def _encoded(light: float) -> int:
    """Linear light to an sRGB byte."""
    light = min(max(light, 0.0), 1.0)
    value = 12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055
    return round(255 * value)


def color(weight: float) -> RGB:
    """Of a weight between 0 and 1."""
    return shade(round(100 * weight)) if weight == weight else shade(0)


def signed(share: float) -> RGB:
    """Of a number between -1 and 1: brown below zero, blue above. Not as dark as weights get, so that the number can be
    read on it."""
    return shade(round(70 * abs(share)), HUE if share >= 0 else BELOW) if share == share else shade(0)


def on(weight: float) -> RGB:
    """Text that can be read on the color of a weight."""
    return on_color(color(weight))


def on_color(rgb: RGB) -> RGB:
    """Text that can be read on a color: whichever of black and white stands out more."""
    return (255, 255, 255) if luminance(rgb) < 0.18 else (0, 0, 0)


def luminance(rgb: RGB) -> float:
    """How much light a color gives, 0 to 1 (WCAG)."""
    red, green, blue = ((v / 255 / 12.92) if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def hexadecimal(rgb: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)
