"""Why a counting model says what it says: the path from the longest context down to the one that knew the word.

Each context on the way is a `Level`. What it gives the word is its own share, from its own counts, and the rest of its
probability is that of the next shorter context, times its weight:

    P(w | h) = share(h, w) + weight(h) · P(w | h without its first word)

A context that was never seen has no share and the weight 1; one after which the word was never seen has no share. So a
probability is a sum of `parts`: each level's share times the weights of all levels above. For `kneser-ney` the share is
(count - discount) / total, and a sum of several; for `stupid-backoff` the first level that knows the word gives all,
and each level above costs the same; for `add-k` what is below the one context is the uniform distribution; a model that
was read from a file is taken as a back-off model, so that its first level that knows the word gives all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anaphora.errors import UserError
from anaphora.models.next_word import Name, NextWord, NextWordsTold, likeliest
from anaphora.models.ngram.kernels.ngrams import distribution, walk
from anaphora.models.ngram.smoothing import predictable
from anaphora.tokenizers.tokenizer import BOS, PAD

if TYPE_CHECKING:
    from anaphora.models.ngram.ngram_model import NgramModel


@dataclass(frozen=True)
class Level:
    """What one context says of a word."""

    order: int
    """Words of the n-gram: those of the context and the word itself; 0 is the uniform distribution."""
    context: tuple[int, ...]
    known: bool
    """Whether the model knows anything that follows this context."""
    seen: bool
    """Whether the word is among that."""
    probability: float
    """P(word | context), all below included."""
    share: float
    """What comes of the context's own counts."""
    weight: float
    """What the next shorter context's probability is multiplied by; 0 where it is not asked."""
    part: float
    """The share times the weights of all levels above: what this level adds to the probability explained."""

    def document(self, name: Name) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "order": self.order,
            "context": [name(token) for token in self.context],
            "known": self.known,
            "seen": self.seen,
            "probability": self.probability,
            "share": self.share,
            "weight": self.weight,
            "part": self.part,
        }


@dataclass(frozen=True, repr=False)
class Candidate(NextWord):
    """A word that could come next, and how its probability came about."""

    token: int
    log_probability: float
    """Natural, found by following the path; bit for bit what `score` and `step` give."""
    order: int
    """Of the n-gram that answered: the longest that ends with the word; 0: none did."""
    levels: tuple[Level, ...]
    """From the longest context to the shortest that was asked."""
    scored: float
    """log P as the model itself gives it when it reads a text: what the path has to lead to."""

    @property
    def total(self) -> float:
        """What the parts add up to."""
        return math.fsum(level.part for level in self.levels)

    def document(self, name: Name) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            **self.said(name),
            "order": self.order,
            "levels": [level.document(name) for level in self.levels],
        }


@dataclass(frozen=True, repr=False)
class Why(NextWordsTold):
    """The likeliest next words after a prefix, likeliest first, each with its path."""

    prefix: tuple[int, ...]
    smoothing: str
    model_order: int
    candidates: tuple[Candidate, ...]
    discounts: tuple[tuple[float, ...], ...] = ()
    """(0, D₁, D₂, D₃₊) of each order, where they are known."""

    def document(self, name: Name = str) -> dict[str, Any]:
        """As JSON can hold it; `name` gives the text of an id."""
        return {
            "kind": "ngram",
            "prefix": [name(token) for token in self.prefix],
            "smoothing": self.smoothing,
            "model_order": self.model_order,
            "discounts": [list(order) for order in self.discounts],
            "candidates": [candidate.document(name) for candidate in self.candidates],
        }


def why(
    model: NgramModel,
    prefix: Sequence[int],
    *,
    top: int = 10,
    tokens: Sequence[int] = (),
    discounts: Sequence[Sequence[float]] = (),
) -> Why:
    """Explain the `top` likeliest words after ⟨s⟩ and a prefix, and `tokens` beside them.

    `discounts` are those the model was estimated with (`Estimate.discounts`): they are shown, not used.
    """
    for token in (*prefix, *tokens):
        if not 0 <= token < model.vocabulary:
            raise UserError(f"there is no token {token}: the model has {model.vocabulary}")
    row = np.array(prefix, np.uint32)
    found = np.empty(len(row), np.float32), np.empty(len(row), np.uint8)
    state, length = walk(row, *model._begin(), model.trie, model.rule, *found)
    logs = np.empty(model.vocabulary, np.float32)
    distribution(state, length, model.trie, model.rule, logs)
    chosen = dict.fromkeys([*likeliest(logs, top), *tokens])
    context = (BOS, *(int(token) for token in prefix))[-length:] if length else ()

    def scored(token: int) -> float:
        """What reading the token gives: a search from the state, not the whole distribution."""
        score = np.empty(1, np.float32)
        walk(np.array([token], np.uint32), state, length, model.trie, model.rule, score, np.empty(1, np.uint8))
        return float(score[0])

    return Why(
        tuple(int(token) for token in prefix),
        model.config.smoothing,
        model.order,
        tuple(explain(model, context, token, scored(token)) for token in chosen),
        tuple(tuple(order) for order in discounts),
    )


def explain(model: NgramModel, context: tuple[int, ...], token: int, scored: float) -> Candidate:
    """The path of one word after a context (which is as long as the model looks back, or begins with ⟨s⟩)."""
    if token in (PAD, BOS):  # nobody predicts them
        return Candidate(token, -math.inf, 0, (), scored)
    way = _exact if model.rule.exact and context else _backed_off
    return Candidate(token, *way(model, context, token), scored)


Way = tuple[float, int, tuple[Level, ...]]
"""log P, the order that answered, and the levels."""


def _backed_off(model: NgramModel, context: tuple[int, ...], token: int) -> Way:
    trie, level_cost = model.trie, model.rule.level
    steps: list[tuple[tuple[int, ...], bool, int, np.float32]] = []  # context, known, n-gram or -1, log weight
    for skipped in range(len(context) + 1):
        shorter = context[skipped:]
        node = _find(model, shorter)
        known = not shorter or (node >= 0 and bool(trie.first[node] < trie.first[node + 1]))
        gram = token if not shorter else _child(model, node, token) if known else -1
        cost = trie.log_weight[node] if shorter and known else np.float32(0)
        steps.append((shorter, known, gram, np.float32(cost + level_cost) if shorter else np.float32(0)))
    answer = next(place for place, (_, _, gram, _) in enumerate(steps) if gram >= 0)
    paid = np.float32(0)
    for shorter, known, _, _ in steps[:answer]:
        if known:
            paid += trie.log_weight[_find(model, shorter)]
    log_probability = paid + trie.log_probability[steps[answer][2]]
    if answer and level_cost != 0:
        log_probability += np.float32(answer) * level_cost
    interpolated = model.config.smoothing == "kneser-ney"
    below, levels = 0.0, []
    for place in range(len(steps) - 1 if interpolated else answer, -1, -1):
        shorter, known, gram, cost = steps[place]
        weight = math.exp(cost) if shorter else 0.0
        if gram < 0:
            share, probability = 0.0, weight * below
        elif interpolated and shorter:
            probability = math.exp(trie.log_probability[gram])
            share = max(0.0, probability - weight * below)
        else:
            share = probability = math.exp(trie.log_probability[gram])
            weight = 0.0
        levels.append((shorter, known, gram >= 0, probability, share, weight))
        below = probability
    return float(log_probability), len(steps[answer][0]) + 1, _with_parts(levels[::-1])


def _exact(model: NgramModel, context: tuple[int, ...], token: int) -> Way:
    """No shorter context is asked: what was not seen has an equal part of what is kept for it."""
    trie, rule = model.trie, model.rule
    node = _find(model, context)
    known = bool(node >= 0 and trie.first[node] < trie.first[node + 1])
    gram = _child(model, node, token) if known else -1
    kept = rule.unseen > -np.inf
    weight = math.exp(trie.log_weight[node]) if known else 1.0
    uniform = 1.0 / float(predictable(model.vocabulary).sum())
    if gram >= 0:
        log_probability, order = trie.log_probability[gram], len(context) + 1
    elif known:
        log_probability, order = np.float32(trie.log_weight[node] + rule.unseen), len(context) + 1
    else:
        log_probability, order = rule.unseen, 0
    probability = math.exp(log_probability)
    if not kept:
        levels = [(context, known, gram >= 0, probability, probability, 0.0)]
    else:
        share = max(0.0, probability - weight * uniform) if gram >= 0 else 0.0
        levels = [(context, known, gram >= 0, probability, share, weight), ((), True, True, uniform, uniform, 0.0)]
    found = _with_parts(levels)
    if kept:
        last = found[-1]
        found = (found[0], Level(0, (), True, True, last.probability, last.share, 0.0, last.part))
    return float(log_probability), order, found


def _with_parts(
    levels: Sequence[tuple[tuple[int, ...], bool, bool, float, float, float]],
) -> tuple[Level, ...]:
    paid, found = 1.0, []
    for context, known, seen, probability, share, weight in levels:
        found.append(Level(len(context) + 1, context, known, seen, probability, share, weight, paid * share))
        paid *= weight
    return tuple(found)


def _find(model: NgramModel, words: tuple[int, ...]) -> int:
    """The trie's number of an n-gram, or -1."""
    node = words[0] if words else -1
    for word in words[1:]:
        node = _child(model, node, word)
        if node < 0:
            return -1
    return node


def _child(model: NgramModel, node: int, word: int) -> int:
    begin, end = int(model.trie.first[node]), int(model.trie.first[node + 1])
    place = begin + int(np.searchsorted(model.trie.word[begin:end], word))
    return place if place < end and model.trie.word[place] == word else -1
