"""`anaphora why`: tables in 80 columns, JSON, models of every sort, and mistakes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from anaphora.explain.draw.terminal import cells
from anaphora.pipelines.text_model import TextModel
from ngram_folders import VERSE, mixture_folder, ngram_folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return ngram_folder(tmp_path / "model")


def test_tables_in_80_columns(say: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = say("why", model, "the dog", "--top", 3, "--word", "mat")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "What comes after ⟨s⟩ the dog"
    assert max(map(cells, lines)) <= 80
    assert sum("P = " in line for line in lines) == 4
    assert any(line.startswith("mat: P = ") for line in lines)
    assert [line for line in lines if line.startswith("holds: ")] == lines[-2:]
    discounts = json.loads((model / "metrics.json").read_text())["discounts"]
    assert f"{discounts[1][1]:.4f}" in next(line for line in lines if line.strip().startswith("2-grams"))


@pytest.mark.parametrize("smoothing", ["kneser-ney", "add-k", "stupid-backoff", "maximum-likelihood"])
def test_json_is_what_the_model_scores(smoothing: str, say: Any, tmp_path: Path) -> None:
    folder = ngram_folder(tmp_path / "model", smoothing=smoothing)
    answer = say("why", folder, "the dog", "--word", "saw", "--word", "</s>", "--json")
    assert answer.code == 0
    said = json.loads(answer.last)
    loaded = TextModel(folder)
    for candidate in said["candidates"]:
        ending = "" if candidate["token"] == "⟨/s⟩" else f" {candidate['token']}"
        (scored,) = loaded.score([f"the dog{ending}"])
        log = scored.token_scores[2]  # after ⟨s⟩ the dog
        assert candidate["probability"] == pytest.approx(math.exp(log), rel=1e-6)
        assert candidate["sum_of_parts"] == pytest.approx(math.exp(log), rel=1e-5)
        assert sum(level["part"] for level in candidate["levels"]) == pytest.approx(math.exp(log), rel=1e-5)
    assert {"saw", "⟨/s⟩"} <= {candidate["token"] for candidate in said["candidates"]}
    assert all(check["holds"] for check in said["checks"])


def test_an_arpa_file_and_the_folder_say_the_same(say: Any, model: Path, tmp_path: Path) -> None:
    TextModel(model).save_arpa(tmp_path / "model.arpa.gz")
    mine, theirs = (
        json.loads(say("why", what, "the cat", "--json").last)["candidates"]
        for what in (model, tmp_path / "model.arpa.gz")
    )
    assert [one["token"] for one in mine] == [one["token"] for one in theirs]
    assert [one["probability"] for one in mine] == pytest.approx([one["probability"] for one in theirs], rel=1e-5)


def test_a_mixture_shows_its_parts(say: Any, tmp_path: Path) -> None:
    folder = mixture_folder(tmp_path / "mixed", [VERSE[:3], VERSE[3:]], [0.25, 0.75])
    answer = say("why", folder, "the", "--top", 1)
    assert answer.code == 0
    assert "a mixture of 2" in answer.out
    assert "part-1, weight 0.25: n-grams up to 3, kneser-ney" in answer.out
    assert "in part-2, " in answer.out
    said = json.loads(say("why", folder, "the", "--top", 1, "--json").last)
    (one,) = said["candidates"]
    assert sum(part["weight"] * part["probability"] for part in one["parts"]) == pytest.approx(one["probability"])
    assert [part["weight"] for part in said["parts"]] == [0.25, 0.75]
    assert [len(part["model"]["discounts"]) for part in said["parts"]] == [3, 3]


def test_without_a_prefix_it_is_the_beginning(say: Any, model: Path) -> None:
    said = json.loads(say("why", model, "--top", 1, "--json").last)
    assert said["prefix"] == []
    assert said["candidates"][0]["token"] == "the"
    assert [level["context"] for level in said["candidates"][0]["levels"]] == [["⟨s⟩"], []]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", "the"], "nowhere: there is no such folder"),
        (["MODEL", "the", "--word", "two words"], "'two words' is 2 tokens of this model ('two' 'words')"),
        (["MODEL", "the", "--word", ""], "an empty word was asked for"),
        (["MODEL", "the", "--top", "-1"], "invalid value for '--top'"),
    ],
)
def test_mistakes(words: list[str], message: str, say: Any, tmp_path: Path) -> None:
    lines = [*VERSE, "two words"]
    words = [str(ngram_folder(tmp_path / "model", lines)) if word == "MODEL" else word for word in words]
    answer = say("why", *words)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_a_translator_is_refused(say: Any, micro: Path) -> None:
    answer = say("why", micro, "the")
    assert answer.code == 2
    assert "is a translator" in answer.err
