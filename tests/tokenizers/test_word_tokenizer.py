"""A word tokenizer opened the quick way is the one that the library would have opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.tokenizers import word_tokenizer
from anaphora.tokenizers.tokenizer import BLANKS, SPECIALS, Tokenizer, TokenizerConfig
from anaphora.tokenizers.word_tokenizer import WordTokenizer, open_tokenizer, write_word_tokenizer

LETTERS = st.characters(exclude_categories=("Cs",), exclude_characters=BLANKS)
WORDS = st.lists(st.text(LETTERS, min_size=1, max_size=6), unique=True, max_size=20)


@settings(max_examples=60, deadline=None)
@given(words=WORDS, unknown=st.sampled_from(["", "UNK?"]), by_hand=st.booleans(), text=st.text(max_size=30))
def test_the_same_as_the_library_has_it(
    words: list[str], unknown: str, by_hand: bool, text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    words = [word for word in words if word != unknown]
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    if by_hand:
        write_word_tokenizer(path, words, unknown)
    else:
        Tokenizer.of_words(words, unknown=unknown).save(path)
    plain = Tokenizer.load(path)
    with pytest.MonkeyPatch.context() as patch:  # many blocks even of few words
        patch.setattr(word_tokenizer, "READ_AT_ONCE", 20)
        quick = open_tokenizer(path)
    assert isinstance(quick, WordTokenizer)
    assert (quick.kind, quick.split, quick.has_unknown) == (plain.kind, plain.split, plain.has_unknown)
    assert quick.vocabulary_fingerprint() == plain.vocabulary_fingerprint()
    ids = range(len(plain))
    assert len(quick) == len(plain) == len(SPECIALS) + len(words)
    assert [quick.token(id) for id in ids] == [plain.token(id) for id in ids]
    assert [quick.token_bytes(id) for id in ids] == [plain.token_bytes(id) for id in ids]
    line = "".join(character for character in text if not "\ud800" <= character <= "\udfff")
    line = " ".join([line, *words, "nowhere"])
    assert quick.encode(line) == plain.encode(line)
    assert quick.encode_batch([line, ""]) == plain.encode_batch([line, ""])
    assert quick.decode(plain.encode(line)) == plain.decode(plain.encode(line))
    assert quick.decode_batch([[], [*ids]]) == plain.decode_batch([[], [*ids]])
    assert "rust" not in vars(quick)  # none of this asked the library
    assert quick.to_json() == plain.to_json()
    with pytest.raises(IndexError):
        quick.token(len(plain))


@pytest.mark.parametrize("kind", [{"kind": "character"}, {"kind": "word"}, {"kind": "bpe", "vocabulary": 270}])
def test_every_other_kind_is_left_to_the_library(kind: dict[str, object], tmp_path: Path) -> None:
    Tokenizer.train(TokenizerConfig(**kind), ["a dog", "a cat"]).save(tmp_path / "tokenizer.json")  # type: ignore[arg-type]
    assert type(open_tokenizer(tmp_path / "tokenizer.json")) is Tokenizer


def test_a_file_that_says_the_same_in_another_form(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(Tokenizer.of_words(["a", "b"]).to_json())))
    assert type(open_tokenizer(path)) is Tokenizer and open_tokenizer(path).encode("b a") == [5, 4]


@pytest.mark.parametrize(
    ("old", "new"),
    [('" b": 5', '" b": 4'), ('" b": 5', '" b": 7'), ('" b": 5', '" a": 5'), ('" b": 5', '" b": ')],
)
def test_a_damaged_file_is_refused_as_ever(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(Tokenizer.of_words(["a", "b", "c"]).to_json().replace(old, new))
    with pytest.raises(UserError):
        open_tokenizer(path)
