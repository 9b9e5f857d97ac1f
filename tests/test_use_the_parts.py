"""docs/use-the-parts.md: every block of code runs, in order, and its prints are what the comments behind them say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "use-the-parts.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"{PAGE.name}, block {number + 1}", "exec"), names)
    printed = capsys.readouterr().out
    promised = re.findall(r"^print\(.*\)  # (torch\.Size\(\[[\d, ]+\]\)|\[[\d, ]+\])", "\n".join(BLOCKS), re.MULTILINE)
    assert len(promised) == 6
    for line in promised:
        assert line in printed, line
    assert float(names["loss"].detach()) < 0.6
    assert names["history"].validations[-1]["loss"] < 1.0
    assert "the dog sees the cat" in printed
    assert [len(hypotheses) for hypotheses in names["found"]] == [2, 2]
