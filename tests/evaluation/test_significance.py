"""Paired bootstrap tests: sacreBLEU's own to the digit, the same of bits per byte, and what cannot be drawn."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

import anaphora
from anaphora.errors import UserError
from anaphora.evaluation.draws import Draws
from anaphora.evaluation.significance import compare_texts, compare_translations
from anaphora.evaluation.translation_metrics import ter
from anaphora.pipelines.text_model import TextModel
from neural_folders import neural_folder
from ngram_folders import VERSE, ngram_folder

REFERENCES = [f"the {color} dog sees a cat and {number} birds" for color in ("red", "blue") for number in range(20)]
GOOD = [line.replace("sees", "saw") if number % 5 == 0 else line for number, line in enumerate(REFERENCES)]
BAD = [line.replace("a cat and", "and") if number % 2 else line for number, line in enumerate(REFERENCES)]


def test_it_is_sacrebleus_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    found = compare_translations(GOOD, BAD, REFERENCES, ter=True, draws=Draws(200, 5))
    assert os.environ["SACREBLEU_SEED"] == "77"
    monkeypatch.setenv("SACREBLEU_SEED", "5")
    systems = [("a", GOOD), ("b", BAD)]
    test = PairedTest(systems, {"BLEU": BLEU(), "TER": TER()}, [REFERENCES], test_type="bs", n_samples=200)
    signatures, expected = test()
    assert [one.metric for one in found.scores] == ["BLEU", "chrF", "TER"]
    for one in (found.scores[0], found.scores[2]):
        first, second = expected[one.metric]
        assert (one.first.score, one.first.mean, one.first.margin) == (first.score, first.mean, first.ci)
        assert (one.second.score, one.p) == (second.score, second.p_value)
        assert one.signature == str(signatures[one.metric])
        assert "bs:200" in str(one.signature)
        assert "seed:5" in str(one.signature)
    json.dumps(found.document(), allow_nan=False)
    assert max(map(len, found.table(["a" * 50, "b"]))) <= 80


def test_what_differs_is_told_from_what_does_not() -> None:
    apart = compare_translations(GOOD, BAD, REFERENCES, draws=Draws(200))
    assert all(one.difference > 0 and one.p < 0.05 for one in apart.scores)
    same = compare_translations(GOOD, GOOD, REFERENCES, draws=Draws(100))
    assert all(one.difference == 0 and one.p > 0.05 for one in same.scores)
    assert compare_translations(GOOD, BAD, REFERENCES, draws=Draws(50, 3)) != compare_translations(
        GOOD, BAD, REFERENCES, draws=Draws(50, 4)
    )


def test_ter_by_hand() -> None:
    found = ter(["a b c d", "x"], ["a b c d", "y z"])
    assert found.value == pytest.approx(100 * 2 / 6)
    assert "nrefs:1|case:lc|tok:tercom" in found.signature


def test_bits_per_byte_of_two_language_models(tmp_path: Path) -> None:
    good, poor = TextModel(ngram_folder(tmp_path / "good")), TextModel(ngram_folder(tmp_path / "poor", order=1))
    found = good.evaluate(VERSE * 5, beside=poor, bootstrap_samples=200)
    assert found.beside is not None
    assert found.significance is not None
    (score,) = found.significance.scores
    assert score.first.score == pytest.approx(found.bits_per_byte)
    assert score.second.score == pytest.approx(found.beside.bits_per_byte)
    assert score.difference < 0
    assert score.p < 0.05
    assert abs(score.first.mean - score.first.score) < score.first.margin
    assert good.evaluate(VERSE, beside=good).significance.scores[0].p > 0.05  # type: ignore[union-attr]
    json.dumps(found.document(), allow_nan=False)
    assert "significance" not in good.evaluate(VERSE).document()


def test_a_stream_and_left_out_lines_have_their_own_bytes(tmp_path: Path) -> None:
    stream = TextModel(ngram_folder(tmp_path / "stream", boundaries="stream", blank_lines="drop"))
    lines = TextModel(ngram_folder(tmp_path / "lines"))
    found = stream.evaluate(VERSE, beside=lines, bootstrap_samples=20)
    assert found.significance is not None
    (score,) = found.significance.scores
    assert (score.first.score, score.second.score) == pytest.approx(
        (stream.evaluate(VERSE).bits_per_byte, lines.evaluate(VERSE).bits_per_byte)
    )


def test_the_bootstrap_of_bits_by_hand() -> None:
    logs, size = np.log([0.5, 0.25]), np.array([1.0, 1.0])
    found = compare_texts((logs, size), (logs * 2, size), draws=Draws(400, 2))
    (score,) = found.scores
    assert (score.first.score, score.second.score) == pytest.approx((1.5, 3.0))
    assert score.first.mean == pytest.approx(1.5, abs=0.1)
    assert score.first.margin == pytest.approx(0.5)  # both lines twice, or each once


@pytest.mark.parametrize(
    ("draws", "said"), [(Draws(0), "the number of bootstrap samples is 0"), (Draws(seed=0), "seed is 0")]
)
def test_what_cannot_be_drawn(draws: Draws, said: str, micro: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        compare_translations(GOOD, BAD, REFERENCES, draws=draws)
    model = anaphora.load(micro, "cpu")
    with pytest.raises(UserError, match=said):
        model.evaluate(["a"], ["b"], bootstrap_samples=draws.samples, bootstrap_seed=draws.seed)


def test_a_masked_model_does_not_compare_with_one_that_reads_left_to_right(tmp_path: Path) -> None:
    masked = TextModel(neural_folder(tmp_path / "masked", "transformer-encoder"))
    with pytest.raises(UserError, match="pseudo-likelihood does not compare"):
        TextModel(ngram_folder(tmp_path / "ngram")).evaluate(VERSE, beside=masked)


def test_a_translator_is_compared_with_another(micro: Path) -> None:
    model = anaphora.load(micro, "cpu")
    how = {"beam": 1, "max_length": 5}
    found = model.evaluate(["a dog", "two men"], ["ein Hund", "zwei Männer"], ter=True, beside=model, **how)
    assert found.ter is not None
    assert found.beside is not None
    assert (found.beside.bleu, found.beside.ter) == (found.bleu, found.ter)
    assert [one.metric for one in found.significance.scores] == ["BLEU", "chrF", "TER"]
    assert found.significance.scores[2].first.score == pytest.approx(found.ter)
    alone = model.evaluate(["a dog", "two men"], ["ein Hund", "zwei Männer"], **how)
    assert (alone.ter, alone.beside, alone.significance) == (None, None, None)
    assert not math.isnan(found.significance.scores[0].p)
