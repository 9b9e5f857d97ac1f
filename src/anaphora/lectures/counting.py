"""The recap of lecture 10: n-gram language models, "estimate this by counting & normalizing".

The lecture has the formulas and no numbers. Ours are those of a text of five words, small enough to count with a
pencil: "the dog saw the cat". The tables are counted here with a dictionary; the library's model, which counts billions
of words with the same result, is asked for the same probabilities, and the checks compare them.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS, UNK

if TYPE_CHECKING:
    from anaphora.models.ngram.ngram_model import NgramModel

TEXT = "the dog saw the cat"
WORDS = ["the", "dog", "saw", "cat"]
IDS = {word: id for id, word in enumerate(WORDS, start=UNK + 1)} | {SPECIALS[BOS]: BOS, SPECIALS[EOS]: EOS}
IDS |= {SPECIALS[UNK]: UNK}
BEFORE, AFTER = [SPECIALS[BOS], *WORDS], [*WORDS, SPECIALS[EOS]]
SENTENCES = ("the cat", TEXT, "the dog")


def counting() -> list[Walk]:
    """The bigrams of five words: counted and normalized; what that says of sentences; and with one added to all."""
    return [_normalized(), *(_sentence(text) for text in SENTENCES), _add_one()]


def counts() -> np.ndarray:
    """How often each word (column) came after each (row): (5, 5)."""
    found = Counter(pairwise([SPECIALS[BOS], *TEXT.split(), SPECIALS[EOS]]))
    return np.array([[float(found[before, after]) for after in AFTER] for before in BEFORE])


def library(smoothing: Literal["maximum-likelihood", "add-k"]) -> NgramModel:
    """The bigram model of the same text, by the code that counts corpora."""
    from anaphora.models.ngram.counting import count
    from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel

    tokens = np.array([BOS, *(IDS[word] for word in TEXT.split()), EOS], np.uint32)
    config = NgramConfig(order=2, smoothing=smoothing)
    return NgramModel.from_counts(config, count(tokens, len(IDS) + 1, 2))[0]


def _asked(model: NgramModel, before: str, columns: list[str]) -> list[float]:
    """What the library's model gives each word after one."""
    from anaphora.models.ngram.ngram_explanation import why

    prefix = [] if before == SPECIALS[BOS] else [IDS[before]]
    found = {one.token: one.probability for one in why(model, prefix, top=0, tokens=list(IDS.values())).candidates}
    return [found[IDS[word]] for word in columns]


def _same(model: NgramModel, table: np.ndarray, columns: list[str]) -> Check:
    said = np.array([_asked(model, before, columns) for before in BEFORE])
    return Check("the library's bigram model gives the same", float(np.abs(said - table).max()), 1e-6)


def _normalized() -> Walk:
    c = counts()
    total = c.sum(1, keepdims=True)
    p = c / total
    steps = [
        Step("C", "", "how often each word (column) came after each (row)", BEFORE, AFTER, c),
        Step("N", "N = Σ C", "how often each word came before any: the sum of its row", BEFORE, ["N"], total),
        Step("P", "P = C / N", "the share of each count in its row", BEFORE, AFTER, p, shares=True),
    ]
    checks = [
        Check("each row sums to 1", float(np.abs(p.sum(1) - 1).max()), 1e-12),
        _same(library("maximum-likelihood"), p, AFTER),
    ]
    says = (
        f"The text is “{TEXT}”, with {SPECIALS[BOS]} before it and {SPECIALS[EOS]} after it: six pairs of neighbours."
    )
    return Walk("counting", "Count and normalize", says, steps, checks)


def _sentence(text: str) -> Walk:
    """P of a sentence is the product along it."""
    c = counts()
    p = c / c.sum(1, keepdims=True)
    pairs = [*pairwise([SPECIALS[BOS], *text.split(), SPECIALS[EOS]])]
    factors = [p[BEFORE.index(before), AFTER.index(after)] for before, after in pairs]
    product = math.prod(factors)
    columns = [*(f"{after}|{before}" for before, after in pairs), "product"]
    step = Step("P", "P(w₁ … ⟨/s⟩) = Π P(w | the word before)", "", ["P"], columns, [[*factors, product]])
    row = np.array([[IDS[word] for word in text.split()] + [EOS]], np.uint32)
    logs, _ = library("maximum-likelihood").score_rows(list(row))
    said = math.exp(float(logs[0].astype(np.float64).sum()))
    name = "sentence-" + text.replace(" ", "-")
    return Walk(name, f"“{text}”", "", [step], [Check("`score` gives the same", abs(said - product), 1e-6)])


def _add_one() -> Walk:
    c = counts()
    columns = [*AFTER, SPECIALS[UNK]]
    c = np.hstack([c, np.zeros((len(c), 1))]) + 1  # an unknown word was seen no times too
    p = c / c.sum(1, keepdims=True)
    steps = [
        Step("C + 1", "", "one more of everything; a word that was never seen is a column too", BEFORE, columns, c),
        Step("P", "P = (C + 1) / (N + 6)", "nothing is impossible now", BEFORE, columns, p, shares=True),
    ]
    checks = [
        Check("each row sums to 1", float(np.abs(p.sum(1) - 1).max()), 1e-12),
        _same(library("add-k"), p, columns),
    ]
    says = "No line ended after “dog”, so “the dog” had probability 0. Add one to every count."
    return Walk("add-one", "Add one", says, steps, checks)
