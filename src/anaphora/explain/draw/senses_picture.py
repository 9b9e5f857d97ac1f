"""The senses of words as a picture: a panel for each sense, the words that it raises as bars, those it lowers below.

All panels of a word share one scale, so that a sense that says little looks little. Blue is for a word, brown against
it, as in every picture of signed numbers here.
"""

from __future__ import annotations

import io
import math
import warnings

from anaphora.errors import UserError
from anaphora.explain.draw.colors import hexadecimal, signed
from anaphora.explain.draw.layout import shown
from anaphora.explain.sense_lookup import MovedToken, Sense, SensesText

INK, PALE = "#222222", "#777777"
PANEL_COLUMNS = 4
MAX_PANEL_WORDS = 12
"""Words of each direction that a panel has room for."""
PANELS = 96
"""Of all words together: more would be a sheet that nobody reads."""
PANEL_INCHES, ROW_INCHES, DOTS_PER_INCH = 2.7, 0.19, 150
"""Inches of a panel, and of a row in it."""


def draw_senses(found: SensesText, *, format: str = "png") -> bytes:
    """The picture, as PNG or SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tokens = [piece for word in found.words for piece in word.pieces]
    # a piece alone would not say which word was asked for
    words = ["" if word.whole else f"  (of {shown(word.word)})" for word in found.words for _ in word.pieces]
    panels = sum(len(token.senses) for token in tokens)
    if panels > PANELS:
        raise UserError(f"a picture of {panels} senses is more than can be read ({PANELS})", cure="ask for fewer words")
    columns = min(PANEL_COLUMNS, max(len(token.senses) for token in tokens))
    bars = max(_listed(sense) for token in tokens for sense in token.senses)
    lines = [math.ceil(len(token.senses) / columns) for token in tokens]
    height = bars * ROW_INCHES + 0.75
    figure = plt.figure(
        figsize=(columns * PANEL_INCHES + 0.3, sum(lines) * height + 0.4 * len(tokens)),
        dpi=DOTS_PER_INCH,
        layout="constrained",
    )
    try:
        parts = figure.subfigures(len(tokens), 1, height_ratios=[n * height + 0.4 for n in lines], squeeze=False)
        for part, token, word, rows in zip(parts[:, 0], tokens, words, lines):
            heading = shown(token.name) + word + (f"  {shown(found.patched)}" if found.patches else "")
            part.suptitle(heading, color=INK, fontsize=13, fontweight="bold", parse_math=False)
            axes = part.subplots(rows, columns, squeeze=False).flatten()
            largest = max((abs(value) for sense in token.senses for _, value in _values(sense)), default=1.0) or 1.0
            for axis, sense in zip(axes, token.senses):
                _panel(axis, sense, largest, bars)
            for axis in axes[len(token.senses) :]:
                axis.set_visible(False)
        file = io.BytesIO()
        about = {"Software": "Anaphora"} if format == "png" else {"Creator": "Anaphora", "Date": None}
        with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "anaphora"}):
            warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # a script without a font is drawn as boxes
            figure.savefig(file, format=format, metadata=about)
        return file.getvalue()
    finally:
        plt.close(figure)


def _values(sense: Sense) -> list[MovedToken]:
    """What a panel shows, from top to bottom."""
    return [*sense.raises[:MAX_PANEL_WORDS], *reversed(sense.lowers[: max(1, MAX_PANEL_WORDS // 4)])]


def _listed(sense: Sense) -> int:
    return len(_values(sense))


def _panel(axis: object, sense: Sense, largest: float, bars: int) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    values = _values(sense)
    if not values:  # a patch removed it
        axis.text(0, 0, "says nothing", ha="center", va="center", fontsize=8.5, color=PALE, backgroundcolor="white")
    for place, (token, value) in enumerate(values):
        axis.barh(-place, value, height=0.78, color=hexadecimal(signed(value / largest)))
        side = 1 if value >= 0 else -1
        # the name stands on the other side of the line, where no bar is
        axis.text(-side * 0.03 * largest, -place, shown(token), ha="right" if side > 0 else "left",
                  va="center", fontsize=8.5, color=INK, parse_math=False)  # fmt: skip
    axis.axvline(0, color=PALE, linewidth=0.7)
    axis.set_xlim(-1.1 * largest, 1.1 * largest)
    axis.set_ylim(-bars + 0.4, 0.6)
    axis.set_yticks([])
    axis.tick_params(axis="x", labelsize=7.5, colors=PALE, length=2)
    for side_name in ("top", "left", "right", "bottom"):
        axis.spines[side_name].set_visible(False)
    title = f"sense {sense.number}"
    if sense.share is not None:
        title += f" · {100 * sense.share:.0f} % of α"
    axis.set_title(title, fontsize=9.5, color=INK, loc="center")
