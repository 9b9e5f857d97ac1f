"""The slide's table from a text that has such counts, and the same question to a real text."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import anaphora
from anaphora.lectures.ice_and_steam import COUNTS, PROBES, TOTAL, ice_and_steam

DATA = Path(os.environ.get("ANAPHORA_DATA") or Path(__file__).parents[3] / "shared" / "data")
WIKI = DATA / "wiki-en" / "wiki-en.txt.xz"
PAGE = Path(__file__).parents[2] / "docs" / "lectures" / "12-ice-and-steam.md"


def counted(folder: Path, text: Path) -> anaphora.VectorsModel:
    """A GloVe run that is about its counts."""
    settings = {"model.dim": 2, "training.epochs": 1, "training.threads": 1}
    anaphora.train(folder, text=text, recipe="glove", settings=settings)
    model = anaphora.load(folder)
    assert isinstance(model, anaphora.VectorsModel)
    return model


def test_the_page_shows_what_is_printed(page_shows) -> None:  # type: ignore[no-untyped-def]
    page_shows("12-ice-and-steam.md")


def test_the_twelve_numbers_are_those_of_the_slide() -> None:
    (walk,) = ice_and_steam()
    assert walk.holds
    p = walk.step("P").values / 1e5
    assert [f"{value:.1e}" for value in p[0]] == ["1.9e-04", "6.6e-05", "3.0e-03", "1.7e-05"]
    assert [f"{value:.1e}" for value in p[1]] == ["2.2e-05", "7.8e-04", "2.2e-03", "1.8e-05"]
    solid, gas, water, fashion = walk.step("P/P").values[0]
    assert (f"{solid:.1f}", f"{gas:.3f}", f"{water:.2f}", f"{fashion:.2f}") == ("8.9", "0.085", "1.36", "0.96")


def test_a_run_on_such_a_text_says_the_same(tmp_path: Path) -> None:
    """A hundredth of the text's other words, so that it is short: ratios do not change when both totals do."""
    with (tmp_path / "text.txt").open("w") as file:
        for word, counts in COUNTS.items():
            for probe, count in zip(PROBES, counts, strict=True):
                file.write(f"{word} {probe}\n" * count)
            file.write(f"{word} other\n" * (TOTAL // 100 - sum(counts)))
    found = counted(tmp_path / "run", tmp_path / "text.txt").ratios("ice", "steam", PROBES)
    assert [row.ratio for row in found.rows] == pytest.approx([294 / 33, 101 / 1186, 4560 / 3344, 26 / 27])


@pytest.mark.slow
@pytest.mark.skipif(not WIKI.exists(), reason=f"wiki-en is not in {DATA} (set ANAPHORA_DATA)")
def test_what_wikipedia_says_of_ice_and_steam(tmp_path: Path) -> None:
    import lzma

    with lzma.open(WIKI, "rt", encoding="utf-8", newline="\n") as file:
        text = re.sub("[^a-z\n]+", " ", file.read().lower())
    (tmp_path / "wiki.txt").write_text(text)
    model = counted(tmp_path / "run", tmp_path / "wiki.txt")
    page = PAGE.read_text(encoding="utf-8")
    for asked, top in (((*PROBES,), 5), ((), 4)):
        assert "\n".join(model.ratios("ice", "steam", asked, top=top).lines(80)) in page
