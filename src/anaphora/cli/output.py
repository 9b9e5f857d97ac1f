"""What a person and what a program see: progress and messages on stderr, results on stdout, JSON as the last line."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from anaphora.cli.streams import Steadfast
from anaphora.errors import CONTROL, printable

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on stderr but errors.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]


def program() -> str:
    """How this program is called here, for commands that a person is told to type."""
    name = Path(sys.argv[0]).name
    if name == "__main__.py":
        return f"{Path(sys.executable).name} -m anaphora"
    found = shutil.which(name)
    if found is not None and Path(found).resolve() == Path(sys.argv[0]).resolve():
        return name
    return os.path.relpath(sys.argv[0])


class Output:
    """Where one command speaks."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.quiet = quiet

    @property
    def console(self) -> Console | None:
        """For progress and messages; None when quiet."""
        if self.quiet:
            return None
        from rich.console import Console

        return Console(file=cast("TextIO", Steadfast(sys.stderr)), highlight=False)

    def say(self, text: str) -> None:
        """A message for a person, on stderr."""
        if not self.quiet:
            if sys.stderr.isatty():  # wrapped between words; a file gets the line whole
                text = wrapped(text, shutil.get_terminal_size().columns)
            print(printable(text, lines=True), file=Steadfast(sys.stderr), flush=True)

    def result(self, text: str) -> None:
        """What a person asked to see, on stdout; JSON takes its place where asked for."""
        if not self.as_json:
            print(printable(text, lines=True))

    def text(self, text: str, *, end: str = "\n", flush: bool = False) -> None:
        """A line of the text that was asked for, on stdout: as it is for a file or a program; a terminal gets nothing
        that it would obey instead of showing it."""
        if not self.as_json:
            print(printable(text, lines=True) if sys.stdout.isatty() else text, end=end, flush=flush)

    def finish(self, document: dict[str, Any]) -> None:
        """The command's JSON object, where asked for."""
        if self.as_json:
            print(json_line(document), flush=True)

    @contextmanager
    def bar(self, what: str, total: int | None = None) -> Iterator[Callable[[int], None] | None]:
        """A progress bar on stderr; the block calls what it is given with the number of lines just done."""
        console = self.console
        if console is None or not console.is_terminal:
            yield None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda lines: progress.update(task, advance=lines)


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Lines that are too long, broken between words; what follows a break stands under `indent`."""
    lay = textwrap.TextWrapper(
        max(width, 40), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False, tabsize=8
    )
    return "\n".join(line if len(line) <= width else lay.fill(line) for line in text.split("\n"))


def json_line(document: dict[str, Any]) -> str:
    """One line of JSON; what is no UTF-8 (names of files), and what a terminal would obey, is escaped."""
    line = json.dumps(_finite(document), ensure_ascii=False)
    return line if line.isprintable() else CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value if isinstance(value, str | int | bool | None) else str(value)
