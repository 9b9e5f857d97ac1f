"""`anaphora convert`: folder to ARPA and back, what cannot be held, files that are wrong, nothing overwritten."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaphora.pipelines.text_model import TextModel
from neural_folders import neural_folder
from ngram_folders import VERSE, mixture_folder, ngram_folder

ASKED = [*VERSE, "the dog saw a zebra", "sat"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return ngram_folder(tmp_path / "model")


@pytest.mark.parametrize("ending", [".arpa", ".arpa.gz"])
def test_there_and_back(ending: str, say: Any, model: Path, tmp_path: Path) -> None:
    file, back = tmp_path / f"model{ending}", tmp_path / "back"
    answer = say("convert", model, file)
    assert (answer.code, answer.err) == (0, "")
    assert "3-grams" in answer.out
    text = gzip.decompress(file.read_bytes()) if ending.endswith("gz") else file.read_bytes()
    assert text.startswith(b"\\data\\\nngram 1=")
    answer = say("convert", file, back, "--json")
    assert answer.code == 0
    assert json.loads(answer.last)["order"] == 3
    first, second = TextModel(model), TextModel(back)
    assert second.config is not None
    assert (first.boundaries, first.blank_lines) == (second.boundaries, second.blank_lines)
    np.testing.assert_allclose(second.log_probabilities(ASKED), first.log_probabilities(ASKED), atol=1e-5)
    assert first.evaluate(ASKED).unknown_tokens == second.evaluate(ASKED).unknown_tokens == 1
    direct = TextModel(file)
    assert (direct.log_probabilities(ASKED) == second.log_probabilities(ASKED)).all()


def test_a_folder_from_arpa_works_with_every_verb(say: Any, model: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(ASKED) + "\n")
    assert say("convert", model, tmp_path / "model.arpa").code == 0
    assert say("convert", tmp_path / "model.arpa", tmp_path / "back").code == 0
    for verb, *words in (
        ["score", "--text", tmp_path / "text.txt"],
        ["evaluate", "--text", tmp_path / "text.txt"],
        ["generate", "the cat"],
        ["why", "the cat"],
        ["info"],
    ):
        answer = say(verb, tmp_path / "back", *words, "--json")
        assert answer.code == 0, answer.err
        json.loads(answer.last)
    assert "from the ARPA file `model.arpa`" in (tmp_path / "back" / "card.md").read_text()


def test_words_that_arpa_cannot_hold_are_renamed_and_told(say: Any, tmp_path: Path) -> None:
    model = ngram_folder(tmp_path / "model", ["a <s> b", "<unk> a", "b </s>"])
    answer = say("convert", model, tmp_path / "model.arpa", "--json")
    assert answer.code == 0
    renamed = {token.strip(): name for token, name in json.loads(answer.last)["renamed"].items()}
    assert renamed == {"<s>": "<<s>>", "<unk>": "<<unk>>", "</s>": "<</s>>"}
    assert "note: renamed, because the file format cannot store them" in answer.err
    assert TextModel(tmp_path / "model.arpa").log_probabilities(["a <<s>> b"]) == pytest.approx(
        TextModel(model).log_probabilities(["a <s> b"]), abs=1e-5
    )


def test_characters_become_an_arpa_file_too(say: Any, tmp_path: Path) -> None:
    model = ngram_folder(tmp_path / "model", tokenizer={"kind": "character", "fallback": "unk"})
    answer = say("convert", model, tmp_path / "model.arpa")
    assert answer.code == 0
    assert "n-grams are of character tokens" in answer.err
    assert "▁" in (tmp_path / "model.arpa").read_text()


def test_blanks_that_parted_nothing_here(say: Any, tmp_path: Path) -> None:
    """A tabulator or a form feed is a character like any to a model of characters, and parts words elsewhere."""
    model = ngram_folder(tmp_path / "model", ["a\vb", "a\fb\ta", "\u2028a"], tokenizer={"kind": "character"})
    assert say("convert", model, tmp_path / "model.arpa").code == 0
    assert say("convert", tmp_path / "model.arpa", tmp_path / "back").code == 0
    found = TextModel(tmp_path / "back").log_probabilities(["\u2028 a"])
    assert found == pytest.approx(TextModel(model).log_probabilities(["\u2028a"]), abs=1e-5)


def test_a_stream_is_told(say: Any, tmp_path: Path) -> None:
    model = ngram_folder(tmp_path / "model", boundaries="stream")
    assert "reads on across line ends" in say("convert", model, tmp_path / "model.arpa").err


@pytest.mark.parametrize("smoothing", ["add-k", "stupid-backoff", "maximum-likelihood"])
def test_what_arpa_cannot_hold(smoothing: str, say: Any, tmp_path: Path) -> None:
    model = ngram_folder(tmp_path / "model", smoothing=smoothing)
    answer = say("convert", model, tmp_path / "model.arpa")
    assert answer.code == 2
    assert f"cannot hold a model with smoothing {smoothing}" in answer.err
    assert "train with model.smoothing=kneser-ney" in answer.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_mixture_names_its_parts(say: Any, tmp_path: Path) -> None:
    folder = mixture_folder(tmp_path / "mixed", [VERSE[:3], VERSE[3:]], [0.5, 0.5])
    answer = say("convert", folder, tmp_path / "mixed.arpa")
    assert answer.code == 2
    assert f"convert the parts one by one: {folder}/part-1 {folder}/part-2" in answer.err


class TestNothingIsOverwritten:
    def test_a_file(self, say: Any, model: Path, tmp_path: Path) -> None:
        file = tmp_path / "model.arpa"
        file.write_text("mine")
        answer = say("convert", model, file)
        assert answer.code == 2
        assert f"{file}: already exists; choose another file or add --force" in answer.err
        assert file.read_text() == "mine"
        assert say("convert", model, file, "--force").code == 0
        assert file.read_text().startswith("\\data\\")

    def test_a_model_folder(self, say: Any, model: Path, tmp_path: Path) -> None:
        assert say("convert", model, tmp_path / "model.arpa").code == 0
        before = (model / "config.yaml").read_bytes()
        answer = say("convert", tmp_path / "model.arpa", model)
        assert (answer.code, (model / "config.yaml").read_bytes()) == (2, before)
        assert "already exists; choose another folder or add --force" in answer.err
        assert say("convert", tmp_path / "model.arpa", model, "--force").code == 0
        assert "smoothing: given" in (model / "config.yaml").read_text()

    @pytest.mark.parametrize("inside", ["letters.txt", "data/manifest.json"])
    def test_what_is_no_mere_model_stays_whatever_is_said(
        self, inside: str, say: Any, model: Path, tmp_path: Path
    ) -> None:
        assert say("convert", model, tmp_path / "model.arpa").code == 0
        other = tmp_path / "other"
        (other / inside).parent.mkdir(parents=True)
        (other / inside).write_text('{"settings": {}}')
        answer = say("convert", tmp_path / "model.arpa", other, "--force")
        assert answer.code == 2
        assert "choose another folder" in answer.err
        assert (other / inside).read_text() == '{"settings": {}}'

    def test_a_broken_file_leaves_no_folder(self, say: Any, tmp_path: Path) -> None:
        (tmp_path / "bad.arpa").write_text("\\data\\\nngram 1=1000\n")
        assert say("convert", tmp_path / "bad.arpa", tmp_path / "new").code == 2
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.arpa"]


GOOD = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-99\t<s>\t-0.3
-1\t</s>
-1\t<unk>
-0.5\tthe\t-0.2
-0.7\tcat

\\2-grams:
-0.1\t<s> the
-0.2\tthe cat
-0.3\tthe </s>

\\end\\
"""


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (lambda text: text.replace("\n\\end\\\n", ""), 15, "without its \\end\\, it is cut short"),
        (lambda text: text[: text.index("-0.2\tthe cat")], 13, "the file ends after 1 of 3 2-grams, it is cut short"),
        (lambda text: text[: text.index("-0.7")], 9, "the file ends after 4 of 5 1-grams, it is cut short"),
        (lambda text: text[: text.index("e cat")], 14, "the file ends in the middle of this line, it is cut short"),
        (lambda text: text[: text.index("2\tthe cat") - 2], 14, "the file ends in the middle of this line"),
        (lambda text: text[: text.index("7\tcat")], 10, "the file ends in the middle of this line"),
        (lambda text: text.removesuffix("d\\\n"), 17, "the file ends in the middle of this line"),
        (lambda text: text.replace("2=3", "2=2"), 15, "the header says ngram 2=2, but there are more 2-grams"),
        (lambda text: text.replace("2=3", "2=4"), 16, "the header says ngram 2=4, but there are 3 2-grams"),
        (lambda text: text.replace("1=5", "1=6"), 11, "the header says ngram 1=6, but there are 5 1-grams"),
        (lambda text: text.replace("-99\t<s>\t-0.3\n", "-1\tdog\n").replace("<s> the", "dog the"), 10, "no <s> among"),
        (lambda text: text.replace("-1\t</s>\n", "-1\tdog\n"), 10, "there is no </s> among the 1-grams"),
        (lambda text: text.replace("\\2-grams:", "\\3-grams:"), 12, "here should be \\2-grams:, not '\\\\3-grams:'"),
        (lambda text: text.replace("ngram 1=5\n", ""), 2, "here should be the number of 1-grams, not of 2-grams"),
        (lambda text: text.replace("-0.2\tthe cat", "-0.2\tthe dog"), 14, "the word 'dog' is not among the 1-grams"),
        (lambda text: text.replace("-0.2\tthe cat", "much\tthe cat"), 14, "this is no logarithm: 'much'"),
        (lambda text: "dear diary\n", 1, "this is no ARPA file: there is no line \\data\\"),
        (lambda text: "", 1, "this is no ARPA file: there is no line \\data\\"),
    ],
)
@pytest.mark.parametrize("verb", ["convert", "why"])
def test_files_that_are_wrong_name_their_line(
    change: Any, line: int, message: str, verb: str, say: Any, tmp_path: Path
) -> None:
    file = tmp_path / "bad.arpa"
    file.write_text(change(GOOD))
    answer = say(verb, file, tmp_path / "new") if verb == "convert" else say(verb, file, "the")
    assert answer.code == 2
    assert answer.err.startswith(f"anaphora: {file}:{line}: ")
    assert message in answer.err
    assert not (tmp_path / "new").exists()


def test_the_good_one_is_read(say: Any, tmp_path: Path) -> None:
    (tmp_path / "good.arpa").write_text(GOOD)
    assert say("convert", tmp_path / "good.arpa", tmp_path / "new").code == 0
    log = TextModel(tmp_path / "new").log_probabilities(["the cat"])[0]
    assert log / np.log(10) == pytest.approx(-0.1 - 0.2 - 1, abs=1e-6)


@pytest.mark.parametrize(
    ("from_", "to", "message"),
    [
        ("model", "other", "are both folders, by their names"),
        ("a.arpa", "b.arpa.gz", "are both ARPA files"),
        ("model", "b.arpa.xz", ".xz files are read, but not written"),
        ("none.arpa", "new", "there is no such file"),
        ("none", "new.arpa", "there is no such folder"),
        ("none", "new", "none: there is no such folder; name what is to be converted"),
        ("model", "none/new.arpa", "there is no such folder"),
    ],
)
def test_names(from_: str, to: str, message: str, say: Any, model: Path, tmp_path: Path) -> None:
    answer = say("convert", tmp_path / from_, tmp_path / to)
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize("name", ["new.arpa", "x.onnx", "hf", "x.safetensors", "x.bin.gz"])
def test_a_translator_is_refused_whatever_the_name(name: str, say: Any, micro: Path, tmp_path: Path) -> None:
    answer = say("convert", micro, tmp_path / name)
    assert answer.code == 2
    assert f"{micro}: is a translator (transformer), which cannot be exported yet; n-grams become" in answer.err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["new.arpa", "hf", "x.vec"])
def test_so_is_a_neural_language_model(name: str, say: Any, tmp_path: Path) -> None:
    for kind, labels in (("a language model", None), ("a classifier", ["long", "short"])):
        lstm = neural_folder(tmp_path / kind, "lstm", **({"labels": labels} if labels else {}))
        answer = say("convert", lstm, tmp_path / name)
        assert (answer.code, f"is {kind} (lstm), which cannot be exported yet" in answer.err) == (2, True)


def test_the_list_of_verbs_tells_what_can_be_converted(say: Any) -> None:
    text = " ".join(say("--help").out.replace("│", " ").split())
    line = text[text.index(" convert ") :][:200]
    assert all(what in line for what in ("ARPA", "word vectors", "Backpacks")), line
