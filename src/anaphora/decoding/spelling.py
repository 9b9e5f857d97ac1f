"""Tokens become text while they are being said: what can be shown already, and whether a stop string has been reached.

A token is not a piece of text. One character may be several tokens (a "€" is three bytes), the same word is spelled
otherwise at the beginning of a text, and a stop string such as "\\n\\n" or "Q:" may begin in one token and end in
another. `Spelling` hands out text as soon as no later token can change it; all pieces together are what the whole
would have been decoded to. `Listener` does so too, and holds back in addition whatever might become a stop string: what
it hands out is safe to show, and when it hears a stop, nothing of it has been shown.
"""

from __future__ import annotations

import codecs
import copy
from collections.abc import Sequence
from typing import NamedTuple

from anaphora.tokenizers.tokenizer import BYTE_TOKENS, EOS, SPECIALS, UNK, Tokenizer


class Prompt(NamedTuple):
    """What is gone on with."""

    text: str
    ids: list[int]
    """Without ⟨s⟩, and its last line has not ended."""


def continuation(tokenizer: Tokenizer, prompt: str, prompt_ids: Sequence[int], tokens: Sequence[int]) -> str:
    """What new tokens add to the last line of a prompt."""
    prompt_ids = prompt_ids[len(prompt_ids) - [*prompt_ids[::-1], EOS].index(EOS) :]
    before, whole = tokenizer.decode(prompt_ids), tokenizer.decode([*prompt_ids, *tokens])
    added = whole[len(before) :] if whole.startswith(before) else tokenizer.decode(tokens)
    # one blank between two words is enough
    return added.removeprefix(" ") if prompt[-1:].isspace() and tokenizer.split == "blanks" else added


class Spelling:
    """The text of one output, token by token; `prompt_ids` stand before it and are not its own."""

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int] = (), prompt: str = "") -> None:
        self.tokenizer, self.prompt, self.prompt_ids = tokenizer, prompt, tuple(prompt_ids)
        self.waiting: list[int] = []  # tokens whose text may still change
        self.anchor: int | None = None  # the last token whose text was handed out
        self.bytes_alone = tokenizer.kind in ("bpe", "unigram", "byte")
        self.says_unknown = tokenizer.decode([UNK]) != ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def copy(self) -> Spelling:
        """Another one that stands where this one does, to go on with other tokens."""
        other = copy.copy(self)
        other.waiting = list(self.waiting)
        other._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        other._decoder.setstate(self._decoder.getstate())
        return other

    def add(self, token: int) -> str:
        """The text that is certain now and was not before. An end mark is a line end: after it a line begins."""
        if token == EOS:
            ended = self.end() + "\n"
            self.prompt, self.prompt_ids, self.anchor = "\n", (), None
            self._decoder.reset()
            return ended
        if token < UNK or (token == UNK and not self.says_unknown):  # marks are not spelled
            return ""
        self.waiting.append(token)
        return self._hand_out() if self._certain(token) else ""

    def end(self) -> str:
        """What is left, now that no more tokens come."""
        return self._hand_out() if self.waiting else ""

    def _certain(self, token: int) -> bool:
        """Whether what waits is spelled the same, whatever follows: no character is half said."""
        if self.bytes_alone:
            self._decoder.decode(self.tokenizer.token_bytes(token))
            return not self._decoder.getstate()[0]
        # bytes that spell an unknown word are read together, as far as they go: right or wrong as one
        return token < len(SPECIALS) or self.tokenizer.token(token) not in BYTE_TOKENS

    def _hand_out(self) -> str:
        tokens, self.waiting = self.waiting, []
        if self.anchor is None:
            added = continuation(self.tokenizer, self.prompt, self.prompt_ids, tokens)
        elif self.bytes_alone:
            added = self.tokenizer.decode(tokens)
        else:  # after another word a word has its space in front
            before = self.tokenizer.decode([self.anchor])
            added = self.tokenizer.decode([self.anchor, *tokens])[len(before) :]
        self.anchor = tokens[-1]
        return added


class Listener:
    """`Spelling` that ends at the first of some stop strings: `stopped` names it once it was heard."""

    def __init__(self, spelling: Spelling, stops: Sequence[str] = ()) -> None:
        self.spelling, self.stops = spelling, tuple(stops)
        self.held = ""  # certain, but it may be the beginning of a stop string
        self.stopped: str | None = None

    def copy(self) -> Listener:
        other = copy.copy(self)
        other.spelling = self.spelling.copy()
        return other

    def add(self, token: int) -> str:
        """The text that can be shown now; after a stop string, none."""
        return self._heard(self.spelling.add(token))

    def end(self) -> str:
        """What was held back and may be shown after all, as no more tokens come."""
        shown = self._heard(self.spelling.end())
        if self.stopped is None:
            shown, self.held = shown + self.held, ""
        return shown

    def _heard(self, added: str) -> str:
        if self.stopped is not None:
            return ""
        text = self.held + added
        found = [(place, -len(stop), stop) for stop in self.stops if (place := text.find(stop)) >= 0]
        if found:  # the first one in the text; of those that begin at one place, the longest
            place, _, self.stopped = min(found)
            self.held = ""
            return text[:place]
        keep = max((_overlap(text, stop) for stop in self.stops), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of the text are the beginning of the stop string."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


def text_until_stop(
    tokenizer: Tokenizer, tokens: Sequence[int], stops: Sequence[str], prompt_ids: Sequence[int] = (), prompt: str = ""
) -> tuple[str, str | None]:
    """What tokens add to a prompt, up to the first stop string; and which that was."""
    if not stops and EOS not in tokens:
        return continuation(tokenizer, prompt, prompt_ids, tokens), None
    listener = Listener(Spelling(tokenizer, prompt_ids, prompt), stops)
    text = "".join([*(listener.add(token) for token in tokens), listener.end()])
    return text, listener.stopped
