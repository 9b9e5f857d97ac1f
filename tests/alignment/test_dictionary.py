"""The dictionary of single words: learned from pairs, kept in a file that people edit, refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.alignment.dictionary import (
    FILE,
    MIN_PROBABILITY,
    Dictionary,
    Entry,
    first_word,
    inner_forms,
    learn_for,
    of_folder,
    words_of,
)
from anaphora.data.preparation import prepare
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from micro_runs import WORDS, pairs, write_pairs

FEW = TokenizerConfig(kind="word", fallback="unk", vocabulary=12)


def lessons(number: int = 300) -> tuple[list[list[str]], list[list[str]]]:
    both = pairs(number)
    return [source[:-1].split() for source, _ in both], [target[:-1].split() for _, target in both]


# Learning -------------------------------------------------------------------------------------------------------------


def test_it_learns_what_translates_what() -> None:
    learned = Dictionary.learn(*lessons())
    assert {entry.source: entry.target for entry in learned} == WORDS
    for entry in learned:
        assert MIN_PROBABILITY <= entry.probability <= 1
        assert entry.count >= 1
    assert learned.entries["dog"].probability > 0.9


def test_the_same_text_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Dictionary.learn(*lessons(60)).write(tmp_path / name, "twice")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_first_word_is_counted_as_it_stands_inside_lines() -> None:
    lines = [["Quickly", "he", "runs"], ["Berlin", "is", "big"], ["“", "He", "came", "quickly"], ["Zorb", "He", "he"]]
    lines += [["to", "Berlin"], [], ["!"], ["he", "he"]]
    changed = inner_forms(lines)
    assert changed[0] == ["quickly", "he", "runs"]  # seen inside, in lower case
    assert changed[1][0] == "Berlin"  # seen inside with its capital
    assert changed[2][1] == "he"  # the first word, not the quotation mark; "he" is more frequent than "He"
    assert changed[3][0] == "Zorb"  # never seen inside: left alone
    assert changed[5:7] == [[], ["!"]]
    assert lines[0][0] == "Quickly"  # the lines themselves are not touched


def test_sentence_capitals_do_not_part_a_word_in_two() -> None:
    sources = [["Quickly", "he", "runs"], ["he", "runs", "quickly"], ["he", "sings"], ["he", "sings", "quickly"]] * 5
    targets = [["Schnell", "läuft", "er"], ["er", "läuft", "schnell"], ["er", "singt"], ["er", "singt", "schnell"]] * 5
    learned = Dictionary.learn(sources, targets)
    assert learned.entries["quickly"].target == "schnell"
    assert learned["Quickly"] is None


def test_words_are_those_of_the_tokeniser() -> None:
    tokenizer = Tokenizer.train(FEW, ["the cat"])
    assert words_of(tokenizer, "  A T-Shirt,\tplease! ") == ["A", "T", "-", "Shirt", ",", "please", "!"]
    assert first_word(["“", "…", "so"]) == 2
    assert first_word(["!", "?"]) is None


# The file -------------------------------------------------------------------------------------------------------------

word = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6)
entries = st.builds(Entry, word, word, st.integers(1, 1000).map(lambda n: n / 1000), st.integers(0, 999))


@given(st.lists(entries, max_size=12))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, some: list[Entry]) -> None:
    path = tmp_path_factory.mktemp("dictionary") / FILE
    written = Dictionary(some)
    written.write(path, "made by hand")
    assert Dictionary.read(path).entries == written.entries


def test_a_dictionary_of_ones_own_may_be_short(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_bytes(
        "\ufeff# mine\r\nigloo\tIglu\r\n\r\n#\tNummer\r\nsky\tHimmel\t0.6\r\nsky\tfreier  Fall\t0.7\n".encode()
    )
    found = Dictionary.read(path)
    assert found["igloo"] == Entry("igloo", "Iglu")
    assert found["#"] == Entry("#", "Nummer")  # a word, no comment
    assert found["sky"] == Entry("sky", "freier Fall", 0.7)  # the most probable
    assert len(found) == 3


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("igloo", "one column"),
        ("igloo Iglu", "one column"),
        ("a\tb\t0.5\t3\tx", "5 columns"),
        ("\tIglu", "no source word"),
        ("igloo\t ", "no target word"),
        ("New York\tNew York", "more than one word"),
        ("igloo\tIglu\t1.5", "'1.5' is no probability"),
        ("igloo\tIglu\t0", "'0' is no probability"),
        ("igloo\tIglu\tnan", "'nan' is no probability"),
        ("igloo\tIglu\thigh", "'high' is no probability"),
        ("igloo\tIglu\t0.5\t-1", "'-1' is no count"),
        ("igloo\tIglu\t0.5\t²", "'²' is no count"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(f"# mine\ndog\tHund\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError) as refused:
        Dictionary.read(path)
    assert says in refused.value.what
    assert (refused.value.file, refused.value.line) == (str(path), 3)
    assert refused.value.cure


def test_what_is_no_dictionary_is_said(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe4pfel\tapples\n")
    for name, says in (("latin", "not UTF-8"), ("none", "no such dictionary"), (".", "is a folder")):
        with pytest.raises(UserError, match=says):
            Dictionary.read(tmp_path / name)


# Of a model folder ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    files = write_pairs(folder, 120)
    prepare(folder / "data", {side: [str(file)] for side, file in files.items()}, tokenizer=FEW)
    return folder


def test_a_folder_learns_its_own_once(prepared_folder: Path, tmp_path: Path) -> None:
    from anaphora.data.preparation import open_prepared

    prepared = open_prepared(prepared_folder / "data")
    tokenizers = prepared.tokenizers["source"], prepared.tokenizers["target"]
    told = learn_for(tmp_path, prepared.train, tokenizers)
    assert "learned from" in told
    assert Dictionary.read(tmp_path / FILE).entries["dog"].target == "Hund"
    (tmp_path / FILE).write_text("dog\tDackel\n", encoding="utf-8")  # edited: it stays
    assert "was kept" in learn_for(tmp_path, prepared.train, tokenizers)
    assert of_folder(tmp_path, tokenizers).entries["dog"].target == "Dackel"
    child = tmp_path / "child"
    child.mkdir()
    (tmp_path / FILE).write_text("dog\tDackel\nigloo\tIglu\n", encoding="utf-8")
    learn_for(child, prepared.train, tokenizers, start=tmp_path)
    assert Dictionary.read(child / FILE).entries["dog"].target == "Hund"  # what the new text says
    assert Dictionary.read(child / FILE).entries["igloo"].target == "Iglu"  # what only the old one knew


def test_a_folder_without_text_has_an_empty_one(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(FEW, ["the cat"])
    assert len(of_folder(tmp_path, (tokenizer, tokenizer))) == 0
    assert not (tmp_path / FILE).exists()


def test_where_nothing_is_unknown_nothing_is_learned(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, 30)
    tokenizer = TokenizerConfig(kind="word", fallback="unk")
    prepared = prepare(tmp_path / "data", {side: [str(file)] for side, file in files.items()}, tokenizer=tokenizer)
    told = learn_for(tmp_path, prepared.train, (prepared.tokenizers["source"], prepared.tokenizers["target"]))
    assert "no dictionary is needed" in told
    assert not (tmp_path / FILE).exists()
