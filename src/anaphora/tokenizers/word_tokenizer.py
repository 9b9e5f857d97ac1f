"""A tokenizer of words between blanks, read and written without the library: its vocabulary goes from the file into a
table of bytes, and from any stream of words into a file.

Half a million words take the library seconds to read, and hundreds of megabytes as Python objects; a model that only
scores lines needs neither. So the file is read here, block by block, into the hash table that looks words up
(word_ids.py); the library is asked for what is left, which is next to nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from json.encoder import encode_basestring
from pathlib import Path

from anaphora.data.word_ids import WordIds
from anaphora.errors import UserError
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, parse_json, read_bytes
from anaphora.tokenizers.tokenizer import SPECIALS, UNK, Tokenizer
from tokenizers import Tokenizer as RustTokenizer

READ_AT_ONCE = 1 << 20
"""Bytes of the vocabulary."""
WRITTEN_AT_ONCE = 65_536
"""Words."""


class WordTokenizer(Tokenizer):
    """The tokenizer of a file (kind: word, split: blanks, fallback: unk), as `Tokenizer.load` would have it."""

    def __init__(self, path: Path, words: WordIds, fingerprint: str, unknown: str) -> None:
        self.path, self.words, self.unknown = path, words, unknown
        self._fingerprint = fingerprint
        self.kind, self.has_unknown = "word", True
        self.vocabulary_size = len(SPECIALS) + words.words

    @cached_property
    def rust(self) -> RustTokenizer:  # type: ignore[override]
        """The library's own, for whoever needs it after all."""
        return Tokenizer.load(self.path).rust

    @property
    def split(self) -> str:
        return "blanks"

    def vocabulary_fingerprint(self) -> str:
        return self._fingerprint

    def token(self, id: int) -> str:
        if not 0 <= id < self.vocabulary_size:
            raise IndexError(f"no token {id}: the vocabulary has {self.vocabulary_size}")
        return SPECIALS[id] if id < len(SPECIALS) else f" {self.words.word(int(id) - len(SPECIALS))}"

    def encode(self, text: str) -> list[int]:
        return self.words.ids(text.replace("\n", " ").encode(), framed=False)[:-1].tolist()

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.unknown if id == UNK else self.token(id)[1:] for id in self._spoken(ids))

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]


def open_tokenizer(path: Path) -> Tokenizer:
    """`Tokenizer.load`, the quick way where there is one."""
    return _read(path) or Tokenizer.load(path)


def _read(path: Path) -> WordTokenizer | None:
    """Nothing, if the file is any other than `Tokenizer.of_words(…).save` writes."""
    try:
        text = read_bytes(path, MAX_LARGE_FILE_BYTES)
        last = f'"{SPECIALS[UNK]}": {UNK}'.encode()
        begin = text.index(last) + len(last)
        end = text.index(b"\n    }", begin)  # a newline inside a word is written as \n
        frame = (text[:begin] + text[end:]).decode()
        unknown = Tokenizer.from_json(frame).decode([UNK])
        if frame != Tokenizer.of_words([], unknown=unknown).to_json():
            return None
        words, digest, at = WordIds(), hashlib.sha256(json.dumps(SPECIALS)[:-1].encode()), begin
        while at < end:  # entries are parted by a comma and a newline
            cut = text.find(b",\n", at + READ_AT_ONCE, end)
            cut = end if cut < 0 else cut
            found: dict[str, int] = parse_json(b"{" + text[at + 1 : cut] + b"}")
            first = len(SPECIALS) + words.words
            names = list(found)
            if list(found.values()) != list(range(first, first + len(found))) or any(name[:1] != " " for name in names):
                return None
            words.learn([name[1:] for name in names])
            digest.update(f", {json.dumps(names)[1:-1]}".encode())
            at = cut
    except (OSError, ValueError, UserError):  # whatever is wrong with it, `load` says it better
        return None
    words.complete = True
    digest.update(b"]")
    return WordTokenizer(path, words, digest.hexdigest()[:32], unknown)


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
