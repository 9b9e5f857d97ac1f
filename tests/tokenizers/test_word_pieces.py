"""Which tokens a word is: inside a line and at its beginning, in pieces, or none."""

from __future__ import annotations

import pytest

from anaphora.errors import UserError
from anaphora.tokenizers.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from anaphora.tokenizers.word_pieces import tokens_of_word, unsaid_tokens

LINES = ["sick dogs are sick", "the sick dog", "dog sick dog"] * 4


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_has_a_token_inside_a_line_and_one_at_its_beginning(kind: str) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, vocabulary=300), LINES)  # type: ignore[arg-type]
    found = tokens_of_word(tokenizer, "sick")
    inside, beginning = tokenizer.encode(" sick"), tokenizer.encode("sick")
    assert len(inside) == 1
    assert found.chief == tuple(inside)
    assert found.forms == tuple(dict.fromkeys(ids[0] for ids in (inside, beginning) if len(ids) == 1))
    assert found.pieces == ()
    assert found.all == found.forms
    spelled = tokens_of_word(tokenizer, "sickzig")
    assert spelled.forms == ()
    assert spelled.pieces == tuple(tokenizer.encode(" sickzig"))
    assert set(spelled.all) == set(spelled.pieces)
    assert spelled.chief == spelled.pieces
    with pytest.raises(UserError, match="an empty word"):
        tokens_of_word(tokenizer, "")


def test_words_alone_have_one_token_or_none() -> None:
    tokenizer = Tokenizer.of_words(["dog", "sick"])
    assert tokens_of_word(tokenizer, "sick").forms == (5,)
    assert tokens_of_word(tokenizer, "<s>").forms == (BOS,)
    assert tokens_of_word(tokenizer, "</s>").forms == (EOS,)
    with pytest.raises(UserError, match=r"the word 'cat' is not in the vocabulary.*name a word that the model was"):
        tokens_of_word(tokenizer, "cat")
    with pytest.raises(UserError, match="an empty word"):
        tokens_of_word(tokenizer, "")


SUMS = ["twenty-five is five.", "is (five) twenty ?", "five is twenty-five.", "twenty (is five)."] * 3


@pytest.mark.parametrize("fallback", ["bytes", "unk"])
def test_whole_words_and_marks_have_a_token_with_a_space_and_one_without(fallback: str) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word", fallback=fallback), SUMS)  # type: ignore[arg-type]
    inside, (*_, after) = tokenizer.encode("five"), tokenizer.encode("twenty-five")
    assert tokenizer.token(inside[0]) == " five" and tokenizer.token(after) == "five"
    assert tokens_of_word(tokenizer, "five").forms == (*inside, after)
    assert tokens_of_word(tokenizer, "twenty").forms == tuple(tokenizer.encode("twenty"))
    for mark, written in ((".", "."), ("(", " ("), ("?", " ?"), ("-", "-")):
        found = tokens_of_word(tokenizer, mark)
        assert [tokenizer.token(form) for form in found.forms] == [written] and not found.pieces
    spelled = tokens_of_word(tokenizer, "twenty-five")
    assert not spelled.forms and spelled.pieces == tuple(tokenizer.encode("twenty-five"))
    if fallback == "unk":
        with pytest.raises(UserError, match="'!' is not in the vocabulary"):
            tokens_of_word(tokenizer, "!")
    else:  # a byte is no word, though it is one token
        assert not tokens_of_word(tokenizer, "!").forms and tokens_of_word(tokenizer, "!").pieces


def test_of_two_tokens_of_a_mark_the_frequent_one_is_first() -> None:
    lines = ["five. five. five . five(s) (five) (is)"]
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word"), lines)
    assert [tokenizer.token(form) for form in tokens_of_word(tokenizer, ".").forms] == [".", " ."]
    assert [tokenizer.token(form) for form in tokens_of_word(tokenizer, "(").forms] == [" (", "("]


def test_a_mark_of_subwords_stands_as_the_tokeniser_cuts_it_after_a_word() -> None:
    lines = ["five . (is) $ five . & is", "is (five) $ & - )"] * 9
    tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe", vocabulary=300), lines)
    spaced = {"(": ["Ġ(", "("], "$": ["Ġ$", "$"], "&": ["Ġ&", "&"]}
    for mark, forms in {**spaced, ".": [".", "Ġ."], "-": ["-", "Ġ-"], ")": [")", "Ġ)"]}.items():
        found = tokens_of_word(tokenizer, mark)
        assert [tokenizer.token(form) for form in found.forms] == forms
    assert tokens_of_word(tokenizer, ".").chief == tuple(tokenizer.encode("is.")[-1:])


def test_a_word_comes_first_as_it_stands_inside_a_line_however_frequent_it_is() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word"), ["twenty-five thirty-five forty-five", "it is five"])
    after, inside = tokenizer.encode("twenty-five")[-1], tokenizer.encode("five")[0]
    assert after < inside  # numbers go from the frequent to the rare
    assert tokens_of_word(tokenizer, "five").forms == (inside, after)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_in_pieces_is_spelled_inside_a_line_and_at_its_beginning(kind: str) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, vocabulary=300), LINES)  # type: ignore[arg-type]
    found = tokens_of_word(tokenizer, "sickzig")
    assert found.spellings == (tuple(tokenizer.encode(" sickzig")), tuple(tokenizer.encode("sickzig")))
    lone = tokens_of_word(tokenizer, "xyz")  # of which nothing was learned: a space is a token of its own
    assert lone.pieces == tuple(tokenizer.encode("xyz")) == tuple(tokenizer.encode(" xyz")[1:])
    assert lone.spellings == (lone.pieces,)
    assert tokens_of_word(tokenizer, "sick").spellings == tuple(
        (form,) for form in tokens_of_word(tokenizer, "sick").forms
    )


@pytest.mark.parametrize("word", ["\udcff", "a\ud800"])
def test_what_is_no_text_is_refused(word: str) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe", vocabulary=300), LINES)
    with pytest.raises(UserError, match="is not valid text: UTF-8 cannot encode it"):
        tokens_of_word(tokenizer, word)


def test_tokens_that_no_text_has() -> None:
    words = Tokenizer.train(TokenizerConfig(kind="word"), LINES)
    unsaid = {*unsaid_tokens(words)}
    assert {0, 1} <= unsaid and not unsaid & {EOS, *words.encode("the sick dogs")}
    assert {*words.encode("é")} <= unsaid  # bytes
    subwords = Tokenizer.train(TokenizerConfig(kind="bpe", vocabulary=300), LINES)
    assert not {*unsaid_tokens(subwords)} & {*subwords.encode("sick x")}
