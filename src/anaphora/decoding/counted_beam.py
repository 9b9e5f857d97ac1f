"""Beam search in models that are counted, without torch: the choice and the scores of the one search, prompt by prompt.

beam_search.py says what a beam is: which hypotheses live on, when one is finished, when no better one can come.
This is the same for one prompt at a time, in numpy, as counted.py is for texts that follow one row; a test holds both
beside the one search.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from anaphora.decoding.counted import F32, FORBIDDEN, Counted, Ids, Row, constrain, stream_search_prompt
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.hypothesis import Hypothesis, length_penalty
from anaphora.decoding.spelling import Listener
from anaphora.tokenizers.tokenizer import EOS

__all__ = ["search_prompts", "stream_search_prompt"]  # a beam of one is heard as greedy search is


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
    """What follows each prompt, ids from ⟨s⟩ on: config.n_best hypotheses, best first."""
    heard = [None] * len(prompts) if listeners is None else listeners
    return [_Beam(model, Row(prompt, lines, listener), config).hypotheses() for prompt, listener in zip(prompts, heard)]


class _Beam:
    """One prompt, and the K texts that follow it so far."""

    def __init__(self, model: Counted, first: Row, config: DecodingConfig) -> None:
        assert config.max_length is not None
        self.model, self.config, self.width = model, config, config.beam
        self.limit = max(config.max_length, config.min_length + 1)
        self.rows, self.live = [first], np.zeros(1, np.float32)  # at first all K are the same, and one speaks
        self.context, self.length = model.begin(1)
        model.take([first.prompt[-model.order - 1 : -1]], self.context, self.length)
        self.ids: Ids = np.array([first.prompt[-1]], np.int64)
        self.finished: list[tuple[float, Row]] = []

    def hypotheses(self) -> list[Hypothesis]:
        """Those that ended, best first; where there are fewer than asked for, those that the limit cut off."""
        alpha, number = self.config.length_penalty, self.config.n_best
        unfinished: list[Row] = []
        for step in range(self.limit):
            self.step(step)
            alive = sorted((row for row in self.rows if row.live > FORBIDDEN), key=lambda row: -row.live)
            if alive or self.finished:
                unfinished = alive if step + 1 == self.limit or not self.finished else []
            if self.done() or not alive:
                break
        found = [row for _, row in self.finished[:number]]
        found += unfinished[: number - len(found)]
        return [row.hypothesis(alpha) for row in found] or [Row((), 1, None).hypothesis(alpha)]

    def done(self) -> bool:
        """Whether nothing that still lives can come before the last of those that are wanted."""
        best = max((row.live for row in self.rows), default=FORBIDDEN) / length_penalty(
            self.limit, self.config.length_penalty
        )
        wanted = self.config.n_best
        return len(self.finished) >= wanted and self.finished[wanted - 1][0] >= float(best)

    def step(self, step: int) -> None:
        """One token more for every row: the K best continuations that do not end live on."""
        scores = np.empty((len(self.rows), self.model.vocabulary), np.float32)

        def ask(some: slice) -> None:
            self.model.advance(self.ids[some], self.context[some], self.length[some], scores[some])

        self.model.side_by_side(ask, len(self.rows))
        last, ranked = constrain(scores, self.rows, self.config, step)
        end = np.where(last, scores[:, EOS], FORBIDDEN)
        if ranked is scores:
            ranked = scores.copy()
        ranked[last, EOS] = FORBIDDEN
        parents, tokens, totals = self._best(ranked)
        self._finish(end, totals)
        before = self.rows
        self.rows = []
        for parent, token, total in zip(parents.tolist(), tokens.tolist(), totals):
            row = before[parent].followed_by(token, float(scores[parent, token]), total)
            if row.stopped:
                self._keep(row)
                row = dataclasses.replace(row, live=FORBIDDEN)  # it keeps its place among the K, and says no more
            self.rows.append(row)
        self.live = np.array([row.live for row in self.rows], np.float32)
        self.ids, self.context, self.length = tokens, self.context[parents], self.length[parents]

    def _best(self, ranked: F32) -> tuple[Ids, Ids, F32]:
        """The K best continuations of all rows, best first, of equals the first: whose, which token, and their sums."""
        sums = (self.live[:, None] + ranked).ravel()
        number = min(self.width, len(sums))
        least = np.partition(sums, len(sums) - number)[-number]
        better = np.flatnonzero(sums > least)
        places = np.concatenate([better, np.flatnonzero(sums == least)[: number - len(better)]])
        places = places[np.argsort(-sums[places], kind="stable")]
        return places // ranked.shape[1], places % ranked.shape[1], sums[places]

    def _finish(self, end: F32, best: F32) -> None:
        """Rows that end here are finished if that is among the K best of all continuations."""
        ends = self.live + end
        for row, own, gain in zip(self.rows, ends, end.tolist()):
            if own > FORBIDDEN and (best > own).sum() + (ends > own).sum() < self.width:
                self._keep(dataclasses.replace(row, gains=[*row.gains, gain], live=own, finished=True))

    def _keep(self, row: Row) -> None:
        """Among the K best finished ones; of equals the earlier stays in front."""
        self.finished.append((row.hypothesis(self.config.length_penalty).score, row))
        self.finished.sort(key=lambda one: -one[0])
        del self.finished[self.width :]
