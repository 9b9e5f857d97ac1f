"""What a hypothesis may not say, and what it must: masks on the log-probabilities of one step.

Each function changes `scores` (R, V) in place: -inf means "not this token". Nothing is renormalized: a hypothesis keeps
the log-probabilities that the model gave it, the mask only says which continuations are looked at. (A penalty on what
was said before changes how hypotheses are ranked and drawn; what is reported stays the model's own.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.sampling import shares
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK

FORBIDDEN = float("-inf")
IMPOSSIBLE = -1e4
"""Stands for the log-probability of a forced token that the model gives no probability at all."""


def forbidden_tokens(*, unknown: bool, device: torch.device) -> Tensor:
    """What is never said: padding, the begin mark, and (unless asked for) the unknown token."""
    return torch.tensor([PAD, BOS] if unknown else [PAD, BOS, UNK], device=device)


def block_repeats(scores: Tensor, history: Tensor, n: int) -> None:
    """Forbid each token that would complete an n-gram already in its row's history (R, t).

    Every window of n tokens whose first n-1 are the row's last n-1 bans its own last token. Line ends are spared.
    """
    said = history.shape[1]
    if said < n:
        return
    windows = history.unfold(1, n, 1)  # (R, t-n+1, n)
    context = history[:, said - (n - 1) :]  # (R, n-1); empty for n = 1, which then matches everywhere
    matches = (windows[:, :, : n - 1] == context[:, None, :]).all(dim=-1)  # (R, t-n+1)
    last = windows[:, :, n - 1]
    banned = torch.where(matches & (last != EOS), last, PAD)  # PAD is forbidden already: a harmless place to write to
    scores.scatter_(1, banned, FORBIDDEN)


def block_ends(scores: Tensor, step: int, min_length: int, last: Tensor | None = None) -> None:
    """Forbid the end mark in the scores (R, V) of rows that have said `step` tokens and may not end before min_length.

    last (R,): rows whose next line end is their end; the others may end a line, unless it is their first token.
    """
    if step >= min_length:
        return
    if last is None or step == 0:
        scores[:, EOS] = FORBIDDEN
    else:
        scores[:, EOS].masked_fill_(last, FORBIDDEN)


def penalize_repeats(scores: Tensor, *said: Tensor, penalty: float) -> None:
    """Multiply the log-probabilities of tokens that were said, each (R, t), by the penalty (CTRL, Keskar et al. 2019).

    A logarithm of a probability is never positive, so above 1 it falls. The end mark is spared: an output that had to
    avoid it because the prompt has several lines would never end.
    """
    places = torch.cat(said, dim=1)  # (R, t)
    values = scores.gather(1, places)
    spared = (places == EOS) | (values == FORBIDDEN)
    scores.scatter_(1, places, torch.where(spared, values, values * penalty))


def prefix_table(prefix: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Prefixes of mixed length -> (B, P), -1 where nothing is forced."""
    longest = max((len(tokens) for tokens in prefix), default=0)
    for tokens in prefix:
        if any(token in (PAD, BOS, EOS) for token in tokens):
            raise UserError(
                "a forced prefix holds a padding, begin or end mark", cure="force the tokens of its words only"
            )
    return torch.tensor([[*tokens, *[-1] * (longest - len(tokens))] for tokens in prefix], device=device).view(
        len(prefix), longest
    )


def force(scores: Tensor, log_probabilities: Tensor, forced: Tensor) -> None:
    """Where forced (R,) names a token, leave that one alone, at its true log-probability, whatever masks said of it."""
    rows = forced >= 0
    token = forced.clamp(min=0)[:, None]  # (R, 1)
    truth = log_probabilities.gather(1, token).float().clamp(min=IMPOSSIBLE)
    keep = torch.where(rows[:, None], truth, scores.gather(1, token))
    scores.masked_fill_(rows[:, None], FORBIDDEN).scatter_(1, token, keep)


class Constraints:
    """What may be said at some places in a row, and how much repetitions weigh: the search's rules, for one row, which
    ends with its `lines`-th line end."""

    def __init__(
        self, config: DecodingConfig, prompt: Sequence[int], device: torch.device | str, *, lines: int = 1
    ) -> None:
        self.config, self.prompt, self.lines = config, list(prompt), lines
        self.forbidden = forbidden_tokens(unknown=config.unknown, device=torch.device(device))

    def __call__(self, log_probabilities: Tensor, said: Sequence[int], draft: Sequence[int]) -> Tensor:
        """Place j of log P (k + 1, V) stands after what was said and draft[:j] -> scores, -inf where forbidden."""
        c, scores = self.config, log_probabilities.index_fill(1, self.forbidden, FORBIDDEN)
        left = self.lines - list(said).count(EOS)
        for place in range(min(len(scores), c.min_length - len(said))):
            ends = left - list(draft[:place]).count(EOS) == 1
            last = None if self.lines == 1 else torch.tensor([ends], device=scores.device)
            block_ends(scores[place : place + 1], len(said) + place, c.min_length, last)
        if not c.no_repeat_ngram and c.repetition_penalty == 1.0:
            return scores
        before = torch.tensor([*self.prompt, *said, *draft], dtype=torch.long, device=scores.device)
        first = len(self.prompt) + len(said)
        for place in range(len(scores)):
            row, text = scores[place : place + 1], before[None, : first + place]
            if c.no_repeat_ngram:
                block_repeats(row, text[:, len(self.prompt) :], c.no_repeat_ngram)
            if c.repetition_penalty != 1.0:
                penalize_repeats(row, text, penalty=c.repetition_penalty)
        return scores

    def shares(self, scores: Tensor) -> Tensor:
        c = self.config
        narrowing = {"temperature": c.temperature, "top_p": c.top_p, "min_p": c.min_p, "epsilon": c.epsilon or 0.0}
        return shares(scores, top_k=c.top_k, **narrowing)
