"""Raw text as words between blanks: punctuation set apart from the words it touches, and, if wished, lower case.

    "He said: “Go, king!”"   →   "He said : “ Go , king ! ”"

Word vectors are learned of what stands between blanks, and in text as people write it "king," would be a word of its
own. What a word is, words.py says (`split_words`): letters and digits with hyphens and apostrophes inside; any other
character alone; of scripts without spaces each character. A mark such as <unk> between blanks stays whole.

Compiled code does lines of ASCII, one regular expression those of the Latin, Greek and Cyrillic alphabets, and
`split_words` itself, which is far slower, the rest.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import groupby

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.tokenizers.words import split_words

MARK = r"(?<!\S)</?\w+>(?!\S)"
"""<unk>, <s>, </s>: a word, whatever its characters are."""
ALPHABETIC = re.compile(
    r"[\t-\r -~\u00a0-\u02af\u0370-\u0482\u048a-\u052f\u1e00-\u1fff\u2010-\u2027\u2030-\u203a\u20ac]*"
)
"""Text in which `WORD_PATTERN` finds what `split_words` finds."""
WORD_PATTERN = re.compile(rf"{MARK}|\w+(?:[-'’]\w+)*|[^\w\s]")
MARKS = re.compile(rf"({MARK})")
SPACE, NEWLINE, SLASH, LESS, GREATER, HYPHEN, APOSTROPHE = (ord(one) for one in " \n/<>-'")
WORD_BYTES = np.array([chr(byte).isalnum() or chr(byte) == "_" for byte in range(128)])
BLANK_BYTES = np.array([chr(byte).isspace() for byte in range(128)])


def set_apart(block: bytes, *, lowercase: bool) -> bytes:
    """Whole lines, their words between single blanks."""
    done = []
    for ascii, some in groupby(block.split(b"\n")[:-1], bytes.isascii):
        if ascii:
            lines = b"".join(line + b"\n" for line in some)
            done.append(_ascii(lines.lower() if lowercase else lines))
        else:
            texts = (line.decode() for line in some)
            done.append("".join(f"{_line(text.lower() if lowercase else text)}\n" for text in texts).encode())
    return b"".join(done)


def lower(block: bytes) -> bytes:
    """Whole lines in lower case."""
    return block.lower() if block.isascii() else block.decode().lower().encode()


def _line(text: str) -> str:
    if ALPHABETIC.fullmatch(text):
        return " ".join(WORD_PATTERN.findall(text))
    parts = MARKS.split(text)  # every second one is a mark
    return " ".join(
        word
        for number, part in enumerate(parts)
        for word in ([part] if number % 2 else [found.text for found in split_words(part)])
    )


def _ascii(lines: bytes) -> bytes:
    out = np.empty(2 * len(lines) + 1, np.uint8)
    size = _set_apart(np.frombuffer(lines, np.uint8), WORD_BYTES, BLANK_BYTES, out)
    return out[:size].tobytes()


compiled = partial(njit, cache=True, nogil=True)


@compiled()
def _mark_end(text: NDArray[np.uint8], at: int, word: NDArray[np.bool_], blank: NDArray[np.bool_]) -> int:
    """Where a mark that begins here ends, or `at`."""
    end = at + 1
    if end < len(text) and text[end] == SLASH:
        end += 1
    first = end
    while end < len(text) and word[text[end]]:
        end += 1
    if end == first or end == len(text) or text[end] != GREATER:
        return at
    return end + 1 if end + 1 == len(text) or blank[text[end + 1]] else at


@compiled()
def _set_apart(
    text: NDArray[np.uint8], word: NDArray[np.bool_], blank: NDArray[np.bool_], out: NDArray[np.uint8]
) -> int:
    size, at = 0, 0
    begun = False  # whether the line has a word
    while at < len(text):
        if text[at] == NEWLINE:
            out[size] = NEWLINE
            size, at, begun = size + 1, at + 1, False
            continue
        if blank[text[at]]:
            at += 1
            continue
        end = at
        if text[at] == LESS and (at == 0 or blank[text[at - 1]]):
            end = _mark_end(text, at, word, blank)
        if end == at and word[text[at]]:
            while end < len(text) and word[text[end]]:
                end += 1
                inside = (
                    end + 1 < len(text) and (text[end] == HYPHEN or text[end] == APOSTROPHE) and word[text[end + 1]]
                )
                end += inside
        elif end == at:
            end = at + 1
        if begun:
            out[size] = SPACE
            size += 1
        out[size : size + end - at] = text[at:end]
        size, at, begun = size + end - at, end, True
    return size
