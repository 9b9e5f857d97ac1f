"""A comparison from end to end, with the smallest of models: one text for all, nothing done twice, nothing lost."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.comparing import running
from anaphora.comparing.comparison import Comparison
from anaphora.errors import UserError
from anaphora.folder import read_metrics
from anaphora.tasks.recipes import recipe_folder
from forked import Interpreters
from in_process import rows_in_this_process
from micro_runs import pairs

ROWS = "unigram, bigram, lstm"
MICRO = {
    "tokenizer.vocabulary": 300,
    "model.dim": 16,
    "model.hidden": 16,
    "training.batch_tokens": 128,
    "training.context": 16,
    "training.checkpoint_every": 4,
    "training.samples": 0,
}


@pytest.fixture(autouse=True)
def rows_are_copies_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those of `made`, which are begun as a user's are."""
    monkeypatch.setattr(running, "subprocess", Interpreters())


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("".join(f"{line}\n" for line, _ in pairs(400, 3)), encoding="utf-8")
    return file


def compare(out: Path, text: Path, recipes: str = ROWS, **more: Any) -> Comparison:
    learned = "lstm" in recipes or "rnn" in recipes
    settings = MICRO if learned else {"tokenizer.vocabulary": 300}  # the rest means nothing to what is counted
    how = {"budget": "tokens=1200", "device": "cpu", "estimate": False, "settings": settings, **more}
    return anaphora.compare(out, text=text, recipes=recipes, **how)


@pytest.fixture(scope="module")
def made(text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """Two rows at a time. Read only: copy it to change it."""
    out = tmp_path_factory.mktemp("comparison") / "out"
    return out, compare(out, text, jobs=2)


@pytest.fixture
def out(made: tuple[Path, Comparison], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "out"))


def row_of(found: Comparison, name: str) -> dict[str, Any]:
    return next(row for row in found.rows if row["name"] == name)


def stamps(out: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("runs/*/model.safetensors")}


def test_all_rows_have_the_same_tokens_and_the_same_held_out_bytes(made: tuple[Path, Comparison]) -> None:
    out, found = made
    assert found.exit_code == 0 and [row["name"] for row in found.rows] == ["unigram", "bigram", "lstm"]
    metrics = [read_metrics(out / "runs" / row["name"]) for row in found.rows]
    assert len({one["vocabularies"]["text"] for one in metrics}) == 1
    assert len({(one["validation"]["bytes"], one["validation"]["tokens"]) for one in metrics}) == 1
    assert len({(out / "runs" / row["name"] / "data" / "train.ids").read_bytes() for row in found.rows}) == 1
    assert row_of(found, "bigram")["bits_per_byte"] < row_of(found, "unigram")["bits_per_byte"]


def test_a_row_that_has_just_been_given_its_text_is_no_unfinished_run(made: tuple[Path, Comparison]) -> None:
    logs = {path.stem: path.read_text(encoding="utf-8") for path in made[0].glob("logs/*.log")}
    assert logs.keys() >= {"unigram", "bigram"} and "text: " in logs["bigram"]
    assert not any("unfinished" in log for log in logs.values())


def test_values_are_those_that_the_runs_themselves_tell(made: tuple[Path, Comparison]) -> None:
    out, found = made
    lstm, metrics = row_of(found, "lstm"), read_metrics(out / "runs" / "lstm")
    assert lstm["bits_per_byte"] == metrics["validation"]["bits_per_byte"]
    assert (lstm["flops"], lstm["seconds"]) == (metrics["cost"]["flops"], metrics["cost"]["seconds"])
    assert 1200 <= metrics["cost"]["tokens"] < 1200 + 128  # the budget, and at most one batch
    model = anaphora.load(out / "runs" / "lstm", "cpu")
    assert isinstance(model, anaphora.TextModel)
    assert lstm["flops"] == pytest.approx(3 * model.model.flops(metrics["cost"]["tokens"], 16), rel=0.01)
    assert lstm["parameters"] == model.model.parameter_count()
    assert all(row["tokens_per_second"] > 0 and row["peak_memory"] > 1e7 for row in found.rows)
    assert row_of(found, "bigram")["flops"] == 0 and row_of(found, "bigram")["memory"] == "resident"


def test_the_report_is_there_for_people_and_programs(made: tuple[Path, Comparison]) -> None:
    out, found = made
    with (out / "report.csv").open(encoding="utf-8") as file:
        assert [line["name"] for line in csv.DictReader(file)] == ["unigram", "bigram", "lstm"]
    document = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [row["bits_per_byte"] for row in document["rows"]] == [row["bits_per_byte"] for row in found.rows]
    assert document["budget"] == "tokens=1200" and document["shared"]["valid"]["lines"] == 20
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")
    assert "| lstm |" in (out / "report.md").read_text(encoding="utf-8")
    assert any(row["shared"] for row in found.rows) and any("shared" in note for note in found.notes)


def test_reports_tell_no_folders_and_the_rows_go_on_elsewhere(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    shutil.copy(text, secret / "verse.txt")
    shutil.copy(recipe_folder() / "ngram.yaml", secret / "mine.yaml")

    def compared(out: Path, at: Path, **settings: Any) -> Comparison:
        recipes, verse = f"unigram,mine={at / 'mine.yaml'}:model.order=3", at / "verse.txt"
        command = f"anaphora compare {out} --text {verse} --recipes {recipes}"
        more = {"tokenizer.vocabulary": 300, **settings}
        with rows_in_this_process():
            return compare(out, verse, recipes, budget=None, settings=more, command=command, progress=False)

    out = secret / "both"
    assert compared(out, secret).rows[1]["folder"] == str(out / "runs" / "mine")
    reports = [file for file in out.glob("r*/**/*") if file.suffix in (".md", ".json", ".yaml")] + [*out.glob("*.*")]
    assert len(reports) > 8 and [str(file) for file in reports if b"secret" in file.read_bytes()] == []
    assert "--text verse.txt --recipes unigram,mine=mine.yaml:" in (out / "report.md").read_text()
    rows = json.loads((out / "report.json").read_text())["rows"]
    assert [row["folder"] for row in rows] == ["runs/unigram", "runs/mine"]
    secret.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    before = stamps(Path("both"))
    assert [row["state"] for row in compared(Path("both"), Path()).rows] == ["finished"] * 2
    assert before == stamps(Path("both"))
    compared(tmp_path / "full", Path.cwd(), **{"data.paths": "full"})
    assert str(Path.cwd() / "verse.txt") in (tmp_path / "full" / "report.md").read_text()


def test_the_same_again_does_nothing_twice_and_a_new_row_joins(out: Path, text: Path) -> None:
    before = stamps(out)
    found = compare(out, text, recipes="bigram,trigram")
    assert [row["state"] for row in found.rows] == ["finished", "finished"]
    after = stamps(out)
    assert {name: after[name] for name in before} == before and after.keys() - before.keys() == {"trigram"}
    found = compare(out, text)  # those that were not asked for meanwhile are not forgotten
    assert stamps(out) == after and row_of(found, "lstm")["tokens_per_second"] > 0


def test_other_settings_are_refused_and_begun_anew_where_forced(out: Path, text: Path) -> None:
    before = stamps(out)
    with pytest.raises(UserError, match=r"with other settings: training.max_tokens is 1200 there and 600 now"):
        compare(out, text, budget="tokens=600")
    assert stamps(out) == before
    with pytest.raises(UserError, match=r"bigram was begun with other settings: model.order is 2 there and 3 now"):
        compare(out, text, recipes="bigram=trigram")
    assert stamps(out) == before
    found = compare(out, text, recipes="unigram, bigram=trigram", force=True)
    assert row_of(found, "bigram")["parameters"] > 2 * row_of(found, "unigram")["parameters"]
    after = stamps(out)
    assert after["unigram"] == before["unigram"] and after["bigram"] != before["bigram"]


def test_another_text_is_refused_and_forced_begins_all_anew(out: Path, text: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(text.read_text() + "and one more line .\n" * 30, encoding="utf-8")
    before = stamps(out)
    with pytest.raises(UserError, match="changed since this corpus was prepared"):
        compare(out, other)
    assert stamps(out) == before
    (unigram,) = compare(out, other, recipes="unigram", force=True).rows
    assert unigram["state"] == "finished" and stamps(out)["unigram"] != before["unigram"]
    assert unigram["tokens"] > read_metrics(out / "runs" / "bigram")["tokens"]  # which had the old text
    with pytest.raises(UserError, match=r"bigram was begun with other settings: data.hold_out is 20 there and 21 now"):
        compare(out, other, recipes="bigram")


def test_a_row_that_fails_leaves_the_others_alone_and_is_tried_again(text: Path, tmp_path: Path) -> None:
    out, rows = tmp_path / "out", "cramped=ngram:training.max_memory=1MB, bigram"
    found = compare(out, text, recipes=rows)
    cramped, bigram = found.rows
    assert (cramped["state"], bigram["state"], found.exit_code) == ("failed", "finished", 2)
    assert "leaves no room to count in" in cramped["error"]
    assert "cramped failed" in (out / "report.md").read_text(encoding="utf-8")
    before, said = stamps(out), (out / "logs" / "cramped.log").read_text(encoding="utf-8")
    assert compare(out, text, recipes=rows).exit_code == 2
    assert stamps(out) == before
    assert len((out / "logs" / "cramped.log").read_text(encoding="utf-8")) > len(said)
    mended = compare(
        out, text, recipes="cramped=ngram:model.order=2, bigram"
    )  # it had learned nothing: no need to force
    assert [row["state"] for row in mended.rows] == ["finished"] * 2 and "error" not in mended.rows[0]


def test_the_test_text_is_what_the_table_is_about(out: Path, text: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.txt"
    test.write_text("the dog sees a cat .\n" * 5, encoding="utf-8")
    before = stamps(out)
    (bigram,) = compare(out, text, recipes="bigram", test_text=test).rows
    model = anaphora.load(out / "runs" / "bigram")
    assert isinstance(model, anaphora.TextModel)
    assert bigram["bits_per_byte"] == model.evaluate(["the dog sees a cat ."] * 5).bits_per_byte
    assert bigram["valid_bits_per_byte"] == read_metrics(out / "runs" / "bigram")["validation"]["bits_per_byte"]
    assert stamps(out) == before


def test_a_row_of_other_tokens_is_no_row_of_this_comparison(out: Path, text: Path) -> None:
    metrics = out / "runs" / "bigram" / "metrics.json"
    document = json.loads(metrics.read_text())
    document["vocabularies"]["text"] = "another"
    metrics.write_text(json.dumps(document))
    found = compare(out, text, recipes="unigram,bigram")
    assert [row["state"] for row in found.rows] == ["finished", "failed"] and found.exit_code == 2
    assert "another vocabulary or another text" in found.rows[1]["error"]


@pytest.mark.parametrize("content", [b"\xff", b'{"comparison": 1, "rows": [{}]}', b'{"comparison": "1", "rows": []}'])
def test_a_damaged_report_is_written_anew_and_no_row_is_trained_again(out: Path, text: Path, content: bytes) -> None:
    before = stamps(out)
    (out / "report.json").write_bytes(content)
    found = compare(out, text)
    assert found.exit_code == 0 and [row["name"] for row in found.rows] == ["unigram", "bigram", "lstm"]
    assert stamps(out) == before


def test_a_row_whose_metrics_are_damaged_is_named_with_a_cure_that_works(out: Path, text: Path) -> None:
    metrics = out / "runs" / "bigram" / "metrics.json"
    document = json.loads(metrics.read_text())
    metrics.write_text(json.dumps({name: value for name, value in document.items() if name != "validation"}))
    found = compare(out, text)
    row = row_of(found, "bigram")
    assert row["state"] == "failed" and row["error"].endswith(
        "metrics.json: is damaged; delete it and repeat the command"
    )
    metrics.unlink()
    assert compare(out, text).exit_code == 0
