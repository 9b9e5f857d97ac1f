"""What a search finds, and how it ranks it. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Hypothesis:
    """One output of the search."""

    tokens: list[int]
    """Without begin and end marks, but for those of lines before the last; a forced prefix is part of it."""
    score: float
    """Normalised for length and coverage: what hypotheses are ranked by."""
    log_probability: float
    """log P(tokens, end mark | source) as the model gave it, whatever the temperature or the masks."""
    token_log_probabilities: list[float]
    """For each token and, if finished, the end mark: they sum to log_probability."""
    finished: bool
    """Whether it ended with its end mark; False: cut off at the length limit, ranked after all that ended."""
    stopped: bool = False
    """Whether it ended because its text holds a stop string: no end mark was said, and it ranks with those that
    ended."""


def length_penalty(length: float, alpha: float) -> float:
    """GNMT's ((5 + length) / 6)^alpha; the length counts the end mark."""
    return ((5.0 + length) / 6.0) ** alpha
