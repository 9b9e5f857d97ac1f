"""`generate`, `fill`, `encode`, `classify`, `evaluate`, `score` and `info` with neural models: what is shown, what is
JSON, what is refused."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import anaphora
from anaphora.pipelines.text_model import TextModel
from neural_folders import neural_folder
from ngram_folders import VERSE, ngram_folder

CPU = ("--device", "cpu")
"""Where numbers are compared with those of a model in memory: a GPU multiplies with fewer digits."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    root = tmp_path_factory.mktemp("neural-verbs")
    return {
        "decoder": neural_folder(root / "decoder", "transformer-decoder"),
        "stream": neural_folder(root / "stream", "transformer-decoder", boundaries="stream", training={"context": 8}),
        "lstm": neural_folder(root / "lstm", "lstm"),
        "masked": neural_folder(root / "masked", "transformer-encoder"),
        "classifier": neural_folder(root / "classifier", "lstm", labels=["glad", "sad"]),
        "ngram": ngram_folder(root / "ngram", order=4),
        "bytes": ngram_folder(root / "bytes", tokenizer={"kind": "byte"}),
    }


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "verse.txt").write_text("".join(line + "\n" for line in VERSE))
    return tmp_path / "verse.txt"


def loaded(folder: Path) -> TextModel:
    found = anaphora.load(folder, "cpu")
    assert isinstance(found, TextModel)
    return found


# generate -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["decoder", "lstm", "ngram", "bytes"])
def test_streamed_is_what_is_printed_without(name: str, folders: dict[str, Path], say: Any) -> None:
    words = ("generate", folders[name], "the cat", "a dog", "--seed", "5", "--tokens", "15", "--stop", "at")
    plain, streamed = say(*words), say(*words, "--stream")
    assert plain.code == streamed.code == 0, streamed.err
    assert streamed.out == plain.out
    assert len(streamed.out.splitlines()) == 2
    found = json.loads(say(*words, "--json").last)
    heard = json.loads(say(*words, "--stream", "--json").last)
    for one, other in zip(found["generations"], heard["generations"]):
        assert one["texts"][0]["text"] == other["texts"][0]["text"]
        assert one["texts"][0]["stop"] in (None, "at")


def test_stop_strings_in_json(folders: dict[str, Path], say: Any) -> None:
    words = ("generate", folders["lstm"], "the cat", "--greedy", "--tokens", "30", "--set", "min_length=20", "--json")
    (whole,) = json.loads(say(*words).last)["generations"][0]["texts"]
    last = whole["continuation"].split()[3]
    (cut,) = json.loads(say(*words, "--stop", last).last)["generations"][0]["texts"]
    assert cut["stop"] == last
    assert cut["finished"]
    assert whole["text"].startswith(cut["text"])
    assert last not in cut["continuation"]


@pytest.mark.parametrize("draft", ["ngram", "prompt"])
def test_a_draft_and_how_it_did(draft: str, folders: dict[str, Path], say: Any) -> None:
    guess = folders.get(draft, draft)
    words = ("generate", folders["decoder"], "the cat sat on the mat the cat", "--greedy", "--tokens", "15")
    plain, drafted = say(*words), say(*words, "--draft", guess, "--draft-tokens", "2")
    assert drafted.code == 0, drafted.err
    assert drafted.out == plain.out
    assert "draft: " in drafted.err
    assert "tokens per pass" in drafted.err
    found = json.loads(say(*words, "--draft", guess, "--json").last)
    told = found["speculation"]
    assert found["draft"] == str(guess)
    assert told["passes"] >= 1
    assert told["tokens"] == len(found["generations"][0]["texts"][0]["tokens"])
    assert say(*words, "--draft", guess, "--stream").out == plain.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stream", "--samples", "2"), "one text per prompt"),
        (("--stream", "--beam", "2"), "one text per prompt"),
        (("--draft", "prompt", "--beam", "2"), "cannot be combined with --beam"),
        (("--draft-tokens", "2"), "there is none"),
        (("--draft", "prompt", "--draft-tokens", "0"), "proposed at once"),
        (("--min-p", "1.5"), "min_p"),
        (("--repetition-penalty", "-1"), "repetition_penalty"),
        (("--stop", ""), "empty"),
        (("--greedy", "--min-p", "0.1"), "nothing is sampled"),
        (("--set", "coverage_penalty=1"), "has no meaning"),
    ],
)
def test_generate_refuses(words: tuple[str, ...], said: str, folders: dict[str, Path], say: Any) -> None:
    answer = say("generate", folders["decoder"], "the", *words)
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert answer.out == ""


def test_generate_refuses_models_that_cannot(folders: dict[str, Path], say: Any) -> None:
    answer = say("generate", folders["masked"], "the")
    assert (answer.code, "anaphora fill" in answer.err) == (2, True)
    answer = say("generate", folders["decoder"], "the", "--draft", folders["bytes"])
    assert (answer.code, "another vocabulary" in answer.err) == (2, True)
    answer = say("generate", folders["decoder"], "the " * 40)
    assert (answer.code, "the model can read 30" in answer.err) == (2, True)
    answer = say("generate", folders["decoder"], "the " * 20, "--tokens", "90", "--set", "min_length=80")
    assert answer.code == 0
    assert "reached the model's maximum length" in answer.err


# evaluate and score -------------------------------------------------------------------------------------------------


def test_the_stride_is_said(folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("evaluate", folders["stream"], "--text", text)
    assert answer.code == 0, answer.err
    assert "window of 8 tokens, moved by 4, over 1 longer row" in answer.out
    found = json.loads(say("evaluate", folders["stream"], "--text", text, "--stride", "2", "--json").last)
    assert (found["context"], found["stride"]) == (8, 2)
    scored = json.loads(say("score", folders["stream"], "--text", text, "--stride", "2", "--json").last)
    assert scored["log_probability"] == pytest.approx(found["log_probability"], abs=1e-3)
    assert "window" not in say("evaluate", folders["lstm"], "--text", text).out
    for name, stride, said in [("lstm", "4", "reads on without end"), ("stream", "9", "does not fit a context of 8")]:
        answer = say("evaluate", folders[name], "--text", text, "--stride", stride)
        assert answer.code == 2
        assert said in answer.err


def test_a_masked_model_is_evaluated_with_a_note(folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("evaluate", folders["masked"], "--text", text)
    assert answer.code == 0
    assert "pseudo-likelihood" in answer.err
    answer = say("evaluate", folders["classifier"], "--text", text)
    assert answer.code == 2
    assert "does not give a text a probability" in answer.err


# fill ---------------------------------------------------------------------------------------------------------------


def test_fill(folders: dict[str, Path], tmp_path: Path, say: Any) -> None:
    answer = say("fill", folders["masked"], "the ___ sat", "--top", "3", *CPU)
    assert answer.code == 0, answer.err
    rows = [line.split("\t") for line in answer.out.splitlines()]
    expected = loaded(folders["masked"]).fill("the ___ sat", top=3)
    assert [row[1] for row in rows] == [one.text for one in expected.blanks[0]]
    assert [float(row[0]) for row in rows] == pytest.approx([one.probability for one in expected.blanks[0]], abs=1e-4)
    for blank in ("[MASK]", "<mask>", "_____", "[mask]", "[Mask]", "<MASK>"):
        assert say("fill", folders["masked"], f"the {blank} sat", "--top", "3", *CPU).out == answer.out
    both = say("fill", folders["masked"], "the [MASK] ___ <mask>", "--best", *CPU)
    assert both.out == say("fill", folders["masked"], "the ___ ___ ___", "--best", *CPU).out
    (tmp_path / "lines").write_text("the ___ sat\nno blank\n___ and ___\n")
    rows = [
        line.split("\t")
        for line in say("fill", folders["masked"], "--file", tmp_path / "lines", "--top", "2", *CPU).out.splitlines()
    ]
    assert [row[:2] for row in rows] == [["1", "1"]] * 2 + [["3", "1"]] * 2 + [["3", "2"]] * 2
    best = say("fill", folders["masked"], "--file", tmp_path / "lines", "--best", *CPU)
    assert best.out.splitlines()[0] == expected.best
    assert best.out.splitlines()[1] == "no blank"
    assert "1 line has no blank" in best.err
    found = json.loads(say("fill", folders["masked"], "the ___ sat", "--json", *CPU).last)
    assert found["lines"][0]["best"] == expected.best
    assert len(found["lines"][0]["blanks"][0]) == 5


def test_a_mask_that_is_a_word_of_the_vocabulary_is_one(tmp_path: Path, say: Any) -> None:
    folder = neural_folder(tmp_path / "masked", "transformer-encoder", [*VERSE, "a [MASK] is a word"])
    answer = say("fill", folder, "the ___ saw a [MASK] and a <mask>", "--best")
    assert (answer.code, answer.out.count("[MASK]"), answer.out.count("<mask>")) == (0, 1, 0)
    assert "note: [MASK] is a word of this model's vocabulary; mark blanks by ___" in answer.err


def test_a_small_mask_may_be_a_word_too(tmp_path: Path, say: Any) -> None:
    folder = neural_folder(tmp_path / "masked", "transformer-encoder", [*VERSE, "a [mask] is a word"])
    answer = say("fill", folder, "the [MASK] saw a [mask] and a [Mask]", "--best")
    assert (answer.code, answer.out.count("[mask]"), answer.out.lower().count("[mask]")) == (0, 1, 1)
    assert "note: [mask] is a word of this model's vocabulary" in answer.err


def test_fill_refuses(folders: dict[str, Path], tmp_path: Path, say: Any) -> None:
    (tmp_path / "long").write_text("a ___\n" + "the " * 40 + "___\n")
    for words, said in [
        ((folders["decoder"], "the ___"), "does not fill in blanks"),
        ((folders["ngram"], "the ___"), "does not fill in blanks"),
        ((folders["masked"],), "no text is given"),
        ((folders["masked"], "a ___", "--file", "x"), "given twice"),
        ((folders["masked"], "a ___", "--top", "0"), "candidates are asked for"),
        ((folders["masked"], "--file", tmp_path / "long"), "long, line 2"),
        ((folders["masked"], "the " * 40 + "___"), "the text has"),
        ((folders["masked"], "a ___", "the " * 40 + "___"), "text 2 has"),
    ]:
        answer = say("fill", *words)
        assert answer.code == 2, words
        assert said in answer.err.replace(":2:", ", line 2"), answer.err
        assert len(answer.err.strip().splitlines()) == 1
    (tmp_path / "empty").write_text("")
    answer = say("fill", folders["masked"], "--file", tmp_path / "empty")
    assert (answer.code, answer.out) == (0, "")
    assert "there is nothing to fill in" in answer.err


# encode -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["masked", "lstm", "classifier"])
def test_encode(name: str, folders: dict[str, Path], text: Path, tmp_path: Path, say: Any) -> None:
    model = loaded(folders[name])
    answer = say("encode", folders[name], text, *CPU, "--output", tmp_path / "a.npy")
    assert answer.code == 0, answer.err
    expected = model.encode(VERSE)
    assert np.load(tmp_path / "a.npy") == pytest.approx(expected)
    assert say("encode", folders[name], text, *CPU, "--output", tmp_path / "a.safetensors", "--pool", "max").code == 0
    assert load_file(tmp_path / "a.safetensors")["vectors"] == pytest.approx(model.encode(VERSE, pool="max"))
    assert say("encode", folders[name], text, *CPU, "--output", tmp_path / "a.jsonl", "--layer", "0").code == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == VERSE
    assert np.array([row["vector"] for row in rows]) == pytest.approx(model.encode(VERSE, layer=0), abs=1e-5)
    assert say("encode", folders[name], text, *CPU, "--words", "--output", tmp_path / "w.safetensors").code == 0
    words = load_file(tmp_path / "w.safetensors")
    lines = list(model.word_vectors(VERSE))
    assert words["starts"].tolist() == np.cumsum([0, *(len(line.words) for line in lines)]).tolist()
    assert words["vectors"] == pytest.approx(np.concatenate([line.vectors for line in lines]))
    shown = say("encode", folders[name], text, *CPU, "--words")
    first = json.loads(shown.out.splitlines()[0])
    assert [one["word"] for one in first["words"]] == VERSE[0].split()
    assert "8 numbers" in shown.err
    found = json.loads(say("encode", folders[name], text, *CPU, "--output", tmp_path / "b.npy", "--json").last)
    assert (found["vectors"], found["dim"], found["pool"]) == (len(VERSE), 8, "mean") and "encodings" not in found
    inside = json.loads(say("encode", folders[name], text, *CPU, "--json").out)["encodings"]
    assert [row["text"] for row in inside] == VERSE
    assert np.array([row["vector"] for row in inside]) == pytest.approx(expected, abs=1e-5)
    inside = json.loads(say("encode", folders[name], text, *CPU, "--words", "--json").out)["encodings"]
    assert inside[0] == first


def test_encode_refuses(folders: dict[str, Path], text: Path, tmp_path: Path, say: Any) -> None:
    (tmp_path / "there.npy").write_text("mine")
    for words, said in [
        (("lstm", text, "--output", tmp_path / "a.csv"), "cannot be written as .csv"),
        (("lstm", text, "--words", "--output", tmp_path / "a.npy"), "which line each word belongs to"),
        (("lstm", text, "--words", "--pool", "max"), "--words gives word vectors"),
        (("lstm", text, "--split", "whitespace"), "no meaning here"),
        (("lstm", text, "--pool", "sum"), "--pool cannot be 'sum'"),
        (("lstm", text, "--pool", "first"), "its first vector knows nothing"),
        (("lstm", text, "--layer", "9"), "there is no layer 9"),
        (("ngram", text), "have vectors of text"),
        (("lstm", text, "--output", tmp_path / "there.npy"), "already exists"),
        (("lstm", tmp_path / "none.txt"), "none.txt"),
    ]:
        answer = say("encode", folders[str(words[0])], *words[1:])
        assert answer.code == 2, words
        assert said in answer.err
        assert len(answer.err.strip().splitlines()) == 1
    assert (tmp_path / "there.npy").read_text() == "mine"


# classify -----------------------------------------------------------------------------------------------------------


def test_classify(folders: dict[str, Path], text: Path, tmp_path: Path, say: Any, monkeypatch: Any) -> None:
    answer = say("classify", folders["classifier"], text)
    assert answer.code == 0, answer.err
    expected = list(loaded(folders["classifier"]).classify(VERSE))
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == [one.label for one in expected]
    everything = [line.split("\t") for line in say("classify", folders["classifier"], text, "--all").out.splitlines()]
    assert {len(row) for row in everything} == {4}
    gold = [one.label for one in expected]
    gold[0] = "sad" if gold[0] == "glad" else "glad"
    (tmp_path / "gold").write_text("".join(label + "\n" for label in gold))
    told = say("classify", folders["classifier"], text, "--labels", tmp_path / "gold")
    assert "accuracy 85.71% (6 of 7), macro F1 " in told.err
    assert "majority baseline" in told.err
    assert "lines by correct label (rows)" in told.err
    found = json.loads(say("classify", folders["classifier"], text, "--labels", tmp_path / "gold", "--json").last)
    assert found["accuracy"] == pytest.approx(6 / 7)
    assert found["labels"] == ["glad", "sad"]
    report = loaded(folders["classifier"]).evaluate_labels(VERSE, gold)
    assert found["classes"] == report.document()["classes"]
    with (tmp_path / "gold").open(encoding="utf-8") as file:  # as Python reads them, with their ends
        assert loaded(folders["classifier"]).evaluate_labels(VERSE, file.readlines()) == report
    assert found["confusion"] == report.confusion
    alone = say("evaluate", folders["classifier"], "--text", text, "--labels", tmp_path / "gold")
    assert (alone.code, alone.out) == (0, f"{report}\n")
    document = json.loads(
        say("evaluate", folders["classifier"], "--text", text, "--labels", tmp_path / "gold", "--json").last
    )
    assert document == {"model": str(folders["classifier"]), **report.document()}
    assert found["lines"][1]["label"] == gold[1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\n")))
    assert len(say("classify", folders["classifier"]).out.splitlines()) == 1


def test_classify_tells_what_it_cut(tmp_path: Path, say: Any) -> None:
    folder = neural_folder(tmp_path / "model", "transformer-encoder", labels=["glad", "sad"])
    (tmp_path / "long").write_text("the cat\n" + "the cat " * 40 + "\n")
    told = say("classify", folder, tmp_path / "long", "--json")
    assert "of 1 line longer than 32 tokens only the beginning was read" in told.err
    assert [line["cut"] for line in json.loads(told.last)["lines"]] == [False, True]


def test_classify_refuses(folders: dict[str, Path], text: Path, tmp_path: Path, say: Any) -> None:
    (tmp_path / "short").write_text("glad\n")
    answer = say("classify", folders["classifier"], text, "--labels", tmp_path / "short")
    assert answer.code == 2
    assert "1 label for 7 lines" in answer.err
    assert answer.out == ""
    answer = say("classify", folders["lstm"], text)
    assert answer.code == 2
    assert "--labels" in answer.err
    (tmp_path / "right").write_text("glad\n" * 7)
    for words, said in [
        (("classifier", "--labels", tmp_path / "short"), "1 label for 7 lines"),
        (("lstm", "--labels", tmp_path / "right"), "does not put texts into classes"),
        (("classifier", "--labels", tmp_path / "right", "--stride", 3), "--stride and --labels are both given"),
        (("classifier", "--labels", tmp_path / "right", "--ter"), "--ter is for translators"),
        (("lstm", "--bootstrap", 5), "--bootstrap needs --beside"),
        (("lstm", "--beside", folders["decoder"], "--bootstrap", 0), "the number of bootstrap samples is 0"),
    ]:
        answer = say("evaluate", folders[words[0]], "--text", text, *words[1:])
        assert (answer.code, said in answer.err) == (2, True), answer.err


def test_evaluate_beside_another_model(folders: dict[str, Path], text: Path, say: Any) -> None:
    words = ["evaluate", folders["decoder"], "--beside", folders["ngram"], "--text", text, "--bootstrap", 50, *CPU]
    answer = say(*words)
    assert answer.code == 0, answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "paired bootstrap over 7 lines, 50 draws, seed 12345" in answer.out
    found = json.loads(say(*words, "--json").last)
    (score,) = found["significance"]["scores"]
    assert score["second"]["score"] == pytest.approx(found["beside"]["bits_per_byte"])
    assert score["first"]["score"] == pytest.approx(found["bits_per_byte"], abs=1e-4)
    assert f"{score['p']:.4f}" in answer.out
    assert found["beside"]["model"] == str(folders["ngram"])


# info ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["decoder", "lstm", "masked", "classifier"])
def test_info(name: str, folders: dict[str, Path], say: Any) -> None:
    answer = say("info", folders[name])
    assert answer.code == 0, answer.err
    assert "8 wide" in answer.out
    assert ("glad, sad" in answer.out) == (", a classifier, " in answer.out) == (name == "classifier")
    assert ("32 tokens" in answer.out) == (name in ("decoder", "masked"))
    found = json.loads(say("info", folders[name], "--json").last)
    assert found["dim"] == 8
    assert found["parameters"] > 0


def test_info_of_a_masked_model_that_was_trained(folders: dict[str, Path], tmp_path: Path, say: Any) -> None:
    """It has perplexity of hidden tokens, and no bits per byte."""
    folder = tmp_path / "masked"
    shutil.copytree(folders["masked"], folder)
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["validation"] = {"loss": 2.0, "perplexity": 7.389, "tokens": 1294, "masked": 0.15}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    answer = say("info", folder)
    assert "perplexity 7.389 over 1,294 hidden tokens" in answer.out
    assert "damaged" not in answer.out


@pytest.mark.parametrize("name", ["lstm", "decoder", "stream"])
def test_why_shows_the_next_words_of_what_was_learned(name: str, folders: dict[str, Path], say: Any) -> None:
    answer = say("why", folders[name], "the cat", "--top", 3, "--word", "log")
    assert answer.code == 0, answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "cannot be taken apart" in " ".join(answer.out.split())
    found = json.loads(say("why", folders[name], "the cat", "--top", 3, "--word", "log", "--json").last)
    assert (found["kind"], found["checks"][0]["holds"]) == ("learned", True)
    every = json.loads(say("why", folders[name], "the cat", "--top", 99, "--json").last)["candidates"]
    assert 0.8 < sum(one["probability"] for one in every) <= 1.0001  # but for marks that nobody predicts
    assert [one["rank"] for one in every] == [*range(1, len(every) + 1)]
    log = next(one for one in every if one["token"] == "log")
    assert found["candidates"] == [*every[:3], *[log] * (log not in every[:3])]
    for one in found["candidates"]:
        ids = [int(id) for id in loaded(folders[name]).tokenizer.encode("the cat")]
        with_it, without = loaded(folders[name]).score_ids([[*ids, one["id"]], ids])
        assert one["log_probability"] == pytest.approx(with_it - without, abs=1e-3)
        row = next(line for line in answer.out.splitlines() if line.split()[:1] == [one["token"]])
        assert row.split()[3] == str(one["rank"])


def test_why_shows_what_a_masked_model_expects_in_a_blank(folders: dict[str, Path], say: Any) -> None:
    answer = say("why", folders["masked"], "the [MASK] sat", "--top", 3)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("What fills the blank in ⟨s⟩ the ___ sat ⟨/s⟩")
    found = json.loads(say("why", folders["masked"], "the ___ sat", "--top", 30, "--word", "cat", "--json").last)
    expected = loaded(folders["masked"]).fill("the ___ sat", top=3, unknown=True).blanks[0]
    words = [one for one in found["candidates"] if not one["token"].startswith("⟨") or one["token"] == "⟨unk⟩"]
    assert [one["probability"] for one in words[:3]] == pytest.approx([one.probability for one in expected], rel=1e-4)
    assert found["checks"][0]["holds"]
    for text, said in [
        ("the cat", "the text has none"),
        ("___ and ___", "the text has 2"),
        ("a " * 40 + "___", "43 tokens"),
    ]:
        answer = say("why", folders["masked"], text)
        assert (answer.code, said in answer.err) == (2, True), answer.err


def test_why_refuses_what_has_no_next_word_or_no_senses(folders: dict[str, Path], tmp_path: Path, say: Any) -> None:
    answer = say("why", folders["classifier"], "the")
    assert (answer.code, "no next word" in answer.err) == (2, True)
    answer = say("why", folders["lstm"], "the", "--picture", tmp_path / "a.svg")
    assert (answer.code, "no senses to draw" in answer.err) == (2, True)
    assert not (tmp_path / "a.svg").exists()


def test_a_masked_model_is_no_draft(folders: dict[str, Path], say: Any) -> None:
    answer = say("generate", folders["decoder"], "the", "--draft", folders["masked"])
    assert answer.code == 2
    assert "does not go on with a text" in answer.err


def test_models_to_mix_are_told_how_to_get_one_vocabulary(folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("mix", text.parent / "mixed", folders["bytes"], folders["ngram"], "--text", text)
    assert answer.code == 2
    assert "has another vocabulary" in answer.err
    assert "tokenizer.kind=byte" in answer.err
