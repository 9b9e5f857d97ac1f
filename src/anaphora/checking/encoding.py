"""Damaged characters: which a line has, and how they are mended where there is only one way to.

Mojibake is UTF-8 that was read as Latin-1 or Windows-1252 and saved as UTF-8 again: "Ã¤" for "ä", "â€™" for "’". Each
such run of characters, taken as Windows-1252 bytes, is valid UTF-8 again. By chance that happens to honest text too
(an Ü before a closing quote), so a single run must also decode to a character that is common where such accidents
happen; two runs in a row are proof enough for any script.
"""

from __future__ import annotations

import re

from anaphora.checking.file_reading import Problems
from anaphora.data.formats import SEPARATORS

CONTROLS = re.compile(r"[\x01-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufeff]")
ODD = re.compile(rf"[\x00-\x08\x0a-\x1f\x7f-\x9f{SEPARATORS}\ufeff\ufffd\ud800-\udfff]")

_BYTE_OF = {
    **{chr(byte): byte for byte in range(0x80, 0x100)},
    **{bytes([b]).decode("cp1252"): b for b in range(0x80, 0xA0) if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
}
_CONTINUES = "".join(re.escape(character) for character, byte in _BYTE_OF.items() if 0x80 <= byte < 0xC0)
_RUN = rf"(?:[\u00c2-\u00df][{_CONTINUES}]|[\u00e0-\u00ef][{_CONTINUES}]{{2}}|[\u00f0-\u00f4][{_CONTINUES}]{{3}})"
_RUNS = re.compile(rf"{_RUN}+")
_QUOTES = "“”‘’„‚«»‹›…–—•\u00a0"  # what may honestly follow a capital letter
_COMMON = re.compile(r"[\u00a0-\u00ff\u0100-\u017f\u2010-\u2027\u2030-\u203a\u20ac\u2122\ufb01\ufb02]+")


def _decode(run: str) -> str | None:
    try:
        return bytes(_BYTE_OF[character] for character in run).decode()
    except UnicodeDecodeError:
        return None


def mend_mojibake(text: str) -> str:
    """
    >>> mend_mojibake("fÃ¼r die StraÃŸe, itâ€™s")
    'für die Straße, it’s'
    >>> mend_mojibake("ein „Ü“ und à « »")
    'ein „Ü“ und à « »'
    """

    def mend(match: re.Match[str]) -> str:
        run = match.group()
        decoded = _decode(run)
        if decoded is None:
            return run
        if len(decoded) > 1:
            return decoded
        common = _COMMON.fullmatch(decoded) and not (len(run) == 2 and run[0] not in "ÃÂ" and run[1] in _QUOTES)
        return decoded if common else run

    return _RUNS.sub(mend, text)


def look(number: int, text: str, problems: Problems) -> None:
    """Note the problems of one line (from 0)."""
    if text.isascii() and text.isprintable():
        return
    if ODD.search(text):
        if "\0" in text:
            problems.setdefault("nul", []).append(number)
        if "\ufffd" in text:
            problems.setdefault("replacement", []).append(number)
        if any(separator in text for separator in SEPARATORS):
            problems.setdefault("separator", []).append(number)
        if CONTROLS.search(text) and mend_mojibake(text) == text:
            problems.setdefault("control", []).append(number)
    if _RUNS.search(text) and mend_mojibake(text) != text:
        problems.setdefault("mojibake", []).append(number)


def mend(text: str) -> str | None:
    """The line as it was meant; None where characters are lost."""
    if text.isascii() and text.isprintable():
        return text
    if "\ufffd" in text or re.search("[\ud800-\udfff]", text):
        return None
    for _ in range(3):  # some text went through it twice
        text, before = mend_mojibake(text), text
        if text == before:
            break
    text = CONTROLS.sub("", text.replace("\0", ""))
    for separator in SEPARATORS:
        text = text.replace(separator, " ")
    return text
