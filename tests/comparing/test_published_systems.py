"""The lectures' table beside our rows."""

from __future__ import annotations

from typing import Any

from anaphora.comparing.published import beside_published
from anaphora.comparing.report import extract_table


def row(kind: str, endings: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    own = {"name": "+".join([kind, *endings]), "kind": kind, "recipe": kind, "endings": list(endings)}
    return {**own, "state": "finished", "bleu": 31.5, "flops": 1.25e15, **more}


def line(rows: list[dict[str, Any]], system: str) -> list[str]:
    (extract,) = beside_published(rows)
    return next(list(cells[1:]) for cells in extract.lines if cells[0] == system)


def test_a_row_stands_beside_the_system_that_it_is() -> None:
    ours = [row("gnmt"), row("gnmt", ("rl",), bleu=32.0), row("gnmt", ("rl", "ensemble8"), bleu=33.0)]
    assert line(ours, "GNMT + RL") == ["32.00", "1.2e15", "24.60", "2.3e19", "39.92", "1.4e20"]
    assert line(ours, "GNMT + RL Ensemble")[0] == "33.00" and line(ours, "MoE")[:2] == ["-", "-"]
    sizes = [row("transformer", recipe="big", bleu=28.0), row("transformer", recipe="base", bleu=27.0)]
    assert (line(sizes, "Transformer (big)")[0], line(sizes, "Transformer (base model)")[0]) == ("28.00", "27.00")


def test_without_such_a_system_there_is_no_such_table() -> None:
    assert beside_published([row("luong"), row("moe", state="failed", bleu=None)]) == []


def test_it_fits_a_terminal() -> None:
    (extract,) = beside_published([row("deep-att", ("posunk", "ensemble"))])
    lines = extract_table(extract)
    assert len(lines) == 3 + 10 and max(map(len, lines)) <= 80
    assert lines[2].split() == ["BLEU", "FLOPs"] * 3
