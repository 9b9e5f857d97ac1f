"""A comparison, from a list of recipes to one report; repeating the same command goes on where it stopped.

lock → shared text → plans, compared with what the folder has → run list → rows, each measured → report

A row is measured when it is finished, so that whoever is interrupted has the figures of what is done; where rows shared
the machine once more, for its speed, when nothing else runs.

OUT/report.json     what was asked for, how far each row is, all values: what the next command goes on from
OUT/report.csv, report.md, report.png
OUT/data/           the text that all rows share, once for each way to cut it into tokens
OUT/runs/NAME/      each row, an ordinary run folder
OUT/logs/NAME.log   what each row said on its way
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.comparing.board import Board
from anaphora.comparing.budget import Budget
from anaphora.comparing.comparison_settings import FILES
from anaphora.comparing.picture import draw
from anaphora.comparing.report import as_csv, as_markdown, best_row, cell, notes, run_list, table
from anaphora.comparing.rows import Entry
from anaphora.comparing.running import HINDERED, Job, run_jobs
from anaphora.comparing.task import Extract, Plan, Task
from anaphora.config import described, differences
from anaphora.errors import UPGRADE, UserError, first_line, option
from anaphora.files.foreign import read_json
from anaphora.files.shared_names import by_name, name_of, paths_in, without_folders
from anaphora.folder import (
    CHECKPOINTS,
    DATA,
    METRICS,
    WEIGHTS,
    check_name,
    discard,
    write_bytes,
    write_json,
    write_text,
)
from anaphora.results import brief, html_table
from anaphora.tasks.run_session import working_in
from anaphora.training.memory import is_out_of_memory
from anaphora.training.reporting import RunReporter, duration
from anaphora.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

FORMAT = 1
RUNS, LOGS, REPORT, CSV, MARKDOWN, PICTURE = "runs", "logs", "report.json", "report.csv", "report.md", "report.png"


@dataclass
class Comparison:
    """How a comparison ended."""

    folder: Path
    """Where the runs and the report are."""
    rows: list[dict[str, Any]]
    """Those of the table."""
    parts: list[dict[str, Any]]
    """Rows that the others are made of and nobody asked to see."""
    columns: list[Any]
    """Of the table."""
    notes: list[str]
    """What must be known to read it."""
    extracts: list[Extract]
    """Tables beside that of the rows."""
    best: dict[str, Any] | None
    """The row of the table that is best by its first column."""
    exit_code: int
    """0: all rows are there; 2: a row failed by a mistake that can be mended; 1: by one of ours."""
    document: dict[str, Any]
    """What report.json holds."""

    def __repr__(self) -> str:
        done = sum(row["state"] == "finished" for row in self.rows)
        best = "" if self.best is None else f"best: {self.best['name']}"
        return brief("Comparison", str(self.folder), f"{done} of {len(self.rows)} rows finished", best)

    def __str__(self) -> str:
        return "\n".join([*table(self.rows, self.columns), *(f"- {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        rows = [
            [row["name"], *(cell(column, row) for column in self.columns)]
            if row["state"] == "finished"
            else [row["name"], str(row["state"])]
            for row in self.rows
        ]
        return html_table(["", *(column.head for column in self.columns)], rows, caption="; ".join(self.notes))


def compare(
    task: Task,
    out: Path,
    entries: Sequence[Entry],
    *,
    budget: Budget | None = None,
    jobs: int = 1,
    estimate: bool = True,
    force: bool = False,
    command: str = "",
    console: Console | None = None,
) -> Comparison:
    """Make, continue or finish the comparison in the folder `out`."""
    if jobs < 1:
        raise UserError(f"{option('jobs', jobs)} runs nothing", cure=f"write {option('jobs', 1)}, or more")
    for entry in entries:
        task.check(entry, budget)
    reporter = RunReporter(out, console)
    saved = read_report(out, reporter)
    with working_in(out, reporter, smaller=f"compare smaller models, or fewer {option('jobs')}"):
        return _Comparison(task, out, entries, budget, jobs, force, command, saved, reporter).complete(estimate)


def read_report(out: Path, reporter: RunReporter) -> dict[str, Any]:
    """What a folder says of the comparison in it; nothing where there is none yet, be it that runs were put there to
    become its rows, or where its report is damaged. Any other folder is refused."""
    check_name(out)
    if out.exists() and not out.is_dir():
        raise UserError("is a file, not a folder", file=out, cure="choose another name for the comparison")
    if not out.is_dir() or not any(path.name not in (".lock", ".owner.json", RUNS) for path in out.iterdir()):
        return {}
    with suppress(OSError, ValueError):
        found = read_json(out / REPORT)
        if isinstance(found, dict) and _has_rows(found) and isinstance(found.get("comparison"), int):
            if found["comparison"] > FORMAT:
                raise UserError("was written by a newer Anaphora", file=out / REPORT, cure=UPGRADE)
            return found
    if (out / ".lock").exists() and (out / REPORT).exists() and (out / RUNS).is_dir():
        reporter.message(f"{out / REPORT} is damaged and written anew; the rows are in {out / RUNS}")
        return {}
    raise UserError(
        "exists and is no comparison of Anaphora", file=out, cure="choose a new folder; nothing was changed"
    )


def _has_rows(report: Mapping[str, Any]) -> bool:
    lists = [report.get("rows"), report.get("others") or [], report.get("parts") or []]
    return all(
        isinstance(rows, list) and all(isinstance(row, dict) and {"name", "recipe"} <= row.keys() for row in rows)
        for rows in lists
    )


class _Comparison:
    """One comparison on its way."""

    def __init__(
        self,
        task: Task,
        out: Path,
        entries: Sequence[Entry],
        budget: Budget | None,
        jobs: int,
        force: bool,
        command: str,
        saved: Mapping[str, Any],
        reporter: RunReporter,
    ) -> None:
        self.task, self.out, self.entries, self.budget = task, out, list(entries), budget
        self.jobs, self.force, self.command, self.reporter = jobs, force, command, reporter
        known = [*(saved.get("others") or ()), *(saved.get("parts") or ()), *saved["rows"]] if saved else []
        self.saved = {row["name"]: {**row, "folder": str(self.run(row["name"]))} for row in known}
        if saved and saved.get("task") != task.name:
            raise UserError(
                f"holds a comparison of another sort ({saved.get('task')})", file=out, cure="choose another"
            )
        self.rows: list[dict[str, Any]] = []
        self.plans: list[Plan] = []
        self.said: list[str] = []
        self.extracts: list[Extract] = []
        self.best: str | None = None

    def complete(self, estimate: bool) -> Comparison:
        begun = any(self.run(name).exists() for name in self.saved)
        if not self.saved:
            self.save()  # from now on the folder is known as ours
        texts = [self.task.text_of(self.out / DATA, entry) for entry in self.entries]
        before = [_stamp(text) for text in texts]
        force = self.force or not begun
        try:
            self.task.prepare(self.out / DATA, self.entries, force=force, reporter=self.reporter)
        except UserError:
            if not self.saved:  # the command was a mistake: nothing is left of it
                (self.out / REPORT).unlink()
            raise
        self.reporter.finish()
        anew = [begun and old is not None and _stamp(text) != old for text, old in zip(texts, before)]
        self.plans = [self.task.plan(entry, self.budget) for entry in self.entries]
        for entry, plan, other in zip(self.entries, self.plans, anew):
            self.rows.append(self.row(entry, plan, other))
        self.save()
        self.announce(estimate)
        try:
            self.train()
            self.measure_alone()
        except KeyboardInterrupt:
            self.report()  # of what there is
            raise
        return self.report()

    def run(self, name: str) -> Path:
        return self.out / RUNS / name

    @property
    def shown(self) -> list[dict[str, Any]]:
        return [row for entry, row in zip(self.entries, self.rows) if entry.shown]

    # -- what there is -------------------------------------------------------------------------------------------------

    def row(self, entry: Entry, plan: Plan, anew: bool) -> dict[str, Any]:
        """How far a row is; one that was begun with other settings is refused, or begun anew where that is forced."""
        asked = {
            section: {k: v for k, v in own.items() if k not in (*FILES, "paths")}
            for section, own in plan.settings.items()
        }
        new = {"name": entry.name, "recipe": entry.recipe, "settings": entry.written.partition(":")[2], "asked": asked}
        new |= {"endings": list(entry.endings), "made_of": list(entry.after)}
        new |= {"folder": str(self.run(entry.name)), "state": "planned"}
        old = self.saved.get(entry.name)
        if old is None or not self.run(entry.name).exists():
            return new
        changed = differences(by_name(old.get("asked", {})), by_name(asked))
        if name_of(old["recipe"]) != name_of(entry.recipe):
            changed = {"recipe": (old["recipe"], entry.recipe), **changed}
        if old.get("made_of", []) != new["made_of"]:
            changed = {"what it is made of": (old.get("made_of", []), new["made_of"]), **changed}
        anew = anew or any(row["state"] != "finished" for row in self.rows if row["name"] in entry.after)
        learned = any((self.run(entry.name) / name).exists() for name in (WEIGHTS, CHECKPOINTS)) or entry.together
        if changed and learned and not self.force:
            raise UserError(
                f"the row {entry.name} was begun with other settings: {described(changed)}",
                file=self.out,
                cure="repeat the old command, name the row otherwise (NAME=RECIPE), choose another folder, or add "
                f"{option('force', True)} to begin such rows anew",
            )
        if changed or anew:
            if learned:
                self.reporter.message(f"{entry.name}: begun anew")
            discard(self.run(entry.name))
            return new
        kept = {key: value for key, value in old.items() if key not in ("error", "exit_code")}
        return {**kept, **new, "state": "finished" if self.task.finished(self.run(entry.name)) else "begun"}

    def announce(self, estimate: bool) -> None:
        """The run list, with the time that each row will take."""
        states = []
        for entry, plan, row in zip(self.entries, self.plans, self.rows):
            if row["state"] == "finished":
                plan.seconds = 0.0
            elif estimate and plan.seconds is None:
                plan.seconds = self.task.try_out(entry, plan)
            if row["state"] == "begun" and plan.steps and plan.seconds is not None:
                plan.seconds *= 1 - min(1.0, _steps_done(self.run(entry.name)) / plan.steps)
            states.append({"finished": "finished", "begun": "goes on"}.get(row["state"], ""))
        for line in run_list([entry.name for entry in self.entries], self.plans, states):
            self.reporter.message(line)
        if any(row["state"] != "finished" for row in self.rows):
            known = [plan.seconds for plan in self.plans if plan.seconds is not None]
            how = "one after the other" if self.jobs == 1 else f"{self.jobs} at once, as if each were alone"
            if any(known):
                total = sum(known) if self.jobs == 1 else max(max(known), sum(known) / self.jobs)
                counted = any(plan.counted for plan in self.plans)
                more = "counting, and starting" if counted else "starting and measuring"
                self.reporter.message(f"about {duration(total)} in all, {how}; {more} each row, on top")
            else:
                self.reporter.message(f"no time is estimated; {how}")

    # -- work ----------------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Whatever rows are not finished; one that fails leaves the others alone."""
        by_name = {row["name"]: row for row in self.rows}
        steps = {entry.name: plan.steps for entry, plan in zip(self.entries, self.plans)}
        jobs = []
        for entry, plan in zip(self.entries, self.plans):
            if by_name[entry.name]["state"] != "finished":
                run, log = self.run(entry.name), self.out / LOGS / f"{entry.name}.log"
                jobs.append(Job(entry.name, run, self.task.arguments(entry, plan, run), log, entry.after))
        by_entry = {entry.name: entry for entry in self.entries}
        if self.jobs > 1:  # what others wait for comes first
            jobs.sort(key=lambda job: -self.waited_for(job.name))
        board = Board(self.reporter.console, steps)

        def started(job: Job) -> None:
            self.task.begin(by_entry[job.name], job.run)
            by_name[job.name]["state"] = "begun"
            for one in jobs:  # at once, so that an interrupted row is still known to have had company
                if one.shared:
                    by_name[one.name]["shared"] = True
            self.save()
            board.start(job)

        def ended(job: Job, code: int) -> None:
            row = by_name[job.name]
            row.setdefault("shared", False)
            if code == 0 and self.task.finished(job.run):
                row |= {"state": "finished", **self.values(by_entry[job.name])}
                with suppress(UserError):  # it is tried again in the end: there may be more memory then
                    self.measure(row, alone=self.jobs == 1)
            else:
                mended = code in (2, HINDERED)  # what it is made of has a code of its own
                row |= {"state": "failed", "error": job.why(code), "exit_code": 2 if mended else 1}
            board.end(job, row, self.task.columns[0])
            self.save()

        with board:
            run_jobs(
                jobs,
                self.jobs,
                started=started,
                ended=ended,
                looked=board.look,
                hindered=lambda job: any(by_name[name]["state"] != "finished" for name in job.after),
            )

    def waited_for(self, name: str) -> int:
        """How many rows, one after the other, come after this one."""
        return max((1 + self.waited_for(entry.name) for entry in self.entries if name in entry.after), default=0)

    def values(self, entry: Entry) -> dict[str, Any]:
        try:
            return self.task.result(entry, self.run(entry.name))
        except UserError as error:
            return {"state": "failed", "error": str(error), "exit_code": 2}
        except (KeyError, TypeError, ValueError, AttributeError):
            damaged = UserError(
                "is damaged", file=self.run(entry.name) / METRICS, cure="delete it and repeat the command"
            )
            return {"state": "failed", "error": str(damaged), "exit_code": 2}

    def measure(self, row: dict[str, Any], *, alone: bool) -> None:
        """What a row is worth, and how fast it speaks. alone: nothing else runs meanwhile, else speed is not told."""
        if row["state"] != "finished":
            return
        if self.due(row, alone=alone):
            try:
                found = self.task.measure(self.run(row["name"]))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                raise UserError(f"memory ran out ({first_line(error)})", cure="free some, and repeat") from None
            row["measured"] = {"ruler": self.task.ruler, "alone": alone, **found}
        left_out = {"ruler", "alone", *(() if row["measured"].get("alone", True) else (self.task.timed,))}
        row |= {key: value for key, value in row["measured"].items() if key not in left_out}

    def due(self, row: Mapping[str, Any], *, alone: bool) -> bool:
        """Whether there is something to measure. A row whose figures alone are here has no speed, and gets none."""
        measured = row.get("measured", {})
        if measured.get("ruler") != self.task.ruler:
            return True
        return alone and not measured.get("alone", True) and any(self.run(row["name"]).rglob(WEIGHTS))

    def measure_alone(self) -> None:
        """What is timed is timed when no row is running any more. One that cannot be measured leaves others alone."""
        for place, (entry, row) in enumerate(zip(self.entries, self.rows)):
            if row["state"] != "finished":
                continue
            row |= self.values(entry)
            if self.due(row, alone=True):
                self.reporter.stage("measuring, alone", place, len(self.rows))
            try:
                self.measure(row, alone=True)
            except UserError as error:
                row |= {"state": "failed", "error": f"not measured: {error}", "exit_code": 2}
            self.save()
        self.reporter.finish()

    # -- what is told --------------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        # rows that this command does not ask for are still there, for one that does
        others = [row for name, row in self.saved.items() if name not in {row["name"] for row in self.rows}]
        return {
            "anaphora": __version__,
            "comparison": FORMAT,
            "task": self.task.name,
            "command": self.command if self.plans else "",  # before, it is not known which of its words are paths
            "budget": None if self.budget is None else str(self.budget),
            "written": time.strftime("%Y-%m-%d %H:%M:%S"),
            "shared": self.task.shared() if self.plans else {},
            "columns": {column.key: column.meaning for column in (*self.task.columns, *self.task.costs)},
            "best": self.best,
            "notes": self.said,
            "rows": self.shown,
            "parts": [row for entry, row in zip(self.entries, self.rows) if not entry.shown],
            "extracts": [asdict(extract) for extract in self.extracts],
            "others": others,
        }

    def save(self) -> None:
        document = self.document()
        for rows in ("rows", "parts", "others"):
            finite = [{key: _finite(value) for key, value in row.items()} for row in document[rows]]
            document[rows] = [{**row, "folder": f"{RUNS}/{row['name']}"} for row in finite]
        write_json(self.out / REPORT, without_folders(document, self.paths()))

    def paths(self) -> set[str]:
        """All that was named by more than its name: a report is shared, and tells no folders unless that is wished."""
        if any(plan.settings.get("data", {}).get("paths") == "full" for plan in self.plans):
            return set()
        texts = [names for names in self.task.shared().values() if isinstance(names, list)] if self.plans else []
        typed = {str(self.out), *(entry.recipe for entry in self.entries), *(name for one in texts for name in one)}
        settings = [paths_in(plan.settings, {}) for plan in self.plans]
        named = {path for path in typed if name_of(path) != path and Path(path).name not in ("", "..")}
        return named.union(*settings)

    def report(self) -> Comparison:
        columns = [*self.task.columns, *self.task.costs]
        quality, lower = self.task.columns[0], self.task.lower_is_better
        best, because = best_row(self.shown, quality, lower_is_better=lower)
        self.best = None if best is None else best["name"]
        self.said = [*([because] if because else []), *self.task.notes(self.rows), *notes(self.rows)]
        unseen = [row for row in self.rows if row not in self.shown and row.get("error")]
        self.said += [f"{row['name']} failed: {row['error']}" for row in unseen]
        self.extracts = self.task.extracts(self.shown)
        picture = draw(self.shown, quality, lower_is_better=lower)
        if picture is not None:
            write_bytes(self.out / PICTURE, picture)
        paths = self.paths()
        write_text(self.out / CSV, as_csv(without_folders(self.shown, paths), columns))
        title, drawn = self.out.resolve().name, PICTURE if picture else None
        markdown = as_markdown(
            self.shown,
            columns,
            self.said,
            title=title,
            command=self.command,
            picture=drawn,
            extracts=self.extracts,
        )
        write_text(self.out / MARKDOWN, without_folders(markdown, paths))
        self.save()
        failed = [row["exit_code"] for row in self.rows if row["state"] == "failed"]
        code = 0 if not failed else 2 if set(failed) == {2} else 1
        document = self.document()
        return Comparison(
            folder=self.out,
            rows=self.shown,
            parts=document["parts"],
            columns=columns,
            notes=self.said,
            extracts=self.extracts,
            best=next((row for row in self.shown if row["name"] == self.best), None),
            exit_code=code,
            document=document,
        )


def _stamp(folder: Path) -> int | None:
    """Changes when a folder is made anew."""
    return folder.stat().st_ino if folder.exists() else None


def _finite(value: Any) -> Any:
    """JSON knows no infinity, which a model without smoothing may come to: it becomes null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _steps_done(run: Path) -> int:
    steps = [path.name.removeprefix("step-") for path in (run / CHECKPOINTS).glob("step-*")]
    return max((int(step) for step in steps if step.isdigit()), default=0)
