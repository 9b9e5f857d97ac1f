"""What `--help` looks like: flags without a value, paragraphs that fill the line, examples together at the end."""

from __future__ import annotations

import inspect
import os
import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from anaphora.cli import completion

PROGRAMS = ("anaphora ", "echo ")
"""What a paragraph begins with that is an example."""
WIDTH_COLUMNS = 78


class _Plain:
    """A command whose help is the docstring of its function, laid out again."""

    help: str | None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if self.help:
            self.help = laid_out(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters; a flag takes no value, so the column for types is empty."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class Verb(_Plain, TyperCommand):
    """One verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        if completion.ASKED in os.environ:
            completion.give(params, str(self.name))
        return params


class Front(_Plain, TyperGroup):
    """All of them."""


def laid_out(text: str) -> str:
    """Each paragraph in one line, which the terminal breaks; examples last, broken as a shell reads them."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n")]
    examples = [paragraph for paragraph in paragraphs if paragraph.startswith(PROGRAMS)]
    prose = [paragraph for paragraph in paragraphs if paragraph not in examples]
    if examples:
        prose.append("\n".join(["Examples:" if len(examples) > 1 else "Example:", *map(_example, examples)]))
    return "\n\n".join(prose)


def _example(command: str) -> str:
    """A command to copy, in lines of at most 78 columns that end between options."""
    lines = ["$"]
    for piece in re.split(r" (?=--?[a-z])", command):
        if len(lines[-1]) + len(piece) + 1 > WIDTH_COLUMNS - len(" \\"):
            lines.append("     ")
        lines[-1] += f" {piece}"
    return " \\\n".join(lines)
