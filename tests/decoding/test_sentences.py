"""Several sentences in a line: cut where nobody would doubt it, translated one by one, nothing dropped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anaphora
from anaphora.decoding.splitting import sentences, several_sentences
from anaphora.decoding.translate import Translation
from anaphora.pipelines.mixing import mix


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("A man sleeps. Two dogs play in the snow. A woman reads.", 3),
        ("Is it? Yes! “Good.” He left.", 4),
        ("Mr. Smith paid Dr. Brown 3.14 dollars on Jan. 5 at 10 a.m. in J. Street.", 1),
        ("Er kam am 3. Mai, z.B. mit Dr. Meier. Dann ging er.", 2),
        ("Wait ... he said. e.g. this one", 1),
        ("彼は来た。彼女は「はい。」と言った。雨だ！", 3),
        ("ذهب الرجل؟ نعم! عاد.", 3),
        ("वह आया। वह गया।", 2),
        ("www.example.com is up. v1.2.3 too", 1),
        ("", 0),
        ("   ", 1),
    ],
)
def test_where_a_line_is_cut(text: str, cut: int) -> None:
    found = sentences(text)
    assert len(found) == cut, found
    assert "".join(found) == text


@given(st.text(alphabet="aA1 .!?。\"'”)\t", max_size=40))
def test_nothing_is_lost(text: str) -> None:
    assert "".join(sentences(text)) == text


def test_how_many_lines_have_several() -> None:
    assert several_sentences(["One.", "One. Two.", "", "One"]) == 0.25
    assert several_sentences([]) == 0


LINE = "The dog sees. A cat hears the tree! The old ball."


@pytest.fixture(scope="module")
def model(micro: Path) -> anaphora.TranslationModel:
    return anaphora.load(micro, "cpu")  # type: ignore[return-value]


def together(parts: list[Translation]) -> tuple[str, float]:
    texts = [part.text.strip() for part in parts if part.text.strip()]
    return " ".join(texts), sum(part.log_probability for part in parts)


def test_each_sentence_is_translated_and_the_translations_are_joined(model: Any) -> None:
    alone = model.translate(["The dog sees.", "A cat hears the tree!", "The old ball."], beam=2)
    for how in ({"split_sentences": "always"}, {}):  # its text had single sentences
        found = model.translate([LINE, "", "One sentence."], beam=2, align=True, **how)
        assert [one.pieces for one in found] == [3, 1, 1]
        text, total = together(alone)
        assert found[0].text == text
        assert found[0].log_probability == pytest.approx(total, abs=1e-4)
        assert found[0].source == LINE
        assert [word.text for word in found[0].alignment.source if word.text.isalpha()] == LINE.replace(
            ".", ""
        ).replace("!", "").split()
        assert len(found[0].alignment.weights) == len(found[0].alignment.target)
    assert model.translate(LINE, split_sentences="never").pieces == 1


def test_what_is_not_known_of_a_model_is_not_assumed(micro: Path, tmp_path: Path) -> None:
    trained = json.loads((micro / "metrics.json").read_text())["trained_on"]
    assert trained["several_sentences"] == 0
    copy = Path(shutil.copytree(micro, tmp_path / "copy", ignore=shutil.ignore_patterns("data", "checkpoints")))
    for share, pieces in ((0.01, 3), (0.5, 1), (None, 1), ("x", 1)):
        metrics = json.loads((micro / "metrics.json").read_text())
        metrics["trained_on"]["several_sentences"] = share
        (copy / "metrics.json").write_text(json.dumps(metrics))
        assert anaphora.load(copy, "cpu").translate(LINE).pieces == pieces  # type: ignore[union-attr, call-overload]


def test_an_ensemble_splits_what_all_its_members_would(micro: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(micro, tmp_path / "other", ignore=shutil.ignore_patterns("data", "checkpoints")))
    mix(tmp_path / "both", [micro, other])
    for both in (tmp_path / "both", [other, micro]):
        assert anaphora.load(both, "cpu").translate(LINE, beam=1).pieces == 3  # type: ignore[union-attr, call-overload]
    metrics = json.loads((micro / "metrics.json").read_text())
    metrics["trained_on"]["several_sentences"] = 0.5
    (other / "metrics.json").write_text(json.dumps(metrics))
    assert anaphora.load([micro, other], "cpu").translate(LINE, beam=1).pieces == 1  # type: ignore[union-attr, call-overload]


def test_a_text_of_several_lines_keeps_them(model: Any) -> None:
    lines = ["the dog.", "", "a cat sees the tree."]
    each = model.translate(lines, beam=2)
    whole = model.translate("\n".join(lines) + "\n", beam=2)
    assert whole.text == "\n".join(one.text for one in each)
    assert whole.source == "\n".join(lines)
    assert whole.log_probability == pytest.approx(sum(one.log_probability for one in each))
    assert len(whole.token_scores) == sum(len(one.token_scores) for one in each)
    with pytest.raises(anaphora.UserError, match="aligned line by line; give a list of its lines"):
        model.translate("a\nb", align=True)
