"""Splits of the pocket corpus: what is generated for training, and what is withheld for the test.

Two rules, both pure functions of the seed, keep the splits apart by construction:

- a sentence belongs to the split that its hash names, so no sentence can be in two;
- some word combinations (adjective + noun, subject + verb), numbers and dates are *withheld*: chosen by hash, they
  occur in no training or validation sentence, though each of their words does. Three test sentences in ten contain
  one, and say which. They ask whether a model composes or remembers.
"""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import accumulate
from random import Random
from typing import Literal, get_args

from anaphora.pocket.contexts import CONTEXTS
from anaphora.pocket.grammar import CONSTRUCTIONS
from anaphora.pocket.lexicon import ADJECTIVES, GIVING, MOTION, NOUNS, SAYING, VERBS
from anaphora.pocket.numbers import is_compositional
from anaphora.pocket.pocket_choices import Variant
from anaphora.pocket.pocket_phrases import PocketPair, Weaver
from anaphora.pocket.quantities import QUANTITIES
from anaphora.pocket.subordination import SUBORDINATION

Split = Literal["train", "valid", "test"]

# Of a hundred hash buckets, the ordinary sentences of each split.
_BUCKETS: dict[str, range] = {"valid": range(4), "test": range(4, 8), "train": range(8, 100)}

# Per cent of each kind of combination that training never sees.
_WITHHELD_PERCENT = {"adjective+noun": 4, "subject+verb": 4, "number": 8, "date": 8}

_ORDINARY_VERBS = {verb.english for verb in [*VERBS, *MOTION, *GIVING, *SAYING]}

# The places of the withheld sentences in each ten of the test split.
_WITHHELD_PLACES = (0, 3, 6)


@lru_cache(maxsize=1)
def _grammar() -> tuple[list[float], list[tuple[str, list[Variant], str]]]:
    """Cumulative weights, and (name, variants, final mark) of all constructions; built once, in about 50 ms."""
    entries = [
        (name, weight, make(), mark)
        for name, (weight, make, mark) in (CONSTRUCTIONS | SUBORDINATION | QUANTITIES).items()
    ]
    entries += [(name, weight, make(), ".") for name, (weight, make, _) in CONTEXTS.items()]
    total = sum(weight for _, weight, _, _ in entries)
    limits = list(accumulate(weight / total for _, weight, _, _ in entries))
    return limits, [(name, variants, mark) for name, _, variants, mark in entries]


def constructions() -> tuple[str, ...]:
    """The names of all constructions."""
    return tuple(name for name, _, _ in _grammar()[1])


def count_sentences() -> int:
    """The number of sentences of the grammar, counted slot by slot: derivations and sentences correspond one to one."""
    return sum(variant.count for _, variants, _ in _grammar()[1] for variant in variants)


def derive(rng: Random) -> tuple[PocketPair, list[str]]:
    """Draw one sentence of the grammar, whatever its split, with the facts that decide about withholding."""
    limits, entries = _grammar()
    u = rng.random()
    place = next((i for i, limit in enumerate(limits) if u < limit), len(limits) - 1)
    name, variants, mark = entries[place]
    variant = variants[int(rng.random() * len(variants))]
    weaver = Weaver()
    pair = variant.build(weaver, variant.sample(rng))
    return weaver.finish(pair, mark, name), weaver.facts


@cache
def is_withheld(fact: str, seed: int) -> bool:
    """Whether this combination, number or date never occurs in training.

    Only what is composed of parts seen elsewhere qualifies: numbers such as 347 whose words occur in other
    numbers, and combinations of ordinary words. The contexts that decide a word's sense are never withheld.
    """
    kind, _, rest = fact.partition(":")
    if kind == "number" and not is_compositional(int(rest)):
        return False
    if kind == "adjective+noun":
        adjective, noun = rest.split("+")
        if adjective not in ADJECTIVES or noun not in NOUNS:
            return False
    if kind == "subject+verb":
        subject, verb = rest.split("+")
        if subject not in NOUNS or verb not in _ORDINARY_VERBS:
            return False
    return zlib.crc32(f"{seed}|{fact}".encode()) % 100 < _WITHHELD_PERCENT[kind]


def _bucket(source: str, seed: int) -> int:
    return zlib.crc32(f"{seed}|{source}".encode()) % 100


def stream(split: Split, seed: int = 1) -> Iterator[PocketPair]:
    """The endless, repetition-free stream of a split; ``generate`` takes its beginning."""
    if split not in get_args(Split):
        raise ValueError(f"unknown split {split!r}; the splits are train, valid and test")
    # A string seeds the generator through SHA-512, the same on every platform and Python version since 3.2.
    rng = Random(f"pocket|{split}|{seed}")
    seen: set[str] = set()
    buckets = _BUCKETS[split]
    place = 0
    while True:
        pair, facts = derive(rng)
        withheld = tuple(sorted({fact for fact in facts if is_withheld(fact, seed)}))
        wanted = split == "test" and place % 10 in _WITHHELD_PLACES
        if bool(withheld) != wanted or pair.source in seen:
            continue
        if not wanted and _bucket(pair.source, seed) not in buckets:
            continue
        seen.add(pair.source)
        place += 1
        yield replace(pair, withheld=withheld) if withheld else pair


def generate(split: Split, count: int, seed: int = 1) -> list[PocketPair]:
    """The first ``count`` sentence pairs of a split.

    Args:
        split: ``train``, ``valid`` or ``test``; for one seed they share no sentence.
        count: how many; a larger count continues a smaller one.
        seed: decides the sentences and what is withheld.

    Example:
        >>> pair = generate("train", 1)[0]
        >>> len(pair.alignment) > 3
        True
    """
    if count < 0:
        raise ValueError(f"count must not be negative; got {count}")
    pairs = stream(split, seed)
    return [next(pairs) for _ in range(count)]
