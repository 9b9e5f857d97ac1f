"""Minimum-Bayes-risk decoding: of many translations, the one that is most like what the model believes in.

The beam looks for the most probable translation; that one may be untypical: too short, or empty. Here translations are
drawn from the model by the one search (beam_search), and the one with the greatest expected utility wins: the highest
mean chrF (or BLEU, GLEU), were each drawn translation the reference in turn (evaluation/expected_utility.py).

    samples   candidates and references are what was drawn (Eikema and Aziz 2020)
    both      the beam's list competes too; the references are what was drawn
    beam      candidates and references are the beam's list, each by its probability (Kumar and Byrne 2004)

Texts are compared, not tokens: what is spelled alike is one candidate, and counts as often as it was drawn. The noise
belongs to the sentence (sampling.py), so the same seed gives the same translation in any batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from torch import Tensor

from anaphora.decoding.beam_search import Hypothesis, search
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.spelling import Listener
from anaphora.evaluation.expected_utility import Utility, expected_utilities
from anaphora.models.contracts import Translator

EPSILON = 0.02
"""Tokens less probable than this are not drawn, unless something else is asked for. A model that learned with smoothed
labels gives each of thousands of wrong words a little, and 64 draws from all of them are mostly odd; what remains was
found best for this purpose (Freitag, Ghorbani and Fernandes 2023)."""

Spell = Callable[[int, Hypothesis], str]
"""The text of a hypothesis of a sentence, by its place in the batch."""


def search_by_risk(
    model: Translator,
    source: Tensor,
    source_lengths: Tensor,
    config: DecodingConfig,
    *,
    spell: Spell,
    prefix: Sequence[Sequence[int]],
    sentence_ids: Sequence[int],
    listeners: Sequence[Listener] | None = None,
) -> list[list[Hypothesis]]:
    """`search`, but for what is best: B lists of at most n_best hypotheses with different texts, those that came to
    their end first, by their expected utility, which becomes their `score`."""
    assert config.mbr is not None

    def ask(settings: DecodingConfig, rows: int) -> list[list[Hypothesis]]:
        """As many sentences at once as keep the rows about as many as those of a beam."""
        at_once = max(1, config.batch_sentences * config.beam // rows)
        found: list[list[Hypothesis]] = []
        for first in range(0, len(source), at_once):
            some = slice(first, first + at_once)
            heard = None if listeners is None else listeners[some]
            lengths = source_lengths[some]
            found += search(
                model,
                source[some, : int(lengths.max())],
                lengths,
                settings,
                prefix=prefix[some],
                sentence_ids=sentence_ids[some],
                listeners=heard,
            )
        return found

    plain = dataclasses.replace(config, mbr=None, n_best=1)
    nothing: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    drawn = beam = nothing
    if config.mbr_candidates != "beam":
        epsilon = EPSILON if config.epsilon is None else config.epsilon
        drawing = dataclasses.replace(plain, sample=True, n_best=config.mbr_samples, epsilon=epsilon)
        drawn = ask(drawing, config.mbr_samples)
    if config.mbr_candidates != "samples":
        beam = ask(dataclasses.replace(plain, n_best=config.beam), config.beam)
    return [
        by_expected_utility(
            [*drawn[place], *beam[place]],
            [spell(place, one) for one in (*drawn[place], *beam[place])],
            _weights(drawn[place], beam[place]),
            config.mbr,
        )[: config.n_best]
        for place in range(len(source))
    ]


def _weights(drawn: Sequence[Hypothesis], beam: Sequence[Hypothesis]) -> list[float]:
    """Of each hypothesis as a reference: one for each that was drawn; without those, how probable it is."""
    if drawn:
        return [1.0] * len(drawn) + [0.0] * len(beam)
    likeliest = max(one.log_probability for one in beam)
    if not math.isfinite(likeliest):  # nothing could be said at all
        return [1.0] * len(beam)
    return [math.exp(one.log_probability - likeliest) for one in beam]


def by_expected_utility(
    hypotheses: Sequence[Hypothesis], texts: Sequence[str], weights: Sequence[float], utility: Utility
) -> list[Hypothesis]:
    """Those with different texts, best first, with their expected utility as score; of equal texts the likeliest."""
    kept: dict[str, Hypothesis] = {}
    shares: dict[str, float] = {}
    for one, text, weight in zip(hypotheses, texts, weights):
        shares[text] = shares.get(text, 0.0) + weight
        if text not in kept or _rank(one) > _rank(kept[text]):
            kept[text] = one
    scores = expected_utilities(list(kept), list(shares.values()), utility).tolist()
    scored = [dataclasses.replace(one, score=score) for one, score in zip(kept.values(), scores)]
    return sorted(scored, key=lambda one: (one.finished or one.stopped, one.score, one.log_probability), reverse=True)


def _rank(one: Hypothesis) -> tuple[bool, float]:
    return one.finished or one.stopped, one.log_probability
