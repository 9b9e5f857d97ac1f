"""BLEU and chrF are sacreBLEU's, and say by which signature."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from anaphora.evaluation.translation_metrics import bleu, chrf, exact_match

HYPOTHESES = ["the cat sat on the mat .", "he said : hello , world !", "a completely different line of words", ""]
REFERENCES = ["the cat is on the mat .", "He said: hello, world!", "no word here is the same", "something"]


def test_numbers_are_sacrebleus_own() -> None:
    assert bleu(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    for tokenize in ("13a", "intl", "char", "none"):
        ours = bleu(HYPOTHESES, REFERENCES, tokenize=tokenize)
        assert ours.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize, force=True).score
        assert f"tok:{tokenize}" in ours.signature
    assert bleu(HYPOTHESES, REFERENCES, lowercase=True).value > bleu(HYPOTHESES, REFERENCES).value


def test_one_by_hand() -> None:
    """Five words, four of them right and in order: precisions 4/5, 3/4, 2/3, 1/2, no brevity penalty."""
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu(["a b c d e"], ["a b c d f"]).value == pytest.approx(expected)


def test_identity_is_100() -> None:
    assert bleu(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert chrf(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert exact_match(REFERENCES, REFERENCES) == 1.0


def test_signatures_say_how() -> None:
    version = f"version:{sacrebleu.__version__}"
    for part in ("nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp", version):
        assert part in bleu(["a"], ["a"]).signature
    assert "case:lc" in bleu(["a"], ["a"], lowercase=True).signature
    for part in ("nrefs:1", "nc:6", "nw:0", version):
        assert part in chrf(["a"], ["a"]).signature


@given(st.lists(st.tuples(st.text("ab ", max_size=6), st.text("ab ", max_size=6)), min_size=1, max_size=8))
def test_bounds_and_exact_match(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    assert 0 <= bleu(hypotheses, references).value <= 100 + 1e-9
    assert 0 <= chrf(hypotheses, references).value <= 100 + 1e-9
    assert exact_match(hypotheses, references) == pytest.approx(sum(h == r for h, r in pairs) / len(pairs))


def test_exact_match_of_nothing_and_of_unequal_numbers() -> None:
    assert exact_match([], []) == 0.0
    assert exact_match(["a "], ["a"]) == 0.0
    with pytest.raises(ValueError, match=r"longer|shorter"):
        exact_match(["a"], ["a", "b"])
