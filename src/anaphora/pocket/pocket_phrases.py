"""Noun phrases and adverbials: chosen as data, realised in both languages at once.

A *derivation* is built from small parts. Each English word it writes receives a fresh *link*; each German word lists
the links of the English words it translates. Whatever order the clauses later put the words in, the gold word alignment
is read off the links (``Weaver.finish``): it comes from the derivation, never from matching words afterwards.
"""

import re
from dataclasses import dataclass

from anaphora.pocket.lexicon import NAMES, PLACE_PREPOSITIONS, Adjective, Noun
from anaphora.pocket.morphology import (
    CONTRACTIONS,
    PERSONAL,
    adjective_ending,
    determiner,
    indefinite_article,
)
from anaphora.pocket.numbers import MONTHS, english_cardinal, english_ordinal, german_cardinal, german_ordinal

Token = tuple[str, tuple[int, ...]]  # a word, and the links it carries
Tokens = list[Token]
Bilingual = tuple[Tokens, Tokens]  # English, German

_WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
_NO_SPACE_BEFORE = frozenset(",.?!")
COMMA: Token = (",", ())  # a German comma the English does not have: unaligned


def words(text: str) -> list[str]:
    """Split text into words and punctuation marks, the units that alignments and sense labels count.

    A hyphen or apostrophe inside a word does not split it: ``words("Anna's twenty-three cats, too.")`` is
    ``["Anna's", "twenty-three", "cats", ",", "too", "."]``.
    """
    return _WORD.findall(text)


@dataclass(frozen=True, slots=True)
class SenseLabel:
    """Word ``index`` of the source is ``word`` used in ``sense``; its translation is word ``target_index``."""

    index: int
    word: str
    sense: str
    target_index: int


@dataclass(frozen=True, slots=True)
class PocketPair:
    """A sentence pair with all the grammar knows about it.

    Attributes:
        source: the English sentence, raw text.
        target: its only German translation, raw text.
        alignment: sorted (source word, target word) pairs, 0-based over ``words(source)`` and ``words(target)``.
        senses: one label for each ambiguous source word.
        construction: the name of the construction that produced it.
        withheld: the combinations, numbers and dates in it that never occur in training (test only).
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    senses: tuple[SenseLabel, ...]
    construction: str
    withheld: tuple[str, ...] = ()


class Weaver:
    """Hands out links while a sentence is derived, and collects what the splits need to know about it.

    ``facts`` are the sentence's word combinations, numbers and dates, such as ``"adjective+noun:old+farmer"``.
    """

    __slots__ = ("facts", "links", "senses")

    def __init__(self) -> None:
        self.links = 0
        self.senses: list[tuple[int, str]] = []
        self.facts: list[str] = []

    def link(self) -> int:
        """A fresh link."""
        self.links += 1
        return self.links

    def finish(self, pair: Bilingual, mark: str, construction: str) -> PocketPair:
        """Join the words, capitalise, punctuate, and read the alignment off the links."""
        end: Token = (mark, (self.link(),))
        english, german = [*pair[0], end], [*pair[1], end]
        # The comma that closes a relative clause gives way to the mark that ends the sentence.
        german = [
            token
            for token, following in zip(german, [*german[1:], end])
            if not (token[0] == "," and following[0] in _NO_SPACE_BEFORE)
        ]
        source_of = {links[0]: i for i, (_, links) in enumerate(english) if links}
        target_of: dict[int, int] = {}
        alignment = set()
        for j, (_, links) in enumerate(german):
            for link in links:
                alignment.add((source_of[link], j))
                target_of.setdefault(link, j)
        senses = tuple(
            SenseLabel(source_of[link], english[source_of[link]][0], sense, target_of[link])
            for link, sense in sorted(self.senses, key=lambda item: source_of[item[0]])
        )
        return PocketPair(_join(english), _join(german), tuple(sorted(alignment)), senses, construction)


def _join(tokens: Tokens) -> str:
    text = "".join(word if word in _NO_SPACE_BEFORE else " " + word for word, _ in tokens)[1:]
    return text[0].upper() + text[1:]


def cardinal(weaver: Weaver, n: int) -> Bilingual:
    """A number: *three hundred and forty-seven* is one German word, which translates all of it."""
    english: Tokens = [(part, (weaver.link(),)) for part in english_cardinal(n).split()]
    weaver.facts.append(f"number:{n}")
    return english, [(german_cardinal(n), tuple(link for _, links in english for link in links))]


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun phrase: *the old farmer*, *twenty-three red apples*, *Anna*, *she*.

    Attributes:
        noun: the head, or a name or pronoun as a string.
        determiner: English determiner, or ``None`` (bare plurals, numbers, drinks).
        adjective: an attributive adjective.
        plural: whether it is plural.
        number: a count written before the noun.
        of: a noun whose genitive follows: *the bank of the river*, *das Ufer des Flusses*.
        owner: a noun whose genitive English puts first: *the farmer's dog*, *der Hund des Bauern*.
    """

    noun: Noun | str
    determiner: str | None = None
    adjective: Adjective | None = None
    plural: bool = False
    number: int | None = None
    of: Noun | None = None
    owner: Noun | None = None

    @property
    def head(self) -> str:
        """The English noun, name or pronoun."""
        return self.noun if isinstance(self.noun, str) else self.noun.english

    @property
    def head_noun(self) -> Noun | str:
        """The noun as the lexicon knows it."""
        return self.noun

    @property
    def gender(self) -> str:
        """The German gender, ``p`` for any plural."""
        if self.plural:
            return "p"
        if isinstance(self.noun, str):
            return NAMES[self.noun] if self.noun in NAMES else PRONOUNS[self.noun][0]
        return self.noun.gender

    def realize(self, weaver: Weaver, case: str) -> Bilingual:
        """Both languages' words, German in the given case."""
        noun = self.noun
        if isinstance(noun, str):
            links = (weaver.link(),)
            if noun in NAMES:
                return [(noun, links)], [(noun, links)]
            return [(noun, links)], [(PRONOUNS[noun][1][case], links)]
        english: Tokens = []
        german: Tokens = []
        gender = self.gender
        if self.owner is not None:
            # English has one article, the owner's; the one German adds for the head has no counterpart.
            the, owner = (weaver.link(),), (weaver.link(),)
            english += [("the", the), (self.owner.english + "'s", owner)]
            german.append((determiner("the", case, gender), ()))
        elif self.determiner is not None:
            links = (weaver.link(),)
            following = noun.english if self.adjective is None else self.adjective.english
            form = indefinite_article(following) if self.determiner == "a" else self.determiner
            english.append((form, links))
            german.append((determiner(self.determiner, case, gender), links))
        if self.number is not None:
            number = cardinal(weaver, self.number)
            english += number[0]
            german += number[1]
        if self.adjective is not None:
            links = (weaver.link(),)
            english.append((self.adjective.english, links))
            known = "the" if self.owner is not None else self.determiner
            german.append((self.adjective.stem + adjective_ending(known, case, gender), links))
            if self.adjective.sense:
                weaver.senses.append((links[0], self.adjective.sense))
            weaver.facts.append(f"adjective+noun:{self.adjective.english}+{noun.english}")
        links = (weaver.link(),)
        english.append((noun.english_plural if self.plural else noun.english, links))
        german.append((noun.plural(case) if self.plural else noun.singular(case), links))
        if noun.sense:
            weaver.senses.append((links[0], noun.sense))
        if self.owner is not None:
            german += [(determiner("the", "gen", self.owner.gender), the), (self.owner.genitive, owner)]
        if self.of is not None:
            preposition, article, whole = weaver.link(), weaver.link(), (weaver.link(),)
            english += [("of", (preposition,)), ("the", (article,)), (self.of.english, whole)]
            # The genitive article says what "of the" says.
            german += [(determiner("the", "gen", self.of.gender), (preposition, article)), (self.of.genitive, whole)]
        return english, german


# pronoun -> (gender, German by case); English subject forms only
PRONOUNS: dict[str, tuple[str, dict[str, str]]] = {
    "he": ("m", {case: PERSONAL[case, "m"] for case in ("nom", "acc", "dat")}),
    "she": ("f", {case: PERSONAL[case, "f"] for case in ("nom", "acc", "dat")}),
    "they": ("p", {case: PERSONAL[case, "p"] for case in ("nom", "acc", "dat")}),
    "we": ("p", {"nom": "wir", "acc": "uns", "dat": "uns"}),
}


@dataclass(frozen=True, slots=True)
class Pronoun:
    """*it*, *he* or *she* pointing back to an earlier noun phrase: anaphora.

    German *er*, *sie*, *es* take the gender of the noun: a lamp is *sie*.
    """

    antecedent: NounPhrase
    english: str

    @property
    def head(self) -> str:
        """The pronoun stands for the antecedent's noun."""
        return self.antecedent.head

    @property
    def head_noun(self) -> Noun | str:
        """The antecedent's noun."""
        return self.antecedent.noun

    @property
    def plural(self) -> bool:
        """As plural as the antecedent."""
        return self.antecedent.plural

    @property
    def gender(self) -> str:
        """The gender of the antecedent, whatever *it* may look like."""
        return self.antecedent.gender

    def realize(self, weaver: Weaver, case: str) -> Bilingual:
        """One word in each language."""
        links = (weaver.link(),)
        return [(self.english, links)], [(PERSONAL[case, self.gender], links)]


@dataclass(frozen=True, slots=True)
class Prepositional:
    """A preposition and its noun phrase: *in the old garden*, *im alten Garten*."""

    english: str
    german: str
    case: str
    phrase: NounPhrase

    def realize(self, weaver: Weaver) -> Bilingual:
        """German contracts preposition and article (*in dem* to *im*); the one word then translates both."""
        parts = [(part, (weaver.link(),)) for part in self.english.split()]
        own = tuple(link for _, links in parts for link in links)
        english, german = self.phrase.realize(weaver, self.case)
        contracted = CONTRACTIONS.get((self.german, german[0][0]))
        if contracted is not None and self.phrase.determiner == "the":
            german = [(contracted, own + german[0][1]), *german[1:]]
        else:
            german = [(self.german, own), *german]
        return parts + english, german


def at_place(phrase: NounPhrase) -> Prepositional:
    """Where something happens, with the preposition the place asks for."""
    english, german = PLACE_PREPOSITIONS.get(phrase.head, ("in", "in"))
    return Prepositional(english, german, "dat", phrase)


def to_place(phrase: NounPhrase) -> Prepositional:
    """Where a motion ends: *to the market*, *zum Markt*."""
    return Prepositional("to", "zu", "dat", phrase)


@dataclass(frozen=True, slots=True)
class Time:
    """A fixed time expression. ``links`` lists, for each German word, the English words it translates."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    links: tuple[tuple[int, ...], ...]
    fact: str = ""

    def realize(self, weaver: Weaver) -> Bilingual:
        """The words with fresh links."""
        base = [weaver.link() for _ in self.english]
        if self.fact:
            weaver.facts.append(self.fact)
        english: Tokens = [(word, (link,)) for word, link in zip(self.english, base)]
        german: Tokens = [(word, tuple(base[i] for i in ids)) for word, ids in zip(self.german, self.links)]
        return english, german


def date(day: int, month: str) -> Time:
    """*on the third of May*, *am dritten Mai*. Nothing in German translates *of*: it stays unaligned."""
    return Time(
        ("on", "the", english_ordinal(day), "of", month),
        ("am", german_ordinal(day), MONTHS[month][0]),
        ((0, 1), (2,), (4,)),
        f"date:{day} {month}",
    )


def one_to_one(english: str, german: str) -> Time:
    """A time expression whose words correspond one to one: *last week*, *letzte Woche*."""
    return Time(tuple(english.split()), tuple(german.split()), tuple((i,) for i in range(len(english.split()))))
