"""Speculative generation: something cheap guesses several tokens ahead, the model checks them all in one pass.

A large model reads many tokens in about the time of one: what costs is to fetch its weights, or to launch its kernels.
So a *draft* proposes k tokens, the model reads them in parallel (`extend`), and as many as it agrees with are kept;
then comes one token of the model's own. Every pass gives at least one token and at most k + 1.

What is said is not changed by it. Drawn at random, a proposed token x that the draft gave the probability q(x) and the
model gives p(x) is kept with probability min(1, p(x) / q(x)); at the first that is not, a token is drawn from what the
draft had too little of, max(0, p - q), scaled to one. Then P(x) = min(p, q) + (1 - Σ min(p, q)) · (p - q)⁺ / Σ (p - q)⁺
= p: exactly the model's distribution, after temperature, top-k, top-p, min-p and whatever is forbidden (Leviathan et
al. 2023; Chen et al. 2023). Without drawing, a proposed token is kept if it is the likeliest. How good the draft is
decides how fast it goes, never what is said.

Two drafts: any language model over the same vocabulary, meant for n-grams, which answer in microseconds; and the text
itself (prompt lookup): where its last words stood before, they may be followed by the same again.

Each output goes by itself, batch 1, where speculation pays: in a batch the weights are shared by its rows already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from anaphora.decoding.constraints import FORBIDDEN, block_repeats, forbidden_tokens, penalise_repeats
from anaphora.decoding.generation import MOST_SAMPLES, check_limits, fewest, room
from anaphora.decoding.sampling import noise_keys, pick, scramble, shares, uniform
from anaphora.decoding.search import Hypothesis, evaluating
from anaphora.decoding.settings import DecodingConfig
from anaphora.decoding.spelling import Listener
from anaphora.errors import UserError
from anaphora.models.contracts import DecoderState, LanguageModel, rewound
from anaphora.text.tokenizer import BOS, EOS

DRAFT_TOKENS = 4
"""Proposed at once, at the most: more are seldom all right, and each must be read."""
MOST_DRAFT_TOKENS = 64
ENOUGH = 0.02
"""How likely a draft must find its guesses, the likeliest ones together, to add another."""
LONGEST_MATCH, SHORTEST_MATCH = 4, 2
"""Words that must have stood together before, for a text to be its own draft."""
ACCEPT, CORRECT = 0x5EED_AC, 0x5EED_C0
"""What parts the noise that judges proposals from that which makes them."""


@dataclass
class Speculation:
    """How well a draft guessed."""

    passes: int = 0
    """Times that the model was asked."""
    proposed: int = 0
    accepted: int = 0
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
        self.tokens += other.tokens

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        counts = {"passes": self.passes, "proposed": self.proposed, "accepted": self.accepted, "tokens": self.tokens}
        rates = {"acceptance_rate": self.acceptance_rate, "mean_accepted": self.mean_accepted}
        return {**counts, **rates, "tokens_per_pass": self.tokens_per_pass}


class Draft(Protocol):
    """Whoever proposes. It sees each text from its beginning, ⟨s⟩, and keeps what it needs of it."""

    def propose(self, text: Sequence[int], count: int, u: Sequence[float]) -> tuple[list[int], Tensor | None]:
        """Up to `count` tokens that may follow, drawn with the uniform numbers u (count,); and the probabilities that
        each was drawn by (k, V), or None where there was no choice. A text only grows, but for a new one."""
        ...


class Constraints:
    """What may be said at some places in a row, and how much repetitions weigh: the search's rules, for one row."""

    def __init__(self, config: DecodingConfig, prompt: Sequence[int], device: torch.device | str) -> None:
        self.config, self.prompt = config, list(prompt)
        self.forbidden = forbidden_tokens(unknown=config.unknown, device=torch.device(device))

    def __call__(self, log_probabilities: Tensor, said: Sequence[int], draft: Sequence[int]) -> Tensor:
        """Place j of log P (k + 1, V) stands after what was said and draft[:j] -> scores, -inf where forbidden."""
        c, scores = self.config, log_probabilities.index_fill(1, self.forbidden, FORBIDDEN)
        if len(said) < c.min_length:
            scores[: c.min_length - len(said), EOS] = FORBIDDEN
        if not c.no_repeat_ngram and c.repetition_penalty == 1.0:
            return scores
        before = torch.tensor([*self.prompt, *said, *draft], dtype=torch.long, device=scores.device)
        first = len(self.prompt) + len(said)
        for place in range(len(scores)):
            row, text = scores[place : place + 1], before[None, : first + place]
            if c.no_repeat_ngram:
                block_repeats(row, text[:, len(self.prompt) :], c.no_repeat_ngram)
            if c.repetition_penalty != 1.0:
                penalise_repeats(row, text, penalty=c.repetition_penalty)
        return scores

    def shares(self, scores: Tensor) -> Tensor:
        c = self.config
        return shares(scores, temperature=c.temperature, top_k=c.top_k, top_p=c.top_p, min_p=c.min_p)


class ModelDraft:
    """Another language model proposes what it would say itself, by the same settings."""

    def __init__(self, model: LanguageModel, config: DecodingConfig, *, enough: float = ENOUGH) -> None:
        """enough: it proposes for as long as its likeliest tokens, all of them together, are at least so likely."""
        self.model, self.config, self.enough = model, config, enough
        c = config
        bent = c.top_k or c.top_p < 1.0 or c.min_p or c.no_repeat_ngram or c.repetition_penalty != 1.0
        self.plain = not bent and torch.device(model.device).type == "cpu"
        self.text: list[int] = []  # what its state has taken
        self.state: DecoderState | None = None
        self.rules: Constraints | None = None
        self.prompt = self.sure = 0  # tokens of the prompt; of the text, as far as it was not proposed here

    def begin(self, prompt: Sequence[int], limit: int) -> None:
        """Read a prompt, from ⟨s⟩ on, but for its last token; `limit` new ones may follow."""
        ids = torch.tensor([list(prompt)], device=self.model.device)
        lengths = torch.tensor([len(prompt) - 1], device=self.model.device)
        self.state = self.model.read(ids[:, :-1], lengths, len(prompt) + limit)
        self.text, self.prompt, self.sure = list(prompt[:-1]), len(prompt), len(prompt) - 1
        self.rules = Constraints(self.config, prompt, self.model.device)

    def propose(self, text: Sequence[int], count: int, u: Sequence[float]) -> tuple[list[int], Tensor | None]:
        assert self.state is not None and self.rules is not None
        self._return_to(text)
        for token in text[len(self.text) : -1]:
            self._take(token, keep=False)
        tokens: list[int] = []
        drawn: list[Tensor] = []
        last, said = text[-1], list(text[self.prompt :])
        sure = 1.0
        for place in range(count):
            log_probabilities = self._take(last, keep=place > 0)
            if self.plain:
                last, q, best = self._quickly(log_probabilities, len(said) + len(tokens), u[place : place + 1])
            else:
                scores = self.rules(log_probabilities, [*said, *tokens], ())
                q = self.rules.shares(scores)
                picked = pick(q, torch.tensor(u[place : place + 1], device=q.device)) if u else scores.argmax(dim=1)
                last, best = int(picked), float(q.max())
            sure *= best
            if not sure >= self.enough:  # not worth a guess; NaN: nothing may follow, as far as the draft knows
                break
            tokens.append(last)
            drawn.append(q)
            if last == EOS:
                break
        return tokens, torch.cat(drawn) if drawn and self.config.sample else None

    def _quickly(self, log_probabilities: Tensor, said: int, u: Sequence[float]) -> tuple[int, Tensor, float]:
        """The token drawn (or, without u, the likeliest), the probabilities it was drawn by (1, V), and the largest of
        them: where nothing but the temperature bends them, a few passes over one array on the CPU."""
        assert self.rules is not None
        weight = np.exp(log_probabilities[0].numpy() / np.float32(self.config.temperature if u else 1.0))
        weight[self.rules.forbidden.numpy()] = 0.0
        if said < self.config.min_length:
            weight[EOS] = 0.0
        total = float(weight.sum())
        last = best = int(weight.argmax())
        if not total > 0:
            return last, log_probabilities, math.nan
        if u:
            cumulative = weight.cumsum()
            place = int(cumulative.searchsorted(np.float32(u[0]) * cumulative[-1], side="right"))
            last = place if place < len(weight) else best
        weight /= np.float32(total)
        return last, torch.from_numpy(weight)[None], float(weight[best])

    def _take(self, token: int, *, keep: bool) -> Tensor:
        """One token more, log P of what follows (1, V). Kept: it can be taken back."""
        state = self.state
        assert state is not None
        if keep:
            state.trail.append({name: t.clone() for name, t in state.past.items() if name not in state.growing})
        else:
            state.trail = []
        log_probabilities, self.state = self.model.step(torch.tensor([token], device=self.model.device), state)
        self.text.append(token)
        return log_probabilities

    def _return_to(self, text: Sequence[int]) -> None:
        """Take back what was proposed and not kept."""
        assert self.state is not None
        same = self.sure
        while same < min(len(self.text), len(text) - 1) and self.text[same] == text[same]:
            same += 1
        if back := len(self.text) - same:
            rewound(self.state, torch.tensor([back], device=self.model.device))
            del self.text[same:]
        self.sure = len(text)


class PromptDraft:
    """The text proposes what followed the last time when its last words stood together (prompt lookup, Saxena 2023)."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}

    def begin(self, prompt: Sequence[int], limit: int) -> None:
        self.text, self.after = [], {}

    def propose(self, text: Sequence[int], count: int, u: Sequence[float]) -> tuple[list[int], Tensor | None]:
        for place in range(len(self.text), len(text)):  # what now has something after it can be found
            for size in range(SHORTEST_MATCH, LONGEST_MATCH + 1):
                if place >= size:
                    self.after[tuple(text[place - size : place])] = place
        self.text = list(text)
        for size in range(LONGEST_MATCH, SHORTEST_MATCH - 1, -1):
            follows = self.after.get(tuple(text[-size:])) if len(text) >= size else None
            if follows is not None:
                found = list(text[follows : follows + count])
                return found[: found.index(EOS) + 1] if EOS in found else found, None
        return [], None


def speculate(
    model: LanguageModel,
    draft: ModelDraft | PromptDraft,
    prompt: Sequence[int],
    config: DecodingConfig,
    *,
    tokens: int = 100,
    draft_tokens: int = DRAFT_TOKENS,
    sentence_id: int = 0,
    told: Speculation | None = None,
) -> Iterator[tuple[int, float]]:
    """What follows a prompt (ids without ⟨s⟩): each token with its log-probability as the model gave it, the end mark
    too if it is said, and at most `tokens` of them. `told` counts how the draft did.

    The same seed gives the same text with the same draft; with another draft another text of the same distribution.
    Without drawing the text is the one without a draft.
    """
    check_limits(config, tokens)
    if not 1 <= draft_tokens <= MOST_DRAFT_TOKENS:
        raise UserError(f"{draft_tokens} tokens are to be proposed at once", cure=f"make it 1 to {MOST_DRAFT_TOKENS}")
    if not config.sample and config.beam != 1:
        raise UserError("a draft helps to say one text, and a beam follows several", cure="leave out the one or other")
    limit = room(model, len(prompt), tokens)
    return _speculate(model, draft, [BOS, *prompt], config, limit, draft_tokens, sentence_id, told or Speculation())


@torch.no_grad()
def _speculate(
    model: LanguageModel,
    draft: ModelDraft | PromptDraft,
    text: list[int],
    config: DecodingConfig,
    limit: int,
    draft_tokens: int,
    sentence_id: int,
    told: Speculation,
) -> Iterator[tuple[int, float]]:
    device, first = model.device, len(text)
    rules = Constraints(config, text, device)
    noise = _noise(config.seed, sentence_id, limit).to(device) if config.sample else torch.zeros(3, 0, device=device)
    u_draft = noise[0].tolist()  # none where nothing is drawn
    with evaluating(model):
        lengths = torch.tensor([first - 1], device=device)
        state = model.read(torch.tensor([text[:-1]], dtype=torch.long, device=device), lengths, first + limit)
        draft.begin(text, limit)
        while (at := len(text) - first) < limit:
            proposed, q = draft.propose(text, min(draft_tokens, limit - at - 1), u_draft[at:])
            row = torch.tensor([[text[-1], *proposed]], device=device)  # (1, k + 1)
            log_p, state = model.extend(row, state)
            log_p = log_p[0]  # (k + 1, V)
            scores = rules(log_p, text[first:], proposed)
            judged = noise[:, at : at + len(proposed) + 1]
            kept, token = _judge(scores, row[0, 1:], None if q is None else q.to(device), judged, rules)
            said = torch.cat([row[0, 1:], token[None]])  # the model's own stands in the place of what is not kept
            said[kept] = token
            best = scores[kept].amax()
            gains = log_p.gather(1, said[:, None])[:, 0]
            # the host waits once; float32 holds the number of any token
            summary = torch.cat([torch.stack([kept.float(), token.float(), best]), gains]).tolist()
            count, new, alive = int(summary[0]), int(summary[1]), summary[2]
            if math.isnan(alive):
                what = "the model's log-probabilities are not numbers (NaN): its weights are damaged"
                raise UserError(what, cure="take an earlier checkpoint, or train it again")
            state = model.rewind(state, torch.tensor([len(proposed) - count], device=device))
            told.passes += 1
            told.proposed += len(proposed)
            told.accepted += count
            state.bound = len(text) + count  # known here; `extend` could only count upwards
            more = [*proposed[:count], new] if alive > FORBIDDEN else proposed[:count]
            for place, one in enumerate(more):
                text.append(one)
                told.tokens += 1
                yield one, summary[3 + place]
                if one == EOS:
                    return
            if not alive > FORBIDDEN:  # no token has any probability here
                return


def _judge(
    scores: Tensor, proposed: Tensor, q: Tensor | None, noise: Tensor, rules: Constraints
) -> tuple[Tensor, Tensor]:
    """How many of the proposed tokens (k,) are kept, and the token after them, both still on the device.

    scores (k + 1, V) are the model's, q (k, V) the draft's probabilities, None where it had no choice; noise is
    (3, k + 1).
    """
    k = len(proposed)
    if not rules.config.sample:
        best = scores.argmax(dim=1)  # (k + 1,)
        kept = (best[:k] == proposed).long().cumprod(0).sum()
        return kept, best[kept]
    p = rules.shares(scores)  # (k + 1, V)
    places = torch.arange(k, device=scores.device)
    chance = torch.ones_like(noise[1, :k]) if q is None else q[places, proposed]
    kept = (noise[1, :k] * chance < p[places, proposed]).long().cumprod(0).sum()
    if q is None:
        q = torch.zeros_like(p[:k]).scatter_(1, proposed[:, None], 1.0)
    q = torch.cat([q, torch.zeros_like(p[:1])])  # after the last one nothing was proposed: p itself is left
    left = (p[kept] - q[kept]).clamp(min=0.0)
    left = torch.where(left.sum() > 0, left, p[kept])  # only rounding can reject where q is p
    return kept, pick(left[None], noise[2, kept][None])[0]


def _noise(seed: int, sentence_id: int, limit: int) -> Tensor:
    """For each place uniform numbers to propose by, to judge by and to correct by: (3, limit).

    A place is judged once for good (what stands after a rejected token is proposed anew, and was never looked at), so
    one number of each for a place is enough.
    """
    key = noise_keys(seed, torch.tensor([sentence_id]), 1)[0]  # (1,)
    keys = torch.cat([scramble(key + 1), scramble(key + ACCEPT), scramble(key + CORRECT)])  # (3,)
    return uniform(keys[:, None], torch.arange(limit))


def generate_speculatively(
    model: LanguageModel,
    draft: ModelDraft | PromptDraft,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    tokens: int = 100,
    samples: int = 1,
    draft_tokens: int = DRAFT_TOKENS,
    listeners: Sequence[Listener] | None = None,
    blank: bool = True,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[list[Hypothesis]], list[list[Speculation]]]:
    """`generate` with a draft: the same texts where nothing is drawn, texts of the same distribution where they are;
    and how the draft did in each."""
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
                model, draft, prompt, own, tokens=tokens, draft_tokens=draft_tokens, sentence_id=name, told=how
            )
            for token, gain in stream:
                said.append(token)
                gains.append(gain)
                if heard is not None and token != EOS:
                    heard.add(token)
                    if heard.stopped is not None:
                        break
            finished = said[-1:] == [EOS]
            whole = math.fsum(gains)
            stopped = heard is not None and heard.stopped is not None
            found[-1].append(Hypothesis(said[: -1 if finished else None], whole, whole, gains, finished, stopped))
            told[-1].append(how)
            if progress is not None:
                progress(1)
    return found, told
