"""Explanations as text: they keep to the width, in any script; every number is the explanation's; checks can fail."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.explain.draw.terminal import cells
from anaphora.explain.why import WhyText, explain_text, one_token
from anaphora.models.composites.mixture import Mixture
from anaphora.models.ngram.counting import count
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel
from anaphora.tokenizers.token_names import token_name, told_apart
from anaphora.tokenizers.tokenizer import BOS, EOS, UNK, Tokenizer, TokenizerConfig

LINES = [
    "the dog saw the cat",
    "the old dog saw a cat",
    "مرحبا بالعالم",
    "猫が犬を見た",
    "a very" + "ly" * 40 + " long one",
]


def made(kind: str = "word", order: int = 3, smoothing: str = "kneser-ney") -> tuple[NgramModel, Tokenizer, Any]:
    config: Any = {"kind": kind, "fallback": "unk"} if kind in ("word", "character") else {"kind": kind}
    tokenizer = Tokenizer.train(TokenizerConfig(**config), LINES)
    tokens = [id for line in LINES for id in (BOS, *tokenizer.encode(line), EOS)]
    settings: Any = {"order": order, "smoothing": smoothing}
    counted = count(np.array(tokens, np.uint32), tokenizer.vocabulary_size, order)
    model, estimates = NgramModel.from_counts(NgramConfig(**settings), counted)
    return model, tokenizer, [estimate.discounts for estimate in estimates]


MODELS = {
    (kind, smoothing): made(kind, smoothing=smoothing)
    for kind in ("word", "character", "bpe")
    for smoothing in ("kneser-ney", "add-k", "stupid-backoff", "maximum-likelihood")
}


@given(
    model=st.sampled_from([*MODELS]),
    line=st.sampled_from([*LINES, ""]),
    cut=st.integers(0, 60),
    width=st.integers(72, 140),
    mixed=st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(
    model: tuple[str, str], line: str, cut: int, width: int, mixed: bool
) -> None:
    one, tokenizer, minus = MODELS[model]
    asked: Any = Mixture([one, one], [0.5, 0.5], ["a name that is long enough for two", "b"]) if mixed else one
    found = explain_text(asked, tokenizer, line[:cut], top=6, words=["</s>"], discounts=minus)
    lines = list(found.lines(width))
    assert max(map(cells, lines)) <= width
    assert found.holds, found.checks
    assert sum(one.startswith("holds: ") for one in lines) >= 1


def test_the_table_has_the_numbers() -> None:
    model, tokenizer, minus = MODELS["word", "kneser-ney"]
    found = explain_text(model, tokenizer, "the old", top=1, discounts=minus)
    shown = "\n".join(found.lines(80))
    (dog,) = found.explanation.candidates
    assert dog.token == tokenizer.encode("dog")[0]
    assert f"dog: P = {dog.probability:.4g}, from the 3-gram" in shown
    rows = [line.split() for line in shown.splitlines() if line.split()[:1] in (["3"], ["2"], ["1"])]
    assert [row[0] for row in rows] == ["3", "2", "1"]
    assert rows[0][1:4] == ["the", "old", "seen"]
    assert [float(row[-1]) for row in rows] == pytest.approx([level.part for level in dog.levels], rel=1e-3)
    assert "1-grams" in shown


def test_unknown_words_are_told() -> None:
    model, tokenizer, _ = MODELS["word", "kneser-ney"]
    found = explain_text(model, tokenizer, "the zebra", top=1, words=["giraffe"])
    assert found.notes == (
        "1 of the 2 words of the text are not in the vocabulary: ⟨unk⟩",
        "'giraffe' is not in the vocabulary: it is ⟨unk⟩ like every other such word",
    )
    assert found.explanation.candidates[-1].token == UNK
    assert found.document()["notes"] == list(found.notes)


def test_a_word_is_one_token() -> None:
    tokenizer = MODELS["bpe", "kneser-ney"][1]
    assert one_token(tokenizer, "</s>") == one_token(tokenizer, "⟨/s⟩") == EOS
    with pytest.raises(UserError, match=r"tokens of this model .* one is explained at a time"):
        one_token(tokenizer, "hippopotamus")
    with pytest.raises(UserError, match="an empty word"):
        one_token(tokenizer, "")
    assert token_name(MODELS["character", "kneser-ney"][1], one_token(MODELS["character", "kneser-ney"][1], " ")) == "␣"
    with pytest.raises(UserError, match="top is -1"):
        explain_text(MODELS["word", "add-k"][0], MODELS["word", "add-k"][1], "", top=-1)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_is_asked_for_as_it_stands_there(kind: Any) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, vocabulary=300), ["is it is it", "it is"] * 9)
    (inside,), (beginning,) = tokenizer.encode(" is"), tokenizer.encode("is")
    assert inside != beginning and one_token(tokenizer, "is") == inside
    assert one_token(tokenizer, "is", begins=True) == beginning


def test_a_mark_among_whole_words_is_one_token() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word"), ["the dog saw.", "a dog-cat . saw."])
    dot, spaced = (tokenizer.encode(line)[-1] for line in ("the dog.", "the dog ."))
    assert dot != spaced and one_token(tokenizer, ".") == dot
    assert one_token(tokenizer, "cat") == tokenizer.encode("dog-cat")[-1]
    with pytest.raises(UserError, match=r"'!' is 2 tokens of this model"):  # a byte is no word
        one_token(tokenizer, "!")
    names = {token: token_name(tokenizer, token) for token in (dot, spaced)}
    assert told_apart(tokenizer, names) == {dot: ".", spaced: "␣."}


@pytest.mark.parametrize("change", ["scored", "levels"])
def test_a_wrong_explanation_fails_its_check(change: str) -> None:
    model, tokenizer, _ = MODELS["word", "kneser-ney"]
    found = explain_text(model, tokenizer, "the", top=1)
    one: Any = found.explanation.candidates[0]
    wrong = {"scored": one.scored + 0.01, "levels": one.levels[1:]}[change]
    explanation = dataclasses.replace(found.explanation, candidates=(dataclasses.replace(one, **{change: wrong}),))
    broken = WhyText(found.text, explanation, found.names)
    assert not broken.holds
    assert any(line.startswith("FAILS: ") for line in broken.lines())
