"""Sets of alternatives that can be sampled and counted.

A construction is a product of slots: a verb, a noun phrase for its subject, another for its object, a time. Each slot
is a ``Choice``: it draws one alternative, and it knows how many it has, so the number of sentences of the grammar is
computed from the same objects that generate them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from math import factorial, prod
from random import Random
from typing import Any, Protocol

from anaphora.pocket.lexicon import NAMES, Adjective, Noun, adjectives_of
from anaphora.pocket.numbers import COUNTS
from anaphora.pocket.pocket_phrases import Bilingual, NounPhrase, Weaver


class Choice(Protocol):
    """Something to draw from."""

    @property
    def count(self) -> int:
        """The number of alternatives."""
        ...

    def sample(self, rng: Random) -> Any:
        """Draw one."""
        ...


class OneOf:
    """A choice among values, uniform."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        self.count = len(self.values)

    def sample(self, rng: Random) -> Any:
        """Draw a value."""
        # Random.choice is several times slower, and this runs a dozen times a sentence.
        return self.values[int(rng.random() * self.count)]


class Mixture:
    """A choice among choices with unequal weights: small numbers more often than large ones."""

    def __init__(self, weighted: Sequence[tuple[float, Choice]]) -> None:
        total = sum(weight for weight, _ in weighted)
        self.limits = list(accumulate(weight / total for weight, _ in weighted))
        self.choices = [choice for _, choice in weighted]
        self.count = sum(choice.count for choice in self.choices)

    def sample(self, rng: Random) -> Any:
        """Draw a choice, then from it."""
        u = rng.random()
        for limit, choice in zip(self.limits, self.choices):
            if u < limit:
                return choice.sample(rng)
        return self.choices[-1].sample(rng)


def numbers(values: Sequence[int]) -> Mixture:
    """A choice of numbers in which large ones, of which there are most, are rarer."""
    parts = [
        (0.45, OneOf([n for n in values if n <= 20])),
        (0.37, OneOf([n for n in values if 20 < n < 100])),
        (0.18, OneOf([n for n in values if n >= 100])),
    ]
    return Mixture([(weight, part) for weight, part in parts if part.count])


_COUNTS = numbers(COUNTS)

# shape -> (determiner, has an adjective, plural, has a number)
SHAPES: dict[str, tuple[str | None, bool, bool, bool]] = {
    "the": ("the", False, False, False),
    "the+": ("the", True, False, False),
    "a": ("a", False, False, False),
    "a+": ("a", True, False, False),
    "this": ("this", False, False, False),
    "his": ("his", False, False, False),
    "his+": ("his", True, False, False),
    "her": ("her", False, False, False),
    "her+": ("her", True, False, False),
    "its": ("its", False, False, False),
    "plural": ("the", False, True, False),
    "plural+": ("the", True, True, False),
    "bare": (None, False, True, False),
    "bare+": (None, True, True, False),
    "count": (None, False, True, True),
    "count+": (None, True, True, True),
    "mass": (None, False, False, False),
    "mass+": (None, True, False, False),
}


class NounPhrases:
    """A choice of noun phrases over some nouns: shapes with weights, plus names and pronouns.

    ``by_noun`` counts the alternatives of each head, which ``Variant`` needs to count sentences that never name the
    same person or thing twice.
    """

    def __init__(
        self,
        nouns: Sequence[Noun],
        shapes: dict[str, float],
        *,
        others: dict[str, float] | None = None,
        adjectives: Callable[[Noun], Sequence[Adjective]] = adjectives_of,
    ) -> None:
        self.nouns = tuple(nouns)
        self.adjectives = {noun: tuple(adjectives(noun)) for noun in nouns}
        others = others or {}
        self.shapes = [*((s, w) for s, w in shapes.items()), *others.items()]
        total = sum(weight for _, weight in self.shapes)
        self.limits = list(accumulate(weight / total for _, weight in self.shapes))
        self.by_noun: dict[str, int] = {}
        for noun in nouns:
            described = len(self.adjectives[noun])
            self.by_noun[noun.english] = sum(
                (described if adjective else 1) * (_COUNTS.count if number else 1)
                for shape in shapes
                for _, adjective, _, number in [SHAPES[shape]]
            )
        for other in others:
            for head in NAMES if other == "name" else (other,):
                self.by_noun[head] = 1
        self.count = sum(self.by_noun.values())
        self._names = tuple(NAMES)

    def sample(self, rng: Random) -> NounPhrase:
        """Draw a shape, then a noun, then what the shape asks for."""
        u = rng.random()
        shape = self.shapes[-1][0]
        for limit, (name, _) in zip(self.limits, self.shapes):
            if u < limit:
                shape = name
                break
        if shape not in SHAPES:
            return NounPhrase(self._names[int(rng.random() * len(self._names))] if shape == "name" else shape)
        determiner, adjective, plural, number = SHAPES[shape]
        noun = self.nouns[int(rng.random() * len(self.nouns))]
        described = self.adjectives[noun]
        chosen = described[int(rng.random() * len(described))] if adjective and described else None
        return NounPhrase(noun, determiner, chosen, plural, _COUNTS.sample(rng) if number else None)


def _partitions(items: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to divide items into blocks."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for partition in _partitions(rest):
        yield [(first,), *partition]
        for i, block in enumerate(partition):
            yield [*partition[:i], (first, *block), *partition[i + 1 :]]


@cache
def count_distinct(slots: tuple[NounPhrases, ...]) -> int:
    """In how many ways the slots can be filled so that no two share a noun.

    Inclusion and exclusion over the set partitions of the slots: a block of k slots that are forced to share a noun
    counts with weight (-1)^(k-1) (k-1)!, the Möbius function of the partition lattice. For two slots this is
    |A||B| - Σ a(n) b(n).
    """
    total = 0
    for partition in _partitions(tuple(range(len(slots)))):
        term = 1
        for block in partition:
            first, *others = (slots[i].by_noun for i in block)
            shared = sum(prod([n, *(other.get(head, 0) for other in others)]) for head, n in first.items())
            term *= (-1) ** (len(block) - 1) * factorial(len(block) - 1) * shared
        total += term
    return total


class Variant:
    """One frame of a construction: slots to fill, and how to write the sentence from what fills them."""

    def __init__(self, build: Callable[[Weaver, dict[str, Any]], Bilingual], **slots: Choice) -> None:
        self.build = build
        self.slots = tuple(slots.items())
        self._phrases = tuple(choice for choice in slots.values() if isinstance(choice, NounPhrases))

    @property
    def count(self) -> int:
        """The number of ways to fill the slots."""
        rest = prod(choice.count for _, choice in self.slots if not isinstance(choice, NounPhrases))
        return rest * count_distinct(self._phrases)

    def sample(self, rng: Random) -> dict[str, Any]:
        """Fill the slots; again, if two name the same noun (*the doctor visited the doctor*)."""
        while True:
            values = {name: choice.sample(rng) for name, choice in self.slots}
            heads = [value.head for value in values.values() if isinstance(value, NounPhrase)]
            if len(set(heads)) == len(heads):
                return values
