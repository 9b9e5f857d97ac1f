"""Names beside dots: where each may stand so that it covers neither a dot nor another name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

INK, PALE = "#222222", "#999999"
LABEL_OFFSETS = ((8, 0), (-8, 0), (0, 9), (0, -9), (8, 8), (8, -8), (-8, 8), (-8, -8))
"""Where a label may stand, in points from its dot, the best first; further out where all are taken."""
Line = tuple[NDArray[np.float64], NDArray[np.float64]]
"""From a dot to its name, in pixels."""
LEADER = {"arrowstyle": "-", "color": PALE, "lw": 0.6, "shrinkA": 0, "shrinkB": 4}


def label_dots(
    axis: Axes,
    dots: Sequence[tuple[float, float, str]],
    *,
    farthest: int = 8,
    crowded: bool = False,
    size: float = 9,
    without: Sequence[tuple[float, float]] = (),
) -> dict[str, Bbox]:
    """Write each name beside its dot, where it covers neither a dot nor another name; a line leads there from afar.

    The topmost come first, and one that finds no room stands over something. crowded: there are more names than there
    is room for; they come in the order they are given, and those without room stay away; no line crosses another one
    or a name. farthest: how far a name may stand, in steps. without: places of other dots, which have no names.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    figure = axis.figure
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    frame = axis.get_window_extent(renderer)
    points = figure.dpi / 72
    places = axis.transData.transform([*((x, y) for x, y, _ in dots), *without])  # (dots, 2), in pixels
    taken: dict[str, Bbox] = {}
    lines: list[Line] = []
    for own, (x, y, name) in sorted(enumerate(dots), key=lambda one: 0 if crowded else -one[1][1]):
        wide, high = _size(axis, name, size)
        others = np.delete(places, own, axis=0)
        for far, (right, up) in product(range(1, farthest + 1), LABEL_OFFSETS):
            at = places[own] + np.array((right, up)) * far * points
            x0 = at[0] - (0 if right > 0 else wide if right < 0 else wide / 2)
            y0 = at[1] - (high / 2 if not up or right else 0 if up > 0 else high)
            box = Bbox.from_bounds(x0, y0, wide, high)
            if not (box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0 and box.y1 <= frame.y1):
                continue
            if any(box.padded(1.5 * points).overlaps(other) for other in taken.values()):
                continue
            if crowded and (
                any(_meets(box, line) for line in lines)
                or (far > 1 and any(_meets(other, (places[own], at)) for other in taken.values()))
                or (far > 1 and any(_cross(line, (places[own], at)) for line in lines))
            ):
                continue
            # nearest to its own dot, unless a line leads there
            least = 4 * points if far > 1 else max(4 * points, 1.1 * _nearest(box, places[own : own + 1]))
            if _nearest(box, others) > least:
                break
        else:
            if crowded:
                continue
            far, right, up = 1, 8, 0  # nowhere: better over something than not at all
        if crowded and far > 1:
            end = (right * far, up * far)
            lines.append((places[own], at))
            axis.annotate("", (x, y), xytext=end, textcoords="offset points", arrowprops=LEADER, zorder=2)
        text = axis.annotate(
            name,
            (x, y),
            xytext=(right * far, up * far),
            textcoords="offset points",
            ha="left" if right > 0 else "right" if right < 0 else "center",
            va="center" if not up or right else "bottom" if up > 0 else "top",
            fontsize=size,
            color=INK,
            parse_math=False,  # a $ in a name is a dollar
            zorder=4,
            arrowprops=LEADER if far > 1 and not crowded else None,
            path_effects=[withStroke(linewidth=2, foreground="white")] if crowded else None,
        )
        taken[name] = _text_box(text, renderer)
    return taken


def _size(axis: Axes, name: str, size: float) -> tuple[float, float]:
    """How wide and how high a name is, in pixels."""
    text = axis.text(0, 0, name, fontsize=size, parse_math=False)
    box = text.get_window_extent(axis.figure.canvas.get_renderer())  # type: ignore[attr-defined]
    text.remove()
    return float(box.width), float(box.height)


def _nearest(box: Bbox, places: NDArray[np.float64]) -> float:
    """From the nearest of some dots (N, 2) to the edge of a box; 0 inside of it."""
    if not len(places):
        return math.inf
    across = np.maximum(np.maximum(box.x0 - places[:, 0], places[:, 0] - box.x1), 0)
    up = np.maximum(np.maximum(box.y0 - places[:, 1], places[:, 1] - box.y1), 0)
    return float(np.hypot(across, up).min())


def _meets(box: Bbox, line: Line) -> bool:
    """Whether a line runs into a box."""
    begin, end = line
    on = begin + np.linspace(0, 1, 24)[:, None] * (end - begin)
    return bool(((on > (box.x0, box.y0)) & (on < (box.x1, box.y1))).all(axis=1).any())


def _cross(first: Line, second: Line) -> bool:
    """Whether each has its ends on two sides of the other."""

    def side(line: Line, point: NDArray[np.float64]) -> float:
        (ax, ay), (bx, by) = line
        return float((bx - ax) * (point[1] - ay) - (by - ay) * (point[0] - ax))

    return side(first, second[0]) * side(first, second[1]) < 0 and side(second, first[0]) * side(second, first[1]) < 0


def _text_box(annotation: Any, renderer: Any) -> Bbox:
    """Of the words alone, without the line that leads to them."""
    from matplotlib.text import Text

    annotation.update_positions(renderer)
    return Text.get_window_extent(annotation, renderer)
