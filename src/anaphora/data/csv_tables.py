"""One column of a CSV file, by RFC 4180: columns between commas, fields with commas or line breaks in quotes.

Which column: by name (`pairs.csv#en`), where the first row has that name, or by number (`pairs.csv#2`). Without one the
first row decides, if it is a header: if it has a name that corpora use (source, target, text, label …) or names of
languages, and nothing that could be a sentence. What it was taken for is noted, so that a run says so.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from anaphora.data.lines import Place, one_line, text_lines
from anaphora.errors import UserError, nearest, shown

LONGEST_FIELD = 1 << 24
"""Characters: a longer one is a quote that was never closed."""
ROLES = {
    "source": ("source", "src", "input"),
    "target": ("target", "tgt", "trg", "output", "translation"),
    "text": ("text", "sentence", "content", "line"),
    "labels": ("label", "labels", "class", "category"),
}
"""Names of columns, by what they hold."""
INDEX = ("", "id", "idx", "index", "number", "unnamed: 0")
"""Columns that only count the rows."""
NAMES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg
ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn
no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta
te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu eng deu ger fra fre spa ita por
nld rus zho jpn kor arabic bengali bulgarian catalan chinese croatian czech danish dutch english estonian finnish
french german greek hebrew hindi hungarian indonesian italian japanese korean latvian lithuanian norwegian persian
polish portuguese romanian russian serbian slovak slovenian spanish swedish thai turkish ukrainian urdu vietnamese
"""
LANGUAGES = frozenset(NAMES.split())
"""Codes and names of languages that a header may consist of."""


def csv_rows(where: Place, notes: Counter[str]) -> Iterator[tuple[int, str]]:
    """The text of each row, and the line that it begins in."""
    rows = _rows(where, notes)
    begin, first = next(rows, (1, []))
    if not first:
        return
    column, header = _column(where, first)
    if header:
        names = ", ".join(map(str.strip, first))
        notes[f"header row ({names}) in {where.path.name}, column {first[column].strip()!r} taken"] += 1
    else:
        yield begin, one_line(first[column], notes)
    for number, fields in rows:
        if len(fields) != len(first):
            raise UserError(
                f"this row has {_columns(len(fields))}, and the first has {len(first)}",
                file=where.path,
                line=number,
                cure='put fields that hold commas in quotes: "one, two"',
            )
        yield number, one_line(fields[column], notes)


def _rows(where: Place, notes: Counter[str]) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row, and the line that it begins in. Of a table with several columns, empty lines are none."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
    found: Counter[str] = Counter()
    reader = csv.reader((f"{line}\n" for line in text_lines(where, found)), strict=True)
    width, begin = 0, 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise _broken(error, where.path, begin, reader.line_num) from None
        if fields is None:
            notes.update({name: number for name, number in found.items() if name != "crlf"})  # CSV's own line ends
            return
        width = width or len(fields)
        if fields or width <= 1:
            yield begin, fields or [""]
        begin = reader.line_num + 1


def _broken(error: csv.Error, path: Path, begin: int, line: int) -> UserError:
    if "field larger" in str(error):
        what = f"a field that begins here has more than {LONGEST_FIELD >> 20} million characters"
        return UserError(what, file=path, line=begin, cure="close its quotes")
    if "unexpected end" in str(error):
        return UserError("a quote is opened in this row and never closed", file=path, line=begin, cure="close it")
    cure = 'write a quote inside quotes twice: "she said ""no"""'
    return UserError(f"this is not CSV ({error})", file=path, line=line, cure=cure)


def _column(where: Place, first: Sequence[str]) -> tuple[int, bool]:
    """Which column (from 0) holds the text, and whether the first row is a header."""
    names = [name.strip().casefold() for name in first]
    header = _is_header(names)
    if not where.named:
        return _default(where, names, header=header), header
    for wanted, known in ((where.column, list(first)), (where.column.strip().casefold(), names)):
        if known.count(wanted) > 1:
            raise named_twice(where, wanted, known.count(wanted), f", or give its number: {where.path.name}#1")
        if wanted in known:
            return known.index(wanted), True
    if where.column.isascii() and where.column.isdigit():
        if len(where.column) > 6 or not 1 <= int(where.column) <= len(first):
            raise UserError(
                f"column {shown.repr(where.column)} is asked for, but the first row has {_columns(len(first))}",
                file=where.path,
                line=1,
                cure=_which(where.path, len(first)),
            )
        return int(where.column) - 1, header
    raise UserError(
        f"the first row names no column {shown.repr(where.column)}",
        file=where.path,
        line=1,
        cure=f"{nearest(where.column, map(str.strip, first))} (or give its number: {where.path.name}#1)",
    )


def named_twice(where: Place, name: str, times: int, cure: str = "") -> UserError:
    """The error of a table with several columns of one name."""
    what = f"has {times} columns by the name {shown.repr(name)}, and it is not clear which one is meant"
    return UserError(what, file=where.path, cure=f"rename one of them{cure}")


def _is_header(names: Sequence[str]) -> bool:
    """Do these name columns? At least one is a name that corpora use, and no two are the same."""
    roles = {name for some in ROLES.values() for name in some}
    languages = [name for name in names if name.replace("-", "_").partition("_")[0] in LANGUAGES]
    others = [name for name in names if name not in INDEX and name not in languages]
    known = any(name in roles for name in names) or (bool(languages) and not others)
    return known and len(set(names)) == len(names)


def _default(where: Place, names: Sequence[str], *, header: bool) -> int:
    """The column of a side where none was named."""
    side = where.column
    if len(names) == 1:
        return 0
    if header:
        for name in ROLES.get(side, (side,)):
            if name in names:
                return names.index(name)
    real = [place for place, name in enumerate(names) if not (header and name in INDEX)]
    if side in ("source", "target") and len(real) == 2:
        return real[side == "target"]
    if len(real) == 1:
        return real[0]
    said = f"the first row has {len(names)} columns ({shown.repr(', '.join(names))})"
    raise UserError(
        f"{said}, and it is not clear which one holds the {side}", file=where.path, cure=_which(where.path, len(names))
    )


def _which(path: Path, columns: int) -> str:
    return f"name one, by number or by the name in the first row: {path.name}#{min(2, columns)}"


def _columns(number: int) -> str:
    return f"{number} column{'s' * (number != 1)}"
