"""Words of a line, where they stand, and which tokens spell them.

People read, align and compare *words*; models read *tokens*, pieces of bytes that may begin with a space, end inside a
word or even inside a character. This module joins the two: `split_words` says which words a line has, `TokenWords`
which of them each token spells.

Two ways to split, named wherever an index of a word is shown. `punctuation`: a word is a run of letters and digits
(with hyphens and apostrophes inside: "twenty-three", "farmer's"), any other character is a word of its own. Scripts
that are written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) have one word a character; combining
marks stay with what they mark, and an emoji of several code points (a family, a flag, a skin tone) is one word.
`whitespace`: what stands between spaces, for text that was tokenized before and for most gold alignments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np

from anaphora.tokenizers.tokenizer import UNK, Tokenizer
from tokenizers import Regex, pre_tokenizers

Split = Literal["punctuation", "whitespace"]
SPLITS: tuple[Split, ...] = ("punctuation", "whitespace")

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ーｰ"
"""Scripts without spaces; the two long-vowel marks belong to Japanese alone, though Unicode calls them common."""
MARKS = r"[\p{M}\x{200C}\x{200D}]*"  # combining marks, and the (non-)joiners of Arabic and Indic scripts
TONE = r"[\p{M}\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}]*"  # variation selectors, skin tones, tags of regional flags
LETTERS = rf"(?:(?![{UNSPACED}])[\p{{L}}\p{{N}}_]{MARKS})+"
PATTERN = "|".join(
    (
        r"[\x{1F1E6}-\x{1F1FF}]{2}",  # a flag
        r"[0-9#*]\x{FE0F}?\x{20E3}",  # a keycap
        rf"(?![\p{{L}}\p{{N}}])\p{{Extended_Pictographic}}{TONE}(?:\x{{200D}}\p{{Extended_Pictographic}}{TONE})*",
        rf"[{UNSPACED}]{MARKS}",
        rf"{LETTERS}(?:[-'’]{LETTERS})*",
        rf"[^\s\x1C-\x1F\x85]{MARKS}",
    )
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word and where it stands: `line[start:end] == text`."""

    text: str
    start: int
    end: int


def split_words(line: str, split: Split = "punctuation") -> list[Word]:
    """The words of a line, in order. Every character that is no white space belongs to exactly one of them."""
    if split == "whitespace":
        words, end = [], 0
        for text in line.split():
            start = line.index(text, end)
            end = start + len(text)
            words.append(Word(text, start, end))
        return words
    pieces = _splitter().pre_tokenize_str(line)
    return [Word(line[start:end], start, end) for _, (start, end) in pieces if not line[start:end].isspace()]


@cache
def _splitter() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(PATTERN), "isolated")


class TokenWords:
    """Which words each token of a tokenizer spells.

    White space may have been moved (a long line is read in pieces, each without the spaces around it), but every other
    byte of the text is spelled by exactly one token, in order: so it is enough to count bytes. Where bytes are lost (an
    unknown token, bytes that are no character) the tokenizer's own offsets or its decoded text are counted instead.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def sizes(self) -> np.ndarray:
        """(V,): bytes of each token that are not white space."""
        spelled = (self.tokenizer.token_bytes(id) for id in range(self.tokenizer.vocabulary_size))
        return np.array([_visible(token) for token in spelled], dtype=np.int64)

    def __call__(
        self,
        ids: Sequence[int] | np.ndarray,
        words: Sequence[Word | str],
        text: str | Callable[[], str] = "",
        replaced: Sequence[str] = (),
    ) -> np.ndarray:
        """(tokens, 2): token t spells the words first … stop - 1; nothing (first = stop) if it is white space.

        `words` are all the words of `text`, which the ids spell; `text` itself (or who tells it) is needed only where
        bytes are lost. `replaced`: what stands in the text for each unknown token, where something else does than the
        tokenizer says.
        """
        ids = np.asarray(ids, dtype=np.int64)
        spelled = [word if isinstance(word, str) else word.text for word in words]
        borders = np.cumsum([0, *(len(word.encode("utf-8", "replace")) for word in spelled)])  # bytes before each word
        if not (ids == UNK).any():
            for count in (self._quick, self._exact):
                ends = count(ids)
                if (int(ends[-1]) if len(ends) else 0) == borders[-1] and len(ends) == len(ids):
                    return _covered(np.concatenate([[0], ends]), borders)
        borders = np.cumsum([0, *(len(word) for word in spelled)])  # from here on, characters
        if replaced:
            new = iter(replaced)
            said = [next(new, "") if id == UNK else self.tokenizer.token(id) for id in ids.tolist()]
            return _covered(np.cumsum([0, *(len("".join(token.split())) for token in said)]), borders)
        text = text if isinstance(text, str) else text()
        return _covered(self._characters(ids, text, int(borders[-1])), borders)

    def _quick(self, ids: np.ndarray) -> np.ndarray:
        """(tokens,): bytes that are not white space up to the end of each token."""
        return np.cumsum(self.sizes[ids])

    def _exact(self, ids: np.ndarray) -> np.ndarray:
        """The same, also where tokens cut a wide space in two; nothing if they spell no text."""
        tokens = [self.tokenizer.token_bytes(id) for id in ids.tolist()]
        try:
            whole = b"".join(tokens).decode("utf-8")
        except UnicodeDecodeError:
            return np.zeros(0, np.int64)
        visible = np.repeat([not c.isspace() for c in whole], [len(c.encode()) for c in whole])  # (bytes,)
        return np.concatenate([[0], np.cumsum(visible)])[np.cumsum([len(token) for token in tokens], dtype=np.int64)]

    def _characters(self, ids: np.ndarray, text: str, total: int) -> np.ndarray:
        """(tokens + 1,): characters, without white space, before each token and after the last."""
        encoding = self.tokenizer.rust.encode(text, add_special_tokens=False)
        if encoding.ids == ids.tolist():
            before = np.cumsum([0, *(not character.isspace() for character in text)])
            ends = before[[end for _, end in encoding.offsets]]
        else:  # what the model said: decode ever longer beginnings
            said = [self.tokenizer.decode(ids[: end + 1].tolist()) for end in range(len(ids))]
            ends = np.array([sum(not character.isspace() for character in beginning) for beginning in said])
        # half a character decodes to U+FFFD, later to nothing more: never backwards, never beyond the end
        return np.concatenate([[0], np.minimum(np.maximum.accumulate(ends), total)])


def _visible(token: bytes) -> int:
    try:
        return len("".join(token.decode("utf-8").split()).encode("utf-8"))
    except UnicodeDecodeError:  # it holds a part of a character; the other parts count as well
        return len(token)


def _covered(places: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Tokens between neighbouring `places`, words between neighbouring `borders`: (tokens, 2) of word numbers."""
    starts, ends = places[:-1], places[1:]
    first = np.searchsorted(borders, starts, side="right") - 1
    stop = np.searchsorted(borders, ends, side="left")
    return np.stack([np.minimum(first, stop), np.where(ends > starts, stop, np.minimum(first, stop))], axis=1)
