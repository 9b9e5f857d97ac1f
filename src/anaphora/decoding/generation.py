"""Language models speak: the one search, with the prompt as its source.

A translator reads a source and is then asked for one token after another. A language model that has read a prompt is in
the same place, so prompted.py makes of it a translator whose source *is* the prompt: `start` reads it, once for all
that will be said after it, and `step` goes on from there. Beam, greedy search, sampling, temperature, top-k, top-p,
stop strings and noise that belongs to a sample and not to its batch are those of the search (beam_search, sampling.py,
spelling.py). Only n-grams have a way of their own, which has no need of torch (counted.py).

Every sample is searched as a sentence of its own, so that those which have ended leave the batch, and as many as one
likes can be drawn. A generation ends with the model's end mark, ⟨/s⟩, which is the end of a line, or at the limit of
new tokens. ⟨unk⟩ is never said unless asked for: the other tokens then share what it had.

A model of a *stream* has read line after line, and can write so: it goes on past line ends, to a number of lines or to
the limit of tokens. What no longer fits into a model that can read only so much is forgotten by halves: it reads ⟨s⟩
and the last half of what it can hold, and goes on from there, as long texts are scored (text_scoring.py).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from anaphora.arguments.signatures import spelled_out
from anaphora.decoding.decoding_settings import DecodingConfig, changed, generation_changes
from anaphora.decoding.extent import Extent
from anaphora.decoding.hypothesis import Hypothesis
from anaphora.decoding.options import GeneratedOptions
from anaphora.decoding.spelling import Listener, Spelling, text_until_stop
from anaphora.errors import UserError, option
from anaphora.results import brief, count, figure, token_table
from anaphora.tokenizers.token_names import token_name
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer

if TYPE_CHECKING:
    from anaphora.decoding.speculative import Speculation
    from anaphora.models.contracts import LanguageModel

MAX_STEP_LOGITS = 1 << 23
"""Log-probabilities that a step may hold: rows times vocabulary, 32 MB. More at once is no quicker."""
MAX_SEARCH_TOKENS = 1 << 22
"""Tokens that the search may have room for at once: rows times new tokens, 80 MB."""
MOST_TOKENS = 1 << 20
MOST_SAMPLES = 1 << 24
"""Samples of one prompt before two prompts could share their noise."""


@dataclass
class Generation:
    """What a language model said after a prompt."""

    prompt: str
    """The text that was continued."""
    text: str
    """The prompt and what follows it."""
    continuation: str
    """What follows the prompt, alone."""
    tokens: list[str]
    """The new tokens as people see them (tokenizers/token_names.py); the end mark is among them if it was generated."""
    token_ids: list[int]
    """Of the new tokens."""
    token_scores: list[float]
    """log P of each new token as the model gave it, whatever the temperature or the masks."""
    log_probability: float
    """Their sum: log P(continuation | prompt)."""
    finished: bool
    """Whether it ended by itself, with its end mark or at a stop string, instead of being cut off at the limit."""
    stop: str | None = None
    """The stop string that ended it. The text ends before it; the tokens are all that were generated."""
    limit: int = 0
    """How many new tokens it could have had: as many as were asked for, or as the model had room for."""
    past_lines: bool = False
    """Whether it was to continue past line ends up to that limit."""
    speculation: Speculation | None = None
    """How a draft did, where one was used."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        log = f"{count(len(self.token_ids), 'new token')}, log P {figure(self.log_probability)}"
        return brief("Generation", self.text, log, "" if self.finished else "cut off")

    def _repr_html_(self) -> str:
        return token_table(list(zip(self.tokens, self.token_scores)), caption=self.text)


@spelled_out(GeneratedOptions)
def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig | None = None,
    *,
    tokens: int = 100,
    samples: int = 1,
    lines: int = 1,
    forgets: bool = False,
    listeners: Sequence[Listener] | None = None,
    blank: bool = True,
    progress: Callable[[int], None] | None = None,
    **decoding: Unpack[GeneratedOptions],
) -> list[list[Hypothesis]]:
    """What follows each prompt (ids without ⟨s⟩), at most `tokens` new tokens: `samples` hypotheses of each, in the
    order in which they were drawn; without sampling, the best of a beam, best first.

        generate(model, [[17, 4], []], tokens=20, seed=3)[0][0].tokens    # after the first prompt; the second is empty

    config and keywords: settings of section `decoding`. Where neither says how, tokens are drawn; beam=1 takes the
    likeliest one at each step, a wider beam looks for the likeliest text.
    lines: how many line ends a text ends with; those before the last are tokens like others (of a stream).
    forgets: what a model that can read only so much cannot hold any more is forgotten, rather than refused.
    listeners: one for each prompt, where stop strings are listened for (`listening`).
    blank: whether what follows an empty prompt may be the end at once.
    progress: called with the number of samples, or of prompts, that have just been said.
    """
    if config is None:
        given = {name: value for name, value in decoding.items() if name != "beam"}
        config = changed(DecodingConfig(), generation_changes(False, decoding.get("beam"), given))
    elif decoding:
        config = changed(config, decoding)
    if decoding.get("stop") and listeners is None:
        raise UserError("stop strings are texts, and there are only ids here", cure="use `anaphora.load(…).generate`")
    check_limits(config, tokens)
    check_samples(samples)
    if not config.sample and samples > config.beam:
        raise UserError(
            f"{samples} different texts are asked for, and a beam of {config.beam} finds {config.beam} at the most",
            cure=f"widen it ({option('beam', samples)}), or sample",
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
    searcher = _searcher(model, config)
    most = max(
        1,
        min(MAX_STEP_LOGITS // model.vocabulary, MAX_SEARCH_TOKENS // tokens) // (1 if config.sample else config.beam),
    )
    config = dataclasses.replace(config, n_best=1 if config.sample else samples)
    begin = 0
    while begin < len(asked):
        alike = limit, least, _ = limits[asked[begin][0]]
        batch = [one for one in asked[begin : begin + most] if limits[one[0]] == alike]
        said = searcher.search_prompts(
            model,
            [[BOS, *prompts[place]] for place, _ in batch],
            dataclasses.replace(config, max_length=limit, min_length=min(least, limit - 1)),
            sentence_ids=[place * MOST_SAMPLES + sample for place, sample in batch],
            listeners=None if listeners is None else [listeners[place] for place, _ in batch],
            lines=lines,
            forgets=forgets,
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


def stream_generate(
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
    config = dataclasses.replace(config, n_best=1, max_length=limit, min_length=min(config.min_length, limit - 1))
    searcher, how = _searcher(model, config), {"lines": lines, "forgets": forgets}
    return searcher.stream_search_prompt(model, [BOS, *prompt], config, sentence_id=place * MOST_SAMPLES, **how)


def _searcher(model: LanguageModel, config: DecodingConfig) -> Any:
    """The module that searches: in a model that is counted nothing needs torch, whose import would take longer than all
    the rest; everywhere else the one search."""
    if getattr(model, "counted", False):
        from anaphora.decoding import counted, counted_beam

        return counted if config.sample or (config.beam == 1 and config.length_penalty == 0) else counted_beam
    from anaphora.decoding import prompted

    return prompted


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

    def __repr__(self) -> str:
        said = count(len(self.tokens), "new token")
        return brief("GenerationStream", self.prompt, f"{said}, {'ended' if self.ended else 'not at its end'}")

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
