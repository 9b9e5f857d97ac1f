"""Errors that carry a cure.

A user's own mistake is a `UserError`: one clear sentence saying what is wrong, where (file and line, when there is
one), and what to do about it. The command line prints it and exits with code 2, never with a traceback. Everything
else that goes wrong is ours: an ordinary exception, a traceback, exit code 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from os import PathLike


class UserError(Exception):
    """What the user can mend: `UserError("the file is empty", file="train.de", cure="give it at least two lines")`."""

    exit_code = 2

    def __init__(
        self, what: str, *, file: str | PathLike[str] | None = None, line: int | None = None, cure: str | None = None
    ) -> None:
        self.what = what
        self.file = None if file is None else str(file)
        self.line = line  # 1-based, as editors count
        self.cure = cure
        super().__init__(what)

    def __str__(self) -> str:
        where = "" if self.file is None else f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "
        cure = "" if self.cure is None else f"; {self.cure}"
        return f"{where}{self.what}{cure}"


def nearest(name: str, known: Iterable[str]) -> str:
    """A cure for a misspelt name: "did you mean 'heads'?", or the list of what there is."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
