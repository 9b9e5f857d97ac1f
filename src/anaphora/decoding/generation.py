"""Language models speak: the one search, with the prompt as its source.

A translator reads a source and is then asked for one token after another. A language model that has read a prompt is in
the same place, so `PromptedModel` makes of it a translator whose source *is* the prompt: `start` reads it, once for all
that will be said after it, and `step` goes on from there. Beam, greedy search, sampling, temperature, top-k, top-p,
stop strings and noise that belongs to a sample and not to its batch are those of the search (search.py, sampling.py,
spelling.py); nothing is written twice.

Every sample is searched as a sentence of its own, so that those which have ended leave the batch, and as many as one
likes can be drawn. A generation ends with the model's end mark, ⟨/s⟩, which is the end of a line, or at the limit of
new tokens. ⟨unk⟩ is never said unless asked for: the other tokens then share what it had.

A model of a *stream* has read line after line, and can write so: it goes on past line ends, to a number of lines or to
the limit of tokens. What no longer fits into a model that can read only so much is forgotten by halves: it reads ⟨s⟩
and the last half of what it can hold, and goes on from there, as long texts are scored (language.py).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anaphora.decoding.extent import Extent
from anaphora.decoding.search import DecodingConfig, Hypothesis, search, search_aloud
from anaphora.decoding.spelling import Listener, Spelling, text_until_stop
from anaphora.decoding.translate import pad
from anaphora.errors import UserError
from anaphora.models.contracts import DecoderState, LanguageModel, Translator
from anaphora.text.token_names import token_name
from anaphora.text.tokenizer import BOS, EOS, Tokenizer

if TYPE_CHECKING:
    from anaphora.decoding.speculative import Speculation

NUMBERS = 1 << 23
"""Log-probabilities that a step may hold: rows times vocabulary, 32 MB. More at once is no quicker."""
STEPS = 1 << 22
"""Tokens that the search may have room for at once: rows times new tokens, 80 MB."""
MOST_TOKENS = 1 << 20
MOST_SAMPLES = 1 << 24
"""Samples of one prompt before two prompts could share their noise."""
ANY_LENGTH = 1 << 40


@dataclass
class Generation:
    """What a language model said after a prompt."""

    prompt: str
    """What was gone on with."""
    text: str
    """The prompt and what follows it."""
    continuation: str
    """What follows the prompt, alone."""
    tokens: list[str]
    """The new tokens as people see them (text/token_names.py); the end mark is among them if it was said."""
    token_ids: list[int]
    """Of the new tokens."""
    token_scores: list[float]
    """log P of each new token as the model gave it, whatever the temperature or the masks."""
    log_probability: float
    """Their sum: log P(continuation | prompt)."""
    finished: bool
    """Whether it ended by itself, with its end mark or at a stop string, instead of being cut off at the limit."""
    stop: str | None = None
    """The stop string that ended it. The text ends before it; the tokens are all that were said."""
    limit: int = 0
    """How many new tokens it could have had: as many as were asked for, or as the model had room for."""
    past_lines: bool = False
    """Whether it was to go on past line ends to that limit."""
    speculation: Speculation | None = None
    """How a draft did, where one was used."""


class PromptedModel(Translator):
    """A language model as a translator: its source is a prompt from ⟨s⟩ on, its target what follows."""

    def __init__(self, model: LanguageModel, *, forgets: bool = False) -> None:
        """forgets: what does not fit into the model any more is left out, rather than refused; the prompts of a batch
        are then equally long."""
        super().__init__()
        self.model, self.forgets = model, forgets and model.max_length is not None
        self.capabilities = model.capabilities & {"causal", "steppable", "normalised", "batch-invariant"}
        self.max_source_length = self.max_target_length = (not self.forgets and model.max_length) or ANY_LENGTH
        self.train(bool(getattr(model, "training", False)))  # as the model is: the search restores what it found

    def start(self, source: Tensor, source_lengths: Tensor, beam: int, max_length: int) -> DecoderState:
        """Read source (B, S), ⟨s⟩ and the tokens of the prompt, padded. Equal prompts next to each other are read once.

        All but the last token is read here; the last is fed at the first step, in the place of the ⟨s⟩ with which the
        search begins, so that it answers with the first new token.
        """
        whole = torch.cat([source, source_lengths[:, None]], dim=1)
        found = torch.unique_consecutive(whole, dim=0, return_inverse=True)
        prompts, which = found[0], found[1]
        prompts, lengths = prompts[:, :-1], prompts[:, -1]
        last = prompts.gather(1, lengths[:, None] - 1)[:, 0]
        if self.forgets:  # all are equally long
            prompts = (
                prompts[:, :-1] if prompts.shape[1] <= self._holds + 1 else remembered(prompts[:, :-1], self._holds)
            )
            lengths = torch.full_like(lengths, prompts.shape[1] + 1)
        state = self.model.read(prompts, lengths - 1, int(lengths.max()) + max_length)
        rows = which.repeat_interleave(beam)  # (B * beam,)
        past = {name: tensor.index_select(0, rows) for name, tensor in state.past.items()}
        past["prompt.last"] = last.index_select(0, rows)
        past["prompt.said"] = torch.zeros_like(rows)
        if self.forgets:
            past["prompt.text"] = rows.new_zeros(len(rows), self._holds)
            past["prompt.text"][:, : prompts.shape[1]] = prompts[rows]
        memory = {name: tensor.index_select(0, which) for name, tensor in state.memory.items()}
        return DecoderState(beam=beam, memory=memory, past=past, bound=state.bound, growing=state.growing)

    def step(
        self, tokens: Tensor, state: DecoderState, *, attention: bool = False
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        said = state.past["prompt.said"]
        tokens = torch.where(said == 0, state.past["prompt.last"], tokens)
        said += 1
        if self.forgets:
            if state.bound == self._holds:
                self._forget(state)
            state.past["prompt.text"][:, state.bound] = tokens
        return *self.model.step(tokens, state), None

    @property
    def _holds(self) -> int:
        assert self.model.max_length is not None
        return self.model.max_length

    def _forget(self, state: DecoderState) -> None:
        """Each row has taken all that fits: read ⟨s⟩ and the last half of it once more, to make room."""
        text = remembered(state.past["prompt.text"], self._holds)
        fresh = self.model.read(text, torch.full((len(text),), text.shape[1], device=text.device), self._holds)
        state.past.update(fresh.past)
        state.past["prompt.text"][:, : text.shape[1]] = text
        state.bound, state.growing = fresh.bound, fresh.growing

    def flops(self, source_tokens: int, target_tokens: int, source_length: float, target_length: float) -> float:
        return self.model.flops(source_tokens + target_tokens, source_length + target_length)

    def cache_bytes_per_token(self) -> int:
        return self.model.cache_bytes_per_token()

    def parameter_count(self) -> int:
        return self.model.parameter_count()


def remembered(text: Tensor, holds: int) -> Tensor:
    """What a model that can hold so many tokens keeps of a text that is longer: (R, T) -> ⟨s⟩ and the last half."""
    half = text[:, text.shape[1] - (holds - 1) // 2 :]
    return torch.cat([half.new_full((len(text), 1), BOS), half], dim=1)


def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    tokens: int = 100,
    samples: int = 1,
    lines: int = 1,
    forgets: bool = False,
    listeners: Sequence[Listener] | None = None,
    blank: bool = True,
    progress: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """What follows each prompt (ids without ⟨s⟩), at most `tokens` new tokens: `samples` hypotheses of each, in the
    order in which they were drawn; without sampling, the best of a beam, best first.

    lines: how many line ends a text ends with; those before the last are tokens like others (of a stream).
    forgets: what a model that can read only so much cannot hold any more is forgotten, rather than refused.
    listeners: one for each prompt, where stop strings are listened for (`listening`).
    blank: whether what follows an empty prompt may be the end at once.
    progress: called with the number of samples, or of prompts, that have just been said.
    """
    check_limits(config, tokens)
    check_samples(samples)
    if not config.sample and samples > config.beam:
        raise UserError(
            f"{samples} different texts are asked for, and a beam of {config.beam} finds {config.beam} at the most",
            cure=f"widen it (--beam {samples}), or sample",
        )
    each = samples if config.sample else 1
    free = forgets and model.max_length is not None
    limits = [
        (room(model, len(prompt), tokens, forgets=free), fewest(config, prompt, blank=blank), free * len(prompt))
        for prompt in prompts
    ]
    asked = [(place, sample) for place in range(len(prompts)) for sample in range(each)]
    # of one batch: as long as each other to read, and with the same limits, so that no limit depends on the batch
    asked.sort(key=lambda one: (limits[one[0]], -len(prompts[one[0]])))
    found: list[list[Hypothesis]] = [[] for _ in prompts]
    speaker = PromptedModel(model, forgets=forgets)
    most = max(1, min(NUMBERS // model.vocabulary, STEPS // tokens) // (1 if config.sample else config.beam))
    config = dataclasses.replace(config, n_best=1 if config.sample else samples)
    begin = 0
    while begin < len(asked):
        alike = limit, least, _ = limits[asked[begin][0]]
        batch = [one for one in asked[begin : begin + most] if limits[one[0]] == alike]
        source, lengths = pad([[BOS, *prompts[place]] for place, _ in batch], model.device)
        said = search(
            speaker,
            source,
            lengths,
            dataclasses.replace(config, max_length=limit, min_length=min(least, limit - 1)),
            sentence_ids=[place * MOST_SAMPLES + sample for place, sample in batch],
            prompt=True,
            listeners=None if listeners is None else [listeners[place] for place, _ in batch],
            lines=lines,
        )
        for (place, _), hypotheses in zip(batch, said):
            found[place] += hypotheses
        begin += len(batch)
        if progress is not None:
            progress(len(batch))
    return found


def fewest(config: DecodingConfig, prompt: Sequence[int], *, blank: bool) -> int:
    """Tokens before the end: what follows an empty prompt has at least one, unless it may be `blank`."""
    return config.min_length if blank or prompt else max(1, config.min_length)


def generate_aloud(
    model: LanguageModel,
    prompt: Sequence[int],
    config: DecodingConfig,
    *,
    tokens: int = 100,
    place: int = 0,
    lines: int = 1,
    forgets: bool = False,
) -> Iterator[tuple[int, float]]:
    """The first sample that `generate` draws of the prompt at this place, while it is being said: each token and its
    log-probability, the end mark too. Stop strings are for who spells it, and need hear no more."""
    check_limits(config, tokens)
    limit = room(model, len(prompt), tokens, forgets=forgets)
    source, lengths = pad([[BOS, *prompt]], model.device)
    config = dataclasses.replace(config, n_best=1, max_length=limit, min_length=min(config.min_length, limit - 1))
    speaker, name = PromptedModel(model, forgets=forgets), place * MOST_SAMPLES
    return search_aloud(speaker, source, lengths, config, sentence_ids=[name], prompt=True, lines=lines)


def check_limits(config: DecodingConfig, tokens: int) -> None:
    """Whether so many new tokens can be asked for."""
    if not 1 <= tokens <= MOST_TOKENS:
        raise UserError(f"{tokens:,} new tokens are asked for", cure=f"ask for 1 to {MOST_TOKENS:,}")
    if config.min_length >= tokens:
        raise UserError(
            f"at least {config.min_length} tokens are asked for, and at most {tokens}, the end mark included",
            cure="allow more tokens, or a smaller min_length",
        )


def check_samples(samples: int) -> None:
    """Whether so many texts of each prompt can be asked for."""
    if not 1 <= samples < MOST_SAMPLES:
        raise UserError(f"{samples} samples are asked for", cure=f"ask for 1 to {MOST_SAMPLES - 1:,}")


def listening(
    prompts: Sequence[str], prompt_ids: Sequence[Sequence[int]], stops: Sequence[str], tokenizer: Tokenizer
) -> list[Listener] | None:
    """Who hears the stop strings in what is said after each prompt; nobody where there are none."""
    if not stops:
        return None
    return [Listener(Spelling(tokenizer, ids, prompt), stops) for prompt, ids in zip(prompts, prompt_ids)]


def room(model: LanguageModel, prompt: int, tokens: int, *, forgets: bool = False) -> int:
    """How many new tokens there is room for after a prompt of so many."""
    if model.max_length is None or forgets:
        return tokens
    left = model.max_length - 1 - prompt  # ⟨s⟩ has its place too
    if left < 1:
        raise UserError(
            f"the prompt has {prompt:,} tokens; the model can read {model.max_length - 2:,} and say one more",
            cure="shorten it",
        )
    return min(tokens, left)


def spoken(
    prompt: str,
    prompt_ids: Sequence[int],
    said: Hypothesis,
    tokenizer: Tokenizer,
    *,
    stops: Sequence[str] = (),
    limit: int = 0,
) -> Generation:
    """A hypothesis as text: the prompt as it was given, and after it what the new tokens add."""
    continuation, stop = text_until_stop(tokenizer, said.tokens, stops, prompt_ids, prompt)
    ids = said_tokens(said)
    return Generation(
        prompt=prompt,
        text=prompt + continuation,
        continuation=continuation,
        tokens=[token_name(tokenizer, id) for id in ids],
        token_ids=ids,
        token_scores=said.token_log_probabilities,
        log_probability=math.fsum(said.token_log_probabilities),
        finished=said.finished or stop is not None,
        stop=stop,
        limit=limit,
    )


def said_tokens(said: Hypothesis) -> list[int]:
    """The tokens of a hypothesis, its end mark too if it was said."""
    return [*said.tokens, EOS] if said.finished else list(said.tokens)


class GenerationStream:
    """An iterator over pieces of text, in the order in which they can be shown; `generation` tells the rest of it when
    it has come to its end."""

    def __init__(
        self,
        said: Iterator[tuple[int, float]],
        prompt: str,
        prompt_ids: Sequence[int],
        tokenizer: Tokenizer,
        stops: Sequence[str] = (),
        limit: int = 0,
        speculation: Speculation | None = None,
        extent: Extent | None = None,
    ) -> None:
        self.prompt, self.prompt_ids, self.tokenizer = prompt, list(prompt_ids), tokenizer
        self.stops, self.limit, self.speculation, self.extent = stops, limit, speculation, extent or Extent()
        self.tokens: list[int] = []
        self.scores: list[float] = []
        self.ended = False
        self._pieces = self._speak(said, Listener(Spelling(tokenizer, prompt_ids, prompt), stops))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """Say no more."""
        self._pieces.close()

    def _speak(self, said: Iterator[tuple[int, float]], listener: Listener) -> Generator[str, None, None]:
        for token, score in said:
            self.tokens.append(token)
            self.scores.append(score)
            if piece := "" if self.extent.complete(self.tokens) else listener.add(token):
                yield piece
            if listener.stopped is not None:
                break
        if piece := listener.end():
            yield piece
        self.ended = True

    @property
    def generation(self) -> Generation:
        """What was said, with its scores."""
        if not self.ended:
            raise ValueError("the stream has not come to its end yet")
        finished = self.extent.complete(self.tokens)
        total = math.fsum(self.scores)
        said = Hypothesis(self.tokens[: -1 if finished else None], total, total, self.scores, finished)
        limit = self.extent.limit(self.tokens, self.limit)
        found = spoken(self.prompt, self.prompt_ids, said, self.tokenizer, stops=self.stops, limit=limit)
        return dataclasses.replace(found, speculation=self.speculation, past_lines=self.extent.number is None)
