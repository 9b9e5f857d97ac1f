"""Speculative generation: something cheap guesses several tokens ahead, the model checks them all in one pass.

A large model reads many tokens in about the time of one: what costs is to fetch its weights, or to launch its kernels.
So a *draft* (drafts.py) proposes k tokens, the model reads them in parallel (`extend`), and as many as it agrees with
are kept; then comes one token of the model's own. Every pass gives at least one token and at most k + 1.

What is said is not changed by it. Drawn at random, a proposed token x that the draft gave the probability q(x) and the
model gives p(x) is kept with probability min(1, p(x) / q(x)); at the first that is not, a token is drawn from what the
draft had too little of, max(0, p - q), scaled to one. Then P(x) = min(p, q) + (1 - Σ min(p, q)) · (p - q)⁺ / Σ (p - q)⁺
= p: exactly the model's distribution, after temperature, top-k, top-p, min-p and whatever is forbidden (Leviathan et
al. 2023; Chen et al. 2023). Without drawing, a proposed token is kept if it is the likeliest. How good the draft is
decides how fast it goes, never what is said.

To draw from max(0, p - q) nobody need know all of q: draw x from p and keep it with probability
max(0, 1 - q(x) / p(x)), else draw again. A few draws are made at once, with the judgment, so that the host waits for
the device once a pass.

How many tokens are proposed follows from how many were kept so far: as many as give the most tokens for their cost.

Each output goes by itself, batch 1, where speculation pays: in a batch the weights are shared by its rows already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anaphora.decoding.beam_search import Hypothesis, evaluating
from anaphora.decoding.constraints import FORBIDDEN, Constraints
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.drafts import Draft, read_text
from anaphora.decoding.generation import MOST_SAMPLES, check_limits, check_samples, fewest, room
from anaphora.decoding.sampling import noise_keys, pick, scramble, uniform
from anaphora.decoding.spelling import Listener
from anaphora.errors import UserError
from anaphora.models.contracts import LanguageModel
from anaphora.tokenizers.tokenizer import BOS, EOS

DRAFT_TOKENS = 8
"""Proposed at once, at the most."""
MOST_DRAFT_TOKENS = 64
READING_COSTS = {"cpu": (4, 0.2), "cuda": (1, 0.03)}
"""What a pass costs more for each so many tokens that it reads, as a share of a pass over one: on a CPU, products read
rows by fours; on a GPU, a few rows are nearly free. By kind of device; another one is taken to be like a GPU."""
RESAMPLE_TRIES = 6
"""Draws from the model that are made at once, to find one that the draft had too little of."""


@dataclass
class Speculation:
    """How well a draft guessed."""

    passes: int = 0
    """Times that the model was asked."""
    proposed: int = 0
    accepted: int = 0
    rejected: int = 0
    """Passes in which one was not kept; what was proposed behind it was not looked at."""
    tokens: int = 0
    """Said in the end, those of the model's own included."""

    @property
    def acceptance_rate(self) -> float:
        """Share of the proposed tokens that were kept."""
        return self.accepted / self.proposed if self.proposed else math.nan

    @property
    def mean_accepted(self) -> float:
        """Proposed tokens that were kept, in a pass."""
        return self.accepted / self.passes if self.passes else math.nan

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes if self.passes else math.nan

    def add(self, other: Speculation) -> None:
        self.passes += other.passes
        self.proposed += other.proposed
        self.accepted += other.accepted
        self.rejected += other.rejected
        self.tokens += other.tokens

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        counts = {"passes": self.passes, "proposed": self.proposed, "accepted": self.accepted}
        counts |= {"rejected": self.rejected, "tokens": self.tokens}
        rates = {"acceptance_rate": self.acceptance_rate, "mean_accepted": self.mean_accepted}
        return {**counts, **rates, "tokens_per_pass": self.tokens_per_pass}


def speculate(
    model: LanguageModel,
    draft: Draft,
    prompt: Sequence[int],
    config: DecodingConfig,
    *,
    tokens: int = 100,
    draft_tokens: int = DRAFT_TOKENS,
    sentence_id: int = 0,
    lines: int = 1,
    forgets: bool = False,
    told: Speculation | None = None,
) -> Iterator[tuple[int, float]]:
    """What follows a prompt (ids without ⟨s⟩): each token with its log-probability as the model gave it, the end mark
    too if it is said, and at most `tokens` of them. `told` counts how the draft did; lines, forgets: as in `generate`.

    The same seed gives the same text with the same draft; with another draft another text of the same distribution.
    Without drawing the text is the one without a draft.
    """
    check_limits(config, tokens)
    if not 1 <= draft_tokens <= MOST_DRAFT_TOKENS:
        raise UserError(f"{draft_tokens} tokens are to be proposed at once", cure=f"make it 1 to {MOST_DRAFT_TOKENS}")
    if not config.sample and config.beam != 1:
        raise UserError("a draft cannot be combined with a beam", cure="leave out one of them")
    limit = room(model, len(prompt), tokens, forgets=forgets)
    config = replace(config, min_length=min(config.min_length, limit - 1))  # where there is less room than was asked
    text = [BOS, *prompt]
    return _speculate(model, draft, text, config, limit, draft_tokens, sentence_id, lines, told or Speculation())


@torch.no_grad()
def _speculate(
    model: LanguageModel,
    draft: Draft,
    text: list[int],
    config: DecodingConfig,
    limit: int,
    draft_tokens: int,
    sentence_id: int,
    lines: int,
    told: Speculation,
) -> Iterator[tuple[int, float]]:
    device, first = torch.device(model.device), len(text)
    holds = model.max_length or len(text) + limit
    rules = Constraints(config, text, device, lines=lines)
    noise = _noise(config.seed, sentence_id, limit) if config.sample else torch.zeros(3 + 2 * RESAMPLE_TRIES, 0)
    u_draft, u_left = noise[0].tolist(), noise[2 + RESAMPLE_TRIES :].T.tolist()  # none where nothing is drawn
    noise = noise[1 : 2 + RESAMPLE_TRIES].to(device)
    block, cost = READING_COSTS.get(device.type, READING_COSTS["cuda"])
    with evaluating(model):
        state, taken = read_text(model, text[:-1], holds, first + limit)
        draft.begin(text, limit)
        while (at := len(text) - first) < limit:
            if taken == holds:
                state, taken = read_text(model, text[:-1], holds, holds, full=True)
            ahead = min(worthwhile(told, draft_tokens, block, cost), limit - at - 1, holds - taken - 1)
            proposed, chances, chance = draft.propose(text, ahead, u_draft[at : at + ahead])
            k = len(proposed)
            row = torch.tensor([[text[-1], *proposed]], device=device)  # (1, k + 1)
            log_p, state = model.extend(row, state)
            log_p = log_p[0]  # (k + 1, V)
            scores = rules(log_p, text[first:], proposed)
            kept, drawn, p = _judge(scores, row[0, 1:], chances, noise[:, at : at + k + 1], rules)
            # the host waits once, and until then asks for nothing; float32 holds the number of any token
            gains = log_p[:-1].gather(1, row[0, 1:, None])[:, 0]  # (k,) of what was proposed
            there = log_p.index_select(0, kept)[0]  # (V,)
            own = torch.stack([drawn.float(), there.gather(0, drawn), p.gather(0, drawn)])  # (3, tries)
            alive_there = scores.index_select(0, kept).amax()[None]
            summary = torch.cat([kept.float(), alive_there, gains, own.flatten()]).tolist()
            count, alive = int(summary[0]), summary[1]
            if math.isnan(alive):
                what = "the model's log-probabilities are not numbers (NaN): its weights are damaged"
                raise UserError(what, cure="take an earlier checkpoint, or train it again")
            said = list(zip(proposed, summary[2 : 2 + k]))[:count]
            if alive > FORBIDDEN:  # else no token has any probability here
                tries = np.array(summary[2 + k :]).reshape(3, -1)
                place = 0
                if config.sample and count < k:  # the first that the draft had too little of
                    q = chance(count, tries[0].astype(np.int64))
                    left = np.flatnonzero(np.array(u_left[at + count][:RESAMPLE_TRIES]) * tries[2] >= q)
                    place = int(left[0]) if len(left) else -1
                if place >= 0:
                    said.append((int(tries[0, place]), float(tries[1, place])))
                else:
                    token = _what_is_left(p, chance, count, u_left[at + count][RESAMPLE_TRIES])
                    said.append((token, float(log_p[count, token])))
            state = model.rewind(state, torch.tensor([k - count], device=device))
            taken += 1 + count
            state.bound = taken  # known here; `extend` could only count upwards
            told.passes += 1
            told.proposed += k
            told.accepted += count
            told.rejected += count < k
            for token, gain in said:
                text.append(token)
                told.tokens += 1
                lines -= token == EOS
                yield token, gain
                if not lines:
                    return
            if not alive > FORBIDDEN:
                return


def worthwhile(told: Speculation, most: int, block: int, cost: float) -> int:
    """How many tokens to propose: a pass that reads k of them gives 1 + a + … + a^k, where each is kept with
    probability a, and takes as much more time as READING says. What was kept so far tells a; in the beginning, as if it
    were one half."""
    rate = (told.accepted + 2.0) / (told.accepted + told.rejected + 4.0)
    best, given, found = 0.0, 1.0, 1
    for k in range(1, most + 1):
        given += rate**k
        worth = given / (1.0 + cost * math.ceil((k + 1) / block))
        if worth > best:
            best, found = worth, k
    return found


def _judge(
    scores: Tensor, proposed: Tensor, chances: Sequence[float], noise: Tensor, rules: Constraints
) -> tuple[Tensor, Tensor, Tensor]:
    """How many of the proposed tokens (k,) are kept (1,), tokens that the model drew for the place after them (n,), and
    the probabilities that it drew them by (V,): all still on the device.

    scores (k + 1, V) are the model's, chances (k,) what each was proposed with; noise is (1 + TRIES, k + 1).
    """
    k = len(proposed)
    if not rules.config.sample:
        best = scores.argmax(dim=1)  # (k + 1,)
        kept = (best[:k] == proposed).long().cumprod(0).sum(0, keepdim=True)
        return kept, best.index_select(0, kept), scores.index_select(0, kept)[0]
    p = rules.shares(scores)  # (k + 1, V)
    q = torch.tensor(chances, device=p.device)
    kept = (noise[0, :k] * q < p[:k].gather(1, proposed[:, None])[:, 0]).long().cumprod(0).sum(0, keepdim=True)
    here = p.index_select(0, kept)  # (1, V)
    return kept, pick(here, noise[1:].index_select(1, kept).T)[0], here[0]


def _what_is_left(p: Tensor, chance: Callable[[int, Any], Any], place: int, u: float) -> int:
    """A token drawn from max(0, p - q), all of it."""
    q = torch.from_numpy(chance(place, np.arange(len(p)))).to(p.device)
    left = (p - q).clamp(min=0.0)
    left = torch.where(left.sum() > 0, left, p)  # only rounding can reject where q is p
    return int(pick(left[None], torch.tensor([u], device=p.device)))


def _noise(seed: int, sentence_id: int, limit: int) -> Tensor:
    """For each place uniform numbers: one to propose by, one to judge by, TRIES to draw anew by and as many to judge
    those by, and one more where none of them will do: (3 + 2 * TRIES, limit).

    A place is judged once for good (what stands after a rejected token is proposed anew, and was never looked at), so
    one set of them for a place is enough.
    """
    key = noise_keys(seed, torch.tensor([sentence_id]), 1)[0]  # (1,)
    keys = scramble(key + 1 + torch.arange(3 + 2 * RESAMPLE_TRIES))
    return uniform(keys[:, None], torch.arange(limit))


def generate_speculatively(
    model: LanguageModel,
    draft: Draft,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    tokens: int = 100,
    samples: int = 1,
    lines: int = 1,
    forgets: bool = False,
    draft_tokens: int = DRAFT_TOKENS,
    listeners: Sequence[Listener] | None = None,
    blank: bool = True,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[list[Hypothesis]], list[list[Speculation]]]:
    """`generate` with a draft: the same texts where nothing is drawn, texts of the same distribution where they are;
    and how the draft did in each."""
    check_samples(samples)
    if samples > 1 and not config.sample:
        raise UserError(f"{samples} texts are asked for, and there is one likeliest", cure="draw them, or ask for one")
    found: list[list[Hypothesis]] = []
    told: list[list[Speculation]] = []
    for place, prompt in enumerate(prompts):
        found.append([])
        told.append([])
        own = replace(config, min_length=fewest(config, prompt, blank=blank))
        for sample in range(samples):
            said: list[int] = []
            gains: list[float] = []
            heard = None if listeners is None else listeners[place].copy()
            name, how = place * MOST_SAMPLES + sample, Speculation()
            stream = speculate(
                model,
                draft,
                prompt,
                own,
                tokens=tokens,
                draft_tokens=draft_tokens,
                sentence_id=name,
                lines=lines,
                forgets=forgets,
                told=how,
            )
            finished = False
            for token, gain in stream:
                said.append(token)
                gains.append(gain)
                finished = token == EOS and said.count(EOS) == lines
                if heard is not None and not finished:
                    heard.add(token)
                    if heard.stopped is not None:
                        break
            whole = math.fsum(gains)
            stopped = heard is not None and heard.stopped is not None
            found[-1].append(Hypothesis(said[: -1 if finished else None], whole, whole, gains, finished, stopped))
            told[-1].append(how)
            if progress is not None:
                progress(1)
    return found, told
