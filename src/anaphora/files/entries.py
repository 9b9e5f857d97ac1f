"""Entries that stand beside what they name, and are read from the text of their files.

    LSTM = EncoderEntry(
        kind="lstm",
        settings="anaphora.nn.recurrence_settings:LstmConfig",
    )

A list of all such entries then costs no import, whatever else their files hold: `--help` and the settings of a run stay
free of torch. What an entry names is imported when it is asked for (`loaded`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def loaded(path: str | Callable[..., Any]) -> Any:
    """What "module:name" names."""
    if not isinstance(path, str):
        return path
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def read_entries(cls: type[T], *folders: Path) -> Iterator[T]:
    """The entries `NAME = cls(…)` in the Python files below these folders, read as the literals they are."""
    begins = f"= {cls.__name__}(\n"
    entry = re.compile(rf"^\w+ {re.escape(begins)}.*?^\)$", re.MULTILINE | re.DOTALL)
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            for found in entry.findall(text) if begins in text else ():
                call = ast.parse(found).body[0].value
                yield cls(**{word.arg: ast.literal_eval(word.value) for word in call.keywords})
