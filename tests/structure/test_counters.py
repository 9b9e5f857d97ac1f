"""The counters of the architecture go down only; each limit is lowered with the commit that lowers its count."""

from __future__ import annotations

import ast

from structure.counters import cycles, imports, kind_checks, modules, top_level

MOST_KIND_CHECKS = 2
MOST_TOP_LEVEL = 9
MOST_CYCLES = 0


def checks(code: str, file: str = "room/file.py") -> list[str]:
    return [place.what for place in kind_checks({file: ast.parse(code)})]


def test_the_counters_see_every_way_to_ask_for_a_kind() -> None:
    assert checks("if config.model.kind == 'ngram': pass") == ["comparison"]
    assert checks("kind in ('gru', 'lstm')") == ["comparison"]
    assert checks("SOME = ('gru', 'lstm')\nmodel.kind not in SOME") == ["comparison"]
    assert checks("SOME = ('gru',)\nMORE = SOME + SOME\nx in MORE") == ["comparison"]
    assert checks("document.get('kind') == 'moe'") == ["comparison"]
    assert checks("match kind:\n case 'gru': pass") == ["match"]
    assert checks("{'gru': 1, 'lstm': 2}[kind]") == ["dictionary"]
    settings = "class GruConfig: pass\n"
    assert checks(settings + "isinstance(model, GruConfig | None)", "models/x.py") == ["isinstance"]
    assert checks(settings + "match c:\n case GruConfig(): pass", "models/x.py") == ["match"]


def test_the_counters_see_nothing_else() -> None:
    assert not checks("score == 'window'") and not checks("kind == 'bpe'") and not checks("{'window': 3}")
    assert not checks("if kind == 'gru': pass", "models/registry.py")


def test_cycles_are_found_however_long() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": set[str]()}
    assert cycles(graph) == [["a", "b", "c"]]


def test_the_house_does_not_get_harder_to_enter() -> None:
    trees = modules()
    found = kind_checks(trees)
    assert len(found) <= MOST_KIND_CHECKS, found
    assert len(top_level(trees)) <= MOST_TOP_LEVEL, top_level(trees)
    around = cycles(imports(trees))
    assert len(around) <= MOST_CYCLES, around
