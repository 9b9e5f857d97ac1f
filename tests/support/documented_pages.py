"""Commands and Python of README and docs/, as a reader would copy them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```([ \w]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    \S.*\n(?:(?:    .*)?\n)*)", re.MULTILINE)
COMMAND = re.compile(r"\s*(?:\$ )?(?:(?P<given>\S[^|]*?) \| )?(?:\.venv/bin/)?anaphora (?P<rest>.*)")


@dataclass(frozen=True)
class Documented:
    """One command: what is typed after `anaphora`, and what stands before a pipe."""

    page: str
    words: tuple[str, ...]
    given: str = ""

    @property
    def text(self) -> str:
        return shlex.join(self.words)


def pages() -> list[str]:
    """All pages, the README first; what `docs/` only includes is left out."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", *(page for page in docs if page not in ("docs/contributing.md", "docs/changes.md"))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def commands(page: str) -> Iterator[Documented]:
    """Every line of a block that begins with `anaphora`, with or without a prompt or a pipe before it."""
    text = read(page)
    blocks = [body for _, body in FENCED.findall(text)] + INDENTED.findall(FENCED.sub("", text))
    for block in blocks:
        for line in whole_lines(re.sub(r"\\\n\s*", " ", block)):
            if found := COMMAND.fullmatch(line):
                words = shlex.split(found["rest"], comments=True)
                if ">" in words:  # what it prints goes into a file
                    words = words[: words.index(">")]
                yield Documented(page, tuple(words), found["given"] or "")


def whole_lines(block: str) -> Iterator[str]:
    """Lines, joined where a double quote is still open at the end."""
    begun = ""
    for line in block.splitlines():
        begun = f"{begun} {line.strip()}" if begun else line
        if not (COMMAND.fullmatch(begun) and begun.count('"') % 2):
            yield begun
            begun = ""


def python(page: str) -> list[str]:
    """The Python blocks of a page, in order; of a session (`>>>`) what is typed."""
    blocks = [body for kind, body in FENCED.findall(read(page)) if kind.strip() == "python"]
    typed = []
    for block in blocks:
        if ">>> " in block:
            block = "".join(line[4:] + "\n" for line in block.splitlines() if line.startswith((">>> ", "... ")))
        typed.append(block)
    return typed
