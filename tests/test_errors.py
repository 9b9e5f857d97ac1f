"""Errors: one line that any terminal can show, with a cure for whatever the system refuses."""

from __future__ import annotations

import errno
import os

import pytest

from anaphora.errors import CURES, UserError, nearest, refused_by_system


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
