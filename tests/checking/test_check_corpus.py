"""The whole check: planted mistakes are all found where they are, clean text is left in peace, cleaned text passes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.checking.check import Check, check_corpus, quick_findings
from anaphora.checking.corpus_cleaning import write_clean
from anaphora.checking.file_reading import read_side
from anaphora.checking.findings import FINDING_KINDS, Report
from anaphora.errors import UserError
from anaphora.pocket.splits import generate

Rows = list[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return [(pair.source.encode(), pair.target.encode()) for pair in generate("train", 1500, 1)]


@pytest.fixture(scope="module")
def held() -> Rows:
    return [(pair.source.encode(), pair.target.encode()) for pair in generate("test", 250, 1)]


def write(folder: Path, name: str, source: list[bytes], target: list[bytes]) -> dict[str, list[str]]:
    files = {"source": folder / f"{name}.en", "target": folder / f"{name}.de"}
    for file, lines in zip(files.values(), (source, target)):
        file.write_bytes(b"".join(line + b"\n" for line in lines))
    return {side: [str(file)] for side, file in files.items()}


def run(folder: Path, train: Rows | tuple[list[bytes], list[bytes]], **others: Rows) -> tuple[Report, Check, Any]:
    def columns(rows: Any) -> Any:
        return rows if isinstance(rows, tuple) else ([a for a, _ in rows], [b for _, b in rows])

    files = {"train": write(folder, "train", *columns(train))}
    files |= {name: write(folder, name, *columns(rows)) for name, rows in others.items()}
    return *check_corpus(files), files


def found(report: Report, problem: str) -> list[tuple[str, int]]:
    """(file name, line) of every entry with that problem in the JSON document."""
    entries = json.loads(json.dumps(report.document()))["findings"]
    return [(Path(entry["file"]).name, entry["line"]) for entry in entries if entry["problem"] == problem]


def test_clean_text_is_left_in_peace(tmp_path: Path, rows: Rows, held: Rows) -> None:
    report, _, files = run(tmp_path, rows, test=held)
    assert report.findings == []
    assert report.exit_code == 0
    assert report.corpus["train"]["pairs"] == 1500
    assert report.corpus["train"]["distinct_sources"] <= 1500
    assert 0 < report.corpus["test"]["unknown_words"]["target"]["unknown_tokens"] < 0.5
    assert quick_findings(files) == []


PLANTS: dict[str, tuple[int, bytes, bytes]] = {
    # problem: the side that is told (0 source, 1 target), and the pair
    "utf8": (0, b"caf\xe9 is closed today.", "Das Café ist heute zu.".encode()),
    "nul": (1, b"The dog sleeps here.", b"Der Hund \0 schl\xc3\xa4ft."),
    "mojibake": (1, b"The street is long.", "Die StraÃŸe ist für alle lang.".encode()),
    "replacement": (0, "The m\ufffdn is old.".encode(), b"Der Mann ist alt."),
    "control": (0, b"The man \x07 is old now.", b"Der Mann ist jetzt alt."),
    "separator": (1, b"The man is young.", "Der Mann\u2028ist jung.".encode()),
    "crlf": (1, b"The man is here now.", b"Der Mann ist jetzt da.\r"),
    "empty": (0, b"", b"Nichts steht gegenueber."),
    "identical": (1, b"This was never translated.", b"This was never translated."),
    "script": (0, "Старик спит в саду.".encode(), b"Der Alte schl\xc3\xa4ft im Garten."),
    "language": (1, b"The farmer sells apples to the teacher.", b"The old woman sees the young man in the garden."),
    "ratio": (0, b"Yes.", b"Der alte Mann ging gestern mit seinem Hund durch den langen, dunklen Wald nach Hause."),
    "long": (0, b"old " * 300, b"alt " * 300),
    "huge": (1, b"The end of it.", b"Ende " * 250_000),
}


def test_everything_planted_is_found_where_it_is(tmp_path: Path, rows: Rows, held: Rows) -> None:
    draw = random.Random(3)
    train = list(rows)
    places = {problem: draw.sample(range(10, 1400), 1)[0] for problem in PLANTS}
    while len(set(places.values())) < len(places):
        places = {problem: draw.sample(range(10, 1400), 1)[0] for problem in PLANTS}
    for problem, line in places.items():
        train[line - 1] = PLANTS[problem][1:]
    train += [
        rows[5],
        rows[5],
        held[7],
        (held[8][0], b"Etwas anderes steht hier."),
        (b"Something else here.", held[9][1]),
    ]
    report, check, files = run(tmp_path, train, test=held)
    for problem, line in places.items():
        side = "train.en" if PLANTS[problem][0] == 0 else "train.de"
        assert (side, line) in found(report, problem), problem
    assert found(report, "duplicate") == [("train.en", 1501), ("train.en", 1502)]
    assert found(report, "leak") == [("train.en", 1503)]
    assert found(report, "leak-source") == [("train.en", 1504)]
    assert found(report, "leak-target") == [("train.de", 1505)]
    assert {finding.kind for finding in report.findings} == set(FINDING_KINDS) - {"shift"}
    assert all(finding.cure and finding.message for finding in report.findings)
    assert report.exit_code == 2
    assert {finding.problem for finding in report.findings if finding.stops} == {"utf8", "nul"}
    repeats = next(f for f in report.findings if f.problem == "duplicate")
    assert repeats.details[1501] == "this pair repeats line 6"

    cleaned = write_clean(check, files, tmp_path / "clean")
    written = {part: {"source": [both[0]], "target": [both[1]]} for part, both in cleaned["files"].items()}
    again, _ = check_corpus(written)
    assert again.findings == []
    assert cleaned["left"] == 0
    lines = [Path(file).read_text(encoding="utf-8").splitlines() for file in cleaned["files"]["train"]]
    assert len(lines[0]) == len(lines[1]) == cleaned["pairs"]["train"]
    assert "Die Straße ist für alle lang." in lines[1]
    assert "Der Mann ist jung." in lines[1]
    assert "Der Mann ist jetzt da." in lines[1]
    assert cleaned["dropped"]["train"]["utf8"] == cleaned["dropped"]["train"]["leak"] == 1
    assert cleaned["dropped"]["train"]["duplicate"] >= 2


def test_a_byte_order_mark(tmp_path: Path, rows: Rows) -> None:
    train = [(b"\xef\xbb\xbf" + rows[0][0], rows[0][1]), *rows[1:]]
    report, _, _ = run(tmp_path, train)
    assert found(report, "bom") == [("train.en", 1)]
    assert report.exit_code == 0


def test_two_columns_of_one_table_have_a_problem_of_a_line_in_common(tmp_path: Path, rows: Rows) -> None:
    table = tmp_path / "train.tsv"
    table.write_bytes(b"\xef\xbb\xbf" + b"".join(source + b"\t" + target + b"\r\n" for source, target in rows))
    report, *_ = check_corpus({"train": {"source": [str(table)], "target": [str(table)]}})
    told = [(one.problem, one.file, one.count) for one in report.findings]
    assert told == [("bom", str(table), 1), ("crlf", str(table), len(rows))]


def test_a_shift_is_told_and_mended(tmp_path: Path, rows: Rows) -> None:
    source, target = [a for a, _ in rows], [b for _, b in rows]
    report, check, files = run(tmp_path, (source, target[:700] + target[701:]))
    uneven, shift = report.findings
    assert (uneven.kind, uneven.problem, uneven.stops) == ("shift", "uneven", True)
    assert "train.en has 1,500 lines, 1 more than" in uneven.message
    assert shift.line == shift.extra["first"]
    assert (shift.kind, shift.extra["offset"]) == ("shift", -1)
    assert abs(shift.extra["first"] - 701) <= 5
    assert report.exit_code == 2
    cleaned = write_clean(check, files, tmp_path / "clean")
    lines = [Path(file).read_bytes().split(b"\n") for file in cleaned["files"]["train"]]
    assert cleaned["pairs"]["train"] >= 1480
    assert set(zip(*lines)) - {(b"", b"")} <= set(rows)


def test_sides_too_small_to_tell_where_they_go_apart(tmp_path: Path, rows: Rows) -> None:
    report, check, files = run(tmp_path, ([a for a, _ in rows[:20]], [b for _, b in rows[:19]]))
    assert [finding.problem for finding in report.findings] == ["uneven"]
    with pytest.raises(UserError, match="not clear where they diverge"):
        write_clean(check, files, tmp_path / "clean")
    assert not (tmp_path / "clean").exists()


@pytest.mark.parametrize(
    ("train", "problem"),
    [([], "no-text"), ([(b"one line", b"eine Zeile")], "one-line"), ([(b"", b"x"), (b"y", b"")], "empty")],
)
def test_too_little_text_stops(tmp_path: Path, train: Rows, problem: str) -> None:
    report, _, _ = run(tmp_path, train)
    assert {finding.problem for finding in report.findings} == {problem}
    assert {finding.kind for finding in report.findings} == {"empty"}
    assert report.exit_code == 2


def test_nothing_is_overwritten_and_something_must_be_left(tmp_path: Path, rows: Rows) -> None:
    _, check, files = run(tmp_path, rows[:30])
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="already exists"):
        write_clean(check, files, tmp_path / "there")
    _, check, _ = run(tmp_path, [(b"", b"x")] * 4)
    with pytest.raises(UserError, match="nothing would be left"):
        write_clean(check, files, tmp_path / "clean")


@pytest.mark.parametrize("format", ["text", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
def test_every_format(
    tmp_path: Path, rows: Rows, write_corpus: Callable[..., dict[str, list[str]]], format: str, compression: str
) -> None:
    texts = [(a.decode(), b.decode()) for a, b in [*rows[:40], rows[3]]]
    files = write_corpus(tmp_path, texts, format, compression)
    report, check = check_corpus({"train": files})
    assert [(finding.problem, finding.line) for finding in report.findings] == [("duplicate", 41)]
    cleaned = write_clean(check, {"train": files}, tmp_path / "clean")
    assert cleaned["pairs"] == {"train": 40}
    assert len(set(cleaned["files"]["train"])) == 2


def test_lines_are_counted_in_their_own_file(tmp_path: Path, rows: Rows) -> None:
    one = write(tmp_path, "one", [a for a, _ in rows[:30]], [b for _, b in rows[:30]])
    two = write(tmp_path, "two", [a for a, _ in rows[28:40]], [b for _, b in rows[28:40]])
    report, _ = check_corpus({"train": {side: one[side] + two[side] for side in one}})
    assert found(report, "duplicate") == [("two.en", 1), ("two.en", 2)]
    assert report.findings[0].details[1].startswith("this pair repeats line 29 of ")


def test_rows_of_csv_are_told_by_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('en,de\none,ein\n"two\nlines",zwei\none,ein\nfour,\n')
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text((tmp_path / "a.csv").read_text())
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    report, _ = check_corpus({"train": {"source": files[:1], "target": files[:1]}})
    assert report.corpus["train"]["pairs"] == 4
    assert found(report, "duplicate") == [("a.csv", 5)] and found(report, "empty") == [("a.csv", 6)]
    side = read_side(files, "source")
    assert [side.where(row) for row in (0, 3, 4, 7)] == [
        (files[0], 2), (files[0], 6), (files[1], 2), (files[1], 6)
    ]  # fmt: skip
    assert list(side.lines)[:4] == ["one", "two lines", "one", "four"]


def test_a_missing_side_is_named(tmp_path: Path, rows: Rows) -> None:
    with pytest.raises(UserError, match="no target training text given; give target='FILE'"):
        check_corpus({"train": {"source": ["x"]}})


@settings(max_examples=50)
@given(lines=st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=8), last=st.booleans())
def test_any_bytes_are_read_line_by_line(tmp_path_factory: Any, lines: list[bytes], last: bool) -> None:
    path = tmp_path_factory.mktemp("bytes") / "side.txt"
    path.write_bytes(b"\n".join(lines) + (b"\n" if last and lines else b""))
    side = read_side([str(path)], "source")
    content = path.read_bytes()
    expected = content.split(b"\n")
    if expected and not expected[-1]:
        expected.pop()
    assert len(side.lines) == len(expected)
    for number, (text, raw) in enumerate(zip(side.lines, expected)):
        raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 0 else raw
        assert text.encode("utf-8", "surrogateescape") == raw.removesuffix(b"\r")
    assert list(side.lines) == [side.lines[i] for i in range(len(side.lines))]


def test_an_empty_side_is_told_of_the_file_that_has_it(tmp_path: Path, rows: Rows) -> None:
    train = [*rows[:30], (b"words", b" "), (b"", b"Worte"), (b"", b"")]
    report, _, files = run(tmp_path, train)
    found = {(finding.file, line) for finding in report.of_kind("empty") for line in finding.lines}
    source, target = files["train"]["source"][0], files["train"]["target"][0]
    assert found == {(target, 31), (source, 32), (source, 33)}


def test_a_corpus_of_copies_is_told_once_and_kept(tmp_path: Path, rows: Rows) -> None:
    report, check, files = run(tmp_path, [(source, source) for source, _ in rows[:60]])
    (found,) = report.of_kind("language")
    assert (found.problem, found.count, report.exit_code) == ("copies", 60, 0)
    cleaned = write_clean(check, files, tmp_path / "clean")
    assert (cleaned["pairs"], cleaned["left"]) == ({"train": 60}, 0)


def test_words_of_its_own_side_keep_a_line_from_being_foreign() -> None:
    from anaphora.checking import language_guess as language

    own = ["he was born in a town"] * 30 + ["something else"]
    other = ["er ist in einer Stadt geboren"] * 30
    lines = ["Daniel Gabriel Fahrenheit was born in Danzig", "er ist in Danzig geboren"]
    assert language.without_familiar(lines, [0, 1], own, other) == [1]
