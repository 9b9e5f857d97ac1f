"""Tokens as people see them, wherever one is shown: ␣Ufer, ü, ⟨C3⟩, instead of ĠUfer, Ã¼, Ã.

A token carries the space in front of it, may be a piece of a word, or half a character. Its name shows the space as ␣,
a line break as ↵, bytes that are no text as hexadecimal numbers. A model of whole words has no use for the space, and
its names have none. Programs get the bytes beside the name.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from anaphora.tokenizers.tokenizer import SPECIALS, Tokenizer


class ShownToken(NamedTuple):
    name: str
    """For people."""
    bytes: bytes
    """What it spells, in UTF-8; none for a mark."""


def shown_token(tokenizer: Tokenizer, token: int) -> ShownToken:
    """A token's name and bytes, found once."""
    known = tokenizer.shown_tokens
    if token not in known:
        known[token] = ShownToken(_name(tokenizer, token), tokenizer.token_bytes(token))
    return known[token]


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """A token as people see it."""
    return shown_token(tokenizer, token).name


def token_document(name: str, spelled: bytes) -> dict[str, Any]:
    """A token in JSON, its bytes in base64, as a trace has them."""
    return {"token": name, "bytes": in_base64(spelled)}


def in_base64(spelled: bytes) -> str:
    return b64encode(spelled).decode("ascii")


def token_documents(scores: Iterable[tuple[str, float]], spelled: Iterable[bytes]) -> list[dict[str, Any]]:
    """Tokens with their log-probabilities, in JSON."""
    return [token_document(name, own) | {"log_probability": value} for (name, value), own in zip(scores, spelled)]


def told_apart(tokenizer: Tokenizer, names: Mapping[int, str]) -> dict[int, str]:
    """The names of tokens; where two would look alike (" ." and "."), the space is shown."""
    often = Counter(names.values())
    return {
        token: f"␣{name}" if often[name] > 1 and tokenizer.token_bytes(token).startswith(b" ") else name
        for token, name in names.items()
    }


def hexadecimal(spelled: bytes) -> str:
    """Bytes that are no text: ⟨E2 82⟩."""
    return f"⟨{spelled.hex(' ').upper()}⟩"


def _name(tokenizer: Tokenizer, token: int) -> str:
    if token < len(SPECIALS):
        return SPECIALS[token]
    spelled = tokenizer.token_bytes(token)
    try:
        text = spelled.decode()
    except UnicodeDecodeError:
        return hexadecimal(spelled)
    if any(not character.isprintable() and character not in "\n\t\u200c\u200d" for character in text):
        return hexadecimal(spelled)  # what a terminal would obey
    if tokenizer.kind == "word":
        return text.removeprefix(" ") or "␣"
    return text.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
