"""One sense per discourse: lines of several pocket sentences that use an ambiguous word in one and the same meaning.

    The thief robbed the small bank. The old bank hired a cook. This bank was very profitable.

A sentence of the grammar decides a word's sense once, before the word or after it; whoever guesses the next word gains
little by knowing it, for what would follow is the same for both meanings, or is itself what decides. Texts are not like
that: within one, a word almost always keeps its meaning (Gale, Church and Yarowsky 1992), so that what came before says
what will come. `discourses` puts sentences together that way, and `deciding_words` are the grammar's own labels: which
words belong to which meaning.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random

from anaphora.pocket.lexicon import Noun, Verb
from anaphora.pocket.pocket_senses import ADJECTIVE_SENSES, NOUN_SENSES, NounSense
from anaphora.pocket.splits import Split, stream

SENSES = frozenset([*NOUN_SENSES, *(adjective.sense for adjective, _ in ADJECTIVE_SENSES)])


def discourses(
    number: int, *, sentences: int = 4, split: Split = "train", seed: int = 1, most: int | None = None, rounds: int = 1
) -> list[str]:
    """So many pocket sentences (English) with one ambiguous noun or adjective each, put into lines of `sentences` that
    use it in the same sense, in an order by chance.

    most: of each sense, so many sentences at the most; others are passed over, until there are `number`. rounds: how
    often every sentence comes, in other company each time.
    """
    labeled = ((pair.source, pair.senses[0].sense) for pair in stream(split, seed) if len(pair.senses) == 1)
    most = number if most is None else most
    if number > most * len(SENSES):
        raise ValueError(f"{len(SENSES)} senses with {most} sentences each are no {number}")
    by_sense: dict[str, list[str]] = {sense: [] for sense in sorted(SENSES)}
    wanted = (one for one in labeled if one[1] in SENSES and len(by_sense[one[1]]) < most)
    for text, sense in islice(wanted, number):
        by_sense[sense].append(text)
    random, lines = Random(f"discourses|{seed}"), []
    for _ in range(rounds):
        for some in by_sense.values():
            random.shuffle(some)
            lines += [" ".join(some[begin : begin + sentences]) for begin in range(0, len(some), sentences)]
    random.shuffle(lines)
    return lines


def deciding_words(word: str) -> Mapping[str, frozenset[str]]:
    """Of an ambiguous noun or adjective: its meanings, and the English words, in all their forms, that the grammar has
    with this meaning and not with the other. Of a noun: adjectives, wholes, verbs, and what they are done to; of an
    adjective: the nouns that it stands with."""
    found: dict[str, set[str]] = {
        name: set(_noun_company(sense)) for name, sense in NOUN_SENSES.items() if sense.noun.english == word
    }
    for adjective, nouns in ADJECTIVE_SENSES:
        if adjective.english == word:
            found[adjective.sense] = {form for noun in nouns for form in _noun_forms(noun)}
    everywhere = set.intersection(*found.values()) if found else set()
    return {name: frozenset(words - everywhere) for name, words in found.items()}


def _noun_company(sense: NounSense) -> Iterator[str]:
    yield from (adjective.english for adjective in sense.adjectives)
    yield from (form for noun in sense.whole for form in _noun_forms(noun))
    for _, verb in sense.object_of:  # who does it may do anything else: robbers are men and women
        yield from _verb_forms(verb)
    for verb, _ in sense.subject_of:
        yield from _verb_forms(verb)
    if sense.name == "bank.money":  # the construction `loan`
        yield from ("lent", "lend", "lends", "euros")


def _noun_forms(noun: Noun) -> Iterator[str]:
    yield noun.english
    if noun.english_plural not in ("-", ""):
        yield noun.english_plural


def _verb_forms(verb: Verb) -> Iterator[str]:
    yield from (verb.english, verb.third, verb.past, verb.participle)
