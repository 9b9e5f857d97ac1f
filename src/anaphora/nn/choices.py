"""Names of what can be chosen of layers, for settings that are read without torch."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from anaphora.config import NameIn
from anaphora.nn.scores import SCORES, AnyScore, score_named

Activation = Literal["relu", "gelu", "gelu-tanh"]
Norm = Literal["pre", "post"]
Normalizer = Literal["softmax", "none"]
Positions = Literal["sinusoidal", "sinusoidal-concatenated", "learned", "rotary", "alibi", "relative", "none"]
ScoreName: TypeAlias = Annotated[str, NameIn(SCORES)]
"""In settings, the name of a score that is known when they are read (nn/scores.py)."""
MOST_LAYERS = 10_000
"""Ten times as many as any published network has. A config.yaml may say anything, and each layer is at least listed."""


def check_depth(**layers: int | None) -> None:
    """A ValueError for more layers than can be meant, before anything is built of them."""
    for name, number in layers.items():
        if number is not None and number > MOST_LAYERS:
            raise ValueError(f"{name} is {number:,}; more than {MOST_LAYERS:,} layers are not built; choose fewer")


def check_share(name: str, value: float) -> None:
    """A ValueError for what is no share, such as one of numbers to drop."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} is {value}; it must be at least 0 and below 1")


def check_positions(positions: Positions, score: AnyScore, normalizer: Normalizer) -> None:
    """A ValueError for positions that a score or normalizer could make nothing of."""
    score = score_named(score)
    if positions == "rotary" and not score.shows_rotation:
        raise ValueError(
            f"rotary positions show in plain dot products; with {score.name} scores distances would be lost; choose "
            "other positions, or scaled-dot scores"
        )
    if positions in ("alibi", "relative") and normalizer == "none":
        raise ValueError(
            f"{positions} positions shift a softmax; with normalizer 'none' there is none; choose other positions, or "
            "normalizer softmax"
        )
