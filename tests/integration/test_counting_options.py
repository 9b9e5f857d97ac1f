"""Every way of counting, through the command line: it trains, and what it made gives text a probability."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest

import anaphora
from anaphora.cli.main import main
from anaphora.config import names
from anaphora.models.ngram.ngram_model import NgramConfig
from anaphora.models.ngram.smoothing import SMOOTHINGS
from anaphora.tasks.base import task
from anaphora.tokenizers.tokenizer import Tokenizer

KINDS = ("word", "bpe", "unigram", "character", "byte")
TEXT = ["the dog sees the cat", "", "the cat sees a dog , Straße", "   ", "a dog runs ."] * 8
VALID = ["the cat runs", "", "a dog sees the cat ."]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("text")
    for name, lines in (("train", TEXT), ("valid", VALID)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / "train", folder / "valid"


def say(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    monkeypatch.setattr(sys, "argv", ["anaphora", *map(str, words), "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert ended.value.code == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 3])
def test_every_option_trains(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    kind: str,
    order: int,
) -> None:
    tokenizer = [f"tokenizer.kind={kind}", *(["tokenizer.vocabulary=290"] if kind in ("bpe", "unigram") else [])]
    smoothings = [smoothing for smoothing in SMOOTHINGS if smoothing != "given"]
    ways = list(product(["lines", "stream"], ["keep", "drop"]))
    for number, smoothing in enumerate(smoothings):  # each with each way, in one of the ten cases
        boundaries, blank = ways[(number + KINDS.index(kind) + 2 * (order == 3)) % len(ways)]
        folder = tmp_path / str(number)
        settings = [f"model.order={order}", f"model.smoothing={smoothing}", *tokenizer]
        settings += [f"data.boundaries={boundaries}", f"data.blank_lines={blank}"]
        found = say(monkeypatch, capfd, "train", folder, "--text", files[0], "--valid-text", files[1], *settings)
        assert len(found["orders"]) == order  # type: ignore[arg-type]
        made = Tokenizer.load(folder / "tokenizer.json")
        assert made.kind == kind and found["vocabulary"] == len(made)
        kept = [line for line in VALID if blank == "keep" or line.strip()]
        validation = found["validation"]
        assert isinstance(validation, dict)
        assert validation["tokens"] == sum(len(made.encode(line)) + 1 for line in kept)
        perplexity = validation["perplexity"]  # null: something is impossible without smoothing
        assert perplexity is None or 1 < perplexity < 1000
        assert perplexity is not None or smoothing == "maximum-likelihood" or order == 1
        loaded = anaphora.load(folder)
        again = loaded.evaluate(VALID).perplexity
        assert again == pytest.approx(math.inf if perplexity is None else perplexity, rel=1e-6)


OTHERS: list[dict[str, object]] = [
    {"model.order": 4, "model.prune": "[0,1,2]"},
    {"model.smoothing": "add-k", "model.k": 0.25},
    {"model.smoothing": "stupid-backoff", "model.backoff": 0.3},
    {"tokenizer.split": "punctuation", "tokenizer.fallback": "bytes"},
    {"tokenizer.split": "whitespace", "tokenizer.fallback": "bytes", "tokenizer.minimum_count": 9},
    {"tokenizer.vocabulary": 9},
    {"tokenizer.unknown": "cat"},
    {"tokenizer.kind": "character", "tokenizer.fallback": "bytes"},
    {"tokenizer.kind": "bpe", "tokenizer.vocabulary": 280, "data.tokenizer_lines": 3},
    {"data.hold_out": 4, "data.seed": 3, "data.valid_text": "[]"},
    {"training.max_memory": "3GB"},
]


@pytest.fixture(scope="module")
def plain(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With no option. Read only."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    anaphora.train(folder, text=files[0], valid_text=files[1])
    return folder


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_every_other_option_trains(
    files: tuple[Path, Path],
    plain: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    case: dict[str, object],
) -> None:
    words = [f"{name}={value}" for name, value in case.items() if name != "data.valid_text"]
    valid = [] if "data.valid_text" in case else ["--valid-text", files[1]]
    found = say(monkeypatch, capfd, "train", tmp_path / "run", "--text", files[0], *valid, *words)
    assert found["validation"]["tokens"] > 0  # type: ignore[index]
    same = (tmp_path / "run" / "model.safetensors").read_bytes() == (plain / "model.safetensors").read_bytes()
    assert same == ("training.max_memory" in case), "a limit alone changes nothing, every other option does"


SAYING = {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "seed": 5, "unknown": True, "min_length": 3}
SAYING |= {"no_repeat_ngram": 3}
BEAM = {"min_length": 12, "length_penalty": 2.0, "unknown": True, "no_repeat_ngram": 2}


def test_how_a_model_speaks_is_saved_with_it(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    say(monkeypatch, capfd, "train", tmp_path / "plain", "--text", files[0])
    plain = anaphora.load(tmp_path / "plain")
    for name, settings, how in (("drawn", SAYING, {"samples": 8}), ("searched", BEAM, {"beam": 3})):
        words = [f"decoding.{key}={value}" for key, value in settings.items()]
        say(monkeypatch, capfd, "train", tmp_path / name, "--text", files[0], *words)
        saved = anaphora.load(tmp_path / name)
        assert saved.generate("the", **how) == plain.generate("the", **how, **settings)
        assert saved.generate("the", **how) != plain.generate("the", **how)


def test_a_vocabulary_of_ones_own(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words").write_text("<s>\n</s>\n<unk>\nthe\ndog\n", encoding="utf-8")
    words = f"tokenizer.words={tmp_path / 'words'}"
    found = say(monkeypatch, capfd, "train", tmp_path / "run", "--text", files[0], words)
    assert found["vocabulary"] == 6 and found["unknown_tokens"] > 0  # type: ignore[operator]


def test_every_setting_of_counting_is_exercised() -> None:
    tried = {name for case in OTHERS for name in case}
    tried |= {"model.order", "model.smoothing", "tokenizer.kind", "data.boundaries", "data.blank_lines", "data.text"}
    tried |= {"tokenizer.words"}  # test_a_vocabulary_of_ones_own
    tried |= {"data.paths"}  # tests/files/test_shared_names.py
    tried |= {f"decoding.{name}" for name in (*SAYING, *BEAM)}  # test_how_a_model_speaks_is_saved_with_it
    known = {f"model.{field.name}" for field in fields(NgramConfig) if field.name != "kind"}
    known |= {
        f"{section}.{name}"
        for section in ("data", "tokenizer", "training", "decoding")
        for name in names(task("counting").section_class(section, "ngram"))
    }
    assert known <= tried, known - tried
