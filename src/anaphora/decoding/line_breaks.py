"""One line in, one line out: what would break a line, or be no text."""

from __future__ import annotations

import re

LINE_BREAKS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
SURROGATES = re.compile("[\ud800-\udfff]")  # halves of characters: no UTF-8 exists for them


def clean(line: str) -> str:
    """Without its line end, and with U+FFFD for what is no character (files read with surrogateescape hold such)."""
    return SURROGATES.sub("\ufffd", line.rstrip("\r\n"))


def one_line(text: str) -> str:
    """Every character that begins a new line, to whichever tool, becomes a space."""
    return LINE_BREAKS.sub(" ", text)
