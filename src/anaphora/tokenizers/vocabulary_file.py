"""Vocabularies in files: lists of words, one a line, as SRILM and KenLM have them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from anaphora.errors import UserError
from anaphora.tokenizers.frames import BLANKS

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
"""What such files call the marks that every model has."""


def read_vocabulary(path: str | os.PathLike[str], unknown: str = "") -> list[str]:
    """The ordinary words of a vocabulary file, in its order; `unknown` is what the text calls a word that is none.

    It must name the marks <s> and </s>: a list that lacks them was made for something else, and a model without them
    could neither begin nor end a line. <unk> may stand there. The three are no ordinary words, whatever the text has.
    """
    from anaphora.data.formats import read_column, refuse_stream

    refuse_stream(Path(path))
    words: dict[str, None] = {}
    for line, text in enumerate(read_column([str(path)], "text", Counter()), start=1):
        word = text.strip(BLANKS)
        if any(blank in word for blank in BLANKS):
            raise UserError(
                f"this line has more than one word: {word!r}", file=path, line=line, cure="write one word a line"
            )
        if word:
            words[word] = None
    missing = [mark for mark in (BEGIN, END) if mark not in words]
    if missing:
        raise UserError(
            f"this vocabulary lacks {' and '.join(missing)}, the mark{'s' * (len(missing) > 1)} of where a line "
            f"{' and '.join({BEGIN: 'begins', END: 'ends'}[mark] for mark in missing)}",
            file=path,
            cure=f"add the line{'s' * (len(missing) > 1)} {' and '.join(missing)}",
        )
    ordinary = [word for word in words if word not in (BEGIN, END, UNKNOWN, unknown)]
    if not ordinary:
        raise UserError("this vocabulary has no word but its marks", file=Path(path), cure="write one word a line")
    return ordinary
