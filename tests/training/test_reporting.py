"""The log for programs, TensorBoard's events, and the lines for people."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from anaphora.training.checkpoint import Progress
from anaphora.training.loop import Update
from anaphora.training.reporting import RunReporter, describe, duration, short
from anaphora.training.translation_validation import Sample, Validation


def update(step: int) -> Update:
    return Update(step, torch.tensor(2.5), torch.tensor(0.5), 1e-3, tokens=100)


def reported(folder: Path, console: Console | None = None, *, steps: int = 3) -> RunReporter:
    reporter = RunReporter(folder, console, peak_flops=1e9)
    progress = Progress()
    reporter.start(progress, total=10)
    for step in range(1, steps + 1):
        progress.step, progress.tokens, progress.flops = step, 100 * step, 1e6 * step
        progress.seconds = float(step)
        reporter.update(update(step), progress)
    progress.history.append({"step": steps})
    scores = {"loss": 1.25, "perplexity": 3.49, "bleu": 33.3, "chrf": 55.5}
    reporter.validation(Validation(scores, [Sample("[red]a", "b", "c")]), progress, best=True)
    reporter.finish()
    return reporter


def read_log(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "logs/log.jsonl").read_text().splitlines()]


def test_programs_read_a_line_for_every_report(tmp_path: Path) -> None:
    reported(tmp_path)
    log = read_log(tmp_path)
    assert [(entry["kind"], entry["step"]) for entry in log] == [
        ("update", 1), ("update", 2), ("update", 3), ("validation", 3),
    ]  # fmt: skip
    first = log[0]
    assert first["loss"] == 2.5 and first["learning_rate"] == 1e-3
    # operations a second over what the device could do: the same clock measures tokens a second
    assert first["mfu"] == pytest.approx(1e6 / 1e9 * first["tokens_per_second"] / 100)  # type: ignore[operator]


def test_tensorboard_reads_the_events(tmp_path: Path) -> None:
    reported(tmp_path)
    events = EventAccumulator(str(tmp_path / "logs/tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("update/loss")] == [1, 2, 3]
    assert events.Scalars("validation/bleu")[0].value == torch.tensor(33.3).item()
    assert {"update/mfu", "update/tokens_per_second", "validation/loss"} <= set(events.Tags()["scalars"])


def test_what_a_killed_run_logged_after_its_checkpoint_is_forgotten(tmp_path: Path) -> None:
    reported(tmp_path)
    with (tmp_path / "logs/log.jsonl").open("a") as log:
        log.write('{"kind": "update", "st')  # torn by the kill
    reporter = RunReporter(tmp_path, None)
    reporter.start(Progress(step=1), total=10)
    reporter.finish()
    assert [entry["step"] for entry in read_log(tmp_path)] == [1]


def test_people_see_scores_and_samples_with_their_labels(tmp_path: Path) -> None:
    for terminal in (False, True):
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=terminal, width=80, color_system=None)
        reported(tmp_path / str(terminal), console)
        said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
        assert "loss 1.250  perplexity 3.49  BLEU 33.3  chrF 55.5" in said
        for line in ("     source  [red]a", "translation  b", "  reference  c"):
            assert line in said, (terminal, said)


def test_what_a_model_makes_of_its_bytes_stays_on_its_lines(tmp_path: Path) -> None:
    scores = {"loss": 5.8, "perplexity": 330.35, "bits_per_byte": 3.252}
    for terminal, mark in ((False, "  best so far"), (True, "\n" + " " * 15 + "best so far")):
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=terminal, width=80, color_system=None)
        reporter = RunReporter(tmp_path / str(terminal), console)
        progress = Progress(step=1000, epoch=11, seconds=721.0)
        progress.history = [{"step": 1}, {"step": 1000}]
        reporter.start(progress, total=2000)
        sample = Sample("a\nb\rc\x1b[2Jd", "word " * 100, "c")
        reporter.validation(Validation(scores, [sample]), progress, best=True)
        reporter.finish()
        said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
        assert f"step 1000  epoch 12  12:01  loss 5.800  perplexity 330.35  bits/byte 3.252{mark}\n" in said
        assert "a b c\\x1b[2Jd\n" in said
        lines = [line for line in said.splitlines() if "word word" in line]
        assert max(map(len, lines)) == (80 - 1 if terminal else 15 + 499)
        assert len(lines) == 1 + terminal, "a terminal gets two lines, broken between words"
        assert all(line.startswith(" " * 15 + "word ") for line in lines[1:])


def test_numbers_as_people_read_them() -> None:
    assert [duration(seconds) for seconds in (5, 75, 3700)] == ["0:05", "1:15", "1:01:40"]
    assert [short(number) for number in (7, 14_230, 2.5e6, 3e9)] == ["7", "14.2k", "2.5M", "3G"]
    assert describe({"loss": 1.0}) == "loss 1.000"


def test_stages_may_come_again_after_a_bar_has_ended(tmp_path: Path) -> None:
    """Preparing, a message, counting, learning: each on a bar of its own, on a person's terminal."""
    said = io.StringIO()
    reporter = RunReporter(tmp_path, Console(file=said, force_terminal=True, width=80))
    for names in (("reading", "encoding"), ("counting",), ("encoding", "learning")):
        for name in names:
            reporter.stage(name, 1, 2)
        reporter.finish()
        reporter.message("done")
    assert "learning" in said.getvalue() and said.getvalue().count("done") == 3


@pytest.mark.parametrize(
    ("total", "limit", "left"),
    [(None, 60.0, "0:30 left"), (100, None, "1:00 left"), (100, 40.0, "0:10 left"), (None, None, None)],
)
def test_the_time_that_is_left_is_that_of_the_nearest_limit(
    tmp_path: Path, total: int | None, limit: float | None, left: str | None
) -> None:
    screen = io.StringIO()
    reporter = RunReporter(tmp_path, Console(file=screen, force_terminal=True, width=120, color_system=None))
    progress = Progress(step=30 if total is None else 33, seconds=30.0)
    if total:
        progress.step, progress.seconds = 100 // 3, 30.0 * (100 // 3) / (100 / 3)
    reporter.start(progress, total, limit)
    reporter.update(update(progress.step), progress)
    task = reporter.bar.tasks[0]
    assert task.total == (total or limit)
    if left is None:
        assert "left" not in task.fields["say"]
    else:
        assert left in task.fields["say"]
        assert task.completed == pytest.approx({60.0: 30, None: 33, 40.0: 74}[limit], abs=1)
    reporter.finish()


def test_samples_are_shown_from_time_to_time_and_scores_always(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anaphora.training import reporting

    screen, clock = io.StringIO(), [100.0]
    monkeypatch.setattr(reporting.time, "monotonic", lambda: clock[0])
    reporter = RunReporter(tmp_path, Console(file=screen, width=120))
    reporter.start(Progress(), None)
    for step in range(1, 22):
        clock[0] += 1.5
        reporter.validation(Validation({"loss": 1.0}, [Sample("a", "b", "c")]), Progress(step=step), best=False)
    reporter.finish()
    assert screen.getvalue().count("loss 1.000") == 21
    assert screen.getvalue().count("translation  b") == 3


def test_scores_that_come_one_upon_the_other_wait_and_the_last_and_best_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model on a short text: validated three times a second, and nobody can read that."""
    from anaphora.training import reporting

    screen, clock, best = io.StringIO(), [100.0], 14
    monkeypatch.setattr(reporting.time, "monotonic", lambda: clock[0])
    reporter = RunReporter(tmp_path, Console(file=screen, width=120))
    reporter.start(Progress(), None)
    for step in range(1, 26):
        clock[0] += 0.375
        progress = Progress(step=step, seconds=clock[0] - 100, best_step=min(step, best), history=[{}, {}])
        reporter.validation(Validation({"loss": 1.0}, []), progress, best=step <= best)
    reporter.finish()
    shown = [line for line in screen.getvalue().splitlines() if line.startswith("step ")]
    assert [int(line.split()[1]) for line in shown] == [1, 4, 7, 10, 13, 16, 19, 22, 25]
    assert "best so far: step 14" in shown[5]
    assert all(line.endswith("best so far") for line in shown[:5])
    assert not any("best" in line for line in shown[6:])
    assert len(read_log(tmp_path)) == 25


def test_a_long_run_leaves_some_dozens_of_lines_and_a_usual_one_all_of_its_twenty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anaphora.training import reporting

    for times, expected in ((20, 20), (3600, 300)):
        screen, clock = io.StringIO(), [0.0]
        monkeypatch.setattr(reporting.time, "monotonic", lambda clock=clock: clock[0])
        reporter = RunReporter(tmp_path / str(times), Console(file=screen, width=120))
        reporter.log = io.StringIO()
        monkeypatch.setattr(reporter, "_write", lambda *_: None)
        for step in range(1, times + 1):
            clock[0] += 3600 / times
            reporter.validation(Validation({"loss": 1.0}, []), Progress(step=step, seconds=clock[0]), best=False)
        assert expected * 0.8 <= screen.getvalue().count("loss 1.000") <= expected
