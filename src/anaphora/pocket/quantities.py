"""Sentences about quantities: how many there are, what it costs, how old it is, which room or page."""

from collections.abc import Callable

from anaphora.pocket.clauses import Clause
from anaphora.pocket.grammar import Values, phrases
from anaphora.pocket.lexicon import VERBS, Adjective, Noun, adjectives_of, nouns_tagged
from anaphora.pocket.numbers import COUNTS
from anaphora.pocket.pocket_choices import NounPhrases, OneOf, Variant, numbers
from anaphora.pocket.pocket_phrases import Bilingual, Weaver, at_place, cardinal


def existence() -> list[Variant]:
    """*There are twenty-three red apples in the kitchen.*"""

    def build(w: Weaver, v: Values) -> Bilingual:
        there, be = (w.link(),), (w.link(),)
        thing = v["object"].realize(w, "acc")
        place = at_place(v["place"]).realize(w)
        plural = v["object"].plural
        english = {"past": ("was", "were"), "present": ("is", "are")}[v["tense"]][plural]
        german = {"past": "gab", "present": "gibt"}[v["tense"]]
        return [("there", there), (english, be), *thing[0], *place[0]], [
            *place[1],
            (german, be),
            ("es", there),
            *thing[1],
        ]

    shapes = {"a": 1.0, "a+": 1.5, "bare+": 1.0, "count": 2.0, "count+": 1.5}
    kinds = (
        ("person", ("place",)),
        ("animal", ("garden", "park", "forest", "village", "market", "beach")),
        ("object", ("market", "house", "castle", "school", "office", "kitchen")),
        ("food", ("kitchen", "market", "garden")),
    )
    return [
        Variant(
            build,
            object=NounPhrases([n for n in nouns_tagged(tag) if "kin" not in n.tags], shapes),
            place=phrases(places, "place"),
            tense=OneOf(["past", "present"]),
        )
        for tag, places in kinds
    ]


def measures() -> list[Variant]:
    """*The lamp costs three hundred and forty-seven euros*, *the king is forty-seven years old*."""

    def measured(w: Weaver, v: Values) -> Bilingual:
        subject = v["subject"].realize(w, "nom")
        links, unit, last = (w.link(),), (w.link(),), (w.link(),)
        n: int = v["number"]
        number, german = cardinal(w, n)
        if v["kind"] == "price":
            return [*subject[0], ("costs", links), *number, ("euros", unit)], [
                *subject[1],
                ("kostet", links),
                *german,
                ("Euro", unit),
            ]
        return (
            [*subject[0], ("is", links), *number, ("years", unit), ("old", last)],
            [*subject[1], ("ist", links), *german, ("Jahre", unit), ("alt", last)],
        )

    priced = nouns_tagged("object", "book", "horse", "cow", "pig", "goat")
    aged = nouns_tagged("person", "animal", "church", "castle", "bridge", "clock")
    shapes = {"the": 1.0, "the+": 2.0, "this": 1.0}

    def not_old(noun: Noun) -> list[Adjective]:
        return [a for a in adjectives_of(noun) if a.english not in ("old", "young", "new", "cheap", "expensive")]

    return [
        Variant(
            measured,
            kind=OneOf(["price"]),
            subject=NounPhrases(priced, shapes, adjectives=not_old),
            number=numbers(COUNTS),
        ),
        Variant(
            measured,
            kind=OneOf(["age"]),
            subject=NounPhrases(
                [n for n in aged if "place" in n.tags or n.english == "clock"], shapes, adjectives=not_old
            ),
            number=numbers([n for n in COUNTS if n > 20]),
        ),
        Variant(
            measured,
            kind=OneOf(["age"]),
            subject=NounPhrases([n for n in aged if "adult" in n.tags], shapes, adjectives=not_old),
            number=OneOf(range(21, 96)),
        ),
    ]


def labels() -> list[Variant]:
    """*The guest slept in room two hundred and one*, *the child wrote the number zero*."""

    def build(w: Weaver, v: Values) -> Bilingual:
        n: int = v["number"]
        number, german = cardinal(w, n)
        english_words, german_words = v["label"]
        own = [(w.link(),) for _ in english_words]
        clause = Clause(v["subject"], v["verb"]).realize(w)
        return (
            [*clause[0], *zip(english_words, own), *number],
            [*clause[1], *zip(german_words, own), *german],
        )

    by_name = {verb.english: verb for verb in VERBS}
    kinds = (
        (("sleep", "wait", "work"), (("in", "room"), ("in", "Zimmer")), range(1, 1000)),
        (("read", "write", "find", "lose"), (("page",), ("Seite",)), range(1, 1000)),
        (("see", "write", "read", "hear"), (("the", "number"), ("die", "Zahl")), range(1000)),
    )
    return [
        Variant(
            build,
            verb=OneOf([by_name[v] for v in verbs]),
            label=OneOf([label]),
            number=numbers(values),
            subject=phrases(("person",), "full"),
        )
        for verbs, label, values in kinds
    ]


# construction -> (weight, variants, final mark)
QUANTITIES: dict[str, tuple[float, Callable[[], list[Variant]], str]] = {
    "existence": (6, existence, "."),
    "measure": (7, measures, "."),
    "label": (6, labels, "."),
}
