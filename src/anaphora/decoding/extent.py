"""How many lines a language model writes, and what a line end is to it.

What several lines are depends on what the model learned from. A *stream* is one text: a line end is a token like any
other, and what follows it is predicted from what stands before it. *Separate lines* are texts of their own: each
further line begins at ⟨s⟩, as every line of the training text did, and may have as many tokens as the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from anaphora.decoding.hypothesis import Hypothesis
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import EOS

MOST_LINES = 1 << 20


class Extent(NamedTuple):
    """How far a text goes on past line ends."""

    number: int | None = 1
    """So many lines, the first being the one in which the prompt ends; None: up to the limit of tokens."""
    stream: bool = False
    """Whether the model learned from a stream, rather than from separate lines."""

    @classmethod
    def asked(cls, count: int | None, tokens: int | None, *, stream: bool) -> Extent:
        """One line by default; of a stream as many as fit where only a number of tokens is asked for."""
        if count is None:
            return cls(None if stream and tokens is not None else 1, stream)
        if not 1 <= count <= MOST_LINES:
            raise UserError(f"{count:,} lines are asked for", cure=f"ask for 1 to {MOST_LINES:,}")
        return cls(count, stream)

    def ends(self, tokens: int) -> int:
        """The line end with which the model's text ends: of separate lines each is a text; where only tokens count,
        one more than there is room for."""
        if not self.stream:
            return 1
        return tokens + 1 if self.number is None else self.number

    @property
    def further(self) -> range:
        """Numbers of the lines that are texts of their own behind the first."""
        return range(1, 1 if self.stream or self.number is None else self.number)

    def complete(self, tokens: Sequence[int]) -> bool:
        """Whether the last of some tokens is the last line end."""
        return tokens[-1:] == [EOS] and tokens.count(EOS) == self.number

    def limit(self, tokens: Sequence[int], limit: int) -> int:
        """How many tokens there is room for in all, where each separate line has that limit."""
        begin = 0 if self.stream else len(tokens) - [*tokens[-2::-1], EOS].index(EOS) - 1 if tokens else 0
        return begin + limit


def joined(first: Hypothesis, second: Hypothesis) -> Hypothesis:
    """A line that has ended and the next one, as one text."""
    gains = [*first.token_log_probabilities, *second.token_log_probabilities]
    tokens = [*first.tokens, EOS, *second.tokens]
    return Hypothesis(tokens, first.score + second.score, math.fsum(gains), gains, second.finished, second.stopped)


def one_after_another(extent: Extent, say: Callable[[int], Iterator[tuple[int, float]]]) -> Iterator[tuple[int, float]]:
    """The tokens of a line and of those behind it, each said by its number, as long as they end."""
    for number in (0, *extent.further):
        token = None
        for token, gain in say(number):
            yield token, gain
        if token != EOS:
            return
