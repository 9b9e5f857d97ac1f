"""A model that is counted goes on with a text, without torch: sampling and greedy search, which follow one row each.

It says what the one search would say of it: the same constraints, and noise by the same counter from (seed,
sentence, step), here in numpy. Torch alone takes longer to import than an n-gram takes to answer. Beams are next door
(counted_beam.py); drafts and every other model are the one search's; a test holds the two beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.hypothesis import Hypothesis, length_penalty
from anaphora.decoding.spelling import Listener
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK

F32 = NDArray[np.float32]
Ids = NDArray[np.int64]

FORBIDDEN = np.float32(-np.inf)
GOLDEN, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Of SplitMix64, as in sampling.py."""


class Counted(Protocol):
    """What is asked of a model here: an n-gram model, or a mixture of such. A state is two arrays whose first dimension
    is that of rows."""

    @property
    def order(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...
    def begin(self, rows: int) -> tuple[Ids, Ids]: ...
    def take(self, rows: Sequence[Any], context: Ids, length: Ids) -> None: ...
    def advance(self, ids: Ids, context: Ids, length: Ids, out: F32) -> None: ...
    def side_by_side(self, work: Callable[[slice], None], rows: int) -> None: ...


@dataclass
class Row:
    """One text, while it is being said."""

    prompt: Sequence[int]
    lines: int
    """Line ends that are still to come; the last one is its end."""
    heard: Listener | None
    said: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    """log P of each token, of the end mark too."""
    live: np.float32 = field(default_factory=np.float32)
    """Their sum, as it ranks."""
    finished: bool = False
    stopped: bool = False
    dead: bool = False
    """Nothing can follow."""

    @property
    def over(self) -> bool:
        return self.finished or self.stopped or self.dead

    def add(self, token: int, gain: float, rank: np.float32, *, ends: bool) -> None:
        if gain == FORBIDDEN:
            self.dead = True
            return
        self.gains.append(gain)
        self.live = self.live + rank
        self.finished = ends
        if ends:
            return
        self.said.append(token)
        self.lines -= token == EOS
        if self.heard is not None:
            self.heard.add(token)
            self.stopped = self.heard.stopped is not None

    def followed_by(self, token: int, gain: float, total: np.float32) -> Row:
        """Another text, with one token more and that sum; a stop string is heard where it lives."""
        heard = self.heard
        if heard is not None and total > FORBIDDEN:
            heard = heard.copy()
            heard.add(token)
        said = replace(self, said=[*self.said, token], gains=[*self.gains, gain], live=total, heard=heard)
        said.lines -= token == EOS
        said.stopped = bool(total > FORBIDDEN) and heard is not None and heard.stopped is not None
        return said

    def hypothesis(self, alpha: float) -> Hypothesis:
        total = math.fsum(self.gains)
        score = float(self.live) / length_penalty(len(self.gains), alpha) if self.gains else float(FORBIDDEN)
        return Hypothesis(self.said, score, total, self.gains, self.finished, self.stopped)


def search_prompts(
    model: Counted,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    sentence_ids: Sequence[int],
    listeners: Sequence[Listener] | None = None,
    lines: int = 1,
    forgets: bool = False,
) -> list[list[Hypothesis]]:
    """What follows each prompt, ids from ⟨s⟩ on, up to config.max_length tokens: one hypothesis each."""
    heard = [None] * len(prompts) if listeners is None else [listener.copy() for listener in listeners]
    rows = [Row(prompt, lines, listener) for prompt, listener in zip(prompts, heard)]
    for _ in _Batch(model, rows, config, sentence_ids).steps():
        pass
    return [[row.hypothesis(config.length_penalty)] for row in rows]


def stream_search_prompt(
    model: Counted,
    prompt: Sequence[int],
    config: DecodingConfig,
    *,
    sentence_id: int,
    lines: int = 1,
    forgets: bool = False,
) -> Iterator[tuple[int, float]]:
    """The same of one prompt, while it is being said: each token with its log-probability, the end mark too."""
    row = Row(prompt, lines, None)
    for _ in _Batch(model, [row], config, [sentence_id]).steps():
        if not row.dead:
            yield EOS if row.finished else row.said[-1], row.gains[-1]


class _Batch:
    """Rows that go on together, until each is over."""

    def __init__(
        self, model: Counted, rows: Sequence[Row], config: DecodingConfig, sentence_ids: Sequence[int]
    ) -> None:
        self.model, self.config, self.rows = model, config, list(rows)
        self.keys = _keys(config.seed, np.array(sentence_ids, np.uint64))
        self.context, self.length = model.begin(len(rows))
        last = model.order + 1  # all that it looks at
        model.take([row.prompt[-last:-1] for row in rows], self.context, self.length)
        self.ids = np.array([row.prompt[-1] for row in rows], np.int64)  # what each has said last
        self.scores = np.empty((len(rows), model.vocabulary), np.float32)

    def steps(self) -> Iterator[None]:
        """Every row that is not over says one token more, step by step."""
        assert self.config.max_length is not None
        for step in range(self.config.max_length):
            for some, chosen in self._ask_all(step):
                self.ids[some] = chosen.tokens
                for row, token, gain, rank, ends in zip(self.rows[some], *chosen):
                    row.add(int(token), float(gain), rank, ends=bool(ends))
            yield
            going = np.array([not row.over for row in self.rows])
            if not going.any():
                return
            self.ids, self.keys = self.ids[going], self.keys[going]
            self.context, self.length = self.context[going], self.length[going]
            self.rows = [row for row in self.rows if not row.over]

    def _ask_all(self, step: int) -> list[tuple[slice, _Choice]]:
        """What all rows say next, in parts."""
        found: list[tuple[slice, _Choice]] = []
        self.model.side_by_side(lambda some: found.append((some, self._ask(some, step))), len(self.rows))
        return found

    def _ask(self, some: slice, step: int) -> _Choice:
        scores = self.scores[some]
        self.model.advance(self.ids[some], self.context[some], self.length[some], scores)
        return _choose(scores, self.rows[some], self.config, step, self.keys[some])


class _Choice(NamedTuple):
    """What rows say next, (R,) each."""

    tokens: Ids
    gains: F32
    """log P as the model gave it."""
    ranks: F32
    """What it adds to the sum that ranks."""
    ends: NDArray[np.bool_]
    """Whether the row is over with it."""


def _choose(scores: F32, rows: Sequence[Row], config: DecodingConfig, step: int, keys: NDArray[np.uint64]) -> _Choice:
    """What each row says next; `scores` (R, V), log P of every token, are ours to write."""
    last, ranked = constrain(scores, rows, config, step)
    at = np.arange(len(rows))
    if config.sample:
        tokens = _draw(ranked, _uniform(keys, step), config)
        return _Choice(tokens, scores[at, tokens], scores[at, tokens], last & (tokens == EOS))
    end = scores[:, EOS].copy()
    if ranked is scores:
        ranked = scores.copy()
    ranked[last, EOS] = FORBIDDEN
    tokens = ranked.argmax(axis=1)
    live = np.array([row.live for row in rows])
    ends = last & (end > FORBIDDEN) & (live + end >= live + ranked[at, tokens])
    tokens = np.where(ends, EOS, tokens)
    return _Choice(tokens, scores[at, tokens], np.where(ends, end, ranked[at, tokens]), ends)


def constrain(scores: F32, rows: Sequence[Row], config: DecodingConfig, step: int) -> tuple[NDArray[np.bool_], F32]:
    """Forbid what each row may not say, in the scores (R, V), as constraints.py does: the rows whose next line end is
    their end (R,), and the scores that rank, which are the same unless repetitions are penalized."""
    last = np.array([row.lines == 1 for row in rows])
    scores[:, [PAD, BOS] if config.unknown else [PAD, BOS, UNK]] = FORBIDDEN
    if step < config.min_length:
        scores[last | (step == 0), EOS] = FORBIDDEN
    if config.no_repeat_ngram:
        for row, own in zip(rows, scores):
            own[_repeating(row.said, config.no_repeat_ngram)] = FORBIDDEN
    if config.repetition_penalty == 1.0:
        return last, scores
    ranked = scores.copy()
    for row, own in zip(rows, ranked):
        seen = np.array(sorted({*row.prompt, *row.said} - {EOS, PAD, BOS}), np.int64)
        own[seen] *= np.float32(config.repetition_penalty)
    return last, ranked


def _repeating(said: Sequence[int], n: int) -> list[int]:
    """Tokens that would complete n tokens which stand in what was said; line ends are spared."""
    context = said[len(said) - (n - 1) :]
    return [
        said[at + n - 1]
        for at in range(len(said) - n + 1)
        if said[at : at + n - 1] == context and said[at + n - 1] != EOS
    ]


def _draw(scores: F32, u: F32, config: DecodingConfig) -> Ids:
    """`sampling.draw` in numpy: one token a row, by temperature, top-k or top-p, min-p and epsilon."""
    values = scores if config.temperature == 1.0 else scores / np.float32(config.temperature)
    names: Ids | None = None
    if 0 < config.top_k < scores.shape[1]:
        names = np.argsort(-values, axis=1, kind="stable")[:, : config.top_k]
    elif config.top_p < 1.0:
        names = np.argsort(-values, axis=1, kind="stable")
    if names is not None:
        values = np.take_along_axis(values, names, axis=1)
    most = values.max(axis=1, keepdims=True)
    p: F32 = np.exp(values - np.where(most == FORBIDDEN, np.float32(0), most))
    total = p.sum(axis=1, keepdims=True)
    p /= np.where(total == 0, np.float32(1), total)  # where nothing can follow, nothing is drawn
    weak = None
    if config.min_p > 0.0 or config.epsilon:
        best = p.max(axis=1, keepdims=True)
        weak = p < np.maximum(np.float32(config.min_p) * best, np.minimum(best, np.float32(config.epsilon or 0.0)))
    if config.top_p < 1.0:
        before = _cumulative(p) - p
        p[before >= config.top_p] = 0.0
    if weak is not None:
        p[weak] = 0.0
    cumulative = _cumulative(p)
    place = (cumulative <= (u * cumulative[:, -1])[:, None]).sum(axis=1)
    place = np.where(place < p.shape[1], place, p.argmax(axis=1))
    return place if names is None else names[np.arange(len(names)), place]


def _cumulative(p: F32) -> F32:
    return np.cumsum(p, axis=1, dtype=np.float64).astype(np.float32)


def _scrambled(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer."""
    x = (x ^ (x >> np.uint64(30))) * MIX_1
    x = (x ^ (x >> np.uint64(27))) * MIX_2
    return x ^ (x >> np.uint64(31))


def _keys(seed: int, sentence_ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One stream of noise for each sentence: (R,), `sampling.noise_keys` of one sample."""
    offset = np.uint64((seed * int(MIX_1) + int(GOLDEN)) % (1 << 64))
    return _scrambled(_scrambled(_scrambled(sentence_ids * GOLDEN + offset)) + GOLDEN)


def _uniform(keys: NDArray[np.uint64], step: int) -> F32:
    """The step-th number of each stream, in [0, 1)."""
    bits = _scrambled(keys + np.uint64((step + 1) * int(GOLDEN) % (1 << 64)))
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
