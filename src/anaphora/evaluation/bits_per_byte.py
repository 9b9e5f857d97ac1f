"""How well a language model predicts a text: perplexity, and bits per byte, the ruler across tokenizers.

    perplexity      e^(-log P / tokens): among how many equally likely tokens the model seemed to choose, on average
    bits per byte   -log₂ P / bytes: what an arithmetic coder that asks the model would need for a byte of the text

Perplexity is a number of tokens, so models compare by it only if they cut the text into the same tokens. A text has the
same bytes whoever cuts it: those of its UTF-8, and one for the newline that ends each line, which the model predicts as
⟨/s⟩. Both need the model to give every token of the text a probability; where words are replaced by ⟨unk⟩ it has not
said *which* word stood there, so the bits are too few, and the number compares only with others that replaced the same.
(A tokenizer that drops the blanks between words does not say how many there were: one, for text tokenized beforehand.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable

MAX_EXPONENT = 700.0
"""e to the power of more than this is no float any more."""

UNNORMALIZED = (
    "the model's probabilities need not sum to one (stupid back-off, or a file taken as it is): where they sum to "
    "more, perplexity and bits per byte are too low"
)


def perplexity(log_probability: float, tokens: int) -> float:
    """Of `tokens` tokens that have this log-probability (natural) together; NaN of no tokens."""
    if not tokens:
        return math.nan
    mean = -log_probability / tokens
    return math.inf if mean > MAX_EXPONENT else math.exp(mean)


def bits_per_byte(log_probability: float, size: int) -> float:
    """Of a text of `size` bytes that has this log-probability (natural); NaN of no bytes."""
    return -log_probability / math.log(2) / size if size else math.nan


def text_bytes(lines: Iterable[str]) -> int:
    """Bytes of lines as a file has them: UTF-8, each with its newline."""
    whole = "\n".join([*lines, ""])
    return len(whole) if whole.isascii() else len(whole.encode("utf-8", "surrogatepass"))


def note_on(unknown: int, tokens: int, *, normalized: bool) -> str | None:
    """What must be said beside the numbers of a text: of so many tokens that are unknown, by a model whose
    probabilities sum to one or need not."""
    notes = [note_on_unknown(unknown, tokens), None if normalized else UNNORMALIZED]
    return "; ".join(note for note in notes if note) or None


def note_on_unknown(unknown: int, tokens: int) -> str | None:
    """What must be said beside bits per byte where a text has unknown tokens."""
    if not unknown:
        return None
    share = 100 * unknown / tokens
    return (
        f"unknown tokens: {unknown:,} of {tokens:,} ({share:.1f} %). The model says that a word stood there, not which "
        "one, so bits per byte is too low to be compared with that of a model that spells every word"
    )
