"""Reading: the same rows from every format and compression, lines parted at line feeds only, mistakes explained."""

from __future__ import annotations

import gzip
import lzma
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.text.formats import describe_notes, place, read_rows, same_table

ROWS = [("ein Hund", "a dog"), ("", "empty source"), ("a\u2028b\x0bc\x85d", "é 👩‍👩‍👧"), ("letzte", "last")]
COMPRESSIONS = ["", ".gz", ".xz", ".zst"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", ["text", "tsv", "jsonl", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, write_corpus, format: str, compression: str) -> None:
    assert list(read_rows(write_corpus(tmp_path, ROWS, format, compression))) == ROWS


@settings(deadline=None, max_examples=100)
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")), max_size=8))
def test_lines_come_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = [(line,) for line in lines]
    if lines and lines[0].startswith("\ufeff"):
        expected[0] = (lines[0][1:],)
    assert list(read_rows({"text": [str(path)]})) == expected


def test_blocks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "\n\nfür dich\r\n\nüber 👩‍👧\nlast".encode()
    (tmp_path / "a").write_bytes(content)
    for size in range(1, len(content) + 2):
        monkeypatch.setattr("anaphora.text.formats.BLOCK", size)
        assert [row[0] for row in read_rows({"text": [str(tmp_path / "a")]})] == [
            "",
            "",
            "für dich",
            "",
            "über 👩‍👧",
            "last",
        ]


@pytest.mark.parametrize(
    ("content", "lines"), [(b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\n\n", ["a", ""])]
)
def test_the_final_newline_makes_no_extra_line(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    (tmp_path / "a").write_bytes(content)
    assert [row[0] for row in read_rows({"text": [str(tmp_path / "a")]})] == lines


def test_what_editors_add_is_taken_off_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rstill two\r\n\xef\xbb\xbfthree\n")
    notes: Counter[str] = Counter()
    assert [row[0] for row in read_rows({"text": [str(tmp_path / "a")]}, notes)] == [
        "one",
        "two\rstill two",
        "\ufeffthree",
    ]
    assert notes == {"bom": 1, "crlf": 2, "separator": 1}
    assert describe_notes({"bom": 1, "crlf": 2000, "nul": 0}) == (
        r"1 byte-order mark taken off, 2,000 line ends \r\n read as \n"
    )
    (tmp_path / "b.jsonl").write_text('{"text": "one\\ntwo"}\n')
    assert list(read_rows({"text": [str(tmp_path / "b.jsonl")]}, notes)) == [("one two",)]
    assert notes["newline"] == 1


@pytest.mark.parametrize("format", ["text", "tsv", "jsonl", "parquet"])
def test_nuls_stop_the_reader_or_become_spaces(tmp_path: Path, write_corpus, format: str) -> None:
    rows = [("ein Hund", "a dog"), ("b\0\0c", "b c"), ("\0", "x")]
    files = write_corpus(tmp_path, rows, format, "")
    with pytest.raises(UserError, match=r":2: character 2 of this line is NUL, .*iconv -f UTF-16") as raised:
        list(read_rows(files))
    assert raised.value.line == 2
    notes: Counter[str] = Counter()
    read = list(read_rows(files, notes, strict=False))
    assert read == [("ein Hund", "a dog"), ("b  c", "b c"), (" ", "x")]
    assert notes == {"nul": 2}


def test_what_other_tools_take_for_line_ends_is_counted_and_kept(tmp_path: Path) -> None:
    lines = ["a\u2028b", "plain", "\x85", "c\u2029", "\u00a0 not one"]
    (tmp_path / "a").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    notes: Counter[str] = Counter()
    assert [row[0] for row in read_rows({"text": [str(tmp_path / "a")]}, notes)] == lines
    assert notes == {"separator": 3}


def test_a_file_without_line_ends_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anaphora.text.formats.LONGEST_LINE", 3 << 20)
    (tmp_path / "long").write_bytes(b"one\n" + b"x" * (2 << 20) + b"\n")
    assert len(list(read_rows({"text": [str(tmp_path / "long")]}))) == 2
    (tmp_path / "longer").write_bytes(b"one\n" + b"x" * (6 << 20))
    with pytest.raises(UserError, match=r"longer:2: this line has more than 3 MB; .* check that this is a text file"):
        list(read_rows({"text": [str(tmp_path / "longer")]}))
    with pytest.raises(UserError, match="this line has more than 3 MB"):
        list(read_rows({"text": ["/dev/zero"]}, strict=False))


def test_files_follow_one_another_and_columns_have_names(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\tins\tone\n")
    (tmp_path / "b#1.txt").write_text("zwei\n")  # a "#" in a file's own name
    (tmp_path / "c.jsonl").write_text('{"de": "drei", "en": "three"}\n')
    names = [f"{tmp_path}/a.tsv#2", f"{tmp_path}/b#1.txt", f"{tmp_path}/c.jsonl#de"]
    assert [row[0] for row in read_rows({"source": names})] == ["ins", "zwei", "drei"]
    assert place("p.tsv", "target").column == "2"
    assert place("p.tsv", "text").column == "1"
    assert place("p.parquet.zst", "text") == (Path("p.parquet.zst"), "parquet", "text")


def broken(folder: Path) -> dict[str, tuple[bytes, str]]:
    text = b"hello world " * 2000
    noise = bytes(range(256)) * 40
    return {
        "latin.txt": (
            "gut\nschön\n".encode("latin1"),
            r"latin\.txt:2: byte 4 of this line \(0xF6\) is not UTF-8; convert",
        ),
        "cut.gz": (gzip.compress(noise)[:-20], "damaged or cut short .*; copy or download it again"),
        "cut.xz": (lzma.compress(noise)[:-20], "damaged or cut short"),
        "cut.zst": (pa.Codec("zstd").compress(noise + text, asbytes=True)[:-20], "damaged or cut short"),
        "no.gz": (text, "damaged or cut short"),
        "no.xz": (text, "damaged or cut short"),
        "no.zst": (text, "damaged or cut short"),
        "no.parquet": (text, "damaged or cut short"),
        "few.tsv#2": (b"a\tb\nc\n", r"few\.tsv:2: column 2 is asked for, but this line has 1 column; part columns"),
        "few.tsv#en": (b"a\tb\n", "columns of a TSV file are numbers from 1, not 'en'"),
        "a.jsonl": (b'{"text": "a"}\n[1]\n', r"a\.jsonl:2: this line is not a JSON object"),
        "b.jsonl": (b'{"text": "a"}\n\n', r"b\.jsonl:2: this line is not JSON"),
        "c.jsonl#txt": (b'{"text": "a"}\n', "this line has no key 'txt'; did you mean 'text'"),
        "d.jsonl": (b'{"text": null}\n', "'text' holds null, not a string"),
        "e.jsonl": (b'{"text": "\\ud800"}\n', "'text' holds half a surrogate pair"),
        "plain.txt#2": (b"a\n", "plain text has no columns"),
    }


@pytest.mark.parametrize("name", broken(Path()))
def test_broken_files_are_explained(tmp_path: Path, name: str) -> None:
    content, message = broken(tmp_path)[name]
    (tmp_path / name.split("#")[0]).write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(read_rows({"text": [str(tmp_path / name)]}))


def test_missing_files_and_folders_are_explained(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("a\n")
    with pytest.raises(UserError, match=r"trian\.de: there is no such file; did you mean 'train\.de'\?"):
        list(read_rows({"text": [str(tmp_path / "trian.de")]}))
    with pytest.raises(UserError, match="this is a folder, not a file"):
        list(read_rows({"text": [str(tmp_path)]}))
    with pytest.raises(UserError, match="there is no such file; check the path"):
        list(read_rows({"text": [str(tmp_path / "nowhere" / "x")]}))
    parquet.write_table(pa.table({"de": ["a", None], "n": [1, 2]}), tmp_path / "a.parquet")
    for column, message in (
        ("dee", "no column 'dee'; did you mean 'de'"),
        ("n", "holds int64"),
        ("de", ":2: 'de' holds null"),
    ):
        with pytest.raises(UserError, match=message):
            list(read_rows({"text": [f"{tmp_path}/a.parquet#{column}"]}))


def test_sides_of_different_length_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("1\n2\n3\n4\n5\n")
    (tmp_path / "a.en").write_text("1\n2\n3\n")
    for sides in ({"source": "a.de", "target": "a.en"}, {"source": "a.en", "target": "a.de"}):
        with pytest.raises(UserError) as raised:
            list(read_rows({side: [str(tmp_path / name)] for side, name in sides.items()}))
        assert "a.de has 5 lines" in str(raised.value)
        assert "a.en has 3 lines" in str(raised.value)
        assert "line n of each side must translate line n" in str(raised.value)


def test_one_table_may_hold_both_sides() -> None:
    assert same_table(["pairs.tsv", "more.jsonl.gz"]) == ["pairs.tsv", "more.jsonl.gz"]
    assert same_table(["plain.en"]) == []
    assert same_table(["pairs.tsv#2"]) == []  # whoever names a column names both


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        ("gut\nschön\n".encode() + b"sch\xf6n\n", "other lines are UTF-8, so mend or drop this one"),
        (b"gut\nsch\xf6n\n", "convert the file: iconv -f LATIN1"),
        ("schön\n".encode("utf-16"), "this looks like UTF-16"),
    ],
)
def test_what_is_no_utf8_has_the_right_cure(tmp_path: Path, content: bytes, cure: str) -> None:
    from anaphora.text.formats import read_column

    file = tmp_path / "text"
    file.write_bytes(content)
    with pytest.raises(UserError, match=cure):
        list(read_column([str(file)], "source", Counter()))
