"""The directive `public`: what a module of Anaphora exports, written from signatures and docstrings.

    ```{public} anaphora.nn
    ```

gives each name of the module's `__all__`, classes with their own public methods and fields. The docstrings are plain
text with `code` in single backquotes and indented examples; `_restructured` makes reStructuredText of them, which
autodoc reads.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

MARKUP = re.compile(r"(`+)(.+?)\1|([*_|\\])")
MANY = 20
"""Parameters from which on a signature is shortened."""
INDENTED = re.compile(r"^(    +)\S")


class Public(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        module = importlib.import_module(name)
        lines: list[str] = []
        for key in sorted(module.__all__, key=lambda key: inspect.isclass(getattr(module, key))):  # functions first
            lines += _asked(f"{name}.{key}", getattr(module, key))
        parent = nodes.section()
        parent.document = self.state.document
        source = StringList(["```{eval-rst}", *lines, "```"], source=self.get_source_info()[0])
        self.state.nested_parse(source, self.content_offset, parent)
        return parent.children


def _asked(path: str, found: Any) -> list[str]:
    """The autodoc directive for one exported name; a plain value, such as the version, has none."""
    if inspect.isclass(found):
        error = issubclass(found, Exception)
        head = f".. auto{'exception' if error else 'class'}:: {path}"
        return [head, "   :members:", "   :undoc-members:" if dataclasses.is_dataclass(found) else "", ""]
    if callable(found):
        return [f".. autofunction:: {path}", ""]
    return []


def _restructured(_app: Any, _what: str, _name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    """A docstring's lines as reStructuredText, in place: `code` is code, examples are blocks, the rest is prose."""
    made: list[str] = []
    inside = False
    for place, line in enumerate(lines):
        if INDENTED.match(line) and (inside or not place or not lines[place - 1].strip()):
            if not inside:
                made += ["::", ""]
            inside = True
        elif line.strip():
            inside = False
        made.append(line if inside else MARKUP.sub(_escaped, line))
    lines[:] = made


def _briefly(
    _app: Any, what: str, _name: str, found: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """A method that takes every setting of decoding says so in a word, and names its own parameters."""
    if what not in ("function", "method") or signature is None or len(inspect.signature(found).parameters) < MANY:
        return signature, returns
    code = inspect.unwrap(found).__code__
    own = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - {"self"}
    whole = inspect.signature(found)
    if own | {"self"} >= set(whole.parameters):  # no settings of decoding among them
        return signature, returns
    kept = [one for one in whole.parameters.values() if one.name in own]
    kept.append(inspect.Parameter("decoding", inspect.Parameter.VAR_KEYWORD))
    return str(whole.replace(parameters=kept, return_annotation=inspect.Signature.empty)), returns


def _escaped(found: re.Match[str]) -> str:
    return f"``{found[2]}``" if found[2] else f"\\{found[3]}"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public", Public)
    app.connect("autodoc-process-docstring", _restructured)
    app.connect("autodoc-process-signature", _briefly)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
