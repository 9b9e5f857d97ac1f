"""Sentences of two clauses: *dass*, *weil*, *wenn*, relative clauses, *um … zu*, and pronouns that point back."""

from collections.abc import Callable

from anaphora.pocket.clauses import BE, Clause, Predicate, joined
from anaphora.pocket.grammar import (
    EVENTS,
    INTRANSITIVE,
    PRESENT,
    TRANSITIVE,
    WHO,
    Values,
    objects,
    phrases,
    subjects,
    transitive_clause,
    without,
)
from anaphora.pocket.lexicon import ADJECTIVES, MOTION, SAYING, UNGRADABLE, Verb, adjectives_of, nouns_tagged
from anaphora.pocket.morphology import RELATIVE
from anaphora.pocket.pocket_choices import NounPhrases, OneOf, Variant
from anaphora.pocket.pocket_phrases import COMMA, Bilingual, NounPhrase, Pronoun, Tokens, Weaver, at_place, to_place
from anaphora.pocket.pocket_senses import KNOW_FACT

# Why somebody does something to a thing: verb -> adjectives of the thing.
REASONS = {
    "buy": "beautiful cheap new fresh",
    "sell": "old expensive heavy small lazy",
    "repair": "old expensive beautiful",
    "wash": "dirty",
    "steal": "expensive beautiful new",
    "read": "interesting new famous long",
    "paint": "beautiful old small",
    "feed": "hungry young",
    "love": "beautiful small young",
    "help": "tired small old",
}

# Why somebody feels something: adjective -> what they have done.
CAUSES = {
    "happy": "buy find sell repair",
    "sad": "lose sell",
    "angry": "lose",
    "tired": "carry wash repair paint write cook",
}

# Where one goes to do something: verb -> places.
ERRANDS = {
    "buy": "market station",
    "sell": "market station castle",
    "read": "park garden beach",
    "write": "office school",
    "visit": "school church castle office",
    "feed": "park garden",
    "invite": "church school castle",
}


def purpose() -> list[Variant]:
    """*The man went to the market to buy a cake*: *um … zu* with the infinitive last."""

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["subject"], v["verb"], place=to_place(v["place"])).realize(w)
        aim: Verb = v["aim"]
        to, verb = (w.link(),), (w.link(),)
        thing = v["object"].realize(w, aim.object_case)
        infinitive: Tokens = [("zu", to), (aim.infinitive, verb)]
        if aim.prefix:
            infinitive = [(f"{aim.prefix}zu{aim.infinitive}", to + verb)]
        w.facts.append(f"subject+verb:{v['subject'].head}+{aim.english}")
        return main[0] + [("to", to), (aim.english, verb)] + thing[0], main[1] + [COMMA, ("um", to)] + thing[
            1
        ] + infinitive

    return [
        Variant(
            build,
            verb=OneOf([verb]),
            aim=OneOf([aim]),
            place=phrases(tuple(ERRANDS[aim.english].split()), "plain"),
            subject=phrases(("adult",) if verb.english == "drive" else ("person",), "short"),
            object=objects(aim, "small"),
        )
        for verb in MOTION
        for aim in TRANSITIVE
        if aim.english in ERRANDS
    ]


def that_clause() -> list[Variant]:
    """*The teacher believed that the dog bit the child*: verb-final after *dass*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["speaker"], v["saying"], v["main_tense"]).realize(w)
        sub = joined(w, ("that", "dass"), transitive_clause(v, v["tense"]).realize(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    speakers = NounPhrases(nouns_tagged("person"), {"the": 2.0, "the+": 1.0, "a": 1.0}, others=WHO)
    return [
        Variant(
            build,
            saying=OneOf([*SAYING, KNOW_FACT]),
            speaker=speakers,
            main_tense=OneOf([main]),
            verb=OneOf([verb]),
            subject=subjects(verb, "short"),
            object=objects(verb, "small"),
            tense=OneOf(tenses),
        )
        for verb in TRANSITIVE
        for main, tenses in (("past", ["past"]), ("present", ["perfect", "future"]))
        if main == "past" or verb in EVENTS
    ]


def because_clause() -> list[Variant]:
    """*The boy cried because the wolf chased the rabbit*: verb-final after *weil*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        main = Clause(v["who"], v["main"]).realize(w)
        sub = joined(w, v["why"], transitive_clause(v, v["tense"]).realize(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    people = NounPhrases(nouns_tagged("person"), {"the": 2.0, "the+": 2.0, "plural": 1.0}, others=WHO)
    moods = [verb for verb in INTRANSITIVE if verb.english in ("laugh", "cry")]
    doings = [verb for verb in INTRANSITIVE if verb.english in ("wait", "sing", "dance", "sleep", "work")]
    because, meanwhile = ("because", "weil"), ("while", "während")
    return [
        Variant(
            build,
            main=OneOf(mains),
            who=people,
            why=OneOf([why]),
            verb=OneOf([verb]),
            subject=subjects(verb, "short"),
            object=objects(verb, "small"),
            tense=OneOf([tense]),
        )
        for verb in EVENTS
        for mains, why, tense in ((moods, because, "past"), (moods, because, "pluperfect"), (doings, meanwhile, "past"))
    ]


def because_it() -> list[Variant]:
    """*The woman bought the lamp because it was cheap*: *it* has the gender of the lamp, *sie*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        verb: Verb = v["verb"]
        main = Clause(v["subject"], verb, v["tense"], ((v["object"], verb.object_case),)).realize(w)
        reason = Clause(Pronoun(v["object"], "it"), BE, predicate=Predicate(v["adjective"], very=v["very"]))
        sub = joined(w, ("because", "weil"), reason.realize(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    return [
        Variant(
            build,
            verb=OneOf([verb]),
            tense=OneOf(["past"]),
            subject=subjects(verb, "short"),
            adjective=OneOf([ADJECTIVES[reason]]),
            very=OneOf([False] if reason in UNGRADABLE else [False, True]),
            object=NounPhrases(nouns, {"the": 2.0, "this": 1.0}),
        )
        for verb in TRANSITIVE
        if verb.english in REASONS
        for reason in REASONS[verb.english].split()
        if (
            nouns := [
                n
                for n in nouns_tagged(*verb.objects)
                if "person" not in n.tags and ADJECTIVES[reason] in adjectives_of(n)
            ]
        )
    ]


def because_he() -> list[Variant]:
    """*The queen was sad because she had lost the key*: the pronoun points back to the subject."""

    def build(w: Weaver, v: Values) -> Bilingual:
        subject: NounPhrase = v["subject"]
        back = Pronoun(subject, "he" if subject.gender == "m" else "she")
        verb: Verb = v["verb"]
        main = Clause(subject, BE, predicate=Predicate(v["adjective"], very=v["very"])).realize(w)
        w.facts.append(f"subject+verb:{subject.head}+{verb.english}")
        reason = Clause(back, verb, "pluperfect", ((v["object"], verb.object_case),))
        sub = joined(w, ("because", "weil"), reason.realize(w, "final"))
        return main[0] + sub[0], main[1] + sub[1]

    people = [n for n in nouns_tagged("person") if n.gender != "n"]
    return [
        Variant(
            build,
            subject=NounPhrases(people, {"the": 1.0}, others={"name": 0.3}),
            adjective=OneOf([ADJECTIVES[mood]]),
            very=OneOf([False, True]),
            verb=OneOf([verb]),
            object=objects(verb, "small"),
        )
        for mood, causes in CAUSES.items()
        for verb in TRANSITIVE
        if verb.english in causes.split()
    ]


def if_clause() -> list[Variant]:
    """*If the dog is hungry, the boy feeds the cat*: both German verbs meet at the comma."""

    def build(w: Weaver, v: Values) -> Bilingual:
        links, comma = (w.link(),), (w.link(),)
        condition = Clause(v["who"], BE, "present", predicate=Predicate(v["adjective"])).realize(w, "final")
        main = transitive_clause(v, v["tense"])
        if v["first"]:
            then = main.realize(w, "time-first")  # no time: the clause itself is what comes first
            return (
                [("if", links), *condition[0], (",", comma), *then[0]],
                [("wenn", links), *condition[1], (",", comma), *then[1]],
            )
        then = main.realize(w)
        return [*then[0], ("if", links), *condition[0]], [*then[1], COMMA, ("wenn", links), *condition[1]]

    moods = ("happy", "sad", "angry", "tired", "hungry", "friendly")
    return [
        Variant(
            build,
            who=NounPhrases(nouns, {"the": 2.0, "plural": 1.0}),
            adjective=OneOf([ADJECTIVES[mood]]),
            verb=OneOf([verb]),
            subject=subjects(verb, "short"),
            object=objects(verb, "small"),
            tense=OneOf(["present", "future", "can", "must"]),
            first=OneOf([True, False]),
        )
        for verb in PRESENT
        if verb.english in ("call", "invite", "help", "visit", "feed", "cook", "wash", "buy", "drink")
        for mood in moods
        if (nouns := [n for n in nouns_tagged("person") if ADJECTIVES[mood] in adjectives_of(n)])
    ]


def relative_clause() -> list[Variant]:
    """*The farmer who bought the horse slept*, *the horse which the farmer bought was black*."""

    def subject_relative(w: Weaver, v: Values) -> Bilingual:
        subject: NounPhrase = v["subject"]
        head = subject.realize(w, "nom")
        who = (w.link(),)
        lead: Bilingual = ([("who", who)], [(RELATIVE["nom", subject.gender], who)])
        relative = transitive_clause(v, "past").realize(w, "final", lead=lead)
        whole = (head[0] + relative[0], [*head[1], COMMA, *relative[1], COMMA])
        place = at_place(v["place"])
        return Clause(subject, v["main"], v["tense"], place=place).realize(w, lead=whole)

    def object_relative(w: Weaver, v: Values) -> Bilingual:
        thing: NounPhrase = v["object"]
        verb: Verb = v["verb"]
        head = thing.realize(w, "nom")
        which = (w.link(),)
        clause = Clause(v["subject"], verb, v["tense"]).realize(w, "final")
        english = [*head[0], ("which", which), *clause[0]]
        german = [*head[1], COMMA, (RELATIVE[verb.object_case, thing.gender], which), *clause[1], COMMA]
        return Clause(thing, BE, predicate=Predicate(v["adjective"], very=v["very"])).realize(w, lead=(english, german))

    human = [v for v in TRANSITIVE if v.subjects in (("person",), ("suspect",), ("person", "animal"))]
    main = OneOf([verb for verb in INTRANSITIVE if "person" in verb.subjects])
    return [
        *(
            Variant(
                subject_relative,
                verb=OneOf([verb]),
                main=main,
                tense=OneOf(["past"]),
                place=phrases(("place",), "place"),
                subject=NounPhrases(nouns_tagged("person"), {"the": 2.0, "a": 1.0, "plural": 1.0}),
                object=objects(verb, "small"),
            )
            for verb in human
        ),
        *(
            Variant(
                object_relative,
                verb=OneOf([verb]),
                tense=OneOf(["past", "perfect"] if verb in EVENTS else ["past"]),
                adjective=OneOf([adjective]),
                very=OneOf([False] if adjective.english in UNGRADABLE else [False, True]),
                subject=subjects(verb, "short"),
                object=NounPhrases(nouns, {"the": 2.0, "the+": 1.0, "plural": 1.0}, adjectives=without(adjective)),
            )
            for verb in TRANSITIVE
            if "person" not in verb.objects and "drink" not in verb.objects and verb.english != "eat"
            for adjective in ADJECTIVES.values()
            if (nouns := [n for n in nouns_tagged(*verb.objects) if adjective in adjectives_of(n)])
        ),
    ]


def coordination() -> list[Variant]:
    """*The man slept and the woman read a book.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        first = Clause(v["who"], v["main"]).realize(w)
        links = (w.link(),)
        word = v["conjunction"]
        second = transitive_clause(v, "past").realize(w)
        german = [COMMA] if word[0] == "but" else []
        return [*first[0], (word[0], links), *second[0]], [*first[1], *german, (word[1], links), *second[1]]

    return [
        Variant(
            build,
            main=OneOf([main]),
            who=subjects(main, "short"),
            conjunction=OneOf([("and", "und"), ("but", "aber")]),
            verb=OneOf([verb]),
            subject=subjects(verb, "short"),
            object=objects(verb, "small"),
        )
        for main in INTRANSITIVE
        for verb in TRANSITIVE
    ]


# construction -> (weight, variants, final mark)
SUBORDINATION: dict[str, tuple[float, Callable[[], list[Variant]], str]] = {
    "purpose": (3, purpose, "."),
    "that-clause": (4, that_clause, "."),
    "because-clause": (4, because_clause, "."),
    "because-it": (3, because_it, "."),
    "because-he": (2, because_he, "."),
    "if-clause": (3, if_clause, "."),
    "relative-clause": (4, relative_clause, "."),
    "coordination": (3, coordination, "."),
}
