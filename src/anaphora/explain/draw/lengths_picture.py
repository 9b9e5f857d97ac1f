"""BLEU against the length of the source, one line a model, and how many lines of text there are of each length."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from anaphora.evaluation.by_length import LengthBin

INK, PALE, BARS = "#222222", "#999999", "#e4e4e4"
COLORS = ("#1f5f99", "#b3591f", "#3a7d44", "#7b4b94", "#a8323e", "#5c5c5c", "#c08a00", "#2a9d8f")
MARKS = "osD^vPX*"
SIZE_INCHES, DOTS_PER_INCH = (7.2, 4.4), 150


def lengths_picture(models: Mapping[str, Sequence[LengthBin]], *, form: str = "png") -> bytes:
    """The picture as PNG or SVG. All models must have been measured on the same text, in the same bins."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    bins = next(iter(models.values()))
    figure, axis = plt.subplots(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    try:
        across = range(len(bins))
        count = axis.twinx()
        count.bar(across, [one.lines for one in bins], width=0.8, color=BARS, zorder=0)
        count.set_ylim(0, 3 * max(one.lines for one in bins))  # the bars keep to the lower third
        count.set_yticks([])
        axis.set_zorder(count.get_zorder() + 1)
        axis.patch.set_visible(False)
        for number, (name, those) in enumerate(models.items()):
            color, mark = COLORS[number % len(COLORS)], MARKS[number % len(MARKS)]
            axis.plot(across, [one.bleu for one in those], color=color, marker=mark, markersize=6, label=name)
        axis.set_xticks(
            list(across), [f"{one.name}\n{one.lines:,} {'line' if one.lines == 1 else 'lines'}" for one in bins]
        )
        axis.set_xlabel("words of the source; bars: how many lines", color=INK)
        axis.set_ylabel("BLEU", color=INK)
        axis.set_ylim(0, 1.12 * max(max(one.bleu for one in those) for those in models.values()) or 1)
        axis.tick_params(color=PALE, labelcolor=INK)
        axis.grid(axis="y", color="#d8d8d8", linewidth=0.6)
        axis.set_axisbelow(True)
        for one in (axis, count):
            for side in ("top", "left", "right", "bottom"):
                one.spines[side].set_visible(side == "bottom")
                one.spines[side].set_color(PALE)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.09), ncols=4, frameon=False, fontsize=9)
        file = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": "anaphora"}):
            figure.savefig(file, format=form, metadata={"Software": "Anaphora"} if form == "png" else {"Date": None})
        return file.getvalue()
    finally:
        plt.close(figure)
