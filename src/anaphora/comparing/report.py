"""One report of all rows: a table for 80 columns, Markdown, CSV; report.json holds all there is.

It knows of columns and rows, not of what kind of model they are.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.comparing.task import Column, Extract, Plan
from anaphora.training.reporting import duration, short

Row = Mapping[str, Any]

MISSING = "-"
SHARED = "~"


def _flops(value: float) -> str:
    return f"{value:.2g}".replace("e+", "e") if value else MISSING


def bytes_form(value: float) -> str:
    return f"{value / 1e9:.2f}G" if value >= 1e9 else f"{value / 1e6:.0f}M"


def speed_form(value: float) -> str:
    return f"{value:,.0f}" if value < 100_000 else short(value)


COSTS = (
    Column("parameters", "params", short, "numbers that the model consists of"),
    Column("flops", "FLOPs", _flops, "floating-point operations of training, counted update by update"),
    Column("seconds", "time", duration, "of training, validation included (minutes:seconds)"),
)
"""Columns that every sort of model has."""


def cell(column: Column, row: Row) -> str:
    value = row.get(column.key)
    if value is None:
        return MISSING
    mark = SHARED if column.key == "seconds" and row.get("shared") else ""
    return mark + column.form(value)


def table(rows: Sequence[Row], columns: Sequence[Column], width: int = 80) -> list[str]:
    """Lines for a terminal. Names are cut where there is no room; a row that failed says so in the place of numbers."""
    cells = [[cell(column, row) for column in columns] for row in rows]
    done = [own for own, row in zip(cells, rows) if row["state"] == "finished"]
    wide = [max(map(len, (column.head, *(own[i] for own in done)))) for i, column in enumerate(columns)]
    room = max(8, width - sum(wide) - 2 * len(wide))
    label = min(room, max(len(row["name"]) for row in rows))
    lines = ["  ".join([" " * label, *(column.head.rjust(size) for column, size in zip(columns, wide))])]
    for row, own in zip(rows, cells):
        name = row["name"] if len(row["name"]) <= label else row["name"][: label - 1] + "…"
        if row["state"] == "finished":
            lines.append("  ".join([name.ljust(label), *(one.rjust(size) for one, size in zip(own, wide))]))
        else:
            said = f"{row['state']}: {row['error']}" if row.get("error") else row["state"]
            least = width - label - 2
            lines.append(f"{name.ljust(label)}  {said if len(said) <= least else said[: least - 1] + '…'}")
    return [line.rstrip() for line in lines]


def extract_table(extract: Extract) -> list[str]:
    """Lines for a terminal; heads of several words stand above each other."""
    words = [head.rsplit(" ", 1) if " " in head else ["", head] for head in extract.heads]
    above, below = [one for one, _ in words], [one for _, one in words]
    lines = [above, below, *extract.lines]
    wide = [max(len(line[i]) for line in lines) for i in range(len(extract.heads))]
    laid = ["  ".join([line[0].ljust(wide[0]), *map(str.rjust, line[1:], wide[1:])]) for line in lines]
    return [extract.title, *(line.rstrip() for line in laid)]


def best_row(rows: Sequence[Row], quality: Column, *, lower_is_better: bool) -> tuple[Row | None, str]:
    """The finished row that is best by the first column, and a sentence that says so; of rows that print alike there,
    the one that took less time. Rows whose figures mean something else (`normalised`) do not count."""
    able = [
        row
        for row in rows
        if row["state"] == "finished"
        and row.get(quality.key) is not None
        and math.isfinite(row[quality.key])
        and row.get("normalised", True)
    ]
    if not able:
        return None, ""
    sign = 1 if lower_is_better else -1
    first = min(able, key=lambda row: sign * row[quality.key])
    figure = quality.form(first[quality.key])
    alike = [row for row in able if quality.form(row[quality.key]) == figure]
    found = min(alike, key=lambda row: row.get("seconds") or 0.0)
    others = ", ".join(row["name"] for row in alike if row is not found)
    tie = f"; {others} reached the same in no less time" if others else ""
    return found, f"best by {quality.head}: {found['name']} ({figure}){tie}" if len(able) > 1 else ""


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of the costs must know."""
    found = []
    kinds = {row["memory"] for row in rows if row.get("memory")}
    if len(kinds) == 1:
        found.append(f"memory: {next(iter(kinds))}, at its peak")
    elif kinds:
        found.append("memory at its peak: allocated on the GPU by what learned there, resident of what was counted")
    if any(row.get("shared") for row in rows):
        found.append(f"{SHARED} the machine was shared with other rows meanwhile; generation was timed alone")
    return found


def run_list(names: Sequence[str], plans: Sequence[Plan], states: Sequence[str]) -> list[str]:
    """What is about to happen, a line for each row."""
    label = min(23, max(3, *map(len, names)))
    lines = [f"{'row':<{label}}  {'params':>7}  {'tokens':>7}  {'FLOPs':>7}  {'time':>7}"]
    for name, plan, state in zip(names, plans, states):
        name = name if len(name) <= label else name[: label - 1] + "…"
        size = MISSING if plan.parameters is None else short(plan.parameters)
        tokens = MISSING if plan.tokens is None else short(plan.tokens)
        flops = MISSING if not plan.flops else _flops(plan.flops)
        took = MISSING if plan.seconds is None else duration(plan.seconds)
        said = state or ("reads the text once" if plan.counted else plan.note)
        room = 80 - label - 38
        said = said if len(said) <= room else said[: room - 1] + "…"
        lines.append(f"{name:<{label}}  {size:>7}  {tokens:>7}  {flops:>7}  {took:>7}  {said}".rstrip())
    return lines


def as_csv(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Plain numbers, in full."""
    keys = ["name", "recipe", "settings", "state", *(column.key for column in columns)]
    keys += ["tokens", "memory", "shared", "device", "error"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(keys)
    for row in rows:
        writer.writerow(["" if row.get(key) is None else row[key] for key in keys])
    return file.getvalue()


def as_markdown(
    rows: Sequence[Row],
    columns: Sequence[Column],
    said: Sequence[str],
    *,
    title: str,
    command: str,
    picture: str | None,
    extracts: Sequence[Extract] = (),
) -> str:
    lines = [f"# {title}", "", "| | " + " | ".join(column.head for column in columns) + " |"]
    lines.append("|---|" + "---:|" * len(columns))
    for row in rows:
        cells = [cell(column, row) for column in columns]
        if row["state"] != "finished":
            cells = [str(row["state"]), *[""] * (len(columns) - 1)]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    lines += ["", *(f"- {column.head}: {column.meaning}" for column in columns), *(f"- {note}" for note in said)]
    lines += [f"- {row['name']} failed: {row['error']}" for row in rows if row.get("error")]
    for extract in extracts:
        lines += ["", f"## {extract.title}", "", "| " + " | ".join(extract.heads) + " |"]
        lines.append("|---|" + "---:|" * (len(extract.heads) - 1))
        lines += ["| " + " | ".join(cells) + " |" for cells in extract.lines]
        lines += ["", extract.source]
    lines += ["", f"![quality against cost]({picture})"] if picture else []
    return "\n".join([*lines, "", "```", command, "```", ""])
