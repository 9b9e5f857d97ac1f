"""The one search: beam, greedy and sampling, batched over sentences, with cached states, for every translator.

B sentences are searched at once with K hypotheses each. A step asks the model for (B * K, V) log-probabilities, chooses
how each sentence's K hypotheses go on, and moves the model's state along. Greedy search is a beam of one; sampling is
another way to choose (each row goes its own way), nothing else differs.

    scores   a finished hypothesis y of length |y| (its end mark counts) has, as in GNMT (Wu et al. 2016),
                 score(y) = log P(y | x) / ((5 + |y|) / 6)^alpha + beta * sum_i log min(1, sum_j attention[j, i])
    choosing the K best continuations that do not end live on; one that ends is finished if it is among the K best of
             all continuations, and the K best finished ones are kept
    stopping a sentence is done when its n-th best finished score is at least the best that any live hypothesis could
             still reach: more tokens only lower log P, so never above log P / penalty(max_length). Hence what the
             search returns first does not depend on n_best, and a beam wide enough finds the true optimum

No result depends on the batch: limits, noise and stopping belong to the sentence, and a sentence that is done is frozen
until enough are done to be worth dropping. The host waits for the device once a step, to learn how many are left.
Hypotheses are kept as a trellis (each step stores the token and which row it continued) and read backwards at the end.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from anaphora.arguments.signatures import spelled_out
from anaphora.decoding.constraints import (
    FORBIDDEN,
    block_ends,
    block_repeats,
    forbidden_tokens,
    force,
    penalize_repeats,
    prefix_table,
)
from anaphora.decoding.decoding_settings import DecodingConfig, changed
from anaphora.decoding.hypothesis import Hypothesis, length_penalty
from anaphora.decoding.options import SearchOptions
from anaphora.decoding.sampling import draw, noise_keys, uniform
from anaphora.decoding.spelling import Listener
from anaphora.errors import UserError
from anaphora.models.contracts import DecoderState, Translator
from anaphora.models.losses import lengths_by_padding
from anaphora.tokenizers.tokenizer import BOS, EOS

DROP = 0.25  # share of the batch that must be done before the others are moved together: a move copies every cache
CUT, FINISHED, STOPPED = 0, 1, 2  # how a hypothesis came to its end: at the limit, by its end mark, by a stop string
BLOCK = 128  # tokens whose maximum is looked at first, in `_best_by_blocks`


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Dropout off, and the mode restored afterwards: validation speaks in the middle of training."""
    training = isinstance(model, nn.Module) and model.training
    if isinstance(model, nn.Module) and training:
        model.eval()
    try:
        yield
    finally:
        if isinstance(model, nn.Module) and training:
            model.train()


@spelled_out(SearchOptions)
@torch.no_grad()
def search(
    model: Translator,
    source: Tensor,
    source_lengths: Tensor | None = None,
    config: DecodingConfig | None = None,
    *,
    prefix: Sequence[Sequence[int]] | None = None,
    sentence_ids: Sequence[int] | Tensor | None = None,
    prompt: bool = False,
    listeners: Sequence[Listener] | None = None,
    lines: int = 1,
    **decoding: Unpack[SearchOptions],
) -> list[list[Hypothesis]]:
    """Translate source (B, S), padded, each ending in EOS: B lists of n_best hypotheses, best first.

        search(model, source, beam=4)[0][0].tokens    # of the first sentence: ids, without the end mark

    The model is a Translator of ours or anything with its `start`, `step` and `max_target_length`. source_lengths (B,):
    what is no padding, unless given. config and keywords: settings of section `decoding`; a beam of 5 by default.
    prefix: for each sentence the tokens its outputs must begin with (may be empty, lengths may differ); they count in
    the score with their true log-probability. sentence_ids: numbers that name the sentences, from which the noise of
    sampling is made; by default 0 … B-1. prompt: the source is no other language but what was said before: its tokens
    count as repeated. listeners: for each sentence one that stands at the end of its prefix and hears stop strings
    (`config.stop` are texts, and the search knows none). lines: how many end marks an output ends with; those before
    the last are tokens like others. A list is shorter than n_best only where no more exist.
    """
    config = config or DecodingConfig()
    if decoding:
        config = changed(config, decoding)
    if source.dim() != 2 or source.is_floating_point():
        raise ValueError(f"source must be token ids (B, S); it is {source.dtype} of shape {tuple(source.shape)}")
    if source.shape[0] == 0:
        return []
    source_lengths = lengths_by_padding(source) if source_lengths is None else source_lengths
    with evaluating(model):
        engine = _Engine(model, source, source_lengths, config, prefix, sentence_ids, prompt, listeners, lines)
        for _ in engine.run(source, source_lengths):
            pass
        return engine.hypotheses()


@torch.no_grad()
def stream_search(
    model: Translator,
    source: Tensor,
    source_lengths: Tensor,
    config: DecodingConfig,
    *,
    sentence_ids: Sequence[int] | Tensor | None = None,
    prompt: bool = False,
    lines: int = 1,
) -> Iterator[tuple[int, float]]:
    """`search` for one sentence (1, S) and one row, which is heard while it is said: each token with its
    log-probability, the end mark too if it was said. A beam knows its first word only at its end, and cannot; without
    drawing the likeliest token is said at each step, whatever the length penalty."""
    assert source.shape[0] == 1 and (config.sample or config.beam == 1)
    with evaluating(model):
        engine = _Engine(model, source, source_lengths, config, None, sentence_ids, prompt, None, lines)
        for step, (tokens, gain, end_gain) in enumerate(engine.run(source, source_lengths)):
            if float(engine.sentences.finished[0, 0]) > FORBIDDEN:  # it ended here, and `tokens` is what it did not say
                yield EOS, float(end_gain)
                return
            if float(engine.total[step, 0, 0]) > FORBIDDEN:
                yield int(tokens), float(gain)


@dataclass
class _Sentences:
    """What the search knows of the sentences it still works on; every tensor's first dimension is B."""

    number: Tensor  # (B,) place in the batch that was asked for
    limit: Tensor  # (B,) longest output, end mark included
    done: Tensor  # (B,) frozen: waits to be dropped
    live: Tensor  # (B, K) log-probability of each live hypothesis, -inf for a dead row
    finished: Tensor  # (B, K) scores of the best finished hypotheses, best first, -inf where there is none
    reference: Tensor  # (B, K) where those end in the trellis: step * K + row
    lines: Tensor | None = None  # (B, K) line ends until the one that is the end; None: the first is
    forced: Tensor | None = None  # (B, P)
    keys: Tensor | None = None  # (B, K) noise
    history: Tensor | None = None  # (B, K, L) tokens so far, where n-grams must not repeat
    prompt: Tensor | None = None  # (B, S) tokens that count as said
    covered: Tensor | None = None  # (B, K, S) attention that each source token has received
    padding: Tensor | None = None  # (B, S) True where there is no source token

    def select(self, keep: Tensor) -> _Sentences:
        present = {f.name: tensor for f in dataclasses.fields(self) if (tensor := getattr(self, f.name)) is not None}
        return _Sentences(**{name: tensor.index_select(0, keep) for name, tensor in present.items()})


class _Engine:
    """One batch, from the first step to the finished hypotheses."""

    def __init__(
        self,
        model: Translator,
        source: Tensor,
        source_lengths: Tensor,
        config: DecodingConfig,
        prefix: Sequence[Sequence[int]] | None,
        sentence_ids: Sequence[int] | Tensor | None,
        prompt: bool,
        listeners: Sequence[Listener] | None,
        lines: int,
    ) -> None:
        self.model, self.config = model, config
        batch, device = source.shape[0], source.device
        self.rows = rows = config.n_best if config.sample else config.beam  # K
        prefix = prefix if prefix is not None and any(prefix) else None
        if prefix is not None and len(prefix) != batch:
            raise ValueError(f"{len(prefix)} prefixes for {batch} sentences")
        limits = self._limits(source_lengths.tolist(), prefix)
        self.limits, self.steps = np.array(limits), max(limits)

        live = torch.full((batch, rows), FORBIDDEN, device=device)
        live[:, : rows if config.sample else 1] = 0.0  # beam: all rows are the same at first, so only one may speak
        s = _Sentences(
            number=torch.arange(batch, device=device),
            limit=torch.tensor(limits, device=device),
            done=torch.zeros(batch, dtype=torch.bool, device=device),
            live=live,
            finished=torch.full((batch, rows), FORBIDDEN, device=device),
            reference=torch.zeros(batch, rows, dtype=torch.long, device=device),
        )
        if lines != 1:
            s.lines = torch.full((batch, rows), lines, device=device)
        if prefix is not None:
            s.forced = prefix_table(prefix, device)
        if config.sample:
            ids = s.number if sentence_ids is None else torch.as_tensor(sentence_ids, dtype=torch.long, device=device)
            s.keys = noise_keys(config.seed, ids, rows)
        self.penalized = config.repetition_penalty != 1.0
        if config.no_repeat_ngram or self.penalized:
            s.history = torch.zeros(batch, rows, self.steps, dtype=torch.long, device=device)
        if config.coverage_penalty:
            s.covered = torch.zeros(batch, rows, source.shape[1], device=device)
            s.padding = torch.arange(source.shape[1], device=device) >= source_lengths.to(device)[:, None]
        if self.penalized and prompt:
            s.prompt = source
        self.sentences = s
        self.listeners = None if listeners is None else [[listener] * rows for listener in listeners]
        self.deaf = [0] * batch if prefix is None else [len(tokens) for tokens in prefix]  # steps not listened to

        # The trellis, (steps, batch, K): what each row said at each step, and what ending there would have cost.
        shape = (self.steps, batch, rows)
        self.link = torch.zeros(shape, dtype=torch.long, device=device)  # row continued * V + token said
        self.gain = torch.zeros(shape, device=device)  # log-probability of that token
        self.end_gain = torch.zeros(shape, device=device)  # of the end mark instead, after the row as it was before
        self.total = torch.full(shape, FORBIDDEN, device=device)  # sum of gains; -inf: no live hypothesis here
        self.finished = s.finished.clone()  # (batch, K), written when a sentence leaves
        self.reference = s.reference.clone()
        self.vocabulary = 1

    def _limits(self, source_lengths: list[int], prefix: Sequence[Sequence[int]] | None) -> list[int]:
        """Of each sentence alone, so that its neighbours do not matter; min_length and prefix always get their room."""
        c, limits = self.config, []
        for number, length in enumerate(source_lengths):
            forced = len(prefix[number]) if prefix is not None else 0
            if forced >= self.model.max_target_length:
                raise UserError(
                    f"a forced prefix has {forced} tokens; the model can say {self.model.max_target_length - 1}",
                    cure="shorten it",
                )
            limit = c.max_length if c.max_length is not None else int(c.max_length_ratio * length) + c.max_length_extra
            limits.append(min(max(limit, c.min_length + 1, forced + 1), self.model.max_target_length))
        return limits

    def run(self, source: Tensor, source_lengths: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Step by step; what each sentence's rows said, at which log-probability, and that of the end mark: (B, K)."""
        c, rows = self.config, self.rows
        state = self.model.start(source, source_lengths, rows, self.steps)
        tokens = torch.full((source.shape[0], rows), BOS, dtype=torch.long, device=source.device)
        identity = torch.arange(rows, device=source.device)
        bounds = [length_penalty(length, c.length_penalty) for length in range(self.steps + 1)]
        penalty_at_limit = torch.tensor(bounds, device=source.device)
        forbidden = forbidden_tokens(unknown=c.unknown, device=source.device)
        for step in range(self.steps):
            s = self.sentences
            log_probabilities, state, attention = self.model.step(
                tokens.view(-1), state, attention=s.covered is not None
            )  # (R, V)
            self.vocabulary = log_probabilities.shape[1]
            scores, penalized = self._constrain(log_probabilities, forbidden, step)  # (R, V), float32, ours to write
            coverage = self._cover(attention)  # (B, K) or 0

            end_gain = scores[:, EOS].reshape(-1, rows).clone()  # (B, K)
            last = None if s.lines is None else s.lines == 1  # (B, K)
            if last is not None:
                end_gain.masked_fill_(~last, FORBIDDEN)
            if s.keys is None:
                live, parent, tokens, gain, ends = extend(penalized, s.live, end_gain, last)
                if self.penalized:  # what ranks is penalized, what is told is not
                    gain = scores.view(-1, rows * self.vocabulary).gather(1, parent * self.vocabulary + tokens)
            else:
                parent, u = identity.expand_as(s.live), uniform(s.keys, step).view(-1)
                how = {"temperature": c.temperature, "top_p": c.top_p, "min_p": c.min_p, "epsilon": c.epsilon or 0.0}
                tokens = draw(penalized, u, top_k=c.top_k, **how).view(-1, rows)
                gain = scores.gather(1, tokens.view(-1, 1)).view(-1, rows)
                ending = tokens == EOS if last is None else (tokens == EOS) & last
                live = (s.live + gain).masked_fill(ending, FORBIDDEN)
                ends = (s.live + end_gain).masked_fill(~ending, FORBIDDEN)

            if s.lines is not None:
                s.lines = s.lines.gather(1, parent) - (tokens == EOS).long()
            stops = None if self.listeners is None else self._stops(live, parent, tokens, step)  # (B, K)
            if stops is not None:
                stopped, live = live.masked_fill(~stops, FORBIDDEN), live.masked_fill(stops, FORBIDDEN)

            self.link[step].index_copy_(0, s.number, parent * self.vocabulary + tokens)
            self.gain[step].index_copy_(0, s.number, gain)
            self.end_gain[step].index_copy_(0, s.number, end_gain)
            self.total[step].index_copy_(0, s.number, live)

            # Finished hypotheses, old and new, best first. A stable sort: of equals the earlier stays in front, so that
            # the order does not depend on how long the search went on.
            pool = [s.finished, ends / bounds[step + 1] + coverage]  # (B, K) each
            reference = [s.reference, (step * rows + identity).expand_as(s.reference)]
            if stops is not None:  # the token is part of them, unlike the end mark: they end where the next step begins
                pool.append(stopped / bounds[step + 1] + coverage)
                reference.append((-1 - (step + 1) * rows - identity).expand_as(s.reference))
            best, order = torch.cat(pool, dim=1).sort(dim=1, descending=True, stable=True)
            s.finished, s.reference = best[:, :rows], torch.cat(reference, dim=1).gather(1, order[:, :rows])

            # When sampling, n_best is K: the K-th best exists once all rows have ended, and then none is live.
            reachable = live.amax(dim=1) / penalty_at_limit[s.limit]  # (B,)
            s.done = s.done | (s.finished[:, c.n_best - 1] >= reachable) | (s.limit <= step + 1)
            s.live = live.masked_fill(s.done[:, None], FORBIDDEN)  # frozen: nothing can come of a dead row

            moved = ((parent != identity) & (s.live > FORBIDDEN)).any()
            summary = torch.stack([(~s.done).sum(), live.isnan().any(), moved])
            left, broken, move = summary.tolist()  # the one moment of the step at which the host waits
            if broken:
                what = "the model's log-probabilities are not numbers (NaN): its weights are damaged"
                raise UserError(what, cure="take an earlier checkpoint, or train it again")
            yield tokens, gain, end_gain
            if left == 0:
                break
            if left <= (1 - DROP) * s.live.shape[0]:
                state, parent, tokens = self._drop(state, left, parent, tokens)
            # After the first step all rows of a sentence hold the same past, so there is nothing to move yet.
            self._follow(state if move and step > 0 else None, parent, tokens, step)
        self._leave()

    def _constrain(self, log_probabilities: Tensor, forbidden: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """-inf for what may not be said, in place: a step's log-probabilities are nobody's but the search's. What is
        chosen by is the same, or, where repetitions are penalized, another."""
        c, s = self.config, self.sentences
        forcing = s.forced is not None and step < s.forced.shape[1]
        scores = log_probabilities.clone() if forcing else log_probabilities
        scores.index_fill_(1, forbidden, FORBIDDEN)
        block_ends(scores, step, c.min_length, None if s.lines is None else (s.lines == 1).view(-1))
        if s.history is not None and c.no_repeat_ngram:
            block_repeats(scores, s.history[:, :, :step].flatten(0, 1), c.no_repeat_ngram)
        if forcing and s.forced is not None:
            force(scores, log_probabilities, s.forced[:, step].repeat_interleave(self.rows))
        if not self.penalized or s.history is None:
            return scores, scores
        penalized, said = scores.clone(), [s.history[:, :, :step].flatten(0, 1)]
        if s.prompt is not None:
            said.append(s.prompt.repeat_interleave(self.rows, dim=0))
        penalize_repeats(penalized, *said, penalty=c.repetition_penalty)
        return scores, penalized

    def _stops(self, live: Tensor, parent: Tensor, tokens: Tensor, step: int) -> Tensor:
        """Which rows have just said a stop string: (B, K). Text is not for the device, so the host waits here."""
        assert self.listeners is not None
        found = torch.zeros(live.shape, dtype=torch.bool)
        told = torch.stack([parent, tokens, live > FORBIDDEN]).tolist()
        for place, (number, done) in enumerate(torch.stack([self.sentences.number, self.sentences.done]).T.tolist()):
            if done or step < self.deaf[number]:
                continue
            before, after = self.listeners[number], []
            for row, (came, token, alive) in enumerate(zip(*(column[place] for column in told))):
                heard = before[came]
                if alive:
                    heard = heard.copy()
                    heard.add(token)
                    found[place, row] = heard.stopped is not None
                after.append(heard)
            self.listeners[number] = after
        return found.to(live.device)

    def _cover(self, attention: Tensor | None) -> Tensor | float:
        """GNMT's coverage term of each row, this step's attention included: (B, K), never positive."""
        s = self.sentences
        if s.covered is None or s.padding is None:
            return 0.0
        if attention is None:
            raise UserError(
                "coverage_penalty needs a model that attends, and this one gives no attention",
                cure="set decoding.coverage_penalty=0",
            )
        s.covered = s.covered + attention.float().view_as(s.covered)
        # A source token that got nothing at all would cost infinitely much: the floor makes that about 14 * beta.
        logs = s.covered.clamp(min=1e-6, max=1.0).log().masked_fill(s.padding[:, None, :], 0.0)
        return self.config.coverage_penalty * logs.sum(dim=-1)

    def _follow(self, state: DecoderState | None, parent: Tensor, tokens: Tensor, step: int) -> None:
        """Row k goes on from where row parent[k] (B, K) stood: the model's state and whatever else is kept per row."""
        s = self.sentences
        if state is not None:
            first = torch.arange(parent.shape[0], device=parent.device)[:, None] * self.rows
            state.reorder((first + parent).view(-1))
        if s.history is not None:
            s.history = s.history.gather(1, parent[:, :, None].expand_as(s.history))
            s.history[:, :, step] = tokens
        if s.covered is not None:
            s.covered = s.covered.gather(1, parent[:, :, None].expand_as(s.covered))

    def _drop(
        self, state: DecoderState, left: int, parent: Tensor, tokens: Tensor
    ) -> tuple[DecoderState, Tensor, Tensor]:
        """Keep the `left` sentences that are not done; no need to ask the device which ones they are."""
        self._leave()
        keep = self.sentences.done.byte().argsort(stable=True)[:left]
        self.sentences = self.sentences.select(keep)
        return state.select(keep), parent.index_select(0, keep), tokens.index_select(0, keep)

    def _leave(self) -> None:
        """Write down what has been found so far for the sentences at work."""
        self.finished.index_copy_(0, self.sentences.number, self.sentences.finished)
        self.reference.index_copy_(0, self.sentences.number, self.sentences.reference)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Read the trellis backwards, all hypotheses of all sentences together."""
        link, gain, end_gain = self.link.cpu().numpy(), self.gain.cpu().numpy(), self.end_gain.cpu().numpy()
        total, scores, references = self.total.cpu().numpy(), self.finished.cpu().numpy(), self.reference.cpu().numpy()
        ends = [self._ends(b, scores[b], references[b], total[:, b]) for b in range(len(scores))]

        sentence = np.array([b for b, found in enumerate(ends) for _ in found])  # (N,)
        length, row, _, _ = (np.array(column) for column in zip(*(end for found in ends for end in found)))  # each (N,)
        tokens, gains = np.zeros((len(row), self.steps), dtype=np.int64), np.zeros((len(row), self.steps))
        at = row
        for step in range(length.max() - 1, -1, -1):
            said = np.where(step < length, link[step, sentence, at], 0)
            tokens[:, step] = said % self.vocabulary
            gains[:, step] = gain[step, sentence, at]
            at = np.where(step < length, said // self.vocabulary, at)

        results: list[list[Hypothesis]] = []
        n = 0
        for b, found in enumerate(ends):
            results.append([])
            for count, last_row, how, score in found:
                per_token, finished = gains[n, :count].tolist(), how == FINISHED
                if finished:
                    per_token.append(float(end_gain[count, b, last_row]))
                said, whole = tokens[n, :count].tolist(), math.fsum(per_token)
                results[b].append(Hypothesis(said, float(score), whole, per_token, finished, how == STOPPED))
                n += 1
        return results

    def _ends(
        self, b: int, scores: np.ndarray, references: np.ndarray, total: np.ndarray
    ) -> list[tuple[int, int, int, float]]:
        """Where sentence b's hypotheses end, best first: (tokens, row after the last of them, how it ended, score)."""
        n, alpha = self.config.n_best, self.config.length_penalty
        found = []
        for score, reference in zip(scores[:n].tolist(), references[:n].tolist()):
            if score > FORBIDDEN:
                place = reference if reference >= 0 else -1 - reference
                found.append((*divmod(place, self.rows), FINISHED if reference >= 0 else STOPPED, score))
        cut = int(self.limits[b])  # those still live at the limit are handed out unfinished, if there is room
        alive = np.flatnonzero((total > FORBIDDEN).any(axis=1))
        if not found and (len(alive) == 0 or alive[-1] + 1 < cut):  # all died earlier: what they said until then
            cut = int(alive[-1]) + 1 if len(alive) else 0
        if cut == 0:
            return [(0, 0, CUT, FORBIDDEN)]
        rows = np.argsort(-total[cut - 1], kind="stable")[: n - len(found)]
        unfinished = [
            (cut, int(row), CUT, float(total[cut - 1, row]) / length_penalty(cut, alpha))
            for row in rows
            if total[cut - 1, row] > FORBIDDEN
        ]
        return found + unfinished


def extend(
    scores: Tensor, live: Tensor, end_gain: Tensor, last: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Beam search's choice: scores (R, V), live and end_gain (B, K) -> live, parent, token, gain, ends: (B, K) each.

    The K best continuations among K * V live on. `ends` holds the log-probability of the hypotheses that end here, if
    they are among the K best of all continuations, and -inf for the others: a beam of one ends when ending is best.
    last (B, K): rows that an end mark ends; for the others it is a token. By default all.
    """
    scores[:, EOS] = FORBIDDEN if last is None else scores[:, EOS].masked_fill(last.view(-1), FORBIDDEN)
    rows, vocabulary = live.shape[1], scores.shape[1]
    best, place = best_continuations(scores, live)
    ends = live + end_gain
    better = (best[:, None, :] > ends[:, :, None]).sum(-1) + (ends[:, None, :] > ends[:, :, None]).sum(-1)  # (B, K)
    ends = ends.masked_fill(better >= rows, FORBIDDEN)
    gain = scores.view(-1, rows * vocabulary).gather(1, place)
    return best, place.div(vocabulary, rounding_mode="floor"), place % vocabulary, gain, ends


def best_continuations(scores: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
    """The K largest of live (B, K) + scores (B * K, V), best first, and their places among the K * V: (B, K) each."""
    batch, rows = live.shape
    vocabulary = scores.shape[1]
    whole = vocabulary // BLOCK
    if scores.device.type == "cpu" and whole >= 4:
        return _best_by_blocks(scores, live, whole)
    gains, tokens = scores.topk(min(rows, vocabulary))  # (R, k): no row can have more than K among the K best
    best, at = (live.view(-1, 1) + gains).view(batch, -1).topk(rows)  # (B, K)
    row = torch.arange(rows, device=live.device).view(1, -1, 1)
    places = row * vocabulary + tokens.view(batch, rows, -1)  # (B, K, k)
    return best, places.flatten(1).gather(1, at)


def _best_by_blocks(scores: Tensor, live: Tensor, whole: int) -> tuple[Tensor, Tensor]:
    """The same, ten times as fast on a CPU: the K largest lie in the K blocks of the vocabulary, of all K rows, that
    have the largest maxima, and maxima of blocks are cheap. The last few tokens, no whole block, are all looked at."""
    batch, rows = live.shape
    vocabulary = scores.shape[1]
    blocks = scores[:, : whole * BLOCK].unflatten(1, (whole, BLOCK))  # (R, V/128, 128)
    peaks = live[:, :, None] + blocks.amax(dim=-1).view(batch, rows, whole)  # (B, K, V/128)
    chosen = peaks.flatten(1).topk(rows).indices  # (B, K)
    first = chosen.div(whole, rounding_mode="floor") * vocabulary + chosen % whole * BLOCK
    places = (first[:, :, None] + torch.arange(BLOCK)).flatten(1)  # (B, K * 128), among K * V
    rest = torch.arange(rows)[:, None] * vocabulary + torch.arange(whole * BLOCK, vocabulary)  # (K, the last few)
    places = torch.cat([places, rest.flatten().expand(batch, -1)], dim=1)
    row = places.div(vocabulary, rounding_mode="floor")
    best, at = (live.gather(1, row) + scores.view(batch, -1).gather(1, places)).topk(rows)
    return best, places.gather(1, at)
