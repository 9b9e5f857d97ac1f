"""Explanations: they reproduce the probability they explain, and name the right levels."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.models.ngram.arpa import read_arpa, write_arpa
from anaphora.models.ngram.ngram_explanation import why
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS, UNK
from ngram_texts import FIRST, fitted, sentences

VOCABULARY = 11
SMOOTHINGS = ["kneser-ney", "stupid-backoff", "add-k", "maximum-likelihood"]


def after(model: NgramModel, prefix: list[int]) -> np.ndarray:
    logs, state = model.step(torch.tensor([BOS]), model.start(1))
    for token in prefix:
        logs, state = model.step(torch.tensor([token]), state)
    return logs[0].numpy()


@given(
    texts=sentences(),
    prefix=st.lists(st.integers(UNK, VOCABULARY - 1), max_size=6),
    order=st.integers(1, 5),
    smoothing=st.sampled_from(SMOOTHINGS),
    prune=st.sampled_from([[], [0, 1]]),
)
def test_reproduces_the_probability(
    texts: list[list[int]], prefix: list[int], order: int, smoothing: str, prune: list[int]
) -> None:
    model = fitted(texts, VOCABULARY, order=order, smoothing=smoothing, prune=prune[:order])
    logs = after(model, prefix)
    likeliest = why(model, prefix, top=VOCABULARY).candidates
    assert {candidate.token for candidate in likeliest} == set(np.flatnonzero(logs > -np.inf).tolist())
    said = [candidate.log_probability for candidate in likeliest]
    assert said == sorted(said, reverse=True)
    found = why(model, prefix, top=VOCABULARY, tokens=range(EOS, VOCABULARY))
    assert sorted(candidate.token for candidate in found.candidates) == list(range(EOS, VOCABULARY))
    for candidate in found.candidates:
        assert candidate.log_probability == logs[candidate.token] == candidate.scored  # bit for bit
        levels = candidate.levels
        assert candidate.total == pytest.approx(candidate.probability, rel=1e-5, abs=1e-12)
        assert sum(level.part for level in levels) == pytest.approx(candidate.probability, rel=1e-5, abs=1e-9)
        assert levels[0].probability == pytest.approx(candidate.probability, rel=1e-5, abs=1e-9)
        for level, below in pairwise(levels):
            expected = level.share + level.weight * below.probability
            assert level.probability == pytest.approx(expected, rel=1e-5, abs=1e-9)
            assert below.context == level.context[1:] or below.order == 0
        assert levels[-1].weight == 0
    row = np.array([*prefix, EOS], np.uint32)
    _, (orders,) = model.score_rows([row])
    assert next(candidate.order for candidate in found.candidates if candidate.token == EOS) == orders[-1]
    document = found.document(lambda token: f"<{token}>")
    assert json.loads(json.dumps(document, allow_nan=False)) == document


THE, CAT, SAW, DOG, SLEPT = range(FIRST, FIRST + 5)
FIVE_WORDS = [[THE, CAT, SAW, THE, DOG], [THE, DOG, SLEPT]]


def test_a_bigram_by_hand() -> None:
    """After "the": dog was seen twice of three times, discounts are 0.5 and 1 (too few counts for others)."""
    model = fitted(FIVE_WORDS, 9, order=2)
    found = why(model, [THE], top=1, discounts=[(0, 0.5, 1, 1.5)] * 2)
    (dog,) = found.candidates
    assert (dog.token, dog.order) == (DOG, 2)
    above, below = dog.levels
    assert (above.context, above.known, above.seen) == ((THE,), True, True)
    assert above.share == pytest.approx((2 - 1) / 3, rel=1e-5)
    assert above.weight == pytest.approx((1 + 0.5) / 3)
    assert below.part == pytest.approx(above.weight * ((1 - 0.5) / 8 + 4 / 8 / 7))
    assert found.document()["discounts"] == [[0, 0.5, 1, 1.5]] * 2


def test_a_word_never_seen_there_falls_back() -> None:
    model = fitted(FIVE_WORDS, 9, order=3)
    found = why(model, [CAT, SLEPT], top=0, tokens=[THE, EOS])
    the, end = found.candidates
    assert [(level.context, level.known, level.seen) for level in the.levels] == [
        ((CAT, SLEPT), False, False),
        ((SLEPT,), True, False),
        ((), True, True),
    ]
    assert the.levels[0].weight == 1
    assert the.levels[0].probability == the.levels[1].probability
    assert (the.order, end.order) == (1, 2)


def test_the_beginning_of_a_sentence_is_a_context() -> None:
    found = why(fitted(FIVE_WORDS, 9, order=3), [], top=1)
    assert found.candidates[0].token == THE
    assert [level.context for level in found.candidates[0].levels] == [(BOS,), ()]


def test_stupid_back_off_pays_for_every_level() -> None:
    model = fitted(FIVE_WORDS, 9, order=3, smoothing="stupid-backoff", backoff=0.4)
    (dog,) = why(model, [SAW, SLEPT], top=0, tokens=[DOG]).candidates
    assert [level.weight for level in dog.levels] == pytest.approx([0.4, 0.4, 0])
    assert dog.probability == pytest.approx(0.4 * 0.4 * 2 / 10)


def test_add_k_mixes_with_the_uniform_distribution() -> None:
    model = fitted(FIVE_WORDS, 9, order=2, smoothing="add-k", k=1)
    dog, slept = why(model, [THE], top=0, tokens=[DOG, SLEPT]).candidates
    assert [(level.order, level.share) for level in dog.levels] == [
        (2, pytest.approx(2 / 10)),
        (0, pytest.approx(1 / 7)),
    ]
    assert dog.levels[0].weight == pytest.approx(7 / 10)
    assert slept.levels[0].share == 0
    assert slept.probability == pytest.approx(1 / 10)


@given(texts=sentences(), prefix=st.lists(st.integers(UNK, VOCABULARY - 1), max_size=5), order=st.integers(1, 4))
def test_a_model_from_a_file(texts: list[list[int]], prefix: list[int], order: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.arpa"
        words = [*SPECIALS, *(f"w{id}" for id in range(FIRST, VOCABULARY))]
        write_arpa(path, fitted(texts, VOCABULARY, order=order), words)
        model = read_arpa(path).model
    logs = after(model, prefix)
    found = why(model, prefix, top=0, tokens=range(EOS, VOCABULARY))
    assert len(found.candidates) == VOCABULARY - EOS
    for candidate in found.candidates:
        assert candidate.log_probability == logs[candidate.token] == candidate.scored
        assert candidate.total == pytest.approx(candidate.probability, rel=1e-5)
        assert candidate.levels[-1].seen


def test_tokens_that_are_none() -> None:
    model = fitted(FIVE_WORDS, 9, order=2)
    with pytest.raises(UserError, match="there is no token 9: the model has 9"):
        why(model, [9])
    assert why(model, [THE], top=0, tokens=[BOS]).candidates[0].log_probability == -math.inf
