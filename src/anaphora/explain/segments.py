"""Texts as a trace carries them: tokens with their bytes, their place in the text, the word they belong to.

A token may begin with a space, be a piece of a word, or even half a character. The trace keeps its bytes; a table has a
*label* for it: the word itself, `##piece` for what goes on with the word before, ⟨E2 82⟩ for bytes that are no
character, ␣ for a space alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from anaphora.explain.trace_parts import Segment, Token
from anaphora.tokenizers.token_names import hexadecimal
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, SPECIALS, Tokenizer
from anaphora.tokenizers.words import TokenWords, split_words

CONTINUES = "##"


def segment(id: str, text: str, ids: Sequence[int], tokenizer: Tokenizer) -> Segment:
    """The tokens of a text; special ones may stand first and last, and ⟨/s⟩ where a line ends."""
    inner = [token for token in ids if not _is_mark(token)]
    places = _places_by_line(ids, text, tokenizer)
    words = TokenWords(tokenizer)(inner, split_words(text), text).tolist()
    tokens, seen = [], 0
    for token in ids:
        if _is_mark(token):
            at = places[seen][0] if seen < len(places) else len(text)
            tokens.append(Token(token, SPECIALS[token], b"", at, at, special=True))
            continue
        (start, end), (first, stop) = places[seen], words[seen]
        seen += 1
        spelled = tokenizer.token_bytes(token)
        known = _spelled(spelled) if spelled else tokenizer.token(token)  # an unknown word has a name and no bytes
        tokens.append(Token(token, known, spelled, start, end, word=first if stop > first else None))
    return Segment(id, text, tokens)


def labels(segment: Segment) -> list[str]:
    """A short name for each token."""
    names, before = [], None
    for token in segment.tokens:
        name = token.text.strip() or ("␣" if token.text else "∅")
        goes_on = token.word is not None and token.word == before and not token.special
        names.append(CONTINUES + name if goes_on else name)
        before = token.word
    return names


def words(segment: Segment) -> list[str]:
    """The whole word that each token is a piece of; for others the token itself."""
    known = [word.text for word in split_words(segment.text)]
    return [known[t.word] if t.word is not None and t.word < len(known) else t.text.strip() for t in segment.tokens]


def _is_mark(token: int) -> bool:
    """Padding, begin or end: not a part of the text."""
    return token in (PAD, BOS, EOS)


def _spelled(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return hexadecimal(content)


def _places_by_line(ids: Sequence[int], text: str, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """`_places` of the tokens without marks, line by line where a ⟨/s⟩ stands at each line's end."""
    rows: list[list[int]] = [[]]
    for token in ids:
        if token == EOS:
            rows.append([])
        elif not _is_mark(token):
            rows[-1].append(token)
    lines = text.split("\n")
    rows = rows if rows[-1] or len(rows) == len(lines) else rows[:-1]
    if len(rows) != len(lines):
        return _places([token for row in rows for token in row], text, tokenizer)
    found, begin = [], 0
    for row, line in zip(rows, lines):
        found += [(begin + start, begin + end) for start, end in _places(row, line, tokenizer)]
        begin += len(line) + 1
    return found


def _places(ids: Sequence[int], text: str, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Of each token, its first character and the one after its last."""
    encoding = tokenizer.rust.encode(text, add_special_tokens=False)
    if encoding.ids == list(ids):
        return [(min(start, len(text)), min(end, len(text))) for start, end in encoding.offsets]
    ends, furthest = [], 0  # what a model said may be cut otherwise: decode ever longer beginnings
    for number in range(len(ids)):
        furthest = max(furthest, min(len(tokenizer.decode(ids[: number + 1])), len(text)))
        ends.append(furthest)
    return list(zip([0, *ends], ends))
