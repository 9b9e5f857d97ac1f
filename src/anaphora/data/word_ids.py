"""From lines to ids, quickly: words are what stands between white space, and a hash table over bytes numbers them.

For a counting model the words are the tokens, and finding their ids in a Python dictionary would take longer than
counting all their n-grams. Here the bytes of a text are read once, by compiled code: 10 to 20 million words a second.

White space is what ASCII has of it: space, tab, carriage return, vertical tab, form feed; lines end with a newline. So
the no-break spaces of Unicode stand inside words, as they do for other tools that count n-grams.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.files.foreign import open_file
from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS, UNK, Tokenizer

U32 = NDArray[np.uint32]
EMPTY = np.uint32(0xFFFFFFFF)
BLOCK_BYTES = 1 << 20
"""Bytes of text that are turned into ids at once."""
SPACE, TAB, NEWLINE, RETURN = 32, 9, 10, 13  # vertical tab and form feed stand between newline and return


@njit(cache=True, nogil=True)
def _hash(text: NDArray[np.uint8], begin: int, end: int) -> np.uint64:
    """FNV-1a of text[begin:end], its upper bits mixed into the lower ones, which choose the slot."""
    found = np.uint64(0xCBF29CE484222325)
    for place in range(begin, end):
        found = (found ^ np.uint64(text[place])) * np.uint64(0x100000001B3)
    return found ^ (found >> np.uint64(32))


@njit(cache=True, nogil=True)
def _scan(
    text: NDArray[np.uint8],
    at: int,
    begun: bool,
    framed: bool,
    grow: bool,
    slots: U32,
    hashes: NDArray[np.uint64],
    ends: NDArray[np.int64],
    pool: NDArray[np.uint8],
    ids: U32,
    words: int,
    out: U32,
) -> tuple[int, bool, int, int]:
    """Ids of the words of text[at:] into `out`, ⟨/s⟩ after each line and, if `framed`, ⟨s⟩ before it.

    Word w is pool[ends[w] : ends[w + 1]] and has the id ids[w]; w stands in `slots`, at the word's hash or behind.
    Returns where it stopped (before a new word for which the tables are too small), whether that is inside a line, how
    many words there are now, and how many ids were found.
    """
    mask = np.uint64(len(slots) - 1)
    found = 0
    size = len(text)
    while at < size:
        if not begun:
            begun = True
            if framed:
                out[found] = BOS
                found += 1
        while at < size and text[at] != NEWLINE and (text[at] == SPACE or TAB <= text[at] <= RETURN):
            at += 1
        if at == size or text[at] == NEWLINE:
            out[found] = EOS
            found += 1
            at += 1
            begun = False
            continue
        begin = at
        while at < size and not (text[at] == SPACE or TAB <= text[at] <= RETURN):
            at += 1
        wanted = _hash(text, begin, at)
        slot = wanted & mask
        word = EMPTY
        while slots[slot] != EMPTY:
            other = slots[slot]
            if hashes[other] == wanted and ends[other + 1] - ends[other] == at - begin:
                same = True
                for place in range(at - begin):
                    if pool[ends[other] + place] != text[begin + place]:
                        same = False
                        break
                if same:
                    word = other
                    break
            slot = (slot + np.uint64(1)) & mask
        if word == EMPTY and grow:
            if words + 1 > len(ids) or ends[words] + at - begin > len(pool):
                return begin, begun, words, found
            word = np.uint32(words)
            slots[slot] = word
            hashes[word] = wanted
            pool[ends[words] : ends[words] + at - begin] = text[begin:at]
            ends[words + 1] = ends[words] + at - begin
            ids[word] = len(SPECIALS) + words
            words += 1
        out[found] = UNK if word == EMPTY else ids[word]
        found += 1
    if begun:  # the text ends without a newline
        out[found] = EOS
        found += 1
    return size, False, words, found


@njit(cache=True, nogil=True)
def _fill_slots(slots: U32, hashes: NDArray[np.uint64], words: int) -> None:
    mask = np.uint64(len(slots) - 1)
    for word in range(words):
        slot = hashes[word] & mask
        while slots[slot] != EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = np.uint32(word)


class WordIds:
    """A vocabulary of words that text is looked up in, and that can grow from the text it sees.

    A fresh one gives the ids 4, 5, 6 … in the order in which words come, behind the special tokens.
    """

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        """With `known`, words and their ids: a vocabulary that is complete."""
        self.complete = known is not None
        self.words = 0
        self._hashes, self._ids = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
        self._ends, self._pool = np.zeros(1, np.int64), np.zeros(0, np.uint8)
        self._make_room(words=1 << 15, letters=1 << 18)
        if known:
            self.learn(known)
            self._ids[: self.words] = np.fromiter(known.values(), np.uint32, len(known))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> WordIds:
        """The same ids as a tokenizer (kind: word, split: blanks) gives, quickly."""
        if tokenizer.split != "blanks":
            raise ValueError(f"a tokenizer that splits words by {tokenizer.split} cannot be looked up in bytes")
        known = tokenizer.rust.get_vocab()
        return cls({word[1:]: id for word, id in known.items() if id >= len(SPECIALS)})

    def learn(self, words: Collection[str]) -> None:
        """Put words behind those that are there, each of them a new one."""
        if not words:
            return
        before, letters = self.words, int(self._ends[self.words])
        text = "\n".join(words).encode()
        self._scan(np.frombuffer(text, np.uint8), framed=False, grow=True)
        letters = int(self._ends[self.words]) - letters
        if self.words - before != len(words) or letters + len(words) - 1 != len(text):  # all but the newlines
            odd = next((word for word in words if word.encode().split() != [word.encode()]), None)
            if odd is None:
                raise UserError("a word occurs twice in the vocabulary")
            raise UserError(f"the word {odd!r} of the vocabulary contains white space or is empty")

    def word(self, number: int) -> str:
        """The word of a number."""
        return self._pool[self._ends[number] : self._ends[number + 1]].tobytes().decode()

    def number(self, word: str) -> int | None:
        """Which number a word has, if it is known."""
        (id, *_) = self._scan(np.frombuffer(word.encode(), np.uint8), framed=False, grow=False).tolist()
        return None if id == UNK else id - len(SPECIALS)

    def spelled(self, numbers: NDArray[np.int64]) -> Iterator[str]:
        """Words by their numbers, one after the other."""
        whole = self._pool[: self._ends[self.words]].tobytes()
        for some in np.array_split(numbers, len(numbers) // 65_536 + 1):  # a list of all would take much memory
            for begin, end in zip(self._ends[some].tolist(), self._ends[some + 1].tolist()):
                yield whole[begin:end].decode()

    def give_ids(self, ids: U32) -> None:
        """The id of each word, in the order of their numbers; from now on the vocabulary is complete."""
        self._ids[: self.words] = ids
        self.complete = True

    def ids(self, text: bytes, *, framed: bool = True) -> U32:
        """Each line as ⟨s⟩ w … ⟨/s⟩, or w … ⟨/s⟩ if not `framed`. Words that a complete vocabulary lacks are ⟨unk⟩."""
        return self._scan(np.frombuffer(text, np.uint8), framed=framed, grow=not self.complete)

    def ids_of_lines(self, lines: Iterable[str], *, framed: bool = False) -> tuple[U32, NDArray[np.int64]]:
        """The ids of lines one after the other, and where each begins; line i ends where line i + 1 begins."""
        found = self.ids("\n".join([*lines, ""]).encode(), framed=framed)
        return found, np.concatenate(([0], np.flatnonzero(found == EOS) + 1))

    def read(self, file: Path | BinaryIO, *, framed: bool = True) -> Iterator[U32]:
        """The ids of a whole file, in blocks of whole lines."""
        if isinstance(file, Path):
            with open_file(file) as stream:
                yield from self.read(stream, framed=framed)
            return
        rest: list[bytes] = []  # of a line whose end has not come yet
        while block := file.read(BLOCK_BYTES):
            end = block.rfind(b"\n") + 1
            if end:
                yield self.ids(b"".join((*rest, block[:end])), framed=framed)
                rest = []
            rest.append(block[end:])
        if any(rest):
            yield self.ids(b"".join(rest), framed=framed)

    def _scan(self, text: NDArray[np.uint8], *, framed: bool, grow: bool) -> U32:
        out = np.empty(2 * len(text) + 2, np.uint32)  # an empty line of one byte has two
        at, begun, total = 0, False, 0
        while at < len(text):
            at, begun, self.words, found = _scan(
                text,
                at,
                begun,
                framed,
                grow,
                self._slots,
                self._hashes,
                self._ends,
                self._pool,
                self._ids,
                self.words,
                out[total:],
            )
            total += found
            if at < len(text):
                full = self.words == len(self._ids)
                self._make_room(words=len(self._ids) * (1 + full), letters=len(self._pool) * (2 - full))
        return out[:total].copy()

    def _make_room(self, *, words: int, letters: int) -> None:
        """Larger tables, with what is in them: half of the slots stay free, so that searches are short."""
        self._hashes = np.append(self._hashes, np.zeros(words - len(self._hashes), np.uint64))
        self._ids = np.append(self._ids, np.zeros(words - len(self._ids), np.uint32))
        self._ends = np.append(self._ends, np.zeros(words + 1 - len(self._ends), np.int64))
        self._pool = np.append(self._pool, np.zeros(letters - len(self._pool), np.uint8))
        self._slots = np.full(2 * words, EMPTY, np.uint32)
        _fill_slots(self._slots, self._hashes, self.words)
