"""`anaphora mix`: better than its best part, a folder that needs nothing else, and parts that do not fit."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.pipelines.mixing import part_names
from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from ngram_folders import VERSE, WORDS, ngram_folder

NAMES = [f"w{number}" for number in range(20)]


def domain(seed: int, lines: int, step: int) -> list[str]:
    """Text in which a word is mostly followed by the one `step` further, else by any."""
    draw, texts = random.Random(seed), []
    for _ in range(lines):
        word, text = draw.randrange(20), []
        while draw.random() < 0.9:
            text.append(NAMES[word])
            word = (word + step) % 20 if draw.random() < 0.7 else draw.randrange(20)
        texts.append(" ".join(text))
    return texts


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of two domains over one vocabulary; text of both to tune on, and other text of both."""
    where = tmp_path_factory.mktemp("mix")
    words = Tokenizer.train(TokenizerConfig(**WORDS), [" ".join(NAMES)])  # type: ignore[arg-type]
    ngram_folder(where / "near", domain(1, 300, 1), words=words)
    ngram_folder(where / "far", domain(2, 300, 7), words=words)
    ngram_folder(where / "other", VERSE)
    ngram_folder(where / "stream", domain(1, 30, 1), words=words, boundaries="stream")
    (where / "dev.txt").write_text("\n".join([*domain(3, 40, 1), *domain(4, 20, 7)]) + "\n")
    (where / "test.txt").write_text("\n".join([*domain(5, 80, 1), *domain(6, 40, 7)]) + "\n")
    (where / "empty.txt").write_text("")
    return where


def test_beats_its_best_part_on_text_that_it_was_not_tuned_on(say: Any, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "mixed"
    texts = ["--text", world / "dev.txt", "--valid-text", world / "test.txt"]
    answer = say("mix", out, world / "near", world / "far", *texts)
    assert answer.code == 0, answer.err
    head, near, far, mixed = (line.split() for line in answer.out.splitlines())
    assert head == ["weight", "perplexity", "on", "valid", "text"]
    assert (near[0], far[0], mixed[:2]) == ("near", "far", ["the", "mixture"])
    assert float(near[1]) > float(far[1]) > 0.1  # two thirds are of the first domain
    assert float(mixed[2]) < 0.95 * min(float(near[2]), float(far[2]))
    assert float(mixed[3]) < 0.95 * min(float(near[3]), float(far[3]))
    with (world / "test.txt").open() as lines:
        assert TextModel(out).evaluate(lines).perplexity == pytest.approx(float(mixed[3]), abs=1e-3)
    assert "weights tuned on" in answer.err


def test_the_folder_needs_nothing_else(say: Any, world: Path, tmp_path: Path) -> None:
    for name in ("near", "far"):
        shutil.copytree(world / name, tmp_path / name)
    out = tmp_path / "mixed"
    answer = say("mix", out, tmp_path / "near", tmp_path / "far", "--text", world / "dev.txt", "--json")
    said = json.loads(answer.last)
    lines = (world / "test.txt").read_text().splitlines()
    before = TextModel(out).log_probabilities(lines)
    for name in ("near", "far"):
        shutil.rmtree(tmp_path / name)
    moved = out.rename(tmp_path / "moved")
    loaded = TextModel(moved)
    assert (loaded.log_probabilities(lines) == before).all()
    assert list(loaded.model.weights) == [part["weight"] for part in said["parts"]]  # type: ignore[attr-defined]
    assert {path.name for path in moved.iterdir()} == {
        "config.yaml", "tokenizer.json", "metrics.json", "card.md", "near", "far",
    }  # fmt: skip
    assert "| near |" in (moved / "card.md").read_text()
    for verb, *words in (["evaluate", "--text", world / "test.txt"], ["generate", "w1"], ["why", "w1"], ["info"]):
        assert say(verb, moved, *words, "--json").code == 0


def test_parts_may_be_arpa_files_and_mixtures(say: Any, world: Path, tmp_path: Path) -> None:
    assert say("convert", world / "far", tmp_path / "far.arpa.gz").code == 0
    made = anaphora.mix(tmp_path / "one", [world / "near", tmp_path / "far.arpa.gz"], text=world / "dev.txt")
    plain = anaphora.mix(tmp_path / "two", [world / "near", world / "far"], text=world / "dev.txt")
    assert made.perplexity == pytest.approx(plain.perplexity, rel=1e-4)
    both = anaphora.mix(tmp_path / "three", [tmp_path / "one", world / "near"], text=[world / "dev.txt"])
    assert both.perplexity <= made.perplexity * (1 + 1e-4)
    assert TextModel(tmp_path / "three").evaluate((world / "dev.txt").read_text().splitlines()).perplexity == (
        pytest.approx(both.perplexity, rel=1e-5)
    )


def test_weights_of_ones_own(say: Any, world: Path, tmp_path: Path) -> None:
    parts, tested = [world / "near", world / "far"], ["--valid-text", world / "test.txt"]
    answer = say("mix", tmp_path / "a", *parts, "--weights", "0.25, 0.75", *tested)
    assert answer.code == 0, answer.err
    head, near, far, mixed = (line.split() for line in answer.out.splitlines())
    assert (head, near[1], far[1]) == (["weight", "on", "valid", "text"], "0.2500", "0.7500")
    assert "weights as given" in answer.err and "The weights were given" in (tmp_path / "a" / "card.md").read_text()
    measured = anaphora.load(tmp_path / "a").evaluate((world / "test.txt").open())
    assert float(mixed[2]) == pytest.approx(measured.perplexity, abs=1e-3)
    found = json.loads(say("mix", tmp_path / "b", *parts, "--weights", "1 0", "--json").last)
    assert [part["weight"] for part in found["parts"]] == [1, 0] and found["perplexity"] is None
    for wrong, said in (
        ("0.5,0.4", "the weights 0.5, 0.4 are not shares of one"),
        ("1.5,-0.5", "are not shares of one"),
        ("1", "2 models have 1 weights"),
        ("half,half", "--weights must be a number, not 'half'"),
    ):
        answer = say("mix", tmp_path / "c", *parts, f"--weights={wrong}")
        assert (answer.code, (tmp_path / "c").exists()) == (2, False) and said in answer.err
    answer = say("mix", tmp_path / "c", *parts, "--weights", "0.5,0.5", "--text", world / "dev.txt")
    assert answer.code == 2 and "--valid-text measures" in answer.err


def test_names_of_parts() -> None:
    assert part_names(["a/model", "b/model", "c.arpa.gz", "c.arpa", "config.yaml"]) == [
        "model", "model-2", "c", "c-2", "config.yaml-2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "text", "message"),
    [
        (["near", "other"], "dev.txt", "/other: has another vocabulary than "),
        (["near", "stream"], "dev.txt", "/stream: takes lines otherwise than "),
        (["near"], "dev.txt", "a mixture needs at least two models, not 1"),
        (["near", "none"], "dev.txt", "/none: there is no such folder"),
        (["near", "far"], None, "no text was given to tune the weights on"),
        (["near", "far"], "empty.txt", "there are no lines in this file"),
        (["near", "far"], "none.txt", "none.txt"),
    ],
)
def test_mistakes(parts: list[str], text: str | None, message: str, say: Any, world: Path, tmp_path: Path) -> None:
    given = [] if text is None else ["--text", world / text]
    answer = say("mix", tmp_path / "out", *(world / part for part in parts), *given)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_the_differing_vocabulary_is_named_with_its_cure(say: Any, world: Path, tmp_path: Path) -> None:
    answer = say("mix", tmp_path / "out", world / "near", world / "far", world / "other", "--text", world / "dev.txt")
    assert f"{world / 'other'}: has another vocabulary than {world / 'near'} (14 tokens, 24 there)" in answer.err
    assert "tokenizer.words=FILE" in answer.err


def test_nothing_is_overwritten(say: Any, world: Path, tmp_path: Path) -> None:
    out = shutil.copytree(world / "other", tmp_path / "out")
    before = (out / "config.yaml").read_bytes()
    words = [world / "near", world / "far", "--text", world / "dev.txt"]
    answer = say("mix", out, *words)
    assert (answer.code, (out / "config.yaml").read_bytes()) == (2, before)
    assert "already exists" in answer.err
    answer = say("mix", out, *words, out, "--force")
    assert "is one of the parts itself" in answer.err
    assert say("mix", out, *words, "--force").code == 0
    assert "kind: mixture" in (out / "config.yaml").read_text()


def test_a_part_inside_the_old_mixture_is_not_lost(world: Path, tmp_path: Path) -> None:
    anaphora.mix(tmp_path / "out", [world / "near", world / "far"], text=world / "dev.txt")
    with pytest.raises(UserError, match="is one of the parts itself, or holds it"):
        anaphora.mix(tmp_path / "out", [tmp_path / "out" / "near", world / "far"], text=world / "dev.txt", force=True)
    assert (tmp_path / "out" / "near" / "model.safetensors").is_file()


def test_a_translator_is_refused(say: Any, micro: Path, world: Path, tmp_path: Path) -> None:
    answer = say("mix", tmp_path / "out", world / "near", micro, "--text", world / "dev.txt")
    assert answer.code == 2
    assert "is a translator" in answer.err


def test_a_part_that_need_not_sum_to_one_is_named(say: Any, world: Path, tmp_path: Path) -> None:
    words = TextModel(world / "near").tokenizer
    ngram_folder(tmp_path / "scores", domain(1, 30, 1), words=words, smoothing="stupid-backoff")
    answer = say("mix", tmp_path / "out", world / "near", tmp_path / "scores", "--text", world / "dev.txt", "--json")
    assert answer.code == 0, answer.err
    assert "warning: the probabilities of scores need not sum to one" in answer.err
    assert "scores need not" in json.loads(answer.last)["note"]
    assert "scores need not sum to one" in (tmp_path / "out" / "card.md").read_text()
    answer = say("mix", tmp_path / "sound", world / "near", world / "far", "--text", world / "dev.txt")
    assert "sum to one" not in answer.err
