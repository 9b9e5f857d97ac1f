"""The sheet of a walk: well-formed, nothing of a text markup, nothing upon another, masks hatched."""

from __future__ import annotations

import io
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from anaphora.errors import UserError
from anaphora.explain.draw.colors import luminance, on_color, signed
from anaphora.explain.draw.sheet import Mark, lay_out, wrapped
from anaphora.explain.draw.svg import estimated_width
from anaphora.explain.draw.walk_picture import walk_png, walk_svg
from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.explain.walk import walk_attention

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(\"x\")</script> & 'y' ]]> &amp; \x00\x0b\ufffe</svg>"


def walked(labels: list[str], size: int = 4, **choices: Any) -> Walk:
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(len(labels), size, generator=random) for _ in range(3))
    walk = walk_attention(
        query, key, value, rows=labels, title="Walk of " + labels[0], says="A sentence.\nTwo.", **choices
    )
    walk.cells.append(walk.explain(0, 0))
    return walk


TEXTS = {
    "words": ["the", "old", "man", "reads", "a", "book", "."],
    "scripts": ["老人", "يقرأ", "שלום", "👩‍👩‍👧", "Donaudampfschifffahrtsgesellschaftskapitän", "a", ""],
    "hostile": [HOSTILE, "&", "<b>", "\x00", "a\nb", "a\u2028b", "\ud800", "\x1b[31m"],
    "one": ["x"],
    "thirty": [f"word{n}" for n in range(30)],
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_is_well_formed_and_escaped(name: str) -> None:
    walk = walked(TEXTS[name], causal=True)
    document = ElementTree.fromstring(walk_svg([walk]))
    assert {element.tag for element in document.iter()} <= {
        SVG + tag for tag in ("svg", "title", "rect", "text", "defs", "pattern", "path")
    }
    said = [element.text or "" for element in document.iter(f"{SVG}text")] + [
        title.tail or "" for title in document.iter(f"{SVG}title")
    ]
    for label in TEXTS[name]:
        if label.isprintable() and len(label) <= 28:
            assert label in said
    hatched = [rect for rect in document.iter(f"{SVG}rect") if rect.get("fill") == "url(#hidden)"]
    hidden = len(TEXTS[name]) * (len(TEXTS[name]) - 1) // 2
    assert len(hatched) == 2 * hidden + (1 if hidden else 0)  # in the masked scores, in the weights, in the legend


@pytest.mark.parametrize("name", ["words", "scripts", "hostile", "thirty"])
def test_pngs_are_drawn(name: str) -> None:
    from PIL import Image

    content, _ = walk_png([walked(TEXTS[name], causal=True), walked(["a", "b"])])
    with Image.open(io.BytesIO(content)) as picture:
        assert picture.format == "PNG"
        assert picture.width > 800
        gray = np.asarray(picture.convert("L"))
    assert (gray[:, :20] == 255).all()  # the margin is free
    assert (gray[:, -20:] == 255).all()
    assert (gray < 128).any()


def boxes(mark: Mark) -> tuple[float, float, float, float]:
    """What words cover, nearly: left, top, right, bottom."""
    wide = estimated_width(mark.text, mark.size)
    left = {"left": mark.x, "middle": mark.x - wide / 2, "right": mark.x - wide}[mark.anchor]
    return left, mark.y - mark.size * 0.4, left + wide, mark.y + mark.size * 0.4


@pytest.mark.parametrize("name", ["words", "thirty"])
@pytest.mark.parametrize("size", [2, 3, 64])
def test_no_words_stand_upon_others_and_all_within_the_sheet(name: str, size: int) -> None:
    sheet = lay_out([walked(TEXTS[name], size, causal=True), walked(["a", "b"], size)], estimated_width)
    level = [boxes(mark) for mark in sheet.marks if mark.kind == "words" and not mark.leaning and mark.text]
    for left, top, right, bottom in level:
        assert left >= 0
        assert top >= 0
        assert right <= sheet.width
        assert bottom <= sheet.height
    for one, other in combinations(level, 2):
        apart = one[2] <= other[0] + 1 or other[2] <= one[0] + 1 or one[3] <= other[1] + 1 or other[3] <= one[1] + 1
        assert apart, (one, other)


def test_numbers_stand_in_cells_while_there_is_room() -> None:
    few, many = (lay_out([walked(TEXTS[name])], estimated_width) for name in ("words", "thirty"))
    assert any(mark.kind == "words" and mark.anchor == "middle" and mark.text == "1.000" for mark in few.marks) or any(
        mark.text.startswith("0.") for mark in few.marks
    )
    notes = [mark.text for mark in many.marks if mark.text.startswith("from ") and mark.text != "from 0 to 1"]
    assert len(notes) == 3  # QKᵀ, S and A have thirty columns; vectors are cut to eight
    assert any(mark.hint.startswith("word0 ← word1: ") for mark in many.marks)


def test_steps_come_in_reading_order() -> None:
    walk = walked(["a", "b", "c"])
    sheet = lay_out([walk], estimated_width)
    bold = [mark for mark in sheet.marks if mark.bold and mark.size == 14.0]
    named = [step.formula or step.symbol for step in walk.steps]
    assert [mark.text for mark in bold][: len(named)] == named
    rows = [mark.y for mark in bold]
    assert all(b >= a - 40 for a, b in pairwise(rows))


def test_signs_differ_and_numbers_on_them_can_be_read() -> None:
    for share in np.linspace(-1, 1, 41):
        light, dark = sorted((luminance(signed(share)), luminance(on_color(signed(share)))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG's norm for small text
    blue, brown = signed(1.0), signed(-1.0)
    assert blue[2] > blue[0]
    assert brown[0] > brown[2]
    assert luminance(signed(0.5)) < luminance(signed(0.1))


def test_failing_checks_are_on_the_sheet() -> None:
    walk = walked(["a", "b"])
    walk.checks.append(Check("something", 1.0, 0.1))
    assert "FAILS: something" in walk_svg([walk])


def test_paragraphs_are_wrapped_and_long_words_left_whole() -> None:
    lines = wrapped("a few words and Donaudampfschifffahrtsgesellschaft too", 12, 90, estimated_width)
    assert " ".join(lines) == "a few words and Donaudampfschifffahrtsgesellschaft too"
    assert all(estimated_width(line, 12) <= 90 or " " not in line for line in lines)


def test_a_sheet_too_large_to_draw_is_refused() -> None:
    labels = [str(number) for number in range(300)]
    walk = Walk("w", "Large", "", [Step("S", "", "", labels, labels, np.zeros((300, 300)))])
    for draw in (walk_svg, walk_png):
        with pytest.raises(UserError, match=r"a picture of 90,000 cells .*; draw one word's row: query="):
            draw([walk])  # type: ignore[operator]
