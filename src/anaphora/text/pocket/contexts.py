"""Sentences about ambiguous words: every one holds a context that decides the sense, before or after the word.

The contexts themselves are data (``senses.py``); here they are put into sentences. ``DECIDED`` says on which side of the
word each construction has its deciding context.
"""

from collections.abc import Callable
from typing import Any

from anaphora.text.pocket.choices import NounPhrases, OneOf, Variant, numbers
from anaphora.text.pocket.clauses import BE, Clause, Predicate, joined
from anaphora.text.pocket.grammar import PAST_TIMES, SAYING, SINGULAR, VERBS, WEEKDAY_TIMES, WHO, Values, phrases, times
from anaphora.text.pocket.lexicon import ADJECTIVES, GIVING, Adjective, Noun, Verb, adjectives_of, nouns_tagged
from anaphora.text.pocket.morphology import RELATIVE
from anaphora.text.pocket.numbers import COUNTS, english_cardinal, german_cardinal
from anaphora.text.pocket.phrases import COMMA, Bilingual, NounPhrase, Weaver, at_place
from anaphora.text.pocket.senses import ADJECTIVE_SENSES, NOUN_SENSES, NounSense, context_noun

# Verbs that decide nothing: anything can be seen or found.
NEUTRAL_VERBS = [verb for verb in VERBS if verb.english in ("see", "find", "paint")]


def _neutral(sense: NounSense) -> Callable[[Noun], list[Adjective]]:
    return lambda noun: [ADJECTIVES[a] for a in sense.neutral]


def _ambiguous(sense: NounSense, shapes: dict[str, float]) -> NounPhrases:
    return NounPhrases([sense.noun], shapes, adjectives=_neutral(sense))


def _marked(sense: NounSense, shapes: dict[str, float]) -> NounPhrases:
    """Noun phrases whose adjective decides."""
    return NounPhrases([sense.noun], shapes, adjectives=lambda noun: sense.adjectives)


def _people(kind: str = "short") -> NounPhrases:
    return phrases(("person",), kind)


def attributive() -> list[Variant]:
    """Before: *The child saw a muddy bank*, *the rusty cranes were very old*."""

    def seen(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], ((v["object"], "acc"),), time=v["time"]).realise(w)

    def described(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], BE, v["tense"], predicate=Predicate(v["adjective"], very=True)).realise(w)

    shapes = {"the+": 2.0, "a+": 2.0, "plural+": 1.0}
    return [
        *(
            Variant(seen, subject=_people("full"), verb=OneOf(NEUTRAL_VERBS), tense=OneOf(["past", "perfect"]), time=OneOf([None]), object=_marked(sense, shapes))
            for sense in NOUN_SENSES.values()
        ),
        *(
            Variant(described, subject=_marked(sense, {"the+": 2.0, "plural+": 1.0}), tense=OneOf(["past", "present"]), adjective=OneOf([ADJECTIVES[a] for a in sense.neutral]))
            for sense in NOUN_SENSES.values()
        ),
    ]  # fmt: skip


def predicative() -> list[Variant]:
    """After: *The old bank was muddy*, *the teacher said that the bank was muddy*."""

    def plain(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], BE, v["tense"], predicate=Predicate(v["adjective"], very=v["very"])).realise(w)

    def said(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["speaker"], v["verb"]).realise(w)
        sub = joined(w, ("that", "dass"), Clause(v["subject"], BE, predicate=Predicate(v["adjective"])).realise(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    shapes = {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0, "plural+": 1.0}
    speakers = NounPhrases(nouns_tagged("person"), {"the": 2.0, "the+": 1.0, "a": 1.0}, others=WHO)
    return [
        *(
            Variant(plain, subject=_ambiguous(sense, {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0, "plural+": 1.0}), tense=OneOf(["past", "present"]), very=OneOf([False, True]), adjective=OneOf(sense.adjectives))
            for sense in NOUN_SENSES.values()
        ),
        *(
            Variant(said, speaker=speakers, verb=OneOf(SAYING), subject=_ambiguous(sense, shapes), adjective=OneOf(sense.adjectives))
            for sense in NOUN_SENSES.values()
        ),
    ]  # fmt: skip


def part_of() -> list[Variant]:
    """After: *The bank of the river was very big*, *Anna saw the trunk of the oak*."""

    def described(w: Weaver, v: Values) -> Bilingual:
        subject = NounPhrase(v["subject"].noun, v["subject"].determiner, v["subject"].adjective, v["subject"].plural, of=v["whole"])
        return Clause(subject, BE, v["tense"], predicate=Predicate(v["adjective"], very=v["very"])).realise(w)

    def seen(w: Weaver, v: Values) -> Bilingual:
        thing = NounPhrase(v["object"].noun, v["object"].determiner, v["object"].adjective, v["object"].plural, of=v["whole"])
        return Clause(v["subject"], v["verb"], v["tense"], ((thing, "acc"),)).realise(w)

    def only(adjective: Adjective) -> Callable[[Noun], list[Adjective]]:
        return lambda noun: [adjective]

    wholes = [sense for sense in NOUN_SENSES.values() if sense.whole]
    return [
        *(
            Variant(described, subject=NounPhrases([sense.noun], {"the": 1.0, "the+": 1.0}, adjectives=only(ADJECTIVES[other])), whole=OneOf(sense.whole), tense=OneOf(["past", "present"]), very=OneOf([True]), adjective=OneOf([ADJECTIVES[a]]))
            for sense in wholes
            for a in sense.neutral
            for other in sense.neutral
            if other != a
        ),
        *(
            Variant(seen, subject=_people("full"), verb=OneOf(NEUTRAL_VERBS), tense=OneOf(["past", "perfect", "future"]), object=_ambiguous(sense, {"the": 1.0, "the+": 1.0}), whole=OneOf(sense.whole))
            for sense in wholes
        ),
    ]  # fmt: skip


def _subjects(names: tuple[str, ...]) -> NounPhrases:
    return NounPhrases([context_noun(n) for n in names], SINGULAR if len(names) > 1 else {"the": 1.0, "a": 1.0})


def deciding_verb() -> list[Variant]:
    """Before: *The thief robbed the old bank yesterday.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], ((v["object"], "acc"),), time=v["time"]).realise(w)

    shapes = {"the": 1.0, "the+": 2.0, "a": 1.0, "a+": 1.0, "plural": 1.0}
    return [
        Variant(build, subject=_subjects(names), verb=OneOf([verb]), tense=OneOf([tense]), time=time,
                object=_ambiguous(sense, shapes if sense.name != "trunk.elephant" else {"its": 1.0, "the+": 1.0}))
        for sense in NOUN_SENSES.values()
        for names, verb in sense.object_of
        for tense, time in (("past", times([None, *PAST_TIMES, *WEEKDAY_TIMES])), ("perfect", OneOf([None])))
    ]  # fmt: skip


def deciding_passive() -> list[Variant]:
    """After: *The bank was robbed by the thief yesterday.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], agent=v["agent"], time=v["time"]).realise(w)

    return [
        Variant(build, subject=_ambiguous(sense, {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0}), verb=OneOf([verb]),
                agent=_subjects(names), time=times([None, *PAST_TIMES, *WEEKDAY_TIMES]))
        for sense in NOUN_SENSES.values()
        for names, verb in sense.object_of
    ]  # fmt: skip


def deciding_predicate() -> list[Variant]:
    """After: *The bank hired the student*, *the man saw a crane which slept in the garden*."""

    def clause(v: Values, **more: Any) -> Clause:
        things = ((v["object"], "acc"),) if "object" in v else ()
        place = at_place(v["place"]) if "place" in v else None
        return Clause(v["subject"], v["verb"], "past", things, place=place, **more)

    def plain(w: Weaver, v: Values) -> Bilingual:
        return clause(v, time=v["time"]).realise(w)

    def seen(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["who"], v["seeing"], "past", ((v["subject"], "acc"),)).realise(w)
        which = (w.link(),)
        lead: Bilingual = ([("which", which)], [(RELATIVE["nom", v["subject"].gender], which)])
        relative = clause(v).realise(w, "final", lead=lead)
        return main[0] + relative[0], [*main[1], COMMA, *relative[1]]

    variants = []
    for sense in NOUN_SENSES.values():
        for verb, names in sense.subject_of:
            more: dict[str, Any] = {"verb": OneOf([verb])}
            if names:
                more["object"] = NounPhrases([context_noun(n) for n in names], {"the": 1.0, "the+": 1.0, "a": 1.0})
            elif verb.english not in ("begin", "arrive"):
                more["place"] = NounPhrases(nouns_tagged("garden", "park", "forest", "village", "kitchen"), {"the": 2.0, "the+": 1.0})
            shapes = {"the": 1.0, "the+": 2.0, "a": 1.0, "a+": 1.0, "plural": 1.0, "plural+": 1.0}
            when = times([*PAST_TIMES, *WEEKDAY_TIMES]) if "object" not in more else times([None, *PAST_TIMES])  # type: ignore[list-item]
            variants.append(Variant(plain, subject=_ambiguous(sense, shapes), time=when, **more))
            if "object" in more or "place" in more:
                variants.append(Variant(seen, who=_people("full"), seeing=OneOf(NEUTRAL_VERBS), subject=_ambiguous(sense, shapes), **more))
    return variants


def relative_context() -> list[Variant]:
    """After: *The hunter found a spring which was very rusty.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        thing: NounPhrase = v["object"]
        main = Clause(v["who"], v["verb"], v["tense"], ((thing, "acc"),)).realise(w)
        which = (w.link(),)
        lead: Bilingual = ([("which", which)], [(RELATIVE["nom", thing.gender], which)])
        relative = Clause(thing, BE, predicate=Predicate(v["adjective"], very=v["very"])).realise(w, "final", lead=lead)
        return main[0] + relative[0], [*main[1], COMMA, *relative[1]]

    return [
        Variant(build, who=_people("full"), verb=OneOf(NEUTRAL_VERBS), tense=OneOf(["past", "perfect"]), very=OneOf([False, True]),
                object=_ambiguous(sense, {"the": 1.0, "a": 1.0, "a+": 1.0, "plural": 1.0}), adjective=OneOf(sense.adjectives))
        for sense in NOUN_SENSES.values()
    ]  # fmt: skip


def loan() -> list[Variant]:
    """After: *The bank lent the farmer five hundred euros.*"""
    lend = next(verb for verb in GIVING if verb.english == "lend")

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["subject"], lend, "past", ((v["receiver"], "dat"),)).realise(w)
        number = [(part, (w.link(),)) for part in english_cardinal(v["number"]).split()]
        euros = (w.link(),)
        w.facts.append(f"number:{v['number']}")
        german = (german_cardinal(v["number"]), tuple(link for _, ids in number for link in ids))
        return [*main[0], *number, ("euros", euros)], [*main[1], german, ("Euro", euros)]

    bank = NOUN_SENSES["bank.money"]
    return [
        Variant(build, subject=_ambiguous(bank, {"the": 1.0, "the+": 1.0, "a": 1.0}), receiver=_people("small"), number=numbers(COUNTS))
    ]


def adjective_senses() -> list[Variant]:
    """After: *The doctor saw a sick dog*; before: *the trick was very sick*."""

    def attributed(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], ((v["object"], "acc"),), time=v["time"]).realise(w)

    def predicated(w: Weaver, v: Values) -> Bilingual:
        clause = Clause(v["subject"], BE, v["tense"], predicate=Predicate(v["adjective"], very=v["very"]), negated=v["negated"])
        return clause.realise(w)

    variants = []
    for adjective, nouns in ADJECTIVE_SENSES:
        animate = adjective.sense == "sick.ill"
        see = [verb for verb in VERBS if verb.english in (("see", "help", "find") if animate else ("see", "find"))]
        see = [verb for verb in see if verb.object_case == "acc"]
        shapes = {"the+": 1.0, "a+": 1.5} if any(n.english_plural == "-" for n in nouns) else {"the+": 1.0, "a+": 1.0, "plural+": 1.0, "bare+": 0.5}
        plain = {"the": 1.0, "the+": 1.0, "this": 1.0} if any(n.english_plural == "-" for n in nouns) else {"the": 1.0, "the+": 1.0, "this": 1.0, "plural": 1.0}
        this: Callable[[Noun], list[Adjective]] = lambda noun, a=adjective: [a]  # noqa: E731
        variants.append(Variant(attributed, subject=_people("full"), verb=OneOf(see), tense=OneOf(["past", "perfect", "future"]), time=times([None]), object=NounPhrases(nouns, shapes, adjectives=this)))  # type: ignore[list-item]
        other: Callable[[Noun], list[Adjective]] = lambda noun: [a for a in adjectives_of(noun) if a.english not in ("heavy", "dark")]  # noqa: E731
        variants.append(Variant(predicated, subject=NounPhrases(nouns, plain, adjectives=other), tense=OneOf(["past", "present"]), very=OneOf([True, False]), negated=OneOf([False]), adjective=OneOf([adjective])))
    return variants


_UNUSED = Verb

# construction -> (weight, variants, side of the context)
CONTEXTS: dict[str, tuple[float, Callable[[], list[Variant]], str]] = {
    "context-attributive": (7, attributive, "before"),
    "context-predicative": (6, predicative, "after"),
    "context-part-of": (4, part_of, "after"),
    "context-verb": (7, deciding_verb, "before"),
    "context-passive": (6, deciding_passive, "after"),
    "context-predicate": (6, deciding_predicate, "after"),
    "context-relative": (4, relative_context, "after"),
    "context-loan": (1, loan, "after"),
    "context-adjective": (6, adjective_senses, "both"),
}
