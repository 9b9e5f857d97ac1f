"""The pocket corpus: counts, one translation a sentence, splits, gold alignments and senses, files."""

import re
from collections import Counter, defaultdict
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.pocket import AMBIGUOUS, PocketPair, constructions, count_sentences, generate, words, write
from anaphora.pocket.contexts import CONTEXTS
from anaphora.pocket.lexicon import NOUNS
from anaphora.pocket.numbers import (
    ENGLISH_TENS,
    ENGLISH_UNITS,
    english_cardinal,
    english_ordinal,
)
from anaphora.pocket.pocket_choices import NounPhrases, OneOf, Variant, count_distinct
from anaphora.pocket.pocket_phrases import Weaver
from anaphora.pocket.pocket_senses import (
    ADJECTIVE_SENSES,
    NOUN_SENSES,
)
from anaphora.pocket.splits import _grammar, is_withheld

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
    labeled = {label.sense for pair in train() for label in pair.senses}
    assert labeled == {sense for senses in AMBIGUOUS.values() for sense in senses}
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
