"""BLEU and chrF by the length of the source: where long sentences begin to be too much.

A translator that must put a sentence into one vector does well on short ones and falls behind on long ones (Bahdanau et
al. 2015, figure 2); one that looks back at the source does not. One number for a whole text hides that.

Each bin is scored as a text of its own, so the bins' BLEU do not add up to that of the whole. Bins at either end with
few lines, fewer than a twentieth of all and fewer than 20, are merged with their neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.evaluation.translation_metrics import bleu, chrf
from anaphora.results import brief, figure

MIN_BIN_LINES = 20
"""Lines that are enough for a bin at either end."""


def fewest(lines: int) -> int:
    """How many of so many lines a bin at either end has at least."""
    return min(MIN_BIN_LINES, max(1, lines // MIN_BIN_LINES))


@dataclass(frozen=True)
class LengthBin:
    """Lines whose source has so many words."""

    shortest: int
    """Words of the shortest source."""
    longest: int
    """Words of the longest source."""
    lines: int
    """How many there are."""
    bleu: float
    """BLEU of these lines."""
    chrf: float
    """chrF of these lines."""
    length_ratio: float
    """Characters of the translations over those of the references: below 1, something was left out."""

    def __repr__(self) -> str:
        scores = f"BLEU {figure(self.bleu)}, chrF {figure(self.chrf)}"
        return brief("LengthBin", None, f"{self.shortest} to {self.longest} words", f"{self.lines:,} lines", scores)

    @property
    def name(self) -> str:
        """How many words: "6–10"."""
        return f"{self.shortest}–{self.longest}"


def by_length(
    lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    width: int = 5,
    tokenize: str = "13a",
) -> list[LengthBin]:
    """Scores in bins of `width` source words (1–5, 6–10, …), shortest first; bins without lines are left out.

    lengths: of each line's source, in words; a line without words is in the first bin.
    """
    if width < 1:
        raise ValueError(f"the bin width must be at least 1, not {width}")
    if not len(lengths) == len(hypotheses) == len(references):
        raise ValueError(f"{len(lengths)} lengths, {len(hypotheses)} hypotheses, {len(references)} references")
    members: dict[int, list[int]] = {}
    for line, length in enumerate(lengths):
        members.setdefault(max(length - 1, 0) // width, []).append(line)
    bins = [(number * width + 1, (number + 1) * width, members[number]) for number in sorted(members)]
    while len(bins) > 1 and len(bins[-1][2]) < fewest(len(lengths)):
        (first, _, some), (_, last, more) = bins[-2:]
        bins[-2:] = [(first, last, some + more)]
    while len(bins) > 1 and len(bins[0][2]) < fewest(len(lengths)):
        (first, _, some), (_, last, more) = bins[:2]
        bins[:2] = [(first, last, some + more)]
    longest = max([1, *lengths])
    return [_measure(first, min(last, longest), lines, hypotheses, references, tokenize) for first, last, lines in bins]


def _measure(
    first: int, last: int, lines: list[int], hypotheses: Sequence[str], references: Sequence[str], tokenize: str
) -> LengthBin:
    said, meant = ([text[line] for line in sorted(lines)] for text in (hypotheses, references))
    return LengthBin(
        shortest=first,
        longest=last,
        lines=len(lines),
        bleu=bleu(said, meant, tokenize=tokenize).value,
        chrf=chrf(said, meant).value,
        length_ratio=sum(map(len, said)) / max(sum(map(len, meant)), 1),
    )
