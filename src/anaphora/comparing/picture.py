"""Quality against cost: what each step up the ladder buys. Drawn with matplotlib; the axis of cost is logarithmic.

What was counted has no operations to be placed by: it stands in a strip of its own, left of the rest. Rows that are
made of others have rings, not dots.
"""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.comparing.task import Column
from anaphora.explain.draw.dot_labels import INK, PALE, label_dots

COUNTED, LEARNED = "#b3591f", "#1f5f99"
SIZE_INCHES, DOTS_PER_INCH = (8.0, 5.0), 150


def draw(rows: Sequence[Mapping[str, Any]], quality: Column, *, lower_is_better: bool) -> bytes | None:
    """The picture as PNG; nothing where there is nothing to be seen yet."""
    done = [row for row in rows if row["state"] == "finished" and math.isfinite(_value(row, quality.key))]
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
        1,
        len(parts),
        figsize=SIZE_INCHES,
        dpi=DOTS_PER_INCH,
        sharey=True,
        squeeze=False,
        width_ratios=shares,
        layout="constrained",
    )
    try:
        for axis, part in zip(axes[0], parts):
            is_counted = part is counted
            across = [0.0] * len(part) if is_counted else [row["flops"] for row in part]
            color, up = COUNTED if is_counted else LEARNED, [row[quality.key] for row in part]
            faces = ["white" if row.get("made_of") else color for row in part]
            axis.scatter(across, up, s=36, facecolors=faces, edgecolors=color, linewidths=1.6, zorder=3)
            if any(row.get("made_of") for row in part) and not is_counted:
                ring = {"marker": "o", "ls": "", "color": color, "mfc": "white", "mew": 1.6, "ms": 6}
                handle = axis.plot([], [], label="made of other rows, with their cost", **ring)
                above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "frameon": False}
                axis.legend(handles=handle, fontsize=9, labelcolor=INK, **above)
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


def _value(row: Mapping[str, Any], key: str) -> float:
    return math.nan if row.get(key) is None else float(row[key])


def _near(rows: list[Mapping[str, Any]], key: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Rows to draw, and those so far above the others that nothing else could be told apart: they have diverged."""
    if not rows:
        return rows, []
    limit = 4 * statistics.median_low(row[key] for row in rows)
    return [row for row in rows if row[key] <= limit], [row for row in rows if row[key] > limit]
