"""Public names of a package that are imported when they are first used.

    if TYPE_CHECKING:
        from anaphora.nn.attention import MultiHeadAttention, attend
    else:
        __getattr__, __dir__ = resolved_when_used(__name__)

    __all__ = ["MultiHeadAttention", "attend"]

Type checkers and editors read the imports; Python reads them only when somebody asks for a name, from the text of the
file, so that they are written once and `import anaphora` costs nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def resolved_when_used(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562)."""

    def get(name: str) -> Any:
        where = imports_for_type_checkers(package).get(name)
        if where is None or name not in sys.modules[package].__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{nearest_of(name, package)}")
        module, own = where
        return import_module(f"{package}.{own}") if module == package else getattr(import_module(module), own)

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names


def nearest_of(name: str, package: str) -> str:
    """ "; did you mean …?", where a public name is near."""
    from anaphora.errors import meant

    near = "" if name.startswith("_") else meant(name, sys.modules[package].__all__)
    return f"; {near}" if near else ""


@cache
def imports_for_type_checkers(package: str) -> dict[str, tuple[str, str]]:
    """{public name: (module, its name there)}: what a package imports below `if TYPE_CHECKING`."""
    tree = ast.parse(Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8"))
    return {
        one.asname or one.name: (str(line.module), one.name)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for one in line.names
    }
