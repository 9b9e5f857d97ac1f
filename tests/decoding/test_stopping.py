"""Stop strings and repetition penalties in the search: beams, samples, translators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.decoding.beam_search import DecodingConfig, Hypothesis, length_penalty, search
from anaphora.decoding.spelling import Listener, Spelling, text_until_stop
from anaphora.decoding.translate import pad, translate_lines
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from toy_translator import ToyTranslator

WORDS = ["aa", "ab", "ba", "bb"]
TOKENIZER = Tokenizer.of_words(WORDS)
VOCABULARY = TOKENIZER.vocabulary_size


def asked(
    model: ToyTranslator, sources: Sequence[Sequence[int]], stops: Sequence[str], config: DecodingConfig
) -> list[list[Hypothesis]]:
    listeners = [Listener(Spelling(TOKENIZER), stops) for _ in sources]
    return search(model, *pad([[*source, EOS] for source in sources], "cpu"), config, listeners=listeners)


stop_lists = st.lists(st.text("ab ", min_size=1, max_size=4), min_size=1, max_size=2)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 50), stops=stop_lists, length=st.integers(2, 5))
def test_a_wide_beam_finds_the_best_of_all_that_can_be_said(seed: int, stops: list[str], length: int) -> None:
    """Every text ends with its end mark, at the first token after which it holds a stop string, or at the limit."""
    model = ToyTranslator(VOCABULARY, seed=seed)
    source = [4, 5]
    config = DecodingConfig(beam=300, n_best=1, max_length=length, length_penalty=0.7)
    ((found,),) = asked(model, [source], stops, config)
    best, best_tokens = -math.inf, None
    for size in range(length + 1):
        for tokens in itertools.product(range(4, VOCABULARY), repeat=size):
            heard = [text_until_stop(TOKENIZER, tokens[:n], stops)[1] is not None for n in range(size + 1)]
            if any(heard[:-1]):
                continue
            total = sum(float(model.next([*source, EOS], tokens[:n])[tokens[n]]) for n in range(size))
            if heard[-1] and size:
                score = total / length_penalty(size, 0.7)
            elif size < length:
                score = (total + float(model.next([*source, EOS], tokens)[EOS])) / length_penalty(size + 1, 0.7)
            else:
                continue
            if score > best:
                best, best_tokens = score, tokens
    assert tuple(found.tokens) == best_tokens
    assert found.score == pytest.approx(best, abs=1e-5)
    assert found.stopped != found.finished
    assert math.fsum(found.token_log_probabilities) == pytest.approx(found.log_probability)
    assert len(found.token_log_probabilities) == len(found.tokens) + found.finished


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 50), stops=stop_lists, sample=st.booleans())
def test_stopping_does_not_depend_on_the_batch(seed: int, stops: list[str], sample: bool) -> None:
    model = ToyTranslator(VOCABULARY, seed=seed)
    sources = [[4, 5], [6], [7, 7, 4], [5], [4, 4], [6, 5]]
    config = DecodingConfig(beam=3, n_best=3, sample=sample, max_length=7)
    together = asked(model, sources, stops, config)
    for number, (source, found) in enumerate(zip(sources, together)):
        listeners = [Listener(Spelling(TOKENIZER), stops)]
        (alone,) = search(model, *pad([[*source, EOS]], "cpu"), config, listeners=listeners, sentence_ids=[number])
        assert [(h.tokens, h.stopped, h.finished) for h in alone] == [(h.tokens, h.stopped, h.finished) for h in found]
        for h in found:
            heard = [text_until_stop(TOKENIZER, h.tokens[: n + 1], stops)[1] for n in range(len(h.tokens))]
            assert h.stopped == (heard[-1:] != [] and heard[-1] is not None)
            assert not any(heard[:-1])


def test_a_sample_with_stops_is_the_one_without_cut_short() -> None:
    model = ToyTranslator(VOCABULARY, seed=3)
    config = DecodingConfig(sample=True, n_best=200, max_length=8)
    source = pad([[4, 5, EOS]], "cpu")
    (plain,) = search(model, *source, config)
    (cut,) = search(model, *source, config, listeners=[Listener(Spelling(TOKENIZER), ["b a"])])
    assert any(h.stopped for h in cut)
    ends = {tuple(h.tokens) for h in cut}
    for h in plain:
        text = [text_until_stop(TOKENIZER, h.tokens[: n + 1], ["b a"])[1] for n in range(len(h.tokens))]
        first = next((n for n, found in enumerate(text) if found), len(h.tokens))
        assert tuple(h.tokens[: first + 1]) in ends


def test_a_beam_ranks_by_the_penalty_and_tells_the_models_numbers() -> None:
    model = ToyTranslator(VOCABULARY, seed=5)
    config = DecodingConfig(beam=200, max_length=4, length_penalty=0.0, repetition_penalty=2.0)
    ((found,),) = search(model, *pad([[4, 5, EOS]], "cpu"), config)
    best, best_tokens = -math.inf, None
    for size in range(4):
        for tokens in itertools.product(range(4, VOCABULARY), repeat=size):
            total = 0.0
            for n, token in enumerate([*tokens, EOS]):
                value = float(model.next([4, 5, EOS], tokens[:n])[token])
                total += value * (2.0 if token in tokens[:n] else 1.0)
            if total > best:
                best, best_tokens = total, tokens
    assert tuple(found.tokens) == best_tokens
    assert found.score == pytest.approx(best, abs=1e-5)
    own = sum(float(model.next([4, 5, EOS], found.tokens[:n])[token]) for n, token in enumerate([*found.tokens, EOS]))
    assert found.log_probability == pytest.approx(own, abs=1e-5)


def test_translations_end_before_the_stop() -> None:
    model = ToyTranslator(VOCABULARY, seed=7)
    lines = ["aa ab", "bb", "", "ba ba ab"]
    plain = list(translate_lines(model, TOKENIZER, TOKENIZER, lines, DecodingConfig(sample=True, seed=3)))  # type: ignore[arg-type]
    config = DecodingConfig(sample=True, seed=3, stop=["b b", "ba"])
    for before, after in zip(plain, translate_lines(model, TOKENIZER, TOKENIZER, lines, config)):  # type: ignore[arg-type]
        places = [before.text.find(stop) for stop in config.stop if stop in before.text]
        if not places:
            assert after.text == before.text
        else:
            assert after.finished
            assert before.text.startswith(after.text)
            assert not any(stop in after.text for stop in config.stop)


def test_a_forced_prefix_may_hold_a_stop() -> None:
    """Only what the model says itself is listened to."""
    model = ToyTranslator(VOCABULARY, seed=7)
    config = DecodingConfig(beam=2, max_length=9, stop=["aa"])
    (found,) = translate_lines(model, TOKENIZER, TOKENIZER, ["ab ab"], config, prefixes=["aa bb"])  # type: ignore[arg-type]
    assert found.text.startswith("aa bb")
    assert "aa" not in found.text[5:]


def test_padding_and_marks_are_not_penalised_into_being() -> None:
    scores = torch.full((2, 6), -torch.inf)
    scores[:, EOS] = -1.0
    scores[0, 4], scores[1, 5] = -2.0, -3.0
    from anaphora.decoding.constraints import penalize_repeats

    penalize_repeats(scores, torch.tensor([[PAD, BOS, 4, EOS], [UNK, 4, 4, 5]]), penalty=3.0)
    assert scores[0].tolist() == [-math.inf, -math.inf, -1.0, -math.inf, -6.0, -math.inf]
    assert scores[1].tolist() == [-math.inf, -math.inf, -1.0, -math.inf, -math.inf, -9.0]
