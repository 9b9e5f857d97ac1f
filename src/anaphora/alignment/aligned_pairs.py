"""Pairs to be aligned: their words, and which tokens spell them.

A model has weights between tokens; people want links between words. The pieces of a source word are summed and those of
a target word averaged (alignment/model_alignment.py), so all that is needed is which words each token spells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anaphora.decoding.translate import one_line
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.words import Split, TokenWords, Word, split_words

Ids = Sequence[int]

MOST_CELLS = 4_000_000
"""Source words × target words of a pair, 2,000 of each: a book on one line has no alignment rather than no memory."""


@dataclass
class Pair:
    """A pair to be aligned: its texts, its words, and for each piece that the model read the ids and the words they
    spell."""

    source_text: str
    target_text: str
    source: list[Word]
    target: list[Word]
    pieces: list[tuple[Ids, Ids]]
    source_spans: np.ndarray  # (source tokens of all pieces, 2)
    target_spans: np.ndarray
    problem: str | None = None

    def empty(self) -> np.ndarray:
        """(T, S + 1): the last column is the end mark's."""
        return np.zeros((len(self.target), len(self.source) + 1))

    def spans(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each piece: (its source tokens, 2), (its target tokens, 2)."""
        s = t = 0
        for source, target in self.pieces:
            yield self.source_spans[s : s + len(source)], self.target_spans[t : t + len(target)]
            s, t = s + len(source), t + len(target)

    def target_share(self) -> np.ndarray:
        """(T,): what one token adds to the mean over the tokens of its target word."""
        count = np.zeros(len(self.target))
        for first, stop in self.target_spans.tolist():
            count[first:stop] += 1
        return 1 / np.maximum(count, 1)


class Pairs:
    """Makes `Pair`s with one model's tokenizers."""

    def __init__(self, source: Tokenizer, target: Tokenizer, split: Split = "punctuation") -> None:
        self.source, self.target, self.split = source, target, split
        self.source_words = TokenWords(source)
        self.target_words = self.source_words if target is source else TokenWords(target)

    def of(
        self, source_text: str, target_text: str, pieces: list[tuple[Ids, Ids]], replaced: Sequence[str] = ()
    ) -> Pair:
        """replaced: the words that stand in the target for its unknown tokens."""
        source, target = split_words(source_text, self.split), split_words(target_text, self.split)
        if len(source) * len(target) > MOST_CELLS:
            problem = f"{len(source):,} × {len(target):,} words are too many to align"
            none = np.zeros((0, 2), dtype=np.int64)
            return Pair(source_text, target_text, [], [], [], none, none, problem)
        read = [id for ids, _ in pieces for id in ids]
        said = [id for _, ids in pieces for id in ids]
        return Pair(
            source_text,
            target_text,
            source,
            target,
            pieces,
            self.source_words(read, source, source_text),
            self.target_words(said, target, target_text, replaced),
        )

    def texts(self, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
        """Given pairs, each in one piece."""
        sources = self.source.encode_batch([one_line(source) for source, _ in pairs])
        targets = self.target.encode_batch([one_line(target) for _, target in pairs])
        return [self.of(*texts, [ids]) for texts, ids in zip(pairs, zip(sources, targets))]


def to_words(weights: np.ndarray, source: np.ndarray, target: np.ndarray, share: np.ndarray, words: int) -> np.ndarray:
    """(..., target tokens, source tokens + 1) -> (..., target words, source words + 1), the end mark last."""
    across = np.zeros((len(source) + 1, words + 1))
    for token, (first, stop) in enumerate(source.tolist()):
        if stop > first:  # a token that spells two words is shared between them
            across[token, first:stop] = 1 / (stop - first)
    across[-1, -1] = 1
    down = np.zeros((len(share), len(target)))
    for token, (first, stop) in enumerate(target.tolist()):
        down[first:stop, token] = share[first:stop]
    return down @ (weights @ across)
