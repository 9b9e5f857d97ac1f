"""Who guesses ahead, for speculative generation (speculative.py): something cheap proposes the next few tokens.

Three drafts. An *n-gram* over the same vocabulary: it draws several words in a few microseconds, from the short list of
what it has seen after a context, and never asks for the probability of every word
(models/ngram/kernels/ngram_draws.py). *Any other language model* over the same vocabulary, step by step. And the *text
itself* (prompt lookup): where its last words stood before, they may be followed by the same again.

A draft may propose what it likes, as long as it can tell how likely it was to propose it: that alone keeps the model's
distribution as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anaphora.decoding.constraints import FORBIDDEN, Constraints, forbidden_tokens
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.prompted import remembered
from anaphora.decoding.sampling import pick
from anaphora.models.contracts import DecoderState, LanguageModel, rewound
from anaphora.models.ngram.kernels.ngram_draws import draw_ahead, shares_of
from anaphora.tokenizers.tokenizer import EOS

if TYPE_CHECKING:
    from anaphora.models.ngram.ngram_model import NgramModel

LONGEST_MATCH, SHORTEST_MATCH = 4, 2
"""Words that must have stood together before, for a text to be its own draft."""

Words = NDArray[np.int64]
Shares = NDArray[np.float32]


class Proposal(NamedTuple):
    """Tokens that may follow, and how they were drawn."""

    tokens: list[int]
    chances: list[float]
    """The probability that each was proposed with, after those before it."""
    chance: Callable[[int, Words], Shares]
    """The probability that each of some other tokens could have been proposed with, at a place."""


class Draft(Protocol):
    """Whoever proposes. It sees each text from its beginning, ⟨s⟩, and keeps what it needs of it."""

    def begin(self, prompt: Sequence[int], limit: int) -> None:
        """A new text, of this prompt from ⟨s⟩ on; `limit` new tokens may follow."""

    def propose(self, text: Sequence[int], count: int, u: Sequence[float]) -> Proposal:
        """Up to `count` tokens that may follow, drawn with the uniform numbers u (count,), without them the likeliest.
        Whether a place is left empty may depend on what stands before it, never on what was drawn for it. A text only
        grows, but for a new one."""
        ...


def draft_of(model: LanguageModel, config: DecodingConfig) -> NgramDraft | ModelDraft:
    """The quickest draft that this model can be."""
    if model.draws_ahead():
        return NgramDraft(cast("NgramModel", model), config)
    return ModelDraft(model, config)


def read_text(
    model: LanguageModel, text: Sequence[int], holds: int, room: int, *, full: bool = False
) -> tuple[DecoderState, int]:
    """The state of a model that has read a text from ⟨s⟩ on, and how many tokens that were: of one that it cannot hold,
    or that leaves it `full`, the last half."""
    ids = torch.tensor([list(text)], dtype=torch.long, device=torch.device(model.device))
    if full or len(text) > holds:
        ids = remembered(ids, holds)
    taken = ids.shape[1]
    return model.read(ids, torch.tensor([taken], device=ids.device), room), taken


class NgramDraft:
    """An n-gram model proposes what it would say, at the temperature of what is asked for. It is told nothing of top-k,
    top-p, min-p and penalties: what they rule out is proposed in vain."""

    def __init__(self, model: NgramModel, config: DecodingConfig) -> None:
        self.model, self.config = model, config
        self.power = 1.0 / config.temperature if config.sample else 1.0
        self.short, self.cumulative = model.short_powers(self.power)
        self.never = forbidden_tokens(unknown=config.unknown, device=torch.device("cpu")).numpy()
        self.stamps = np.full(model.vocabulary, -1, np.int64)
        self.prompt = 0

    def begin(self, prompt: Sequence[int], limit: int) -> None:
        self.prompt = len(prompt)

    def propose(self, text: Sequence[int], count: int, u: Sequence[float]) -> Proposal:
        model, waits = self.model, self.config.min_length - (len(text) - self.prompt)  # places where it may not end
        tokens, states = np.empty(count, np.int64), np.empty(count, np.int64)
        chances, wholes = np.empty(count), np.empty(count)
        found = draw_ahead(
            np.array(text[max(0, len(text) - model.order + 1) :], np.uint32),  # all that it looks at
            np.array(u[:count], np.float64),
            count,
            self.power,
            self.never,
            EOS,
            waits,
            self.short,
            self.cumulative,
            self.stamps,
            model.trie,
            model.rule,
            tokens,
            chances,
            states,
            wholes,
        )

        def chance(place: int, words: Words) -> Shares:
            out = np.empty(len(words), np.float32)
            barred = EOS if place < waits else -1
            shares_of(words, states[place], wholes[place], self.power, self.never, barred, model.trie, out)
            return out

        return Proposal(tokens[:found].tolist(), chances[:found].tolist(), chance)


class ModelDraft:
    """Another language model proposes what it would say itself, by the same settings."""

    def __init__(self, model: LanguageModel, config: DecodingConfig) -> None:
        self.model, self.config = model, config
        self.text: list[int] = []  # what its state has taken
        self.state: DecoderState | None = None
        self.rules: Constraints | None = None
        self.prompt = self.sure = 0  # tokens of the prompt; of the text, as far as it was not proposed here
        self.holds = self.taken = 0  # tokens that the model can hold, and those that its state has taken

    def begin(self, prompt: Sequence[int], limit: int) -> None:
        """Read a prompt but for its last token."""
        self.holds = self.model.max_length or len(prompt) + limit
        self._read(prompt[:-1], len(prompt) + limit)
        self.prompt = len(prompt)
        self.rules = Constraints(self.config, prompt, self.model.device)

    def propose(self, text: Sequence[int], count: int, u: Sequence[float]) -> Proposal:
        assert self.state is not None and self.rules is not None
        self._return_to(text)
        if self.taken + len(text) - len(self.text) + count > self.holds:
            self._read(text[:-1], self.holds, full=True)
            count = min(count, self.holds - self.taken)
        for token in text[len(self.text) : -1]:
            self._take(token, keep=False)
        tokens: list[int] = []
        chances: list[float] = []
        rows: list[Shares] = []
        last, said = text[-1], list(text[self.prompt :])
        for place in range(count):
            scores = self.rules(self._take(last, keep=place > 0), [*said, *tokens], ())
            if not scores.amax() > FORBIDDEN:  # nothing may follow, as far as the draft knows; or it is NaN
                break
            q = self.rules.shares(scores) if u else torch.zeros_like(scores)
            last = int(pick(q, torch.tensor(u[place : place + 1], device=q.device)) if u else scores.argmax(dim=1))
            tokens.append(last)
            rows.append(q[0].cpu().numpy())
            chances.append(float(rows[-1][last]))
            if last == EOS:
                break
        return Proposal(tokens, chances, lambda place, words: rows[place][words])

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
        self.taken += 1
        return log_probabilities

    def _read(self, text: Sequence[int], room: int, *, full: bool = False) -> None:
        self.state, self.taken = read_text(self.model, text, self.holds, room, full=full)
        self.text, self.sure = list(text), len(text)

    def _return_to(self, text: Sequence[int]) -> None:
        """Take back what was proposed and not kept."""
        assert self.state is not None
        same = min(self.sure, len(self.text))  # a last word that nothing was asked after has not been taken
        while same < min(len(self.text), len(text) - 1) and self.text[same] == text[same]:
            same += 1
        if back := len(self.text) - same:
            rewound(self.state, torch.tensor([back], device=self.model.device))
            del self.text[same:]
            self.taken -= back
        self.sure = len(text)


class PromptDraft:
    """The text proposes what followed the last time when its last words stood together (prompt lookup, Saxena 2023)."""

    def __init__(self) -> None:
        self.text: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}

    def begin(self, prompt: Sequence[int], limit: int) -> None:
        self.text, self.after = [], {}

    def propose(self, text: Sequence[int], count: int, u: Sequence[float]) -> Proposal:
        for place in range(len(self.text), len(text)):  # what now has something after it can be found
            for size in range(SHORTEST_MATCH, LONGEST_MATCH + 1):
                if place >= size:
                    self.after[tuple(text[place - size : place])] = place
        self.text = list(text)
        for size in range(LONGEST_MATCH, SHORTEST_MATCH - 1, -1):
            follows = self.after.get(tuple(text[-size:])) if len(text) >= size else None
            if follows is not None:
                found = list(text[follows : follows + count])
                return _certain(found[: found.index(EOS) + 1] if EOS in found else found)
        return _certain([])


def _certain(tokens: list[int]) -> Proposal:
    """These and no others could have been proposed."""
    return Proposal(tokens, [1.0] * len(tokens), lambda at, words: (words == tokens[at]).astype(np.float32))
