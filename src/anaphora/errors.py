"""Errors that carry a cure.

A user's own mistake is a `UserError`: one clear sentence saying what is wrong, where (file and line, when there is
one), and what to do about it. The command line prints it and exits with code 2, never with a traceback. Everything
else that goes wrong is ours: an ordinary exception, a traceback, exit code 1.

Options are named as the reader types them (`option`), in Python or at a shell.
"""

from __future__ import annotations

import errno
import re
import reprlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike


class _Shown(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # Python refuses to write numbers of so many digits
            return "a number of thousands of digits"


shown = _Shown()
"""Writes any value, however long, deep or self-referring, in a few words."""
shown.maxstring = shown.maxother = shown.maxlong = 60
shown.maxlevel = 2  # six of six of six … would be pages


MOST_LISTED = 2000
"""Characters of a list of known names that is shown whole: the settings of any section are, a vocabulary is not."""


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
        what = " ".join(self.what.split()) if "\n" in self.what else self.what  # a library's paragraph
        return printable(f"{where}{what}{cure}")


CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What a terminal would obey instead of showing it, and bytes of file names that are no text; not newline and tab."""


def printable(text: str, *, lines: bool = False) -> str:
    """One line that any terminal can show: control characters, and bytes of file names that are no text, escaped.
    lines: or several, in any script, which keep their ends, their tabs, and what joins letters or turns them round."""
    if text.isprintable():
        return text
    if lines:
        return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return "".join(c if c.isprintable() or c == "\u00a0" else c.encode("unicode_escape").decode() for c in text)


_at_a_shell = False
FLAGS = {"start_from": "from", "topn": "top"}
"""Parameters that the command line has under another name."""


@contextmanager
def at_a_shell() -> Iterator[None]:
    """While it lasts, whoever reads the messages types commands, and is told of options as these have them."""
    global _at_a_shell
    before, _at_a_shell = _at_a_shell, True
    try:
        yield
    finally:
        _at_a_shell = before


def option(name: str, value: object = None, *, shell: str | None = None, python: str | None = None) -> str:
    """How whoever reads a message types an option: option("beam", 4) is `beam=4` in Python, `--beam 4` at a shell.

    Without a value, its name. shell, python: what is written there where that is not told by name and value.
    """
    if not _at_a_shell:
        return python or (name if value is None else f"{name}={value!r}")
    flag = f"--{FLAGS.get(name, name).replace('_', '-')}"
    return shell or (flag if value is None or value is True else f"{flag} {value}")


def nearest(name: object, known: Iterable[str]) -> str:
    """A cure for a misspelled name: "did you mean 'heads'?", or the list of what there is."""
    known = sorted(known)
    listed = ", ".join(known)
    return meant(name, known) or f"known: {listed if len(listed) <= MOST_LISTED else listed[:500] + ' …'}"


def meant(name: object, known: Iterable[str]) -> str | None:
    """ "did you mean 'heads'?", where a known name is near."""
    written = name if isinstance(name, str) else shown.repr(name)  # a few YAML aliases may stand for a billion items
    close = get_close_matches(written[:100], known, n=1, cutoff=0.5)  # comparing endless names would take as long
    return f"did you mean {close[0]!r}?" if close else None


UPGRADE = "install a newer version of Anaphora; `anaphora --version` shows which one this is"
"""What to do with what a newer one wrote."""
SPACE = "free some space there or choose another disk; what was saved before is whole"
RIGHTS = "choose a folder that you may write to"
CURES = {
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f) or choose another disk",
    errno.EROFS: RIGHTS,
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EBADF: "it is closed; give it a file or a pipe (leave out <&- and >&-)",
    errno.EIO: "check the disk; copy what matters to another one",
    errno.ESTALE: "the network disk has gone; wait for it and repeat the command",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its links point at one another; name the real file",
    errno.ENOTDIR: "a part of that path is a file, not a folder; check the path",
    errno.EEXIST: "something else has that name; move it away",
    errno.EISDIR: "it is a folder; name a file",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENXIO: "it is a pipe or device that nobody serves; name a file",
}
"""What to do about what the operating system refuses, by its error number."""


def refused_by_system(error: OSError, what: str, *, file: str | PathLike[str] | None = None) -> UserError:
    """The operating system's refusal (a full disk, a read-only folder) as one sentence with its cure."""
    reason = error.strerror or str(error)
    return UserError(f"{what} ({reason})", file=file, cure=CURES.get(error.errno or 0, "choose another place"))


def first_line(error: BaseException) -> str:
    """What a library says, without the pages that some add."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def told_by_line(error: BaseException, files: Collection[str]) -> UserError | None:
    """What went wrong in one of these Python files, the user's own, at the last of its lines on the way there; None:
    elsewhere."""
    import traceback
    from pathlib import Path

    frames = [(one.filename, one.lineno) for one in traceback.extract_tb(error.__traceback__) if one.filename in files]
    said = type(error).__name__ + (f": {first_line(error)}" if str(error).strip() else "")
    if isinstance(error, SyntaxError) and error.filename in files:
        frames, said = [(str(error.filename), error.lineno)], f"{type(error).__name__}: {error.msg}"
    if not frames:
        return None
    file, line = Path(frames[-1][0]), frames[-1][1]
    file = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    if isinstance(error, UserError):  # a sentence already, of what may stand elsewhere
        return error if error.file else UserError(error.what, file=file, line=line, cure=error.cure)
    return UserError(said, file=file, line=line)
