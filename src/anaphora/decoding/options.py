"""The settings of DecodingConfig as keyword arguments, for type checkers and signatures; None: as the folder has it.

What each of them does, and its default, is written in decoding_settings.py alone; a test holds names and types
together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

TRANSFORMERS_NAMES = {
    "num_beams": "beam",
    "beam_size": "beam",
    "num_return_sequences": "n_best",
    "max_new_tokens": "max_length",
    "tokens": "max_length",
    "do_sample": "sample",
    "no_repeat_ngram_size": "no_repeat_ngram",
}
"""Settings under the names that Hugging Face's transformers and other tools have for them, `tokens` being `generate`'s;
whoever translates may write either."""


GENERATE_NAMES = {
    "num_beams": "beam",
    "beam_size": "beam",
    "num_return_sequences": "samples",
    "no_repeat_ngram_size": "no_repeat_ngram",
}
"""Those of whoever goes on with a text."""


class TextOptions(TypedDict, total=False):
    """What means something for going on with a text (settings.SAYING)."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    epsilon: float | None
    seed: int | None
    repetition_penalty: float | None
    stop: str | list[str] | None
    unknown: bool | None
    min_length: int | None
    no_repeat_ngram: int | None
    length_penalty: float | None


class GeneratedOptions(TextOptions, total=False):
    """What `decoding.generate` can be asked for, beside what it has parameters for."""

    beam: int | None


class GenerateOptions(TextOptions, total=False):
    """What `TextModel.generate` can be asked for."""

    tokens: int | None
    max_new_tokens: int | None
    lines: int | None
    greedy: bool
    beam: int | None
    draft: Any
    draft_tokens: int | None
    progress: Callable[[int], None] | None


class SearchOptions(TypedDict, total=False):
    """What means something where tokens are searched for, and no texts are known."""

    beam: int | None
    n_best: int | None
    length_penalty: float | None
    coverage_penalty: float | None
    min_length: int | None
    max_length: int | None
    max_length_ratio: float | None
    max_length_extra: int | None
    no_repeat_ngram: int | None
    repetition_penalty: float | None
    unknown: bool | None
    sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    epsilon: float | None
    seed: int | None


class DecodingOptions(TextOptions, total=False):
    """All settings of section `decoding`: what a translator can be asked for."""

    beam: int | None
    split_sentences: Literal["auto", "always", "never"] | None
    n_best: int | None
    coverage_penalty: float | None
    max_length: int | None
    max_length_ratio: float | None
    max_length_extra: int | None
    replace_unknown: Literal["dictionary", "copy", "none"] | None
    dictionary: str | None
    dictionary_threshold: float | None
    sample: bool | None
    mbr: Literal["chrf", "bleu", "gleu"] | None
    mbr_samples: int | None
    mbr_candidates: Literal["both", "samples", "beam"] | None
    batch_tokens: int | None
    batch_sentences: int | None
    max_source_tokens: int | None
