"""`score`, `evaluate`, `generate` and `info` with language models: what is shown, what is JSON, what is refused."""

from __future__ import annotations

import gzip
import io
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import anaphora
from ngram_folders import VERSE, mixture_folder, ngram_folder

ASKED = ["the cat sat on the log", "", "a zebra saw the mat"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    root = tmp_path_factory.mktemp("verbs")
    made = {
        "words": ngram_folder(root / "words"),
        "bytes": ngram_folder(root / "bytes", tokenizer={"kind": "byte"}, order=4, prune=[0, 0, 1]),
        "backoff": ngram_folder(root / "backoff", smoothing="stupid-backoff", boundaries="stream", blank_lines="drop"),
        "likelihood": ngram_folder(root / "likelihood", smoothing="maximum-likelihood"),
        "mixture": mixture_folder(root / "mixture", [VERSE[:3], VERSE[3:]], [0.3, 0.7]),
        "arpa": root / "words.arpa.gz",
    }
    anaphora.load(made["words"]).save_arpa(made["arpa"])
    return made


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "asked.txt").write_text("".join(line + "\n" for line in ASKED))
    return tmp_path / "asked.txt"


def typed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


# score --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["words", "bytes", "backoff", "mixture", "arpa"])
def test_score_prints_a_line_for_each(name: str, folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("score", folders[name], "--text", text)
    assert answer.code == 0, answer.err
    rows = [line.split("\t") for line in answer.out.splitlines()]
    model = anaphora.load(folders[name])
    scored = list(model.score(ASKED))
    assert [float(row[0]) for row in rows] == pytest.approx([line.log_probability for line in scored], abs=1e-4)
    assert [int(row[1]) for row in rows] == [len(line.tokens) for line in scored]
    found = model.evaluate(ASKED)
    assert f"perplexity {found.perplexity:.3f}, {found.bits_per_byte:.4f} bits per byte" in answer.err
    assert f"{found.tokens} tokens with end marks, {found.unknown_tokens} unknown, {found.bytes} bytes" in answer.err
    assert ("bits per byte is too low" in answer.err) == bool(found.unknown_tokens)


def test_score_shows_each_token_and_the_order_that_answered(folders: dict[str, Path], text: Path, say: Any) -> None:
    rows = [line.split("\t") for line in say("score", folders["words"], "--text", text, "--tokens").out.splitlines()]
    assert [row[1] for row in rows[:8]] == ["the", "cat", "sat", "on", "the", "log", "⟨/s⟩", "⟨/s⟩"]
    assert [row[0] for row in rows] == ["1"] * 7 + ["2"] + ["3"] * 6
    (line, *_) = anaphora.load(folders["words"]).score(ASKED)
    assert [int(row[3]) for row in rows[:7]] == line.orders
    assert [float(row[2]) for row in rows[:7]] == pytest.approx(line.token_scores, abs=1e-4)
    mixed = say("score", folders["mixture"], "--text", text, "--tokens").out.splitlines()
    assert {len(row.split("\t")) for row in mixed} == {3}  # a mixture has no order that answered


def test_score_as_json(folders: dict[str, Path], text: Path, say: Any) -> None:
    found = json.loads(say("score", folders["words"], "--text", text, "--json").last)
    assert found["lines"] == 3
    assert [line["tokens"] for line in found["scores"]] == [7, 1, 6]
    assert found["log_probability"] == pytest.approx(sum(line["log_probability"] for line in found["scores"]))
    assert "token_scores" not in found["scores"][0]
    full = json.loads(say("score", folders["words"], "--text", text, "--json", "--tokens").last)
    tokens = full["scores"][0]["token_scores"]
    assert sum(token["log_probability"] for token in tokens) == pytest.approx(full["scores"][0]["log_probability"])
    assert {token["order"] for token in tokens} <= {1, 2, 3}


def test_score_names_and_counts_unknown_words(folders: dict[str, Path], text: Path, say: Any) -> None:
    for name in ("words", "mixture", "arpa"):
        rows = [line.split("\t") for line in say("score", folders[name], "--text", text).out.splitlines()]
        assert [row[3] for row in rows] == ["0", "0", "1"]
        shown = say("score", folders[name], "--text", text, "--tokens").out
        assert "\t⟨unk⟩ (zebra)\t" in shown and shown.count("(") == 1
    found = json.loads(say("score", folders["words"], "--text", text, "--json", "--tokens").last)
    assert [line["unknown_words"] for line in found["scores"]] == [[], [], ["zebra"]]
    assert [token.get("word") for token in found["scores"][2]["token_scores"][:3]] == [None, "zebra", None]


def test_logarithms_to_the_base_ten(folders: dict[str, Path], text: Path, say: Any, micro: Path) -> None:
    lines = list(anaphora.load(folders["words"]).score(ASKED))
    logs = [line.log_probability / math.log(10) for line in lines]
    rows = say("score", folders["words"], "--text", text, "--log10").out.splitlines()
    assert [float(row.split("\t")[0]) for row in rows] == pytest.approx(logs, abs=1e-4)
    assert [float(row.split("\t")[2]) for row in rows] == pytest.approx([line.perplexity for line in lines], abs=1e-4)
    tokens = say("score", folders["words"], "--text", text, "--log10", "--tokens").out.splitlines()
    assert sum(float(row.split("\t")[2]) for row in tokens) == pytest.approx(sum(logs), abs=1e-2)
    for verb in ("score", "evaluate"):
        found = json.loads(say(verb, folders["words"], "--text", text, "--log10", "--json").last)
        assert (found["log_probability"], found["logarithm"]) == (pytest.approx(sum(logs)), "10")
        assert json.loads(say(verb, folders["words"], "--text", text, "--json").last)["logarithm"] == "e"
        pairs = ["--source", text, "--target", text]
        assert "--log10 is for --text" in say(verb, micro, *pairs, "--log10").err
    assert (
        f"log P          {sum(logs):.3f}  (to the base 10"
        in say("evaluate", folders["words"], "--text", text, "--log10").out
    )


def test_several_files_and_stdin(
    folders: dict[str, Path], text: Path, say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "the dog\r\nüber\n".encode())
    answer = say("score", folders["bytes"], "--text", text, "--text", "-")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 5
    typed(monkeypatch, b"\xff\xfe\n")
    assert "is not UTF-8" in say("score", folders["words"], "--text", "-").err


def test_an_empty_text(folders: dict[str, Path], tmp_path: Path, say: Any) -> None:
    (tmp_path / "empty").write_text("")
    scored = say("score", folders["words"], "--text", tmp_path / "empty")
    assert (scored.code, scored.out) == (0, "")
    assert "there is nothing to score" in scored.err
    measured = say("evaluate", folders["words"], "--text", tmp_path / "empty")
    assert measured.code == 2
    assert f"{tmp_path / 'empty'}: there is no text to evaluate" in measured.err


@pytest.mark.parametrize("name", ["words", "bytes", "mixture"])
def test_a_token_has_one_name(name: str, folders: dict[str, Path], tmp_path: Path, say: Any) -> None:
    """Whichever verb shows it, for people or as JSON."""
    said = json.loads(say("generate", folders[name], "the", "--greedy", "--tokens", "1", "--json").last)
    first = said["generations"][0]["texts"][0]
    why = json.loads(say("why", folders[name], "the", "--top", "1", "--json").last)
    (tmp_path / "said.txt").write_text(f"{first['text']}\n")
    scored = json.loads(say("score", folders[name], "--text", tmp_path / "said.txt", "--tokens", "--json").last)
    shown = say("score", folders[name], "--text", tmp_path / "said.txt", "--tokens").out.splitlines()
    names = [token["token"] for token in scored["scores"][0]["token_scores"]]
    assert names == [line.split("\t")[1] for line in shown]
    assert names[-2] == first["tokens"][0]["token"] == why["candidates"][0]["token"]
    spelled = [token["bytes"] for token in scored["scores"][0]["token_scores"]]
    assert spelled[-2] == first["tokens"][0]["bytes"] == why["candidates"][0]["bytes"] != spelled[-1] == ""


@pytest.mark.parametrize("name", ["words", "backoff"])
def test_numbers_that_need_not_sum_to_one(name: str, folders: dict[str, Path], text: Path, say: Any) -> None:
    for verb in (["score", "--text", text], ["evaluate", "--text", text], ["info"]):
        answer = say(verb[0], folders[name], *verb[1:])
        assert answer.code == 0
        assert ("need not sum to one" in answer.out + answer.err) is (name == "backoff"), verb


def test_what_an_arpa_file_lacks_is_said_by_every_verb(
    folders: dict[str, Path], text: Path, tmp_path: Path, say: Any
) -> None:
    lines = gzip.decompress(folders["arpa"].read_bytes()).decode().splitlines()
    (unknown,) = [line for line in lines if "<unk>" in line]
    lines.remove(unknown)
    size = int(lines[1].removeprefix("ngram 1="))
    lines[1] = f"ngram 1={size - 1}"
    (tmp_path / "less.arpa").write_text("\n".join(lines))
    assert say("convert", tmp_path / "less.arpa", tmp_path / "less").code == 0
    for model in (tmp_path / "less.arpa", tmp_path / "less"):
        for verb in (["score", "--text", text], ["evaluate", "--text", text], ["generate", "the"], ["why", "the"]):
            answer = say(verb[0], model, *verb[1:])
            assert answer.code == 0
            assert "note: there is no <unk>: it was added" in answer.err


# evaluate -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["words", "bytes", "backoff", "mixture", "arpa"])
def test_evaluate(name: str, folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("evaluate", folders[name], "--text", text)
    assert answer.code == 0, answer.err
    found = json.loads(say("evaluate", folders[name], "--text", text, "--json").last)
    own = anaphora.load(folders[name]).evaluate(ASKED)
    for key in ("perplexity", "bits_per_byte", "log_probability", "tokens", "unknown_tokens", "bytes", "boundaries"):
        value = getattr(own, key)
        if isinstance(value, float):
            value = pytest.approx(value) if math.isfinite(value) else None  # back-off gives the zebra nothing at all
        assert found[key] == value
    assert f"perplexity     {own.perplexity:.3f}" in answer.out
    assert f"bits per byte  {own.bits_per_byte:.4f}" in answer.out
    assert ("blank lines left out (1)" if name == "backoff" else "blank lines kept") in answer.out
    assert ("read as one text" if name == "backoff" else "each line by itself") in answer.out


def test_evaluate_says_what_is_impossible(folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("evaluate", folders["likelihood"], "--text", text, "--json")
    assert "probability 0" in answer.err
    assert json.loads(answer.last)["perplexity"] is None  # JSON has no infinity


@pytest.mark.parametrize(
    "more", [["--beam", 2], ["--set", "beam=2"], ["--output", "x"], ["--tokenize", "intl"], ["--force"]]
)
def test_evaluate_ignores_no_option(more: list[Any], folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("evaluate", folders["words"], "--text", text, *more)
    assert answer.code == 2
    assert f"{more[0]} is for translators" in answer.err


# generate -----------------------------------------------------------------------------------------------------------


def test_generate_prints_a_text_a_line(folders: dict[str, Path], say: Any) -> None:
    answer = say("generate", folders["words"], "the cat", "a dog", "--samples", 3, "--tokens", 8, "--seed", 5)
    assert answer.code == 0, answer.err
    found = anaphora.load(folders["words"]).generate(["the cat", "a dog"], samples=3, tokens=8, seed=5)
    assert answer.out.splitlines() == [one.text for own in found for one in own]
    again = say("generate", folders["words"], "the cat", "a dog", "--samples", 3, "--tokens", 8, "--seed", 5)
    assert again.out == answer.out
    other = say("generate", folders["words"], "the cat", "a dog", "--samples", 3, "--tokens", 8, "--seed", 6)
    assert other.out != answer.out


def test_generate_as_json(folders: dict[str, Path], say: Any) -> None:
    words = ["generate", folders["words"], "the", "--beam", 4, "--samples", 2, "--json"]
    (found,) = json.loads(say(*words).last)["generations"]
    assert found["prompt"] == "the"
    for one in found["texts"]:
        assert one["text"] == "the" + one["continuation"]
        total = sum(token["log_probability"] for token in one["tokens"])
        assert one["log_probability"] == pytest.approx(total)
        assert one["finished"]
    greedy = json.loads(say("generate", folders["words"], "the", "--greedy", "--json").last)["generations"][0]["texts"]
    assert len(greedy) == 1


def test_prompts_of_a_file_and_of_stdin(
    folders: dict[str, Path], tmp_path: Path, say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prompts").write_text("the cat\n\na zebra\n")
    answer = say("generate", folders["words"], "--file", tmp_path / "prompts", "--tokens", 5)
    assert answer.code == 0
    assert len(answer.out.split("\n")) == 4
    assert "1 word of the prompts is not in the vocabulary" in answer.err
    typed(monkeypatch, b"the cat\n\na zebra\n")
    assert say("generate", folders["words"], "--file", "-", "--tokens", 5).out == answer.out
    twice = say("generate", folders["words"], "the", "--file", tmp_path / "prompts")
    assert twice.code == 2
    assert "prompts are given twice" in twice.err


def test_generate_from_nothing_and_what_it_says_of_limits(folders: dict[str, Path], say: Any) -> None:
    answer = say("generate", folders["words"], "--tokens", 1, "--set", "min_length=0", "--samples", 9)
    assert answer.code == 0
    assert "did not end within 1 token" in answer.err
    stuck = say("generate", folders["likelihood"], "mat cat log")
    assert stuck.out == "mat cat log\n"
    assert "stopped early" in stuck.err
    unknown = say("generate", folders["words"], "--unknown", "--temperature", 50, "--samples", 50)
    assert "<unk>" in unknown.out
    assert "<unk>" not in say("generate", folders["words"], "--temperature", 50, "--samples", 50).out


def test_generate_goes_past_line_ends(folders: dict[str, Path], say: Any) -> None:
    """`backoff` learned from a stream: tokens alone are its only limit; `words` learned from separate lines."""
    stream = folders["backoff"]
    assert say("generate", stream, "the cat").out.count("\n") == 1
    answer = say("generate", stream, "the cat", "--tokens", 60, "--seed", 2)
    assert (answer.code, answer.err) == (0, "")  # it was not cut off: so many tokens were asked for
    assert answer.out == anaphora.load(stream).generate("the cat", tokens=60, seed=2).text + "\n"
    assert answer.out.count("\n") > 4
    streamed = say("generate", stream, "the cat", "a dog", "--tokens", 60, "--seed", 2, "--stream")
    assert streamed.out == say("generate", stream, "the cat", "a dog", "--tokens", 60, "--seed", 2).out
    assert streamed.out.split("\n---\n")[0] + "\n" == answer.out
    three = say("generate", stream, "the cat", "--lines", 3, "--samples", 2).out
    assert [text.count("\n") for text in three.split("\n---\n")] == [2, 3]
    (found,) = json.loads(say("generate", stream, "the cat", "--lines", 3, "--json").last)["generations"]
    assert found["texts"][0]["text"] == three.split("\n---\n")[0]
    lone = say("generate", folders["words"], "the cat", "--lines", 3, "--seed", 2)
    assert lone.out.count("\n") == 3
    one = say("generate", folders["words"], "the cat", "--tokens", 60, "--seed", 2)
    assert one.out == lone.out.split("\n")[0] + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lines", 0], "0 lines are asked for; ask for 1 to"),
        (["--beam", 2, "--seed", 3], "seed is for sampling"),
        (["--greedy", "--seed", 3], "seed is for sampling"),
        (["--beam", 3, "--top-k", 3], "top_k is for sampling"),
        (["--greedy", "--beam", 3], "greedy is a beam of 1"),
        (["--beam", 2, "--samples", 3], "3 different texts are asked for"),
        (["--temperature", 0], "temperature must be above 0; --greedy"),
        (["--temperature", 0.7, "--set", "temperature=0.5"], "temperature is given twice"),
        (["--top-p", 1.5], "top_p must be above 0 and at most 1"),
        (["--tokens", 0], "0 new tokens are asked for; ask for 1 to"),
        (["--samples", 0], "0 samples are asked for; ask for 1 to"),
        (["--set", "n_best=3"], "--set n_best has no meaning in generation"),
        (["--set", "samples=3"], "--set samples has no meaning"),
        (["--set", "length_penalty=1"], "length_penalty is for beam search"),
        (["--set", "top_k=many"], "top_k"),
        (["--tokens", 3, "--set", "min_length=3"], "at least 3 tokens are asked for"),
        (["--set", "beem=3"], "beem"),
        (["--file", "nowhere.txt"], "nowhere.txt"),
        (["--device", "cuda"], "leave the device out"),
    ],
)
def test_what_generate_refuses(words: list[Any], message: str, folders: dict[str, Path], say: Any) -> None:
    answer = say("generate", folders["words"], *words)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


# info ---------------------------------------------------------------------------------------------------------------


def test_info(folders: dict[str, Path], say: Any) -> None:
    said = {name: say("info", folders[name]) for name in folders}
    assert all(answer.code == 0 for answer in said.values())
    assert "80: 13 of order 1, 30 of order 2, 37 of order 3" in said["words"].out
    for what in ("kneser-ney", "14 tokens (word between blanks)", "one unknown token", "each line by itself", "1.9 kB"):
        assert what in said["words"].out
    assert "discounts  order 1: 0." in said["words"].out
    assert "7 lines, 51 tokens with end marks, of verse.txt" in said["words"].out
    assert "stupid-backoff, backoff 0.4" in said["backoff"].out
    assert "contexts cross line ends" in said["backoff"].out
    assert "left out if seen no more than 0, 0, 1 times" in said["bytes"].out
    assert "part-2, weight 0.7000" in said["mixture"].out
    assert "given: as the file has it" in said["arpa"].out
    document = json.loads(say("info", folders["words"], "--json").last)
    assert document["ngrams"] == [13, 30, 37]
    assert repr(anaphora.load(folders["words"])).endswith("words': ngram, 14 tokens>")
    assert document["metrics"]["discounts"][0][0] == 0


@pytest.mark.parametrize("metrics", ["{", "[]", '{"trained_on": 3}', '{"discounts": [3]}', '{"cost": {}}'])
def test_info_without_what_is_known_of_counting(
    metrics: str, folders: dict[str, Path], tmp_path: Path, say: Any
) -> None:
    own = Path(shutil.copytree(folders["words"], tmp_path / "own"))
    (own / "metrics.json").write_text(metrics)
    answer = say("info", own)
    assert answer.code == 0
    assert "80: 13 of order 1" in answer.out


def test_what_is_no_model_yet_or_by_another_name(
    folders: dict[str, Path], text: Path, tmp_path: Path, say: Any
) -> None:
    (tmp_path / "run" / "data").mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    assert "holds no model yet; repeat the `anaphora train` command" in say("info", tmp_path / "run").err
    shutil.copy(folders["arpa"], tmp_path / "model.lm")
    assert "a name that ends in .arpa" in say("evaluate", tmp_path / "model.lm", "--text", text).err
    shutil.copy(folders["arpa"], tmp_path / "model.arpa")
    assert "is packed by gzip" in say("evaluate", tmp_path / "model.arpa", "--text", text).err
    assert "has no checkpoints" in say("average", folders["words"]).err
    assert "no word is given" in say("why", folders["words"], "the", "--top", "0").err


def test_the_impossible_has_a_cure(folders: dict[str, Path], text: Path, say: Any) -> None:
    answer = say("evaluate", folders["backoff"], "--text", text)
    assert "probability 0" in answer.err and "tokenizer.minimum_count=2" in answer.err
    assert "smoothing is for that" not in answer.err


# One sort in the other's place --------------------------------------------------------------------------------------


def test_a_language_model_where_a_translator_is_needed(
    folders: dict[str, Path], text: Path, say: Any, corpus: dict[str, Path]
) -> None:
    pairs = ["--source", corpus["source"], "--target", corpus["target"]]
    for name in ("words", "mixture", "arpa"):
        for words in (["translate", "M", text], ["align", "M", *pairs]):
            answer = say(*(folders[name] if word == "M" else word for word in words))
            assert answer.code == 2, words
            assert "is a language model (" in answer.err and "and this needs a translator" in answer.err
        answer = say("walk", folders[name], "the dog")  # a language model, but one that attends
        assert answer.code == 2
        assert "does not attend to words; give a Transformer or a Backpack" in answer.err
    for verb in ("score", "evaluate"):
        answer = say(verb, folders["words"], *pairs)
        assert answer.code == 2
        assert f"{folders['words']}: is a language model (ngram): it takes no --source; give --text FILE" in answer.err
        assert "no text is given; give --text FILE" in say(verb, folders["words"]).err


def test_a_translator_where_a_language_model_is_needed(
    micro: Path, text: Path, say: Any, corpus: dict[str, Path]
) -> None:
    for verb in ("score", "evaluate"):
        answer = say(verb, micro, "--text", text)
        assert answer.code == 2
        assert "is a translator: it takes no --text; give --source FILE and --target FILE" in answer.err
        both = say(verb, micro, "--text", text, "--source", corpus["source"])
        assert "--text and --source are both given" in both.err
    answer = say("generate", micro, "the")
    assert answer.code == 2
    assert "is a translator (transformer), and this needs a language model" in answer.err
    pairs = ["--source", corpus["source"], "--target", corpus["target"]]
    assert "--log10 is for --text" in say("score", micro, *pairs, "--log10").err


@pytest.mark.parametrize("verb", ["score", "evaluate", "generate", "info"])
def test_a_model_that_is_not_there(verb: str, text: Path, tmp_path: Path, say: Any) -> None:
    more = ["--text", text] if verb in ("score", "evaluate") else []
    for name, message in (("none", "there is no such folder"), ("none.arpa", "there is no such file")):
        answer = say(verb, tmp_path / name, *more)
        assert answer.code == 2
        assert message in answer.err
    (tmp_path / "broken.arpa").write_text("\\data\\\nngram 1=3\n")
    answer = say(verb, tmp_path / "broken.arpa", *more)
    assert answer.code == 2
    assert "broken.arpa" in answer.err
    assert "Traceback" not in answer.err


def test_a_text_that_is_not_there(folders: dict[str, Path], tmp_path: Path, say: Any) -> None:
    for verb in ("score", "evaluate"):
        answer = say(verb, folders["words"], "--text", tmp_path / "none.txt", "--json")
        assert answer.code == 2
        assert "none.txt" in json.loads(answer.last)["error"]
    assert "stdin can be read only once" in say("score", folders["words"], "--text", "-", "--text", "-").err


@pytest.mark.parametrize("verb", ["score", "evaluate", "generate", "info"])
def test_help_fits_into_80_columns_and_has_examples(verb: str, say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = say(verb, "--help")
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
    assert f"anaphora {verb} " in answer.out


def test_numbers_agree_to_the_last_digit_shown(folders: dict[str, Path], text: Path, say: Any) -> None:
    """What `score` adds up is what `evaluate` measures."""
    scored = json.loads(say("score", folders["words"], "--text", text, "--json").last)
    measured = json.loads(say("evaluate", folders["words"], "--text", text, "--json").last)
    for key in ("tokens", "unknown_tokens", "bytes", "note"):
        assert scored[key] == measured[key]
    for key in ("log_probability", "perplexity", "bits_per_byte"):
        assert scored[key] == pytest.approx(measured[key], rel=1e-9)
    assert math.isfinite(measured["perplexity"])
