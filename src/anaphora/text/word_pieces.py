"""Which tokens a word is, where somebody asks about the word itself and not about a text that holds it.

A subword tokeniser has a token for a word inside a line, with the space before it ("Ġsick"), and often another for the
same word at the beginning of a line ("sick"). Both are the word. A word that the vocabulary does not have is spelled in
pieces, which other words are spelled with too: whoever changes them should be told so.
"""

from __future__ import annotations

from dataclasses import dataclass

from anaphora.errors import UserError
from anaphora.text.tokenizer import BOS, EOS, SPECIALS, UNK, Tokenizer

MARKS = {"<s>": BOS, SPECIALS[BOS]: BOS, "</s>": EOS, SPECIALS[EOS]: EOS}
"""The beginning and the end of a line, by names that a keyboard has."""


@dataclass(frozen=True)
class WordTokens:
    """A word and its tokens."""

    word: str
    forms: tuple[int, ...]
    """Tokens each of which is the whole word, first as it stands inside a line; none where it is spelled in pieces."""
    pieces: tuple[int, ...]
    """What spells a word that no token is; none where one is."""

    @property
    def all(self) -> tuple[int, ...]:
        """Every token that has to do with it, each once."""
        return tuple(dict.fromkeys(self.forms or self.pieces))

    @property
    def chief(self) -> tuple[int, ...]:
        """What stands for the word where one vector is wanted: its token inside a line, or the mean of its pieces."""
        return self.forms[:1] or self.pieces


def tokens_of_word(tokenizer: Tokenizer, word: str) -> WordTokens:
    """The tokens of a word; one that the vocabulary neither has nor can spell is refused."""
    if word in MARKS:
        return WordTokens(word, (MARKS[word],), ())
    inside = tokenizer.kind in ("bpe", "unigram")
    ways = [tokenizer.encode(written) for written in ((f" {word}", word) if inside else (word,))]
    if not word or not ways[0]:
        raise UserError("an empty word was asked for", cure="name a word")
    if any(UNK in ids for ids in ways):
        raise UserError(
            f"the word {word!r} is not in the vocabulary, which has one unknown token for all such words",
            cure="name a word that the model was trained on",
        )
    forms = dict.fromkeys(int(ids[0]) for ids in ways if len(ids) == 1)
    return WordTokens(word, tuple(forms), () if forms else tuple(map(int, ways[0])))
