"""The association test by hand."""

from __future__ import annotations

import pytest

from anaphora.lectures.weat import weat


def test_the_page_shows_what_is_printed(page_shows) -> None:  # type: ignore[no-untyped-def]
    page_shows("13-weat.md")


def test_the_arithmetic() -> None:
    (walk,) = weat()
    assert walk.holds
    assert walk.step("s").values[:, 0] == pytest.approx([0.2, 0.68, -0.68, -0.2])
    assert walk.step("S").values[0, 0] == pytest.approx(1.76)
    # s has the squares 0.04, 0.4624, twice, and the mean 0: the deviation is √(1.0048 / 3)
    assert walk.step("d").values[0, 0] == pytest.approx(0.88 / (1.0048 / 3) ** 0.5)
    assert walk.step("p").values[0, 0] == pytest.approx(1 / 6)
