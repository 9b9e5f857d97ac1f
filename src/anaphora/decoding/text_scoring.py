"""Scoring text with a language model: raw lines in, log-probabilities out, by the contract alone.

What a line *is* to a model is stated by two settings of its data, and everybody who counts or scores obeys them:

    boundaries  lines    every line is a text of its own: ⟨s⟩ w … ⟨/s⟩
                stream   one text: ⟨s⟩ once at its beginning, ⟨/s⟩ after every line, and contexts cross the line ends
    blank_lines keep     a blank line is a line: ⟨/s⟩ alone
                drop     it is left out, neither token nor byte

⟨/s⟩ is predicted like a word and counts as a token; ⟨s⟩ is given. A row that is longer than a model can read (its
*context*) is read through a window that moves on by a *stride*: each token is scored once, in the first window that
reaches it, and is predicted from at least context - stride others, as far as the row has them; ⟨s⟩ stands in front of
every window. A smaller stride gives longer contexts and takes longer; a stride of the whole context is cutting into
pieces. Results say it. Models that read on for as long as they like (n-grams, recurrent ones) need no window.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.evaluation.bits_per_byte import bits_per_byte, note_on, perplexity, text_bytes
from anaphora.results import brief, count, figure, html_table, token_table
from anaphora.tokenizers.token_names import token_name
from anaphora.tokenizers.tokenizer import BLANKS, EOS, UNK, Tokenizer

if TYPE_CHECKING:  # a counting model needs no torch
    from anaphora.evaluation.significance import PairedBootstrap
    from anaphora.models.contracts import LanguageModel

Boundaries = Literal["lines", "stream"]
BlankLines = Literal["keep", "drop"]
Ids = tuple[NDArray[np.uint32], NDArray[np.int64]]
Encoder = Callable[[Sequence[str]], Ids]
"""Lines -> their ids one after the other, each line w … ⟨/s⟩, and where each begins (and the last one ends)."""
Progress = Callable[[int], None]

WINDOW_LINES = 8192
"""Lines scored at once."""
WINDOW_TOKENS = 1 << 22
"""Tokens, those that windows share counted again, that are laid out at once."""
PSEUDO = (
    "a masked model guesses each token from all others: these are of its pseudo-likelihood, which compares texts under "
    "this model, not this model with one that reads from left to right"
)


@dataclass
class ScoredLine:
    """How probable a language model finds one line."""

    text: str
    """The line, without its end."""
    tokens: list[str]
    """As people see them (tokenizers/token_names.py), ⟨/s⟩ included; none for a blank line that is left out."""
    token_ids: list[int]
    """⟨/s⟩ included."""
    token_scores: list[float]
    """log P of each, natural."""
    orders: list[int] | None
    """Of the n-gram that answered for each token, where the model can say so; 0: none did."""
    log_probability: float
    """log P of the line, natural."""
    unknown: int = 0
    """How many of the tokens are ⟨unk⟩."""
    unknown_words: list[str] = field(default_factory=list)
    """What stands in the text where they are."""

    def __repr__(self) -> str:
        log = f"log P {figure(self.log_probability)}, {count(len(self.tokens), 'token')}"
        return brief("ScoredLine", self.text, log, f"{self.unknown} unknown" if self.unknown else "")

    def _repr_html_(self) -> str:
        return token_table(list(zip(self.tokens, self.token_scores)), caption=self.text)

    @property
    def perplexity(self) -> float:
        """e^(-log_probability / tokens)."""
        return perplexity(self.log_probability, len(self.tokens))


@dataclass
class TextEvaluation:
    """How well a model predicts a text."""

    lines: int
    """That were scored."""
    dropped_lines: int
    """Blank lines that were left out (blank_lines: drop)."""
    tokens: int
    """Predicted: words, or whatever the tokenizer makes, and the end mark of each line."""
    unknown_tokens: int
    """How many tokens are ⟨unk⟩."""
    bytes: int
    """Of the text in UTF-8, the newline of each line included."""
    log_probability: float
    """Natural, of the whole text."""
    perplexity: float
    """e^(-log_probability / tokens)."""
    perplexity_known: float
    """Without the unknown tokens: what is left when they are neither predicted nor counted (they stay as context)."""
    bits_per_byte: float
    """Bits that the model needs for a byte of the text: comparable between vocabularies."""
    impossible_tokens: int
    """Tokens that have probability 0, so that the text has: only where a model does not smooth."""
    cut_rows: int
    """Rows that were too long for the model and read through a moving window."""
    boundaries: Boundaries
    """Whether each line is a text of its own, or all lines are one."""
    blank_lines: BlankLines
    """Whether blank lines count."""
    seconds: float
    """That scoring took."""
    tokens_per_second: float
    """Scored."""
    note: str | None
    """What must be known to read the numbers."""
    context: int | None = None
    """Tokens that the model scored at once, at the most, where it can read only so many."""
    stride: int | None = None
    """By how many the window moved over rows longer than that; None where none was."""
    significance: PairedBootstrap | None = None
    """How it compares with another model on the same lines, where asked for."""
    beside: TextEvaluation | None = None
    """How that one does."""

    def __repr__(self) -> str:
        said = [f"perplexity {figure(self.perplexity)}", f"{figure(self.bits_per_byte, '.4f')} bits/byte"]
        said += [count(self.tokens, "token")]
        if self.beside is not None and self.significance is not None:
            said += [f"beside: {figure(self.beside.bits_per_byte, '.4f')} bits/byte"]
            said += [f"p {one.p:.3g}" for one in self.significance.scores[:1]]
        return brief("TextEvaluation", None, *said)

    def __str__(self) -> str:
        return "\n".join([*self.report(), *([f"note: {self.note}"] if self.note else [])])

    def report(self, names: Sequence[str] = ("first", "second"), *, log10: bool = False) -> Iterator[str]:
        """The numbers, and how two models compare where there are two; names: theirs. log10: log P as KenLM has it."""
        yield f"perplexity     {self.perplexity:.3f}  ({count(self.tokens, 'token')}, end marks included)"
        if self.unknown_tokens:
            known = count(self.tokens - self.unknown_tokens, "token")
            yield f"  of known     {self.perplexity_known:.3f}  ({known} that are not unknown)"
        size = count(self.bytes, "byte")
        yield f"bits per byte  {self.bits_per_byte:.4f}  ({size}, newlines included)"
        log = self.log_probability / (math.log(10) if log10 else 1.0)
        yield f"log P          {log:.3f}  ({'to the base 10' if log10 else 'natural logarithm'}, of the whole text)"
        read = "each line by itself" if self.boundaries == "lines" else "read as one text"
        blank = "kept" if self.blank_lines == "keep" else f"left out ({self.dropped_lines:,})"
        yield f"{count(self.lines, 'line')}, {read}, blank lines {blank}"
        if self.stride is not None:
            rows = count(self.cut_rows, "longer row")
            yield f"window of {self.context:,} tokens, moved by {self.stride:,}, over {rows}"
        yield f"{self.tokens_per_second:,.0f} tokens/s"
        if self.significance is not None:
            yield from self.significance.table(names)

    def _repr_html_(self) -> str:
        rows = [
            ("perplexity", figure(self.perplexity, ".3f")),
            ("bits per byte", figure(self.bits_per_byte, ".4f")),
            ("lines", f"{self.lines:,}"),
            ("tokens", f"{self.tokens:,}"),
            ("of them unknown", f"{self.unknown_tokens:,}"),
            ("bytes", f"{self.bytes:,}"),
        ]
        table = html_table((), rows, caption=self.note or "")
        return table + ("" if self.significance is None else self.significance._repr_html_())

    def document(self) -> dict[str, Any]:
        """As JSON can hold it; what compares it with another model only where there is one."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("significance", "beside")}
        if self.significance is None or self.beside is None:
            return plain
        return {**plain, "significance": self.significance.document(), "beside": self.beside.document()}


def line_encoder(tokenizer: Tokenizer) -> Encoder:
    """The quickest way to the ids of lines: words between blanks are looked up by compiled code."""
    if tokenizer.split == "blanks":
        from anaphora.data.word_ids import WordIds
        from anaphora.tokenizers.word_tokenizer import WordTokenizer

        words = tokenizer.words if isinstance(tokenizer, WordTokenizer) else WordIds.of(tokenizer)
        return _WordEncoder(words.ids_of_lines)

    def encode(lines: Sequence[str]) -> Ids:
        ids, starts = tokenizer.encode_flat([plain(line) for line in lines])
        return np.insert(ids, starts[1:], EOS), starts + np.arange(len(starts))

    return encode


class _WordEncoder:
    """`ids_of_lines` for any strings: what has no UTF-8, or a newline inside, is mended first; hardly any line has."""

    def __init__(self, ids_of_lines: Callable[[Sequence[str]], Ids]) -> None:
        self.ids_of_lines = ids_of_lines

    def __call__(self, lines: Sequence[str]) -> Ids:
        try:
            ids, starts = self.ids_of_lines(lines)
            if len(starts) - 1 == len(lines):
                return ids, starts
        except UnicodeEncodeError:
            pass
        return self.ids_of_lines([plain(line) for line in lines])


def plain(line: str) -> str:
    """Without its line end; a newline inside becomes a space, what is no character U+FFFD."""
    line = line.removesuffix("\n").removesuffix("\r").replace("\n", " ")
    return line.encode("utf-8", "replace").decode() if not line.isascii() and _has_surrogates(line) else line


def _has_surrogates(line: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in line)


def is_blank(line: str) -> bool:
    return not line.strip(BLANKS)


def sums(scores: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """log P of each row; every row has at least its end mark."""
    if len(starts) == 1:
        return np.zeros(0)
    return np.add.reduceat(scores, starts[:-1], dtype=np.float64)


class Windows(NamedTuple):
    """Stretches of text that a model reads one by one: window i is [begin, end), and scores from `first` on."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    first: NDArray[np.int64]
    cut: int
    """Rows that needed more than one."""


def windows_for(starts: NDArray[np.int64], longest: int, stride: int) -> Windows:
    """Windows of at most `longest` tokens over rows that begin at `starts`, each moved by at most `stride`.

    Every window of a longer row is full: the last one moves by what is left.
    """
    sizes = np.diff(starts)
    many = 1 + np.maximum(0, -(-(sizes - longest) // stride))  # windows of each row
    row = np.repeat(np.arange(len(sizes)), many)
    number = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)  # of the window within its row
    end = np.minimum(starts[row] + longest + number * stride, starts[row + 1])
    begin = np.maximum(starts[row], end - longest)
    first = np.where(number == 0, starts[row], np.concatenate(([0], end[:-1]))) if len(row) else end
    return Windows(begin, end, first, int((many > 1).sum()))


def context_of(model: LanguageModel, context: int | None = None, stride: int | None = None) -> tuple[int, int] | None:
    """How many tokens a model scores at once, and by how many it moves on; None where it can read any length.

    Nothing given: all that it can read, moved by half. Of a row of T tokens ⟨s⟩ w₁ … w_{T-1} are read; only a masked
    model reads w_T too."""
    if model.max_length is None and context is None:
        if stride is not None:
            raise UserError(
                "a stride moves the window of a model that can read only so much, and this one reads on without end",
                cure="leave it out",
            )
        return None
    room = None if model.max_length is None else model.max_length - ("masked" in model.capabilities)
    context = min(one for one in (context, room) if one is not None)
    if context < 1:
        raise UserError(f"a context of {context} tokens is none", cure="make it 1 or more")
    stride = max(1, context // 2) if stride is None else stride
    if not 1 <= stride <= context:
        raise UserError(f"a stride of {stride} does not fit a context of {context}", cure=f"make it 1 to {context}")
    return context, stride


def check_ids(ids: NDArray[Any], vocabulary: int) -> None:
    """Refuse numbers that are no token's."""
    if ids.size and not 0 <= ids.min() <= ids.max() < vocabulary:
        wrong = next(id for id in ids.tolist() if not 0 <= id < vocabulary)
        raise UserError(
            f"there is no token {wrong}: the model has {vocabulary:,}", cure="give ids that `tokenize` makes"
        )


def score_ids(
    model: LanguageModel,
    ids: NDArray[np.uint32],
    starts: NDArray[np.int64],
    boundaries: Boundaries = "lines",
    *,
    context: int | None = None,
    stride: int | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.uint8] | None, int]:
    """log P of each token, the order that answered where the model tells, and how many rows needed several windows."""
    rows = starts[[0, -1]] if boundaries == "stream" and len(starts) > 1 else starts
    reach = context_of(model, context, stride)
    if reach is not None and len(rows) > 1 and np.diff(rows).max() > reach[0]:
        windows = windows_for(rows, *reach)
        return _score_windows(model, ids, windows), None, windows.cut
    if "explains" in model.capabilities and hasattr(model, "score_flat_orders"):
        return *model.score_flat_orders(ids, rows), 0
    return model.score_flat(ids, rows), None, 0


def _score_windows(model: LanguageModel, ids: NDArray[np.uint32], windows: Windows) -> NDArray[np.float32]:
    """Windows are laid end to end, some at a time: with a small stride they are many times the text."""
    found = np.zeros(len(ids), np.float32)
    sizes = windows.end - windows.begin
    part = np.cumsum(sizes) // WINDOW_TOKENS
    for some in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(part)) + 1):
        starts = np.concatenate(([0], np.cumsum(sizes[some])))
        where = np.arange(starts[-1]) + np.repeat(windows.begin[some] - starts[:-1], sizes[some])
        scores = model.score_flat(ids[where], starts)
        new = where >= np.repeat(windows.first[some], sizes[some])
        found[where[new]] = scores[new]
    return found


def score_lines(
    model: LanguageModel,
    tokenizer: Tokenizer,
    encode: Encoder,
    lines: Iterable[str],
    *,
    boundaries: Boundaries = "lines",
    blank_lines: BlankLines = "keep",
    context: int | None = None,
    stride: int | None = None,
    progress: Progress | None = None,
    window: int = WINDOW_LINES,
) -> Iterator[ScoredLine]:
    """One object a line, lazily and in order; a stream is one text and is read to its end before the first answer."""
    lines = iter(lines)
    while block := list(lines if boundaries == "stream" else islice(lines, window)):
        kept = [line for line in block if blank_lines == "keep" or not is_blank(line)]
        ids, starts = encode(kept)
        scores, orders, _ = score_ids(model, ids, starts, boundaries, context=context, stride=stride)
        totals = iter(sums(scores, starts).tolist())
        place = 0
        for line in block:
            shown = plain(line)
            if blank_lines == "drop" and is_blank(line):
                yield ScoredLine(shown, [], [], [], None if orders is None else [], 0.0)
            else:
                here = slice(int(starts[place]), int(starts[place + 1]))
                place += 1
                own = ids[here].tolist()
                by = None if orders is None else orders[here].tolist()
                said = scores[here].tolist()
                lacking = _unknown_words(tokenizer, shown, own) if UNK in own else []
                tokens = [token_name(tokenizer, id) for id in own]
                yield ScoredLine(shown, tokens, own, said, by, next(totals), len(lacking), lacking)
        if progress is not None:
            progress(len(block))


def _unknown_words(tokenizer: Tokenizer, line: str, ids: list[int]) -> list[str]:
    return [piece.strip(" ") or piece for piece, id in zip(tokenizer.pieces(line), ids) if id == UNK]


def evaluate_lines(
    model: LanguageModel,
    encode: Encoder,
    lines: Iterable[str],
    *,
    boundaries: Boundaries = "lines",
    blank_lines: BlankLines = "keep",
    context: int | None = None,
    stride: int | None = None,
    progress: Progress | None = None,
    window: int = 16 * WINDOW_LINES,
) -> TextEvaluation:
    """Perplexity, bits per byte and speed over a whole text; only its ids are ever in memory at once, if that."""
    count = dropped = size = 0
    lines = iter(lines)
    encode([""])  # loaded before it is timed

    def encoded() -> Iterator[Ids]:
        nonlocal count, dropped, size
        while block := list(islice(lines, window)):
            kept = block if blank_lines == "keep" else [line for line in block if not is_blank(line)]
            count, dropped = count + len(kept), dropped + len(block) - len(kept)
            size += text_bytes(plain(line) for line in kept)
            yield encode(kept)
            if progress is not None:
                progress(len(block))

    how: dict[str, Any] = {"boundaries": boundaries, "blank_lines": blank_lines, "context": context, "stride": stride}
    found = evaluate_ids(model, encoded(), lines=0, dropped=0, size=0, **how)
    if not count:
        raise UserError("there is no text to evaluate", cure="give a text with at least one line")
    bits = bits_per_byte(found.log_probability, size)
    return replace(found, lines=count, dropped_lines=dropped, bytes=size, bits_per_byte=bits)


def _scored(
    model: LanguageModel, parts: Iterable[Ids], boundaries: Boundaries, context: int | None, stride: int | None
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.float32], int]]:
    """Ids of each part, log P of each of them, and how many rows were cut. A stream is one row: a model that can go on
    where it stopped (`score_on`) has it in its parts, any other one as a whole."""
    if boundaries == "stream" and hasattr(model, "score_on"):
        state = None
        for ids, _ in parts:
            scores, state = model.score_on(ids, state)
            yield ids, scores, 0
        return
    if boundaries == "stream":
        whole = np.concatenate([np.zeros(0, np.uint32), *(ids for ids, _ in parts)])
        parts = [(whole, np.array([0, len(whole)]))] if len(whole) else []
    for ids, starts in parts:
        scores, _, cut = score_ids(model, ids, starts, boundaries, context=context, stride=stride)
        yield ids, scores, cut


def evaluate_ids(
    model: LanguageModel,
    parts: Iterable[Ids],
    *,
    lines: int,
    dropped: int,
    size: int,
    boundaries: Boundaries = "lines",
    blank_lines: BlankLines = "keep",
    context: int | None = None,
    stride: int | None = None,
) -> TextEvaluation:
    """The same of a text that is ids already, in parts of whole rows w … ⟨/s⟩; its lines and bytes are counted."""
    tokens = unknown = impossible = cut = 0
    totals: list[float] = []  # of each part, in float64
    known_totals: list[float] = []
    reach = context_of(model, context, stride)
    score_ids(model, np.array([EOS], np.uint32), np.array([0, 1]))  # loaded before it is timed
    began = time.perf_counter()
    for ids, scores, more in _scored(model, parts, boundaries, context, stride):
        lost, strange = np.isneginf(scores), ids == UNK
        tokens, cut = tokens + len(ids), cut + more
        unknown, impossible = unknown + int(strange.sum()), impossible + int(lost.sum())
        totals.append(float(scores.sum(dtype=np.float64)))
        known_totals.append(float(scores[~strange].sum(dtype=np.float64)))
    seconds = time.perf_counter() - began
    total, known = math.fsum(totals), math.fsum(known_totals)
    said = note_on(unknown, tokens, normalized="normalised" in model.capabilities)
    notes = [said, PSEUDO if "masked" in model.capabilities else None]
    return TextEvaluation(
        lines=lines,
        dropped_lines=dropped,
        tokens=tokens,
        unknown_tokens=unknown,
        bytes=size,
        log_probability=total,
        perplexity=perplexity(total, tokens),
        perplexity_known=perplexity(known, tokens - unknown),
        bits_per_byte=bits_per_byte(total, size),
        impossible_tokens=impossible,
        cut_rows=cut,
        boundaries=boundaries,
        blank_lines=blank_lines,
        seconds=seconds,
        tokens_per_second=tokens / seconds if seconds else math.inf,
        note=" · ".join(filter(None, notes)) or None,
        context=None if reach is None else reach[0],
        stride=None if reach is None or not cut else reach[1],
    )
