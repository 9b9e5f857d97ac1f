"""Vocabularies in files: lists of words, one a line, as SRILM and KenLM have them; a tokenizer.json, word by word."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from json.encoder import encode_basestring
from pathlib import Path

from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BLANKS, SPECIALS, UNK, Tokenizer

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
"""What such files call the marks that every model has."""
WRITTEN_AT_ONCE = 65_536
"""Words."""


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


def write_word_tokenizer(path: Path, words: Iterable[str], unknown: str = "") -> tuple[int, str]:
    """`Tokenizer.of_words(words, unknown=unknown).save(path)` for any number of words, without holding them.

    Returns the size of the vocabulary and its `vocabulary_fingerprint()`.

    A million words take 300 MB as an object of the library, which a counting run has no room for.
    """
    marks = Tokenizer.of_words([], unknown=unknown).to_json()
    last = f'"{SPECIALS[UNK]}": {UNK}'
    head, _, tail = marks.partition(last)
    digest, size = hashlib.sha256(json.dumps(SPECIALS)[:-1].encode()), len(SPECIALS)
    words = iter(words)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(head + last)
        while some := list(islice(words, WRITTEN_AT_ONCE)):
            file.writelines(
                f",\n      {encode_basestring(' ' + word)}: {id}" for id, word in enumerate(some, start=size)
            )
            digest.update(f", {json.dumps([' ' + word for word in some])[1:-1]}".encode())
            size += len(some)
        file.write(tail)
        file.flush()
        os.fsync(file.fileno())
    digest.update(b"]")
    return size, digest.hexdigest()[:32]
