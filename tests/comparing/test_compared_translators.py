"""Translators compared from end to end, with the smallest of models: one corpus, one ruler, rows made of rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.comparing.comparison import Comparison
from anaphora.errors import UserError
from anaphora.folder import read_metrics
from anaphora.models.weights import read_weights
from in_process import Killed, rows_in_this_process
from micro_runs import write_pairs

MICRO: dict[str, Any] = {
    "tokenizer.vocabulary": 300,
    "data.hold_out": 6,
    "model.dim": 16,
    "model.layers": 1,
    "model.heads": 2,
    "model.feed_forward": 32,
    "model.max_length": 64,
    "training.max_steps": 4,
    "training.batch_tokens": 128,
    "training.checkpoint_every": 2,
    "training.warmup_steps": 1,
    "training.samples": 0,
    "decoding.beam": 2,
    "decoding.max_length_ratio": 1.0,
}
RL = "bahdanau+rl:training.max_steps=2,training.candidates=2"
NAMES = ["transformer", "bytenet", "bahdanau", "luong+posunk", "bahdanau+rl", "bahdanau+ensemble2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pairs")
    test = write_pairs(folder, 5, 7, name="test")
    return {**write_pairs(folder, 40), **{f"test_{side}": file for side, file in test.items()}}


def compare(out: Path, files: dict[str, Path], recipes: str, **more: Any) -> Comparison:
    settings = MICRO | more.pop("settings", {})
    if "transformer" not in recipes:  # they would mean nothing to any row
        settings = {key: value for key, value in settings.items() if key not in ("model.heads", "model.feed_forward")}
    how: dict[str, Any] = {"device": "cpu", "estimate": False, "settings": settings, **more}
    return anaphora.compare(out, **files, recipes=recipes, **how)


@pytest.fixture(scope="module")
def made(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """Read only: copy it to change it."""
    out = tmp_path_factory.mktemp("comparison") / "out"
    recipes = ", ".join([*NAMES[:4], f"bahdanau+rl={RL}", NAMES[5]])
    with rows_in_this_process(whole=True) as ran:
        found = compare(out, files, recipes, published=True)
    assert ran.index("bahdanau") < ran.index("bahdanau+rl") and ran.index("bahdanau-seed2") < ran.index(NAMES[5])
    return out, found


@pytest.fixture
def out(made: tuple[Path, Comparison], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "out"))


def row_of(found: Comparison, name: str) -> dict[str, Any]:
    return next(row for row in [*found.rows, *found.parts] if row["name"] == name)


def known(row: dict[str, Any]) -> dict[str, Any]:
    """What must be the same whenever it is done again."""
    return {key: row[key] for key in ("name", "bleu", "chrf", "loss", "parameters", "flops", "seeds", "tokens")}


def test_every_row_is_there_and_is_what_evaluate_says(made: tuple[Path, Comparison], files: dict[str, Path]) -> None:
    out, found = made
    assert found.exit_code == 0, found.rows
    assert [row["name"] for row in found.rows] == NAMES and [row["name"] for row in found.parts] == ["bahdanau-seed2"]
    sides = [files[f"test_{side}"].read_text(encoding="utf-8").splitlines() for side in ("source", "target")]
    for row in [*found.rows, *found.parts]:
        model = anaphora.load(out / "runs" / row["name"], "cpu")
        assert isinstance(model, anaphora.TranslationModel)
        said = model.evaluate(*sides)
        assert (row["bleu"], row["chrf"], row["loss"]) == (said.bleu, said.chrf, said.loss)
        assert row["bleu_signature"] == said.bleu_signature and row["lines_per_second"] > 0
        assert row["parameters"] == model.model.parameter_count()


def test_rows_share_text_and_tokens_where_they_can_and_it_is_said_where_not(made: tuple[Path, Comparison]) -> None:
    out, found = made
    metrics = {name: read_metrics(out / "runs" / name) for name in NAMES[:5]}
    assert len({str(one["trained_on"]["fingerprint"]) for one in metrics.values()}) == 1
    words = {name: one["vocabularies"]["target"] for name, one in metrics.items()}
    assert words["transformer"] == words["bahdanau"] == words["bahdanau+rl"]
    assert len({words["transformer"], words["bytenet"], words["luong+posunk"]}) == 3
    assert len(list((out / "data").iterdir())) == 3
    manifests = [json.loads(path.read_text()) for path in (out / "data").glob("*/manifest.json")]
    assert {one["valid"]["rows"] for one in manifests} == {6}
    (told,) = [note for note in found.notes if note.startswith("tokens of ")]
    assert "bytenet: 260 bytes" in told and "luong+posunk: " in told and "all others: 300 subwords (bpe)" in told


def test_costs_are_counted_and_those_of_combined_rows_are_sums(made: tuple[Path, Comparison]) -> None:
    out, found = made
    own = {name: read_metrics(out / "runs" / name)["cost"] for name in [*NAMES[:5], "bahdanau-seed2"]}
    for name in NAMES[:4]:
        assert row_of(found, name)["flops"] == own[name]["flops"] > 0
    learned_on = own["bahdanau"]["flops"] + own["bahdanau+rl"]["flops"]
    assert row_of(found, "bahdanau+rl")["flops"] == learned_on
    both = own["bahdanau"]["flops"] + own["bahdanau-seed2"]["flops"]
    assert row_of(found, NAMES[5])["flops"] == both and row_of(found, NAMES[5])["seeds"] == [1, 2]
    assert row_of(found, NAMES[5])["parameters"] == 2 * row_of(found, "bahdanau")["parameters"]


def test_twice_as_wide_is_twice_as_wide_as_it_would_be_here(files: dict[str, Path], tmp_path: Path) -> None:
    rows = "transformer, transformer+big, wide=transformer+big:model.heads=8"
    with rows_in_this_process(lambda name, done: True), pytest.raises(Killed):
        compare(tmp_path / "out", files, rows)
    document = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    plain, big, wide = (row["asked"]["model"] for row in document["rows"])
    assert [plain[key] for key in ("dim", "heads", "feed_forward")] == [16, 2, 32]
    assert [big[key] for key in ("dim", "heads", "feed_forward")] == [32, 4, 64]
    assert [wide[key] for key in ("dim", "heads", "feed_forward")] == [32, 8, 64]


def test_the_report_has_the_lectures_table_and_a_picture(made: tuple[Path, Comparison]) -> None:
    out, found = made
    (extract,) = found.extracts
    lines = {line[0]: list(line[1:]) for line in extract.lines}
    assert lines["ByteNet"][2:] == ["23.75", "-", "-", "-"]
    assert lines["ByteNet"][0] == f"{row_of(found, 'bytenet')['bleu']:.2f}" and lines["ConvS2S"][:2] == ["-", "-"]
    assert lines["Transformer (big)"][2:] == ["28.40", "2.3e19", "41.00", "2.3e19"]
    markdown = (out / "report.md").read_text(encoding="utf-8")
    assert "| GNMT + RL Ensemble | - | - | 26.30 | 1.8e20 | 41.16 | 1.1e21 |" in markdown
    assert "Vaswani et al. 2017" in markdown and (out / "report.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [known(row) for row in document["rows"]] == [known(row) for row in found.rows]
    assert document["shared"]["measured_lines"] == 5 and document["extracts"][0]["lines"][0][0] == "ByteNet"


def test_the_same_again_does_nothing_and_other_rows_join(out: Path, files: dict[str, Path]) -> None:
    with rows_in_this_process() as ran:
        again = compare(out, files, f"bahdanau, bahdanau+rl={RL}")
        assert ran == [] and [row["state"] for row in again.rows] == ["finished"] * 2
        assert again.extracts == [] and "Vaswani" not in (out / "report.md").read_text(encoding="utf-8"), (
            "not asked for"
        )
        assert again.best in again.rows and again.best["bleu"] == max(row["bleu"] for row in again.rows)
        compare(
            out, files, f"bahdanau+rl={RL}, bahdanau+rl+ensemble2"
        )  # one reinforced member is there, and what the other starts from
    assert ran == ["bahdanau+rl-seed2", "bahdanau+rl+ensemble2"]


def test_a_step_that_is_begun_anew_takes_what_is_made_of_it_along(out: Path, files: dict[str, Path]) -> None:
    before = row_of(compare(out, files, "bahdanau"), "bahdanau")  # nothing is to be done
    other = f"bahdanau=bahdanau:training.max_steps=6, bahdanau+rl={RL}, luong+posunk"
    with pytest.raises(UserError, match=r"with other settings: training.max_steps is 4 there and 6 now"):
        compare(out, files, other)
    with rows_in_this_process() as ran:
        found = compare(out, files, other, force=True)
    assert ran == ["bahdanau", "bahdanau+rl"] and found.exit_code == 0
    assert row_of(found, "bahdanau")["flops"] > before["flops"]


@pytest.mark.parametrize("moment", ["before 2", "checkpoint 3"])
def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(
    made: tuple[Path, Comparison], files: dict[str, Path], tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a row begins, or at the so-manieth checkpoint of all rows: half of a run, or none of the next."""
    from anaphora.training.checkpoint import Checkpoints

    where, _, number = moment.partition(" ")
    saved, save = [0], Checkpoints.save

    def deadly(self: Checkpoints, *told: Any) -> Path:
        path = save(self, *told)
        saved[0] += 1
        if where == "checkpoint" and saved[0] == int(number):
            raise Killed
        return path

    rows = "bahdanau, bahdanau+ensemble2"
    with (
        monkeypatch.context() as patch,
        rows_in_this_process(lambda name, done: where == "before" and done == int(number)),
    ):
        patch.setattr(Checkpoints, "save", deadly)
        with pytest.raises(Killed):
            compare(tmp_path / "out", files, rows)
    with rows_in_this_process() as ran:
        found = compare(tmp_path / "out", files, rows)
    assert ran and len(ran) + (2 if moment == "before 2" else 0) <= 3
    assert [known(row) for row in found.rows] == [known(row_of(made[1], row["name"])) for row in found.rows]
    mine, unbroken = (
        read_weights(one / "runs" / "bahdanau" / "model.safetensors") for one in (tmp_path / "out", made[0])
    )
    assert all((mine[name] == unbroken[name]).all() for name in unbroken)


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_an_interrupted_comparison_goes_on_in_another_place(
    out: Path, files: dict[str, Path], tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that had begun to learn on from another one knows where that was; it is there no more, or still is."""
    from anaphora.training.checkpoint import Checkpoints

    save = Checkpoints.save

    def deadly(self: Checkpoints, *told: Any) -> Path:
        save(self, *told)
        raise Killed

    rows = "bahdanau+rl:training.max_steps=3,training.candidates=2,training.checkpoint_every=1"
    with monkeypatch.context() as patch, rows_in_this_process(), pytest.raises(Killed):
        patch.setattr(Checkpoints, "save", deadly)
        compare(out, files, rows)
    there = Path((shutil.move if how == "moved" else shutil.copytree)(out, tmp_path / "there"))
    own = {name: Path(shutil.copy(file, tmp_path / f"{name}{file.suffix}")) for name, file in files.items()}
    with rows_in_this_process() as ran:
        found = compare(there, own, rows)
    assert found.exit_code == 0, found.rows
    assert len(ran) == 1 and found.rows[0]["steps"] == 4 + 3


def test_of_rows_that_are_measured_the_figures_are_enough(out: Path, files: dict[str, Path], tmp_path: Path) -> None:
    """What is carried from machine to machine need not be gigabytes: not the weights, and not the prepared text."""
    before = json.loads((out / "report.json").read_text(encoding="utf-8"))
    (tmp_path / "there").mkdir()
    for file in [out / "report.json", *(out / "runs").glob("*/metrics.json"), *(out / "runs").glob("*/config.yaml")]:
        copy = tmp_path / "there" / file.relative_to(out)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    recipes = ", ".join([*NAMES[:4], f"bahdanau+rl={RL}", NAMES[5]])
    with rows_in_this_process() as ran:
        found = compare(tmp_path / "there", files, recipes)
    assert ran == [] and found.exit_code == 0, found.rows
    assert [known(row) for row in found.rows] == [known(row) for row in before["rows"]]


def test_a_run_that_was_trained_elsewhere_is_taken_as_a_row(
    made: tuple[Path, Comparison], files: dict[str, Path], tmp_path: Path
) -> None:
    """Under its name, in runs/: `train` finds its own settings there, and has nothing to do."""
    from anaphora.training.checkpoint import Checkpoints

    mine = tmp_path / "out" / "runs" / "bahdanau"
    shutil.copytree(made[0] / "runs" / "bahdanau", mine)
    weights = (mine / "model.safetensors").stat()
    with rows_in_this_process() as ran, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save", lambda *_: pytest.fail("it learned again"))
        found = compare(tmp_path / "out", files, "bahdanau")
    assert ran == ["bahdanau"] and found.exit_code == 0, found.rows
    assert known(found.rows[0]) == known(row_of(made[1], "bahdanau"))
    assert (mine / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns


def test_interrupted_it_tells_what_it_has(
    made: tuple[Path, Comparison], files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows at the same time are measured when they end, but for their speed, which waits until nothing else runs."""
    from anaphora.comparing.comparison import _Comparison

    def interrupted(self: _Comparison) -> None:
        raise KeyboardInterrupt

    out, rows = tmp_path / "out", "bahdanau, luong+posunk, bahdanau+ensemble2"
    with monkeypatch.context() as patch, rows_in_this_process(), pytest.raises(KeyboardInterrupt):
        patch.setattr(_Comparison, "measure_alone", interrupted)
        compare(out, files, rows, jobs=2)
    document = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [known(row) for row in document["rows"]] == [known(row_of(made[1], row["name"])) for row in document["rows"]]
    assert not any("lines_per_second" in row for row in document["rows"])
    assert "| luong+posunk | " in (out / "report.md").read_text(encoding="utf-8")
    for file in (out / "runs" / "luong+posunk").rglob("model.safetensors"):
        file.unlink()  # as if only its figures had been carried here
    with rows_in_this_process() as ran:
        found = compare(out, files, rows)
    assert ran == [] and [("lines_per_second" in row) for row in found.rows] == [True, False, True]
    assert found.exit_code == 0


def test_a_row_that_cannot_be_measured_leaves_the_others_alone(out: Path, files: dict[str, Path]) -> None:
    document = json.loads((out / "report.json").read_text(encoding="utf-8"))
    for row in document["rows"]:
        row.pop("measured")
    (out / "report.json").write_text(json.dumps(document), encoding="utf-8")
    whole = out / "runs" / "bahdanau" / "model.safetensors"
    whole.rename(out / "kept")
    whole.write_bytes(b"not weights")
    with rows_in_this_process():
        found = compare(out, files, "bahdanau, transformer")
    assert [row["state"] for row in found.rows] == ["failed", "finished"] and found.exit_code == 2
    assert "not measured: " in found.rows[0]["error"] and found.rows[1]["lines_per_second"] > 0
    (out / "kept").replace(whole)
    with rows_in_this_process() as ran:
        found = compare(out, files, "bahdanau, transformer")
    assert ran == [] and found.exit_code == 0 and "error" not in found.rows[0]


def test_an_ensemble_that_fails_is_no_end_of_the_report(out: Path, files: dict[str, Path]) -> None:
    shutil.rmtree(out / "runs" / NAMES[5])
    (out / "runs" / NAMES[5]).write_text("in the way")
    with rows_in_this_process():
        found = compare(out, files, f"bahdanau, {NAMES[5]}")
    assert [row["state"] for row in found.rows] == ["finished", "failed"] and found.exit_code == 2
    assert any("bahdanau by itself, seeds 1, 2: BLEU" in note for note in found.notes)


def test_a_step_that_fails_hinders_what_is_made_of_it_and_nothing_else(files: dict[str, Path], tmp_path: Path) -> None:
    rows = "odd=luong:training.learning_rate=1e30, odd+rl, bahdanau"
    with rows_in_this_process() as ran:
        found = compare(tmp_path / "out", files, rows)
    assert ran == ["odd", "bahdanau"] and found.exit_code == 2
    assert [row["state"] for row in found.rows] == ["failed", "failed", "finished"]
    assert found.rows[1]["error"] == "it is made of odd, and not all of that is there"


def test_a_budget_of_operations_ends_there_by_count(files: dict[str, Path], tmp_path: Path) -> None:
    settings = {"training.max_steps": None, "training.patience": 0}
    with rows_in_this_process():
        found = compare(tmp_path / "out", files, "luong", budget="flops=4e7", settings=settings)
    (luong,) = found.rows
    assert luong["steps"] > 5 and 0.9 * 4e7 < luong["flops"] < 1.1 * 4e7 + luong["flops"] / luong["steps"]


def test_two_at_once_are_the_same_rows_and_wait_for_what_they_are_made_of(
    made: tuple[Path, Comparison], files: dict[str, Path], tmp_path: Path
) -> None:
    rows = "transformer, bahdanau, bahdanau+ensemble2"
    with rows_in_this_process() as ran:
        found = compare(tmp_path / "out", files, rows, jobs=2)
    assert sorted(ran[:2]) == ["bahdanau", "bahdanau-seed2"]  # what others wait for comes first
    assert sorted(ran[2:]) == ["bahdanau+ensemble2", "transformer"]
    assert row_of(found, "bahdanau")["shared"] and found.exit_code == 0
    assert [known(row) for row in found.rows] == [known(row_of(made[1], row["name"])) for row in found.rows]


def test_the_run_list_tells_time_and_what_each_step_is_for(files: dict[str, Path], tmp_path: Path) -> None:
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=80)
    with rows_in_this_process(lambda name, done: True), pytest.raises(Killed):
        compare(tmp_path / "out", files, f"bahdanau+rl={RL}, bahdanau+ensemble2", estimate=True, console=console)
    told = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    lines = {line.split()[0]: line for line in told if line.startswith("bahdanau")}
    assert "for bahdanau+rl" in lines["bahdanau"] and "from bahdanau" in lines["bahdanau+rl"]
    assert "2 of bahdanau as one" in lines["bahdanau+ensemble2"] and any(line.startswith("about ") for line in told)
    assert all(len(line) <= 80 for line in told)
