"""`anaphora check` as people and programs meet it; and what `train` says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.checking.findings import FINDING_KINDS
from anaphora.tasks import proposal
from forked import Interpreters
from micro_runs import MICRO, arguments, pairs, write_pairs

FAST = arguments(MICRO)


@pytest.fixture
def flawed(tmp_path: Path) -> dict[str, Path]:
    """Sixty pairs, the last repeating the first, one empty, and a validation pair among them."""
    both = pairs(60)
    both[30] = ("", both[30][1])
    both.append(both[0])
    files = {"source": tmp_path / "train.en", "target": tmp_path / "train.de"}
    for number, file in enumerate(files.values()):
        file.write_text("".join(pair[number] + "\n" for pair in both), encoding="utf-8")
    valid = {"valid_source": tmp_path / "valid.en", "valid_target": tmp_path / "valid.de"}
    for number, file in enumerate(valid.values()):
        file.write_text(both[10][number] + "\n" + ("new words\n", "neue Wörter\n")[number], encoding="utf-8")
    return files | valid


def options(files: dict[str, Path]) -> list[object]:
    return [word for name, file in files.items() for word in (f"--{name.replace('_', '-')}", file)]


def test_findings_for_people(say: Any, flawed: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(flawed["source"].parent)  # short names, so that no line breaks within one
    names = {name: Path(file.name) for name, file in flawed.items()}
    answer = say("check", *options(names), "--no-estimate")
    assert answer.code == 0
    assert max(len(line) for line in answer.out.splitlines()) <= 80
    whole = " ".join(answer.out.split())
    for words in ("duplicate", "train.en:61", "repeats line 1", "leak", "empty", "→", "stops training"):
        assert words in whole.replace("- ", ""), words


def test_one_side_of_a_test_is_enough_to_find_leaks(say: Any, flawed: dict[str, Path], tmp_path: Path) -> None:
    files = {name: flawed[name] for name in ("source", "target")} | {"test_source": flawed["valid_source"]}
    clean = tmp_path / "clean"
    answer = say("check", *options(files), "--no-estimate", "--json", "--write-clean", clean)
    assert answer.code == 0
    leaks = [found for found in json.loads(answer.last)["findings"] if found["kind"] == "leak"]
    assert [(found["file"], found["line"]) for found in leaks] == [(str(flawed["source"]), 11)]
    assert sorted(path.name for path in clean.iterdir()) == ["train.de", "train.en", "valid.en"]
    assert pairs(60)[10][0] not in (clean / "train.en").read_text(encoding="utf-8").splitlines()


def test_findings_for_programs(say: Any, flawed: dict[str, Path]) -> None:
    answer = say("check", *options(flawed), "--no-estimate", "--json")
    assert answer.code == 0
    document = json.loads(answer.last)
    assert {"findings", "classes", "stops", "corpus", "proposal", "cleaned", "exit_code"} <= document.keys()
    for entry in document["findings"]:
        assert {"kind", "file", "line", "message", "cure", "stops"} <= entry.keys()
        assert entry["kind"] in FINDING_KINDS
        assert isinstance(entry["line"], int)
    assert ("duplicate", 61) in {(entry["kind"], entry["line"]) for entry in document["findings"]}
    assert ("leak", 11) in {(entry["kind"], entry["line"]) for entry in document["findings"]}
    assert ("empty", 31) in {(entry["kind"], entry["line"]) for entry in document["findings"]}
    for found in document["classes"]:
        assert found["count"] == len(found["lines"])
        assert found["line"] == found["lines"][0]


def test_what_stops_training_is_exit_code_2(say: Any, flawed: dict[str, Path]) -> None:
    with flawed["target"].open("ab") as file:
        file.write(b"one line too many, and \xff no text\n")
    answer = say("check", *options(flawed), "--no-estimate", "--json")
    assert answer.code == 2
    document = json.loads(answer.last)
    assert document["exit_code"] == 2
    assert {entry["problem"] for entry in document["findings"] if entry["stops"]} == {"uneven", "utf8"}
    assert "Traceback" not in answer.err


def test_mistakes_are_one_sentence(say: Any, flawed: dict[str, Path], tmp_path: Path) -> None:
    assert "no text to check; give --source FILE --target FILE" in say("check").err
    answer = say("check", "--source", flawed["source"])
    assert answer.code == 2
    assert "give --target FILE" in answer.err
    assert "there is no such file" in say("check", "--source", tmp_path / "no", "--target", flawed["target"]).err
    assert "unknown setting" in say("check", *options(flawed), "data.lenght=3").err
    assert "there is no recipe" in say("check", *options(flawed), "--recipe", "tinny").err
    (tmp_path / "there").mkdir()
    answer = say("check", *options(flawed), "--write-clean", tmp_path / "there", "--no-estimate")
    assert answer.code == 2
    assert "already exists" in answer.err


def test_cleaned_text_passes(say: Any, flawed: dict[str, Path], tmp_path: Path) -> None:
    answer = say("check", *options(flawed), "--no-estimate", "--write-clean", tmp_path / "clean", "--json")
    cleaned = json.loads(answer.last)["cleaned"]
    assert cleaned["dropped"]["train"] == {"empty": 1, "leak": 1, "duplicate": 1}
    assert sorted(path.name for path in (tmp_path / "clean").iterdir()) == [
        "train.de",
        "train.en",
        "valid.de",
        "valid.en",
    ]
    again = {name: tmp_path / "clean" / file.name for name, file in flawed.items()}
    answer = say("check", *options(again), "--no-estimate", "--json")
    assert answer.code == 0
    assert json.loads(answer.last)["findings"] == []
    shown = say("check", *options(flawed), "--no-estimate", "--write-clean", tmp_path / "again").out
    assert "58 pairs written, 0 lines repaired, dropped: 1 leak, 1 empty, 1 duplicate" in " ".join(shown.split())


def test_help_has_examples(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = say("check", "--help")
    assert answer.code == 0
    assert "anaphora check --source train.en --target train.de" in answer.out
    assert "--write-clean" in answer.out


@pytest.mark.usefixtures("trials_are_short")
def test_the_proposal(say: Any, flawed: dict[str, Path]) -> None:
    answer = say("check", *options(flawed), *FAST, "--device", "cpu")
    assert answer.code == 0, answer.err
    whole = " ".join(answer.out.split())
    for words in ("Training here (cpu", "16 wide, 1+1 layers", "s an update", "for 2 updates", "GiB at its peak"):
        assert words in whole, words
    answer = say("check", *options(flawed), *FAST, "tokenizer.vocabulary=10", "--device", "cpu", "--json")
    assert "tokenizer.vocabulary is 10" in json.loads(answer.last)["proposal"]["error"]


def test_train_warns_once_and_learns_the_same(
    say: Any, flawed: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*options(flawed), "--device", "cpu", *FAST]
    answer = say("train", tmp_path / "one", *words)
    assert answer.code == 0, answer.err
    warnings = [line for line in answer.err.splitlines() if line.startswith("warning: ")]
    assert any("train.en:61: this pair repeats line 1; " in line for line in warnings)
    assert any("train.en:11: this pair is line 1 of " in line for line in warnings)
    assert "`anaphora check` tells more" in answer.err
    longer = [word for word in words if not str(word).startswith("training.max_steps")]
    again = say("train", tmp_path / "one", *longer, "training.max_steps=3")
    assert again.code == 0, again.err
    assert "repeats line" not in again.err  # said once, when the run began
    monkeypatch.setattr("anaphora.tasks.translation_run.warn", lambda config, reporter: None)
    say("train", tmp_path / "two", *words)
    say("train", tmp_path / "two", *longer, "training.max_steps=3")
    one, two = ((tmp_path / run / "model.safetensors").read_bytes() for run in ("one", "two"))
    assert one == two


@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_vocabulary_that_cannot_be_had_is_reported(
    say: Any, corpus: dict[str, Path], tmp_path: Path, shared: str
) -> None:
    files = ["--source", corpus["source"], "--target", corpus["target"], "--device", "cpu", "--json"]
    settings = [*FAST, f"tokenizer.shared={shared}", "training.max_steps=1"]
    answer = say("train", tmp_path / "run", *files, *settings, "tokenizer.vocabulary=1000000000")
    assert answer.code == 0, answer.err
    sizes = {
        name.removesuffix(".json"): len(json.loads((tmp_path / "run" / name).read_text())["model"]["vocab"])
        for name in (["tokenizer.json"] if shared == "true" else ["tokenizer.source.json", "tokenizer.target.json"])
    }
    said = [line for line in answer.err.splitlines() if "tokenizer.vocabulary is 1,000,000,000" in line]
    assert len(said) == len(sizes)
    for line, size in zip(said, sizes.values()):
        assert f"has no more than {size:,} different tokens" in line and 260 < size < 1000
    again = say("train", tmp_path / "run", *files, *settings, "tokenizer.vocabulary=1000000000", "training.max_steps=2")
    assert again.code == 0 and "1,000,000,000" not in again.err  # said once


def test_clean_text_is_trained_on_in_silence(say: Any, tmp_path: Path) -> None:
    files = write_pairs(tmp_path, 20)
    answer = say("train", tmp_path / "run", *options(files), "--device", "cpu", *FAST)
    assert answer.code == 0
    assert "warning" not in answer.err


def test_in_python(flawed: dict[str, Path]) -> None:
    report = anaphora.check(**flawed, estimate=False)
    assert [finding.kind for finding in report.findings] == ["duplicate", "leak", "empty"]
    assert not report.stops


@pytest.fixture
def trials_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """And copies of this process; tests/tasks/test_proposal.py has one of its own."""
    monkeypatch.setattr(proposal, "subprocess", Interpreters())
    monkeypatch.setattr(proposal, "TRIAL_SECONDS", 0.2)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A text whose last line repeats its first."""
    lines = [f"{source} {source}" for source, _ in pairs(300, longest=12)]
    lines = [line for line in dict.fromkeys(lines) if len(line) >= 20]
    (tmp_path / "book.txt").write_text("".join(f"{line}\n" for line in [*lines, lines[0]]))
    return tmp_path / "book.txt"


def test_text_of_a_language_model(say: Any, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = len(book.read_text().splitlines())
    monkeypatch.chdir(tmp_path)  # short names, which no column of a table has to break
    answer = say("check", "--text", book.name, "--write-clean", "clean", "--no-estimate")
    assert answer.code == 0, answer.err
    whole = " ".join(answer.out.split())
    for words in (f"{last} lines for training", "repeats line 1", f"{last - 1} lines written", f"book.txt:{last}"):
        assert words in whole, words
    assert "train RUN --text clean/book.txt" in whole
    found = json.loads(say("check", "--text", book, "--no-estimate", "--json").last)
    assert [(one["problem"], one["line"]) for one in found["findings"]] == [("repeat", last)]
    assert found["corpus"]["train"]["lines"] == last and found["proposal"] is None
    (tmp_path / "latin.txt").write_bytes("schön\n".encode("latin1"))
    assert say("check", "--text", tmp_path / "latin.txt", "--no-estimate").code == 2
    for words, message in (
        (("--text", book, "--source", book), "text and pairs are both given"),
        (("--text", book, "--recipe", "tiny"), "tiny is a translator"),
        (("--valid-text", book), "no text to check"),
        (("--text", "/dev/zero"), "is a pipe or a device"),
    ):
        refused = say("check", *words)
        assert refused.code == 2 and message in refused.err, refused.err


@pytest.mark.usefixtures("trials_are_short")
@pytest.mark.parametrize(
    ("recipe", "settings", "words"),
    [
        ("ngram", [], ["ngram: ", "for the whole run, about"]),
        ("lstm", ["training.max_steps=2", "model.dim=8"], ["lstm: 8 wide, 1 layer,", "s an update", "for 2 updates"]),
        ("skipgram", ["model.dim=8", "training.threads=1"], ["skipgram: 8 wide, ", "for the whole run, about"]),
    ],
)
def test_the_proposal_for_text(say: Any, book: Path, recipe: str, settings: list[str], words: list[str]) -> None:
    answer = say("check", "--text", book, "--recipe", recipe, *settings, "--device", "cpu")
    assert answer.code == 0, answer.err
    whole = " ".join(answer.out.split())
    for word in (*words, "parameters, vocabulary", "tokens/s", "GiB at its peak"):
        assert word in whole, whole
