"""Subword dropout: without dropout the tokeniser's own ids, with it other cuts of the same text, repeatable."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.tokenizers.subword_dropout import SubwordSampler
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig

LINES = ["the dog sees the bigger dogs , and the smallest cats see them .", "Straßenbahnen über große Straßen"] * 9
KINDS = ["bpe", "unigram"]
TEXT = st.text(st.one_of(st.sampled_from("the dogsß aS."), st.characters(exclude_categories=["Cs"])), max_size=40)


@functools.cache
def sampler(kind: str) -> SubwordSampler:
    config = TokenizerConfig(kind=kind, vocabulary=330)  # type: ignore[arg-type]
    return SubwordSampler(Tokenizer.train(config, LINES))


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=150)
@given(texts=st.lists(TEXT, max_size=4))
def test_without_dropout_it_is_the_tokenizer(kind: str, texts: list[str]) -> None:
    """The slow twin: the tokenizer itself."""
    one = sampler(kind)
    assert [ids.tolist() for ids in one.encode_batch(texts, 0.0, (1,))] == one.tokenizer.encode_batch(texts)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=100)
@given(
    texts=st.lists(TEXT, max_size=4), dropout=st.floats(0, 1), seed=st.tuples(st.integers(0, 2**40), st.integers(0, 9))
)
def test_sampled_ids_decode_to_the_text(kind: str, texts: list[str], dropout: float, seed: tuple[int, int]) -> None:
    one = sampler(kind)
    sampled = one.encode_batch(texts, dropout, seed)
    assert one.tokenizer.decode_batch(sampled) == texts
    again = SubwordSampler(one.tokenizer).encode_batch(texts, dropout, seed)
    assert all(np.array_equal(a, b) for a, b in zip(sampled, again, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_and_places_draw_differently(kind: str) -> None:
    one = sampler(kind)
    text = LINES[0] * 3
    drawn = {tuple(ids) for seed in range(4) for ids in one.encode_batch([text] * 4, 0.5, (7, seed))}
    assert len(drawn) == 16


def test_all_merges_dropped_leaves_bytes() -> None:
    (ids,) = sampler("bpe").encode_batch([LINES[1]], 1.0, (1,))
    assert len(ids) == len(LINES[1].encode())


def test_bpe_dropout_draws_each_merge_at_every_step() -> None:
    """One word, one merge: it survives with probability 1 - p."""
    one = SubwordSampler(Tokenizer.train(TokenizerConfig(vocabulary=261), ["ab ab ab"]))
    lengths = Counter(len(ids) for ids in one.encode_batch(["ab"] * 20_000, 0.3, (3,)))
    assert set(lengths) == {1, 2}
    assert abs(lengths[2] / 20_000 - 0.3) < 0.015


def test_unigram_draws_with_the_right_probabilities() -> None:
    """Against all segmentations of a short word, written out."""
    one = sampler("unigram")
    word = b" dog"
    score = {one.tokenizer.token_bytes(id): one.scores[id] for id in range(4, len(one.tokenizer))}

    def cuts(rest: bytes) -> list[tuple[bytes, ...]]:
        if not rest:
            return [()]
        heads = [rest[:n] for n in range(1, len(rest) + 1) if rest[:n] in score]
        return [(head, *tail) for head in heads for tail in cuts(rest[len(head) :])]

    weights = {cut: np.exp(0.2 * sum(score[piece] for piece in cut)) for cut in cuts(word)}
    assert len(weights) > 1
    number = 40_000
    drawn = Counter(
        tuple(one.tokenizer.token_bytes(id) for id in ids)
        for ids in one.encode_batch([word.decode()] * number, 1.0, (5,))
    )
    for cut, weight in weights.items():
        assert abs(drawn[cut] / number - weight / sum(weights.values())) < 0.015, cut


@pytest.mark.parametrize("kind", ["word", "character"])
def test_words_and_characters_are_refused(kind: str) -> None:
    one = Tokenizer.train(TokenizerConfig(kind=kind), LINES)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"a {kind} tokenizer has no subwords to drop; set tokenizer.dropout=0"):
        SubwordSampler(one)


def test_a_dropout_outside_zero_to_one_is_refused() -> None:
    with pytest.raises(UserError, match=r"dropout is 1\.5; make it a probability"):
        sampler("bpe").encode_batch(["a"], 1.5, (1,))
