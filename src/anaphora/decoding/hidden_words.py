"""Fill in the blank: "The ___ sat on the mat." What may stand there, by a model that reads both sides of it.

A blank is three underscores or more, or `[MASK]` or `<mask>` as other masked models have it, in capitals or not, unless
that is a word of the vocabulary. It hides one token, so what is proposed are single tokens: whole words where the
vocabulary has them, parts of words otherwise, named as everywhere (tokenizers/token_names.py): ␣s is a word, s ends
one. Several blanks of a line are guessed at once, each without knowing what the others become.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anaphora.errors import UserError
from anaphora.results import brief, figure, html_table
from anaphora.tokenizers.token_names import token_name
from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS, UNK, Tokenizer

if TYPE_CHECKING:
    from anaphora.models.language.masked import MaskedLM

BLANK = re.compile("_{3,}")
MASKS = ("[MASK]", "<mask>")
"""Blanks of BERT and RoBERTa."""
MARK = re.compile("|".join(map(re.escape, MASKS)), re.IGNORECASE)
STAND_IN = "x"
"""Stands in the place of a blank while the line is cut into tokens: what belongs to it is then hidden."""
BATCH_LINES = 64
"""Lines that are read at once."""


@dataclass
class Candidate:
    """A token that may stand in a blank."""

    text: str
    """As it reads in the line, without the space in front of it."""
    token: str
    """The same with its space, if it has one: ␣mat."""
    token_id: int
    probability: float

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return brief("Candidate", self.token, f"P {figure(self.probability, '.4f')}")


@dataclass
class Filled:
    """A line with blanks, and what may stand in each."""

    text: str
    """The line, with its blanks."""
    blanks: list[list[Candidate]]
    """For each blank, from left to right, the likeliest first."""
    pattern: re.Pattern[str] = field(default=BLANK, repr=False)
    """What a blank is."""

    def __str__(self) -> str:
        return self.best

    def __repr__(self) -> str:
        return brief("Filled", self.best, f"{len(self.blanks)} blank{'' if len(self.blanks) == 1 else 's'}")

    def _repr_html_(self) -> str:
        rows = [
            (str(place), one.token, figure(one.probability, ".4f"))
            for place, candidates in enumerate(self.blanks, start=1)
            for one in candidates
        ]
        return html_table(("blank", "token", "P"), rows, caption=self.text, left=2)

    @property
    def best(self) -> str:
        """The line with the likeliest candidate in each blank."""
        chosen = iter(self.blanks)
        return self.pattern.sub(lambda _: next(chosen)[0].text, self.text)

    @property
    def untouched(self) -> list[str]:
        """`[MASK]` and `<mask>`, where they stand in the line as words."""
        return [found[0] for found in MARK.finditer(self.text) if not self.pattern.search(found[0])]


def blank_of(tokenizer: Tokenizer) -> re.Pattern[str]:
    """What a blank is to a model: `[MASK]` and `<mask>` too, unless they are words of its vocabulary."""
    forms = (form for mask in MASKS for form in (mask, mask.lower(), mask.upper()))
    words = [re.escape(form) for form in dict.fromkeys(forms) if _is_word(tokenizer, form)]
    # [Mask] is one too; what is a word, as it is written, is not
    mark = f"(?:{''.join(f'(?!{word})' for word in words)}(?i:{MARK.pattern}))"
    return re.compile(f"{BLANK.pattern}|{mark}")


def _is_word(tokenizer: Tokenizer, text: str) -> bool:
    ids = [int(id) for id in tokenizer.encode(text)]
    return len(ids) == 1 and ids[0] != UNK


def hide(tokenizer: Tokenizer, text: str, mask: int) -> list[int]:
    """The ids of a line, with the mask in the place of each blank. The words beside a blank are cut as if some word
    stood there, so that they get the tokens that they have in any other line."""
    places, plain, end = [], "", 0
    for found in blank_of(tokenizer).finditer(text):
        plain += text[end : found.start()]
        places.append((len(plain), len(plain) + len(STAND_IN)))
        plain += STAND_IN
        end = found.end()
    plain += text[end:]
    cut = tokenizer.rust.encode(plain, add_special_tokens=False)
    ids: list[int] = []
    hidden: int | None = None  # the blank that the last token belongs to
    for id, (first, last) in zip(cut.ids, cut.offsets):
        blank = next((n for n, (begin, stop) in enumerate(places) if first < stop and last > begin), None)
        if blank is None:
            # a space of its own in front of a blank is the space in front of the word
            before = next((n for n, (begin, _) in enumerate(places) if last == begin), None)
            alone = plain[first:last] == " " and tokenizer.kind in ("bpe", "unigram") and before is not None
            if not alone:
                ids.append(id)
                hidden = None
        elif blank != hidden:
            ids.append(mask)
            hidden = blank
    return ids


def fill_lines(
    model: MaskedLM, tokenizer: Tokenizer, lines: Sequence[str], *, top: int = 5, unknown: bool = False
) -> list[Filled]:
    """The `top` likeliest tokens for each blank of each line; lines without one have none."""
    from anaphora.decoding.translate import pad

    if not 1 <= top <= tokenizer.vocabulary_size - len(SPECIALS):
        raise UserError(
            f"{top} candidates are asked for", cure=f"ask for 1 to {tokenizer.vocabulary_size - len(SPECIALS):,}"
        )
    pattern = blank_of(tokenizer)
    found = [Filled(line, [], pattern) for line in lines]
    asked = [number for number, line in enumerate(lines) if pattern.search(line)]
    for begin in range(0, len(asked), BATCH_LINES):
        some = asked[begin : begin + BATCH_LINES]
        rows = []
        for number in some:
            rows.append([BOS, *hide(tokenizer, lines[number], model.mask_id), EOS])
            if model.max_length is not None and len(rows[-1]) > model.max_length:
                raise UserError(
                    f"has {len(rows[-1]):,} tokens with its marks, and the model can read {model.max_length:,}",
                    line=number + 1,
                    cure="shorten it",
                )
        places, log_probabilities = model.fill(*pad(rows, model.device))
        log_probabilities[:, : len(SPECIALS) - unknown] = float("-inf")
        best = log_probabilities.topk(top)
        for (row, _), values, tokens in zip(places.tolist(), best.values.exp().tolist(), best.indices.tolist()):
            candidates = [
                Candidate(shown(tokenizer, token), token_name(tokenizer, token), token, value)
                for token, value in zip(tokens, values)
            ]
            found[some[row]].blanks.append(candidates)
    return found


def shown(tokenizer: Tokenizer, token: int) -> str:
    """A token as a person reads it in a line."""
    text = tokenizer.decode([token])
    return SPECIALS[UNK] if token == UNK else text.strip() or text
