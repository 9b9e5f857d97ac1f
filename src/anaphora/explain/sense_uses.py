"""Where a text uses a word, and which of its senses: the weights α of a Backpack, summed over what they predict.

At each place i of a line, sense ℓ spreads a weight of 1 over the words up to there. What word j gets of it, over all
places that predict with it, m_ℓ = Σ_i α_{ℓij}, says how much that sense of the word is used; m_ℓ over the sum of all m
is the sense's share. Each line is read by itself, and only lines that hold the word are read at all. A token is a use
of the word where it stands as a whole word: "He" in "He said", not in "Hebei".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from anaphora.explain.draw.terminal import cells, isolated, visible
from anaphora.results import brief
from anaphora.tokenizers.tokenizer import BOS

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack
    from anaphora.tokenizers.tokenizer import Tokenizer

WINDOW_LINES = 1024
"""Lines that are cut into tokens together."""
MAX_WEIGHTS = 1 << 24
"""Weights, rows · senses · places², that are formed at once: 64 MB."""
WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""How Unicode's names of letters begin where words have no space between them: there any token may be a word."""
LONGEST_CHARACTER = 4
"""Bytes of UTF-8, each of which may be a token."""
Held = tuple[int, list[int], list[tuple[int, tuple[int, ...]]]]
"""The number of a line, its ids, and the places of tokens asked for, each with the spelling of its word."""


@dataclass(frozen=True)
class Use:
    """One place of the text: the line with the word in it, and what its senses weighed there."""

    number: int
    """Of the line, from 1."""
    before: str
    word: str
    after: str
    weights: NDArray[np.float64]
    """m of each sense: (k,)."""

    def __repr__(self) -> str:
        return brief("Use", f"{self.before}{self.word}{self.after}", f"line {self.number}")

    @property
    def shares(self) -> NDArray[np.float64]:
        """Of each sense, (k,): what m is of the sum of all m."""
        total = float(self.weights.sum())
        return self.weights / total if total > 0 else self.weights

    def line(self, width: int) -> str:
        """The line with the word in brackets, as much of it as has room on either side."""
        word, before, after = f"[{visible(self.word)}]", visible(self.before), visible(self.after)
        room = max(width - cells(word), 8)
        left, right = cells(before), cells(after)
        if left + right > room:
            keep = max(room // 2, room - right)
            before = _end(before, keep) if left > keep else before
            after = _begin(after, room - cells(before))
        return isolated(f"{before}{word}{after}")

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "line": self.number,
            "before": self.before,
            "word": self.word,
            "after": self.after,
            "shares": self.shares.tolist(),
        }


def _end(text: str, room: int) -> str:
    while text and cells(text) > room - 1:
        text = text[1:]
    return f"…{text}"


def _begin(text: str, room: int) -> str:
    if cells(text) <= room:
        return text
    while text and cells(text) > room - 1:
        text = text[:-1]
    return f"{text}…"


@dataclass
class TokenUses:
    """All places of one token."""

    found: list[Use] = field(default_factory=list)

    @property
    def number(self) -> int:
        return len(self.found)

    def share(self, sense: int) -> float | None:
        """Of the weight that the text gives the senses of the token; None where it gives none, or a topic took it."""
        total = np.sum([use.weights for use in self.found], axis=0)  # (k,); 0.0 of no use
        return float(total[sense] / total.sum()) if np.sum(total) > 0 else None

    def examples(self, sense: int, number: int) -> tuple[Use, ...]:
        """The lines where this sense has the largest share of the token's weight; no line twice."""
        best: dict[str, Use] = {}
        for use in sorted(self.found, key=lambda use: -float(use.shares[sense])):
            if len(best) >= number:
                break
            best.setdefault(use.before + use.word + use.after, use)
        return tuple(best.values())


@dataclass
class Uses:
    """The places of some words in a text."""

    lines: int = 0
    """That were read."""
    cut_lines: int = 0
    """That were longer than the model can read, and lost their end."""
    words: dict[tuple[int, ...], dict[int, TokenUses]] = field(default_factory=dict)
    """Of each word, as it is spelled, the uses of each of its tokens: in this word, and not in another asked for."""

    def of(self, *spellings: Sequence[int], token: int | None = None) -> TokenUses:
        """Of all tokens of a word, which may have several spellings, or of one of them."""
        tokens = [each for spelling in spellings for each in self.words.get(tuple(spelling), {}).items()]
        return TokenUses([use for one, uses in tokens if token in (None, one) for use in uses.found])


def read_uses(
    model: Backpack,
    tokenizer: Tokenizer,
    lines: Iterable[str],
    sequences: Sequence[Sequence[int]],
) -> Uses:
    """Read a text for words given as sequences of tokens, one or more: the uses of each token, in its word."""
    found = Uses(words={tuple(sequence): {token: TokenUses() for token in sequence} for sequence in sequences})
    window: list[str] = []
    for line in lines:
        window.append(line)
        if len(window) == WINDOW_LINES:
            _read(model, tokenizer, window, found)
            window = []
    if window:
        _read(model, tokenizer, window, found)
    return found


def _read(model: Backpack, tokenizer: Tokenizer, lines: Sequence[str], found: Uses) -> None:
    longest = None if model.max_length is None else model.max_length - 1  # ⟨s⟩ takes a place
    held: list[Held] = []
    for number, ids in enumerate(tokenizer.encode_batch(list(lines)), start=found.lines + 1):
        places = [(place, word) for word in found.words for place in _places(tokenizer, ids, word)]
        if longest is not None and len(ids) > longest:
            found.cut_lines += bool(places)
            ids, places = ids[:longest], [one for one in places if one[0] < longest]
        if places:
            held.append((number, list(map(int, ids)), places))
    found.lines += len(lines)
    held.sort(key=lambda one: len(one[1]))  # rows of like length together
    begin = 0
    while begin < len(held):
        rows = 1
        while begin + rows < len(held):
            length = len(held[begin + rows][1]) + 1
            if (rows + 1) * model.senses_count * length * length > MAX_WEIGHTS:
                break
            rows += 1
        _weigh(model, tokenizer, held[begin : begin + rows], found)
        begin += rows


def _places(tokenizer: Tokenizer, ids: Sequence[int], sequence: Sequence[int]) -> list[int]:
    """Where the tokens of a word stand one after the other, as a whole word: all places that they take."""
    wanted, number = list(sequence), len(sequence)
    begins = (
        place
        for place in range(len(ids) - number + 1)
        if ids[place] == wanted[0] and list(ids[place : place + number]) == wanted
    )
    whole = tokenizer.kind not in ("bpe", "unigram", "word")  # who asks for a character asks for it in any word
    return [
        place + more
        for place in begins
        if whole or _stands_alone(tokenizer, ids, place, place + number)
        for more in range(number)
    ]


def _stands_alone(tokenizer: Tokenizer, ids: Sequence[int], begin: int, end: int) -> bool:
    """Whether no letter before these tokens or after them belongs to the same word."""
    own = _spelled(tokenizer, ids[begin:end])
    before = _spelled(tokenizer, ids[max(0, begin - LONGEST_CHARACTER) : begin])
    after = _spelled(tokenizer, ids[end : end + LONGEST_CHARACTER])
    parted = not (_of_word(before[-1:]) and _of_word(own[:1]))
    return parted and not (_of_word(own[-1:]) and _of_word(after[:1]))


def _spelled(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    return b"".join(tokenizer.token_bytes(token) or b" " for token in ids).decode(errors="replace")


def _of_word(character: str) -> bool:
    """Whether it is a letter, a digit or an accent of a script that parts words."""
    if not character or unicodedata.category(character)[0] not in "LMN":
        return False
    return not unicodedata.name(character, "").startswith(WITHOUT_SPACES)


@torch.no_grad()
def _weigh(model: Backpack, tokenizer: Tokenizer, held: Sequence[Held], found: Uses) -> None:
    longest = max(len(ids) for _, ids, _ in held) + 1
    rows = torch.tensor([[BOS, *ids] + [0] * (longest - 1 - len(ids)) for _, ids, _ in held], device=model.device)
    lengths = torch.tensor([len(ids) + 1 for _, ids, _ in held], device=model.device)
    alpha = model.sense_weights(rows, lengths).float()  # (B, k, T, T)
    real = torch.arange(longest, device=model.device) < lengths[:, None]
    masses = (alpha * real[:, None, :, None]).sum(dim=2).double().cpu().numpy()  # (B, k, T): over what predicts
    for row, (number, ids, places) in enumerate(held):
        for place, spelling in places:
            before, word, after = _around(tokenizer, ids, place)
            use = Use(number, before, word, after, masses[row, :, place + 1])
            found.words[spelling][ids[place]].found.append(use)


def _around(tokenizer: Tokenizer, ids: Sequence[int], place: int) -> tuple[str, str, str]:
    """The text before a token, its own, and what follows."""
    whole, before, through = (tokenizer.decode(ids[:end]) for end in (len(ids), place, place + 1))
    if not (whole.startswith(before) and whole.startswith(through)):  # bytes of half a character
        return f"{before} ", tokenizer.decode([ids[place]]).strip(), tokenizer.decode(ids[place + 1 :])
    word = through[len(before) :]
    space = word[: len(word) - len(word.lstrip())]
    return before + space, word[len(space) :], whole[len(through) :]
