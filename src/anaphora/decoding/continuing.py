"""Prompts become texts: from what a person wrote, by whichever way of saying, to what can be read.

The ways are those of generation.py (the one search) and, where something guesses ahead, of speculative.py; both say
tokens, and here they get their prompts, their stop strings and their spelling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.extent import Extent, joined, one_after_another
from anaphora.decoding.generation import (
    MOST_SAMPLES,
    Generation,
    GenerationStream,
    fewest,
    generate,
    listening,
    room,
    said_tokens,
    spoken,
    stream_generate,
)
from anaphora.decoding.hypothesis import Hypothesis
from anaphora.decoding.spelling import Prompt
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:  # an n-gram needs no torch to go on with a text
    from anaphora.decoding.drafts import Draft
    from anaphora.decoding.speculative import Speculation
    from anaphora.models.contracts import LanguageModel

ONE_LINE = Extent()
NEXT_LINE = 1 << 32
"""Between the seed of a separate line and that of the next one: it is another text."""


class Guessing(NamedTuple):
    """Who guesses ahead, and how far."""

    draft: Draft
    tokens: int


def guessing(draft: Draft | None, tokens: int | None) -> Guessing | None:
    """A draft and how far it guesses, as asked for; nothing where there is none."""
    if draft is None:
        if tokens is not None:
            raise UserError("draft_tokens is about a draft, and there is none", cure="leave it out, or name a draft")
        return None
    from anaphora.decoding.speculative import DRAFT_TOKENS

    return Guessing(draft, DRAFT_TOKENS if tokens is None else tokens)


def continue_texts(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    config: DecodingConfig,
    *,
    tokens: int,
    samples: int = 1,
    extent: Extent = ONE_LINE,
    blank: bool = True,
    ahead: Guessing | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[list[Generation]]:
    """`samples` texts that go on with each prompt, each by at most `tokens` new tokens; see generation.generate."""

    def say(prompts: Sequence[Prompt], number: int) -> tuple[list[list[Hypothesis]], list[list[Speculation]]]:
        ids = [prompt.ids for prompt in prompts]
        how: dict[str, Any] = {"tokens": tokens, "samples": samples, "blank": blank}
        how |= {"lines": extent.ends(tokens), "forgets": extent.stream, "progress": None if number else progress}
        how["listeners"] = listening([prompt.text for prompt in prompts], ids, config.stop, tokenizer)
        settings = dataclasses.replace(config, seed=config.seed + number * NEXT_LINE)
        if ahead is None:
            return generate(model, ids, settings, **how), []
        from anaphora.decoding.speculative import generate_speculatively

        return generate_speculatively(model, ahead.draft, ids, settings, draft_tokens=ahead.tokens, **how)

    limits = [room(model, len(prompt.ids), tokens, forgets=extent.stream) for prompt in prompts]
    found, told = say(prompts, 0)
    for number in extent.further:
        if not any(one.finished for own in found for one in own):
            break
        _go_on(found, told, *say([Prompt("", [])] * len(prompts), number))
    texts = []
    for place, (prompt, own, limit) in enumerate(zip(prompts, found, limits)):
        texts.append([_generation(prompt, said, tokenizer, config, extent, limit) for said in own])
        for generation, speculation in zip(texts[-1], told[place] if told else []):
            generation.speculation = speculation
    return texts


def _go_on(
    found: list[list[Hypothesis]],
    told: list[list[Speculation]],
    more: list[list[Hypothesis]],
    more_told: list[list[Speculation]],
) -> None:
    """The next line behind each text whose last one has ended."""
    for place, (own, lines) in enumerate(zip(found, more)):
        for sample, (first, second) in enumerate(zip(list(own), lines)):
            if first.finished:
                own[sample] = joined(first, second)
                if told:
                    told[place][sample].add(more_told[place][sample])


def _generation(
    prompt: Prompt, said: Hypothesis, tokenizer: Tokenizer, config: DecodingConfig, extent: Extent, limit: int
) -> Generation:
    limit = extent.limit(said_tokens(said), limit)
    found = spoken(prompt.text, prompt.ids, said, tokenizer, stops=config.stop, limit=limit)
    return dataclasses.replace(found, past_lines=extent.number is None)


def stream_continue(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: Prompt,
    config: DecodingConfig,
    *,
    tokens: int,
    extent: Extent = ONE_LINE,
    blank: bool = True,
    ahead: Guessing | None = None,
    place: int = 0,
) -> GenerationStream:
    """The first text that `continue_texts` finds for the prompt at this place, heard while it is said."""
    limit = room(model, len(prompt.ids), tokens, forgets=extent.stream)
    told = None
    if ahead is not None:
        from anaphora.decoding.speculative import Speculation, speculate

        told = Speculation()

    def say(number: int) -> Iterator[tuple[int, float]]:
        ids = prompt.ids if number == 0 else []
        settings = dataclasses.replace(
            config, seed=config.seed + number * NEXT_LINE, min_length=fewest(config, ids, blank=blank)
        )
        how: dict[str, Any] = {"tokens": tokens, "lines": extent.ends(tokens), "forgets": extent.stream}
        if ahead is None:
            return stream_generate(model, ids, settings, place=place, **how)
        name = place * MOST_SAMPLES
        return speculate(
            model, ahead.draft, ids, settings, draft_tokens=ahead.tokens, sentence_id=name, told=told, **how
        )

    said = one_after_another(extent, say)
    return GenerationStream(said, prompt.text, prompt.ids, tokenizer, config.stop, limit, told, extent)
