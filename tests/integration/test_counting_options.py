"""Every way of counting, through the command line: it trains, and what it made gives text a probability."""

from __future__ import annotations

import json
import math
import sys
from itertools import product
from pathlib import Path

import pytest

import anaphora
from anaphora.cli.main import main
from anaphora.models.ngram.smoothing import SMOOTHINGS
from anaphora.text.tokenizer import Tokenizer

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
    for number, (smoothing, boundaries, blank) in enumerate(product(smoothings, ["lines", "stream"], ["keep", "drop"])):
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
