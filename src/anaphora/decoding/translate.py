"""Raw text in, objects out: translating and scoring streams of lines.

    lines -> windows of a few thousand -> tokens -> split what is too long -> batches of like length -> search
          -> put pieces together -> one object a line, in order

N lines in, N objects out, whatever the lines hold. An empty line is an empty translation and the model is not asked; a
line longer than the model can read is translated in pieces and says so (`pieces`). A translation is one line: every
character at which `str.splitlines` breaks (newline, carriage return, U+2028 …) becomes a space. What a line gives does
not depend on the lines around it. Only one window is in memory, so an endless stream can be translated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anaphora.decoding.beam_search import Hypothesis, evaluating, length_penalty, search
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.line_breaks import clean, one_line
from anaphora.decoding.pair_scoring import score
from anaphora.decoding.spelling import Listener, Spelling, text_until_stop
from anaphora.decoding.splitting import parts_of, sentences
from anaphora.errors import UserError
from anaphora.models.contracts import Translator
from anaphora.results import brief, count, figure, html_table, token_table
from anaphora.tokenizers.token_names import shown_token
from anaphora.tokenizers.tokenizer import EOS, PAD, UNK, Tokenizer
from anaphora.tokenizers.words import Word

if TYPE_CHECKING:
    from anaphora.alignment.model_alignment import Alignment
    from anaphora.decoding.unfinished_translation import Unfinished

WINDOW_LINES = 4096
"""Lines read before any is translated: enough to fill batches with lines of like length."""
MAX_PIECES = 1 << 20
"""Pieces a line may have before two of them could share the noise of sampling."""
UNKNOWN_WORD = "\ue000"  # for private use: no text has it

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Replacement:
    """A word that stands in a translation where the model said that it has none (alignment/unknown_words.py)."""

    token: int
    """In the place of which token, from 0, over all pieces of the line."""
    start: int
    end: int
    """Where it stands: `text[start:end] == word`."""
    word: str
    by: str
    """dictionary, copy, or prefix: it was forced, and is what it was."""
    source: Word | None
    """The source word that it was made from, and where that stands; none for one that was forced."""
    weight: float
    """How much of the unknown word's alignment was on that source word."""


@dataclass
class Candidate:
    """One translation of a line; for a line in pieces, its pieces' candidates of the same rank joined by spaces."""

    text: str
    """The translation."""
    score: float
    """log_probability / length penalty (and coverage, for a line in one piece): candidates are ranked by it. By minimum
    Bayes risk, the expected utility, 0 to 1, instead; for a line in pieces, their mean."""
    log_probability: float
    """log P(translation | source), natural, end marks included."""
    token_scores: list[tuple[str, float]]
    """Each token as people see it (␣Ufer), with its log-probability; end marks included."""
    finished: bool
    """Whether it ended by itself (every piece of it), instead of being cut off at the length limit."""
    token_ids: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """For each piece, what the model read and what it said, without marks."""
    alignment: Alignment | None = None
    """Which source words each word came from, where asked for."""
    replaced: list[Replacement] = field(default_factory=list)
    """Words in the place of unknown ones, in order."""
    token_bytes: list[bytes] = field(default_factory=list)
    """What each of `token_scores` spells, in UTF-8; none for a mark."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return brief("Candidate", self.text, f"score {figure(self.score)}", "" if self.finished else "cut off")


@dataclass
class Translation:
    """What became of one line: its best candidate, and the others."""

    source: str
    """The line as given, without its line end."""
    text: str
    """The translation."""
    score: float
    """What candidates are ranked by; see `Candidate`."""
    log_probability: float
    """log P(translation | source), natural, end marks included."""
    token_scores: list[tuple[str, float]]
    """Each token with its log-probability, end marks included."""
    finished: bool
    """Whether it ended by itself, instead of being cut off at the length limit."""
    n_best: list[Candidate]
    """Best first; the first is the translation itself."""
    pieces: int = 1
    """In how many pieces the line was translated: more than one if it was too long, or of several sentences."""
    token_ids: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """For each piece, what the model read and said in the best candidate, without marks; none of a blank line."""
    alignment: Alignment | None = None
    """Which source words each word came from, where asked for (`align=True`)."""
    replaced: list[Replacement] = field(default_factory=list)
    """Words in the place of unknown ones, in the best candidate, in order."""
    prefix: str = ""
    """What it had to begin with."""
    token_bytes: list[bytes] = field(default_factory=list)
    """What each of `token_scores` spells, in UTF-8; none for a mark."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        others = f"{len(self.n_best)} candidates" if len(self.n_best) > 1 else ""
        pieces = f"{self.pieces} pieces" if self.pieces > 1 else ""
        log = f"log P {figure(self.log_probability)}, {count(len(self.token_scores), 'token')}"
        return brief("Translation", self.text, log, others, pieces, "" if self.finished else "cut off")

    def _repr_html_(self) -> str:
        table = token_table(self.token_scores, caption=f"{self.source} → {self.text}")
        if len(self.n_best) > 1:
            best = [(one.text, figure(one.score, ".4f")) for one in self.n_best]
            table += html_table(("candidate", "score"), best)
        return table


@dataclass
class ScoredPair:
    """How probable the model finds a given translation."""

    source: str
    """As given, without its line end."""
    target: str
    """The translation, as given."""
    log_probability: float
    """log P(target, end mark | source); NaN if the pair could not be scored."""
    token_scores: list[tuple[str, float]]
    """Each target token and the end mark, with its log-probability."""
    problem: str | None = None
    """Why the pair could not be scored: a side longer than the model can take. Never cut silently."""
    token_bytes: list[bytes] = field(default_factory=list)
    """What each of them spells, in UTF-8; none for a mark."""

    def __repr__(self) -> str:
        log = self.problem or f"log P {figure(self.log_probability)}, perplexity {figure(self.perplexity)}"
        return brief("ScoredPair", self.target, log)

    def _repr_html_(self) -> str:
        return token_table(self.token_scores, caption=f"{self.source} → {self.target} {self.problem or ''}")

    @property
    def per_token(self) -> float:
        """Mean log-probability of a token, the end mark included."""
        return self.log_probability / len(self.token_scores) if self.token_scores else math.nan

    @property
    def perplexity(self) -> float:
        """e^-per_token: among how many equally likely tokens the model seemed to choose, on average."""
        mean = -self.per_token
        return math.exp(mean) if not mean > 700 else math.inf  # a NaN passes through


@dataclass
class _Piece:
    """A line, or part of one: what one place of a batch holds."""

    line: int  # within the window
    part: int
    ids: list[int]
    prefix: list[int]
    hypotheses: list[Hypothesis] = field(default_factory=list)


def translate_lines(
    model: Translator,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    lines: Iterable[str],
    config: DecodingConfig,
    *,
    device: torch.device | str = "cpu",
    prefixes: Iterable[str] | None = None,
    progress: Progress | None = None,
    window: int = WINDOW_LINES,
    unfinished: Unfinished | None = None,
) -> Iterator[Translation]:
    """Translate lines, lazily and in order: one `Translation` for each.

    prefixes: for each line the text its translation must begin with ("" for none). progress: called with the number of
    lines that have just been translated. window: lines read ahead; 1 answers each line before the next is read.
    unfinished: remembers what was found, and what was found before is not searched for again.
    """
    limit = min(config.max_source_tokens or model.max_source_length, model.max_source_length) - 1  # room for EOS
    lines, starts, first = iter(lines), None if prefixes is None else iter(prefixes), 0
    while block := list(islice(lines, window)):
        forced = [""] * len(block) if starts is None else list(islice(starts, len(block)))
        if len(forced) < len(block):
            raise UserError(
                f"line {first + len(forced) + 1} has no prefix", cure="give an empty one for each such line"
            )
        pieces = _pieces(
            block, forced, source_tokenizer, target_tokenizer, limit, by_sentence=config.split_sentences == "always"
        )
        for piece in pieces:
            if len(piece.prefix) >= model.max_target_length:
                raise UserError(
                    f"the prefix of line {first + piece.line + 1} has {len(piece.prefix)} tokens; the model can say "
                    f"{model.max_target_length - 1}",
                    cure="shorten it",
                )
        waiting = [0] * len(block)  # pieces of each line still to be translated
        for piece in pieces:
            waiting[piece.line] += 1
        if unfinished is not None:
            unfinished.lines += waiting.count(0)
        _report(progress, waiting.count(0))
        for places in token_batches([len(p.ids) + 1 for p in pieces], config.batch_tokens, config.batch_sentences):
            batch = [pieces[place] for place in places]
            numbers = [(first + piece.line) * MAX_PIECES + piece.part for piece in batch]
            asked = "" if unfinished is None else unfinished.name([[p.ids, p.prefix] for p in batch], numbers)
            found = None if unfinished is None else unfinished.recall(asked)
            kept = found is not None
            if found is None:
                found = _search(model, batch, numbers, target_tokenizer, config, device)
            completed = 0
            for piece, piece.hypotheses in zip(batch, found):
                waiting[piece.line] -= 1
                completed += waiting[piece.line] == 0
            if unfinished is not None and not kept:
                unfinished.keep(asked, found, completed)
            _report(progress, completed)
        yield from _join(block, forced, pieces, target_tokenizer, config)
        first += len(block)


def _search(
    model: Translator,
    batch: Sequence[_Piece],
    numbers: Sequence[int],
    tokenizer: Tokenizer,
    config: DecodingConfig,
    device: torch.device | str,
) -> list[list[Hypothesis]]:
    """What the model says of each piece; `numbers` name them, for the noise of sampling."""
    source, lengths = pad([[*piece.ids, EOS] for piece in batch], device)
    how: dict[str, Any] = {
        "prefix": [piece.prefix for piece in batch],
        "sentence_ids": numbers,
        "listeners": [Listener(Spelling(tokenizer, piece.prefix), config.stop) for piece in batch]
        if config.stop
        else None,
    }
    if config.mbr is None:
        return search(model, source, lengths, config, **how)
    from anaphora.decoding.bayes_risk import search_by_risk  # needs a compiler: only for who wants it

    return search_by_risk(model, source, lengths, config, spell=_speller(batch, tokenizer, config), **how)


def score_lines(
    model: Translator,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    pairs: Iterable[tuple[str, str]],
    config: DecodingConfig,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    window: int = WINDOW_LINES,
) -> Iterator[ScoredPair]:
    """Score pairs of (source, translation), lazily and in order: one `ScoredPair` for each."""
    pairs = iter(pairs)
    while block := [(clean(source), clean(target)) for source, target in islice(pairs, window)]:
        sources = source_tokenizer.encode_batch([one_line(source) for source, _ in block])
        targets = target_tokenizer.encode_batch([one_line(target) for _, target in block])
        results = [ScoredPair(source, target, math.nan, []) for source, target in block]
        for result, source, target in zip(results, sources, targets):
            result.problem = _too_long(model, len(source) + 1, len(target) + 1)
        able = [place for place, result in enumerate(results) if result.problem is None]
        _report(progress, len(block) - len(able))
        sizes = [max(len(sources[place]), len(targets[place])) + 1 for place in able]
        for places in token_batches(sizes, config.batch_tokens, config.batch_sentences):
            batch = [able[place] for place in places]
            source_ids, source_lengths = pad([[*sources[place], EOS] for place in batch], device)
            target_ids, target_lengths = pad([[*targets[place], EOS] for place in batch], device)
            with torch.no_grad(), evaluating(model):
                scores = score(model, source_ids, source_lengths, target_ids, target_lengths)
            for place, row in zip(batch, scores.log_probabilities.tolist()):
                tokens = [*targets[place], EOS]
                names, results[place].token_bytes = _shown(tokens, target_tokenizer)
                results[place].token_scores = list(zip(names, row))
                results[place].log_probability = math.fsum(row[: len(tokens)])
            _report(progress, len(batch))
        yield from results


def token_batches(lengths: Sequence[int], tokens: int, sentences: int) -> Iterator[list[int]]:
    """Places of `lengths`, grouped: a batch has at most `tokens` tokens when padded, and at most `sentences` rows.

    Longest first: what is too much for the memory shows at once. A sentence longer than `tokens` is a batch by itself.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])  # stable
    start = 0
    while start < len(order):
        rows = max(1, min(sentences, tokens // lengths[order[start]]))
        yield order[start : start + rows]
        start += rows


def pad(rows: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Lists of ids -> (B, longest), lengths (B,)."""
    longest = max(len(row) for row in rows)
    padded = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)
    return padded.to(device), torch.tensor([len(row) for row in rows], device=device)


def _pieces(
    lines: Sequence[str],
    prefixes: Sequence[str],
    source: Tokenizer,
    target: Tokenizer,
    limit: int,
    *,
    by_sentence: bool,
) -> list[_Piece]:
    """What the model must be asked: nothing for empty lines, several pieces for lines above the limit, and where each
    sentence is to be translated by itself."""
    texts = [one_line(clean(line)) for line in lines]
    forced = target.encode_batch([one_line(clean(prefix)) for prefix in prefixes])
    pieces = []
    for line, (text, ids) in enumerate(zip(texts, source.encode_batch(texts))):
        if not text.strip():
            continue
        whole = 0 < len(ids) <= limit and not (by_sentence and len(sentences(text)) > 1)
        parts = [ids] if whole else parts_of(text, source.encode_batch, limit, by_sentence=by_sentence)
        for part, part_ids in enumerate(parts):
            pieces.append(_Piece(line, part, part_ids, forced[line] if part == 0 else []))
    return pieces


def _join(
    lines: Sequence[str],
    prefixes: Sequence[str],
    pieces: Sequence[_Piece],
    tokenizer: Tokenizer,
    config: DecodingConfig,
) -> Iterator[Translation]:
    """Pieces (in order) to one translation a line."""
    of_line: list[list[_Piece]] = [[] for _ in lines]
    for piece in pieces:
        of_line[piece.line].append(piece)
    for line, prefix, parts in zip(lines, prefixes, of_line):
        ranks = max((len(part.hypotheses) for part in parts), default=1)
        n_best = [
            # A piece with fewer candidates than its neighbours lends its best one.
            _candidate([(p, p.hypotheses[rank if rank < len(p.hypotheses) else 0]) for p in parts], tokenizer, config)
            for rank in range(ranks)
        ]
        n_best[1:] = sorted(n_best[1:], key=lambda c: (not c.finished, -c.score)) if len(parts) > 1 else n_best[1:]
        best = n_best[0]
        yield Translation(
            source=clean(line),
            text=best.text,
            score=best.score,
            log_probability=best.log_probability,
            token_scores=best.token_scores,
            finished=best.finished,
            n_best=n_best,
            pieces=max(1, len(parts)),
            token_ids=best.token_ids,
            prefix=prefix,
            token_bytes=best.token_bytes,
        )


def joined(lines: Sequence[Translation]) -> Translation:
    """The lines of one text as one translation, of as many lines; of other candidates nothing is kept."""
    replaced, at, tokens = [], 0, 0
    for line in lines:
        replaced += [
            replace(one, token=one.token + tokens, start=one.start + at, end=one.end + at) for one in line.replaced
        ]
        at, tokens = at + len(line.text) + 1, tokens + len(line.token_scores)
    best = Candidate(
        text="\n".join(line.text for line in lines),
        score=fmean(line.score for line in lines),
        log_probability=math.fsum(line.log_probability for line in lines),
        token_scores=[token for line in lines for token in line.token_scores],
        finished=all(line.finished for line in lines),
        token_ids=[ids for line in lines for ids in line.token_ids],
        replaced=replaced,
        token_bytes=[own for line in lines for own in line.token_bytes],
    )
    return Translation(
        source="\n".join(line.source for line in lines),
        text=best.text,
        score=best.score,
        log_probability=best.log_probability,
        token_scores=best.token_scores,
        finished=best.finished,
        n_best=[best],
        pieces=sum(line.pieces for line in lines),
        token_ids=best.token_ids,
        replaced=replaced,
        prefix=lines[0].prefix,
        token_bytes=best.token_bytes,
    )


def _candidate(pieces: list[tuple[_Piece, Hypothesis]], tokenizer: Tokenizer, config: DecodingConfig) -> Candidate:
    """pieces: what was read, and what was said of it. Where a stop string was said, the line ends."""
    stop = next((place for place, (_, said) in enumerate(pieces) if said.stopped), len(pieces))
    pieces = pieces[: stop + 1]
    parts = [said for _, said in pieces]
    texts = [one_line(_text(piece.prefix, said.tokens, tokenizer, config.stop)) for piece, said in pieces]
    tokens = [token for part in parts for token in (*part.tokens, *([EOS] if part.finished else ()))]
    names, spelled = _shown(tokens, tokenizer)
    token_scores = list(zip(names, (value for part in parts for value in part.token_log_probabilities)))
    total = math.fsum(part.log_probability for part in parts)
    normalized = total / length_penalty(len(token_scores), config.length_penalty)
    if config.mbr is not None and parts:
        normalized = fmean(part.score for part in parts)
    return Candidate(
        text=texts[0] if len(texts) == 1 else " ".join(text.strip() for text in texts if text.strip()),
        score=parts[0].score if len(parts) == 1 else normalized,
        log_probability=total,
        token_scores=token_scores,
        finished=all(part.finished or part.stopped for part in parts),
        token_ids=[(piece.ids, said.tokens) for piece, said in pieces],
        token_bytes=spelled,
    )


def _speller(
    pieces: Sequence[_Piece], tokenizer: Tokenizer, config: DecodingConfig
) -> Callable[[int, Hypothesis], str]:
    """What hypotheses of these pieces say, as text to be compared: an unknown word is one character, else the five of
    its name (three words to BLEU) would make texts alike of which nothing is known."""

    def spell(place: int, said: Hypothesis) -> str:
        text = one_line(_text(pieces[place].prefix, said.tokens, tokenizer, config.stop))
        return text.replace(tokenizer.decode([UNK]).strip(), UNKNOWN_WORD) if UNK in said.tokens else text

    return spell


def _text(prefix: list[int], tokens: list[int], tokenizer: Tokenizer, stops: Sequence[str]) -> str:
    """What was said, up to a stop string that stands behind the prefix."""
    if not stops:
        return tokenizer.decode(tokens)
    return tokenizer.decode(prefix) + text_until_stop(tokenizer, tokens[len(prefix) :], stops, prefix)[0]


def _shown(tokens: Sequence[int], tokenizer: Tokenizer) -> tuple[list[str], list[bytes]]:
    """The names of tokens, and their bytes."""
    shown = [shown_token(tokenizer, token) for token in tokens]
    return [one.name for one in shown], [one.bytes for one in shown]


def _too_long(model: Translator, source: int, target: int) -> str | None:
    if source > model.max_source_length:
        return f"the source has {source} tokens; the model can read {model.max_source_length}"
    if target > model.max_target_length:
        return f"the target has {target} tokens; the model can say {model.max_target_length}"
    return None


def _report(progress: Progress | None, lines: int) -> None:
    if progress is not None and lines:
        progress(lines)
