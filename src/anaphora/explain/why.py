"""Why a language model expects the next word: its explanation (explain/explanation.py) in words, tables and checks.

    people: P = 0.03638, from the 2-gram
      order  context   word      share     weight       paid       adds
          4  I am the  not           0     0.9756          1          0
          3  am the    not           0      0.934     0.9756          0
          2  the       seen    0.03966     0.5974     0.9112    0.03614
          1  (none)          0.0004508                0.5444  0.0002454
                                                         sum    0.03638

A row is a context, the longest first. `share` is what its own counts give the word, `weight` what the next shorter
context is multiplied by, `paid` the product of the weights above, and share × paid is what the row adds to P.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anaphora.decoding.hidden_words import blank_of, hide
from anaphora.errors import UserError, option
from anaphora.explain.columns import MIN_COLUMNS, NUMBER, bar, number, padded, wrapped
from anaphora.explain.draw.terminal import cells, cut, isolated, visible
from anaphora.explain.explanation import explain_next
from anaphora.explain.next_words import NextWords, RankedWord, words_in_blank
from anaphora.explain.trace_parts import Check, Walk
from anaphora.explain.why_senses import ABOUT, alpha_walk, origin, share_lines, shares_walk, sums_of_shares
from anaphora.models.backpack.sense_shares import SenseCandidate, SensesWhy
from anaphora.models.composites.mixture_explanation import MixedCandidate, MixtureWhy
from anaphora.models.next_word import Discounts, NextWord, NextWordsTold
from anaphora.models.ngram.ngram_explanation import Candidate, Level, Why
from anaphora.results import brief, figure, html_lines, html_table
from anaphora.tokenizers.token_names import in_base64, token_name, told_apart
from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS, UNK, Tokenizer
from anaphora.tokenizers.word_pieces import check_writable, forms_of

if TYPE_CHECKING:
    from anaphora.models.contracts import LanguageModel

TOLERANCE = 1e-5
"""How far apart, as a share of the larger, the parts' sum and P may be: probabilities are kept in 32 bits."""
ROUNDING = 1e-3
"""How far apart log P may be, read word by word and all at once, by a network that computes in 32 bits."""
LEARNED = (
    "a learned model: a network has mixed all that it read, so its probabilities cannot be taken apart by words or "
    "contexts; these are its likeliest words"
)
FORMULAS = {
    "kneser-ney": "P(w | c) = share(c, w) + weight(c) · P(w | c without its first word)",
    "stupid-backoff": "the longest context that knows w gives its share; each shorter one costs the same weight",
    "add-k": "P(w | c) = share(c, w) + weight(c) · 1/V: a part of each context is kept for every word alike",
    "maximum-likelihood": "P(w | c) = how often w came after c / how often c came; nothing else is asked",
    "given": "the longest context that knows w gives its share; each one above it that did not costs its weight",
}


@dataclass(frozen=True)
class WhyText:
    """The explanation of what may follow a text."""

    text: str
    """What was given; the next word after it is explained."""
    explanation: NextWordsTold
    """The numbers: candidates, and what each probability is made of."""
    names: dict[int, str]
    """Of every token that stands in it."""
    notes: tuple[str, ...] = ()
    """What must be known to read them."""
    patches: tuple[str, ...] = ()
    """Names of those that the model has on."""
    spelled: Mapping[int, bytes] = field(default_factory=dict)
    """What those tokens spell, in UTF-8."""

    def __repr__(self) -> str:
        likely = [f"{self.name(one.token)} {one.probability:.3f}" for one in self.explanation.candidates[:3]]
        return brief("WhyText", self.text, ", ".join(likely))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        candidates = self.explanation.candidates
        rows = [(self.name(one.token), f"{one.probability:.4g}", figure(one.log_probability)) for one in candidates]
        shades = [[one.probability, 0.0] for one in candidates]
        return html_table(("next", "P", "log P"), rows, caption=self.text, shades=shades) + html_lines(self.lines(100))

    def name(self, token: int) -> str:
        """A token's id as people see it."""
        return self.names[token]

    @property
    def checks(self) -> list[Check]:
        """Whether the explanation leads to what the model itself says."""
        found = self.explanation
        off = [_off(one) for one in found.candidates]
        if isinstance(found, MixtureWhy):
            inner = _inner(found)
            worst = max(map(_off, inner), default=0.0)
            return [
                Check("the parts' weighted sum is the P that the mixture gives", max(off, default=0.0), TOLERANCE),
                Check("each part's path ends at the P that the part gives", worst, TOLERANCE),
                *_sums(inner),
                *sums_of_shares(inner),
            ]
        if isinstance(found, NextWords):
            return [Check("log P is the one that `score` gives", max(off, default=0.0), ROUNDING)]
        if isinstance(found, SensesWhy):
            ends = Check("they lead to the log P that the model gives", max(off, default=0.0), TOLERANCE)
            return [*sums_of_shares(found.candidates), ends]
        ends = Check("the path ends at the log P that the model gives", max(off, default=0.0), 0.0)
        return [ends, *_sums(found.candidates)]

    @property
    def holds(self) -> bool:
        """Whether the parts add up to the probability that the model gives."""
        return all(check.holds for check in self.checks)

    def pictures(self, folder: Path) -> dict[str, Walk]:
        """Of a Backpack, tables to be drawn: `shares` by word and sense, and `alpha`, what each sense looks at."""
        found = self.explanation
        if not isinstance(found, SensesWhy):
            raise UserError(
                "this model has no senses to draw", file=folder, cure="leave the pictures out, or give a Backpack"
            )
        words = [self.name(token) for token in (BOS, *found.prefix)]
        names = [self.name(one.token) for one in found.candidates]
        return {
            "shares": shares_walk(found, words, names, self.checks, self._patched),
            "alpha": alpha_walk(found, words, self._patched),
        }

    @property
    def _patched(self) -> str:
        """With which patches, in words; nothing without."""
        return f"with {' and '.join(self.patches)}" if self.patches else ""

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        explanation = self.explanation.document(self.name)
        for one in explanation["candidates"]:
            one["bytes"] = in_base64(self.spelled.get(one["id"], b""))
        return {
            "text": self.text,
            **explanation,
            "checks": [check.document() for check in self.checks],
            "notes": list(self.notes),
        }

    def lines(self, width: int = 80) -> Iterator[str]:
        """The tables, no line wider than `width`, or 72 columns where it is less."""
        width = max(width, MIN_COLUMNS)
        read = [BOS, *self.explanation.prefix]
        blank = isinstance(self.explanation, NextWords) and self.explanation.blank is not None
        before = " ".join(isolated(visible(self.name(token))) for token in (*read, *[EOS] * blank))
        patched = f" ({visible(self._patched)})" if self.patches else ""
        asked = "What fills the blank in" if blank else "What comes after"
        yield from wrapped(f"{asked} {before}{patched}", width)
        for note in self.notes:
            yield from wrapped(f"note: {note}", width)
        yield from self._about(self.explanation, width)
        yield ""
        yield from self._summary(width)
        for candidate in () if isinstance(self.explanation, NextWords) else self.explanation.candidates:
            yield ""
            yield from self._explained(candidate, width)
        yield ""
        for check in self.checks:
            yield from wrapped(str(check), width)

    def _explained(self, one: NextWord, width: int, indent: str = "", begin: str = "") -> Iterator[str]:
        if isinstance(one, MixedCandidate):
            yield from self._parts(one, width, indent, begin)
        elif isinstance(one, SenseCandidate):
            words = [self.name(token) for token in (BOS, *self.explanation.prefix)]
            yield from share_lines(one, self.name(one.token), words, width, indent, begin)
        elif isinstance(one, Candidate):
            yield from self._levels(one, width, indent, begin)

    def _about(self, found: NextWordsTold | None, width: int, name: str = "", weight: float = 1.0) -> Iterator[str]:
        """What the model is, and the discounts of each of its orders."""
        begin = f"{isolated(visible(name))}, weight {weight:.4g}: " if name else ""
        if found is None:
            yield from wrapped(f"{begin}a model that does not explain itself", width)
        elif isinstance(found, MixtureWhy):
            yield from wrapped(f"{begin}a mixture of {len(found.parts)}: P = sum of weight · P of each part", width)
            for part in zip(found.parts, found.names, found.weights):
                yield from self._about(part[0], width, *part[1:])
        elif isinstance(found, SensesWhy):
            yield from wrapped(f"{begin}a Backpack of {found.senses} senses a word: {ABOUT}", width)
        elif isinstance(found, NextWords):
            yield from wrapped(begin + LEARNED, width)
        elif isinstance(found, Why):
            what = "single words" if found.model_order == 1 else f"n-grams up to {found.model_order}"
            yield from wrapped(f"{begin}{what}, {found.smoothing}: {FORMULAS[found.smoothing]}", width)
            if found.discounts and any(any(order) for order in found.discounts):
                yield from _discounts(found.discounts)

    def _summary(self, width: int) -> Iterator[str]:
        candidates: Sequence[NextWord] = self.explanation.candidates
        label = min(max((cells(self.name(one.token)) for one in candidates), default=4), 24)
        label = max(label, 4)
        last = "from" if isinstance(self.explanation, MixtureWhy | SensesWhy) else "order"
        last = "rank" if isinstance(self.explanation, NextWords) else last
        side = [self._from(one) for one in candidates]
        room = min(max((cells(text) for text in side), default=5), 16) if last != "order" else 5
        room = max(room, len(last))
        wide = width - label - 2 * NUMBER - room - 10
        yield f"  {'word':<{label}}  {'P':>{NUMBER}}  {'log P':>{NUMBER}}  {last:>{room}}"
        largest = max((one.probability for one in candidates), default=0.0)
        for one, text in zip(candidates, side):
            name, said = padded(self.name(one.token), label), padded(text, room, right=True)
            drawn = bar(one.probability / largest, wide) if largest else ""
            log = f"{one.log_probability:.4f}"
            row = f"  {name}  {number(one.probability)}  {log:>{NUMBER}}  {said}  {drawn}"
            yield row.rstrip()

    def _levels(self, one: Candidate, width: int, indent: str = "", begin: str = "") -> Iterator[str]:
        name = isolated(cut(self.name(one.token), 40))
        yield from wrapped(f"{begin}{name}: P = {one.probability:.4g}, {_answer(one)}", width, indent)
        if not one.levels:
            return
        rows = [(level, _context(self, level)) for level in one.levels]
        room = max(width - len(indent) - 4 * (NUMBER + 2) - 17, 7)
        label = max(min(max(cells(text) for _, text in rows), room), 7)
        heads = "".join(f"  {head:>{NUMBER}}" for head in ("share", "weight", "paid", "adds"))
        yield f"{indent}  order  {'context':<{label}}  word{heads}"
        paid = 1.0
        for level, text in rows:
            word = "" if level.order < 2 else "seen" if level.seen else "not" if level.known else "-"
            weight = number(level.weight) if level.weight else f"{'':>{NUMBER}}"
            numbers = f"  {number(level.share)}  {weight}  {number(paid)}  {number(level.part)}"
            order = str(level.order) if level.order else "-"
            yield f"{indent}  {order:>5}  {padded(text, label, tail=True)}  {word:<4}{numbers}".rstrip()
            paid *= level.weight
        if len(rows) > 1:
            room = 7 + 2 + label + 2 + 4 + 3 * (NUMBER + 2)
            yield f"{indent}{'sum':>{room}}  {number(one.total)}"

    def _parts(self, one: MixedCandidate, width: int, indent: str = "", begin: str = "") -> Iterator[str]:
        name = isolated(cut(self.name(one.token), 40))
        most = isolated(cut(self._from(one), 24))
        yield from wrapped(f"{begin}{name}: P = {one.probability:.4g}, most of it from {most}", width, indent)
        label = max(min(max(cells(part.name) for part in one.parts), width - len(indent) - 3 * (NUMBER + 2) - 4), 4)
        heads = "".join(f"  {head:>{NUMBER}}" for head in ("P", "weight", "adds"))
        yield f"{indent}  {'part':<{label}}{heads}"
        for part in one.parts:
            numbers = "  ".join(number(value) for value in (part.probability, part.weight, part.part))
            yield f"{indent}  {padded(part.name, label)}  {numbers}"
        yield f"{indent}  {'sum':>{label + 2 * (NUMBER + 2)}}  {number(one.total)}"
        for part in one.parts:
            if part.because is not None:
                begin = f"in {isolated(cut(part.name, 24))}, "
                yield from self._explained(part.because, width, indent + "  ", begin)

    def _from(self, one: NextWord) -> str:
        """Where most of it comes from, in a word or two."""
        if isinstance(one, MixedCandidate):
            return max(one.parts, key=lambda part: part.part).name
        if isinstance(one, SenseCandidate):
            return origin(one, [self.name(token) for token in (BOS, *self.explanation.prefix)])
        if isinstance(one, Candidate):
            return str(one.order)
        return f"{cast(RankedWord, one).rank:,}"


def explain_text(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    *,
    ids: Sequence[int] | None = None,
    top: int = 10,
    words: Sequence[str] = (),
    discounts: Discounts = (),
    part_discounts: Sequence[Discounts] = (),
    patches: Sequence[str] = (),
) -> WhyText:
    """Explain what may follow a text: the `top` likeliest tokens, and `words`, each of which must be one token.

    ids: those of the text, where it is more than one line. patches: names of those that the model has on.
    """
    if top < 0:
        raise UserError(f"top is {top}", cure="ask for 0 words or more")
    if not top and not words:
        raise UserError(
            "no word is given", cure=f"give {option('words', 'WORD', shell='--word WORD')}, or {option('top', 5)}"
        )
    masked = "masked" in model.capabilities
    if masked:
        ids = _with_blank(model, tokenizer, text)
    prefix = [int(token) for token in (tokenizer.encode(text) if ids is None else ids)]
    notes = []
    unknown = sum(token == UNK for token in prefix)
    if unknown:
        notes.append(f"{unknown} of the {len(prefix)} words of the text are not in the vocabulary: {SPECIALS[UNK]}")
    before = blank_of(tokenizer).split(text)[0] if masked else text
    begins = not before or (before[-1].isspace() and not masked)  # the space in front of a blank is the word's
    tokens = [one_token(tokenizer, word, begins=begins) for word in words]
    if UNK in tokens:
        lacks = next(word for word, token in zip(words, tokens) if token == UNK)
        notes.append(f"{lacks!r} is not in the vocabulary: it is {SPECIALS[UNK]} like every other such word")
    if "normalised" not in model.capabilities:
        notes.append("P need not sum to one over all words (stupid back-off, or a file taken as it is)")
    found: NextWordsTold
    if masked:
        found = words_in_blank(model, prefix, top=top, tokens=tokens)
    else:
        how: dict[str, Any] = {"discounts": discounts, "part_discounts": part_discounts}
        found = explain_next(model, prefix, top=top, tokens=tokens, **how)
    standing = {BOS, EOS, *prefix, *(one.token for one in found.candidates)}
    hidden = {cast(Any, model).mask_id: "___"} if masked else {}
    names = told_apart(tokenizer, {token: token_name(tokenizer, token) for token in standing - hidden.keys()})
    spelled = {token: tokenizer.token_bytes(token) for token in standing - hidden.keys()}
    return WhyText(text, found, names | hidden, tuple(notes), tuple(patches), spelled | dict.fromkeys(hidden, b""))


def _with_blank(model: Any, tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text for a masked model, which must have one blank."""
    if (blanks := len(blank_of(tokenizer).findall(text))) != 1:
        cure = "for several there is `anaphora fill`" if blanks else 'mark the place by ___, as in "The ___ sat"'
        raise UserError(f"a masked model explains one blank, and the text has {blanks or 'none'}", cure=cure)
    ids = hide(tokenizer, text, model.mask_id)
    if model.max_length is not None and len(ids) + 2 > model.max_length:
        raise UserError(
            f"the text has {len(ids) + 2:,} tokens, and the model can read {model.max_length:,}", cure="shorten it"
        )
    return ids


def one_token(tokenizer: Tokenizer, word: str, *, begins: bool = False) -> int:
    """The id of a word that is asked for by its text, as it stands inside a line, or, where it `begins` one or a space
    stands there already, as it stands there; `</s>` is the end of a line."""
    if word in ("</s>", SPECIALS[EOS]):
        return EOS
    check_writable(word)
    found = [int(token) for token in tokenizer.encode(word)]
    if not found:
        raise UserError("an empty word was asked for", cure="name a word; </s> is the end of a line")
    forms = forms_of(tokenizer, word)  # " is" and "is"; "." has no space before it
    if forms and not (begins and tokenizer.kind in ("bpe", "unigram") and len(found) == 1):
        return forms[0]
    if len(found) == 1:
        return found[0]
    cut_up = " ".join(repr(token_name(tokenizer, token)) for token in found[:8])
    raise UserError(
        f"{word!r} is {len(found)} tokens of this model ({cut_up}), and one is explained at a time",
        cure="ask for the first, then move it into the text and ask for the next",
    )


# -- words and numbers -------------------------------------------------------------------------------------------------


def _inner(found: MixtureWhy) -> list[NextWord]:
    """All explanations of parts, those of mixtures inside the mixture too."""
    inner: list[NextWord] = []
    for part in found.parts:
        if part is not None:
            inner += [*part.candidates, *(_inner(part) if isinstance(part, MixtureWhy) else ())]
    return inner


def _sums(candidates: Sequence[NextWord]) -> list[Check]:
    said = [one for one in candidates if isinstance(one, Candidate) and one.levels]
    if not said:
        return []
    worst = max(_apart(one.total, one.probability) for one in said)
    return [Check("what the levels add sums to P", worst, TOLERANCE)]


def _off(one: NextWord) -> float:
    """How far log P is from what the model gives; where it is a difference of large logits, as a share of them."""
    if one.log_probability == one.scored:  # minus infinity is equal to itself
        return 0.0
    parts = one.parts if isinstance(one, MixedCandidate) else ()
    sums = [each for each in (one, *(part.because for part in parts)) if isinstance(each, SenseCandidate)]
    return abs(one.log_probability - one.scored) / max((each.size for each in sums), default=1.0)


def _apart(a: float, b: float) -> float:
    return abs(a - b) / max(a, b) if max(a, b) > 0 else 0.0


def _answer(one: Candidate) -> str:
    if one.log_probability == -math.inf:
        return "which this model never says here"
    if one.order == 0:
        return "although nothing was seen after this context"
    if one.levels and one.levels[-1].order == 0 and not one.levels[0].seen:
        return "of what is kept for words not seen there"
    return "from the single word" if one.order == 1 else f"from the {one.order}-gram"


def _context(shown: WhyText, level: Level) -> str:
    if not level.order:
        return "(all alike)"
    if not level.context:
        return "(none)"
    return " ".join(visible(shown.names.get(token, str(token))) for token in level.context)


def _discounts(discounts: Sequence[Sequence[float]]) -> Iterator[str]:
    yield f"  {'discounts':<9}" + "".join(f"  {name:>7}" for name in ("D1", "D2", "D3+"))
    for order, found in enumerate(discounts, start=1):
        yield f"  {f'{order}-grams':<9}" + "".join(f"  {value:>7.4f}" for value in list(found)[1:4])
