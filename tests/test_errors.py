"""Errors: one line that any terminal can show, with a cure for whatever the system refuses."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import anaphora
from anaphora.errors import CURES, UserError, at_a_shell, nearest, option, refused_by_system
from anaphora.folder import check_new_file


def test_where_what_and_cure() -> None:
    assert str(UserError("is odd", file="a.de", line=3, cure="mend it")) == "a.de:3: is odd; mend it"
    assert str(UserError("is odd", file="a.de")) == "a.de: is odd"
    assert str(UserError("is odd")) == "is odd"


@pytest.mark.parametrize("name", ["new\nline", "\x1b[31mred", "bell\a", os.fsdecode(b"\xff"), "a\u2028b"])
def test_no_name_breaks_the_line_or_the_terminal(name: str) -> None:
    said = str(UserError("is odd", file=name))
    assert said.isprintable()
    said.encode()


def test_a_librarys_paragraph_becomes_a_sentence() -> None:
    assert str(UserError("cannot be used (\n\nplease install\n  it)")) == "cannot be used ( please install it)"
    assert str(UserError("schön, 日本 – “so”")) == "schön, 日本 – “so”"


@pytest.mark.parametrize("number", CURES)
def test_every_refusal_has_its_reason_and_cure(number: int) -> None:
    error = refused_by_system(OSError(number, os.strerror(number)), "cannot be written", file="run")
    assert str(error) == f"run: cannot be written ({os.strerror(number)}); {CURES[number]}"


def test_other_refusals_have_a_cure_too() -> None:
    assert refused_by_system(OSError(errno.EXDEV, "odd"), "no").cure == "choose another place"
    assert refused_by_system(OSError("no number"), "no").what == "no (no number)"


def test_the_nearest_name() -> None:
    assert nearest("haeds", ["heads", "layers"]) == "did you mean 'heads'?"
    assert nearest("zzz", ["heads", "layers"]) == "known: heads, layers"
    assert nearest(3, ["heads"]) == "known: heads"
    assert len(nearest("x" * 10**6, [f"name{number}" for number in range(1000)])) < 600


# Options are named as the reader types them ---------------------------------------------------------------------------


def test_an_option_as_the_reader_types_it() -> None:
    assert option("beam") == "beam" and option("beam", 4) == "beam=4" and option("recipe", "lstm") == "recipe='lstm'"
    assert option("force", True) == "force=True" and option("json", python="the trace") == "the trace"
    with at_a_shell():
        assert option("beam") == "--beam" and option("beam", 4) == "--beam 4"
        assert option("recipe", "lstm") == "--recipe lstm" and option("valid_text") == "--valid-text"
        assert option("force", True) == "--force" and option("start_from", "run") == "--from run"
        assert option("words", "WORD", shell="--word WORD") == "--word WORD"
    assert option("beam", 4) == "beam=4"


def test_one_mistake_is_said_in_both_ways(tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"choose another file or add force=True$"):
        check_new_file(tmp_path / "there.txt", force=False)
    with at_a_shell(), pytest.raises(UserError, match=r"choose another file or add --force$"):
        check_new_file(tmp_path / "there.txt", force=False)


SOURCES = Path(anaphora.__file__).parent
COMMAND = re.compile(r"anaphora (?:\w+|\{\}) ?[^;`]*$|anaphora $")
"""A command line up to one of its options: whole commands are what they are for every reader."""
COMMANDS = {"errors.py", "models/__init__.py"}
"""Where options are made, and where such a command is put together piece by piece."""


def flags(tree: ast.AST) -> Iterator[str]:
    """The strings that people may read and that hold a --flag outside a whole command; what `option` shows at a shell
    and the arguments of processes aside."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.List | ast.ListComp) or (isinstance(node, ast.keyword) and node.arg == "shell"):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node] if isinstance(node, ast.Constant) else []
        text = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in parts)
        yield from (text for flag in FLAG.finditer(text) if not COMMAND.search(text[: flag.start()]))
        if isinstance(node, ast.JoinedStr):
            yield from (found for one in node.values if isinstance(one, ast.FormattedValue) for found in flags(one))
        else:
            yield from flags(node)


FLAG = re.compile(r"(?<![\w-])--[a-z{]")


def test_the_library_names_no_flag_of_the_command_line() -> None:
    files = [path for path in SOURCES.rglob("*.py") if path.relative_to(SOURCES).parts[0] != "cli"]
    names = {path: str(path.relative_to(SOURCES)) for path in files}
    found = {names[path]: list(flags(ast.parse(path.read_text(encoding="utf-8")))) for path in files}
    assert {name: texts for name, texts in found.items() if texts and name not in COMMANDS} == {}
