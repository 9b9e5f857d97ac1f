"""What a translator will cost, as far as that can be told before it begins: operations, updates, time to validate."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from anaphora.tasks.recipes import Document, RunConfig

if TYPE_CHECKING:
    from anaphora.data.preparation import Prepared

TRIAL_LINES = 64
"""Validation lines that are translated for an estimate of time."""
SAMPLE_PAIRS = 2_000
"""Pairs, spread over the corpus, that its mean costs are taken from."""


def flops_a_token(model: Any, prepared: Prepared, config: RunConfig) -> float:
    """Operations of learning from one target token, forward and backward: the mean over the corpus, sentence by
    sentence, since long ones cost more."""
    lengths = prepared.train.lengths
    some = lengths[:: max(1, len(lengths) // SAMPLE_PAIRS)].tolist()
    whole = spoken = 0.0
    training = config.training
    for source, target in some:
        source, target = source + 1, target + 1  # end marks
        once = model.flops(source, target, source, target)
        likelihood = once * (2 if training.consistency else 1)
        if (
            training.objective != "likelihood"
        ):  # as training/objectives/sequence_objective.py counts them, no two drawn alike
            many = training.candidates
            scored = model.flops(many * source, many * target, source, target)
            drawn = model.flops(source, many * target, source, target) / 3
            likelihood = scored + drawn + (likelihood if training.likelihood_weight else 0.0)
        whole += 3 * likelihood
        spoken += target
    return float(whole / spoken)


def tokens_an_update(config: RunConfig) -> float:
    """Target tokens of an update, about: batches are as long as their longest side."""
    return 0.85 * config.training.batch_tokens * config.training.accumulate


def translate_some(run: Any, trainer: Any) -> float:
    """A part of a validation: (lines of it) / (lines translated here)."""
    from anaphora.decoding.translate import translate_lines

    corpus = run.prepared.valid
    if corpus is None or run.config.training.metric == "loss":
        return 0.0
    lines = [corpus.text("source", row) for row in range(min(TRIAL_LINES, len(corpus)))]
    greedy = dataclasses.replace(run.config.decoding, beam=run.config.training.validation_beam, n_best=1)
    run.model.eval()
    source, target = run.tokenizers
    for _ in translate_lines(run.model, source, target, lines, greedy, device=run.device):
        pass
    return len(corpus) / len(lines)


def in_time(config: RunConfig, own: Document, tokens: int) -> dict[str, Any]:
    """A run that ends early also warms up, and looks whether it got better, in less time. own: what was said of it."""
    steps = math.ceil(tokens / tokens_an_update(config))
    fitting = {"warmup_steps": max(1, steps // 10), "checkpoint_every": max(1, math.ceil(steps / 10))}
    return {
        key: value
        for key, value in fitting.items()
        if key not in own.get("training", {}) and value < getattr(config.training, key)
    }
