"""README and docs/ lead everywhere: menus, links, every command, both make targets, where it runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from anaphora.cli.app import app
from anaphora.comparing.published import TABLE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))
PARTS = ("tutorials", "guides", "reference", "explanation", "lectures/README")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def menu(page: str) -> list[str]:
    """The pages in the menus that a page holds, in order, named from docs/."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    names: list[str] = []
    for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        names += [re.sub(r".*<(.*)>", r"\1", line).removesuffix("*") for line in lines]
    return [(Path(page).parent / name).as_posix() for name in names]


def test_every_page_is_in_one_menu() -> None:
    held = [name for page in PAGES for name in menu(page)]
    assert len(held) == len(set(held))
    assert set(PAGES) - {"index"} == {name for name in held if (DOCS / f"{name}.md").exists()}
    assert menu("index") == list(PARTS)


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("lectures/")])
def test_a_menu_has_ten_entries_at_most(page: str) -> None:
    assert len(menu(page)) <= 10


@pytest.mark.parametrize("part", PARTS)
def test_a_part_leads_to_its_pages_in_its_text(part: str) -> None:
    """Menus are for those who know the name; the page of a part says what is where."""
    text = (DOCS / f"{part}.md").read_text(encoding="utf-8")
    for name in menu(part):
        if (DOCS / f"{name}.md").exists():
            assert f"]({Path(name).relative_to(Path(part).parent)}.md" in text, name
    assert f"docs/{part}.md" in README
    assert f"({part}.md)" in (DOCS / "index.md").read_text(encoding="utf-8")


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'(?:\]\(|src=")([^)#:"\s]+)(?:#[^)"]*)?[)"]', text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_is_short_and_begins_with_both_make_commands() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    start = "\n".join(lines[:40])
    assert all(one in start for one in ("make demo", "make test", "anaphora train", "anaphora translate", "<img"))


def test_every_command_has_a_row() -> None:
    rows = (DOCS / "commands.md").read_text(encoding="utf-8")
    for info in app.registered_commands:
        verb = info.name or getattr(info.callback, "__name__", "")
        assert re.search(rf"\| `anaphora {verb}\b", rows), verb


def test_where_it_runs_is_written_down() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    assert "Operating System :: POSIX :: Linux" in classifiers
    assert all(system in README for system in ("Linux", "macOS", "Windows"))


def test_published_figures_are_those_of_the_lectures() -> None:
    big = TABLE[-1]
    assert (big.system, big.german_bleu, big.french_bleu) == ("Transformer (big)", 28.4, 41.0)
    results = (DOCS / "results.md").read_text(encoding="utf-8")
    assert "| 41.0 † |" in results
    assert "later versions of the paper have 41.8" in results
