"""Which tokens a word is: inside a line and at its beginning, in pieces, or none."""

from __future__ import annotations

import pytest

from anaphora.errors import UserError
from anaphora.text.tokenizer import BOS, EOS, Tokenizer, TokenizerConfig
from anaphora.text.word_pieces import tokens_of_word

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
