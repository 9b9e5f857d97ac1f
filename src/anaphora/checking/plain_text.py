"""All checks of a text for language models or word vectors: one side, whose lines stand for themselves.

What check.py does for pairs, as far as one side can show it: characters, repeated lines, lines of the evaluation text,
blank and very long lines, scripts, unknown words. Short lines (a speaker's name, a heading) repeat by right: only lines
of `TELLING` characters and more are reported as repeated or leaked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, overload

from anaphora.checking import encoding, pairs
from anaphora.checking import language_guess as language
from anaphora.checking.check import Check, Part, Progress
from anaphora.checking.corpus_cleaning import CHUNK_LINES, MAX_ROUNDS, file_names
from anaphora.checking.file_reading import Lines, Side, read_side
from anaphora.checking.findings import Finding, Report
from anaphora.errors import UserError
from anaphora.folder import atomic_folder

TELLING = 20
"""Characters of a line that hardly comes twice by chance."""
BOILERPLATE = 10
"""Times that such a line stands in a text to be a header, a footer, a menu."""
LONG_LINE_CHARACTERS = 20_000
"""Characters: a longer line is a text without line ends."""
BLANK = 0.5
"""Share of blank lines from which on they are worth a word."""
DROPPED = ("utf8", "replacement", "script-line", "leak-line", "boilerplate", "repeat")
"""Problems whose lines are dropped; a line with several counts for the first. Long lines stay: they may be the text."""


class TextCheck(Check):
    """One check of a text: its parts, its findings, its counts."""

    def __init__(self, parts: dict[str, Part], *, progress: Progress | None = None) -> None:
        super().__init__(parts, progress=progress)
        self.corpus = {name: {"lines": len(part.source.lines)} for name, part in parts.items()}

    def everything(self, vocabulary: int | None = None) -> None:
        self.counts()
        self.characters()
        if any(not len(part.source.lines) for part in self.parts.values()):
            return
        for part in self.parts.values():
            self.sizes_of(part)
            self.repeated(part)
            self.scripts(part)
            self.progress("lines", 1, None)
        self.leaks()
        self.unknown_words(vocabulary)

    def counts(self) -> None:
        for part in self.parts.values():
            if not any(map(str.strip, part.source.lines)):
                said = "there is no text", "give it some lines"
                self.findings.append(Finding("empty", "no-text", part.source.files[0], None, *said, stops=True))

    def sizes_of(self, part: Part) -> None:
        lines = part.source.lines
        blank, first, characters, size = 0, None, 0, 0
        long: dict[int, str] = {}
        for number, text in enumerate(lines):
            if not text.strip():
                blank, first = blank + 1, number if first is None else first
            characters += len(text)
            size += len(text.encode("utf-8", "surrogateescape")) + 1
            if len(text) > LONG_LINE_CHARACTERS:
                long[number] = f"this line has {len(text):,} characters"
        self.tell(part, "long-line", list(long), details=long, limit=f"{LONG_LINE_CHARACTERS:,}")
        if first is not None and BLANK * len(lines) < blank < len(lines):
            (file, line), message = part.source.where(first), f"{blank:,} of {len(lines):,} lines are blank"
            cure = "data.blank_lines=drop leaves them out; where they part paragraphs, keep them"
            self.findings.append(Finding("empty", "blank", file, line, message, cure, count=blank))
        self.corpus[part.name] |= {"blank_lines": blank, "characters": characters, "bytes": size}

    def repeated(self, part: Part) -> None:
        lines = part.source.lines
        again, first = pairs.duplicates(lines, lines)
        times = Counter(first.tolist())
        repeat: dict[int, str] = {}
        often: dict[int, str] = {}
        for number, earlier in zip(again.tolist(), first.tolist()):
            if len(lines[number].strip()) >= TELLING:
                (here, _), (there, line) = part.source.where(number), part.source.where(earlier)
                where = f"line {line}" + ("" if there == here else f" of {there}")
                count = times[earlier] + 1
                detail = f"this line repeats {where}" + (f"; it occurs {count:,} times" if count > 2 else "")
                (often if count >= BOILERPLATE else repeat)[number] = detail
        self.tell(part, "boilerplate", list(often), details=often, times=BOILERPLATE)
        self.tell(part, "repeat", list(repeat), details=repeat)
        self.corpus[part.name] |= {"distinct_lines": pairs.distinct(lines), "repeated_lines": len(again)}

    def scripts(self, part: Part) -> None:
        counts = language.script_counts(part.source.lines)
        if part.name == "train":
            self.usual = language.usual_scripts(counts)
        strange = language.wrong_script(counts, self.usual)
        details = {number: f"this line is in {script} script, unlike the text" for number, script in strange.items()}
        self.tell(part, "script-line", sorted(strange), details=details)
        letters = counts[:, 1:].sum(axis=0)
        total = max(int(letters.sum()), 1)
        shares = {name: round(int(n) / total, 4) for name, n in zip(language.SCRIPTS, letters) if n}
        self.corpus[part.name]["scripts"] = dict(sorted(shares.items(), key=lambda one: -one[1]))

    def leaks(self) -> None:
        names = [name for name in ("train", "valid", "test") if name in self.parts]
        known = {name: pairs.Leaks({"source": _Telling(self.parts[name].source.lines)}) for name in names}
        for inside, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
            if inside in known and other in known:
                there = self.parts[other].source
                details = {}
                for leak in known[other].within(known[inside]):
                    file, line = there.where(leak.other)
                    details[leak.line] = f"this line is line {line} of {file}"
                evaluation = {"valid": "validation", "test": "test"}[other]
                numbers = sorted(details)
                self.tell(self.parts[inside], "leak-line", numbers, details=details, of=other, text=evaluation)


class _Telling(Sequence[str]):
    """Lines, the short ones as if they were empty."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        return self._telling(self.lines[number])

    def __iter__(self) -> Iterator[str]:
        return map(self._telling, self.lines)

    @staticmethod
    def _telling(text: str) -> str:
        return text if len(text.strip()) >= TELLING else ""


def check_plain_text(
    files: dict[str, list[str]], *, vocabulary: int | None = None, progress: Progress | None = None
) -> tuple[Report, TextCheck]:
    """The whole check of {"train": files, "valid": files, "test": files}."""
    began, parts, done = time.monotonic(), {}, 0

    def step(lines: int) -> None:
        nonlocal done
        done += lines
        if progress:
            progress("reading", done, None)

    for name, places in files.items():
        side = read_side(places, "text", step)
        parts[name] = Part(name, side, side, {}, [], lone=True)
    check = TextCheck(parts, progress=progress)
    check.everything(vocabulary)
    return Report(check.report(), check.corpus, seconds=time.monotonic() - began), check


def write_clean_text(check: TextCheck, names: dict[str, list[str]], folder: Path) -> dict[str, Any]:
    """Write the cleaned parts into a new folder; what was written, mended and dropped."""
    if folder.exists():
        raise UserError("already exists", file=folder, cure="choose a new folder; nothing was changed")
    dropped: dict[str, Counter[str]] = {name: Counter() for name in check.parts}
    mended: dict[str, int] = dict.fromkeys(check.parts, 0)
    for round in range(MAX_ROUNDS):
        parts = {}
        for name, part in check.parts.items():
            parts[name], count = _clean(part, dropped[name])
            mended[name] += count if round == 0 else 0
            if not len(parts[name].source.lines):
                why = ", ".join(f"{n:,} {problem}" for problem, n in dropped[name].most_common())
                cure = "look at the findings first; nothing was written"
                raise UserError(
                    f"nothing would be left of the {name} text ({why})", file=part.source.files[0], cure=cure
                )
        check = TextCheck(parts, progress=check.progress)
        check.everything()
        if not any(found.problem in DROPPED for found in check.findings):
            break
    files = file_names({name: {"text": places} for name, places in names.items()})
    with atomic_folder(folder) as temporary:
        for name, part in check.parts.items():
            with (temporary / files[name][0]).open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(f"{line}\n" for line in part.source.lines)
    return {
        "folder": str(folder),
        "files": {name: [str(folder / file) for file in some] for name, some in files.items()},
        "lines": {name: len(part.source.lines) for name, part in check.parts.items()},
        "mended": mended,
        "dropped": {name: {why: n for why, n in count.items() if n} for name, count in dropped.items()},
        "left": len(check.findings),
    }


def _clean(part: Part, dropped: Counter[str]) -> tuple[Part, int]:
    """One round: lines that stay, mended; and how many were."""
    new, mended = Lines(), 0
    lines = enumerate(part.source.lines)
    while some := list(islice(lines, CHUNK_LINES)):
        kept = []
        for number, text in some:
            why = next((problem for problem in DROPPED if number in part.wrong.get(problem, ())), None)
            whole = None if why else encoding.mend(text)
            if whole is None:
                dropped[why or "replacement"] += 1
                continue
            mended += whole != text
            kept.append(whole)
        new.extend(kept)
    side = Side.of(part.source.name, new, part.source.files[0])
    return Part(part.name, side, side, {}, [], lone=True), mended
