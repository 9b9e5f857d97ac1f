"""`anaphora senses`, and `why` and `evaluate --similarity` of a Backpack: tables, JSON, pictures, and mistakes."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest

from anaphora.explain.draw.terminal import cells
from anaphora.folder import write_config
from anaphora.models.composites.mixture import MixtureConfig
from anaphora.pipelines.text_model import TextModel
from anaphora.tasks.recipes import RunConfig
from neural_folders import neural_folder
from ngram_folders import VERSE, ngram_folder

LSTM = {"encoder": "lstm", "heads": None, "feed_forward": None, "max_length": None}


@pytest.fixture(params=["transformer", "lstm"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    own = LSTM if request.param == "lstm" else {}
    return neural_folder(tmp_path / "model", "backpack", near_senses=0, **own)  # all senses speak of all places


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("\n".join(VERSE) + "\n")
    return tmp_path / "text.txt"


# senses -------------------------------------------------------------------------------------------------------------


def test_senses_in_80_columns(say: Any, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = say("senses", model, "cat", "dog", "--text", text, "--nearest", "--top", 5)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == f"cat: 2 senses, used 5 times in {len(VERSE)} lines"
    assert max(map(cells, lines)) <= 80
    assert any("[cat]" in line for line in lines) and any("[dog]" in line for line in lines)
    assert sum(line.strip().startswith("in text") for line in lines) == 4


def test_senses_as_json(say: Any, model: Path) -> None:
    said = json.loads(say("senses", model, "cat", "--top", 3, "--json").last)
    (word,) = said["words"]
    (token,) = word["tokens"]
    assert word["one_token"] is True and token["token"] == "cat" and token["uses"] is None
    assert base64.b64decode(token["bytes"]).decode().strip() == "cat"
    for sense in token["senses"]:
        values = [value for _, value in sense["raises"]]
        assert len(values) == 3 and values == sorted(values, reverse=True)
        assert sense["share"] is None and sense["nearest"] == [] and sense["size"] > 0


def test_a_picture_is_drawn_and_not_over_another(say: Any, model: Path, tmp_path: Path) -> None:
    picture = tmp_path / "senses.svg"
    assert say("senses", model, "cat", "--picture", picture).code == 0
    drawn = picture.read_bytes()
    assert b"<svg" in drawn
    again = say("senses", model, "cat", "--picture", picture)
    assert again.code == 2 and "already exists" in again.err and picture.read_bytes() == drawn
    other = say("senses", model, "cat", "--picture", tmp_path / "senses.gif")
    assert other.code == 2 and "is not a supported image format" in other.err


def test_senses_of_what_has_none(say: Any, tmp_path: Path, model: Path) -> None:
    answer = say("senses", ngram_folder(tmp_path / "ngram"), "cat")
    assert answer.code == 2 and "does not have senses of words" in answer.err and "backpack" in answer.err
    unknown = say("senses", model, "elephant")
    assert unknown.code == 2 and "'elephant' is not in the vocabulary" in unknown.err


def test_a_sense_that_was_removed_says_nothing(say: Any, model: Path, tmp_path: Path) -> None:
    patch, picture = tmp_path / "fix.json", tmp_path / "senses.svg"
    assert say("patch", model, patch, "--remove", "cat#1").code == 0
    told = say("senses", model, "cat", "--nearest", "--patch", patch, "--picture", picture)
    assert told.code == 0 and told.out.count("(nothing)") == 2 and told.out.count("nearest") == 1
    assert told.out.startswith("note: senses with fix.json\n\ncat: 2 senses")
    drawn = picture.read_text()  # comments say what is drawn
    assert drawn.count("<!-- says nothing -->") == 1 and "<!-- cat  with fix.json -->" in drawn
    said = json.loads(say("senses", model, "cat", "--nearest", "--patch", patch, "--json").last)
    assert said["patches"] == [str(patch)]
    removed = said["words"][0]["tokens"][0]["senses"][1]
    assert (removed["size"], removed["raises"], removed["lowers"], removed["nearest"]) == (0.0, [], [], [])


def test_examples_are_of_a_text_and_long_lines_are_told(say: Any, tmp_path: Path) -> None:
    folder = neural_folder(tmp_path / "short", "backpack", max_length=6)
    (tmp_path / "long.txt").write_text("the cat sat on the mat the cat sat on the cat\n")
    told = say("senses", folder, "cat", "--text", tmp_path / "long.txt", "--examples", 1)
    assert told.code == 0 and "used 1 time in 1 line" in told.out
    assert "1 line that holds them went on after the 6 tokens that the model reads" in " ".join(told.out.split())
    refused = say("senses", folder, "cat", "--examples", 1)
    assert refused.code == 2 and "--examples needs a text" in refused.err


# why ----------------------------------------------------------------------------------------------------------------


def test_why_in_80_columns(say: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = say("why", model, "the dog", "--top", 2, "--word", "mat")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "What comes after ⟨s⟩ the dog"
    assert max(map(cells, lines)) <= 80
    assert any(line.startswith("mat: logit ") for line in lines)
    assert "holds: the shares of each word add up to the logit" in answer.out and "FAILS" not in answer.out


def test_the_rows_of_a_table_add_up_and_name_what_adds_most(say: Any, model: Path) -> None:
    answer = say("why", model, "the dog sat on the mat", "--top", 1)
    lines = answer.out.splitlines()
    head = next(place for place, line in enumerate(lines) if "says for it" in line)
    rows = [line.split() for line in lines[head + 1 :]]
    rows = rows[: rows.index([]) - 1]
    assert len(rows) == 9 and rows[-1][:3] == ["6", "other", "pairs"]
    total = float(lines[head + 10].removeprefix("  ").split()[-1])
    assert sum(float(row[-1]) for row in rows) == pytest.approx(total, rel=2e-3, abs=1e-4)
    most = max(rows[:-1], key=lambda row: float(row[-1]))
    assert f"  {most[0]}#{most[1]}" in lines[next(i for i, line in enumerate(lines) if "log P" in line) + 1]


def test_why_as_json_adds_up(say: Any, model: Path) -> None:
    said = json.loads(say("why", model, "the dog", "--word", "saw", "--json").last)
    assert said["kind"] == "backpack" and said["words"] == ["⟨s⟩", "the", "dog"]
    loaded = TextModel(model)
    for candidate in said["candidates"]:
        shares = candidate["shares"]
        assert len(shares) == 3 and all(len(row) == 2 for row in shares)
        assert math.fsum(share for row in shares for share in row) == pytest.approx(candidate["logit"], abs=1e-5)
        if candidate["token"] == "saw":
            (scored,) = loaded.score(["the dog saw"])
            assert candidate["log_probability"] == pytest.approx(scored.token_scores[2], abs=1e-5)
    assert {"saw"} <= {candidate["token"] for candidate in said["candidates"]}
    assert all(check["holds"] for check in said["checks"]) and len(said["checks"]) == 2


@pytest.mark.parametrize("form", ["svg", "png"])
def test_why_draws_shares_and_alpha(form: str, say: Any, model: Path, tmp_path: Path) -> None:
    shares, alpha = tmp_path / f"shares.{form}", tmp_path / f"alpha.{form}"
    assert say("why", model, "the dog", "--top", 2, "--picture", shares, "--alpha", alpha).code == 0
    for file in (shares, alpha):
        assert file.read_bytes().startswith(b"\x89PNG" if form == "png" else b"<svg")
    assert say("why", model, "the dog", "--alpha", alpha).code == 2
    same = say("why", model, "the dog", "--picture", tmp_path / f"a.{form}", "--alpha", tmp_path / f"a.{form}")
    assert (same.code, "is given for both pictures" in same.err) == (2, True)


def test_why_under_patches(say: Any, model: Path, tmp_path: Path) -> None:
    """Weights that a topic raised are no shares of 1; what a removed sense weighs is told; large logits round."""
    topic, removed, loud = (tmp_path / f"{name}.json" for name in ("topic", "removed", "loud"))
    assert say("patch", model, topic, "--topic", "cats=cat,mat", "--factors", "3,3,3,3").code == 0
    assert say("patch", model, removed, "--remove", "dog#1").code == 0
    assert say("patch", model, loud, "--scale", "*=10000", "--add", "*=cat*100000").code == 0
    shares, alpha = tmp_path / "shares.svg", tmp_path / "alpha.svg"
    answer = say("why", model, "the dog", "--patch", topic, "--picture", shares, "--alpha", alpha)
    assert answer.code == 0 and "FAILS" not in answer.out
    assert "topic" in shares.read_text() and "sums to 1" not in alpha.read_text()
    assert answer.out.startswith("What comes after ⟨s⟩ the dog (with topic.json)\n")
    assert "after ⟨s⟩ the dog (with topic.json)" in shares.read_text() and "(with topic.json)" in alpha.read_text()
    both = say("why", model, "the dog", "--patch", topic, "--patch", removed)
    assert "(with topic.json and removed.json)" in both.out
    assert "(with" not in say("why", model, "the dog").out
    said = json.loads(say("why", model, "the dog", "--patch", topic, "--json").last)
    assert [sum(column) for column in zip(*said["weights"])] == pytest.approx([3.0, 3.0], abs=1e-5)
    answer = say("why", model, "dog", "--top", 1, "--patch", removed)
    (row,) = [line.split() for line in answer.out.splitlines() if line.split()[:2] == ["dog", "1"]]
    weights = json.loads(say("why", model, "dog", "--patch", removed, "--json").last)["weights"]
    assert row[3:] == ["0", "0"] and float(row[2]) == pytest.approx(weights[1][1], rel=1e-3) and weights[1][1] > 0.01
    answer = say("why", model, "the dog sat on", "--top", 8, "--patch", loud)
    assert answer.code == 0 and "FAILS" not in answer.out


def test_why_of_others_draws_no_senses(say: Any, tmp_path: Path) -> None:
    answer = say("why", ngram_folder(tmp_path / "ngram"), "the dog", "--picture", tmp_path / "no.svg")
    assert answer.code == 2 and "this model has no senses to draw" in answer.err
    assert not (tmp_path / "no.svg").exists()


def test_a_backpack_inside_a_mixture_explains_itself(say: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mixture"
    ngram_folder(folder / "counted")
    neural_folder(folder / "backpack", "backpack")
    config = MixtureConfig(parts=["counted", "backpack"], weights=[0.6, 0.4])
    write_config(folder, RunConfig.read({"run": {"recipe": "mixture"}, "model": vars(config)}).document())
    (folder / "tokenizer.json").write_bytes((folder / "counted" / "tokenizer.json").read_bytes())
    answer = say("why", folder, "the dog", "--top", 2)
    assert answer.code == 0 and "FAILS" not in answer.out
    assert "in backpack, " in answer.out and "says for it" in answer.out and "in counted, " in answer.out
    assert "backpack, weight 0.4: a Backpack of 2 senses a word" in " ".join(answer.out.split())
    said = json.loads(say("why", folder, "the dog", "--top", 2, "--json").last)
    for candidate in said["candidates"]:
        because = candidate["parts"][1]["because"]
        assert math.fsum(x for row in because["shares"] for x in row) == pytest.approx(because["logit"], abs=1e-5)
    assert all(check["holds"] for check in said["checks"]) and len(said["checks"]) == 4


# similarity ---------------------------------------------------------------------------------------------------------

FIRST = "cat dog 9\ncat mat 3\nlog mat 5\ndog log 2\nsat saw 6\ncat elephant 1\n"
SECOND = "# people\ncat\tlog\t1.0\ndog\tmat\t2.0\nsat\ton\t3.0\nCat\tDog\t8.5\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, content in (("first.txt", FIRST), ("second.tsv", SECOND)):
        (tmp_path / name).write_text(content)
    return [tmp_path / "first.txt", tmp_path / "second.tsv"]


def test_a_sense_is_chosen_on_one_file_and_reported_on_another(say: Any, model: Path, files: list[Path]) -> None:
    asked = ["--similarity", files[0], "--similarity", files[1]]
    answer = say("evaluate", model, *asked)
    assert answer.code == 0 and max(map(cells, answer.out.splitlines())) <= 80
    said = json.loads(say("evaluate", model, *asked, "--json").last)
    first, second = (said["similarity"][str(file)] for file in files)
    assert (first["pairs"], first["unknown"], second["pairs"], second["unknown"]) == (5, 1, 4, 0)
    assert said["chosen_sense"] == max(range(2), key=lambda sense: first["senses"][sense])
    value = second["senses"][said["chosen_sense"]]
    assert f"sense {said['chosen_sense']}, chosen on first: Spearman {value:.4f} on second" in answer.out
    assert "least over senses" in answer.out and "(chosen)" in answer.out
    assert "note: the vocabulary does not have 'elephant': their pairs are left out" in answer.err
    assert (first["lacking"], second["lacking"]) == (["elephant"], [])


def test_of_many_words_without_vectors_a_few_are_named(say: Any, tmp_path: Path) -> None:
    folder = neural_folder(tmp_path / "words", "backpack", tokenizer={"kind": "word"})  # spells in bytes
    (tmp_path / "odd.txt").write_text("cat dog 3\n" + "".join(f"cat odd{letter} 1\n" for letter in "abcdefg"))
    answer = say("evaluate", folder, "--similarity", tmp_path / "odd.txt")
    assert answer.code == 0
    told = "the vocabulary does not have 'odda', 'oddb', 'oddc', 'oddd', 'odde' and 2 more: their pairs are left out"
    assert told in " ".join(answer.err.split())


def test_one_file_cannot_choose_and_report(say: Any, model: Path, files: list[Path]) -> None:
    answer = say("evaluate", model, "--similarity", files[0])
    assert answer.code == 0 and "give a second file to measure it on" in answer.err


def test_the_embedding_matrix_of_any_other_model(say: Any, tmp_path: Path, files: list[Path]) -> None:
    folder = neural_folder(tmp_path / "gpt", "transformer-decoder")
    answer = say("evaluate", folder, "--similarity", files[0])
    assert answer.code == 0 and "the embedding matrix" in answer.out
    said = json.loads(say("evaluate", folder, "--similarity", files[0], "--json").last)
    (found,) = said["similarity"].values()
    assert (
        said["what"] == "embedding matrix"
        and "patches" not in said
        and len(found["senses"]) == 1
        and said["chosen_sense"] is None
    )
    both = say("evaluate", folder, "--similarity", files[0], "--text", files[0])
    assert both.code == 2 and "--text and --similarity are both given" in both.err
    counted = say("evaluate", ngram_folder(tmp_path / "ngram"), "--similarity", files[0])
    assert counted.code == 2 and "does not have vectors of text" in counted.err


def test_a_backpack_of_one_sense_has_a_sense_and_is_patched(say: Any, tmp_path: Path, files: list[Path]) -> None:
    folder, patch = neural_folder(tmp_path / "one", "backpack", senses=1), tmp_path / "fix.json"
    assert say("patch", folder, patch, "--replace", "cat=dog").code == 0
    answer = say("evaluate", folder, "--similarity", files[0], "--patch", patch)
    assert answer.code == 0 and "sense 0  " in answer.out and "embedding" not in answer.out
    said = json.loads(say("evaluate", folder, "--similarity", files[0], "--patch", patch, "--json").last)
    assert said["what"] == "senses" and said["patches"] == [str(patch)]
