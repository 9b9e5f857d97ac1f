"""The constructions of the grammar: simple sentences, subordinate clauses, questions, numbers.

Each function below makes one construction's variants; the sentences about ambiguous words are in ``contexts.py``. The tables
of the mapping are fixed so that every English sentence has exactly one translation: simple past is Präteritum, *has*
+ participle is Perfekt, *will* is *werden*, *you* and other pronouns with two translations do not occur.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from anaphora.text.pocket.choices import NounPhrases, OneOf, Variant, numbers
from anaphora.text.pocket.clauses import BE, Clause, Predicate, joined
from anaphora.text.pocket.lexicon import (
    ADJECTIVES,
    GIVING,
    MANNERS,
    MODALS,
    MOTION,
    NOUNS,
    SAYING,
    VERBS,
    Noun,
    Verb,
    adjectives_of,
    nouns_tagged,
)
from anaphora.text.pocket.morphology import RELATIVE
from anaphora.text.pocket.numbers import COUNTS, DATES, MONTHS, WEEKDAYS, english_cardinal, german_cardinal
from anaphora.text.pocket.phrases import (
    COMMA,
    Bilingual,
    NounPhrase,
    Pronoun,
    Time,
    Tokens,
    Weaver,
    at_place,
    date,
    one_to_one,
    to_place,
)
from anaphora.text.pocket.senses import EAT_ANIMAL, EAT_PERSON, KNOW_FACT, KNOW_PERSON

Values = dict[str, Any]

INTRANSITIVE = [verb for verb in VERBS if not verb.objects]
TRANSITIVE = [*(verb for verb in VERBS if verb.objects), EAT_PERSON, EAT_ANIMAL, KNOW_PERSON]
# *They read a book* is present or past: the present tense does without such verbs.
PRESENT = [verb for verb in TRANSITIVE if verb.english != verb.past]

# Subjects of single clauses, of longer sentences (short, so that none has more than 20 words), and objects.
FULL = {"the": 3.0, "the+": 4.0, "a": 1.0, "a+": 1.5, "plural": 1.0, "plural+": 1.0}
SHORT = {"the": 3.0, "the+": 2.0, "a": 1.0, "plural": 1.0}
WHO = {"name": 1.0, "he": 0.4, "she": 0.4, "they": 0.4, "we": 0.4}
OBJECT = {"the": 2.0, "the+": 2.5, "a": 1.5, "a+": 2.5, "plural": 0.7, "plural+": 0.7, "bare+": 1.0, "count": 0.6, "count+": 0.6}  # fmt: skip
SMALL_OBJECT = {"the": 2.0, "the+": 2.0, "a": 1.5, "a+": 1.5, "plural": 0.7}
SINGULAR = {"the": 2.0, "the+": 2.0, "a": 1.0, "a+": 1.0}
PLACE = {"the": 3.0, "the+": 2.0}
MASS = {"the": 1.0, "mass": 1.0, "mass+": 2.0}

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


@lru_cache(maxsize=None)
def phrases(tags: tuple[str, ...], kind: str) -> NounPhrases:
    """Noun phrases over the nouns with these tags; ``kind`` names the shapes."""
    nouns = nouns_tagged(*tags)
    people = [n for n in nouns if n.tags & {"person", "suspect"}]
    if "drink" in tags:
        return NounPhrases(nouns, MASS)
    shapes = {"full": FULL, "short": SHORT, "object": OBJECT, "small": SMALL_OBJECT, "singular": SINGULAR,
              "place": PLACE, "plain": {"the": 1.0}}[kind]  # fmt: skip
    if people and kind in ("object", "small"):  # nobody invites three hundred uncles
        shapes = {"the": 3.0, "the+": 3.0, "a": 1.0, "a+": 1.0, "plural": 1.0}
    others: dict[str, float] = {}
    if "person" in tags and kind == "full":
        others = WHO
    elif "person" in tags and kind in ("short", "object", "small"):
        others = {"name": 0.8}
    return NounPhrases(nouns, shapes, others=others)


def objects(verb: Verb, kind: str = "object") -> NounPhrases:
    """What the verb can be done to."""
    return phrases(verb.objects, kind)


def subjects(verb: Verb, kind: str = "full") -> NounPhrases:
    """Who does what the verb says."""
    return phrases(verb.subjects, kind)


def describable(tags: tuple[str, ...]) -> list[tuple[Noun, tuple[Any, ...]]]:
    """Nouns and their adjectives."""
    return [(noun, tuple(adjectives_of(noun))) for noun in nouns_tagged(*tags)]


def times(*lists: Sequence[Time]) -> OneOf:
    """One choice over several lists of times."""
    return OneOf([time for part in lists for time in part])


def transitive_clause(v: Values, tense: str, **more: Any) -> Clause:
    """Subject, verb and object from a variant's slots."""
    verb: Verb = v["verb"]
    return Clause(v["subject"], verb, tense, ((v["object"], verb.object_case),), time=v.get("time"), **more)


def simple(order: Any = "main", tense: str = "past", **more: Any) -> Callable[[Weaver, Values], Bilingual]:
    """A builder for sentences that are one transitive clause."""
    return lambda w, v: transitive_clause(v, v.get("tense", tense), **more).realise(w, order)


def intransitive() -> list[Variant]:
    """*The old farmer slept in the garden.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], place=at_place(v["place"]), manner=v["manner"], time=v["time"]).realise(w)

    places = phrases(("place",), "place")
    return [
        Variant(build, verb=OneOf([verb]), subject=subjects(verb), place=places, manner=OneOf(manner), time=time)
        for verb in INTRANSITIVE
        for manner, time in (
            ([None], OneOf([None])),
            ([None], times(PAST_TIMES, DAY_TIMES, WEEKDAY_TIMES)),
            (list(MANNERS.items()), OneOf([None])),
        )
    ]


def transitive() -> list[Variant]:
    """*The old farmer bought twenty-three red apples on the third of May.*"""
    return [
        Variant(simple(), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb), time=time)
        for verb in TRANSITIVE
        for time in (OneOf([None]), OneOf([None]), times(PAST_TIMES, DAY_TIMES, MONTH_TIMES, WEEKDAY_TIMES), OneOf(DATE_TIMES))
    ]


def time_first() -> list[Variant]:
    """*Yesterday the farmer bought a dog*: German keeps its finite verb second."""
    return [
        Variant(simple("time-first"), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb, "small"), time=time)
        for verb in TRANSITIVE
        for time in (times(PAST_TIMES, DAY_TIMES, MONTH_TIMES, WEEKDAY_TIMES), OneOf(DATE_TIMES))
    ]


def present() -> list[Variant]:
    """*The cook drinks cold milk every day.*"""
    return [
        Variant(simple(tense="present"), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb, "small"),
                time=times(PRESENT_TIMES, DAY_TIMES))
        for verb in PRESENT
    ]  # fmt: skip


def perfect() -> list[Variant]:
    """*The king has found the key*: the participle closes the German clause."""
    return [
        Variant(simple(tense="perfect"), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb))
        for verb in TRANSITIVE
    ]


def modal_and_future() -> list[Variant]:
    """*The doctor must help the child today*, *we will visit the aunt tomorrow*."""
    return [
        Variant(simple(), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb, "small"), tense=OneOf(tenses),
                time=times([None], time))  # type: ignore[list-item]
        for verb in TRANSITIVE
        if verb.english not in ("love", "need", "lose", "know")
        for tenses, time in (([*MODALS], [*PRESENT_TIMES[:1], *FUTURE_TIMES]), (["future"], [*FUTURE_TIMES, *WEEKDAY_TIMES]))
    ]  # fmt: skip


def negation() -> list[Variant]:
    """*The farmer did not sell the horse*: *nicht* follows a definite object."""
    definite = {"the": 2.0, "the+": 2.0, "this": 1.0, "plural": 1.0}

    def definites(verb: Verb) -> NounPhrases:
        return NounPhrases(nouns_tagged(*verb.objects), definite if "drink" not in verb.objects else {"the": 1.0})

    return [
        Variant(simple(negated=True), verb=OneOf([verb]), subject=subjects(verb), object=definites(verb),
                tense=OneOf(["past", "perfect", "future"]))
        for verb in TRANSITIVE
    ]  # fmt: skip


def giving() -> list[Variant]:
    """*The teacher gave the child a red apple*: the receiver is a dative."""

    def build(w: Weaver, v: Values) -> Bilingual:
        given = ((v["receiver"], "dat"), (v["object"], "acc"))
        return Clause(v["subject"], v["verb"], v["tense"], given, time=v["time"]).realise(w)

    return [
        Variant(build, verb=OneOf([verb]), subject=subjects(verb), receiver=phrases(("person", "thief"), "small"),
                object=objects(verb), tense=OneOf([tense]), time=time)
        for verb in GIVING
        for tense, time in (("past", OneOf([None])), ("past", times(PAST_TIMES, WEEKDAY_TIMES)), ("perfect", OneOf([None])))
    ]  # fmt: skip


def motion() -> list[Variant]:
    """*The nurse hurried to the station yesterday.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], v["tense"], place=to_place(v["place"]), time=v["time"]).realise(w)

    return [
        Variant(build, verb=OneOf([verb]), subject=subjects(verb), place=phrases(("goal",), "place"),
                tense=OneOf([tense]), time=time)
        for verb in MOTION
        for tense, time in (
            ("past", times(PAST_TIMES, DAY_TIMES, WEEKDAY_TIMES)),
            ("past", OneOf(DATE_TIMES)),
            ("perfect", OneOf([None])),
            ("future", times(FUTURE_TIMES)),
        )
    ]  # fmt: skip


def purpose() -> list[Variant]:
    """*The man went to the market to buy a cake*: *um … zu* with the infinitive last."""

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["subject"], v["verb"], place=to_place(v["place"])).realise(w)
        aim: Verb = v["aim"]
        to, verb = (w.link(),), (w.link(),)
        thing = v["object"].realise(w, aim.object_case)
        infinitive: Tokens = [("zu", to), (aim.infinitive, verb)]
        if aim.prefix:
            infinitive = [(f"{aim.prefix}zu{aim.infinitive}", to + verb)]
        w.facts.append(f"subject+verb:{v['subject'].head}+{aim.english}")
        return main[0] + [("to", to), (aim.english, verb)] + thing[0], main[1] + [COMMA, ("um", to)] + thing[1] + infinitive

    aims = [verb for verb in TRANSITIVE if verb.english in ("buy", "sell", "read", "write", "help", "visit", "feed", "thank")]
    return [
        Variant(build, verb=OneOf([verb]), aim=OneOf([aim]), subject=phrases(verb.subjects, "short") if "animal" not in verb.subjects
                else phrases(("person",), "short"), place=phrases(("goal",), "plain"), object=objects(aim, "small"))
        for verb in MOTION
        for aim in aims
    ]  # fmt: skip


def description() -> list[Variant]:
    """*The old house was very small.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        predicate = Predicate(v["adjective"], very=v["very"])
        return Clause(v["subject"], BE, v["tense"], predicate=predicate, negated=v["negated"]).realise(w)

    shapes = {"the": 1.0, "the+": 2.0, "this": 1.0, "plural": 1.0, "plural+": 1.0}
    return [
        Variant(build, adjective=OneOf([adjective]), very=OneOf([very]), negated=OneOf([negated]),
                tense=OneOf(["past", "present"]),
                subject=NounPhrases(nouns, shapes, adjectives=lambda n, a=adjective: [b for b in adjectives_of(n) if b is not a]))
        for adjective in ADJECTIVES.values()
        if (nouns := [n for n in nouns_tagged("person", "animal", "food", "object", "readable", "place") if adjective in adjectives_of(n)])
        for very, negated in ((True, False), (False, True))
    ]  # fmt: skip


def comparison() -> list[Variant]:
    """*The fox is faster than the old dog.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], BE, v["tense"], predicate=Predicate(v["adjective"], than=v["than"])).realise(w)

    def plain(adjective: Any) -> Callable[[Noun], list[Any]]:
        return lambda noun: [a for a in adjectives_of(noun) if a is not adjective]

    variants = []
    for adjective in ADJECTIVES.values():
        if adjective.german_comparative == "-":
            continue
        for group in ("person", "animal", "food", "object", "readable", "place"):
            nouns = [n for n in nouns_tagged(group) if adjective in adjectives_of(n)]
            if len(nouns) >= 3:
                side = NounPhrases(nouns, {"the": 2.0, "the+": 1.0, "plural": 1.0}, adjectives=plain(adjective))
                variants.append(Variant(build, adjective=OneOf([adjective]), tense=OneOf(["past", "present"]),
                                        subject=side, than=side))  # fmt: skip
    return variants


def possession() -> list[Variant]:
    """*The woman sold her old car*, *the child found the farmer's dog*."""
    own = [v for v in TRANSITIVE if v.english in ("sell", "find", "lose", "wash", "repair", "hide", "open", "need", "feed", "read", "carry")]
    men = [n for n in nouns_tagged("person") if n.gender == "m"]
    women = [n for n in nouns_tagged("person") if n.gender == "f"]

    def build(w: Weaver, v: Values) -> Bilingual:
        thing = v["object"]
        if "owner" in v:
            thing = NounPhrase(thing.noun, None, thing.adjective, owner=v["owner"].noun)
        return Clause(v["subject"], v["verb"], v["tense"], ((thing, "acc"),)).realise(w)

    return [
        *(
            Variant(build, verb=OneOf([verb]), tense=OneOf(["past", "perfect"]), subject=NounPhrases(people, SINGULAR),
                    object=NounPhrases(nouns_tagged(*verb.objects), {word: 1.0, f"{word}+": 1.0}))
            for verb in own
            for word, people in (("his", men), ("her", women))
        ),
        *(
            Variant(build, verb=OneOf([verb]), tense=OneOf(["past"]), subject=subjects(verb, "short"),
                    owner=phrases(("person",), "plain"), object=NounPhrases(nouns_tagged(*verb.objects), {"the": 1.0, "the+": 1.0}))
            for verb in own
        ),
    ]  # fmt: skip


def passive() -> list[Variant]:
    """*The letter was written by the teacher*: the agent is *von* with the dative."""

    def build(w: Weaver, v: Values) -> Bilingual:
        return Clause(v["subject"], v["verb"], agent=v["agent"], time=v["time"]).realise(w)

    return [
        Variant(build, verb=OneOf([verb]), subject=NounPhrases(nouns_tagged(*verb.objects), {"the": 2.0, "the+": 2.0, "plural": 1.0}),
                agent=phrases(verb.subjects, "short"), time=time)
        for verb in TRANSITIVE
        if verb.passive
        for time in (OneOf([None]), times(PAST_TIMES, WEEKDAY_TIMES))
    ]  # fmt: skip


def that_clause() -> list[Variant]:
    """*The teacher believed that the dog bit the child*: verb-final after *dass*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["speaker"], v["saying"], v["main_tense"]).realise(w)
        sub = joined(w, ("that", "dass"), transitive_clause(v, v["tense"]).realise(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    speakers = NounPhrases(nouns_tagged("person"), {"the": 2.0, "the+": 1.0, "a": 1.0}, others=WHO)
    return [
        Variant(build, saying=OneOf([*SAYING, KNOW_FACT]), speaker=speakers, main_tense=OneOf([main]), verb=OneOf([verb]),
                subject=subjects(verb, "short"), object=objects(verb, "small"), tense=OneOf(tenses))
        for verb in TRANSITIVE
        for main, tenses in (("past", ["past"]), ("present", ["perfect", "future"]))
    ]  # fmt: skip


def because_clause() -> list[Variant]:
    """*The boy cried because the wolf chased the rabbit*: verb-final after *weil*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["who"], v["main"]).realise(w)
        sub = joined(w, v["why"], transitive_clause(v, v["tense"]).realise(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    people = NounPhrases(nouns_tagged("person"), {"the": 2.0, "the+": 2.0, "plural": 1.0}, others=WHO)
    feelings = [verb for verb in INTRANSITIVE if verb.english in ("laugh", "cry", "wait", "sing", "dance", "sleep", "work")]
    return [
        Variant(build, main=OneOf(feelings), who=people, why=OneOf(whys), verb=OneOf([verb]), subject=subjects(verb, "short"),
                object=objects(verb, "small"), tense=OneOf([tense]))
        for verb in TRANSITIVE
        for whys, tense in (([("because", "weil"), ("while", "während")], "past"), ([("because", "weil")], "pluperfect"))
    ]  # fmt: skip


def because_it() -> list[Variant]:
    """*The woman bought the lamp because it was cheap*: *it* has the gender of the lamp, *sie*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        verb: Verb = v["verb"]
        main = Clause(v["subject"], verb, v["tense"], ((v["object"], verb.object_case),)).realise(w)
        reason = Clause(Pronoun(v["object"], "it"), BE, predicate=Predicate(v["adjective"], very=v["very"]))
        sub = joined(w, ("because", "weil"), reason.realise(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    wanted = ("buy", "sell", "repair", "wash", "carry", "read", "paint", "feed", "hide", "love", "help")
    return [
        Variant(build, verb=OneOf([verb]), tense=OneOf(["past"]), subject=subjects(verb, "short"), adjective=OneOf([adjective]),
                very=OneOf([False, True]),
                object=NounPhrases(nouns, {"the": 2.0, "this": 1.0}))
        for verb in TRANSITIVE
        if verb.english in wanted
        for adjective in ADJECTIVES.values()
        if (nouns := [n for n in nouns_tagged(*verb.objects) if not n.tags & {"person"} and adjective in adjectives_of(n)])
    ]  # fmt: skip


def because_he() -> list[Variant]:
    """*The queen was sad because she had lost the key*: the pronoun points back to the subject."""

    def build(w: Weaver, v: Values) -> Bilingual:
        subject: NounPhrase = v["subject"]
        back = Pronoun(subject, "he" if subject.gender == "m" else "she")
        verb: Verb = v["verb"]
        main = Clause(subject, BE, predicate=Predicate(v["adjective"], very=v["very"])).realise(w)
        w.facts.append(f"subject+verb:{subject.head}+{verb.english}")
        reason = Clause(back, verb, "pluperfect", ((v["object"], verb.object_case),))
        sub = joined(w, ("because", "weil"), reason.realise(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    people = [n for n in nouns_tagged("person") if n.gender != "n"]
    moods = OneOf([ADJECTIVES[a] for a in ("happy", "sad", "angry", "tired")])
    return [
        Variant(build, subject=NounPhrases(people, {"the": 1.0}, others={"name": 0.3}), adjective=moods, very=OneOf([False, True]),
                verb=OneOf([verb]), object=objects(verb, "small"))
        for verb in TRANSITIVE
        if verb.subjects == ("person",) and "person" not in verb.objects and verb.english not in ("love", "hear", "need")
    ]  # fmt: skip


def if_clause() -> list[Variant]:
    """*If the dog is hungry, the boy feeds the cat*: both German verbs meet at the comma."""

    def build(w: Weaver, v: Values) -> Bilingual:
        links, comma = (w.link(),), (w.link(),)
        condition = Clause(v["who"], BE, "present", predicate=Predicate(v["adjective"])).realise(w, "final")
        main = transitive_clause(v, v["tense"])
        if v["first"]:
            then = main.realise(w, "time-first")  # no time: the clause itself is what comes first
            return (
                [("if", links), *condition[0], (",", comma), *then[0]],
                [("wenn", links), *condition[1], (",", comma), *then[1]],
            )
        then = main.realise(w)
        return [*then[0], ("if", links), *condition[0]], [*then[1], COMMA, ("wenn", links), *condition[1]]

    moods = ("happy", "sad", "angry", "tired", "hungry", "friendly")
    return [
        Variant(build, who=NounPhrases(nouns, {"the": 2.0, "this": 1.0, "plural": 1.0}), adjective=OneOf([ADJECTIVES[mood]]), verb=OneOf([verb]),
                subject=subjects(verb, "short"), object=objects(verb, "small"), tense=OneOf(["present", "future", "can", "must"]),
                first=OneOf([True, False]))
        for verb in PRESENT
        if verb.english not in ("love", "need", "lose", "know", "bite", "chase")
        for mood in moods
        if (nouns := [n for n in nouns_tagged("person", "animal") if ADJECTIVES[mood] in adjectives_of(n)])
    ]  # fmt: skip


def relative_clause() -> list[Variant]:
    """*The farmer who bought the horse slept*, *the horse which the farmer bought was black*."""

    def subject_relative(w: Weaver, v: Values) -> Bilingual:
        subject: NounPhrase = v["subject"]
        head = subject.realise(w, "nom")
        who = (w.link(),)
        lead: Bilingual = ([("who", who)], [(RELATIVE["nom", subject.gender], who)])
        relative = transitive_clause(v, "past").realise(w, "final", lead=lead)
        whole = (head[0] + relative[0], [*head[1], COMMA, *relative[1], COMMA])
        place = at_place(v["place"])
        return Clause(subject, v["main"], v["tense"], place=place).realise(w, lead=whole)

    def object_relative(w: Weaver, v: Values) -> Bilingual:
        thing: NounPhrase = v["object"]
        verb: Verb = v["verb"]
        head = thing.realise(w, "nom")
        which = (w.link(),)
        clause = Clause(v["subject"], verb, v["tense"]).realise(w, "final")
        english = [*head[0], ("which", which), *clause[0]]
        german = [*head[1], COMMA, (RELATIVE[verb.object_case, thing.gender], which), *clause[1], COMMA]
        return Clause(thing, BE, predicate=Predicate(v["adjective"], very=True)).realise(w, lead=(english, german))

    def without(adjective: Any) -> Callable[[Noun], list[Any]]:
        return lambda noun: [a for a in adjectives_of(noun) if a is not adjective]

    human = [v for v in TRANSITIVE if v.subjects in (("person",), ("suspect",), ("person", "animal"))]
    main = OneOf([verb for verb in INTRANSITIVE if "person" in verb.subjects])
    return [
        *(
            Variant(subject_relative, verb=OneOf([verb]), main=main, tense=OneOf(["past"]), place=phrases(("place",), "place"),
                    subject=NounPhrases(nouns_tagged("person"), {"the": 2.0, "a": 1.0, "plural": 1.0}), object=objects(verb, "small"))
            for verb in human
        ),
        *(
            Variant(object_relative, verb=OneOf([verb]), tense=OneOf(["past", "perfect"]), adjective=OneOf([adjective]),
                    subject=subjects(verb, "short"), object=NounPhrases(nouns, {"the": 2.0, "the+": 1.0, "plural": 1.0}, adjectives=without(adjective)))
            for verb in TRANSITIVE
            if "person" not in verb.objects and "drink" not in verb.objects and verb.english != "eat"
            for adjective in ADJECTIVES.values()
            if (nouns := [n for n in nouns_tagged(*verb.objects) if adjective in adjectives_of(n)])
        ),
    ]  # fmt: skip


def existence() -> list[Variant]:
    """*There are twenty-three red apples in the kitchen.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        there, be = (w.link(),), (w.link(),)
        thing = v["object"].realise(w, "acc")
        place = at_place(v["place"]).realise(w)
        plural = v["object"].plural
        english = {"past": ("was", "were"), "present": ("is", "are")}[v["tense"]][plural]
        german = {"past": "gab", "present": "gibt"}[v["tense"]]
        return [("there", there), (english, be), *thing[0], *place[0]], [*place[1], (german, be), ("es", there), *thing[1]]

    shapes = {"a": 1.0, "a+": 1.5, "bare+": 1.0, "count": 1.5, "count+": 1.0}
    return [
        Variant(build, object=NounPhrases(nouns_tagged(tag), shapes), place=phrases(("place",), "place"), tense=OneOf(["past", "present"]))
        for tag in ("person", "animal", "object", "food")
    ]  # fmt: skip


def yes_no_question() -> list[Variant]:
    """*Has the king found the key?*"""
    return [
        Variant(simple("question"), verb=OneOf([verb]), subject=subjects(verb), object=objects(verb, "small"), tense=OneOf(tenses))
        for verb in TRANSITIVE
        for tenses in (["perfect"], ["can", "must", "future", "present"])
        if tenses == ["perfect"] or verb.english not in ("love", "need", "lose", "know")
    ]


def who_question() -> list[Variant]:
    """*Who bought the old car yesterday?*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        who = (w.link(),)
        lead: Bilingual = ([("who", who)], [("wer", who)])
        verb: Verb = v["verb"]
        clause = Clause(NounPhrase("he"), verb, v["tense"], ((v["object"], verb.object_case),), time=v["time"])
        return clause.realise(w, lead=lead)

    human = [verb for verb in TRANSITIVE if "person" in verb.subjects or "suspect" in verb.subjects]
    return [
        Variant(build, verb=OneOf([verb]), object=objects(verb), tense=OneOf([tense]), time=time)
        for verb in human
        for tense, time in (("past", times(PAST_TIMES, DAY_TIMES, WEEKDAY_TIMES)), ("perfect", OneOf([None])), ("future", times(FUTURE_TIMES)))
    ]


def coordination() -> list[Variant]:
    """*The man slept and the woman read a book.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        first = Clause(v["who"], v["main"]).realise(w)
        links = (w.link(),)
        word = v["conjunction"]
        second = transitive_clause(v, "past").realise(w)
        german = [COMMA] if word[0] == "but" else []
        return [*first[0], (word[0], links), *second[0]], [*first[1], *german, (word[1], links), *second[1]]

    return [
        Variant(build, main=OneOf([main]), who=subjects(main, "short"), conjunction=OneOf([("and", "und"), ("but", "aber")]),
                verb=OneOf([verb]), subject=subjects(verb, "short"), object=objects(verb, "small"))
        for main in INTRANSITIVE
        for verb in TRANSITIVE
    ]  # fmt: skip


def measures() -> list[Variant]:
    """*The lamp costs three hundred and forty-seven euros*, *the king is forty-seven years old*."""

    def measured(w: Weaver, v: Values) -> Bilingual:
        subject = v["subject"].realise(w, "nom")
        links, unit, last = (w.link(),), (w.link(),), (w.link(),)
        n: int = v["number"]
        number = [(part, (w.link(),)) for part in english_cardinal(n).split()]
        german = (german_cardinal(n), tuple(link for _, ids in number for link in ids))
        w.facts.append(f"number:{n}")
        if v["kind"] == "price":
            return [*subject[0], ("costs", links), *number, ("euros", unit)], [*subject[1], ("kostet", links), german, ("Euro", unit)]
        return (
            [*subject[0], ("is", links), *number, ("years", unit), ("old", last)],
            [*subject[1], ("ist", links), german, ("Jahre", unit), ("alt", last)],
        )

    priced = [n for n in nouns_tagged("object", "book", "newspaper", "horse", "cow", "pig", "goat")]
    aged = nouns_tagged("person", "animal", "church", "castle", "bridge", "hotel", "clock")
    shapes = {"the": 1.0, "the+": 2.0, "this": 1.0}
    old = ADJECTIVES["old"]

    def not_old(noun: Noun) -> list[Any]:
        return [a for a in adjectives_of(noun) if a.english not in ("old", "young", "new", "cheap", "expensive") and a is not old]

    return [
        Variant(measured, kind=OneOf(["price"]), subject=NounPhrases(priced, shapes, adjectives=not_old), number=numbers(COUNTS)),
        Variant(measured, kind=OneOf(["age"]), subject=NounPhrases([n for n in aged if "place" in n.tags or n.english == "clock"], shapes, adjectives=not_old), number=numbers([n for n in COUNTS if n > 20])),
        Variant(measured, kind=OneOf(["age"]), subject=NounPhrases([n for n in aged if "adult" in n.tags], shapes, adjectives=not_old), number=OneOf(range(21, 96))),
    ]  # fmt: skip


def labels() -> list[Variant]:
    """*The guest slept in room two hundred and one*, *the child wrote the number zero*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        n: int = v["number"]
        number = [(part, (w.link(),)) for part in english_cardinal(n).split()]
        german = (german_cardinal(n), tuple(link for _, ids in number for link in ids))
        w.facts.append(f"number:{n}")
        english_words, german_words = v["label"]
        own = [(w.link(),) for _ in english_words]
        clause = Clause(v["subject"], v["verb"]).realise(w)
        return (
            [*clause[0], *zip(english_words, own), *number],
            [*clause[1], *zip(german_words, own), german],
        )

    by_name = {verb.english: verb for verb in VERBS}
    kinds = (
        (("sleep", "wait", "work", "dance", "cry"), (("in", "room"), ("in", "Zimmer")), range(1, 1000)),
        (("read", "write", "find", "lose"), (("page",), ("Seite",)), range(1, 1000)),
        (("see", "write", "read", "hear"), (("the", "number"), ("die", "Zahl")), range(1000)),
    )
    return [
        Variant(build, verb=OneOf([by_name[v] for v in verbs]), label=OneOf([label]), number=numbers(values), subject=phrases(("person",), "full"))
        for verbs, label, values in kinds
    ]  # fmt: skip


# construction -> (weight, variants, final mark)
CONSTRUCTIONS: dict[str, tuple[float, Callable[[], list[Variant]], str]] = {
    "intransitive": (3, intransitive, "."),
    "transitive": (8, transitive, "."),
    "time-first": (5, time_first, "."),
    "present": (3, present, "."),
    "perfect": (4, perfect, "."),
    "modal-and-future": (4, modal_and_future, "."),
    "negation": (3, negation, "."),
    "giving": (4, giving, "."),
    "motion": (3, motion, "."),
    "purpose": (3, purpose, "."),
    "description": (3, description, "."),
    "comparison": (3, comparison, "."),
    "possession": (3, possession, "."),
    "passive": (3, passive, "."),
    "that-clause": (4, that_clause, "."),
    "because-clause": (4, because_clause, "."),
    "because-it": (3, because_it, "."),
    "because-he": (2, because_he, "."),
    "if-clause": (3, if_clause, "."),
    "relative-clause": (4, relative_clause, "."),
    "existence": (3, existence, "."),
    "yes-no-question": (3, yes_no_question, "?"),
    "who-question": (2, who_question, "?"),
    "coordination": (3, coordination, "."),
    "measure": (3, measures, "."),
    "label": (2.5, labels, "."),
}
_ = NOUNS
