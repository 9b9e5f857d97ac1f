"""The check of a text of one side: what is planted is found where it is, clean text is left in peace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.checking.findings import Report
from anaphora.checking.plain_text import LONG_LINE_CHARACTERS, check_plain_text, write_clean_text
from anaphora.errors import UserError
from anaphora.pocket.splits import generate

FOOTER = "Alle Rechte vorbehalten, 2026."


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return list(dict.fromkeys(pair.source for pair in generate("train", 400, 1)))[:300]


def found(report: Report, problem: str) -> list[tuple[str, int]]:
    entries = json.loads(json.dumps(report.document()))["findings"]
    return [(Path(entry["file"]).name, entry["line"]) for entry in entries if entry["problem"] == problem]


def write(path: Path, lines: list[str]) -> list[str]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")
    return [str(path)]


def test_clean_text_is_left_in_peace(tmp_path: Path, lines: list[str]) -> None:
    text = [line for one in lines for line in ("KING:", one)]  # short lines repeat by right
    report, _ = check_plain_text({"train": write(tmp_path / "a.txt", text)})
    assert report.findings == [] and report.exit_code == 0
    counts = report.corpus["train"]
    assert (counts["lines"], counts["blank_lines"], counts["distinct_lines"]) == (600, 0, 301)
    assert counts["repeated_lines"] == 299 and counts["scripts"] == {"Latin": 1.0}
    assert counts["bytes"] == (tmp_path / "a.txt").stat().st_size


def test_everything_planted_is_found_and_cleaned_away(tmp_path: Path, lines: list[str]) -> None:
    planted = {
        10: ("repeat", lines[3]),
        20: ("utf8", "caf\udce9 is closed today, they say."),
        30: ("nul", "a line of some length \0 and more"),
        40: ("control", "a line of another length \x07 and more"),
        50: ("mojibake", "Die StraÃŸe ist fÃ¼r alle lang genug."),
        60: ("leak-line", "This sentence is in the test text as well!"),
        70: ("script-line", "Это предложение написано кириллицей."),
        80: ("long-line", "word " * (LONG_LINE_CHARACTERS // 5 + 1)),
        90: ("separator", "a line of a third length\u2028and more"),
    }
    text = list(lines)
    for place, (_, line) in sorted(planted.items()):
        text.insert(place, line)
    text += [FOOTER] * 12
    test = ["this sentence is in the test text as well", "One that stands only here, and nowhere else."]
    files = {"train": write(tmp_path / "a.txt", text), "test": write(tmp_path / "t.txt", test)}
    report, check = check_plain_text(files)
    for place, (problem, _) in planted.items():
        assert found(report, problem) == [("a.txt", place + 1)], problem
    assert found(report, "boilerplate") == [("a.txt", len(text) - 10 + n) for n in range(11)]
    assert {finding.problem for finding in report.findings} == {"boilerplate", *(one for one, _ in planted.values())}
    assert report.exit_code == 2  # not UTF-8, and NUL
    assert any("repeats line 4" in finding.details.get(11, "") for finding in report.findings)

    cleaned = write_clean_text(check, files, tmp_path / "clean")
    kept = (tmp_path / "clean" / "a.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert cleaned["lines"] == {"train": len(kept), "test": 2} and cleaned["mended"]["train"] == 4
    assert cleaned["dropped"]["train"] == {
        "repeat": 1, "utf8": 1, "leak-line": 1, "script-line": 1, "boilerplate": 11
    }  # fmt: skip
    assert kept.count(FOOTER) == 1 and set(lines) <= set(kept) and "Die Straße ist für alle lang genug." in kept
    again, _ = check_plain_text(cleaned["files"])
    assert [finding.problem for finding in again.findings] == ["long-line"]
    with pytest.raises(UserError, match="already exists"):
        write_clean_text(check, files, tmp_path / "clean")


def test_blank_lines_and_nothing_else(tmp_path: Path, lines: list[str]) -> None:
    report, _ = check_plain_text({"train": write(tmp_path / "a.txt", [*lines[:3], "", " ", "", ""])})
    (finding,) = report.findings
    assert "4 of 7 lines are blank; data.blank_lines=drop" in str(finding) and finding.line == 4
    for content in ([], ["", " "]):
        report, _ = check_plain_text({"train": write(tmp_path / "a.txt", content)})
        assert [finding.problem for finding in report.findings] == ["no-text"] and report.exit_code == 2


def test_a_column_of_a_table(tmp_path: Path, lines: list[str]) -> None:
    rows = [f'{number},"{line}"' for number, line in enumerate([*lines[:5], lines[0]])]
    (path,) = write(tmp_path / "a.csv", ["id,text", *rows])
    report, _ = check_plain_text({"train": [path]})
    assert found(report, "repeat") == [("a.csv", 7)]


@pytest.mark.parametrize("arguments", [{}, {"valid_text": "a.txt"}, {"text": "a.txt", "source": "a.txt"}])
def test_mistakes_are_one_sentence(tmp_path: Path, arguments: dict[str, Any]) -> None:
    write(tmp_path / "a.txt", ["a"])
    given = {name: tmp_path / file for name, file in arguments.items()}
    with pytest.raises(UserError, match=r"no (source )?training text|text and pairs are both given"):
        anaphora.check(**given, estimate=False, progress=False)
