"""Pictures: any text drawn, nothing of it markup, what a font lacks named, 80 columns kept."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from anaphora.alignment.links import links_of
from anaphora.alignment.model_alignment import Alignment, Method
from anaphora.explain.draw import fonts
from anaphora.explain.draw.colors import LINK, color, luminance, on, shade
from anaphora.explain.draw.png import png
from anaphora.explain.draw.svg import svg
from anaphora.explain.draw.terminal import heat_map
from anaphora.tokenizers.words import split_words

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(\"x\")</script> & 'y' ]]> &amp; \x00\x0b\ufffe</svg>"
SCRIPTS = {
    "latin": ("The bank was flooded.", "Das Ufer wurde überflutet."),
    "chinese": ("The old man reads.", "老人在图书馆看书。"),
    "arabic": ("The teacher reads a book.", "يقرأ المعلم كتابا."),
    "hebrew": ("peace", "שָׁלוֹם"),
    "emoji": ("I love 👩‍👩‍👧 👍🏽 🇩🇪 ❤️!", "Ich liebe 👩‍👩‍👧 👍🏽 🇩🇪 ❤️!"),
    "hostile": (HOSTILE, HOSTILE),
    "forty words": (" ".join(f"word{i}" for i in range(40)), " ".join(f"Donaudampfschiff{i}" for i in range(40))),
    "nothing": ("", ""),
    "one side": ("word", ""),
}


def drawn(source: str, target: str, seed: int = 0) -> Alignment:
    words = split_words(source), split_words(target)
    weights = np.random.default_rng(seed).random((len(words[1]), len(words[0]))) ** 4
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
    method = Method(layer=2, head=0, rule="intersection")
    end_mark = np.zeros(len(words[1]))
    return Alignment(source, target, *words, weights.astype(np.float32), end_mark, links_of(weights, "union"), method)


# Colors --------------------------------------------------------------------------------------------------------------


def test_more_is_always_darker_and_text_on_it_can_be_read() -> None:
    lightness = [luminance(shade(step)) for step in range(101)]
    assert all(a > b for a, b in pairwise(lightness))
    for step in range(101):
        light, dark = sorted((luminance(color(step / 100)), luminance(on(step / 100))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG's norm for small text
    assert LINK[0] > LINK[2]  # vermilion, against blue


# SVG ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
def test_svg_is_well_formed_and_says_what_a_row_means(name: str) -> None:
    alignment = drawn(*SCRIPTS[name])
    text = svg(alignment)
    root = ElementTree.fromstring(text)
    said = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert any("row = the step that predicts the target word" in line for line in said)
    assert not list(root.iter(f"{SVG}script"))
    assert "<script" not in text
    rings = [e for e in root.iter(f"{SVG}rect") if e.get("fill") == "none"]
    assert len(rings) == len(alignment.links) + 1  # and one in the legend


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_escaped(source: str, target: str) -> None:
    source, target = (text.encode("utf-8", "replace").decode() for text in (source, target))
    root = ElementTree.fromstring(svg(drawn(source, target)))
    allowed = {f"{SVG}{name}" for name in ("svg", "title", "rect", "text", "g")}
    assert {element.tag for element in root.iter()} <= allowed
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)


def test_words_stand_in_their_rows_and_columns() -> None:
    alignment = drawn(*SCRIPTS["latin"])
    root = ElementTree.fromstring(svg(alignment))
    rows = [e for e in root.iter(f"{SVG}text") if e.get("text-anchor") == "end"]
    assert [e.text for e in rows] == [word.text for word in alignment.target]
    heights = [float(e.get("y", "0")) for e in rows]
    assert heights == sorted(heights)
    columns = [e for e in root.iter(f"{SVG}text") if e.get("transform")]
    assert [e.text for e in columns] == [word.text for word in alignment.source]


def test_the_legends_ring_stands_beside_its_words() -> None:
    import matplotlib
    from PIL import ImageFont

    root = ElementTree.fromstring(svg(drawn(*SCRIPTS["latin"])))
    (words,) = [one for one in root.iter(f"{SVG}text") if one.text == "0 to 100 %"]
    ring = [one for one in root.iter(f"{SVG}rect") if one.get("y") and one.get("width") == one.get("height") == "12"][
        -1
    ]
    file = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
    wide = ImageFont.truetype(str(file), 110).getlength("0 to 100 %") / 10
    assert float(words.get("x", 0)) + wide + 6 <= float(ring.get("x", 0))


# PNG ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
def test_png_opens(name: str) -> None:
    from PIL import Image

    content, _ = png(drawn(*SCRIPTS[name]))
    picture = Image.open(io.BytesIO(content))
    assert picture.format == "PNG"
    assert min(picture.size) > 100


def test_cells_have_the_colours_of_their_weights() -> None:
    from PIL import Image

    from anaphora.explain.draw.layout import lay_out
    from anaphora.explain.draw.png import SCALE, Pen

    alignment = drawn(*SCRIPTS["forty words"])
    alignment.links = []
    layout = lay_out(alignment, Pen().width)
    content, _ = png(alignment)
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    for t, s in ((0, 0), (5, 30), (39, 39), (20, 3)):
        x, y = layout.left + (s + 0.5) * layout.cell, layout.top + (t + 0.5) * layout.cell
        weight = float(alignment.weights[t, s])
        expected = color(weight) if weight >= 0.01 else color(0)
        assert picture.getpixel((round(x * SCALE), round(y * SCALE))) == expected


def test_what_no_font_has_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    only = tuple(path for path in fonts._files(Path(fonts._matplotlib_fonts())) if path.stem == "DejaVuSans")
    assert only, "matplotlib brings DejaVu"
    fonts.font_for.cache_clear()
    monkeypatch.setattr(fonts, "installed", lambda: only)
    try:
        _, notes = png(drawn("The old man reads 👍🏽", "老人在看书"))
        assert any("fonts-noto-cjk" in note and "老" in note for note in notes)
        assert any("fonts-noto-color-emoji" in note for note in notes)
        assert all(".svg" in note for note in notes)
        _, none = png(drawn(*SCRIPTS["latin"]))
        assert none == []
    finally:
        fonts.font_for.cache_clear()


@pytest.mark.parametrize(
    ("character", "package"),
    [("漢", "fonts-noto-cjk"), ("か", "fonts-noto-cjk"), ("한", "fonts-noto-cjk"), ("ع", "fonts-noto-core")],
)
def test_packages(character: str, package: str) -> None:
    assert fonts.package_for(character) == package


# Terminal -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("name", SCRIPTS)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    plain = heat_map(drawn(*SCRIPTS[name]), width=width, colors=False).plain
    for line in plain.splitlines():
        assert cell_len(line) <= width + 2 * line.count("\u200d") + sum(line.count(c) for c in "🏽🇩🇪\ufe0f")


@settings(max_examples=15)
@given(st.text(max_size=25), st.text(max_size=25), st.integers(12, 100))
def test_any_text_in_any_width(source: str, target: str, width: int) -> None:
    source, target = (text.encode("utf-8", "replace").decode() for text in (source, target))
    alignment = drawn(source, target)
    picture = heat_map(alignment, width=width, colors=True)
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="truecolor").print(picture)
    assert "\x00" not in picture.plain
    if alignment.source and alignment.target:
        assert picture.plain.count("●") >= len(alignment.links)


def test_each_row_shows_its_links_under_their_words() -> None:
    alignment = drawn(*SCRIPTS["latin"])
    lines = heat_map(alignment, width=80, colors=False).plain.splitlines()
    head, body = lines[3 : 3 + len(alignment.source)], lines[3 + len(alignment.source) :]
    places = [line.index(word.text) for line, word in zip(head, alignment.source)]
    for t, line in enumerate(body):
        marks = [place for place, character in enumerate(line) if character == "●"]
        assert marks == [places[s] for s, row in sorted(alignment.links) if row == t]


def test_right_to_left_words_are_isolated_so_that_the_cells_stay() -> None:
    plain = heat_map(drawn(*SCRIPTS["arabic"]), width=80).plain
    assert "\u2068المعلم\u2069" in plain
    assert all(line.startswith("\u200e") for line in plain.splitlines()[3:])
    assert "\u2068" not in heat_map(drawn(*SCRIPTS["latin"]), width=80).plain


def test_a_font_of_boxes_is_no_font() -> None:
    from anaphora.explain.draw import fonts

    assert not [path for path in fonts.installed() if "lastresort" in path.name.lower()]
