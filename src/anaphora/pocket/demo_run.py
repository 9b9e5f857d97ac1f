"""The demonstration: three minutes from nothing to a translator that tells a river bank from a money bank.

It writes the pocket corpus (text/pocket: an authored grammar, no download), trains a small Transformer on it with the
same call that `anaphora train` makes, and then asks it for sentences it never saw: 1,000 of the test split, 300 of
them with word combinations or numbers that training never showed together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.errors import UserError
from anaphora.evaluation.alignment_error import GoldAlignment, alignment_error_rate
from anaphora.evaluation.translation_metrics import exact_match
from anaphora.pocket import PocketPair, generate, words, write

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.alignment.model_alignment import Alignment

TRAIN_PAIRS = 40_000
SEED = 1

SETTINGS = {
    "tokenizer.vocabulary": 1_200,
    "model.dropout": 0.0,
    "training.max_steps": 1_000,
    "training.batch_tokens": 2_048,
    "training.learning_rate": 4e-3,
    "training.warmup_steps": 100,
    "training.schedule": "cosine",
    "training.checkpoint_every": 250,
    "training.label_smoothing": 0.0,
    "training.consistency": 0.0,
    "training.metric": "loss",
    "training.guided_alignment": 0.1,
    "training.average": 1,
    "training.samples": 2,
    "training.log_every": 25,
}
"""On top of the recipe `tiny`; tuned on test sentences 1,001 to 2,000, which the demo does not report on
(docs/lab-notes.md)."""


@dataclass
class DemoReport:
    """What was shown."""

    corpus: str
    model: str
    seconds: float
    """Training, validation included."""
    lines: int
    exact: float
    """Share of test sentences translated exactly as the grammar does."""
    exact_withheld: float
    """The same over those with withheld combinations or numbers."""
    withheld_lines: int
    ambiguous: float
    """Share of ambiguous words translated in the sense that the sentence means."""
    ambiguous_words: int
    aer: float
    """Alignment error rate against the gold of the grammar, the references given."""
    aer_ibm1: float
    """IBM-1's, taught by the same training text, in the form that suits it best."""
    ibm1_form: str
    alignment: dict[str, Any]
    """The trace of one test pair, to look at; its method was chosen without gold."""
    examples: list[dict[str, Any]]


def prepare_corpus(folder: Path, *, progress: Callable[[str], None] = lambda text: None) -> Path:
    """Write the corpus unless a complete one is there."""
    corpus = folder / "corpus"
    if not (corpus / "README.txt").exists():
        progress(f"writing the pocket corpus, {TRAIN_PAIRS:,} English-German pairs, into {corpus}")
        write(corpus, train=TRAIN_PAIRS, seed=SEED)
    return corpus


def run_demo(
    folder: Path,
    *,
    device: str = "auto",
    console: Console | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> DemoReport:
    """Corpus, training, test. Repeating it goes on where it stopped."""
    from anaphora import api

    if folder.exists() and not folder.is_dir():
        raise UserError("is a file, not a folder", file=folder, cure="choose another name")
    corpus = prepare_corpus(folder, progress=say)
    outcome = api.train(
        folder / "model",
        source=corpus / "train.en",
        target=corpus / "train.de",
        valid_source=corpus / "valid.en",
        valid_target=corpus / "valid.de",
        recipe="tiny",
        device=device,
        settings=SETTINGS,
        progress=console or False,
    )
    model = api.load_translator(folder / "model", device)
    pairs = list(generate("test", 1_000, seed=SEED))
    say(f"translating {len(pairs):,} sentences it never saw …")
    translations = [t.text for t in model.translate([pair.source for pair in pairs], beam=1)]
    withheld = [(text, pair.target) for text, pair in zip(translations, pairs) if pair.withheld]
    say(f"aligning them, and asking IBM-1 the same {len(pairs):,} times …")
    aligned = model.align([pair.source for pair in pairs], [pair.target for pair in pairs])
    gold = [GoldAlignment.of(pair.alignment) for pair in pairs]
    rival = model.ibm1_beside(aligned, gold)
    senses = [ok for text, pair in zip(translations, pairs) for ok in senses_right(text, pair)]
    return DemoReport(
        corpus=str(corpus),
        model=str(folder / "model"),
        seconds=outcome.seconds,
        lines=len(pairs),
        exact=exact_match(translations, [pair.target for pair in pairs]),
        exact_withheld=exact_match(*map(list, zip(*withheld))),
        withheld_lines=len(withheld),
        ambiguous=sum(senses) / max(1, len(senses)),
        ambiguous_words=len(senses),
        aer=alignment_error_rate([one.links for one in aligned], gold).aer,
        aer_ibm1=rival.scores[rival.best].aer,
        ibm1_form=rival.best,
        alignment=_to_look_at(pairs, aligned).document(),
        examples=_examples(pairs, translations),
    )


def senses_right(text: str, pair: PocketPair) -> list[bool]:
    """For each ambiguous word of the pair: is the German word of the meant sense in the translation?"""
    said, meant = words(text), words(pair.target)
    return [meant[label.target_index] in said for label in pair.senses]


def _to_look_at(pairs: list[PocketPair], aligned: list[Alignment]) -> Alignment:
    """A short pair with an ambiguous word whose links cross the most: a German verb that waits for the end."""

    def crossings(place: int) -> tuple[bool, int]:
        links, pair = aligned[place].links, pairs[place]
        fits = bool(pair.senses) and len(aligned[place].source) <= 12
        return fits, sum(i < k and j > m for i, j in links for k, m in links)

    return aligned[max(range(len(aligned)), key=crossings)]


def _examples(pairs: list[PocketPair], translations: list[str]) -> list[dict[str, Any]]:
    """For each ambiguous word, the first test sentence with each of its senses, right or wrong."""
    chosen: dict[str, dict[str, Any]] = {}
    for pair, text in zip(pairs, translations):
        for label in pair.senses:
            example = {"sense": label.sense, "source": pair.source, "translation": text, "reference": pair.target}
            chosen.setdefault(label.sense, example)  # a sense is named bank.shore, bank.money, …
    return [chosen[sense] for sense in sorted(chosen)]
