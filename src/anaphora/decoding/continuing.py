"""Prompts become texts: from what a person wrote, by whichever way of saying, to what can be read.

The ways are those of generation.py (the one search) and, where something guesses ahead, of speculative.py; both say
tokens, and here they get their prompts, their stop strings and their spelling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from anaphora.decoding.drafts import Draft
from anaphora.decoding.generation import (
    MOST_SAMPLES,
    Generation,
    GenerationStream,
    fewest,
    generate,
    generate_aloud,
    listening,
    room,
    spoken,
)
from anaphora.decoding.settings import DecodingConfig
from anaphora.decoding.speculative import DRAFT_TOKENS, Speculation, generate_speculatively, speculate
from anaphora.decoding.spelling import Prompt
from anaphora.errors import UserError
from anaphora.models.contracts import LanguageModel
from anaphora.text.tokenizer import Tokenizer


class Guessing(NamedTuple):
    """Who guesses ahead, and how far."""

    draft: Draft
    tokens: int = DRAFT_TOKENS


def guessing(draft: Draft | None, tokens: int | None) -> Guessing | None:
    """A draft and how far it guesses, as asked for; nothing where there is none."""
    if draft is None:
        if tokens is not None:
            raise UserError("draft_tokens is about a draft, and there is none", cure="leave it out, or name a draft")
        return None
    return Guessing(draft) if tokens is None else Guessing(draft, tokens)


def continue_texts(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    config: DecodingConfig,
    *,
    tokens: int,
    samples: int = 1,
    blank: bool = True,
    ahead: Guessing | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[list[Generation]]:
    """`samples` texts that go on with each prompt, each by at most `tokens` new tokens; see generation.generate."""
    ids = [prompt.ids for prompt in prompts]
    limits = [room(model, len(own), tokens) for own in ids]
    listeners = listening([prompt.text for prompt in prompts], ids, config.stop, tokenizer)
    told: list[list[Speculation]] | None = None
    if ahead is None:
        found = generate(
            model, ids, config, tokens=tokens, samples=samples, listeners=listeners, blank=blank, progress=progress
        )
    else:
        found, told = generate_speculatively(
            model,
            ahead.draft,
            ids,
            config,
            tokens=tokens,
            samples=samples,
            draft_tokens=ahead.tokens,
            listeners=listeners,
            blank=blank,
            progress=progress,
        )
    texts = [
        [spoken(prompt.text, prompt.ids, said, tokenizer, stops=config.stop, limit=limit) for said in hypotheses]
        for prompt, hypotheses, limit in zip(prompts, found, limits)
    ]
    for generations, speculations in zip(texts, told or []):
        for generation, speculation in zip(generations, speculations):
            generation.speculation = speculation
    return texts


def continue_aloud(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: Prompt,
    config: DecodingConfig,
    *,
    tokens: int,
    blank: bool = True,
    ahead: Guessing | None = None,
    place: int = 0,
) -> GenerationStream:
    """The first text that `continue_texts` finds for the prompt at this place, heard while it is said."""
    config = dataclasses.replace(config, min_length=fewest(config, prompt.ids, blank=blank))
    limit = room(model, len(prompt.ids), tokens)
    told = None
    if ahead is None:
        said = generate_aloud(model, prompt.ids, config, tokens=tokens, place=place)
    else:
        told = Speculation()
        said = speculate(
            model,
            ahead.draft,
            prompt.ids,
            config,
            tokens=tokens,
            draft_tokens=ahead.tokens,
            sentence_id=place * MOST_SAMPLES,
            told=told,
        )
    return GenerationStream(said, prompt.text, prompt.ids, tokenizer, config.stop, limit, told)
