"""Lecture 10: "*Bank* can only be disambiguated through context". At which layer do vectors know the sense?

    The thief robbed the bank.        The steep bank was flooded by the river.

Two encoders learn the English side of the pocket corpus, whose grammar knows each word's sense: an LSTM, which reads
from left to right and guesses the next word, and a Transformer, which reads both ways and guesses hidden words. Nobody
tells them of senses. Then the vectors of *bank* at each layer are put with the nearest mean vector of a sense
(evaluation/sense_scores.py). Layer 0 is the table of word vectors, in which *bank* is *bank*. `benchmarks/bank.py`
does the same with sentences of Wikipedia.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anaphora import pocket
from anaphora.evaluation.sense_scores import SenseAccuracy, commonest, nearest_centroid, sense_accuracy
from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.folder import read_config
from anaphora.lectures.all_scores import one_thread
from anaphora.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from anaphora.decoding.text_vectors import WordVectors

WORD = "bank"
SENTENCES, TEST = 4000, 1000
STEPS = 400
DIM, LAYERS = 64, 2
READERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lstm", {"model.layers": LAYERS}),
    ("transformer-encoder", {"model.layers": LAYERS, "model.heads": 4}),
)
"""Recipes, and what is set besides what all share."""
TEXT: dict[str, Any] = {
    "data.boundaries": "lines",
    "data.hold_out": 0,
    "tokenizer.kind": "word",
    "tokenizer.split": "punctuation",
    "model.dim": DIM,
    "model.dropout": 0.0,
    "training.batch_tokens": 2048,
    "training.samples": 0,
    "training.average": 1,
    "training.compile": "off",
}
"""All that the runs share."""

Vectors = Callable[[list[str], int], Iterable["WordVectors"]]
"""(lines, layer) -> the words of each line with their vectors."""


@dataclass(frozen=True)
class Use:
    """A word in a sentence, and its sense there."""

    word: str
    sense: str
    index: int
    """Which word of the sentence it is, from 0."""
    text: str


def ambiguous(split: pocket.Split, number: int, seed: int) -> list[pocket.PocketPair]:
    """So many pocket sentences that hold a word with several senses."""
    return list(islice((pair for pair in pocket.stream(split, seed) if pair.senses), number))


def pocket_uses(pairs: Iterable[pocket.PocketPair]) -> list[Use]:
    """Every ambiguous noun or verb of pocket sentences; *banks* counts as another word than *bank*."""
    return [Use(label.word.lower(), label.sense, label.index, pair.source) for pair in pairs for label in pair.senses]


def use_vectors(vectors: Vectors, uses: Sequence[Use], layer: int) -> np.ndarray:
    """The vector of each use's word at a layer: (uses, dim)."""
    found = []
    for use, line in zip(uses, vectors([use.text for use in uses], layer)):
        word = line.words[use.index].text
        if word.lower() != use.word:
            raise ValueError(f"word {use.index} of {use.text!r} is {word!r}, not {use.word!r}")
        found.append(line.vectors[use.index])
    return np.stack(found)


def by_layer(
    vectors: Vectors, layers: int, train: Sequence[Use], test: Sequence[Use]
) -> dict[str, list[SenseAccuracy]]:
    """Of each word that has several senses to learn from and is asked for: how well each layer, from 0, knows it."""
    words = sorted({use.word for use in test})
    words = [word for word in words if len({use.sense for use in train if use.word == word}) > 1]
    found: dict[str, list[SenseAccuracy]] = {word: [] for word in words}
    for layer in range(layers + 1):
        learned, asked = use_vectors(vectors, train, layer), use_vectors(vectors, test, layer)
        for word in words:
            own, other = _places(train, word), _places(test, word)
            senses = [train[place].sense for place in own]
            said = nearest_centroid(learned[own], senses, asked[other])
            found[word].append(sense_accuracy(said, [test[place].sense for place in other]))
    return found


def always_commonest(train: Sequence[Use], test: Sequence[Use], word: str) -> SenseAccuracy:
    """What it gets who does not look at the sentence."""
    gold = [test[place].sense for place in _places(test, word)]
    return sense_accuracy(commonest([train[place].sense for place in _places(train, word)], len(gold)), gold)


def _places(uses: Sequence[Use], word: str) -> list[int]:
    return [place for place, use in enumerate(uses) if use.word == word]


def learn(
    reader: str, settings: dict[str, Any], folder: Path, text: Path, *, steps: int, seed: int
) -> tuple[Any, Tokenizer]:
    """Train a language model as `anaphora train` does, and take what it left in its folder."""
    from anaphora.models import read_language_model
    from anaphora.tasks.language_run import train_text
    from anaphora.tasks.recipes import RunConfig
    from anaphora.tasks.request import Request

    own: dict[str, dict[str, Any]] = {"data": {"text": [str(text)]}}
    limits = {"training.max_steps": steps, "training.checkpoint_every": steps, "training.seed": seed}
    for name, value in {**TEXT, **settings, **limits}.items():
        section, _, key = name.partition(".")
        own.setdefault(section, {})[key] = value
    train_text(Request(run=folder, own=own, recipe=reader, device="cpu"))
    model: Any = read_language_model(RunConfig.read(read_config(folder)).model, folder)
    return model.eval(), Tokenizer.load(folder / "tokenizer.json")


def bank(steps: int = STEPS, sentences: int = SENTENCES, test: int = TEST, seed: int = 1) -> list[Walk]:
    """Train both readers on pocket English; nearest-centroid accuracy by layer, of *bank* and of all words."""
    from anaphora.decoding.text_vectors import layers_of, word_vectors

    pairs = ambiguous("train", sentences, seed)
    uses, asked = pocket_uses(pairs), pocket_uses(ambiguous("valid", test, seed))
    known = {use.word for use in uses}
    asked = [use for use in asked if use.word in known]
    found: dict[str, dict[str, list[SenseAccuracy]]] = {}
    apart = 0.0
    with one_thread(), torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        text = Path(name) / "text"
        text.write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
        for reader, settings in READERS:
            model, tokenizer = learn(reader, settings, Path(name) / reader, text, steps=steps, seed=seed)

            def vectors(lines: list[str], layer: int, model: Any = model, cut: Tokenizer = tokenizer) -> Iterator[Any]:
                return word_vectors(model, cut, lines, layer=layer)

            found[reader] = by_layer(vectors, layers_of(model), uses, asked)
            table = use_vectors(vectors, [use for use in asked if use.word == WORD], 0)
            apart = max(apart, float(np.abs(table - table[0]).max()))
    blind = {word: always_commonest(uses, asked, word) for word in next(iter(found.values()))}
    layers = [f"layer {layer}" for layer in range(LAYERS + 1)]
    tables = []
    for what, words in ((f"*{WORD}*", [WORD]), (f"all {len(blind)} ambiguous words, their mean", list(blind))):
        rows = [[100 * float(np.mean([blind[word].macro for word in words]))] * len(layers)]
        rows += [
            [100 * float(np.mean([own[word][layer].macro for word in words])) for layer in range(len(layers))]
            for own in found.values()
        ]
        says = f"{what}: uses put with the right sense, in percent, the mean over senses"
        tables.append(Step("senses", "", says, ["the commonest", *found], layers, rows, decimals=0))
    gap = max(abs(own[word][0].macro - blind[word].macro) for own in found.values() for word in blind)
    return [
        Walk(
            "bank",
            "Bank in context",
            f"{sentences:,} pocket sentences, {steps} updates, seed {seed}. Layer 0 is the table of word vectors; the "
            "nearest mean vector of a sense decides.",
            tables,
            [
                Check(f"at layer 0 every {WORD} has the same vector", apart, 0.0),
                Check("so layer 0 says the commonest sense of each word", gap, 0.0),
            ],
            settings={"steps": steps, "seed": seed, "sentences": sentences},
        )
    ]
