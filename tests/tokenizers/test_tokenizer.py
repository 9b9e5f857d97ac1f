"""Tokenisers lose nothing, never match special tokens in text, and train the same way twice."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.tokenizers.frames import bytes_to_unicode
from anaphora.tokenizers.tokenizer import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    Tokenizer,
    TokenizerConfig,
    vocabulary_for,
)
from tokenizers import Tokenizer as RustTokenizer

LINES = [
    "the dog sees the cat , and the cat sees the dog .",
    "<s> <unk> <unk> </s> <pad> the <unk> runs over the street",
    "⟨s⟩ ⟨unk⟩ ⟨pad⟩ ⟨/s⟩ <0x41> <0x0A>",
    "Die große Straße läuft über die Brücke, nicht wahr? L’eau, don't.",
] * 5
LOSSLESS = [
    {"kind": "bpe", "vocabulary": 400},
    {"kind": "unigram", "vocabulary": 400},
    {"kind": "word"},
    {"kind": "word", "split": "whitespace"},
    {"kind": "character"},
    {"kind": "byte"},
]
NAMES = ["bpe", "unigram", "word", "word-whitespace", "character", "byte"]


@functools.cache
def tokenizer(name: str) -> Tokenizer:
    return Tokenizer.train(TokenizerConfig(**LOSSLESS[NAMES.index(name)]), LINES)


def unknowing(kind: str, split: str = "punctuation") -> Tokenizer:
    return Tokenizer.train(TokenizerConfig(kind=kind, fallback="unk", split=split), LINES)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=150)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(name: str, text: str) -> None:
    one = tokenizer(name)
    ids = one.encode(text)
    assert one.decode(ids) == text
    assert one.encode_batch([text, text]) == [ids, ids]
    assert all(id > UNK for id in ids)
    assert b"".join(one.token_bytes(id) for id in ids).removeprefix(b" " * name.startswith("word")) == text.encode()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "   ",
        "  two  spaces  ",
        "<s><pad><unk>",
        "<unk>",
        "⟨pad⟩",
        " ⟨unk⟩ ",
        "⟨s⟩",
        "<0x41>",
        "\0",
        "a\rb\r",
        "a\u2028b\x85c\x0b",
        "👩‍👩‍👧 e\u0301 \u200b",
        "\ttab\t",
        "\n",
        "Ġ Ċ ▁",
    ],
)
def test_awkward_text_comes_back(name: str, text: str, tmp_path: Path) -> None:
    one = tokenizer(name)
    one.save(tmp_path / "tokenizer.json")
    plain = RustTokenizer.from_file(str(tmp_path / "tokenizer.json"))  # as any other program would load it
    for ids in (one.encode(text), Tokenizer.load(tmp_path / "tokenizer.json").encode(text), plain.encode(text).ids):
        assert one.decode(ids) == text
        assert not {PAD, BOS, EOS, UNK} & set(ids)
    assert plain.decode(one.encode(text), skip_special_tokens=False) == text


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_any_ids_decode(name: str, data: st.DataObject) -> None:
    one = tokenizer(name)
    ids = data.draw(st.lists(st.integers(0, one.vocabulary_size - 1), max_size=30))
    text = one.decode(ids)
    assert not any(special in one.decode([id]) for id in ids if id < 4 for special in SPECIALS)
    assert one.decode([BOS, *ids, EOS, PAD]) == text == one.decode(np.array(ids, dtype=np.int64))
    assert one.decode_batch([ids]) == [text]
    text.encode()  # valid Unicode: bytes that were not became U+FFFD


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_have_their_ids(name: str) -> None:
    one = tokenizer(name)
    assert [one.token(id) for id in (PAD, BOS, EOS, UNK)] == list(SPECIALS)
    assert one.kind == name.split("-")[0]
    assert len({one.token(id) for id in range(len(one))}) == one.vocabulary_size
    with pytest.raises(IndexError):
        one.token(one.vocabulary_size)


@pytest.mark.parametrize("name", NAMES)
def test_training_twice_gives_the_same_file(name: str) -> None:
    """In another process too, where hash maps have another order."""
    config = TokenizerConfig(**LOSSLESS[NAMES.index(name)])
    program = (
        f"from anaphora.tokenizers.tokenizer import *; print(Tokenizer.train({config!r}, {LINES!r}).fingerprint())"
    )
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == tokenizer(name).fingerprint()
    assert Tokenizer.from_json(tokenizer(name).to_json()).fingerprint() == tokenizer(name).fingerprint()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_is_deterministic_on_real_vocabularies(kind: str, german: list[str], english: list[str]) -> None:
    config = TokenizerConfig(kind=kind, vocabulary=330)  # type: ignore[arg-type]
    prints = {Tokenizer.train(config, german + english).fingerprint() for _ in range(3)}
    assert len(prints) == 1


def test_words_are_the_same_type_everywhere() -> None:
    one = tokenizer("word")
    dog = one.encode("dog")
    assert len(dog) == 1
    assert one.encode("the dog .")[1] == dog[0]
    assert [one.token(id) for id in one.encode("the cat, don't.")] == [" the", " cat", ",", " don't", "."]
    whitespace = tokenizer("word-whitespace")
    assert [whitespace.token(id) for id in whitespace.encode("the <unk> runs")] == [" the", " <unk>", " runs"]


def test_unknown_words_and_characters_become_unk() -> None:
    for split in ("punctuation", "whitespace"):
        words = unknowing("word", split)
        assert words.encode("the zebra sees")[1] == UNK
        assert words.decode(words.encode("the zebra sees")) == "the <unk> sees"
        assert words.decode(words.encode("zebra")) == "<unk>"
    characters = unknowing("character")
    assert characters.encode("dØg").count(UNK) == 1
    assert characters.decode(characters.encode("dØg")) == "d<unk>g"
    literal = unknowing("word", "whitespace")  # the text "⟨unk⟩" is a word like another
    assert UNK not in literal.encode("⟨unk⟩")
    assert literal.decode(literal.encode("⟨unk⟩ the")) == "⟨unk⟩ the"


def test_minimum_count_and_vocabulary_bound_words() -> None:
    few = Tokenizer.train(TokenizerConfig(kind="word", minimum_count=2, fallback="unk"), ["a a b"])
    assert [few.token(id) for id in range(4, len(few))] == [" a"]
    small = Tokenizer.train(TokenizerConfig(kind="word", vocabulary=262), LINES)
    assert len(small) == 262


@pytest.mark.parametrize(
    ("pairs", "size"), [(0, 2000), (5_000, 2000), (10_000, 4000), (30_000, 8000), (200_000, 16_000), (9**9, 32_000)]
)
def test_vocabulary_is_sized_to_the_corpus(pairs: int, size: int) -> None:
    assert vocabulary_for(pairs) == size


def test_the_byte_alphabet_is_the_librarys() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    assert sorted(bytes_to_unicode()) == sorted(ByteLevel.alphabet())
    ((piece, _),) = ByteLevel(add_prefix_space=False).pre_tokenize_str("Straße")
    assert piece == "".join(bytes_to_unicode()[byte] for byte in "Straße".encode())


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no text to train a tokenizer on; give a file"):
        Tokenizer.train(TokenizerConfig(), ["", ""])
    with pytest.raises(
        UserError, match=r"vocabulary is 100, but bytes and special tokens alone are 260; make it at least"
    ):
        Tokenizer.train(TokenizerConfig(vocabulary=100), LINES)
    with pytest.raises(UserError, match="cannot read the tokenizer: No such file"):
        Tokenizer.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UserError, match=r"bad\.json: this is not a tokenizer\.json"):
        Tokenizer.load(tmp_path / "bad.json")
    (tmp_path / "foreign.json").write_text(tokenizer("word").to_json().replace("⟨s⟩", "[CLS]"))
    with pytest.raises(UserError, match=r"use a tokenizer\.json that Anaphora made"):
        Tokenizer.load(tmp_path / "foreign.json")
    document = json.loads(tokenizer("bpe").to_json())
    document["model"]["vocab"]["Ġnew"] = 100_000
    (tmp_path / "gap.json").write_text(json.dumps(document))
    with pytest.raises(
        UserError, match=r"gap\.json: its tokens are not numbered from 0 without a gap; use a tokenizer"
    ):
        Tokenizer.load(tmp_path / "gap.json")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
def test_no_vocabulary_is_larger_than_its_text(kind: str) -> None:
    """Asked for so many, the library would reserve 70 GB, and abort."""
    endless = Tokenizer.train(TokenizerConfig(kind=kind, vocabulary=10**18), LINES)  # type: ignore[arg-type]
    enough = Tokenizer.train(TokenizerConfig(kind=kind, vocabulary=100_000), LINES)  # type: ignore[arg-type]
    assert endless.to_json() == enough.to_json() and 260 < len(endless) < 1000


def test_the_vocabulary_fingerprint_is_of_tokens_and_their_order() -> None:
    one = tokenizer("bpe")
    assert Tokenizer.from_json(one.to_json()).vocabulary_fingerprint() == one.vocabulary_fingerprint()
    document = json.loads(one.to_json())
    vocabulary = document["model"]["vocab"]
    first, second = (token for token, id in vocabulary.items() if id in (100, 101))
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    assert Tokenizer.from_json(json.dumps(document)).vocabulary_fingerprint() != one.vocabulary_fingerprint()
    assert tokenizer("word").vocabulary_fingerprint() != one.vocabulary_fingerprint()


# What may be anybody's ------------------------------------------------------------------------------------------------

SLOW = {"type": "Split", "pattern": {"Regex": "^(a+)+$"}, "behavior": "Isolated", "invert": False}
EXPLODING = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 100_000}


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("pre_tokenizer", SLOW, r"its pre_tokenizer \(Split of {'Regex': '\^\(a\+\)\+\$'}\) is not one of Anaphora's"),
        ("normalizer", EXPLODING, r"its normalizer \(Replace of {'String': 'e'}\) is not one of Anaphora's"),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}]}, r"its normalizer \(NFC\) is not one"),
        ("decoder", EXPLODING, r"its decoder \(Replace .* is not one"),
        ("decoder", {"type": "Replace", "pattern": {"Regex": "^⟨unk⟩$"}, "content": "x" * 9999}, "is not one"),
        ("post_processor", {"type": "ByteLevel"}, r"its post_processor \(ByteLevel\) is not one"),
        ("added_tokens", [{"id": 0, "content": "a"}], "has added tokens"),
        ("model", {"type": "WordPiece", "vocab": {}}, r"its model \(WordPiece\) is not one"),
        ("model", {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.5}, "'dropout' set to 0.5"),
        ("model", {"vocab": {}}, r"its model \(no type\) is not one"),
        ("model", [], "it has no model"),
    ],
)
def test_parts_that_none_of_ours_has_are_refused_by_name(part: str, value: object, said: str, tmp_path: Path) -> None:
    document = json.loads(tokenizer("bpe").to_json())
    (tmp_path / "tokenizer.json").write_text(json.dumps({**document, part: value}), encoding="utf-8")
    with pytest.raises(UserError, match=rf"tokenizer\.json: .*{said}.*; use a tokenizer\.json that Anaphora made"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"model": {}, "model": {}}', "[]", "1", '{"a": ' + "9" * 5000 + "}"])
def test_odd_json_is_no_tokeniser(text: str) -> None:
    with pytest.raises(UserError, match=r"this is not a tokenizer\.json"):
        Tokenizer.from_json(text)


@pytest.mark.parametrize("name", NAMES)
def test_a_part_that_an_older_library_left_out_is_not_missed(name: str) -> None:
    document = json.loads(tokenizer(name).to_json())
    for part in document.values():
        if isinstance(part, dict):
            part.pop("use_regex", None)
    for key in ("ignore_merges", "byte_fallback"):
        if not document["model"].get(key):
            document["model"].pop(key, None)
    if document["model"]["type"] == "BPE":
        document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    again = Tokenizer.from_json(json.dumps(document))
    if name != "byte":  # its pre-tokeniser does without the regex
        assert again.fingerprint() == tokenizer(name).fingerprint()
