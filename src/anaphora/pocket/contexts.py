"""Sentences about ambiguous words: every one holds a context that decides the sense, before or after the word.

The contexts themselves are data (``pocket_senses.py``); here they are put into sentences. ``CONTEXTS`` says on which
side of the word each construction has its deciding context.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anaphora.pocket.clauses import BE, Clause, Predicate, joined
from anaphora.pocket.grammar import PAST_TIMES, PLACE, SINGULAR, WEEKDAY_TIMES, WHO, Values, phrases, times
from anaphora.pocket.lexicon import (
    ADJECTIVES,
    GIVING,
    SAYING,
    UNGRADABLE,
    VERBS,
    Adjective,
    Noun,
    adjectives_of,
    nouns_tagged,
)
from anaphora.pocket.morphology import RELATIVE
from anaphora.pocket.numbers import COUNTS
from anaphora.pocket.pocket_choices import NounPhrases, OneOf, Variant, numbers
from anaphora.pocket.pocket_phrases import COMMA, Bilingual, NounPhrase, Weaver, at_place, cardinal
from anaphora.pocket.pocket_senses import ADJECTIVE_SENSES, CONTEXT_VERBS, NOUN_SENSES, NounSense, context_noun

# Verbs that decide nothing: what can be seen can be described, and anything can be mentioned.
_NEUTRAL_VERBS = [
    CONTEXT_VERBS["describe"],
    CONTEXT_VERBS["mention"],
    *(verb for verb in VERBS if verb.english == "see"),
]


def _neutral_verbs(sense: NounSense) -> OneOf:
    return OneOf(_NEUTRAL_VERBS[:2] if sense.noun.english == "sentence" else _NEUTRAL_VERBS)


def _grades(adjective: Adjective) -> OneOf:
    """With *very*, and without, where the adjective allows it."""
    return OneOf([False] if adjective.english in UNGRADABLE else [False, True])


def _neutral(sense: NounSense) -> Callable[[Noun], list[Adjective]]:
    return lambda noun: [ADJECTIVES[a] for a in sense.neutral]


def _ambiguous(sense: NounSense, shapes: dict[str, float]) -> NounPhrases:
    return NounPhrases([sense.noun], shapes, adjectives=_neutral(sense))


def _marked(sense: NounSense, shapes: dict[str, float]) -> NounPhrases:
    """Noun phrases whose adjective decides."""
    return NounPhrases([sense.noun], shapes, adjectives=lambda noun: sense.adjectives)


def _people(kind: str = "short") -> NounPhrases:
    return phrases(("person",), kind)


def _speakers() -> NounPhrases:
    return NounPhrases(nouns_tagged("person"), {"the": 2.0, "the+": 1.0, "a": 1.0}, others=WHO)


def attributive() -> list[Variant]:
    """Before: *The child saw a muddy bank*, *the rusty cranes were very old*."""

    def seen(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], ((v["object"], "acc"),), time=v["time"]).realize(w)

    def described(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], BE, v["tense"], predicate=Predicate(v["adjective"], very=v["very"])).realize(w)

    shapes = {"the+": 2.0, "a+": 2.0, "plural+": 1.0}
    return [
        *(
            Variant(
                seen,
                subject=_people("full"),
                verb=_neutral_verbs(sense),
                tense=OneOf(["past", "perfect"]),
                time=OneOf([None]),
                object=_marked(sense, shapes),
            )
            for sense in NOUN_SENSES.values()
        ),
        *(
            Variant(
                described,
                subject=_marked(sense, {"the+": 2.0, "plural+": 1.0}),
                tense=OneOf(["past", "present"]),
                very=_grades(ADJECTIVES[a]),
                adjective=OneOf([ADJECTIVES[a]]),
            )
            for sense in NOUN_SENSES.values()
            for a in sense.neutral
        ),
    ]


def predicative() -> list[Variant]:
    """After: *The old bank was muddy*, *the teacher said that the bank was muddy*."""

    def plain(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], BE, v["tense"], predicate=Predicate(v["adjective"], very=v["very"])).realize(w)

    def said(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["speaker"], v["verb"]).realize(w)
        sub = joined(
            w, ("that", "dass"), Clause(v["subject"], BE, predicate=Predicate(v["adjective"])).realize(w, "final")
        )
        return main[0] + sub[0], main[1] + sub[1]

    shapes = {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0, "plural+": 1.0}
    return [
        *(
            Variant(
                plain,
                subject=_ambiguous(sense, {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0, "plural+": 1.0}),
                tense=OneOf(["past", "present"]),
                very=_grades(adjective),
                adjective=OneOf([adjective]),
            )
            for sense in NOUN_SENSES.values()
            for adjective in sense.adjectives
        ),
        *(
            Variant(
                said,
                speaker=_speakers(),
                verb=OneOf(SAYING),
                subject=_ambiguous(sense, shapes),
                adjective=OneOf(sense.adjectives),
            )
            for sense in NOUN_SENSES.values()
        ),
    ]


def part_of() -> list[Variant]:
    """After: *The bank of the river was very big*, *Anna saw the trunk of the oak*."""

    def described(w: Weaver, v: Values) -> Bilingual:
        subject = replace(v["subject"], of=v["whole"])
        return Clause(subject, BE, v["tense"], predicate=Predicate(v["adjective"], very=v["very"])).realize(w)

    def seen(w: Weaver, v: Values) -> Bilingual:
        thing = replace(v["object"], of=v["whole"])
        return Clause(v["subject"], v["verb"], v["tense"], ((thing, "acc"),)).realize(w)

    def but(sense: NounSense, name: str) -> Callable[[Noun], list[Adjective]]:
        return lambda noun: [ADJECTIVES[a] for a in sense.neutral if a != name]

    wholes = [sense for sense in NOUN_SENSES.values() if sense.whole]
    return [
        *(
            Variant(
                described,
                subject=NounPhrases([sense.noun], {"the": 1.0, "the+": 1.0}, adjectives=but(sense, a)),
                whole=OneOf(sense.whole),
                tense=OneOf(["past", "present"]),
                very=_grades(ADJECTIVES[a]),
                adjective=OneOf([ADJECTIVES[a]]),
            )
            for sense in wholes
            for a in sense.neutral
        ),
        *(
            Variant(
                seen,
                subject=_people("full"),
                verb=_neutral_verbs(sense),
                tense=OneOf(["past", "perfect", "future"]),
                object=_ambiguous(sense, {"the": 1.0, "the+": 1.0}),
                whole=OneOf(sense.whole),
            )
            for sense in wholes
        ),
    ]


def _subjects(names: tuple[str, ...]) -> NounPhrases:
    return NounPhrases([context_noun(n) for n in names], SINGULAR if len(names) > 1 else {"the": 1.0, "a": 1.0})


def deciding_verb() -> list[Variant]:
    """Before: *The thief robbed the old bank yesterday.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], ((v["object"], "acc"),), time=v["time"]).realize(w)

    shapes = {"the": 1.0, "the+": 2.0, "a": 1.0, "a+": 1.0, "plural": 1.0}
    return [
        Variant(
            build,
            subject=_subjects(names),
            verb=OneOf([verb]),
            tense=OneOf([tense]),
            time=time,
            object=_ambiguous(sense, shapes if sense.name != "trunk.elephant" else {"its": 1.0, "the+": 1.0}),
        )
        for sense in NOUN_SENSES.values()
        for names, verb in sense.object_of
        for tense, time in (("past", times([None, *PAST_TIMES, *WEEKDAY_TIMES])), ("perfect", OneOf([None])))
    ]


def deciding_passive() -> list[Variant]:
    """After: *The bank was robbed by the thief yesterday.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], agent=v["agent"], time=v["time"]).realize(w)

    return [
        Variant(
            build,
            subject=_ambiguous(sense, {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0}),
            verb=OneOf([verb]),
            agent=_subjects(names),
            time=times([None, *PAST_TIMES, *WEEKDAY_TIMES]),
        )
        for sense in NOUN_SENSES.values()
        for names, verb in sense.object_of
    ]


def deciding_predicate() -> list[Variant]:
    """After: *The bank hired the student*, *the man saw a crane which slept in the garden*."""

    def clause(v: Values, **more: Any) -> Clause:
        things = ((v["object"], "acc"),) if "object" in v else ()
        place = at_place(v["place"]) if "place" in v else None
        return Clause(v["subject"], v["verb"], "past", things, place=place, **more)

    def plain(w: Weaver, v: Values) -> Bilingual:
        return clause(v, time=v["time"]).realize(w)

    def seen(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["who"], v["seeing"], "past", ((v["subject"], "acc"),)).realize(w)
        which = (w.link(),)
        lead: Bilingual = ([("which", which)], [(RELATIVE["nom", v["subject"].gender], which)])
        relative = clause(v).realize(w, "final", lead=lead)
        return main[0] + relative[0], [*main[1], COMMA, *relative[1]]

    variants = []
    for sense in NOUN_SENSES.values():
        for verb, names in sense.subject_of:
            more: dict[str, Any] = {"verb": OneOf([verb])}
            if names:
                more["object"] = NounPhrases([context_noun(n) for n in names], {"the": 1.0, "the+": 1.0, "a": 1.0})
            elif verb.english not in ("begin", "arrive"):
                more["place"] = NounPhrases(nouns_tagged("garden", "park", "beach"), PLACE)
            shapes = {"the": 1.0, "the+": 2.0, "a": 1.0, "a+": 1.0, "plural": 1.0, "plural+": 1.0}
            when = times([*PAST_TIMES, *WEEKDAY_TIMES]) if "object" not in more else times([None, *PAST_TIMES])
            variants.append(Variant(plain, subject=_ambiguous(sense, shapes), time=when, **more))
            if "object" in more or "place" in more:
                variants.append(
                    Variant(
                        seen,
                        who=_people("full"),
                        seeing=_neutral_verbs(sense),
                        subject=_ambiguous(sense, shapes),
                        **more,
                    )
                )
    return variants


def relative_context() -> list[Variant]:
    """After: *The hunter found a spring which was very rusty.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        thing: NounPhrase = v["object"]
        main = Clause(v["who"], v["verb"], v["tense"], ((thing, "acc"),)).realize(w)
        which = (w.link(),)
        lead: Bilingual = ([("which", which)], [(RELATIVE["nom", thing.gender], which)])
        relative = Clause(thing, BE, predicate=Predicate(v["adjective"], very=v["very"])).realize(w, "final", lead=lead)
        return main[0] + relative[0], [*main[1], COMMA, *relative[1]]

    return [
        Variant(
            build,
            who=_people("full"),
            verb=_neutral_verbs(sense),
            tense=OneOf(["past", "perfect"]),
            very=_grades(adjective),
            object=_ambiguous(sense, {"the": 1.0, "a": 1.0, "a+": 1.0, "plural": 1.0}),
            adjective=OneOf([adjective]),
        )
        for sense in NOUN_SENSES.values()
        for adjective in sense.adjectives
    ]


def loan() -> list[Variant]:
    """After: *The bank lent the farmer five hundred euros.*"""
    lend = next(verb for verb in GIVING if verb.english == "lend")

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["subject"], lend, "past", ((v["receiver"], "dat"),)).realize(w)
        number = cardinal(w, v["number"])
        euros = (w.link(),)
        return [*main[0], *number[0], ("euros", euros)], [*main[1], *number[1], ("Euro", euros)]

    bank = NOUN_SENSES["bank.money"]
    return [
        Variant(
            build,
            subject=_ambiguous(bank, {"the": 1.0, "the+": 1.0, "a": 1.0}),
            receiver=_people("small"),
            number=numbers(COUNTS),
        )
    ]


def adjective_attributive() -> list[Variant]:
    """After: *The doctor saw a sick dog*; the noun decides."""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], ((v["object"], "acc"),)).realize(w)

    variants = []
    for adjective, nouns in ADJECTIVE_SENSES:
        shapes = {"the+": 1.0, "a+": 1.5}
        if all(noun.english_plural != "-" for noun in nouns) and "place" not in nouns[0].tags:
            shapes |= {"plural+": 1.0, "bare+": 0.5}
        described = NounPhrases(nouns, shapes, adjectives=lambda noun, a=adjective: [a])  # type: ignore[misc]
        tenses = OneOf(["past", "perfect", "future"])
        variants.append(
            Variant(build, subject=_people("full"), verb=OneOf(_NEUTRAL_VERBS), tense=tenses, object=described)
        )
    return variants


def adjective_predicative() -> list[Variant]:
    """Before: *The trick was very sick*, *the boy said that the trick was sick*; the noun decides."""

    def plain(w: Weaver, v: Values) -> Bilingual:
        predicate = Predicate(v["adjective"], very=v["very"])
        return Clause(v["subject"], BE, v["tense"], predicate=predicate, negated=v["negated"]).realize(w)

    def said(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["speaker"], v["verb"]).realize(w)
        sub = Clause(v["subject"], BE, predicate=Predicate(v["adjective"], very=v["very"])).realize(w, "final")
        sub = joined(w, ("that", "dass"), sub)
        return main[0] + sub[0], main[1] + sub[1]

    def others(noun: Noun) -> list[Adjective]:
        # A heavy box is not light, and a dark kitchen is not either.
        return [a for a in adjectives_of(noun) if a.english not in ("heavy", "dark")]

    variants = []
    for adjective, nouns in ADJECTIVE_SENSES:
        shapes = {"the": 1.0, "the+": 2.0} if adjectives_of(nouns[0]) else {"the": 1.0}
        if all(noun.english_plural != "-" for noun in nouns) and "place" not in nouns[0].tags:
            shapes |= {"plural": 1.0}
        subject, chosen = NounPhrases(nouns, shapes, adjectives=others), OneOf([adjective])
        for very, negated in ((True, False), (False, False), (False, True)):
            grade = {"very": OneOf([very]), "negated": OneOf([negated])}
            variants.append(
                Variant(plain, subject=subject, adjective=chosen, tense=OneOf(["past", "present"]), **grade)
            )
        saying, very_or_not = OneOf(SAYING), OneOf([False, True])
        variants.append(
            Variant(said, speaker=_speakers(), verb=saying, subject=subject, adjective=chosen, very=very_or_not)
        )
    return variants


# construction -> (weight, variants, side of the context)
CONTEXTS: dict[str, tuple[float, Callable[[], list[Variant]], str]] = {
    "context-attributive": (10, attributive, "before"),
    "context-predicative": (8, predicative, "after"),
    "context-part-of": (6, part_of, "after"),
    "context-verb": (10, deciding_verb, "before"),
    "context-passive": (8, deciding_passive, "after"),
    "context-predicate": (8, deciding_predicate, "after"),
    "context-relative": (6, relative_context, "after"),
    "context-loan": (3, loan, "after"),
    "context-adjective-attributive": (7, adjective_attributive, "after"),
    "context-adjective-predicative": (6, adjective_predicative, "before"),
}
