"""What people hand over as text, as lines: one string, a list, a column of a table, an open file, the path of a file.

    lines_of(["the cat sat", "a dog ran"])      any iterable of strings, a generator or a pandas column too
    lines_of(open("test.en", encoding="utf-8")) its lines, without their ends
    lines_of(Path("pairs.jsonl#de"))            a file, read as the command line reads it: tables and archives too
    lines_of("the cat sat")                     one text

One rule holds for every method of every model: given one text (a str) it answers with one result, given many with a
list of them, in order. What is no text is refused in a sentence that names the place: `source[3] is missing (nan)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import suppress
from itertools import chain, islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from anaphora.data.formats import read_column, same_table
from anaphora.errors import UserError, shown

Lines = Iterable[str] | PathLike[str]
"""Many lines."""
LONGEST_NAME = 4096
"""Characters of a path."""
MOST_COUNTED = 1_000_000
"""Lines without a partner that are counted to name their number: a generator may have no end."""
MISSING = ("None", "nan", "<NA>", "NaT", "--")
"""How Python, NumPy and pandas show a value that is not there."""


def lines_of(text: str | Lines, name: str = "text") -> Iterator[str]:
    """Lines of what was given, one of a str; `name`: the parameter that it was given as.

    All that can be seen of a mistake without reading on is refused here, not at the first step of the iterator.
    """
    if isinstance(text, str):
        return iter([one_text(text, name)])
    if isinstance(text, PathLike):
        return _of_file(fspath(text), name)
    _refuse_what_is_no_text(text, name)
    if isinstance(text, list | tuple):
        if set(map(type, text)) == {str}:  # the usual case, at the speed of C
            return iter(text)
        return iter([_line(line, name, number) for number, line in enumerate(text)])
    try:
        items = iter(text)
    except TypeError:
        raise _no_text(text, name) from None
    return _checked(items, name, is_file=hasattr(text, "readline"))


def one_text(text: str, name: str = "text") -> str:
    """One text: a string is not a list of letters, and the name of a file is not its text."""
    if not isinstance(text, str):
        _refuse_what_is_no_text(text, name)
        if isinstance(text, Iterable):
            raise UserError(f"{name} is one text here, not {_kind(text)}", cure="give one str at a time")
        raise _no_text(text, name)
    with suppress(OSError, ValueError):  # too long for a name, say
        if len(text) < LONGEST_NAME and Path(text).is_file():
            raise UserError(
                f"{text!r} is a file, not lines of text",
                cure=f"give Path({text!r}) or open({text!r}, encoding='utf-8'), or [{text!r}] if these words "
                "themselves are the text",
            )
    return text


def many_lines(text: Lines, name: str = "text") -> Iterator[str]:
    """`lines_of`, where one text alone makes no sense: a str is refused."""
    if isinstance(text, str):
        one_text(text, name)
        cure = f"give Path({text!r})" if len(text) < 100 and not set(text) & {" ", "\n"} else "give Path('file')"
        raise UserError(f"{name} is one str, not lines of text", cure=f"{cure}, or a list of lines")
    return lines_of(text, name)


def words_of(words: str | Iterable[str], name: str = "words") -> list[str]:
    """One word, or several."""
    if isinstance(words, str):
        return [words]
    if isinstance(words, set | frozenset):  # each by itself: sorted, so that it is the same every time
        words = sorted(words, key=str)
    return list(lines_of(words.keys() if isinstance(words, Mapping) else words, name))  # a dict keeps their order


def both_sides(source: Lines, target: Lines | None) -> tuple[Lines, Lines]:
    """A source and its target; of a source that is a table by its name, the target may be the same file."""
    if target is not None:
        return source, target
    if isinstance(source, PathLike) and (table := same_table([fspath(source)])):
        return source, Path(table[0])
    raise UserError("there is no target text beside the source", cure="give source and target, line for line")


def pairs_of(source: str | Lines, target: str | Lines | None) -> Iterator[tuple[str, str]]:
    """Lines that belong together, one pair for two str. Numbers of lines that differ are refused: at once where they
    are known, else at the end of the shorter side."""
    source, target = both_sides(source, target)
    for one, name, other, many in ((source, "source", target, "target"), (target, "target", source, "source")):
        if isinstance(one, str) and not isinstance(other, str):
            one_text(one, name)
            raise UserError(f"{name} is one text and {many} is {_kind(other)}", cure=f"give {name} as a list too")
    sides = lines_of(source, "source"), lines_of(target, "target")
    return pairs_in_step(sides, (source, target), ("source", "target"))


def pairs_in_step(
    sides: tuple[Iterator[str], Iterator[str]], given: tuple[Any, Any], names: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Two sides together, line by line; `given`: what they were made of, whose lengths may be known."""
    sizes = [len(one) if isinstance(one, Sized) and not isinstance(one, str) else None for one in given]
    if None not in sizes and sizes[0] != sizes[1]:
        raise _lengths_differ(names, f"{sizes[0]:,}", f"{sizes[1]:,}")
    return _in_step(sides, names)


def _in_step(sides: tuple[Iterator[str], Iterator[str]], names: tuple[str, str]) -> Iterator[tuple[str, str]]:
    first, second = sides
    number = 0
    for one in first:
        other = next(second, None)
        if other is None:
            raise _lengths_differ(names, _number(number + 1, first), f"{number:,}")
        yield one, other
        number += 1
    if next(second, None) is not None:
        raise _lengths_differ(names, f"{number:,}", _number(number + 1, second))


def _number(read: int, rest: Iterator[Any]) -> str:
    more = sum(1 for _ in islice(rest, MOST_COUNTED))
    return f"{'more than ' * (more == MOST_COUNTED)}{read + more:,}"


def _lengths_differ(names: tuple[str, str], first: str, second: str) -> UserError:
    what = f"{names[0]} has {first} line{'s' * (first != '1')} and {names[1]} has {second}"
    return UserError(what, cure=f"line n of {names[1]} must belong to line n of {names[0]}")


def path_of(path: Any, name: str) -> Path:
    """One path."""
    if not isinstance(path, str | PathLike):
        raise UserError(f"{name} is {_kind(path)}, not the path of a file or folder", cure="give a str or a Path")
    return Path(fspath(path))


def paths_of(paths: Any, name: str) -> list[Path]:
    """Several paths; one alone is a list of one."""
    if isinstance(paths, str | PathLike | bytes) or not isinstance(paths, Iterable):
        return [path_of(paths, name)]
    return [path_of(path, f"{name}[{place}]") for place, path in enumerate(paths)]


def files_of(files: Any, name: str) -> list[str]:
    """The names of files that a text is read from, one or several: text itself is refused, and so is an open file."""
    if files is None:
        return []
    if isinstance(files, str | PathLike):
        return [_file_name(files, name)]
    if hasattr(files, "readline"):
        path = getattr(files, "name", None)
        cure = f"give Path({path!r})" if isinstance(path, str) else "write it to a file first"
        raise UserError(f"{name} is an open file, and files are read by their names", cure=cure)
    _refuse_what_is_no_text(files, name)
    if not isinstance(files, Iterable):
        raise UserError(f"{name} is {_kind(files)}, not the name of a file", cure="give a path, or several")
    return [_file_name(file, f"{name}[{number}]") for number, file in enumerate(files)]


def _file_name(file: Any, name: str) -> str:
    if not isinstance(file, str | PathLike):
        raise UserError(f"{name} is {_kind(file)}, not the name of a file", cure="write text to a file first")
    path = str(fspath(file))
    if isinstance(file, str) and _reads_like_text(path):
        what = f"{name} is no file but text: {shown.repr(path)}"
        raise UserError(what, cure="write the lines to a file, and give its name")
    return path


def _reads_like_text(name: str) -> bool:
    """Whether this is a line of text rather than the name of a file: blanks in it, and no suffix that a file has."""
    if "\n" in name:
        return True
    suffix = Path(name).suffix
    if not set(name) & {" ", "\t"} or (suffix not in ("", ".") and " " not in suffix):
        return False
    with suppress(OSError, ValueError):
        return not Path(name).exists() and not Path(name.rpartition("#")[0] or name).exists()
    return True


# -- one thing after the other -----------------------------------------------------------------------------------------


def _of_file(path: str, name: str) -> Iterator[str]:
    side = name if name in ("source", "target") else "text"
    lines = read_column([path], side, Counter(), strict=False)
    return chain(list(islice(lines, 1)), lines)  # a file that is not there is refused now


def _checked(items: Iterator[Any], name: str, *, is_file: bool) -> Iterator[str]:
    try:
        for number, item in enumerate(items):
            line = item if type(item) is str else _line(item, name, number)
            yield line.removesuffix("\n").removesuffix("\r") if is_file else line
    except UnicodeDecodeError as error:
        what = f"{name} is an open file that is not {error.encoding} (byte 0x{error.object[error.start]:02X})"
        raise UserError(what, cure="open it with its encoding: open(file, encoding='utf-8')") from None


def _line(item: Any, name: str, number: int) -> str:
    if isinstance(item, str):
        return item
    where = f"{name}[{number}]"
    if isinstance(item, bytes | bytearray):
        cure = "decode it: line.decode('utf-8'); or open the file as text"
        raise UserError(f"{where} is bytes, not text", cure=cure)
    if hasattr(item, "as_py"):  # a value of an Arrow column
        return _line(item.as_py(), name, number)
    if str(item) in MISSING:
        raise UserError(f"{where} is missing ({item})", cure='leave such rows out (dropna), or make them ""')
    cure = "give a list of str, one for each line"
    raise UserError(f"{where} is {_kind(item)}, not text: {shown.repr(item)}", cure=cure)


def _refuse_what_is_no_text(text: Any, name: str) -> None:
    """Containers whose items are no lines, though Python iterates over them."""
    if isinstance(text, bytes | bytearray | memoryview):
        raise UserError(f"{name} is bytes, not lines of text: {shown.repr(text)}", cure="decode it: .decode('utf-8')")
    names = getattr(text, "column_names", None) or getattr(text, "columns", None)  # Arrow's and pandas' words
    if names is not None and hasattr(text, "shape"):
        columns = ", ".join(map(repr, list(names)[:5]))
        raise UserError(f"{name} is a table, not one column of text", cure=f"choose one of {columns}")
    if isinstance(text, set | frozenset):
        cure = "give a list: line n of one belongs to line n of another, and results come in its order"
        raise UserError(f"{name} is {_kind(text)}, which has no order", cure=cure)
    if isinstance(text, Mapping):
        keys = ", ".join(map(repr, list(text)[:5]))
        raise UserError(f"{name} is {_kind(text)}, not lines of text", cure=f"choose one of {keys or 'none'}")


def _no_text(text: Any, name: str) -> UserError:
    said = f": {shown.repr(text)}" if text is not None else ""
    return UserError(f"{name} is {_kind(text)}, not lines of text{said}", cure="give a str or a list of str")


def _kind(value: Any) -> str:
    """What a value is, with its article."""
    return "None" if value is None else f"{article(type(value).__name__)} {type(value).__name__}"


def article(name: str) -> str:
    """a or an."""
    return "an" if name[:1].lower() in "aeiou" else "a"
