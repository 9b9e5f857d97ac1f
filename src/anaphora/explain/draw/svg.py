"""An alignment as SVG, written by hand: small, sharp at any size, and its text is text.

The viewer's own fonts draw the words, so every script, right-to-left text and emoji come out as they do elsewhere on
that screen; nothing has to be installed here. Words are data and never markup: all of them are escaped, and characters
that XML does not allow become U+FFFD.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from anaphora.alignment.model_alignment import Alignment
from anaphora.explain.draw.colors import LINK, color, hexadecimal, on
from anaphora.explain.draw.layout import RING, SLANT, Layout, lay_out, shown

FONTS = "'Noto Sans', 'DejaVu Sans', 'Segoe UI', Arial, sans-serif"
"""For letters; what these lack the viewer takes from wherever it has it. Naming an emoji font would give it the
digits."""
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
INK, PALE = "#222", "#666"


def svg(*alignments: Alignment, names: Sequence[str] = ()) -> str:
    """The whole document: one alignment, or several side by side, each under its name."""
    layouts = [lay_out(one, estimated_width, name) for one, name in zip(alignments, names or [""], strict=True)]
    lines, left = _head(alignments[0], sum(one.width for one in layouts), max(one.height for one in layouts)), 0.0
    for alignment, layout in zip(alignments, layouts):
        parts = [*_heading(layout), *_grid(alignment, layout), *_legend(alignment, layout)]
        lines += [f'<g transform="translate({left:.1f} 0)">', *parts, "</g>"] if left else parts
        left += layout.width
    return "\n".join([*lines, "</svg>", ""])


def estimated_width(text: str, font: float) -> float:
    """Wide characters take an em, others about half of one; a little too much rather than too little."""
    total = 0.0
    for character in text:
        if unicodedata.combining(character) or unicodedata.category(character) == "Cf":
            continue
        wide = unicodedata.east_asian_width(character) in "WF"
        total += 1.05 if wide else 0.72 if character.isupper() or character in "mwMW—…" else 0.56
    return total * font


def markup(text: str) -> str:
    """Words as XML takes them: escaped, and without the characters that it forbids."""
    return escape(FORBIDDEN.sub("\ufffd", text))


def _head(alignment: Alignment, width: float, height: float) -> list[str]:
    title = f"Word alignment: {alignment.source_text} / {alignment.target_text}"
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family={quoteattr(FONTS)} fill="{INK}">',
        f"<title>{markup(title)}</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]


def _heading(layout: Layout) -> list[str]:
    lines = []
    for number, line in enumerate(layout.heading):
        weight = ' font-weight="600"' if number == 0 else f' fill="{PALE}"'
        lines.append(f'<text x="12" y="{24 + 18 * number}" font-size="12.5"{weight}>{markup(line)}</text>')
    return lines


def _grid(alignment: Alignment, layout: Layout) -> list[str]:
    cell, left, top = layout.cell, layout.left, layout.top
    lines = [f'<g font-size="{layout.font:g}">']
    for s, word in enumerate(alignment.source):
        x, y = left + (s + 0.62) * cell, top - 8
        lines.append(
            f'<text transform="translate({x:.1f} {y:.1f}) rotate(-{SLANT:g})">{_hint(word.text)}'
            f"{markup(shown(word.text))}</text>"
        )
    for t, word in enumerate(alignment.target):
        y = top + (t + 0.5) * cell
        lines.append(
            f'<text x="{left - 8:.1f}" y="{y:.1f}" dy="0.35em" text-anchor="end">{_hint(word.text)}'
            f"{markup(shown(word.text))}</text>"
        )
    lines.append("</g>")
    wide, high = len(alignment.source) * cell, len(alignment.target) * cell
    lines.append(
        f'<rect x="{left:g}" y="{top:.1f}" width="{wide:g}" height="{high:g}" '
        f'fill="{hexadecimal(color(0))}" stroke="#999"/>'
    )
    links = set(alignment.links)
    for t in range(len(alignment.target)):
        for s in range(len(alignment.source)):
            weight, linked = float(alignment.weights[t, s]), (s, t) in links
            if weight >= 0.01 or linked:
                lines.append(_cell(alignment, layout, s, t, weight, linked))
    return lines


def _cell(alignment: Alignment, layout: Layout, s: int, t: int, weight: float, linked: bool) -> str:
    cell = layout.cell
    x, y = layout.left + s * cell, layout.top + t * cell
    said = f"{alignment.target[t].text} ← {alignment.source[s].text}: {weight:.2f}{' (link)' if linked else ''}"
    parts = [
        f'<g><title>{markup(said)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{cell:g}" height="{cell:g}" '
        f'fill="{hexadecimal(color(weight))}"/>'
    ]
    if layout.numbers and weight >= 0.05:
        parts.append(
            f'<text x="{x + cell / 2:.1f}" y="{y + cell / 2:.1f}" dy="0.35em" text-anchor="middle" font-size="11" '
            f'fill="{hexadecimal(on(weight))}">{round(100 * weight)}</text>'
        )
    if linked:
        parts.append(
            f'<rect x="{x + 2:.1f}" y="{y + 2:.1f}" width="{cell - 4:g}" height="{cell - 4:g}" rx="3" fill="none" '
            f'stroke="{hexadecimal(LINK)}" stroke-width="2.5"/>'
        )
    return "".join([*parts, "</g>"])


def _legend(alignment: Alignment, layout: Layout) -> list[str]:
    x, y = layout.left, layout.top + len(alignment.target) * layout.cell + 22
    steps = [
        f'<rect x="{x + 5 * step:.1f}" y="{y:.1f}" width="5.3" height="12" fill="{hexadecimal(color(step / 19))}"/>'
        for step in range(20)
    ]
    words = "0 to 100 %" if layout.numbers else "0 to 1"
    return [
        *steps,
        f'<text x="{x + 108:.1f}" y="{y + 10:.1f}" font-size="11" fill="{PALE}">{words}</text>',
        f'<rect x="{x + RING:.1f}" y="{y:.1f}" width="12" height="12" rx="2" fill="none" '
        f'stroke="{hexadecimal(LINK)}" stroke-width="2.5"/>',
        f'<text x="{x + RING + 18:.1f}" y="{y + 10:.1f}" font-size="11" fill="{PALE}">link</text>',
    ]


def _hint(word: str) -> str:
    """The whole word, where its label is cut."""
    return "" if word == shown(word) else f"<title>{markup(word)}</title>"
