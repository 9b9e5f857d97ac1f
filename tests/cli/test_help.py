"""What `--help` prints: every verb, on a terminal of eighty columns."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from anaphora.cli.app import app
from anaphora.tasks.recipes import recipe_names

VERBS = [info.name or getattr(info.callback, "__name__", "") for info in app.registered_commands]
PRIVATE = r"\b(says?|said|tells?|told|asked|so many|unless said|unless given|nothing:|likeliest texts that|way back)\b"
"""Words of this program's own for what the field has plain ones for."""


@pytest.fixture(params=["", *VERBS])
def page(request: pytest.FixtureRequest, say: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The help of one verb, or of all of them together."""
    monkeypatch.setenv("COLUMNS", "80")
    answer = say(*[request.param] * bool(request.param), "--help")
    assert answer.code == 0
    return str(answer.out)


def test_a_page_of_help_reads_well(page: str) -> None:
    """Examples at the end of the text, flags without a value, plain words, paragraphs that fill the line."""
    assert max(map(len, page.splitlines())) <= 80
    assert "<bool>" not in page
    assert not re.search(r"\[\[|…\]?\.\.\.", page)
    text = page[: page.index("╭")].strip()
    assert re.search(r"\n Examples?:(\s*\n +(\$ |--?).*)+$", text), text
    assert "$ anaphora " in text
    assert not re.search(PRIVATE, page)
    for paragraph in re.split(r"\n\s*\n", text[: text.index("Example")])[1:]:
        lines = [line.strip() for line in paragraph.splitlines()]
        for line, following in pairwise(lines):  # broken only where the next word has no room
            assert len(line) + 1 + len(following.split()[0]) > 76, line


def test_examples_can_be_typed(page: str) -> None:
    """A line ends with a backslash where the command goes on."""
    lines = [line.strip() for line in page[page.index("Example") : page.index("╭")].splitlines()[1:] if line.strip()]
    for line, following in zip(lines, [*lines[1:], "$"]):
        assert line.endswith(" \\") == (not following.startswith("$"))


def test_every_recipe_is_named(say: Any) -> None:
    page = " ".join(re.sub("[│╭╮╰╯─]", " ", say("train", "--help").out).split())
    assert "NAME-paper" in page
    for name in recipe_names():
        family, _, size = name.rpartition("-")
        parts = [f"{family}-", f"-{size}"] if family == "backpack" else [name]
        assert name.endswith("-paper") or all(part in page for part in parts), name
    assert "not the pretrained weights" in page
