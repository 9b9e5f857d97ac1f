"""Words of a line, and which tokens spell them: nothing lost, nothing twice, whatever the text holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.pocket import generate
from anaphora.pocket import words as pocket_words
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from anaphora.tokenizers.words import SPLITS, Split, TokenWords, split_words

ODD = [
    "", " ", "\u3000", "a", "日本語テスト", "👩‍👩‍👧 👍🏽🇩🇪", "e\u0301 a\u0308o", "שָׁלוֹם",
    "\u2028x", "\x1cy", "\x85", "\u200d", "ก็", "don’t", "a--b", "½²", "<unk>", "\x00", "ａ　ｂ", "한국어", "क्षत्रिय",
]  # fmt: skip
texts = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(ODD)), max_size=8).map("".join)
texts = texts.map(lambda text: text.encode("utf-8", "replace").decode())  # halves of characters never come this far
splits = st.sampled_from(SPLITS)


@given(texts, splits)
def test_every_character_but_white_space_is_in_exactly_one_word(text: str, split: Split) -> None:
    end, between = 0, ""
    for word in split_words(text, split):
        assert word.start >= end
        assert word.end > word.start
        assert text[word.start : word.end] == word.text
        assert not any(character.isspace() for character in word.text)
        between += text[end : word.start]
        end = word.end
    assert not (between + text[end:]).strip()


@given(st.text(st.characters(codec="latin-1", categories=["L", "N", "P", "Zs", "Sm", "Sc"])))
def test_latin_text_is_split_as_the_pocket_corpus_is(text: str) -> None:
    assert [word.text for word in split_words(text)] == pocket_words(text)


def test_the_pocket_corpus_itself() -> None:
    for pair in generate("test", 200, seed=1):
        for text in (pair.source, pair.target):
            assert [word.text for word in split_words(text)] == pocket_words(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the farmer's twenty-three dogs.", ["the", "farmer's", "twenty-three", "dogs", "."]),
        ("日本語カー", ["日", "本", "語", "カ", "ー"]),
        ("第3回 abc漢字", ["第", "3", "回", "abc", "漢", "字"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("ကို ខ្មែរ", ["ကို", "ខ្", "មែ", "រ"]),
        ("👩‍👩‍👧👍🏽🇩🇪🇫🇷❤️1️⃣", ["👩‍👩‍👧", "👍🏽", "🇩🇪", "🇫🇷", "❤️", "1️⃣"]),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿 x", ["🏴󠁧󠁢󠁥󠁮󠁧󠁿", "x"]),
        ("cafe\u0301s", ["cafe\u0301s"]),
        ("שָׁלוֹם, עולם!", ["שָׁלוֹם", ",", "עולם", "!"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("한국어 좋아요", ["한국어", "좋아요"]),
        ("क्षत्रिय है।", ["क्षत्रिय", "है", "।"]),
        ("a_b ½²", ["a_b", "½²"]),
    ],
)
def test_scripts_marks_and_emoji(text: str, words: list[str]) -> None:
    assert [word.text for word in split_words(text)] == words


def test_whitespace_splits_at_spaces_only() -> None:
    text = "  It 's , well - known\u3000日本語 "
    assert [word.text for word in split_words(text, "whitespace")] == ["It", "'s", ",", "well", "-", "known", "日本語"]


# Tokens ---------------------------------------------------------------------------------------------------------------

LINES = ["the old farmer's house, twenty-three dogs.", "日本語のテスト文です。", "שלום עולם 👍🏽", "a b c d e f g " * 3]
KINDS = {
    "bpe": TokenizerConfig(vocabulary=300),
    "unigram": TokenizerConfig(kind="unigram", vocabulary=300),
    "word": TokenizerConfig(kind="word"),
    "word unk": TokenizerConfig(kind="word", fallback="unk"),
    "character": TokenizerConfig(kind="character"),
    "character unk": TokenizerConfig(kind="character", fallback="unk"),
}


@pytest.fixture(scope="module", params=KINDS)
def spelled(request: pytest.FixtureRequest) -> TokenWords:
    return TokenWords(Tokenizer.train(KINDS[request.param], LINES))


@given(text=st.one_of(texts, st.sampled_from(LINES)), split=splits)
def test_every_word_is_spelled_by_its_own_tokens_in_order(spelled: TokenWords, text: str, split: Split) -> None:
    words = split_words(text, split)
    ids = spelled.tokenizer.encode(text)
    spans = spelled(ids, words, text)
    assert spans.shape == (len(ids), 2)
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert sorted({word for first, stop in spans.tolist() for word in range(first, stop)}) == list(range(len(words)))
    last = 0
    for id, (first, stop) in zip(ids, spans.tolist()):
        if stop == first:  # only white space spells nothing
            spoken = spelled.tokenizer.token_bytes(id).decode("utf-8", "replace")  # or half of a wide space
            assert "\ufffd" in spoken or not spoken.strip()
            continue
        assert first >= last - 1  # a token may go on with the word of the token before it
        last = stop


@given(text=st.sampled_from(LINES), split=splits)
def test_the_bytes_of_a_words_tokens_hold_the_word(text: str, split: Split) -> None:
    spelled = TokenWords(Tokenizer.train(KINDS["bpe"], LINES[:1]))
    words = split_words(text, split)
    ids = spelled.tokenizer.encode(text)
    spans = spelled(ids, words)
    for number, word in enumerate(words):
        own = [id for id, (first, stop) in zip(ids, spans.tolist()) if first <= number < stop]
        assert word.text.encode() in b"".join(spelled.tokenizer.token_bytes(id) for id in own)


def test_white_space_between_pieces_does_not_matter() -> None:
    spelled = TokenWords(Tokenizer.train(KINDS["bpe"], LINES))
    words = split_words("one two\u3000three")
    whole = spelled(spelled.tokenizer.encode("one two\u3000three"), words)
    parts = [*spelled.tokenizer.encode("one two"), *spelled.tokenizer.encode("three")]
    apart = spelled(parts, words)
    assert {tuple(span) for span in whole.tolist()} - {(2, 2)} == {tuple(span) for span in apart.tolist()}


def test_said_bytes_that_are_no_characters_still_have_words() -> None:
    spelled = TokenWords(Tokenizer.train(KINDS["bpe"], LINES))
    byte = {spelled.tokenizer.token_bytes(id): id for id in range(4, 260)}
    ids = [byte[b"a"], byte[b" "], byte[b"\xe6"], byte[b"\x97"], byte[b" "], byte[b"b"]]  # two thirds of 日
    text = spelled.tokenizer.decode(ids)
    words = split_words(text)
    assert [word.text for word in words] == ["a", "\ufffd", "b"]
    spans = spelled(ids, words, text).tolist()
    assert (spans[0], spans[-1]) == ([0, 1], [2, 3])
    assert spans[2] == [1, 2]
