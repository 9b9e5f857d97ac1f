"""Expected utilities of a pool, against one score after another and against sacreBLEU."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from anaphora.evaluation.expected_utility import UTILITIES, Utility, expected_utilities, utilities
from anaphora.evaluation.sentence_scores import REWARDS

WORDS = ["the", "cat", "Hund", "läuft", "don't", "3.5", "(now)", "...", "猫", "🙂", "a", "a", "ab", "aba", ",", "."]
text = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
pool = st.lists(text, min_size=1, max_size=7, unique=True)
weight = st.floats(0, 3, allow_nan=False)


@pytest.mark.parametrize("utility", UTILITIES)
@given(texts=pool)
def test_each_cell_is_the_score_of_that_pair(texts: list[str], utility: Utility) -> None:
    plain = np.array([[REWARDS[utility]([said], [wanted])[0] for wanted in texts] for said in texts])
    assert utilities(texts, utility) == pytest.approx(plain, abs=1e-12)


@given(texts=pool)
def test_chrf_and_bleu_are_those_of_sacrebleu(texts: list[str]) -> None:
    kept = [one for one in texts if one.strip()]  # of nothing it has its own opinion
    chrf, bleu = CHRF(), BLEU(effective_order=True, smooth_method="exp")
    if not kept:
        return
    expected = [[chrf.sentence_score(said, [wanted]).score / 100 for wanted in kept] for said in kept]
    assert utilities(kept, "chrf") == pytest.approx(np.array(expected), abs=1e-9)
    expected = [[bleu.sentence_score(said, [wanted]).score / 100 for wanted in kept] for said in kept]
    assert utilities(kept, "bleu") == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize("utility", UTILITIES)
@given(draws=st.lists(text, min_size=1, max_size=12))
def test_counted_once_is_as_good_as_drawn_twice(draws: list[str], utility: Utility) -> None:
    """The plain double loop over all that was drawn, equal ones each for itself."""
    counts = Counter(draws)
    found = expected_utilities(list(counts), list(counts.values()), utility)
    for said, value in zip(counts, found):
        plain = sum(float(REWARDS[utility]([said], [wanted])[0]) for wanted in draws) / len(draws)
        assert value == pytest.approx(plain, abs=1e-12)


@given(texts=pool, weights=st.lists(weight, min_size=7, max_size=7))
def test_what_has_no_weight_is_no_reference(texts: list[str], weights: list[float]) -> None:
    own = weights[: len(texts)]
    if sum(own) == 0:
        own[0] = 1.0
    kept = [place for place, share in enumerate(own) if share > 0]
    table = utilities(texts, "chrf")
    expected = sum(own[place] * table[:, place] for place in kept) / sum(own)
    assert expected_utilities(texts, own, "chrf") == pytest.approx(expected, abs=1e-12)


def test_the_typical_one_wins() -> None:
    texts = ["a man walks his dog in the park", "a man walks a dog in the park", "a man walks his dog", "yes"]
    assert expected_utilities(texts, [1, 1, 1, 1], "chrf").argmax() in (0, 1)
    assert expected_utilities(texts, [1, 1, 1, 9], "chrf").argmax() == 3  # said more often than all others


def test_a_pool_of_hundreds_of_long_texts_fits_its_table() -> None:
    texts = [" ".join(str(number * place) for number in range(150)) for place in range(130)]
    table = utilities(texts, "chrf")
    assert table.shape == (130, 130)
    assert np.diag(table) == pytest.approx(np.ones(130))
    assert table[3, 77] == pytest.approx(REWARDS["chrf"]([texts[3]], [texts[77]])[0])
