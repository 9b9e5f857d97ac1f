"""A run that counts makes a model folder, and says what it is; repeated or forced, it does what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.config import read_yaml
from anaphora.errors import UserError
from anaphora.models.ngram.counting import fit
from anaphora.models.ngram.ngram_model import NgramConfig
from anaphora.tasks import counting_run as counting
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.training.training_settings import TrainingConfig
from counting_runs import WORDS, lines, model_of, state, train

# -- what it makes -----------------------------------------------------------------------------------------------------


def test_a_model_folder(done: Path, tmp_path: Path) -> None:
    assert {path.name for path in done.iterdir()} == {
        ".lock",
        "card.md",
        "config.yaml",
        "data",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
    }
    metrics = json.loads((done / "metrics.json").read_text())
    tokenizer = Tokenizer.load(done / "tokenizer.json")
    written = [line.split() for line in lines(300)]
    assert metrics["lines"] == 300
    assert metrics["tokens"] == sum(len(line) + 1 for line in written)
    assert metrics["vocabulary"] == len(tokenizer) == 4 + len(WORDS)
    assert metrics["orders"][0] == 3 + len(WORDS)  # as an ARPA file has them: no padding
    assert anaphora.load(done).info()["ngrams"] == metrics["orders"]
    grams = {
        tuple(["<s>", *line, "</s>"][at : at + 3]) for line in written for at in range(len(line)) if len(line) + 2 >= 3
    }
    assert metrics["orders"][2] == len(grams)
    assert len(metrics["discounts"]) == 3 and len(metrics["discounts"][1]) == 4
    assert metrics["vocabularies"] == {"text": tokenizer.vocabulary_fingerprint()}
    assert metrics["unknown_tokens"] == 0, "a literal <unk> is a word"
    fitted = fit(done / "data" / "train.ids", 13, NgramConfig(order=3), tmp_path / "trie", work=tmp_path / "work")
    assert fitted.sizes[1:] == metrics["orders"][1:]
    assert (tmp_path / "trie").read_bytes() == model_of(done)


def test_what_it_says_of_its_validation_text_is_what_the_model_says(done: Path, text_files: dict[str, Path]) -> None:
    said = json.loads((done / "metrics.json").read_text())["validation"]
    found = anaphora.load(done).evaluate(text_files["valid_text"].read_text().splitlines()).document()
    for name in ("lines", "tokens", "unknown_tokens", "bytes", "perplexity", "perplexity_known", "bits_per_byte"):
        assert said[name] == pytest.approx(found[name], rel=1e-6), name
    assert (said["lines"], said["tokens"], said["unknown_tokens"]) == (3, 11, 1)
    assert said["bytes"] == text_files["valid_text"].stat().st_size
    card = (done / "card.md").read_text()
    assert f"| perplexity | {said['perplexity']:.2f} | 11 tokens" in card
    assert "each line is a text of its own" in card and "1 of 11" in card


def test_the_settings_say_what_means_something(done: Path) -> None:
    config = read_yaml(done / "config.yaml")
    assert config["model"]["kind"] == "ngram" and config["model"]["order"] == 3
    assert config["training"] == {"max_memory": None}
    assert config["data"]["boundaries"] == "lines" and "source" not in config["data"]


@pytest.mark.parametrize("boundaries", ["lines", "stream"])
def test_blank_lines_and_boundaries_are_obeyed_by_the_validation(
    tmp_path: Path, text_files: dict[str, Path], boundaries: str
) -> None:
    settings = {"data.boundaries": boundaries, "data.blank_lines": "drop"}
    found = train(tmp_path / "run", text_files, settings=settings).validation
    again = anaphora.load(tmp_path / "run").evaluate(text_files["valid_text"].read_text().splitlines()).document()
    assert found["perplexity"] == pytest.approx(again["perplexity"], rel=1e-6)
    assert (found["lines"], found["dropped_lines"], found["boundaries"]) == (2, 1, boundaries)


@pytest.mark.parametrize("kind", ["word", "character", "byte", "bpe", "unigram"])
@pytest.mark.parametrize("boundaries", ["lines", "stream"])
@pytest.mark.parametrize("limit", [None, "9GB"])
def test_a_run_measures_what_evaluate_does(tmp_path: Path, kind: str, boundaries: str, limit: str | None) -> None:
    """Bytes, tokens and probability of a validation text, whatever cuts it, joins its lines or drops some of them."""
    valid = ["the dog sees a whale", "", " \t", "the\u00a0cat  runs ", "Straße 龍", "a"]
    made = {"text": tmp_path / "text", "valid_text": tmp_path / "valid"}
    made["text"].write_text("".join(f"{line}\n" for line in lines(60)), encoding="utf-8")
    made["valid_text"].write_bytes("".join(f"{line}\r\n" for line in valid).encode())
    settings = {"tokenizer.kind": kind, "data.boundaries": boundaries, "training.max_memory": limit}
    settings |= {"tokenizer.vocabulary": 290} if kind in ("bpe", "unigram") else {}
    for blank_lines in ("keep", "drop"):
        folder = tmp_path / blank_lines
        said = train(folder, made, settings={**settings, "data.blank_lines": blank_lines}).validation
        found = anaphora.load(folder).evaluate(valid).document()
        for name in ("lines", "dropped_lines", "tokens", "unknown_tokens", "bytes"):
            assert said[name] == found[name], name
        for name in ("log_probability", "perplexity", "perplexity_known", "bits_per_byte"):
            assert said[name] == pytest.approx(found[name], rel=1e-6), name


def test_lines_held_out_are_measured(tmp_path: Path, text_files: dict[str, Path]) -> None:
    found = train(tmp_path / "run", {"text": text_files["text"]}, settings={"data.hold_out": 20})
    assert found.validation["lines"] == 20
    assert train(tmp_path / "other", {"text": text_files["text"]}).validation == {}, "by default nothing is held out"


# -- repeated, changed -------------------------------------------------------------------------------------------------


def test_a_finished_run_repeated_changes_nothing(done: Path, text_files: dict[str, Path], capsys: Any) -> None:
    from rich.console import Console

    before = state(done)
    outcome = train(done, text_files, console=Console(stderr=True))
    assert outcome.reason == "it was finished already"
    assert "is finished: the same text was counted with the same settings" in " ".join(capsys.readouterr().err.split())
    assert train(done, text_files, settings={"training.max_memory": "9GB"}).reason == "it was finished already"
    assert train(done, text_files, force=True).reason == "it was finished already"
    assert state(done) == before


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model.order": 2}, "model.order is 3 there and 2 now"),
        ({"model.smoothing": "add-k"}, "model.smoothing is 'kneser-ney' there and 'add-k' now"),
        ({"data.boundaries": "stream"}, "data.boundaries is 'lines' there and 'stream' now"),
        ({"tokenizer.minimum_count": 2}, "tokenizer.minimum_count is 1 there and 2 now"),
        ({"decoding.temperature": 0.5}, "decoding.temperature is 1.0 there and 0.5 now"),
    ],
)
def test_changed_settings_are_refused_by_name(
    done: Path, text_files: dict[str, Path], settings: dict[str, Any], said: str
) -> None:
    before = state(done)
    with pytest.raises(UserError) as error:
        train(done, text_files, settings=settings)
    assert said in str(error.value) and "force=True" in str(error.value)
    assert state(done) == before


def test_changed_text_is_refused_by_name(done: Path, text_files: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("a dog\n")
    before = state(done)
    with pytest.raises(UserError, match="the text changed since"):
        train(done, {**text_files, "text": other})
    with pytest.raises(UserError, match="the validation text changed since"):
        train(done, {**text_files, "valid_text": other})
    with pytest.raises(UserError, match="add force=True to take it as it is now"):
        train(done, {**text_files, "text": other})
    assert state(done) == before
    shutil.copy(text_files["text"], tmp_path / "same.txt")
    assert train(done, {**text_files, "text": tmp_path / "same.txt"}).reason == "it was finished already"


@pytest.mark.parametrize("smoothing", ["kneser-ney", "stupid-backoff"])
def test_the_card_says_what_does_not_sum_to_one(tmp_path: Path, text_files: dict[str, Path], smoothing: str) -> None:
    train(
        tmp_path / "run", {"text": text_files["text"]}, settings={"model.smoothing": smoothing, "model.prune": "0 0 1"}
    )
    card = (tmp_path / "run" / "card.md").read_text()
    assert ("probabilities need not sum to one" in card) is (smoothing == "stupid-backoff")
    assert read_yaml(tmp_path / "run" / "config.yaml")["model"]["prune"] == [0, 0, 1]


def test_pruning_that_cannot_be_is_refused_before_the_text_is_read(tmp_path: Path) -> None:
    for prune, said in (([0, 0, 0, 1], "has 4 thresholds for order 3"), ("0 2 1", "falls"), (1, "begins with single")):
        with pytest.raises(UserError, match=said):
            train(tmp_path / "run", {"text": tmp_path / "nowhere.txt"}, settings={"model.prune": prune})


def test_forced_it_counts_again(done: Path, text_files: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(done, tmp_path / "run")
    train(folder, text_files, settings={"model.order": 2}, force=True)
    train(tmp_path / "fresh", text_files, settings={"model.order": 2})
    assert model_of(folder) == model_of(tmp_path / "fresh")
    assert model_of(folder) != model_of(done)
    used = train(folder, text_files, settings={"model.order": 2, "decoding.temperature": 0.5}, force=True)
    assert used.reason == "it was finished already", "how it is used is no reason to count again"
    assert "temperature: 0.5" in (folder / "config.yaml").read_text()


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("500MB", 500_000_000),
        ("500MiB", 500 << 20),
        ("1.5 GiB", 3 << 29),
        ("2g", 2_000_000_000),
        ("9kib", 9 << 10),
        ("7", 7),
    ],
)
def test_how_much_a_limit_is(said: str, size: int) -> None:
    assert TrainingConfig(max_memory=said).memory_limit() == size


def test_the_settings_of_a_folder_are_a_recipe(done: Path, text_files: dict[str, Path], tmp_path: Path) -> None:
    """What a run saves says nothing that a run would refuse."""
    recipe = tmp_path / "mine.yaml"
    saved = read_yaml(done / "config.yaml")
    assert "k" not in saved["model"] and "beam" not in saved["decoding"]
    text = (done / "config.yaml").read_text(encoding="utf-8")
    recipe.write_text("\n".join(line for line in text.splitlines() if not line.startswith("anaphora_format")))
    train(tmp_path / "run", text_files, recipe=str(recipe))
    assert model_of(tmp_path / "run") == model_of(done)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_nothing_heavy_is_loaded(tmp_path: Path, text_files: dict[str, Path]) -> None:
    program = (
        "import sys; from anaphora.cli.main import main\n"
        "try: main()\n"
        "finally: print([name for name in ('torch', 'pyarrow', 'transformers', 'pandas') if name in sys.modules])"
    )
    words = [
        "train",
        tmp_path / "run",
        "--text",
        text_files["text"],
        "--valid-text",
        text_files["valid_text"],
        "model.order=2",
    ]
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_limit_that_did_not_hold_is_told(
    tmp_path: Path, text_files: dict[str, Path], capsys: Any, monkeypatch: Any
) -> None:
    from rich.console import Console

    monkeypatch.setattr(counting, "peak_resident", lambda: 9_100_000_000)
    for number, (limit, told) in enumerate([("9GB", True), ("9.2GB", False), (None, False)]):
        train(tmp_path / str(number), text_files, settings={"training.max_memory": limit}, console=Console(stderr=True))
        said = "warning: the run took 9,100 MB at its peak, more than training.max_memory (9,000 MB)"
        assert (said in " ".join(capsys.readouterr().err.split())) == told


VALIDATED = """
import json, sys
from pathlib import Path
import anaphora
folder, limit, boundaries = sys.argv[1:]
done = anaphora.train(Path(folder) / boundaries, text=Path(folder) / "text", valid_text=Path(folder) / "valid",
    settings={"model.order": 3, "training.max_memory": limit, "data.boundaries": boundaries})
print(json.dumps({"peak": done.peak_memory, **done.validation}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is measured as Linux does it")
@pytest.mark.parametrize("boundaries", ["lines", "stream"])
def test_a_validation_text_larger_than_the_limit(tmp_path: Path, boundaries: str) -> None:
    limit = 220_000_000
    block = "".join(f"{line}\n" for line in lines(20_000))
    (tmp_path / "text").write_text(block, encoding="utf-8")
    copies = limit // len(block.encode()) + 1
    with (tmp_path / "valid").open("w", encoding="utf-8") as file:
        for _ in range(copies):
            file.write(block)
    command = [sys.executable, "-c", VALIDATED, str(tmp_path), str(limit), boundaries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["lines"] == 20_000 * copies and found["bytes"] > limit
    assert found["peak"] < limit
