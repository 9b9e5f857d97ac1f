"""Minimum-Bayes-risk decoding: against a plain double loop over the same draws, with every option of the search."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.decoding.beam_search import Hypothesis, search
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.translate import MAX_PIECES, Translation, _Piece, _speller, pad, translate_lines
from anaphora.evaluation.sentence_scores import REWARDS
from anaphora.tokenizers.tokenizer import EOS, UNK
from toy_translator import CharacterTokenizer, ToyTranslator

TOKENS = CharacterTokenizer("abc d")
LINES = ["abc", "d a b", "", "cab abc"]


def said(lines: list[str] = LINES, model: Any = None, **changes: Any) -> list[Translation]:
    config = DecodingConfig(**{"mbr": "chrf", "mbr_samples": 12, "max_length": 9, "beam": 3, **changes})
    model = model or ToyTranslator(9, seed=3)
    return list(translate_lines(model, TOKENS, TOKENS, lines, config))  # type: ignore[arg-type]


def plain(line: str, number: int, config: DecodingConfig) -> list[tuple[float, str]]:
    """Expected utilities by their definition: one score for each candidate and each draw."""
    source, lengths = pad([[*TOKENS.encode_batch([line])[0], EOS]], "cpu")
    ids = [number * MAX_PIECES]
    bare = dataclasses.replace(config, mbr=None, n_best=1)

    def ask(**changes: Any) -> list[Hypothesis]:
        return search(
            ToyTranslator(9, seed=3), source, lengths, dataclasses.replace(bare, **changes), sentence_ids=ids
        )[0]  # type: ignore[arg-type]

    rare = 0.02 if config.epsilon is None else config.epsilon
    drawn = [] if config.mbr_candidates == "beam" else ask(sample=True, n_best=config.mbr_samples, epsilon=rare)
    beam = [] if config.mbr_candidates == "samples" else ask(n_best=config.beam)
    chances = [1.0] * len(drawn) or [math.exp(one.log_probability) for one in beam]
    references = [TOKENS.decode(one.tokens) for one in drawn or beam]
    reward, found = REWARDS[str(config.mbr)], []
    ended: dict[str, bool] = defaultdict(bool)
    for one in [*drawn, *beam]:
        ended[TOKENS.decode(one.tokens)] |= one.finished
    for text, whole in ended.items():
        total = sum(chance * float(reward([text], [wanted])[0]) for chance, wanted in zip(chances, references))
        found.append((not whole, -total / sum(chances), text))
    return [(-score, text) for _, score, text in sorted(found)]


@pytest.mark.parametrize(
    ("mbr", "candidates"),
    [("chrf", "both"), ("chrf", "samples"), ("chrf", "beam"), ("bleu", "both"), ("gleu", "samples")],
)
@settings(max_examples=3)
@given(seed=st.integers(0, 1000), temperature=st.sampled_from([0.5, 1.0]), epsilon=st.sampled_from([None, 0, 0.1]))
def test_equals_the_plain_double_loop(
    mbr: Any, candidates: Any, seed: int, temperature: float, epsilon: float | None
) -> None:
    how = {"mbr": mbr, "mbr_candidates": candidates, "seed": seed, "temperature": temperature, "epsilon": epsilon}
    own = {"max_length": 9, "beam": 3, "mbr_samples": 12, "n_best": 3, **how}
    config = DecodingConfig(**own)
    for number, translation in enumerate(said(**own)):
        if not LINES[number]:
            assert translation.text == ""
            continue
        expected = plain(LINES[number], number, config)
        scores = [score for score, _ in expected]
        assert [one.score for one in translation.n_best] == pytest.approx(scores[:3])
        assert translation.n_best[0].text == translation.text
        for one, (score, text) in zip(translation.n_best, expected):
            if sum(math.isclose(score, other) for other in scores) == 1:  # ties may stand in any order
                assert one.text == text


def test_no_batch_changes_what_is_drawn() -> None:
    together = said()
    for sentences in (1, 2):
        apart = said(batch_sentences=sentences)
        assert [(one.text, one.score) for one in apart] == [(one.text, one.score) for one in together]
    assert [one.text for one in said(seed=2)] != [one.text for one in together]


def test_the_list_has_different_texts_best_first() -> None:
    for translation in said(n_best=8):
        texts = [one.text for one in translation.n_best]
        assert len(set(texts)) == len(texts) > 0
        scores = [one.score for one in translation.n_best if one.finished]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores) or translation.source == ""


def test_prefix_and_long_lines() -> None:
    config = DecodingConfig(mbr="chrf", mbr_samples=8, max_length=9, beam=2)
    forced = list(translate_lines(ToyTranslator(9), TOKENS, TOKENS, ["abc", "da"], config, prefixes=["ca", ""]))  # type: ignore[arg-type]
    assert forced[0].text.startswith("ca")
    long = said(["ab cd ab cd ab cd"], ToyTranslator(9, longest=8), max_length=None)[0]
    assert long.pieces > 1
    assert 0 <= long.score <= 1


def test_an_unknown_word_is_one_character() -> None:
    """Five of them would make any two texts with unknown words alike."""
    tokens = CharacterTokenizer("abcde")
    tokens.decode = lambda ids: "".join("<unk>" if id == UNK else tokens.alphabet[id - 4] for id in ids)  # type: ignore[method-assign]
    piece = _Piece(0, 0, [4], [])
    spell = _speller([piece], tokens, DecodingConfig())  # type: ignore[arg-type]
    assert spell(0, Hypothesis([UNK, 5, UNK], 0.0, 0.0, [], True)) == "\ue000b\ue000"
    assert spell(0, Hypothesis([5, 4], 0.0, 0.0, [], True)) == "ba"


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="leave out sample"):
        DecodingConfig(mbr="chrf", sample=True)
    with pytest.raises(ValueError, match=r"n_best \(70\) must not exceed the 69 candidates"):
        DecodingConfig(mbr="chrf", n_best=70)
    with pytest.raises(ValueError, match="mbr_samples must be at least 1"):
        DecodingConfig(mbr="chrf", mbr_samples=0)
    assert DecodingConfig(mbr="bleu").describe() == "MBR (bleu) over 64 samples and beam 5"
    assert DecodingConfig(mbr="bleu", mbr_candidates="samples").describe() == "MBR (bleu) over 64 samples"
    assert DecodingConfig(beam=2).describe() == "beam 2"
