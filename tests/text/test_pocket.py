"""The pocket corpus: counts, one translation a sentence, splits, gold alignments and senses, and its German."""

import re
from collections import Counter, defaultdict
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.text.pocket import AMBIGUOUS, PocketPair, constructions, count_sentences, generate, words, write
from anaphora.text.pocket.choices import NounPhrases, OneOf, Variant, count_distinct
from anaphora.text.pocket.clauses import BE, Clause, Predicate, joined
from anaphora.text.pocket.contexts import CONTEXTS
from anaphora.text.pocket.lexicon import ADJECTIVES, GIVING, MOTION, NOUNS, VERBS, adjectives_of, nouns_tagged
from anaphora.text.pocket.numbers import (
    DATES,
    ENGLISH_TENS,
    ENGLISH_UNITS,
    english_cardinal,
    english_ordinal,
    german_cardinal,
    german_ordinal,
)
from anaphora.text.pocket.phrases import NounPhrase, Pronoun, Weaver, at_place, date, one_to_one, to_place
from anaphora.text.pocket.senses import (
    ADJECTIVE_SENSES,
    CONTEXT_VERBS,
    EAT_ANIMAL,
    EAT_PERSON,
    NOUN_SENSES,
    context_noun,
)
from anaphora.text.pocket.splits import _grammar, is_withheld

VERB = {verb.english: verb for verb in [*VERBS, *MOTION, *GIVING]}
SEED = 1


@cache
def corpus(split: str, count: int) -> list[PocketPair]:
    return generate(split, count, SEED)  # type: ignore[arg-type]


def train() -> list[PocketPair]:
    return corpus("train", 28_000)


def lexical(text: str) -> list[str]:
    """The words of a text without punctuation."""
    return [word for word in words(text) if word[0].isalnum()]


def components(text: str) -> list[str]:
    """Lower-case words, with compounds such as twenty-three taken apart."""
    return [part for word in lexical(text.lower()) for part in word.split("-")]


# --- size ---------------------------------------------------------------------------------------------------------


def test_it_is_as_large_as_promised():
    vocabulary = {word.lower() for pair in train() for word in lexical(pair.source) if "-" not in word}
    assert 300 <= len(vocabulary) <= 600
    assert len(constructions()) >= 15
    assert {pair.construction for pair in train()} == set(constructions())
    assert count_sentences() > 10**9


def test_sentences_have_4_to_20_words():
    lengths = [len(lexical(pair.source)) for pair in [*train(), *corpus("test", 1000)]]
    assert min(lengths) >= 4
    assert max(lengths) <= 20
    assert 8 <= sum(lengths) / len(lengths) <= 11


def test_shares_of_numbers_dates_and_ambiguous_words():
    number = re.compile(rf"\b({'|'.join([*ENGLISH_UNITS, *ENGLISH_TENS[2:], 'hundred'])})\b")
    pairs = train()
    dated = [pair for pair in pairs if re.search(r" the \S+ of [A-Z]", pair.source)]
    numbered = [pair for pair in pairs if number.search(pair.source.lower())]
    assert 0.05 <= len(dated) / len(pairs) <= 0.10
    assert 0.10 <= len(numbered) / len(pairs) <= 0.20
    assert sum(bool(pair.senses) for pair in corpus("test", 1000)) >= 300


def test_counting_agrees_with_enumeration():
    # Small enough to enumerate by sampling: two slots that share two of their three nouns.
    first = NounPhrases([NOUNS["dog"], NOUNS["cat"]], {"the": 1.0, "plural": 1.0})
    second = NounPhrases([NOUNS["cat"], NOUNS["dog"], NOUNS["cow"]], {"the": 1.0})
    variant = Variant(lambda w, v: ([], []), a=first, b=second, c=OneOf([1, 2]))
    rng = Random(0)
    seen = {tuple(variant.sample(rng).values()) for _ in range(2000)}
    assert len(seen) == variant.count == 2 * (4 * 3 - 2 * 1 - 2 * 1)
    assert count_distinct((first, first, first)) == 0  # two nouns cannot fill three slots


def test_derivations_and_sentences_correspond_one_to_one():
    """What makes the count of derivations a count of sentences: the same English, the same choices."""
    rng = Random(0)
    entries = _grammar()[1]
    seen: dict[str, object] = {}
    for _ in range(12_000):
        name, variants, mark = entries[int(rng.random() * len(entries))]
        place = int(rng.random() * len(variants))
        values = variants[place].sample(rng)
        weaver = Weaver()
        pair = weaver.finish(variants[place].build(weaver, values), mark, name)
        derivation = (name, place, tuple(values.items()))
        assert seen.setdefault(pair.source, derivation) == derivation, pair.source


# --- determinism and splits ---------------------------------------------------------------------------------------


def test_a_pure_function_of_the_seed():
    assert generate("train", 300, 5) == generate("train", 300, 5)
    assert generate("train", 100, 5) == generate("train", 300, 5)[:100]
    assert generate("train", 100, 5) != generate("train", 100, 6)


def test_the_stream_is_the_same_on_every_machine():
    assert generate("train", 1, 1)[0].source == "The long matches began on Saturday."


def test_one_translation_for_each_english_sentence():
    seen: dict[str, str] = {}
    for pair in [*train(), *corpus("valid", 1000), *corpus("test", 1000)]:
        assert seen.setdefault(pair.source, pair.target) == pair.target


def test_splits_share_nothing_and_repeat_nothing():
    sources = {
        split: [p.source for p in corpus(split, n)] for split, n in (("train", 28_000), ("valid", 1000), ("test", 1000))
    }
    for pairs in sources.values():
        assert len(set(pairs)) == len(pairs)
    assert not set(sources["train"]) & set(sources["valid"])
    assert not (set(sources["train"]) | set(sources["valid"])) & set(sources["test"])


def test_test_withholds_combinations_and_numbers():
    test = corpus("test", 1000)
    assert sum(bool(pair.withheld) for pair in test) == 300
    assert {fact.split(":")[0] for pair in test for fact in pair.withheld} == {
        "adjective+noun", "subject+verb", "number", "date",
    }  # fmt: skip
    assert not any(pair.withheld for pair in [*train(), *corpus("valid", 1000)])


def test_withheld_numbers_and_pairs_never_occur_in_training():
    # Looked for in the raw text, not in what the generator says of itself.
    facts = {fact for pair in corpus("test", 1000) for fact in pair.withheld}
    training = [f" {pair.source.lower().rstrip('.?')} " for pair in [*train(), *corpus("valid", 1000)]]
    text = "\n".join(training)
    for fact in facts:
        kind, _, rest = fact.partition(":")
        if kind == "number":
            # Not as a part of a larger number either way: 47 may be inside 347.
            assert not re.search(rf"(?<!hundred and) {english_cardinal(int(rest))} (?!hundred)", text), fact
        elif kind == "date":
            day, month = rest.split()
            assert f" the {english_ordinal(int(day))} of {month.lower()} " not in text, fact
        elif kind == "adjective+noun":
            adjective, noun = rest.split("+")
            forms = (noun, NOUNS[noun].english_plural)
            assert not any(f" {adjective} {form} " in text for form in forms), fact


def test_every_component_word_of_the_test_is_in_training():
    known = Counter(word for pair in train() for word in components(pair.source))
    unknown = {word for pair in corpus("test", 1000) for word in components(pair.source)} - set(known)
    assert not unknown


@given(st.integers(0, 999), st.integers(0, 50))
def test_only_composed_numbers_are_withheld(n, seed):
    if is_withheld(f"number:{n}", seed):
        assert n > 20
        assert len(english_cardinal(n).replace("-", " ").split()) >= 2
        assert n % 100 != 0


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="the splits are train, valid and test"):
        generate("dev", 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be negative"):
        generate("train", -1)


# --- alignments and senses ----------------------------------------------------------------------------------------

UNALIGNED_SOURCE = {"of"}
UNALIGNED_TARGET = {",", "der", "die", "das", "den", "dem"}


def test_alignments_are_in_range_and_cover_every_content_word():
    for pair in train():
        source, target = words(pair.source), words(pair.target)
        assert list(pair.alignment) == sorted(set(pair.alignment))
        aligned_source = {i for i, _ in pair.alignment}
        aligned_target = {j for _, j in pair.alignment}
        assert aligned_source <= set(range(len(source)))
        assert aligned_target <= set(range(len(target)))
        left = {source[i] for i in range(len(source)) if i not in aligned_source}
        assert left <= UNALIGNED_SOURCE, pair
        left = {target[j].lower() for j in range(len(target)) if j not in aligned_target}
        assert left <= UNALIGNED_TARGET, pair
        # An article German adds stands only where English has a possessive.
        assert left <= {","} or "'s" in pair.source, pair


def test_alignments_agree_with_the_lexicon():
    """Each ordinary noun is aligned to one of its own German forms, and to nothing else but an owner's article."""
    forms = {}
    for noun in NOUNS.values():
        german = {noun.singular(c) for c in ("nom", "acc", "dat", "gen")} | {noun.plural(c) for c in ("nom", "dat")}
        forms[noun.english] = forms[noun.english_plural] = german
    for ambiguous in ("cook", "cooks"):  # also a verb
        del forms[ambiguous]
    checked = 0
    for pair in train()[:5000]:
        source, target = words(pair.source), words(pair.target)
        for i, j in pair.alignment:
            if source[i] in forms:
                assert target[j] in forms[source[i]], pair
                checked += 1
    assert checked > 5000


def test_sense_labels_name_the_right_words():
    translations = {
        sense.name: {form(case) for form in (sense.noun.singular, sense.noun.plural) for case in ("nom", "acc", "dat")}
        for sense in NOUN_SENSES.values()
    }
    for pair in train():
        source, target = words(pair.source), words(pair.target)
        for label in pair.senses:
            assert source[label.index] == label.word
            assert (label.index, label.target_index) in pair.alignment
            if label.sense in translations:
                assert target[label.target_index] in translations[label.sense], pair
    labelled = {label.sense for pair in train() for label in pair.senses}
    assert labelled == {sense for senses in AMBIGUOUS.values() for sense in senses}
    assert len(AMBIGUOUS) >= 12


def test_each_sense_has_its_context_before_and_after():
    sides: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in train():
        for label in pair.senses:
            if pair.construction in CONTEXTS and not label.sense.startswith("eat"):
                sides[label.sense][CONTEXTS[pair.construction][2]] += 1
            if label.sense.startswith("eat"):
                sides[label.sense]["after" if pair.construction == "passive" else "before"] += 1
    for word, senses in AMBIGUOUS.items():
        if word != "know":  # *knows that* and *knows the king*: its context always follows
            for sense in senses:
                assert sides[sense]["before"] >= 20, sense
                assert sides[sense]["after"] >= 20, sense


def test_no_context_is_shared_by_two_senses():
    for word, names in AMBIGUOUS.items():
        contexts: list[set[object]] = []
        for name in names:
            if name in NOUN_SENSES:
                sense = NOUN_SENSES[name]
                deciding: set[object] = {a.english for a in sense.adjectives} | {("of", n.english) for n in sense.whole}
                deciding |= {("object", verb.english) for _, verb in sense.object_of}
                deciding |= {("subject", verb.english) for verb, _ in sense.subject_of}
                assert not {a.english for a in sense.adjectives} & set(sense.neutral)
                assert len({NOUN_SENSES[other].neutral for other in names}) == 1, word
                contexts.append(deciding)
        for adjective, nouns in ADJECTIVE_SENSES:
            if adjective.english == word:
                contexts.append({noun.english for noun in nouns})
        for i, first in enumerate(contexts):
            for second in contexts[i + 1 :]:
                assert not first & second, (word, first & second)


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
        ).realise(w),
        "The old farmer bought twenty-three red apples on the third of May.",
        "Der alte Bauer kaufte am dritten Mai dreiundzwanzig rote Äpfel.",
    ),
    (
        lambda w: clause(the("woman", "young"), "see", the("neighbour", "lazy"), time=YESTERDAY).realise(
            w, "time-first"
        ),
        "Yesterday the young woman saw the lazy neighbour.",
        "Gestern sah die junge Frau den faulen Nachbarn.",
    ),
    (
        lambda w: clause(the("child", determiner="a"), "help", the("king", "old")).realise(w),
        "A child helped the old king.",
        "Ein Kind half dem alten König.",
    ),
    (
        lambda w: clause(NounPhrase("Anna"), "find", the("umbrella", "expensive", determiner="a")).realise(w),
        "Anna found an expensive umbrella.",
        "Anna fand einen teuren Regenschirm.",
    ),
    (
        lambda w: clause(NounPhrase("we"), "invite", the("student"), "perfect").realise(w),
        "We have invited the student.",
        "Wir haben den Studenten eingeladen.",
    ),
    (
        lambda w: clause(NounPhrase("she"), "call", the("doctor", determiner="a"), time=YESTERDAY).realise(w),
        "She called a doctor yesterday.",
        "Sie rief gestern einen Arzt an.",
    ),
    (
        lambda w: clause(the("dog", None, True), "follow", the("child", None, True), "perfect").realise(w),
        "The dogs have followed the children.",
        "Die Hunde sind den Kindern gefolgt.",
    ),
    (
        lambda w: clause(the("teacher"), "read", the("story", "long", determiner="this"), negated=True).realise(w),
        "The teacher did not read this long story.",
        "Der Lehrer las diese lange Geschichte nicht.",
    ),
    (
        lambda w: clause(the("cook"), "drink", the("coffee", "hot", determiner=None), "must").realise(w, "question"),
        "Must the cook drink hot coffee?",
        "Muss der Koch heißen Kaffee trinken?",
    ),
    (
        lambda w: clause(the("boy"), "sleep", place=at_place(the("forest", "dark"))).realise(w),
        "The boy slept in the dark forest.",
        "Der Junge schlief im dunklen Wald.",
    ),
    (
        lambda w: clause(the("nurse"), "go", place=to_place(the("church", "old"))).realise(w),
        "The nurse went to the old church.",
        "Die Krankenschwester ging zur alten Kirche.",
    ),
    (
        lambda w: Clause(
            the("queen"),
            VERB["give"],
            "past",
            ((the("girl", "sad"), "dat"), (the("dog", "small", determiner="her"), "acc")),
        ).realise(w),
        "The queen gave the sad girl her small dog.",
        "Die Königin gab dem traurigen Mädchen ihren kleinen Hund.",
    ),
    (
        lambda w: clause(
            the("child"), "wash", NounPhrase(NOUNS["car"], None, ADJECTIVES["dirty"], owner=NOUNS["farmer"])
        ).realise(w),
        "The child washed the farmer's dirty car.",
        "Das Kind wusch das schmutzige Auto des Bauern.",
    ),
    (
        lambda w: Clause(
            the("horse"), BE, "present", predicate=Predicate(ADJECTIVES["old"], than=the("goat", "white"))
        ).realise(w),
        "The horse is older than the white goat.",
        "Das Pferd ist älter als die weiße Ziege.",
    ),
    (
        lambda w: clause(the("man"), EAT_PERSON, the("pear")).realise(w),
        "The man ate the pear.",
        "Der Mann aß die Birne.",
    ),
    (
        lambda w: Clause(the("pear"), EAT_ANIMAL, agent=the("rabbit", "hungry", determiner="a")).realise(w),
        "The pear was eaten by a hungry rabbit.",
        "Die Birne wurde von einem hungrigen Kaninchen gefressen.",
    ),
    (
        lambda w: Clause(
            NounPhrase(NOUN_SENSES["bank.money"].noun, "the"), CONTEXT_VERBS["rob"], agent=the("thief")
        ).realise(w),
        "The bank was robbed by the thief.",
        "Die Bank wurde vom Dieb ausgeraubt.",
    ),
    (
        lambda w: Clause(
            NounPhrase(NOUN_SENSES["bank.shore"].noun, "the", of=context_noun("river")),
            BE,
            predicate=Predicate(ADJECTIVES["big"]),
        ).realise(w),
        "The bank of the river was big.",
        "Das Ufer des Flusses war groß.",
    ),
    (
        lambda w: clause(
            the("student"), CONTEXT_VERBS["pronounce"], NounPhrase(NOUN_SENSES["letter.alphabet"].noun, "the")
        ).realise(w),
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
        main = clause(the("woman"), "buy", lamp).realise(w)
        why = Clause(Pronoun(lamp, "it"), BE, predicate=Predicate(ADJECTIVES["cheap"])).realise(w, "final")
        sub = joined(w, ("because", "weil"), why)
        return main[0] + sub[0], main[1] + sub[1]

    for thing, german in (("lamp", "sie"), ("table", "er"), ("book", "es")):
        english, target = written(lambda w, thing=thing: build(w, thing))
        assert english == f"The woman bought the {thing} because it was cheap."
        assert target.endswith(f", weil {german} billig war.")

    def invited(w):
        sub = joined(w, ("that", "dass"), clause(the("aunt"), "invite", the("boy")).realise(w, "final"))
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
            assert " ".join(word for word, _ in phrase.realise(Weaver(), case)[1]) == expected
    for noun in nouns_tagged("person", "animal", "food", "object", "readable", "place", "drink"):
        assert adjectives_of(noun), noun.english


def test_german_puts_its_verbs_where_they_belong():
    """In every that-clause the word before the full stop is a verb form: never a noun, which German capitalises."""
    for pair in train():
        if ", dass " in pair.target or ", weil " in pair.target:
            assert words(pair.target)[-2].islower(), pair


# --- words and files ----------------------------------------------------------------------------------------------


def test_words_splits_punctuation_only():
    assert words("Anna's twenty-three cats, too.") == ["Anna's", "twenty-three", "cats", ",", "too", "."]
    assert words("Der Mann, der schlief?") == ["Der", "Mann", ",", "der", "schlief", "?"]
    assert words("") == []


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_words_loses_nothing_but_space(text):
    assert "".join(words(text)) == re.sub(r"\s", "", text)


def test_written_files_hold_the_corpus(tmp_path):
    folder = tmp_path / "made" / "pocket"
    write(folder, train=50, valid=20, test=30, seed=3)
    endings = ("en", "de", "align", "senses", "withheld")
    expected = {f"{split}.{ending}" for split in ("train", "valid", "test") for ending in endings} | {"README.txt"}
    assert {path.name for path in folder.iterdir()} == expected  # no temporary file left behind
    for split, count in (("train", 50), ("valid", 20), ("test", 30)):
        pairs = generate(split, count, 3)  # type: ignore[arg-type]
        read = {e: (folder / f"{split}.{e}").read_text(encoding="utf-8").splitlines() for e in endings}
        assert read["en"] == [pair.source for pair in pairs]
        assert read["de"] == [pair.target for pair in pairs]
        links = [tuple(tuple(map(int, link.split("-"))) for link in line.split()) for line in read["align"]]
        assert links == [pair.alignment for pair in pairs]
        assert [tuple(line.split("; ")) if line else () for line in read["withheld"]] == [p.withheld for p in pairs]
        for line in read["senses"]:
            n, index, word, sense, target_index = line.split("\t")
            assert words(read["en"][int(n)])[int(index)] == word
            assert sense in AMBIGUOUS[sense.split(".")[0]]
            assert (int(index), int(target_index)) in pairs[int(n)].alignment
    assert "Pharaoh" in (folder / "README.txt").read_text(encoding="utf-8")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write(folder, train=50, valid=20, test=30, seed=3)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
