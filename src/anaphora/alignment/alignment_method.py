"""Which layer, head, row and rule align best? Chosen on held-out text, without any gold alignment.

Every candidate aligns the held-out pairs, and is compared with what two IBM-1 models believe (alignment/agreement.py):
links that both directions say count as sure, links that either says as possible, and the candidate with the lowest
alignment error rate against that stand-in wins. The stand-in is no gold standard, and its number is no quality; it
only has to put the candidates in the right order. The choice is written into the model folder (`alignment.json`) with
the number and the text it was made on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anaphora.alignment.agreement import Agreement
from anaphora.alignment.aligned_pairs import Pair, Pairs, to_words
from anaphora.alignment.links import RULES, by_rule
from anaphora.alignment.model_alignment import (
    BATCH_TOKENS,
    ROWS,
    Method,
    attention_maps,
    cross_attentions,
    no_weights,
    normalize,
)
from anaphora.data.corpus import Corpus
from anaphora.data.preparation import open_prepared
from anaphora.errors import UserError
from anaphora.evaluation.alignment_error import AlignmentScore, GoldAlignment, alignment_error_rate
from anaphora.files.foreign import read_json
from anaphora.folder import DATA, write_json
from anaphora.models.contracts import Translator
from anaphora.results import brief, count, figure, html_table
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.words import Split, split_words

FILE = "alignment.json"
VERSION = 1
HELD_OUT_PAIRS = 300
"""Pairs the candidates are compared on: 300 have some thousand links, and take a second or two."""
FEW_PAIRS = 50
"""Fewer held-out pairs than this say too little alone."""
TEACHER_PAIRS = 20_000
"""Pairs that IBM-1 learns from, spread evenly over the training text."""


@dataclass(frozen=True)
class Choice:
    """A method and why it was chosen."""

    method: Method
    disagreement: float | None
    """AER against the IBM-1 stand-in; None if nothing was compared."""
    reason: str

    def __repr__(self) -> str:
        return brief("Choice", self.method.name, self.reason)

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "anaphora_alignment": VERSION,
            "method": self.method.document(),
            "meaning": self.method.explain(),
            "disagreement_with_ibm1": self.disagreement,
            "reason": self.reason,
        }


def choose_method(
    model: Translator, pairs: Sequence[Pair], teacher: Agreement, *, batch_tokens: int = BATCH_TOKENS
) -> tuple[Method, float]:
    """The candidate whose links on these pairs disagree least with the teacher; the first of equals."""
    stand_in = [_stand_in(pair, teacher) for pair in pairs]
    candidates: dict[Method, list[set[tuple[int, int]]]] = defaultdict(lambda: [set() for _ in pairs])
    paths = cross_attentions(model)
    words: dict[int, np.ndarray] = {}  # of pairs whose pieces have not all come: never the maps of all pairs at once
    shares, spans = [pair.target_share() for pair in pairs], [list(pair.spans()) for pair in pairs]
    waiting = [len(pieces) for pieces in spans]
    seen = attention_maps(model, pairs, paths, None, mean=False, batch_tokens=batch_tokens)
    for number, piece, weights in seen:  # (L, H, T + 1, S + 1)
        both = np.stack([weights[:, :, :-1], weights[:, :, 1:]])  # (2, L, H, T, S + 1): predicts, reads
        source, target = spans[number][piece]
        found = to_words(both, source, target, shares[number], len(pairs[number].source)).astype(np.float32)
        words[number] = words[number] + found if number in words else found
        waiting[number] -= 1
        if waiting[number]:
            continue
        methods, weights = _candidates(words.pop(number))  # weights (candidates, T, S)
        if not weights.size:
            continue
        weights = np.round(weights.astype(np.float64), 5)  # as in `links_of`, but all at once
        of_rows, of_columns = weights.argmax(axis=2).tolist(), weights.argmax(axis=1).tolist()
        for method, each, by_row, by_column in zip(methods, weights, of_rows, of_columns):
            rows = {(s, t) for t, s in enumerate(by_row) if each[t, s] > 0}
            columns = {(s, t) for s, t in enumerate(by_column) if each[t, s] > 0}
            for rule in RULES:
                named = Method(layer=method.layer, head=method.head, row=method.row, rule=rule)
                candidates[named][number] = by_rule(rows, columns, each, rule)
    scored = {method: alignment_error_rate(links, stand_in).aer for method, links in candidates.items()}
    if not scored:
        return Method(), 1.0
    best = min(scored, key=scored.__getitem__)
    return best, scored[best]


def _candidates(maps: np.ndarray) -> tuple[list[Method], np.ndarray]:
    """(2, L, H, T, S + 1) -> each head, the mean of each layer, the mean of all, each for both meanings of a row."""
    methods, weights = [], []
    for row, of_row in zip(ROWS, maps):
        for layer, of_layer in enumerate(of_row):
            methods += [Method(layer=layer, head=head, row=row) for head in range(len(of_layer))]
            methods.append(Method(layer=layer, row=row))
            weights += [*of_layer, of_layer.mean(axis=0)]
        methods.append(Method(row=row))
        weights.append(of_row.mean(axis=(0, 1)))
    return methods, normalize(np.stack(weights))[0]


def _stand_in(pair: Pair, teacher: Agreement) -> GoldAlignment:
    sure, possible = teacher.links([word.text for word in pair.source], [word.text for word in pair.target])
    return GoldAlignment.of(sure, possible)


# -- with a prepared corpus, into a folder -----------------------------------------------------------------------------


def spread(rows: int, number: int) -> np.ndarray:
    """At most `number` of so many rows, evenly spread, always the same ones."""
    return np.unique(np.linspace(0, rows - 1, min(rows, number)).astype(np.int64)) if rows else np.zeros(0, np.int64)


def corpus_pairs(corpus: Corpus, number: int) -> list[tuple[str, str]]:
    """The texts of at most `number` rows."""
    rows = spread(len(corpus), number)
    return list(zip(corpus.texts("source", rows), corpus.texts("target", rows)))


def fit_teacher(pairs: Sequence[tuple[str, str]]) -> Agreement:
    """Both IBM-1 models, on the words of these pairs."""
    sources = [[word.text for word in split_words(source)] for source, _ in pairs]
    targets = [[word.text for word in split_words(target)] for _, target in pairs]
    return Agreement.fit(sources, targets)


def choose_on(
    model: Translator,
    tokenizers: tuple[Tokenizer, Tokenizer],
    train: Corpus,
    valid: Corpus | None,
    *,
    teacher: Agreement | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> Choice:
    """Choose on held-out text, IBM-1 taught by training text; where little was held out, on training text as well."""
    if why := no_weights(model):
        return Choice(Method(kind="occlusion"), None, why)
    compared = [] if valid is None else corpus_pairs(valid, HELD_OUT_PAIRS)
    what = f"{len(compared):,} held-out pairs"
    if len(compared) < FEW_PAIRS:
        more = corpus_pairs(train, HELD_OUT_PAIRS - len(compared))
        what = f"{len(compared):,} held-out and {len(more):,} training pairs"
        compared += more
    taught = "the training text"
    if teacher is None:
        lessons = corpus_pairs(train, TEACHER_PAIRS)
        taught = f"{len(lessons):,} training pairs"
        teacher = fit_teacher([*lessons, *compared])
    pairs = [
        pair
        for pair in Pairs(*tokenizers).texts(compared)
        if len(pair.source_spans) < model.max_source_length and len(pair.target_spans) < model.max_target_length
    ]
    method, disagreement = choose_method(model, pairs, teacher, batch_tokens=batch_tokens)
    reason = f"it agrees best with IBM-1 (taught by {taught}) on {what}; no gold was used"
    return Choice(method, disagreement, reason)


def choose_for_folder(
    folder: Path,
    model: Translator,
    tokenizers: tuple[Tokenizer, Tokenizer],
    *,
    guided: tuple[int | None, int] | None = None,
) -> Choice:
    """What was chosen at the end of training; else chosen now, if the run's text is there; else a sensible default."""
    choice = read_choice(folder)
    if choice is not None:
        try:
            choice.method.check(model)
        except UserError as error:
            cure = "delete the file: the method is then chosen anew"
            raise UserError(f"does not fit the model: {error.what}", file=folder / FILE, cure=cure) from None
        return choice
    if (folder / DATA / "manifest.json").is_file():
        with suppress(UserError):  # text of an interrupted preparation, a folder one may not write to
            prepared = open_prepared(folder / DATA)
            choice = choose_on(model, tokenizers, prepared.train, prepared.valid)
            write_choice(folder, choice)
    if choice is not None:
        return choice
    if why := no_weights(model):
        return Choice(Method(kind="occlusion"), None, why)
    if guided is not None:
        layer = max(len(cross_attentions(model)) - 2, 0) if guided[0] is None else guided[0]
        method = Method(layer=layer, head=guided[1], rule="intersection")
        return Choice(method, None, "this head was guided in training; nothing was compared")
    return Choice(Method(), None, "there was no text to choose on: this is the usual method for such models")


def write_choice(folder: Path, choice: Choice) -> None:
    write_json(folder / FILE, choice.document())


def read_choice(folder: Path) -> Choice | None:
    """What the folder says; None if it says nothing that can be read."""
    try:
        document = read_json(folder / FILE)
        if int(document["anaphora_alignment"]) > VERSION:
            return None
        return Choice(
            Method.from_document(document["method"]), document.get("disagreement_with_ibm1"), str(document["reason"])
        )
    except (OSError, UserError, ValueError, KeyError, TypeError, AttributeError):
        return None


# -- beside IBM-1 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rival:
    """IBM-1 on the same pairs against the same gold, in each of its usual forms."""

    scores: dict[str, AlignmentScore]
    pairs: int
    """It learned from so many."""

    def __repr__(self) -> str:
        best = f"{self.best}: AER {figure(self.scores[self.best].aer, '.4f')}"
        return brief("Rival", None, best, f"learned from {count(self.pairs, 'pair')}")

    def _repr_html_(self) -> str:
        rows = [
            (form, *(figure(value, ".4f") for value in (one.aer, one.precision, one.recall)))
            for form, one in self.scores.items()
        ]
        return html_table(("links", "AER", "precision", "recall"), rows)

    @property
    def best(self) -> str:
        """The form with the lowest error: chosen with the gold, so in IBM-1's favor."""
        return min(self.scores, key=lambda form: self.scores[form].aer)


def ibm1_beside(
    lessons: Sequence[tuple[str, str]],
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[GoldAlignment],
    *,
    split: Split = "punctuation",
) -> Rival:
    """Teach IBM-1, align the pairs with it, compare."""

    def words(side: int, texts: Sequence[tuple[str, str]]) -> list[list[str]]:
        return [[word.text for word in split_words(pair[side], split)] for pair in texts]

    teacher = Agreement.fit(words(0, lessons), words(1, lessons))
    aligned = [teacher.plain(source, target) for source, target in zip(words(0, pairs), words(1, pairs))]
    forms = list(aligned[0]) if aligned else []
    scores = {form: alignment_error_rate([links[form] for links in aligned], gold) for form in forms}
    return Rival(scores, len(lessons))
