"""The lectures' pages: what a page shows must be what the command prints, and every number of a lecture is computed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "lectures"
BLOCK = re.compile(r"^```\n\$ anaphora (walk[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = "…"

PageShows = Callable[..., None]


@pytest.fixture
def page_shows(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> PageShows:
    """`page_shows("1-as-and-bs.md")`: every block of the page that begins with `$ anaphora walk …` is what that prints
    in 80 columns. A line … stands for lines left out. `tolerance` is for numbers that were learned."""
    from anaphora.cli.main import main

    def compare(page: str, *, tolerance: float = 0.0) -> None:
        blocks = BLOCK.findall((PAGES / page).read_text(encoding="utf-8"))
        assert blocks, f"{page} shows no command"
        printed: dict[str, str] = {}
        for command, text in blocks:
            if command not in printed:
                monkeypatch.setenv("COLUMNS", "80")
                monkeypatch.setattr(sys, "argv", ["anaphora", *command.split()])
                capfd.readouterr()
                with pytest.raises(SystemExit) as ended:
                    main()
                printed[command], error = capfd.readouterr()
                assert ended.value.code == 0, error
            find(text, printed[command], tolerance)

    return compare


def find(shown: str, printed: str, tolerance: float) -> None:
    """Each part of what is shown stands in what was printed, in this order."""
    lines = printed.rstrip().splitlines()
    place = 0
    for part in re.split(rf"^{LEFT_OUT}\n", shown, flags=re.MULTILINE):
        wanted = part.rstrip("\n").splitlines()
        starts = [
            start
            for start in range(place, len(lines) - len(wanted) + 1)
            if all(same(a, b, tolerance) for a, b in zip(wanted, lines[start:]))
        ]
        assert starts, f"the command does not print this (any more):\n{part}\nit prints:\n{printed}"
        place = starts[0] + len(wanted)
    if LEFT_OUT not in shown.splitlines():
        assert place == len(lines), f"the page leaves out, without saying so:\n{chr(10).join(lines[place:])}"


def same(a: str, b: str, tolerance: float) -> bool:
    """One line; with a tolerance, numbers may be that far apart and columns may shift."""
    if not tolerance:
        return a.rstrip() == b.rstrip()
    return len(a.split()) == len(b.split()) and all(
        x == y or near(x, y, tolerance) for x, y in zip(a.split(), b.split())
    )


def near(a: str, b: str, tolerance: float) -> bool:
    try:
        return abs(float(a) - float(b)) <= tolerance * max(1.0, abs(float(a)))
    except ValueError:
        return False
