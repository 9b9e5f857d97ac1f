"""Sentences of one clause: statements, questions, negation, passive.

Each function below makes one construction's variants. Tenses correspond one to one, so that every English sentence
has exactly one translation: simple past is Präteritum, *has* + participle is Perfekt, *will* is *werden*; *you* and
other words whose translation no context would decide do not occur.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from anaphora.pocket.clauses import BE, Clause, Predicate
from anaphora.pocket.lexicon import (
    ADJECTIVES,
    GIVING,
    HABITS,
    LOUD,
    MANNERS,
    MODALS,
    MOTION,
    STATIVE,
    UNGRADABLE,
    VERBS,
    Adjective,
    Noun,
    Verb,
    adjectives_of,
    nouns_tagged,
)
from anaphora.pocket.numbers import DATES, MONTHS, WEEKDAYS
from anaphora.pocket.pocket_choices import NounPhrases, OneOf, Variant
from anaphora.pocket.pocket_phrases import (
    Bilingual,
    NounPhrase,
    Time,
    Weaver,
    at_place,
    date,
    one_to_one,
    to_place,
)
from anaphora.pocket.pocket_senses import EAT_ANIMAL, EAT_PERSON, KNOW_PERSON

Values = dict[str, Any]

INTRANSITIVE = [verb for verb in VERBS if not verb.objects]
TRANSITIVE = [*(verb for verb in VERBS if verb.objects), EAT_PERSON, EAT_ANIMAL, KNOW_PERSON]
PRESENT = [verb for verb in TRANSITIVE if verb.english in HABITS]
EVENTS = [verb for verb in TRANSITIVE if verb.english not in STATIVE]

# Subjects of single clauses, of longer sentences (short, so that none has more than 20 words), and objects.
FULL = {"the": 3.0, "the+": 4.0, "a": 1.0, "a+": 1.5, "plural": 1.0, "plural+": 1.0}
SHORT = {"the": 3.0, "the+": 2.0, "a": 1.0, "plural": 1.0}
WHO = {"name": 1.0, "he": 0.4, "she": 0.4, "they": 0.4, "we": 0.4}
OBJECT = {
    "the": 2.0,
    "the+": 2.5,
    "a": 1.5,
    "a+": 2.5,
    "plural": 0.7,
    "plural+": 0.7,
    "bare+": 1.0,
    "count": 1.2,
    "count+": 1.2,
}
SMALL_OBJECT = {"the": 2.0, "the+": 2.0, "a": 1.5, "a+": 1.5, "plural": 0.7}
SINGULAR = {"the": 2.0, "the+": 2.0, "a": 1.0, "a+": 1.0}
PLACE = {"the": 3.0, "the+": 2.0}
MASS = {"the": 1.0, "mass+": 2.0}

WEEKDAY_TIMES = [Time(("on", d), ("am", g), ((0,), (1,))) for d, g in WEEKDAYS.items()]
MONTH_TIMES = [Time(("in", m), ("im", g), ((0,), (1,))) for m, (g, _) in MONTHS.items()]
DAY_TIMES = [
    Time(("in", "the", "morning"), ("am", "Morgen"), ((0, 1), (2,))),
    Time(("in", "the", "evening"), ("am", "Abend"), ((0, 1), (2,))),
]
PAST_TIMES = [one_to_one("yesterday", "gestern"), one_to_one("last week", "letzte Woche")]
FUTURE_TIMES = [one_to_one("tomorrow", "morgen"), one_to_one("next week", "nächste Woche")]
PRESENT_TIMES = [one_to_one("today", "heute"), one_to_one("every day", "jeden Tag")]
DATE_TIMES = [date(day, month) for day, month in DATES]


@cache
def phrases(tags: tuple[str, ...], kind: str) -> NounPhrases:
    """Noun phrases over the nouns with these tags; ``kind`` names the shapes."""
    nouns = nouns_tagged(*tags)
    people = [n for n in nouns if n.tags & {"person", "suspect"}]
    if "drink" in tags:
        return NounPhrases(nouns, MASS)
    shapes = {
        "full": FULL,
        "short": SHORT,
        "object": OBJECT,
        "small": SMALL_OBJECT,
        "receiver": SMALL_OBJECT,
        "singular": SINGULAR,
        "place": PLACE,
        "plain": {"the": 1.0},
    }[kind]
    if people and kind in ("object", "small", "receiver"):  # nobody invites three hundred aunts
        shapes = {"the": 3.0, "the+": 3.0, "a": 1.0, "a+": 1.0, "plural": 1.0}
    others: dict[str, float] = {}
    if "person" in tags and kind == "full":
        others = WHO
    elif "person" in tags and kind in ("short", "receiver"):
        others = {"name": 0.8}  # not as an object: *Anna called Peter* is too short for a sentence of the corpus
    return NounPhrases(nouns, shapes, others=others)


def objects(verb: Verb, kind: str = "object") -> NounPhrases:
    """What the verb can be done to."""
    return phrases(verb.objects, kind)


def subjects(verb: Verb, kind: str = "full") -> NounPhrases:
    """Who does what the verb says."""
    return phrases(verb.subjects, kind)


def without(adjective: Adjective) -> Callable[[Noun], list[Adjective]]:
    """A noun's adjectives but one, which the sentence says elsewhere."""
    return lambda noun: [a for a in adjectives_of(noun) if a is not adjective]


def times(*lists: Sequence[Time | None]) -> OneOf:
    """One choice over several lists of times."""
    return OneOf([time for part in lists for time in part])


def transitive_clause(v: Values, tense: str, **more: Any) -> Clause:
    """Subject, verb and object from a variant's slots."""
    verb: Verb = v["verb"]
    return Clause(v["subject"], verb, tense, ((v["object"], verb.object_case),), time=v.get("time"), **more)


def simple(order: Any = "main", tense: str = "past", **more: Any) -> Callable[[Weaver, Values], Bilingual]:
    """A builder for sentences that are one transitive clause."""
    return lambda w, v: transitive_clause(v, v.get("tense", tense), **more).realize(w, order)


def intransitive() -> list[Variant]:
    """*The old farmer slept in the garden.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], place=at_place(v["place"]), manner=v["manner"], time=v["time"]).realize(
            w
        )

    places = phrases(("place",), "place")
    return [
        Variant(build, verb=OneOf([verb]), subject=subjects(verb), place=places, manner=OneOf(manner), time=time)
        for verb in INTRANSITIVE
        for manner, time in (
            ([None], OneOf([None])),
            ([None], times(PAST_TIMES, DAY_TIMES, WEEKDAY_TIMES)),
            (list(MANNERS.items()) if verb.english in LOUD else list(MANNERS.items())[:1], OneOf([None])),
        )
    ]


def transitive() -> list[Variant]:
    """*The old farmer bought twenty-three red apples last week.*"""
    return [
        Variant(simple(), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb), time=time)
        for verb in TRANSITIVE
        for time in (OneOf([None]), times(PAST_TIMES, DAY_TIMES, MONTH_TIMES, WEEKDAY_TIMES))
        if time.count == 1 or verb in EVENTS
    ]


def time_first() -> list[Variant]:
    """*Yesterday the farmer bought a dog*: German keeps its finite verb second."""
    when = times(PAST_TIMES, DAY_TIMES, MONTH_TIMES, WEEKDAY_TIMES)
    return [
        Variant(
            simple("time-first"), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb, "small"), time=when
        )
        for verb in EVENTS
    ]


def dated() -> list[Variant]:
    """*The nurse found the key on the third of May*, *on the third of May the nurse found the key*."""
    return [
        Variant(simple(order), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb), time=OneOf(DATE_TIMES))
        for verb in EVENTS
        for order in ("main", "time-first")
    ]


def present() -> list[Variant]:
    """*The cook drinks cold milk every day.*"""
    return [
        Variant(
            simple(tense="present"),
            verb=OneOf([verb]),
            subject=subjects(verb),
            object=objects(verb, "small"),
            time=times(PRESENT_TIMES, DAY_TIMES) if verb in EVENTS else OneOf([None]),
        )
        for verb in PRESENT
    ]


def perfect() -> list[Variant]:
    """*The king has found the key*: the participle closes the German clause."""
    return [
        Variant(simple(tense="perfect"), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb))
        for verb in EVENTS
    ]


def modal_and_future() -> list[Variant]:
    """*The doctor must help the child today*, *we will visit the aunt tomorrow*."""
    return [
        Variant(
            simple(),
            verb=OneOf([verb]),
            subject=subjects(verb),
            object=objects(verb, "small"),
            tense=OneOf(tenses),
            time=times([None], time),
        )
        for verb in EVENTS
        if verb.english not in ("lose", "steal")
        for tenses, time in (
            ([*MODALS], [*PRESENT_TIMES[:1], *FUTURE_TIMES]),
            (["future"], [*FUTURE_TIMES, *WEEKDAY_TIMES]),
        )
    ]


def negation() -> list[Variant]:
    """*The farmer did not sell the horse*: *nicht* follows a definite object."""

    def definites(verb: Verb) -> NounPhrases:
        shapes = {"the": 2.0, "the+": 2.0}
        if "drink" not in verb.objects:
            shapes |= {"plural": 1.0}
            if "person" not in verb.objects:  # *this aunt* would ask for other aunts
                shapes |= {"this": 1.0}
        return NounPhrases(nouns_tagged(*verb.objects), shapes)

    return [
        Variant(
            simple(negated=True),
            verb=OneOf([verb]),
            subject=subjects(verb),
            object=definites(verb),
            tense=OneOf(["past", "perfect", "future"] if verb in EVENTS else ["past"]),
        )
        for verb in TRANSITIVE
    ]


def giving() -> list[Variant]:
    """*The teacher gave the child a red apple*: the receiver is a dative."""

    def build(w: Weaver, v: Values) -> Bilingual:
        given = ((v["receiver"], "dat"), (v["object"], "acc"))
        return Clause(v["subject"], v["verb"], v["tense"], given, time=v["time"]).realize(w)

    return [
        Variant(
            build,
            verb=OneOf([verb]),
            subject=subjects(verb),
            receiver=phrases(("person", "thief"), "receiver"),
            object=objects(verb),
            tense=OneOf([tense]),
            time=time,
        )
        for verb in GIVING
        for tense, time in (
            ("past", OneOf([None])),
            ("past", times(PAST_TIMES, WEEKDAY_TIMES)),
            ("perfect", OneOf([None])),
        )
    ]


def motion() -> list[Variant]:
    """*The nurse hurried to the station yesterday.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], place=to_place(v["place"]), time=v["time"]).realize(w)

    return [
        Variant(
            build,
            verb=OneOf([verb]),
            subject=subjects(verb),
            place=phrases(("goal",), "place"),
            tense=OneOf([tense]),
            time=time,
        )
        for verb in MOTION
        for tense, time in (
            ("past", times(PAST_TIMES, DAY_TIMES, WEEKDAY_TIMES)),
            ("past", OneOf(DATE_TIMES)),
            ("perfect", OneOf([None])),
            ("future", times(FUTURE_TIMES)),
        )
    ]


def description() -> list[Variant]:
    """*The old house was very small*, *this apple is not fresh*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        predicate = Predicate(v["adjective"], very=v["very"])
        return Clause(v["subject"], BE, v["tense"], predicate=predicate, negated=v["negated"]).realize(w)

    shapes = {"the": 1.0, "the+": 2.0, "plural": 1.0, "plural+": 1.0}
    things = {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0, "plural+": 1.0}
    places = {"the": 1.0, "the+": 2.0, "this": 1.0}
    kinds = ((("person",), shapes), (("animal", "food", "object", "readable"), things), (("place",), places))
    return [
        Variant(
            build,
            adjective=OneOf([adjective]),
            very=OneOf([very]),
            negated=OneOf([negated]),
            tense=OneOf(["past", "present"]),
            subject=NounPhrases(nouns, shapes, adjectives=without(adjective)),
        )
        for adjective in ADJECTIVES.values()
        for tags, shapes in kinds
        if (nouns := [n for n in nouns_tagged(*tags) if adjective in adjectives_of(n)])
        for very, negated in ((True, False), (False, True))
        if not (very and adjective.english in UNGRADABLE)
    ]


def comparison() -> list[Variant]:
    """*The fox is faster than the old dog.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], BE, v["tense"], predicate=Predicate(v["adjective"], than=v["than"])).realize(w)

    variants = []
    for adjective in ADJECTIVES.values():
        if adjective.german_comparative == "-":
            continue
        for group in ("person", "animal", "food", "object", "readable", "place"):
            nouns = [n for n in nouns_tagged(group) if adjective in adjectives_of(n)]
            if len(nouns) >= 3:
                side = NounPhrases(
                    nouns,
                    {"the": 2.0, "the+": 1.0, **({"plural": 1.0} if group != "place" else {})},
                    adjectives=without(adjective),
                )
                variants.append(
                    Variant(
                        build, adjective=OneOf([adjective]), tense=OneOf(["past", "present"]), subject=side, than=side
                    )
                )
    return variants


def possession() -> list[Variant]:
    """*The woman sold her old car*, *the child found the farmer's dog*."""
    own = [
        v
        for v in TRANSITIVE
        if v.english in ("sell", "find", "lose", "wash", "repair", "open", "need", "feed", "read", "carry")
    ]
    men = [n for n in nouns_tagged("person") if n.gender == "m"]
    women = [n for n in nouns_tagged("person") if n.gender == "f"]

    def build(w: Weaver, v: Values) -> Bilingual:
        thing = v["object"]
        if "owner" in v:
            thing = NounPhrase(thing.noun, None, thing.adjective, owner=v["owner"].noun)
        return Clause(v["subject"], v["verb"], v["tense"], ((thing, "acc"),)).realize(w)

    return [
        *(
            Variant(
                build,
                verb=OneOf([verb]),
                tense=OneOf(["past", "perfect"]),
                subject=NounPhrases(people, SINGULAR),
                object=NounPhrases(nouns_tagged(*verb.objects), {word: 1.0, f"{word}+": 1.0}),
            )
            for verb in own
            for word, people in (("his", men), ("her", women))
        ),
        *(
            Variant(
                build,
                verb=OneOf([verb]),
                tense=OneOf(["past"]),
                subject=subjects(verb, "short"),
                owner=phrases(("owner",), "plain"),
                object=NounPhrases(nouns_tagged(*verb.objects), {"the": 1.0, "the+": 1.0}),
            )
            for verb in own
        ),
    ]


def passive() -> list[Variant]:
    """*The letter was written by the teacher*: the agent is *von* with the dative."""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], agent=v["agent"], time=v["time"]).realize(w)

    return [
        Variant(
            build,
            verb=OneOf([verb]),
            subject=NounPhrases(nouns_tagged(*verb.objects), {"the": 2.0, "the+": 2.0, "plural": 1.0}),
            agent=phrases(verb.subjects, "short"),
            time=time,
        )
        for verb in TRANSITIVE
        if verb.passive
        for time in (OneOf([None]), times(PAST_TIMES, WEEKDAY_TIMES))
    ]


def yes_no_question() -> list[Variant]:
    """*Has the king found the key?*"""
    return [
        Variant(
            simple("question"),
            verb=OneOf([verb]),
            subject=subjects(verb),
            object=objects(verb, "small"),
            tense=OneOf(tenses),
        )
        for verb in EVENTS
        for tenses in (["perfect"], ["can", "must", "future", "present"])
    ]


def who_question() -> list[Variant]:
    """*Who bought the old car yesterday?*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        who = (w.link(),)
        lead: Bilingual = ([("who", who)], [("wer", who)])
        verb: Verb = v["verb"]
        clause = Clause(NounPhrase("he"), verb, v["tense"], ((v["object"], verb.object_case),), time=v["time"])
        return clause.realize(w, lead=lead)

    human = [verb for verb in EVENTS if "person" in verb.subjects or "suspect" in verb.subjects]
    return [
        Variant(build, verb=OneOf([verb]), object=objects(verb), tense=OneOf([tense]), time=time)
        for verb in human
        for tense, time in (
            ("past", times(PAST_TIMES, DAY_TIMES, WEEKDAY_TIMES)),
            ("perfect", OneOf([None])),
            ("future", times(FUTURE_TIMES)),
        )
    ]


# construction -> (weight, variants, final mark)
CONSTRUCTIONS: dict[str, tuple[float, Callable[[], list[Variant]], str]] = {
    "intransitive": (3, intransitive, "."),
    "transitive": (7, transitive, "."),
    "time-first": (3, time_first, "."),
    "dated": (12, dated, "."),
    "present": (3, present, "."),
    "perfect": (4, perfect, "."),
    "modal-and-future": (4, modal_and_future, "."),
    "negation": (3, negation, "."),
    "giving": (4, giving, "."),
    "motion": (3, motion, "."),
    "description": (3, description, "."),
    "comparison": (3, comparison, "."),
    "possession": (3, possession, "."),
    "passive": (3, passive, "."),
    "yes-no-question": (3, yes_no_question, "?"),
    "who-question": (2, who_question, "?"),
}
