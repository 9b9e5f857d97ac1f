"""Rewards of single sentences, against sacreBLEU and against GLEU written out plainly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from anaphora.evaluation.sentence_scores import REWARDS, sentence_bleu, sentence_chrf, sentence_gleu

WORDS = [
    "the",
    "cat",
    "Hund",
    "läuft",
    "don't",
    "3.5",
    "(now)",
    "...",
    "猫",
    "🙂",
    "a",
    "b",
    ",",
    "1,",
    "-2",
    "3-",
    "&quot;x",
    ".",
]
text = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
several = st.lists(st.tuples(text, text), min_size=1, max_size=6)


def plain_gleu(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """Wu et al. (2016), section 5.2: all n-grams of 1 to 4 tokens; the smaller of precision and recall."""

    def ngrams(words: Sequence[str]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(words[i : i + n]) for n in (1, 2, 3, 4) for i in range(len(words) - n + 1))

    said, wanted = ngrams(hypothesis), ngrams(reference)
    found = (said & wanted).total()
    if not said or not wanted:
        return 0.0
    return min(found / said.total(), found / wanted.total())


@given(several)
def test_gleu_is_the_smaller_of_precision_and_recall(pairs: list[tuple[str, str]]) -> None:
    words = Tokenizer13a()
    expected = [plain_gleu(words(h).split(), words(r).split()) for h, r in pairs]
    assert sentence_gleu(*zip(*pairs)) == pytest.approx(expected, abs=1e-12)


@given(several)
def test_bleu_is_sacrebleus(pairs: list[tuple[str, str]]) -> None:
    metric = BLEU(effective_order=True)
    expected = [metric.sentence_score(h, [r]).score / 100 for h, r in pairs]
    assert sentence_bleu(*zip(*pairs)) == pytest.approx(expected, abs=1e-9)


@given(several)
def test_chrf_is_sacrebleus(pairs: list[tuple[str, str]]) -> None:
    expected = [CHRF().sentence_score(h, [r]).score / 100 for h, r in pairs]
    assert sentence_chrf(*zip(*pairs)) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=4))
def test_any_text_has_a_reward_between_0_and_1(pairs: list[tuple[str, str]]) -> None:
    for reward in REWARDS.values():
        values = reward([h for h, _ in pairs], [r for _, r in pairs])
        assert values.shape == (len(pairs),)
        assert np.isfinite(values).all()
        assert ((values >= 0) & (values <= 1 + 1e-12)).all()


def test_by_hand() -> None:
    # 4 + 3 + 2 + 1 n-grams each; shared: the, cat, sleeps, "the cat" = 4 of 10
    assert sentence_gleu(["the cat now sleeps"], ["the cat always sleeps"]) == pytest.approx([0.4])
    # shorter: 3 + 2 + 1 = 6 n-grams, all found, of the reference's 10
    assert sentence_gleu(["the cat always"], ["the cat always sleeps"]) == pytest.approx([0.6])
    assert [r(["a b c d e"], ["a b c d e"])[0] for r in REWARDS.values()] == pytest.approx([1, 1, 1])
    assert [r(["", "x"], ["a", ""]).tolist() for r in REWARDS.values()] == [[0, 0]] * 3


def test_as_many_references_as_hypotheses() -> None:
    with pytest.raises(ValueError, match="2 hypotheses for 1 references"):
        sentence_gleu(["a", "b"], ["a"])
