"""A map of words as a picture: dots in the colors of their clusters, names where there is room, the map's own note."""

from __future__ import annotations

import io
import warnings

from anaphora.explain.draw.dot_labels import INK, label_dots
from anaphora.explain.vector_map import VectorMap

COLORS = (
    *("#1f5f99", "#c8641b", "#2e8b57", "#8b3a8b", "#b22222", "#6b6b00", "#d3669b", "#4a4a4a"),
    *("#17a2b8", "#8c564b", "#9acd32", "#7b68ee"),
)
"""Told apart by most eyes, and each dark enough for a dot on white; of more clusters, two share one."""
NAMED = 300
"""Names that are tried, the most frequent words first."""
FAR_LABEL_WORDS = 120
"""Words among which a name may stand further away."""
SIZE_INCHES, DOTS_PER_INCH = (9.0, 7.0), 150


def draw_map(found: VectorMap, *, format: str = "png", title: str = "") -> bytes:
    """The picture, as PNG or SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    try:
        colors = [COLORS[cluster % len(COLORS)] for cluster in found.clusters.tolist()]
        many = len(found.words) > 1000
        axis.scatter(found.places[:, 0], found.places[:, 1], s=4 if many else 14, color=colors, linewidths=0, zorder=3)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.margins(0.08)
        for side in axis.spines.values():
            side.set_visible(False)
        if title:
            axis.set_title(title, color=INK, fontsize=11, parse_math=False)
        axis.set_xlabel(found.note(), color=INK, fontsize=9)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # a script without a font is drawn as boxes
            figure.canvas.draw()  # only now is it known where everything stands
            dots = [(float(x), float(y), word) for (x, y), word in zip(found.places, found.words)]
            others = [] if many else [(x, y) for x, y, _ in dots[NAMED:]]  # among thousands no name covers none
            far = 4 if len(dots) <= FAR_LABEL_WORDS else 2
            label_dots(axis, dots[:NAMED], farthest=far, crowded=True, size=8, without=others)
            file = io.BytesIO()
            about = {"Software": "Anaphora"} if format == "png" else {"Creator": "Anaphora", "Date": None}
            figure.savefig(file, format=format, metadata=about)
        return file.getvalue()
    finally:
        plt.close(figure)
