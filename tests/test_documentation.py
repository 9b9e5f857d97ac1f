"""README and docs/ name what exists: every page, every verb, both make targets, where it runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from anaphora.cli.app import app
from anaphora.comparing.published import TABLE

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "index.md")
README, INDEX = (ROOT / "README.md").read_text(encoding="utf-8"), (ROOT / "docs/index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_linked_from_where_people_begin(page: Path) -> None:
    assert f"(docs/{page.name}" in README
    assert f"({page.name})" in INDEX
    assert f": {page.name}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_has_every_verb_and_both_commands() -> None:
    for info in app.registered_commands:
        verb = info.name or getattr(info.callback, "__name__", "")
        assert re.search(rf"\| `anaphora {verb}\b", README), verb
    assert "make demo" in README
    assert "make test" in README


def test_where_it_runs_is_written_down() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    assert "Operating System :: POSIX :: Linux" in classifiers
    assert all(system in README for system in ("Linux", "macOS", "Windows"))


def test_published_figures_are_those_of_the_lectures() -> None:
    big = TABLE[-1]
    assert (big.system, big.german_bleu, big.french_bleu) == ("Transformer (big)", 28.4, 41.0)
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    assert "| 41.0 † |" in results
    assert "later versions of the paper have 41.8" in results
