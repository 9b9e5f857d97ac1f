"""Language models speak: draws follow the model, prompts are respected, seeds reproduce, limits hold."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.decoding import generation
from anaphora.decoding.beam_search import DecodingConfig
from anaphora.decoding.generation import generate, spoken
from anaphora.errors import UserError
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerConfig
from ngram_texts import fitted
from toy_recurrent import Recurrent

VOCABULARY = 10
TEXTS = [[4, 5, 6], [4, 5, 7], [], [6, 6, 6], [5, 4, 8, 9, 4, 5], [4, 5, 6], [3, 9], [8, 9, 4, 5, 6, 4], [4, 3, 6]]
DRAWS = 4000


@pytest.fixture(scope="module")
def model() -> NgramModel:
    return fitted(TEXTS, VOCABULARY, order=3)


def next_probabilities(model: Any, prompt: list[int], *, unknown: bool = False) -> np.ndarray:
    state = model.start(1, 9)
    for token in [BOS, *prompt]:
        said, state = model.step(torch.tensor([token]), state)
    p = said[0].double().exp().numpy()
    p[[PAD, BOS] if unknown else [PAD, BOS, UNK]] = 0
    return p / p.sum()


def first_tokens(model: Any, prompt: list[int], *, samples: int = DRAWS, **settings: Any) -> np.ndarray:
    """How often each token was drawn after a prompt, as a share."""
    (found,) = generate(model, [prompt], DecodingConfig(sample=True, **settings), tokens=1, samples=samples)
    said = Counter(EOS if one.finished else one.tokens[0] for one in found)
    return np.array([said[token] for token in range(model.vocabulary)]) / samples


def assert_drawn_from(found: np.ndarray, p: np.ndarray) -> None:
    """Every share within five standard deviations, and nothing that has no probability."""
    assert (np.abs(found - p) <= 5 * np.sqrt(p * (1 - p) / DRAWS) + 1e-12).all()


# Drawing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [[], [4], [4, 5], [9, 9], [UNK]])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_tokens_are_drawn_as_often_as_the_model_says(order: int, prompt: list[int]) -> None:
    model = fitted(TEXTS, VOCABULARY, order=order)
    assert_drawn_from(first_tokens(model, prompt), next_probabilities(model, prompt))


@pytest.mark.parametrize("smoothing", ["add-k", "stupid-backoff", "maximum-likelihood"])
def test_whatever_the_smoothing(smoothing: str) -> None:
    model = fitted(TEXTS, VOCABULARY, order=2, smoothing=smoothing)
    assert_drawn_from(first_tokens(model, [4]), next_probabilities(model, [4]))


def test_unknown_is_said_only_where_asked(model: NgramModel) -> None:
    assert next_probabilities(model, [4], unknown=True)[UNK] > 0.05
    assert first_tokens(model, [4])[UNK] == 0
    assert_drawn_from(first_tokens(model, [4], unknown=True), next_probabilities(model, [4], unknown=True))


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_temperature(model: NgramModel, temperature: float) -> None:
    p = next_probabilities(model, [4]) ** (1 / temperature)
    assert_drawn_from(first_tokens(model, [4], temperature=temperature), p / p.sum())


def test_a_temperature_near_zero_is_greedy(model: NgramModel) -> None:
    found = first_tokens(model, [4], temperature=1e-3, samples=50)
    assert found[next_probabilities(model, [4]).argmax()] == 1


@pytest.mark.parametrize("k", [1, 2, 3])  # the fourth and the fifth are as likely as each other
def test_top_k(model: NgramModel, k: int) -> None:
    p = next_probabilities(model, [4])
    p[np.argsort(-p, kind="stable")[k:]] = 0
    assert_drawn_from(first_tokens(model, [4], top_k=k), p / p.sum())


@pytest.mark.parametrize("mass", [0.2, 0.6, 0.9])
def test_top_p(model: NgramModel, mass: float) -> None:
    p = next_probabilities(model, [4])
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]
    p[order[before >= mass]] = 0
    assert_drawn_from(first_tokens(model, [4], top_p=mass), p / p.sum())


def test_whole_texts_are_drawn_as_often_as_the_model_says(model: NgramModel) -> None:
    (found,) = generate(model, [[]], DecodingConfig(sample=True, unknown=True), tokens=20, samples=DRAWS)
    said = Counter(tuple(one.tokens) for one in found if one.finished)
    for text in ([], [4], [4, 5, 6], [6, 6]):
        scores = model.score(torch.tensor([[*text, EOS]]), torch.tensor([len(text) + 1]))
        p = math.exp(scores.sum().item())
        assert abs(said[tuple(text)] / DRAWS - p) <= 5 * math.sqrt(p * (1 - p) / DRAWS)


# Seeds and batches --------------------------------------------------------------------------------------------------

SAMPLING = DecodingConfig(sample=True)


def texts_of(found: list[list[Any]]) -> list[list[list[int]]]:
    return [[one.tokens for one in own] for own in found]


def test_a_seed_reproduces_and_another_does_not(model: NgramModel) -> None:
    def said(seed: int) -> list[list[list[int]]]:
        return texts_of(generate(model, [[4], []], DecodingConfig(sample=True, seed=seed), tokens=12, samples=8))

    assert said(1) == said(1)
    assert said(1) != said(2)
    assert len({tuple(tokens) for own in said(1) for tokens in own}) > 4  # and samples differ


@given(
    prompts=st.lists(st.lists(st.integers(4, VOCABULARY - 1), max_size=5), min_size=1, max_size=5),
    samples=st.integers(1, 4),
    numbers=st.sampled_from([1, 3 * VOCABULARY, 1 << 20]),
)
def test_a_text_does_not_depend_on_its_batch(prompts: list[list[int]], samples: int, numbers: int) -> None:
    """Not on how many are drawn at once, nor on what stands behind it, nor on how many samples are asked for."""
    model = fitted(TEXTS, VOCABULARY, order=3)
    together = texts_of(generate(model, prompts, SAMPLING, tokens=9, samples=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "MAX_STEP_LOGITS", numbers)
        fewer = texts_of(generate(model, prompts[:2], SAMPLING, tokens=9, samples=samples))
    assert fewer == [own[:samples] for own in together[:2]]


# Prompts and limits -------------------------------------------------------------------------------------------------


def test_a_long_prompt_is_read_not_said(model: NgramModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is spent on it, whatever its length and however many samples there are."""
    calls = []
    advance = NgramModel.advance
    monkeypatch.setattr(NgramModel, "advance", lambda *words: calls.append(len(words[1])) or advance(*words))
    prompt = [4, 5, 6, 7] * 5000
    (found,) = generate(model, [prompt], SAMPLING, tokens=5, samples=3)
    assert len(calls) <= 5
    assert calls[0] == 3
    assert len(found) == 3
    ((short,),) = generate(model, [prompt[-2:]], SAMPLING, tokens=5, samples=1)
    assert short.tokens == found[0].tokens  # three words of context are all that an order of three looks at


@given(tokens=st.integers(1, 9), samples=st.integers(1, 5), prompt=st.lists(st.integers(4, 9), max_size=4))
def test_never_more_tokens_than_asked_for(tokens: int, samples: int, prompt: list[int]) -> None:
    model = fitted(TEXTS, VOCABULARY, order=2)
    (found,) = generate(model, [prompt], SAMPLING, tokens=tokens, samples=samples)
    assert len(found) == samples
    for one in found:
        assert len(one.tokens) + one.finished <= tokens
        assert one.finished or len(one.tokens) == tokens
        assert len(one.token_log_probabilities) == len(one.tokens) + one.finished


def test_a_least_length(model: NgramModel) -> None:
    (found,) = generate(model, [[]], DecodingConfig(sample=True, min_length=4), tokens=8, samples=50)
    assert min(len(one.tokens) for one in found) >= 4
    assert any(one.finished for one in found)


def test_a_beam_wide_enough_finds_the_likeliest_text(model: NgramModel) -> None:
    (found,) = generate(model, [[4]], DecodingConfig(beam=200, length_penalty=0.0), tokens=4, samples=3)
    texts = [t for n in range(4) for t in itertools.product(range(4, VOCABULARY), repeat=n)]
    scores = []
    for text in texts:
        row = [4, *text, EOS]
        scores.append(model.score(torch.tensor([row]), torch.tensor([len(row)]))[0, 1:].sum().item())
    best = sorted(scores, reverse=True)[:3]
    assert [one.log_probability for one in found] == pytest.approx(best, abs=1e-4)
    assert all(one.finished for one in found)


def test_a_model_that_does_not_smooth_says_only_what_it_saw() -> None:
    """After an unseen prompt it has nothing to say, and says nothing."""
    model = fitted([[4, 5, 6], [4, 5, 7]], VOCABULARY, order=3, smoothing="maximum-likelihood")
    (seen, unseen) = generate(model, [[4], [9, 9]], SAMPLING, tokens=9, samples=20)
    assert {tuple(one.tokens) for one in seen} == {(5, 6), (5, 7)}
    assert all(one.finished for one in seen)
    for one in unseen:
        assert (one.tokens, one.token_log_probabilities, one.finished) == ([], [], False)


# A model that cannot read any length --------------------------------------------------------------------------------


def test_the_prompt_and_what_follows_fit_into_the_model() -> None:
    model = Recurrent(VOCABULARY, max_length=8)
    prompts = [[4] * 6, [5], [4] * 3, []]  # with ⟨s⟩, room for 1, 6, 4 and 7
    settings = DecodingConfig(sample=True, min_length=5)
    found = generate(model, prompts, settings, tokens=6, samples=2)
    for own, room in zip(found, [1, 6, 4, 6]):
        for one in own:
            assert len(one.tokens) + one.finished <= room
            assert len(one.tokens) >= min(5, room - 1)
    for place, prompt in enumerate(prompts):
        alone = generate(model, [*[[]] * place, prompt], settings, tokens=6, samples=2)
        assert texts_of(alone)[-1] == texts_of(found)[place]
    with pytest.raises(UserError, match="the prompt has 7 tokens; the model can read 6 and say one more; shorten it"):
        generate(model, [[4] * 7], settings, tokens=6)


def test_a_neural_model_stays_in_the_mode_it_was_in() -> None:
    for training in (True, False):
        model = Recurrent(VOCABULARY).train(training)
        generate(model, [[4]], SAMPLING, tokens=3)
        assert model.training is training


# What cannot be asked for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tokens": 0}, "0 new tokens are asked for"),
        ({"tokens": 10**9}, "1,000,000,000 new tokens are asked for"),
        ({"samples": 0}, "0 samples are asked for"),
        ({"tokens": 3, "min_length": 3}, "at least 3 tokens are asked for, and at most 3"),
        ({"samples": 3, "beam": 2, "sample": False}, "3 different texts are asked for, and a beam of 2 finds 2"),
    ],
)
def test_what_cannot_be_asked_for(model: NgramModel, asked: dict[str, Any], message: str) -> None:
    limits = {name: asked.pop(name) for name in ("tokens", "samples") if name in asked}
    with pytest.raises(UserError, match=message):
        generate(model, [[4]], DecodingConfig(**{"sample": True, **asked}), **limits)


# As text ------------------------------------------------------------------------------------------------------------

LINES = ["the cat sat", "the dog  saw a cat", "über die Brücke"]


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "word", "split": "blanks", "fallback": "unk"},
        {"kind": "word", "fallback": "unk"},
        {"kind": "character"},
        {"kind": "bpe", "vocabulary": 300},
        {"kind": "byte"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
@pytest.mark.parametrize("prompt", ["", "the", "über die", "the cat s"])
def test_the_text_begins_with_the_prompt_as_it_was_given(settings: dict[str, Any], prompt: str) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(**settings), LINES)
    model = fitted([tokenizer.encode(line) for line in LINES], tokenizer.vocabulary_size, order=4)
    ids = tokenizer.encode(prompt)
    for said in generate(model, [ids], SAMPLING, tokens=8, samples=5)[0]:
        found = spoken(prompt, ids, said, tokenizer)
        assert found.text == prompt + found.continuation
        assert len(found.tokens) == len(found.token_ids) == len(found.token_scores)
        assert found.log_probability == pytest.approx(said.log_probability)
        assert found.finished is (found.token_ids[-1:] == [EOS])
        if UNK not in ids:
            assert tokenizer.decode([*ids, *said.tokens]) == found.text


def test_words_are_parted_by_one_space() -> None:
    tokenizer = Tokenizer.of_words(["the", "cat"])
    model = fitted([[4, 5]], 6, order=2, smoothing="maximum-likelihood")
    for prompt in ("the", "the ", "the\t"):
        (said,) = generate(model, [[4]], DecodingConfig(beam=1), tokens=3)[0]
        found = spoken(prompt, [4], said, tokenizer)
        assert found.text.split() == ["the", "cat"]
        assert found.text.count(" ") + found.text.count("\t") == 1
    (said,) = generate(model, [[]], DecodingConfig(beam=1), tokens=5)[0]
    assert spoken("", [], said, tokenizer).text == "the cat"
