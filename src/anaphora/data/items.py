"""Sequences of items: one a line, its items parted by tabs or by blanks.

A reader's books, the products of a basket, the tags of a picture: whatever comes in sequences can have vectors as words
have. Where a file has tabs, they part the items, and blanks belong to them ("War and Peace"): such a blank becomes a
no-break space here, so that an item stays one word for all that reads words, and a blank again in its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from anaphora.data.formats import read_blocks

NO_BREAK = "\u00a0"
SURROUNDING_BLANKS = re.compile(rb" *\t *|^ +| +$", re.MULTILINE)
"""Blanks that are no part of an item."""


def read_items(files: list[str], notes: Counter[str]) -> Iterator[bytes]:
    """The lines of `read_blocks`, each item one word."""
    for name in files:
        tabs: bool | None = None
        for block in read_blocks([name], "items", notes):
            tabs = b"\t" in block if tabs is None else tabs
            yield whole(block) if tabs else block


def whole(block: bytes) -> bytes:
    """Lines of items between tabs, with no blank but between two items."""
    tidy = SURROUNDING_BLANKS.sub(lambda found: b"\t" if b"\t" in found[0] else b"", block)
    return tidy.replace(b" ", NO_BREAK.encode())


def item_name(word: str) -> str:
    """An item as people write it."""
    return word.replace(NO_BREAK, " ")
