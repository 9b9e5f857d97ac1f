"""Words between blanks, as counting tools have them; vocabularies in files; and the tokenizer of bytes."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.config import build
from anaphora.data.word_ids import WordIds
from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BLANKS, SPECIALS, UNK, Tokenizer, TokenizerConfig
from anaphora.tokenizers.vocabulary_file import read_vocabulary
from anaphora.tokenizers.word_tokenizer import write_word_tokenizer

ODD = st.text(st.sampled_from(list("aab  \t\r\v\f\u00a0\u2003\x1c\x85é⟨s⟩<unk>")), max_size=40)
ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=40)


def blanks(**settings: object) -> TokenizerConfig:
    return TokenizerConfig(kind="word", split="blanks", fallback="unk", **settings)  # type: ignore[arg-type]


# -- words between blanks ----------------------------------------------------------------------------------------------


@given(st.lists(ODD | ANY, min_size=1, max_size=6), st.lists(ODD | ANY, max_size=4))
def test_the_same_ids_as_the_table_of_bytes(lines: list[str], others: list[str]) -> None:
    lines = [*lines, "a"]
    tokenizer = Tokenizer.train(blanks(), lines)
    words = WordIds.of(tokenizer)
    for line in (*lines, *others):
        ids = words.ids(f"{line}\n".encode(), framed=False).tolist()[:-1]
        assert tokenizer.encode(line) == ids
        assert len(ids) == len(line.encode().split())  # what bytes take for white space
    ids, starts = tokenizer.encode_flat([*lines, *others])
    assert ids.tolist() == [id for line in (*lines, *others) for id in tokenizer.encode(line)]
    assert np.diff(starts).tolist() == [len(tokenizer.encode(line)) for line in (*lines, *others)]


@given(ODD | ANY)
def test_a_line_comes_back_with_single_spaces(line: str) -> None:
    tokenizer = Tokenizer.train(blanks(), [line, "a"])
    assert tokenizer.decode(tokenizer.encode(line)) == " ".join(word.decode() for word in line.encode().split())


def test_no_word_of_a_text_is_a_special_token() -> None:
    line = " ".join((*SPECIALS, "<s>", "</s>", "<unk>"))
    tokenizer = Tokenizer.train(blanks(), [line])
    assert min(tokenizer.encode(line)) > UNK
    assert tokenizer.decode(tokenizer.encode(line)) == line


def test_the_most_frequent_first_and_of_equals_the_first() -> None:
    tokenizer = Tokenizer.train(blanks(), ["z y x y", "x z y"])
    assert [tokenizer.token(id) for id in range(4, len(tokenizer))] == [" y", " z", " x"]
    assert Tokenizer.train(blanks(vocabulary=6), ["z y x y", "x z y"]).encode("x y z") == [UNK, 4, 5]
    assert Tokenizer.train(blanks(minimum_count=3), ["z y x y", "x z y"]).encode("x y z") == [UNK, 4, UNK]


def test_the_file_tells_what_it_is(tmp_path: Path) -> None:
    for split in ("punctuation", "whitespace", "blanks"):
        made = Tokenizer.train(TokenizerConfig(kind="word", split=split, fallback="unk"), ["a b."])  # type: ignore[arg-type]
        made.save(tmp_path / "tokenizer.json")
        assert (Tokenizer.load(tmp_path / "tokenizer.json").kind, made.split) == ("word", split)
        assert Tokenizer.load(tmp_path / "tokenizer.json").split == split
    assert Tokenizer.train(TokenizerConfig(kind="character"), ["a"]).split is None
    with pytest.raises(ValueError, match="splits words by punctuation"):
        WordIds.of(Tokenizer.train(TokenizerConfig(kind="word"), ["a b."]))


def test_a_word_that_stands_for_unknown_ones() -> None:
    plain = Tokenizer.train(blanks(), ["a <unk> b"])
    assert plain.encode("<unk> c") == [5, UNK]
    told = Tokenizer.train(blanks(unknown="<unk>"), ["a <unk> b"])
    assert told.encode("a <unk> b c") == [4, UNK, 5, UNK]
    assert Tokenizer.train(blanks(unknown="UNK"), ["a UNK"]).decode([4, UNK]) == "a UNK"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "word", "split": "blanks", "fallback": "bytes"}, "or tokenizer.fallback=unk"),
        ({"kind": "bpe", "unknown": "<unk>"}, "unknown is for whole words"),
        ({"kind": "word", "fallback": "unk", "unknown": "<unk>"}, "set tokenizer.split=blanks"),
        ({"kind": "word", "fallback": "unk", "split": "whitespace", "words": "v"}, "set tokenizer.split=blanks"),
        ({"kind": "word", "fallback": "unk", "split": "blanks", "unknown": "a b"}, "make it one word"),
        (
            {"kind": "word", "fallback": "unk", "split": "blanks", "words": "v", "vocabulary": 9},
            "words gives the vocab",
        ),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(TokenizerConfig, settings, section="tokenizer")


def test_what_is_unknown_follows_the_split_unless_it_is_said() -> None:
    assert TokenizerConfig(kind="word", split="blanks", unknown="<unk>").fallback == "unk"
    assert TokenizerConfig(kind="word", split="whitespace").fallback == "bytes"
    assert TokenizerConfig(kind="bpe", split="blanks").fallback == "bytes"  # split is for words


# -- vocabularies in files ---------------------------------------------------------------------------------------------


def test_a_vocabulary_file(tmp_path: Path) -> None:
    file = tmp_path / "words.gz"
    file.write_bytes(gzip.compress(b"<unk>\n<s>\n</s>\nthe\n\n dog \nthe\n"))
    assert read_vocabulary(file) == ["the", "dog"]
    tokenizer = Tokenizer.train(blanks(words=str(file)), ["whatever"])
    assert tokenizer.encode("the cat <s> <unk> dog") == [4, UNK, UNK, UNK, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("</s>\nthe\n", r"words: this vocabulary lacks <s>, the mark of where a line begins; add the line <s>"),
        ("the\n", r"lacks <s> and </s>, the marks of where a line begins and ends; add the lines <s> and </s>"),
        ("<s>\n</s>\nNew York\n", r"words:3: this line has more than one word: 'New York'; write one word a line"),
        ("<s>\n</s>\n", r"has no word but its marks"),
    ],
)
def test_a_vocabulary_file_that_is_none(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "words").write_text(content)
    with pytest.raises(UserError) as error:
        read_vocabulary(tmp_path / "words")
    assert re.search(message, str(error.value))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=BLANKS), min_size=1), unique=True))
def test_a_tokeniser_written_word_by_word(words: list[str]) -> None:
    made = Tokenizer.of_words(words, unknown="")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        size, print_ = write_word_tokenizer(file, iter(words))
        assert file.read_text(encoding="utf-8") == made.to_json()
    assert (size, print_) == (len(made), made.vocabulary_fingerprint())
    assert [made.token(id) for id in range(4, size)] == [f" {word}" for word in words]


@pytest.mark.parametrize("words", [["a", "a"], ["a b"], [""], ["<unk>"]])
def test_words_that_make_no_vocabulary(words: list[str]) -> None:
    with pytest.raises(UserError):
        Tokenizer.of_words(words, unknown="<unk>")


# -- bytes -------------------------------------------------------------------------------------------------------------


@given(ANY | st.text(max_size=30))
def test_bytes_lose_nothing(text: str) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="byte"), [])
    ids = tokenizer.encode(text)
    assert ids == [4 + byte for byte in text.encode()]
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_flat([text, "b"])[0].tolist() == [*ids, 4 + ord("b")]


def test_bytes_are_a_kind_of_their_own(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="byte"), ["a"])
    tokenizer.save(tmp_path / "tokenizer.json")
    found = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (found.kind, len(found)) == ("byte", 260)
    assert found.token_bytes(4 + 0xC3) == b"\xc3"
