"""The senses of a Backpack's words, looked up: what each says, which other senses it is like, where a text uses it.

    sick  4 senses
      sense 2 raises   trick party jump …      the words w with the largest C(sick)_2 · E_w
              lowers   man . very …            and those with the smallest
              in text  61 % of α               of the weight that a text's predictions give the senses of the word
              e.g.     The boy saw a [sick] jump.
              nearest  cool#2 0.91 …           the nearest of all V · k sense vectors, by their cosine

A sense vector belongs to the word alone, so all of this but the use of it is read from the model without any text.
Senses are numbered from 0. A word that is no token is looked at piece by piece, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.explain.columns import MIN_COLUMNS, wrapped
from anaphora.explain.draw.terminal import cells, cut, isolated, visible
from anaphora.explain.sense_uses import TokenUses, Use, Uses
from anaphora.results import brief, count, html_table
from anaphora.tokenizers.token_names import in_base64, token_name, told_apart
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.word_pieces import NEVER, WordTokens, tokens_of_word, unsaid_tokens

if TYPE_CHECKING:
    from anaphora.models.backpack.backpack import Backpack

TOP_WORDS = 10
MAX_SENSE_NUMBERS = 1 << 22
"""Numbers of sense vectors, or of their products with a vocabulary, that are formed at once."""


class MovedToken(NamedTuple):
    """A word that a sense makes likelier, or less likely, as the next one."""

    token: str
    value: float
    """C · E_token: what the sense adds to its logit."""


class NearSense(NamedTuple):
    """A sense of another word that is like one."""

    token: str
    sense: int
    cosine: float


@dataclass(frozen=True)
class Sense:
    """One sense of one token."""

    number: int
    """From 0."""
    size: float
    """The length of its vector: a sense that says little is short."""
    raises: tuple[MovedToken, ...]
    """The largest first."""
    lowers: tuple[MovedToken, ...]
    """The smallest first."""
    nearest: tuple[NearSense, ...] = ()
    """Of other tokens."""
    share: float | None = None
    """Of the α that a text gives the senses of this word; None where no text was read, or it does not hold it."""
    examples: tuple[Use, ...] = ()
    """Lines of the text that use it most."""

    def __repr__(self) -> str:
        raises = " ".join(token for token, _ in self.raises[:6])
        return brief("Sense", None, f"number {self.number}", f"raises {raises!r}" if raises else "raises nothing")


@dataclass(frozen=True)
class TokenSenses:
    """All senses of one token."""

    token: int
    """Its id."""
    name: str
    """Of the token, as people see it."""
    senses: tuple[Sense, ...]
    """In the order of their numbers."""
    uses: int | None = None
    """Places of the text that hold it, or another token that is the same word; None: no text was read."""

    def __repr__(self) -> str:
        return brief("TokenSenses", self.name, count(len(self.senses), "sense"))


@dataclass(frozen=True)
class WordSenses:
    """What was asked for: a word, with the senses of its token, or of its pieces."""

    word: str
    """As it was asked for."""
    pieces: tuple[TokenSenses, ...]
    """Its token, or the tokens that it is spelled with."""
    whole: bool
    """Whether the word is one token."""
    other_forms: tuple[int, ...] = ()
    """Further tokens that are the same word: at the beginning of a line, without the space."""
    spellings: tuple[tuple[int, ...], ...] = ()
    """Of a word in pieces: how it is spelled inside a line, and where no space is before it, if the text has that."""

    def __repr__(self) -> str:
        return brief("WordSenses", self.word, count(sum(len(piece.senses) for piece in self.pieces), "sense"))


@dataclass(frozen=True)
class SensesText:
    """The senses of some words, in words and tables."""

    words: tuple[WordSenses, ...]
    """One for each word that was asked for."""
    names: dict[int, str]
    """The names of tokens."""
    notes: tuple[str, ...] = ()
    """What must be known to read it."""
    lines_read: int | None = None
    """Of the text; None: none was read."""
    patches: tuple[str, ...] = ()
    """Names of those that the model has on."""
    spelled: Mapping[int, bytes] = field(default_factory=dict)
    """What those tokens spell, in UTF-8."""

    def __repr__(self) -> str:
        return brief("SensesText", " ".join(word.word for word in self.words), *(f"{one!r}" for one in self._all[:2]))

    def __str__(self) -> str:
        return "\n".join(self.lines(80))

    def _repr_html_(self) -> str:
        rows = [
            (
                piece.name,
                str(sense.number),
                " ".join(token for token, _ in sense.raises),
                " ".join(token for token, _ in sense.lowers),
                " ".join(f"{near.token}#{near.sense}" for near in sense.nearest),
                "" if sense.share is None else f"{sense.share:.0%}",
            )
            for piece in self._all
            for sense in piece.senses
        ]
        heads = ("word", "sense", "raises", "lowers", "nearest", "in text")
        return html_table(heads, rows, caption="; ".join(self.notes), left=5)

    @property
    def _all(self) -> list[TokenSenses]:
        return [piece for word in self.words for piece in word.pieces]

    @property
    def patched(self) -> str:
        """With which patches, in words; nothing without."""
        return f"with {' and '.join(self.patches)}" if self.patches else ""

    def name(self, token: int) -> str:
        """A token's id as people see it."""
        return self.names[token]

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "words": [
                {
                    "word": word.word,
                    "one_token": word.whole,
                    "other_forms": [self.name(form) for form in word.other_forms],
                    "tokens": [self._token(piece) for piece in word.pieces],
                }
                for word in self.words
            ],
            "lines_read": self.lines_read,
            "notes": list(self.notes),
        }

    def _token(self, piece: TokenSenses) -> dict[str, Any]:
        return {
            "token": piece.name,
            "bytes": in_base64(self.spelled.get(piece.token, b"")),
            "id": piece.token,
            "uses": piece.uses,
            "senses": [
                {
                    "sense": one.number,
                    "size": one.size,
                    "raises": [list(moved) for moved in one.raises],
                    "lowers": [list(moved) for moved in one.lowers],
                    "nearest": [list(near) for near in one.nearest],
                    "share": one.share,
                    "examples": [use.document() for use in one.examples],
                }
                for one in piece.senses
            ],
        }

    def lines(self, width: int = 80) -> Iterator[str]:
        """For a terminal, no line wider than `width`, or 72 columns where it is less."""
        width = max(width, MIN_COLUMNS)
        for note in (*([f"senses {visible(self.patched)}"] if self.patches else []), *self.notes):
            yield from wrapped(f"note: {note}", width)
        for place, word in enumerate(self.words):
            if place or self.notes or self.patches:
                yield ""
            yield from self._word(word, width)

    def _word(self, word: WordSenses, width: int) -> Iterator[str]:
        called = isolated(cut(word.word, 40))
        if not word.whole:
            ways = [" ".join(isolated(visible(self.name(token))) for token in way) for way in word.spellings]
            cut_up = ", and without a space before it ".join(ways)
            text = f"{called} is no word of this vocabulary: it is spelled {cut_up}, and these have senses"
            yield from wrapped(text, width)
        for piece in word.pieces:
            name = called if word.whole else isolated(cut(piece.name, 40))
            used = ""
            if piece.uses is not None:
                read = f"{self.lines_read:,} line{'' if self.lines_read == 1 else 's'}"
                used = f", used {piece.uses:,} time{'' if piece.uses == 1 else 's'} in {read}"
            yield f"{name}: {len(piece.senses)} sense{'' if len(piece.senses) == 1 else 's'}{used}"
            if word.whole and word.other_forms:
                also = " ".join(isolated(visible(self.name(form))) for form in word.other_forms)
                yield from wrapped(f"(as {piece.name}, inside a line; there is also {also})", width, "  ")
            for sense in piece.senses:
                yield from self._sense(sense, width)

    def _sense(self, one: Sense, width: int) -> Iterator[str]:
        begin = f"  {one.number:>3}  "
        rows = [("raises", self._said(one.raises, width)), ("lowers", self._said(one.lowers, width))]
        if one.share is not None:
            rows.append(("in text", f"{100 * one.share:.0f} % of the weight that its senses have"))
        rows += [("e.g.", use.line(width - 16)) for use in one.examples]
        if one.nearest:
            near = (f"{isolated(visible(t))}#{sense} {cosine:.2f}" for t, sense, cosine in one.nearest)
            rows.append(("nearest", _filled(near, width - 16)))
        for number, (what, said) in enumerate(rows):
            head = f"{begin if not number else ' ' * len(begin)}{what:<7}  "
            for place, line in enumerate(said.split("\n")):
                yield (head if not place else " " * len(head)) + line

    def _said(self, listed: Sequence[MovedToken], width: int) -> str:
        """The words, then from which number to which their logits go."""
        if not listed:
            return "(nothing)"
        words = [isolated(visible(token)) for token, _ in listed]
        return _filled([*words, f"({listed[0][1]:+.1f} to {listed[-1][1]:+.1f})"], width - 16)


def _filled(words: Iterable[str], room: int) -> str:
    """Words one after the other, in lines of so many columns; one that is longer is cut."""
    lines = [""]
    for word in words:
        word = cut(word, room)
        if lines[-1] and cells(lines[-1]) + 2 + cells(word) > room:
            lines.append(word)
        else:
            lines[-1] += ("  " if lines[-1] else "") + word
    return "\n".join(lines)


@torch.no_grad()
def look_up_senses(
    model: Backpack,
    tokenizer: Tokenizer,
    words: Sequence[str],
    *,
    top: int = TOP_WORDS,
    nearest: int = 0,
    uses: Uses | None = None,
    examples: int = 2,
    patches: Sequence[str] = (),
) -> SensesText:
    """Look some words up: `top` words that each sense raises and lowers, and so many nearest senses.

    uses: of the words in a text (sense_uses.py), already read; examples: lines of it for each sense. patches: names of
    those that the model has on.
    """
    if top < 1:
        raise UserError(f"top is {top}", cure="ask for 1 word or more")
    if examples < 0:
        raise UserError(f"examples is {examples}", cure="ask for 0 lines or more")
    if not words:
        raise UserError("no word is given", cure="name a word or more: anaphora senses MODEL WORD…")
    asked, standing, notes, unsaid = [], set[int](), [], unsaid_tokens(tokenizer)
    for word in dict.fromkeys(words):
        known = tokens_of_word(tokenizer, word)
        ways = known.spellings  # of pieces: inside a line, and the other way where the text has it
        ways = ways if known.forms else (*ways[:1], *(way for way in ways[1:] if uses and uses.of(way).found))
        tokens = known.chief if known.forms else tuple(dict.fromkeys(token for way in ways for token in way))
        of = [None if known.forms else token for token in tokens]  # a word's uses are those of all its tokens
        own = [None if uses is None else uses.of(*ways, token=token) for token in of]
        pieces = [_look_up(model, token, top, nearest, used, unsaid) for token, used in zip(tokens, own)]
        asked.append((word, known, ways, pieces))
        if uses is not None and not any(used and used.number for used in own):
            notes.append(f"the text does not hold {word!r}")
        standing |= {*known.all, *(token for piece in pieces for token in piece.tokens())}
    if uses is not None and uses.cut_lines:
        many = f"{uses.cut_lines:,} line{' that holds' if uses.cut_lines == 1 else 's that hold'} them"
        notes.append(
            f"{many} went on after the {model.max_length:,} tokens that the model reads: the rest was left out"
        )
    read = None if uses is None else uses.lines
    spelled = {token: tokenizer.token_bytes(token) for token in standing}
    names = _names(tokenizer, standing)
    found = tuple(
        WordSenses(
            word,
            tuple(piece.named(names, examples) for piece in pieces),
            bool(known.forms),
            known.forms[1:],
            () if known.forms else ways,
        )
        for word, known, ways, pieces in asked
    )
    return SensesText(found, names, tuple(notes), read, tuple(patches), spelled)


def chief_tokens(tokenizer: Tokenizer, words: Sequence[str]) -> list[WordTokens]:
    """The tokens of each word, which must be known or spelled."""
    return [tokens_of_word(tokenizer, word) for word in dict.fromkeys(words)]


def _names(tokenizer: Tokenizer, tokens: Iterable[int]) -> dict[int, str]:
    """Tokens as lists show them: what begins no word says so, instead of every word its space."""
    names = {token: token_name(tokenizer, token) for token in tokens}
    if tokenizer.kind in ("bpe", "unigram", "word"):
        names |= {token: f"·{name}" for token, name in names.items() if _inner(tokenizer, token, name)}
    return told_apart(tokenizer, {token: _bare(name) for token, name in names.items()})


def _inner(tokenizer: Tokenizer, token: int, name: str) -> bool:
    return name[:1].isalnum() and not tokenizer.token_bytes(token).startswith(b" ")


def _bare(name: str) -> str:
    """Without the space of a word; white space itself stays."""
    return name if name[1:2] in ("", "␣") else name.removeprefix("␣")


@dataclass(frozen=True)
class _LookedUp:
    """The senses of one token, by ids: names are told apart when all of them are known."""

    token: int
    sizes: list[float]
    raises: list[list[tuple[int, float]]]
    lowers: list[list[tuple[int, float]]]
    nearest: list[list[tuple[int, int, float]]]
    own: TokenUses | None

    def tokens(self) -> Iterator[int]:
        yield self.token
        for moved in (*self.raises, *self.lowers):
            yield from (token for token, _ in moved)
        for near in self.nearest:
            yield from (token for token, _, _ in near)

    def named(self, names: Mapping[int, str], examples: int) -> TokenSenses:
        own = self.own
        senses = (
            Sense(
                number=place,
                size=size,
                raises=tuple(MovedToken(names[token], value) for token, value in self.raises[place]),
                lowers=tuple(MovedToken(names[token], value) for token, value in self.lowers[place]),
                nearest=tuple(NearSense(names[token], sense, value) for token, sense, value in self.nearest[place]),
                share=None if own is None else own.share(place),
                examples=() if own is None else own.examples(place, examples),
            )
            for place, size in enumerate(self.sizes)
        )
        return TokenSenses(self.token, names[self.token], tuple(senses), None if own is None else own.number)


def _look_up(
    model: Backpack, token: int, top: int, nearest: int, own: TokenUses | None, unsaid: Sequence[int]
) -> _LookedUp:
    vectors = model.sense_vectors(torch.tensor([token], device=model.device))[0].float()  # (k, d)
    said = vectors @ model.vocabulary_matrix.float().T  # (k, V)
    there = torch.ones(said.shape[1], dtype=torch.bool, device=said.device)
    there[list(unsaid)] = False
    number = min(top, int(there.sum()))
    high = said.masked_fill(~there, -torch.inf).topk(number, dim=1)
    low = said.masked_fill(~there, torch.inf).topk(number, dim=1, largest=False)
    near = nearest_senses(model, vectors, nearest, without=(token, *unsaid)) if nearest else [[] for _ in vectors]
    sizes = vectors.norm(dim=1).tolist()  # one that a patch removed is 0, raises nothing and is like nothing

    def listed(best: torch.return_types.topk) -> list[list[tuple[int, float]]]:
        rows = zip(sizes, best.indices.tolist(), best.values.tolist())
        return [list(zip(tokens, values)) if size else [] for size, tokens, values in rows]

    near = [row if size else [] for size, row in zip(sizes, near)]
    return _LookedUp(token, sizes, listed(high), listed(low), near, own)


@torch.no_grad()
def nearest_senses(
    model: Backpack, vectors: Tensor, number: int, *, without: Sequence[int] = NEVER, at_once: int | None = None
) -> list[list[tuple[int, int, float]]]:
    """The nearest of all sense vectors of the vocabulary to each of some, by cosine: (n, d) -> n lists of (token,
    sense, cosine), the nearest first.

    The V · k vectors are formed `at_once` tokens at a time, and only the best so far are kept: V · k · d numbers are
    never there together. without: tokens whose senses do not count.
    """
    queries = torch.nn.functional.normalize(vectors.float(), dim=-1)  # (n, d)
    senses, dim, size = model.senses_count, model.dim, model.vocabulary
    at_once = at_once or max(1, MAX_SENSE_NUMBERS // (senses * max(dim, len(queries))))
    best = queries.new_full((len(queries), 0), 0.0)
    places = torch.zeros((len(queries), 0), dtype=torch.long, device=queries.device)
    for begin in range(0, size, at_once):
        ids = torch.arange(begin, min(begin + at_once, size), device=queries.device)
        table = torch.nn.functional.normalize(model.sense_vectors(ids).float(), dim=-1)  # (n, k, d)
        near = queries @ table.flatten(0, 1).T  # (queries, n · k)
        hidden = torch.isin(ids, torch.tensor(list(without), device=ids.device))
        near.masked_fill_(hidden.repeat_interleave(senses), -torch.inf)
        own = torch.arange(begin * senses, begin * senses + near.shape[1], device=ids.device).expand_as(near)
        best, places = torch.cat([best, near], dim=1), torch.cat([places, own], dim=1)
        kept = best.topk(min(number, best.shape[1]), dim=1)
        best, places = kept.values, places.gather(1, kept.indices)
    return [
        [(place // senses, place % senses, value) for place, value in zip(row, values) if value > -torch.inf]
        for row, values in zip(places.tolist(), best.tolist())
    ]
