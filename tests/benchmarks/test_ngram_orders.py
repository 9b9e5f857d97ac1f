"""The picture of orders: the split loses no line, every order is measured and heard, the last line is JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import ngram_orders

from ngram_folders import VERSE


def test_from_text_to_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = VERSE * 10
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    few = tuple(dataclasses.replace(units, orders=range(1, 4)) for units in ngram_orders.UNITS)
    monkeypatch.setattr(ngram_orders, "UNITS", few)
    picture = tmp_path / "orders.png"
    words = ["--text", tmp_path / "text.txt", "--work", tmp_path / "work", "--picture", picture, "--samples", 2]
    monkeypatch.setattr(sys, "argv", ["ngram_orders.py", *map(str, words)])
    ngram_orders.main()
    train, held_out = ((tmp_path / "work" / f"{name}.txt").read_text() for name in ("train", "held-out"))
    assert train + held_out == (tmp_path / "text.txt").read_text()
    assert 0.85 < len(train) / len(train + held_out) < 0.95
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(row["units"], row["order"]) for row in result["rows"]] == [
        (units.name, order) for units in few for order in (1, 2, 3)
    ]
    for units in few:
        bits = [row["bits_per_byte"] for row in result["rows"] if row["units"] == units.name]
        assert bits[2] < bits[0]  # a text that repeats itself
    assert all(1 <= len(row["samples"]) <= 2 and all(row["samples"]) for row in result["rows"])
    assert picture.read_bytes().startswith(b"\x89PNG")
