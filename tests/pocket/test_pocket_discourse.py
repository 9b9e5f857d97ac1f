"""One sense per discourse: lines that keep a word's meaning, and the grammar's labels of what belongs to each."""

from __future__ import annotations

import pytest

from anaphora import pocket
from anaphora.pocket.discourse import SENSES, deciding_words, discourses
from anaphora.pocket.pocket_senses import ADJECTIVE_SENSES, NOUN_SENSES

NAMES = [*NOUN_SENSES, *(adjective.sense for adjective, _ in ADJECTIVE_SENSES)]
WORDS = list(dict.fromkeys(name.partition(".")[0] for name in NAMES))


def test_a_line_keeps_to_one_sense() -> None:
    lines = discourses(400, sentences=3)
    labels = {pair.source: pair.senses for pair in pocket.generate("train", 2000)}
    assert sum(line.count(". ") + line.count("? ") + 1 for line in lines) == 400
    longest = 0
    for line in lines:
        sentences = [
            part if part[-1] in ".?" else f"{part}." for part in line.replace("? ", "?|").replace(". ", ".|").split("|")
        ]
        senses = {label.sense for sentence in sentences for label in labels[sentence]}
        assert len(senses) == 1, line
        longest = max(longest, len(sentences))
    assert longest == 3
    assert lines == discourses(400, sentences=3) != discourses(400, sentences=3, seed=2)


@pytest.mark.parametrize("word", WORDS)
def test_words_that_decide_belong_to_one_meaning(word: str) -> None:
    labels = deciding_words(word)
    assert set(labels) == {name for name in NAMES if name.startswith(f"{word}.")} and len(labels) == 2
    first, second = labels.values()
    assert len(first) >= 2 and len(second) >= 2 and not first & second


def test_labels_are_what_the_sentences_have() -> None:
    """Every sentence with an ambiguous noun or adjective, as generated, holds a word of its own meaning, and (save for
    words of other constructions around it) none of the other's more often."""
    own = other = lacking = 0
    for pair in pocket.generate("train", 3000):
        if len(pair.senses) != 1 or pair.senses[0].sense not in NAMES:
            continue
        sense = pair.senses[0].sense
        labels = deciding_words(sense.partition(".")[0])
        words = set(pocket.words(pair.source)) | {word.lower() for word in pocket.words(pair.source)}
        mine = bool(words & labels[sense])
        own += mine
        lacking += not mine
        other += any(words & labels[name] for name in labels if name != sense)
    assert own > 500 and lacking == 0
    assert other <= 0.02 * own


def test_sick() -> None:
    labels = deciding_words("sick")
    assert labels["sick.cool"] == {"trick", "jump", "party"}
    assert {"man", "men", "dog", "cows"} <= labels["sick.ill"]
    assert {"river", "flooded", "muddy"} <= deciding_words("bank")["bank.shore"]
    assert deciding_words("house") == {}


def test_as_many_of_each_sense_in_several_rounds() -> None:
    number = 5 * len(SENSES)
    lines = discourses(number, sentences=5, most=5, rounds=2)
    assert len(lines) == 2 * len(SENSES)
    sentences = [one for line in lines for one in line.replace("? ", "?|").replace(". ", ".|").split("|")]
    assert len(sentences) == 2 * number and len(set(sentences)) == number
    with pytest.raises(ValueError, match="are no"):
        discourses(number + 1, most=5)
