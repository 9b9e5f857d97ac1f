"""Quality against cost: what each step up the ladder buys. Drawn with matplotlib; the axis of cost is logarithmic.

What was counted has no operations to be placed by: it stands in a strip of its own, left of the rest.
"""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anaphora.comparing.task import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

INK, PALE, COUNTED, LEARNED = "#222222", "#999999", "#b3591f", "#1f5f99"
SIZE, DOTS = (8.0, 5.0), 150
AROUND = ((8, 0), (-8, 0), (0, 9), (0, -9), (8, 8), (8, -8), (-8, 8), (-8, -8))
"""Where a label may stand, in points from its dot, the best first; further out where all are taken."""
LEADER = {"arrowstyle": "-", "color": PALE, "lw": 0.6, "shrinkA": 0, "shrinkB": 4}


def draw(rows: Sequence[Mapping[str, Any]], quality: Column, *, lower_is_better: bool) -> bytes | None:
    """The picture as PNG; nothing where there is nothing to be seen yet."""
    done = [row for row in rows if row["state"] == "finished" and math.isfinite(row.get(quality.key) or math.nan)]
    done, far = _near(done, quality.key) if lower_is_better else (done, [])
    counted = [row for row in done if not row.get("flops")]
    learned = [row for row in done if row.get("flops")]
    if not done:
        return None
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    parts = [part for part in (counted, learned) if part]
    shares = [1.3, 5.0] if len(parts) == 2 else [1.0]
    figure, axes = plt.subplots(
        1, len(parts), figsize=SIZE, dpi=DOTS, sharey=True, squeeze=False, width_ratios=shares, layout="constrained"
    )
    try:
        for axis, part in zip(axes[0], parts):
            is_counted = part is counted
            across = [0.0] * len(part) if is_counted else [row["flops"] for row in part]
            colour, up = COUNTED if is_counted else LEARNED, [row[quality.key] for row in part]
            axis.scatter(across, up, s=36, color=colour, zorder=3)
            axis.grid(color="#e6e6e6", zorder=0)
            axis.tick_params(color=PALE, labelcolor=INK)
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
            for side in ("left", "bottom"):
                axis.spines[side].set_color(PALE)
            if is_counted:
                axis.set_xlim(-0.3, 1.4)
                axis.set_xticks([])
                axis.set_xlabel("counted", color=INK)
            else:
                axis.set_xscale("log")
                axis.margins(x=0.16)
                axis.set_xlabel("floating-point operations of training", color=INK)
                low, high = min(across), max(across)
                if high / low < 4:  # so near each other that there would be no mark to read the axis by
                    axis.set_xlim(low / 2, high * 2)
                decades = math.log10(high / low)
                marks = (1, 2, 3, 4, 5, 7) if decades < 0.7 else (1, 2, 5) if decades < 2 else (1,)
                axis.xaxis.set_major_locator(LogLocator(subs=marks))
                axis.xaxis.set_minor_locator(NullLocator())
                axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}".replace("e+", "e")))
        better = "lower" if lower_is_better else "higher"
        axes[0][0].set_ylabel(f"{quality.head} ({better} is better)", color=INK)
        axes[0][0].yaxis.set_major_locator(MaxNLocator(8))
        axes[0][0].margins(y=0.12)
        if far:
            said = ", ".join(f"{row['name']} ({quality.form(row[quality.key])})" for row in far)
            figure.suptitle(f"far above: {said}", x=0.99, ha="right", fontsize=9, color=INK)
        figure.canvas.draw()  # only now is it known where everything stands
        for axis, part in zip(axes[0], parts):
            dots = [(0.0 if part is counted else row["flops"], row[quality.key], row["name"]) for row in part]
            label_dots(axis, dots)
        file = io.BytesIO()
        figure.savefig(file, format="png", metadata={"Software": "Anaphora"})
        return file.getvalue()
    finally:
        plt.close(figure)


def _near(rows: list[Mapping[str, Any]], key: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Rows to draw, and those so far above the others that nothing else could be told apart: they have diverged."""
    if not rows:
        return rows, []
    limit = 4 * statistics.median_low(row[key] for row in rows)
    return [row for row in rows if row[key] <= limit], [row for row in rows if row[key] > limit]


def label_dots(axis: Axes, dots: Sequence[tuple[float, float, str]]) -> dict[str, Bbox]:
    """Write each name beside its dot, where it covers neither a dot nor another name; a line leads there from afar."""
    figure = axis.figure
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    frame = axis.get_window_extent(renderer)
    points = figure.dpi / 72
    shown = [axis.transData.transform((x, y)) for x, y, _ in dots]
    places = [(float(right), float(up)) for right, up in shown]
    taken: dict[str, Bbox] = {}
    for (x, y, name), own in sorted(zip(dots, places), key=lambda one: -one[0][1]):
        best = None
        for far in range(1, 9):
            for right, up in AROUND:
                text = axis.annotate(
                    name,
                    (x, y),
                    xytext=(right * far, up * far),
                    textcoords="offset points",
                    ha="left" if right > 0 else "right" if right < 0 else "center",
                    va="center" if not up or right else "bottom" if up > 0 else "top",
                    fontsize=9,
                    color=INK,
                    zorder=4,
                    arrowprops=LEADER if far > 1 else None,
                )
                box = text.get_window_extent(renderer) if far == 1 else _text_box(text, renderer)
                clear = not any(box.padded(1.5 * points).overlaps(other) for other in taken.values())
                others = [_distance(box, place) for place in places if place != own]
                # nearest to its own dot, unless a line leads there
                least = 4 * points if far > 1 else max(4 * points, 1.1 * _distance(box, own))
                clear = clear and min(others, default=math.inf) > least
                inside = box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0 and box.y1 <= frame.y1
                if clear and inside:
                    best = box
                    break
                text.remove()
            if best is not None:
                break
        if best is None:  # nowhere: better over something than not at all
            text = axis.annotate(name, (x, y), xytext=(8, 0), textcoords="offset points", va="center", fontsize=9)
            best = text.get_window_extent(renderer)
        taken[name] = best
    return taken


def _distance(box: Bbox, place: tuple[float, float]) -> float:
    """From a dot to the nearest edge of a box; 0 inside of it."""
    across = max(box.x0 - place[0], 0.0, place[0] - box.x1)
    up = max(box.y0 - place[1], 0.0, place[1] - box.y1)
    return math.hypot(across, up)


def _text_box(annotation: Any, renderer: Any) -> Bbox:
    """Of the words alone, without the line that leads to them."""
    from matplotlib.text import Text

    annotation.update_positions(renderer)
    return Text.get_window_extent(annotation, renderer)
