"""Which tokens a word is, where somebody asks about the word itself and not about a text that holds it.

A subword tokenizer has a token for a word inside a line, with the space before it ("Ġsick"), and often another for the
same word at the beginning of a line ("sick"). Whole words have a space too wherever they stand, but not after a hyphen
or another mark ("twenty-five" ends in "five", not in " five"). All these are the word. Marks such as the full stop
stand without a space as a rule. A word that the vocabulary does not have is spelled in pieces, which other words are
spelled with too: whoever changes them should be told so.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, BYTE_TOKENS, EOS, PAD, SPECIALS, UNK, Tokenizer

MARKS = {"<s>": BOS, SPECIALS[BOS]: BOS, "</s>": EOS, SPECIALS[EOS]: EOS}
"""The beginning and the end of a line, by names that a keyboard has."""
NEVER = (PAD, BOS)
"""Tokens that nothing is followed by."""
BEFORE_WORDS = "&@#*§¡¿"
"""Marks that Unicode calls other punctuation, like the full stop, and that a space parts from the word before."""


@dataclass(frozen=True)
class WordTokens:
    """A word and its tokens."""

    word: str
    forms: tuple[int, ...]
    """Tokens each of which is the whole word, first as it stands inside a line (" sick", but "."); none where it is
    spelled in pieces."""
    pieces: tuple[int, ...]
    """What spells a word that no token is, inside a line; none where one is."""
    other_pieces: tuple[int, ...] = ()
    """What spells it at the beginning of a line or after a mark, where that is not the same."""

    @property
    def all(self) -> tuple[int, ...]:
        """Every token that has to do with it, each once."""
        return tuple(dict.fromkeys(self.forms or self.pieces))

    @property
    def chief(self) -> tuple[int, ...]:
        """What stands for the word where one vector is wanted: its token inside a line, or the mean of its pieces."""
        return self.forms[:1] or self.pieces

    @property
    def spellings(self) -> tuple[tuple[int, ...], ...]:
        """The runs of tokens that are the word where a text holds it."""
        return tuple((form,) for form in self.forms) or tuple(filter(None, (self.pieces, self.other_pieces)))


def tokens_of_word(tokenizer: Tokenizer, word: str) -> WordTokens:
    """The tokens of a word; one that the vocabulary neither has nor can spell is refused."""
    if word in MARKS:
        return WordTokens(word, (MARKS[word],), ())
    check_writable(word)
    ways = _ways(tokenizer, word)
    if not word or not ways[0]:
        raise UserError("an empty word was asked for", cure="name a word")
    known = [ids for ids in ways if UNK not in ids]
    if not known:
        raise UserError(
            f"the word {word!r} is not in the vocabulary, which has one unknown token for all such words",
            cure="name a word that the model was trained on",
        )
    if forms := forms_of(tokenizer, word):
        return WordTokens(word, forms, ())
    pieces, *others = dict.fromkeys(map(tuple, known))
    if others and pieces[-len(others[0]) :] == others[0]:  # a space that is a token of its own is none of its pieces
        pieces, *others = others
    return WordTokens(word, (), pieces, others[0] if others else ())


def check_writable(word: str) -> None:
    """Refuse what is no text: a stray byte of the command line, or half a pair in a JSON file, both surrogates."""
    if any("\ud800" <= character <= "\udfff" for character in word):
        raise UserError(f"the word {word!r} is not valid text: UTF-8 cannot encode it", cure="name a word in UTF-8")


def forms_of(tokenizer: Tokenizer, word: str) -> tuple[int, ...]:
    """The tokens each of which is the whole word, first as it stands inside a line; none where no token is."""
    forms = [ids[0] for ids in _ways(tokenizer, word) if len(ids) == 1 and ids[0] != UNK]
    if tokenizer.kind == "word":  # a byte is none of its words
        forms = [form for form in forms if tokenizer.token(form) not in BYTE_TOKENS]
        if not word[:1].isalnum():
            forms.sort()  # frequent words have low numbers: "." comes before " .", and " (" before "("
    elif _without_space(word):
        forms.reverse()
    return tuple(dict.fromkeys(forms))


def _ways(tokenizer: Tokenizer, word: str) -> list[list[int]]:
    """The ids of a word with a space before it, where the tokenizer has that, and without."""
    if tokenizer.kind in ("bpe", "unigram"):
        return [tokenizer.encode(f" {word}"), tokenizer.encode(word)]
    if tokenizer.split != "punctuation":
        return [tokenizer.encode(word)]
    hyphen = tokenizer.encode("-")  # the tokenizer itself puts a space before all that begins a line
    return [tokenizer.encode(word), tokenizer.encode(f"-{word}")[len(hyphen) :]]


def unsaid_tokens(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Tokens that are no words and in no text: those that never follow, and bytes where words are what is said."""
    never = NEVER if tokenizer.has_unknown else (*NEVER, UNK)
    if tokenizer.kind not in ("word", "character"):
        return never
    spelled = (tokenizer.token(token) for token in range(tokenizer.vocabulary_size))
    return (*never, *(token for token, name in enumerate(spelled) if name in BYTE_TOKENS))


def _without_space(word: str) -> bool:
    """Whether it is a mark that follows a word at once, as in "a." and "a)", and not in "a (" and "a $"."""
    begin = word[:1]
    return bool(begin) and begin not in BEFORE_WORDS and unicodedata.category(begin) in ("Po", "Pe", "Pf", "Pd", "Pc")
