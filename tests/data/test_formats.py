"""Reading: the same rows from every format and compression, lines parted at line feeds only, mistakes explained."""

from __future__ import annotations

import csv
import gzip
import lzma
import tracemalloc
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.data import tables
from anaphora.data.formats import describe_notes, place, read_column, read_rows, same_table
from anaphora.errors import UserError

LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0\ufeff"), max_size=9)
ROWS = [("ein Hund", "a dog"), ("", "empty source"), ("a\u2028b\x0bc\x85d", "é 👩‍👩‍👧"), ("letzte", "last")]
COMPRESSIONS = ["", ".gz", ".xz", ".zst"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", ["text", "tsv", "csv", "json", "jsonl", "parquet"])
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
        monkeypatch.setattr("anaphora.data.lines.BLOCK_BYTES", size)
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
    monkeypatch.setattr("anaphora.data.lines.LONGEST_LINE", 3 << 20)
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
    assert place("p.parquet.zst", "text")[:3] == (Path("p.parquet.zst"), "parquet", "text")


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
        "few.tsv#2": (b"a\tb\nc\n", r"few\.tsv:2: column 2 is asked for, but this line has 1 column; separate columns"),
        "few.tsv#en": (b"a\tb\n", "columns of a TSV file are numbers from 1, not 'en'"),
        f"few.tsv#{'9' * 5000}": (b"a\tb\n", r"columns of a TSV file are numbers from 1, not '9+\.\.\.9+'; write"),
        "few.csv#3": (b"a,b\n", r"few\.csv:1: column '3' is asked for, but the first row has 2 columns"),
        f"few.csv#{'9' * 5000}": (b"a,b\n", r"few\.csv:1: column '9+\.\.\.9+' is asked for"),
        "few.csv#fr": (b"en,de\n", r"few\.csv:1: the first row names no column 'fr'; known: de, en"),
        "both.csv#text": (
            b"text,text\na,b\n",
            r"both\.csv: has 2 columns by the name 'text', .* give its number: both\.csv#1",
        ),
        "cases.csv#TEXT": (b"Text,text,id\na,b,c\n", r"cases\.csv: has 2 columns by the name 'text'"),
        "three.csv": (
            b"a,b,c\n",
            r"the first row has 3 columns .* it is not clear which one holds the text; name one.*csv#2",
        ),
        "more.csv#1": (b'a,b\n"c\nd",e\nf,g,h\n', r"more\.csv:4: this row has 3 columns, and the first has 2; put"),
        "open.csv": (b'one\n"two\nthree\n', r"open\.csv:2: a quote is opened in this row and never closed"),
        "quote.csv": (b'one\n"two" three\n', r"quote\.csv:2: this is not CSV .*write a quote inside quotes twice"),
        "nul.csv": (b"text\n\na\0b\n", r"nul\.csv:3: character 2 of this line is NUL"),
        "bytes.csv": ("en\nschön\n".encode("latin1"), r"bytes\.csv:2: byte 4 of this line \(0xF6\) is not UTF-8"),
        "array.json": (b'[\n{"text": "a"}\n]\n', r"array\.json:1: this line is not JSON .*jq -c '\.\[\]' array\.json"),
        "f.jsonl#translation": (
            b'{"translation": {"en": "a"}}\n',
            r"holds object, not a string; .*f\.jsonl#translation\.en",
        ),
        "g.jsonl": (
            b'{"translation": {"en": "a", "de": "b"}}\n',
            r"no key 'text'; known: translation\.de, translation\.en",
        ),
        "h.jsonl#a.b": (b'{"a": {"c": "x"}}\n', r"this line has no key 'a\.b'; did you mean 'a\.c'"),
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


CSV = {
    "names": (b"source,target\nein,one\nzwei,two\n", "", ["one", "two"]),
    "other order": (b"tgt,src\none,ein\n", "", ["one"]),
    "languages": (b"en-GB,de_DE\none,ein\n", "", ["ein"]),
    "pandas": (b",en,de\n0,one,ein\n1,two,zwei\n", "", ["ein", "zwei"]),
    "no header": (b"one,ein\ntwo,zwei\n", "", ["ein", "zwei"]),
    "one column": (b"one\ntwo\n", "", ["one", "two"]),
    "by name": (b"Question,Answer\na,b\n", "#Answer", ["b"]),
    "by name in another case": (b"Question, Answer\na,b\n", "#answer", ["b"]),
    "by number": (b"Question,Answer\na,b\n", "#2", ["Answer", "b"]),
    "by number under a header": (b"id,text\n7,b\n", "#2", ["b"]),
    "a name that is a number": (b"1,2\na,b\n", "#2", ["b"]),
    "quotes": (b'a,"one, ""two"""\r\nb,"line\r\nand line\n\nmore"\r\n', "#2", ['one, "two"', "line and line  more"]),
    "empty lines and fields": (b"a,\n\nb,x\n\n", "#2", ["", "x"]),
    "an empty line of one column": (b"text\na\n\nb\n", "", ["a", "", "b"]),
    "a mark and no last line end": (b"\xef\xbb\xbfen,de\none,ein", "", ["ein"]),
    "nothing": (b"", "", []),
}


@pytest.mark.parametrize("case", CSV)
def test_csv(tmp_path: Path, case: str) -> None:
    content, column, expected = CSV[case]
    (tmp_path / "a.csv").write_bytes(content)
    assert list(read_column([f"{tmp_path}/a.csv{column}"], "target", Counter())) == expected


def test_what_csv_was_taken_for_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,Text\r\n1,"two\r\nlines"\r\n')
    notes: Counter[str] = Counter()
    assert list(read_column([f"{tmp_path}/a.csv"], "text", notes)) == ["two lines"]
    assert describe_notes(notes) == (
        "1 header row (id, Text) in a.csv, column 'Text' taken, 1 line break inside a line became a space"
    )


@pytest.mark.parametrize("format", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_one_table_without_a_column_is_both_sides(tmp_path: Path, write_corpus, format: str) -> None:
    (source,), _ = write_corpus(tmp_path, ROWS, format, "").values()
    assert list(read_rows({"source": [source], "target": same_table([source])})) == ROWS


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(LINE, LINE), max_size=6))
def test_what_the_csv_module_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("first", "second"), *rows])
    assert list(read_rows({"source": [f"{path}#first"], "target": [f"{path}#second"]})) == rows


def test_nested_keys(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"translation": {"en": "one", "de": "ein"}, "a.b": "exact", "a": {"b": "nested", "c.d": {"e": "deep"}}}\n'
    )
    for key, text in {"translation.de": "ein", "a.b": "exact", "a.c.d.e": "deep"}.items():
        assert list(read_column([f"{tmp_path}/a.jsonl#{key}"], "text", Counter())) == [text]


def test_structs_of_parquet(tmp_path: Path) -> None:
    rows = [{"en": "one", "de": "ein"}, {"en": "two", "de": "zwei"}]
    table = pa.table({"translation": rows, "a.b": ["x", "y"], "deep": [{"in": {"t": "1"}}, {"in": {"t": "2"}}]})
    parquet.write_table(table, tmp_path / "a.parquet")
    for name, texts in {"translation.de": ["ein", "zwei"], "a.b": ["x", "y"], "deep.in.t": ["1", "2"]}.items():
        assert list(read_column([f"{tmp_path}/a.parquet#{name}"], "text", Counter())) == texts
    for name, message in {
        "translation": r"holds struct with en, de, not strings; name a field in it: a\.parquet#translation\.en",
        "translation.fr": r"there is no column 'translation\.fr'; did you mean 'translation\.",
        "text": r"there is no column 'text'; (did you mean|known)",
    }.items():
        with pytest.raises(UserError, match=message):
            list(read_column([f"{tmp_path}/a.parquet#{name}"], "text", Counter()))
    table = pa.table({"translation": pa.array([{"en": "one"}, None])})
    parquet.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(UserError, match=r"b\.parquet:2: 'translation\.en' holds null"):
        list(read_column([f"{tmp_path}/b.parquet#translation.en"], "text", Counter()))


def test_parquet_with_two_columns_of_one_name(tmp_path: Path) -> None:
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array(["c"])]
    parquet.write_table(pa.Table.from_arrays(columns, names=["text", "text", "other"]), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: has 2 columns by the name 'text', .*; rename one of them"):
        list(read_column([str(tmp_path / "a.parquet")], "text", Counter()))
    assert list(read_column([f"{tmp_path}/a.parquet#other"], "text", Counter())) == ["c"]


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_packed_parquet_is_unpacked_up_to_a_bound(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch, write_corpus
) -> None:
    monkeypatch.setattr(tables, "MOST_UNPACKED", 4 << 20)
    bomb = tmp_path / f"bomb.parquet{ending}"
    zeros = b"PAR1" + bytes(64 << 20) + b"PAR1"
    if ending == ".zst":
        bomb.write_bytes(pa.Codec("zstd").compress(zeros, asbytes=True))
    else:
        bomb.write_bytes(gzip.compress(zeros, 1) if ending == ".gz" else lzma.compress(zeros, preset=0))
    del zeros
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"has more than 4 MB when unpacked.*; unpack it into a file first"):
            list(read_column([str(bomb)], "text", Counter()))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert list(read_rows(write_corpus(tmp_path, ROWS, "parquet", ending))) == ROWS


def test_missing_files_and_folders_are_explained(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("a\n")
    with pytest.raises(UserError, match=r"trian\.de: there is no such file; did you mean 'train\.de'\?"):
        list(read_rows({"text": [str(tmp_path / "trian.de")]}))
    (tmp_path / "l.txt").touch()
    with pytest.raises(
        UserError, match=r"a\.txt: there is no such file; check the path"
    ):  # that both are text is no likeness
        list(read_rows({"text": [str(tmp_path / "a.txt")]}))
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
        ("gut\nschön\n".encode() + b"sch\xf6n\n", "other lines are UTF-8, so correct or drop this one"),
        (b"gut\nsch\xf6n\n", "convert the file: iconv -f LATIN1"),
        ("schön\n".encode("utf-16"), "this looks like UTF-16"),
    ],
)
def test_what_is_no_utf8_has_the_right_cure(tmp_path: Path, content: bytes, cure: str) -> None:
    from anaphora.data.formats import read_column

    file = tmp_path / "text"
    file.write_bytes(content)
    with pytest.raises(UserError, match=cure):
        list(read_column([str(file)], "source", Counter()))
