"""The German of the pocket corpus: numbers, dates, agreement, word order, and golden sentences."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.pocket import PocketPair, generate, words
from anaphora.pocket.clauses import BE, Clause, Predicate, joined
from anaphora.pocket.lexicon import ADJECTIVES, GIVING, MOTION, NOUNS, VERBS, adjectives_of, nouns_tagged
from anaphora.pocket.numbers import (
    DATES,
    english_cardinal,
    english_ordinal,
    german_cardinal,
    german_ordinal,
)
from anaphora.pocket.pocket_phrases import NounPhrase, Pronoun, Weaver, at_place, date, one_to_one, to_place
from anaphora.pocket.pocket_senses import (
    CONTEXT_VERBS,
    EAT_ANIMAL,
    EAT_PERSON,
    NOUN_SENSES,
    context_noun,
)

VERB = {verb.english: verb for verb in [*VERBS, *MOTION, *GIVING]}
SEED = 1


@cache
def corpus(split: str, count: int) -> list[PocketPair]:
    return generate(split, count, SEED)  # type: ignore[arg-type]


def train() -> list[PocketPair]:
    return corpus("train", 28_000)


# --- numbers and dates --------------------------------------------------------------------------------------------

NUMBERS = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty-one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    70: ("seventy", "siebzig"),
    100: ("one hundred", "hundert"),
    101: ("one hundred and one", "hunderteins"),
    123: ("one hundred and twenty-three", "hundertdreiundzwanzig"),
    347: ("three hundred and forty-seven", "dreihundertsiebenundvierzig"),
    999: ("nine hundred and ninety-nine", "neunhundertneunundneunzig"),
}


@pytest.mark.parametrize("n", NUMBERS)
def test_known_numbers(n):
    assert (english_cardinal(n), german_cardinal(n)) == NUMBERS[n]


def test_numbers_are_all_different():
    assert len({english_cardinal(n) for n in range(1000)}) == 1000
    assert len({german_cardinal(n) for n in range(1000)}) == 1000


@given(st.one_of(st.integers(max_value=-1), st.integers(min_value=1000)))
def test_numbers_out_of_range_are_refused(n):
    for cardinal in (english_cardinal, german_cardinal):
        with pytest.raises(ValueError, match="0 to 999"):
            cardinal(n)


@pytest.mark.parametrize(
    ("n", "english", "german"),
    [
        (1, "first", "ersten"),
        (2, "second", "zweiten"),
        (3, "third", "dritten"),
        (7, "seventh", "siebten"),
        (8, "eighth", "achten"),
        (12, "twelfth", "zwölften"),
        (16, "sixteenth", "sechzehnten"),
        (20, "twentieth", "zwanzigsten"),
        (21, "twenty-first", "einundzwanzigsten"),
        (30, "thirtieth", "dreißigsten"),
        (31, "thirty-first", "einunddreißigsten"),
    ],
)
def test_ordinals(n, english, german):
    assert (english_ordinal(n), german_ordinal(n)) == (english, german)


def test_ordinals_are_days():
    assert len(DATES) == 365
    with pytest.raises(ValueError, match="1 to 31"):
        english_ordinal(32)
    with pytest.raises(ValueError, match="1 to 31"):
        german_ordinal(0)


# --- the German ---------------------------------------------------------------------------------------------------


def the(noun, adjective=None, plural=False, determiner="the", **more):
    return NounPhrase(context_noun(noun), determiner, ADJECTIVES[adjective] if adjective else None, plural, **more)


def clause(subject, verb, thing=None, tense="past", **more):
    verb = VERB.get(verb, verb) if isinstance(verb, str) else verb
    objects = () if thing is None else ((thing, verb.object_case),)
    return Clause(subject, verb, tense, objects, **more)


def written(build, mark="."):
    weaver = Weaver()
    pair = weaver.finish(build(weaver), mark, "golden")
    return pair.source, pair.target


YESTERDAY = one_to_one("yesterday", "gestern")

GOLDEN = [
    (
        lambda w: clause(
            the("farmer", "old"), "buy", the("apple", "red", True, None, number=23), time=date(3, "May")
        ).realize(w),
        "The old farmer bought twenty-three red apples on the third of May.",
        "Der alte Bauer kaufte am dritten Mai dreiundzwanzig rote Äpfel.",
    ),
    (
        lambda w: clause(the("woman", "young"), "see", the("neighbour", "lazy"), time=YESTERDAY).realize(
            w, "time-first"
        ),
        "Yesterday the young woman saw the lazy neighbour.",
        "Gestern sah die junge Frau den faulen Nachbarn.",
    ),
    (
        lambda w: clause(the("child", determiner="a"), "help", the("king", "old")).realize(w),
        "A child helped the old king.",
        "Ein Kind half dem alten König.",
    ),
    (
        lambda w: clause(NounPhrase("Anna"), "find", the("umbrella", "expensive", determiner="a")).realize(w),
        "Anna found an expensive umbrella.",
        "Anna fand einen teuren Regenschirm.",
    ),
    (
        lambda w: clause(NounPhrase("we"), "invite", the("student"), "perfect").realize(w),
        "We have invited the student.",
        "Wir haben den Studenten eingeladen.",
    ),
    (
        lambda w: clause(NounPhrase("she"), "call", the("doctor", determiner="a"), time=YESTERDAY).realize(w),
        "She called a doctor yesterday.",
        "Sie rief gestern einen Arzt an.",
    ),
    (
        lambda w: clause(the("dog", None, True), "follow", the("child", None, True), "perfect").realize(w),
        "The dogs have followed the children.",
        "Die Hunde sind den Kindern gefolgt.",
    ),
    (
        lambda w: clause(the("teacher"), "read", the("story", "long", determiner="this"), negated=True).realize(w),
        "The teacher did not read this long story.",
        "Der Lehrer las diese lange Geschichte nicht.",
    ),
    (
        lambda w: clause(the("cook"), "drink", the("coffee", "hot", determiner=None), "must").realize(w, "question"),
        "Must the cook drink hot coffee?",
        "Muss der Koch heißen Kaffee trinken?",
    ),
    (
        lambda w: clause(the("boy"), "sleep", place=at_place(the("forest", "dark"))).realize(w),
        "The boy slept in the dark forest.",
        "Der Junge schlief im dunklen Wald.",
    ),
    (
        lambda w: clause(the("nurse"), "go", place=to_place(the("church", "old"))).realize(w),
        "The nurse went to the old church.",
        "Die Krankenschwester ging zur alten Kirche.",
    ),
    (
        lambda w: Clause(
            the("queen"),
            VERB["give"],
            "past",
            ((the("girl", "sad"), "dat"), (the("dog", "small", determiner="her"), "acc")),
        ).realize(w),
        "The queen gave the sad girl her small dog.",
        "Die Königin gab dem traurigen Mädchen ihren kleinen Hund.",
    ),
    (
        lambda w: clause(
            the("child"), "wash", NounPhrase(NOUNS["car"], None, ADJECTIVES["dirty"], owner=NOUNS["farmer"])
        ).realize(w),
        "The child washed the farmer's dirty car.",
        "Das Kind wusch das schmutzige Auto des Bauern.",
    ),
    (
        lambda w: Clause(
            the("horse"), BE, "present", predicate=Predicate(ADJECTIVES["old"], than=the("goat", "white"))
        ).realize(w),
        "The horse is older than the white goat.",
        "Das Pferd ist älter als die weiße Ziege.",
    ),
    (
        lambda w: clause(the("man"), EAT_PERSON, the("pear")).realize(w),
        "The man ate the pear.",
        "Der Mann aß die Birne.",
    ),
    (
        lambda w: Clause(the("pear"), EAT_ANIMAL, agent=the("rabbit", "hungry", determiner="a")).realize(w),
        "The pear was eaten by a hungry rabbit.",
        "Die Birne wurde von einem hungrigen Kaninchen gefressen.",
    ),
    (
        lambda w: Clause(
            NounPhrase(NOUN_SENSES["bank.money"].noun, "the"), CONTEXT_VERBS["rob"], agent=the("thief")
        ).realize(w),
        "The bank was robbed by the thief.",
        "Die Bank wurde vom Dieb ausgeraubt.",
    ),
    (
        lambda w: Clause(
            NounPhrase(NOUN_SENSES["bank.shore"].noun, "the", of=context_noun("river")),
            BE,
            predicate=Predicate(ADJECTIVES["big"]),
        ).realize(w),
        "The bank of the river was big.",
        "Das Ufer des Flusses war groß.",
    ),
    (
        lambda w: clause(
            the("student"), CONTEXT_VERBS["pronounce"], NounPhrase(NOUN_SENSES["letter.alphabet"].noun, "the")
        ).realize(w),
        "The student pronounced the letter.",
        "Der Student sprach den Buchstaben aus.",
    ),
]


@pytest.mark.parametrize(("build", "english", "german"), GOLDEN, ids=[english for _, english, _ in GOLDEN])
def test_golden_sentences(build, english, german):
    assert written(build, english[-1]) == (english, german)


def test_verb_final_clauses_and_the_gender_of_it():
    def build(w, thing):
        lamp = the(thing)
        main = clause(the("woman"), "buy", lamp).realize(w)
        why = Clause(Pronoun(lamp, "it"), BE, predicate=Predicate(ADJECTIVES["cheap"])).realize(w, "final")
        sub = joined(w, ("because", "weil"), why)
        return main[0] + sub[0], main[1] + sub[1]

    for thing, german in (("lamp", "sie"), ("table", "er"), ("book", "es")):
        english, target = written(lambda w, thing=thing: build(w, thing))
        assert english == f"The woman bought the {thing} because it was cheap."
        assert target.endswith(f", weil {german} billig war.")

    def invited(w):
        sub = joined(w, ("that", "dass"), clause(the("aunt"), "invite", the("boy")).realize(w, "final"))
        return [("we", (w.link(),)), ("know", (w.link(),)), *sub[0]], [("wir", ()), ("wissen", ()), *sub[1]]

    assert written(invited)[1] == "Wir wissen, dass die Tante den Jungen einlud."


def test_every_noun_has_an_adjective_and_agrees_in_every_case():
    """Hand-written paradigms of the four genders, all cases."""
    paradigms = {
        ("dog", False, "the"): "der alte Hund|den alten Hund|dem alten Hund|des alten Hundes",
        ("cat", False, "a"): "eine alte Katze|eine alte Katze|einer alten Katze|einer alten Katze",
        ("horse", False, "a"): "ein altes Pferd|ein altes Pferd|einem alten Pferd|eines alten Pferdes",
        ("farmer", False, "a"): "ein alter Bauer|einen alten Bauern|einem alten Bauern|eines alten Bauern",
        ("dog", True, "the"): "die alten Hunde|die alten Hunde|den alten Hunden|der alten Hunde",
        ("car", True, None): "alte Autos|alte Autos|alten Autos|alter Autos",
        ("mouse", True, "his"): "seine alten Mäuse|seine alten Mäuse|seinen alten Mäusen|seiner alten Mäuse",
        ("table", False, "this"): "dieser alte Tisch|diesen alten Tisch|diesem alten Tisch|dieses alten Tisches",
    }
    for (noun, plural, determiner), forms in paradigms.items():
        phrase = the(noun, "old", plural, determiner)
        for case, expected in zip(("nom", "acc", "dat", "gen"), forms.split("|"), strict=True):
            assert " ".join(word for word, _ in phrase.realize(Weaver(), case)[1]) == expected
    for noun in nouns_tagged("person", "animal", "food", "object", "readable", "place", "drink"):
        assert adjectives_of(noun), noun.english


def test_german_puts_its_verbs_where_they_belong():
    """In every that-clause the word before the full stop is a verb form: never a noun, which German capitalises."""
    for pair in train():
        if ", dass " in pair.target or ", weil " in pair.target:
            assert words(pair.target)[-2].islower(), pair
