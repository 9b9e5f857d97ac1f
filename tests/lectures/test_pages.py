"""The list of pages, the registry and the command agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from anaphora.lectures import EXAMPLES

DOCS = Path(__file__).parents[2] / "docs"
LIST = (DOCS / "lectures" / "README.md").read_text(encoding="utf-8")


def test_every_name_is_its_own() -> None:
    assert all(name == example.name for name, example in EXAMPLES.items())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_has_a_page_that_shows_it(name: str) -> None:
    page = DOCS / EXAMPLES[name].page
    assert f"anaphora walk {name}" in page.read_text(encoding="utf-8")
    row = next(line for line in LIST.splitlines() if f"]({page.name})" in line)
    assert f"`{name}`" in row or f"`anaphora walk {name}`" in row


LONG = {"the-task", "all-scores", "forgetting", "bank"}
"""What they learn takes a while: their own tests (test_3, test_8, test_9, test_10) look at their checks."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in EXAMPLES])
def test_every_check_holds_and_no_random_number_is_used_up(name: str) -> None:
    before = torch.get_rng_state()
    walks = EXAMPLES[name].make()
    assert torch.equal(torch.get_rng_state(), before)
    for walk in walks:
        assert walk.holds, walk.checks
    assert all(walk.checks for walk in walks) or name == "the-task"  # where accuracies are a walk alone


def test_every_page_is_listed_and_has_an_example() -> None:
    pages = {page.name for page in (DOCS / "lectures").glob("[0-9]*.md")}
    assert pages == {Path(example.page).name for example in EXAMPLES.values()}
    assert [line.split("](")[1].split(")")[0] for line in LIST.splitlines() if line.startswith("| [")] == sorted(
        pages, key=lambda page: int(page.split("-")[0])
    )


def test_listing_them_loads_no_torch() -> None:
    code = "import sys; from anaphora.lectures import EXAMPLES; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
