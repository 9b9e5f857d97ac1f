"""The same corpus without what was found: damaged characters mended where there is one way to, shifted lines paired
again, everything else that has a finding dropped.

Dropping changes what is usual (the median length ratio, the profiles of the languages), so the result is checked again,
and cleaned again, until nothing is found. Lines near a change of offset are dropped too: the change is known to a few
lines only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from anaphora.checking import encoding
from anaphora.checking.check import Check, Part
from anaphora.checking.file_reading import Lines, Side
from anaphora.data.corpus import Sides
from anaphora.data.formats import place
from anaphora.data.lines import COMPRESSIONS
from anaphora.errors import UserError
from anaphora.folder import atomic_folder

MAX_ROUNDS = 10
BORDER_LINES = 3  # lines dropped on either side of a change of offset
CHUNK_LINES = 4096
DROPPED = (
    "utf8", "replacement", "empty", "huge", "long", "script", "language", "identical", "leak", "leak-source",
    "leak-target", "ratio", "duplicate",
)  # fmt: skip
"""Problems whose lines are dropped; a line with several counts for the first."""


def write_clean(check: Check, names: dict[str, Sides], folder: Path) -> dict[str, Any]:
    """Write the cleaned parts into a new folder; what was written, mended and dropped.

    names: of each part, the places that each of its sides was read from.
    """
    if folder.exists():
        raise UserError("already exists", file=folder, cure="choose a new folder; nothing was changed")
    for part in check.parts.values():
        if part.uneven and not part.stretches:
            raise UserError(
                f"the sides have {len(part.source.lines):,} and {len(part.target.lines):,} lines, and it is not "
                "clear where they diverge",
                file=part.source.files[0],
                cure="fix that first; nothing was written",
            )
    dropped: dict[str, Counter[str]] = {name: Counter() for name in check.parts}
    mended: dict[str, int] = dict.fromkeys(check.parts, 0)
    for round in range(MAX_ROUNDS):
        parts = {}
        for name, part in check.parts.items():
            parts[name], count = _clean(part, dropped[name])
            mended[name] += count if round == 0 else 0
            if not len(parts[name]):
                why = ", ".join(f"{n:,} {problem}" for problem, n in dropped[name].most_common())
                raise UserError(
                    f"nothing would be left of the {name} text ({why})",
                    file=part.source.files[0],
                    cure="look at the findings first; nothing was written",
                )
        check = Check(parts, max_length=check.max_length, progress=check.progress)
        check.everything()
        if not [found for found in check.findings if found.problem != "copies"]:
            break
    files = file_names(names)
    with atomic_folder(folder) as temporary:
        for name, part in check.parts.items():
            for side, file in zip(part.sides, files[name]):
                with (temporary / file).open("w", encoding="utf-8", newline="\n") as out:
                    out.writelines(f"{line}\n" for line in side.lines)
    return {
        "folder": str(folder),
        "files": {name: [str(folder / file) for file in both] for name, both in files.items()},
        "pairs": {name: len(part) for name, part in check.parts.items()},
        "mended": mended,
        "dropped": {name: {why: n for why, n in count.items() if n} for name, count in dropped.items()},
        "left": len([found for found in check.findings if found.problem != "copies"]),
    }


def _clean(part: Part, dropped: Counter[str]) -> tuple[Part, int]:
    """One round: pairs that stay, mended; and how many lines were."""
    new = Lines(), Lines()
    mended = 0
    for rows in _chunks(_pairing(part, dropped)):
        both: tuple[list[str], list[str]] = [], []
        for i, j in rows:
            why = next((problem for problem in DROPPED if i in part.wrong.get(problem, ())), None) if i == j else None
            if why is None:
                source, target = part.source.lines[i], part.target.lines[j]
                texts = encoding.mend(source), encoding.mend(target)
                if texts[0] is not None and texts[1] is not None:
                    mended += (texts[0] != source) + (texts[1] != target)
                    both[0].append(texts[0])
                    both[1].append(texts[1])
                    continue
                why = "utf8" if i in part.wrong.get("utf8", ()) else "replacement"
            dropped[why] += 1
        for lines, kept in zip(new, both):
            lines.extend(kept)
    sides = [Side.of(old.name, lines, old.files[0]) for old, lines in zip(part.sides, new)]
    return Part(part.name, sides[0], sides[-1], {}, [], lone=part.lone), mended


def _pairing(part: Part, dropped: Counter[str]) -> Iterator[tuple[int, int]]:
    """Which target line belongs to which source line (from 0)."""
    size = len(part.target.lines)
    stretches = part.stretches
    if all(stretch.offset == 0 for stretch in stretches):
        dropped["shift"] += len(part.source.lines) - len(part) if part.uneven else 0
        yield from ((i, i) for i in range(len(part)))
        return
    for number, stretch in enumerate(stretches):
        first = stretch.first - 1 + (BORDER_LINES if number else 0)
        last = len(part.source.lines) if number == len(stretches) - 1 else stretch.last - BORDER_LINES
        if stretch.offset is None:
            first = last
        kept = range(max(first, -(stretch.offset or 0)), min(last, size - (stretch.offset or 0)))
        end = len(part.source.lines) if number == len(stretches) - 1 else stretch.last
        dropped["shift"] += end - stretch.first + 1 - len(kept)
        yield from ((i, i + (stretch.offset or 0)) for i in kept)


def _chunks(rows: Iterator[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    while chunk := list(islice(rows, CHUNK_LINES)):
        yield chunk


def file_names(names: dict[str, Sides]) -> dict[str, list[str]]:
    """The name of each side's file: its own without .gz, or train.source.txt where it had several or was a table."""
    files: dict[str, list[str]] = {}
    taken: set[str] = set()
    for part, sides in names.items():
        files[part] = []
        for side, places in sides.items():
            where = place(places[0], side)
            name = where.path.name
            if where.path.suffix.lower() in COMPRESSIONS:
                name = where.path.stem
            if len(places) > 1 or where.format != "text" or name in taken:
                name = f"{part}.{side}.txt"
            taken.add(name)
            files[part].append(name)
    return files
