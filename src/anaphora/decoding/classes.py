"""What kind of text is this? A classifier gives every line each of its labels with a probability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from anaphora.results import brief, figure, html_table
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer

if TYPE_CHECKING:
    from anaphora.models.language.classifier import TextClassifier

WINDOW_LINES = 4096
"""Lines read ahead, so that lines of like length stand together."""
BATCH_TOKENS = 16_384
"""Tokens, padding included, that are read at once."""


@dataclass
class Classified:
    """A line and how probable each label is."""

    text: str
    """The line."""
    label: str
    """The likeliest."""
    probability: float
    """Of the likeliest label."""
    probabilities: dict[str, float]
    """Of every label, the likeliest first."""
    cut: bool = False
    """Whether the line is longer than the model can read: then its beginning was read, as when it learned."""

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return brief("Classified", self.text, f"{self.label} with P {figure(self.probability, '.4f')}")

    def _repr_html_(self) -> str:
        rows = [(label, figure(value, ".4f")) for label, value in self.probabilities.items()]
        shades = [[value] for value in self.probabilities.values()]
        return html_table(("label", "P"), rows, caption=self.text, shades=shades)


def classify_lines(
    model: TextClassifier, tokenizer: Tokenizer, lines: Iterable[str], *, window: int = WINDOW_LINES
) -> Iterator[Classified]:
    """One object a line, lazily and in order."""
    from anaphora.decoding.beam_search import evaluating
    from anaphora.decoding.text_scoring import plain
    from anaphora.decoding.translate import pad, token_batches

    lines = iter(lines)
    while block := [plain(line) for line in islice(lines, window)]:
        rows = [[BOS, *ids, EOS] for ids in tokenizer.encode_batch(block)]
        longest = model.max_length
        cut = [longest is not None and len(row) > longest for row in rows]
        rows = [row[:longest] for row in rows]
        found: list[list[float]] = [[] for _ in rows]
        with evaluating(model):
            for places in token_batches([len(row) for row in rows], BATCH_TOKENS, len(rows)):
                said = model.classify(*pad([rows[place] for place in places], model.device)).exp()
                for place, values in zip(places, said.tolist()):
                    found[place] = values
        for text, values, shortened in zip(block, found, cut):
            ranked = sorted(zip(model.labels, values), key=lambda one: -one[1])
            yield Classified(text, *ranked[0], dict(ranked), shortened)
