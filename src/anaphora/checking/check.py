"""All checks of a corpus in order, and what they found as one report.

`check_corpus` is the whole; `quick_findings` is the part that `train` can afford before it begins. Lines are read once
and kept on disk, hashes find what is repeated, and what needs statistics (shifts, words, languages) takes samples, so
a corpus may be larger than memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anaphora.checking import coverage, encoding, pairs
from anaphora.checking import language_guess as language
from anaphora.checking.file_reading import Side, read_side
from anaphora.checking.findings import FINDING_KINDS, Finding, Report, finding
from anaphora.data.corpus import Sides
from anaphora.errors import UserError, option

if TYPE_CHECKING:
    import numpy as np

    from anaphora.checking.shift import Stretch

Progress = Callable[[str, int, int | None], None]  # (stage, done, total if known)
QUICK_LINES = 6_000  # lines whose partners the quick check looks at


@dataclass
class Part:
    """Training, validation or test text: both sides, and what is wrong with which lines (from 0) of them."""

    name: str
    source: Side
    target: Side
    wrong: dict[str, set[int]]
    """By problem: pairs that have it."""
    stretches: list[Stretch]
    """How far the sides are apart, from the first line to the last; empty where nothing can be said."""
    lone: bool = False
    """Evaluation text of which only one side was given: `source` and `target` are both that side."""

    def __len__(self) -> int:
        return min(len(self.source.lines), len(self.target.lines))

    def misplaced(self, number: int) -> bool:
        """Is this line (from 0) in a stretch where the sides are apart, so that the pair it makes means nothing?"""
        return any(stretch.offset != 0 and stretch.first <= number + 1 <= stretch.last for stretch in self.stretches)

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.source,) if self.lone else (self.source, self.target)

    @property
    def uneven(self) -> bool:
        return len(self.source.lines) != len(self.target.lines)


class Check:
    """One check: the parts of a corpus, its findings, its counts."""

    def __init__(self, parts: dict[str, Part], *, max_length: int = 256, progress: Progress | None = None) -> None:
        self.parts = parts
        self.max_length = max_length
        self.progress = progress or (lambda stage, done, total: None)
        self.findings: list[Finding] = []
        self.corpus: dict[str, Any] = {
            name: {"pairs": len(part)} | {f"{side.name}_lines": len(side.lines) for side in part.sides}
            for name, part in parts.items()
        }

    def two_sided(self) -> list[Part]:
        """The parts that have both sides."""
        return [part for part in self.parts.values() if not part.lone]

    # -- telling -------------------------------------------------------------------------------------------------------

    def tell(self, part: Part, problem: str, numbers: Sequence[int], side: Side | None = None, **words: Any) -> None:
        """Note that these lines (from 0) have a problem; `details` by line says more of each."""
        if not len(numbers):
            return
        side = side or part.source
        part.wrong.setdefault(problem, set()).update(int(n) for n in numbers)
        details: dict[int, str] = words.pop("details", {})
        for file, lines in side.by_file(sorted(int(n) for n in numbers)).items():
            own = {side.where(n)[1]: text for n, text in details.items() if side.where(n)[0] == file}
            self.findings.append(finding(problem, file, lines, details=own, **words))

    def report(self) -> list[Finding]:
        """Stopping ones first, then in the order of the kinds, then by file; two columns of one table, or one file
        that is given twice, have a problem of a line in common, and it is told once."""
        files = {side.files[0]: n for n, part in enumerate(self.parts.values()) for side in part.sides}
        order = {kind: n for n, kind in enumerate(FINDING_KINDS)}
        once: list[Finding] = []
        for found in self.findings:
            if found not in once:
                once.append(found)
        return sorted(once, key=lambda f: (not f.stops, order[f.kind], files.get(f.file, 99), f.line or 0))

    # -- the checks ----------------------------------------------------------------------------------------------------

    def counts(self) -> None:
        """Is there enough text to begin with?"""
        for part in self.parts.values():
            for side in part.sides:
                file, lines = side.files[0], len(side.lines)
                if not lines:
                    said = "there is no text", "give it some lines"
                    self.findings.append(Finding("empty", "no-text", file, None, *said, stops=True))
                elif lines == 1 and part.name == "train":
                    said = "there is 1 line only", "give it at least two; a useful model needs thousands"
                    self.findings.append(Finding("empty", "one-line", file, 1, *said, stops=True))

    def characters(self) -> None:
        for part in self.parts.values():
            for side in part.sides:
                found = {problem: list(numbers) for problem, numbers in side.problems.items()}
                for number, text in enumerate(side.lines):
                    encoding.look(number, text, found)
                for problem, numbers in found.items():
                    self.tell(part, problem, numbers, side)
                self.progress("characters", 1, None)

    def emptiness(self) -> None:
        for part in self.two_sided():
            empty: tuple[list[int], list[int]] = [], []
            same: list[int] = []
            for number, (source, target) in enumerate(zip(part.source.lines, part.target.lines)):
                if not source.strip() or not target.strip():
                    empty[bool(source.strip())].append(number)
                elif source.strip() == target.strip() and any(map(str.isalpha, source)):
                    same += [] if part.misplaced(number) else [number]
            for side, numbers in zip(part.sides, empty):
                self.tell(part, "empty", numbers, side)
            if part.name == "train" and sum(map(len, empty)) == len(part):  # nothing is left to learn from
                self.findings[-1].stops = True
            if 2 * len(same) <= len(part):
                self.tell(part, "identical", same, part.target)
            else:  # a corpus of copies may be one by intent: told once, and never dropped
                (file, line), names = part.target.where(same[0]), " and ".join(side.files[0] for side in part.sides)
                message = f"{len(same):,} of {len(part):,} pairs have the same text on both sides"
                cure = f"look whether {names} are the files that are meant; a model learns to copy from them"
                self.findings.append(Finding("language", "copies", file, line, message, cure, count=len(same)))

    def repetitions(self) -> None:
        for part in self.two_sided():
            again, first = pairs.duplicates(part.source.lines, part.target.lines)
            details = {}
            for n, earlier in zip(again.tolist(), first.tolist()):
                (here, _), (there, line) = part.source.where(n), part.source.where(earlier)
                details[n] = f"this pair repeats line {line}" + ("" if there == here else f" of {there}")
            self.tell(part, "duplicate", again.tolist(), details=details)
            self.corpus[part.name] |= {
                "distinct_sources": pairs.distinct(part.source.lines),
                "distinct_targets": pairs.distinct(part.target.lines),
            }

    def leaks(self) -> None:
        """Validation and test lines in training, and validation lines in the test text."""
        names = [name for name in ("train", "valid", "test") if name in self.parts]
        if len(names) < 2:
            return
        known = {n: pairs.Leaks({side.name: side.lines for side in self.parts[n].sides}) for n in names}
        for inside, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
            if inside in known and other in known:
                self.leak(self.parts[inside], self.parts[other], known[other].within(known[inside]))

    def leak(self, part: Part, other: Part, found: list[pairs.Leak]) -> None:
        spoken = {"valid": "validation", "test": "test"}[other.name]
        for which, problem in (("pair", "leak"), ("source", "leak-source"), ("target", "leak-target")):
            some = [leak for leak in found if leak.which == which]
            side = part.target if which == "target" else part.source
            there = other.target if which == "target" else other.source
            details = {}
            for leak in some:
                file, line = there.where(leak.other)
                details[leak.line] = f"this {which if which == 'pair' else which + ' line'} is line {line} of {file}"
            opposite = "source" if which == "target" else "target"
            alone = "" if part.lone or other.lone else f", with another {opposite}"
            lines = [leak.line for leak in some]
            self.tell(part, problem, lines, side, details=details, of=other.name, alone=alone)
        for said in self.findings:
            if said.extra.get("of") == other.name:
                said.message = said.message.replace("the evaluation text", f"the {spoken} text")

    def sizes(self) -> None:
        """Over-long lines and lopsided pairs."""
        lengths = {part.name: [pairs.lengths(side.lines) for side in part.sides] for part in self.two_sided()}
        usual = pairs.Ratios.of(*lengths["train"]) if "train" in lengths else None
        for part in self.two_sided():
            long: dict[int, str] = {}
            for side in part.sides:
                huge = []
                for number, tokens in pairs.too_long(side.lines, self.max_length):
                    if tokens >= pairs.HUGE_LINE_BYTES:
                        huge.append(number)
                    elif number < len(part):
                        long[number] = f"the {side.name} has about {tokens:,} tokens, more than {self.max_length:,}"
                self.tell(part, "huge", huge, side)
            self.tell(part, "long", sorted(long), details=long, limit=f"{self.max_length:,}")
            if usual is not None:
                source, target = lengths[part.name]
                odd = [n for n in usual.odd(source, target).tolist() if n not in long and not part.misplaced(n)]
                details = {
                    n: f"{source[n]:,} characters of source, {target[n]:,} of target; usual is 1 : {usual.c:.2f}"
                    for n in odd
                }
                self.tell(part, "ratio", odd, details=details)

    def languages(self) -> None:
        train = self.parts["train"]
        profiles = language.Profiles.of(train.source.lines, train.target.lines)
        usual: dict[str, np.ndarray] = {}
        for part in self.parts.values():
            same = part.wrong.get("identical", set())
            for side in part.sides:
                number = ("source", "target").index(side.name)
                counts = language.script_counts(side.lines)
                usual.setdefault(side.name, language.usual_scripts(counts))
                strange = language.wrong_script(counts, usual[side.name])
                details = {n: f"this line is in {script} script, unlike its side" for n, script in strange.items()}
                self.tell(part, "script", sorted(strange), side, details=details)
                foreign = [n for n in profiles.foreign(side.lines, number) if n not in strange and n not in same]
                foreign = language.without_familiar(
                    side.lines, foreign, train.sides[number].lines, train.sides[1 - number].lines
                )
                self.tell(part, "language", foreign, side)
            self.progress("languages", 1, None)

    def shifts(self, *, quick: bool = False) -> None:
        """Sides that go apart, by number or by content."""
        from anaphora.checking.shift import DENSE_LINES, MIN_LINES, find_shifts  # numba, only here

        for part in self.two_sided():
            first: int | None = None
            if len(part) >= MIN_LINES:

                def step(done: int, total: int) -> None:
                    self.progress("alignment of lines", done, total)

                dense = QUICK_LINES if quick else DENSE_LINES
                part.stretches = find_shifts(part.source.lines, part.target.lines, dense=dense, progress=step).stretches
                wrong = [stretch for stretch in part.stretches if stretch.offset != 0]
                for stretch in wrong:
                    self.shift(part, stretch)
                first = wrong[0].first if wrong else None
            if part.uneven:
                self.uneven(part, first)

    def shift(self, part: Part, stretch: Stretch) -> None:
        (file, line), (_, last) = part.source.where(stretch.first - 1), part.source.where(stretch.last - 1)
        to_end = stretch.last == len(part)
        span = f"from line {line:,} on" if to_end else f"from line {line:,} to line {last:,}"
        other = part.target.files[0]
        if stretch.offset is None:
            whole = stretch.first == 1 and to_end
            message = f"{'the sides' if whole else span + ' the sides'} do not belong together"
            cure = "look whether a side was sorted or shuffled, or is another text"
        else:
            lines = f"{abs(stretch.offset):,} line{'s' * (abs(stretch.offset) > 1)}"
            down = stretch.offset > 0
            message = f"{span} the translations stand {lines} {'further down' if down else 'higher up'} in {other}"
            cause = (f"{lines} too many there, or missing here") if down else f"{lines} missing there, or too many here"
            cure = f"look near line {line:,}: {cause}; {option('write_clean')} pairs them again"
        extra = {"first": line, "last": last, "offset": stretch.offset, "target_file": other}
        count = stretch.last - stretch.first + 1
        self.findings.append(Finding("shift", "shift", file, line, message, cure, count=count, extra=extra))

    def uneven(self, part: Part, first: int | None) -> None:
        source, target = len(part.source.lines), len(part.target.lines)
        longer, shorter = (part.source, part.target) if source > target else (part.target, part.source)
        more = abs(source - target)
        file, line = longer.where(len(part) if first is None else min(first, len(longer.lines)) - 1)
        where = f"; they go apart near line {line:,}" if first is not None else ""
        names = {id(side): ", ".join(side.files) for side in part.sides}
        message = (
            f"the sides do not match: {names[id(longer)]} has {len(longer.lines):,} lines, {more:,} more than "
            f"{names[id(shorter)]}{where}"
        )
        cure = "line n of each side must translate line n"
        extra = {"source_lines": source, "target_lines": target}
        self.findings.append(Finding("shift", "uneven", file, line, message, cure, stops=True, count=more, extra=extra))

    def unknown_words(self, vocabulary: int | None) -> None:
        """The share of words that training does not show: of validation and test text, or of a part held out."""
        train = self.parts["train"]
        for side in train.sides:
            learned, held = coverage.split(side.lines)
            others = [part for name, part in self.parts.items() if name != "train"]
            if others:
                learned = sorted(learned + held)
            seen = coverage.count_words(side.lines, learned)
            same = [(part, there) for part in others for there in part.sides if there.name == side.name]
            for part, there in same:
                words = coverage.count_words(there.lines, range(len(there.lines)))
                self.corpus[part.name].setdefault("unknown_words", {})[side.name] = coverage.unknown(
                    seen, words, vocabulary
                )
            if not others and len(held) >= 20:
                words = coverage.count_words(side.lines, held)
                self.corpus["train"].setdefault("unknown_words", {})[side.name] = coverage.unknown(
                    seen, words, vocabulary
                )
            self.corpus["train"].setdefault("distinct_words", {})[side.name] = len(seen)
            self.corpus["train"].setdefault("words_per_line", {})[side.name] = (
                sum(seen.values()) / len(learned) if learned else 0.0
            )
            self.progress("words", 1, None)

    def everything(self, vocabulary: int | None = None) -> None:
        self.counts()
        self.characters()
        if any(len(part) == 0 for part in self.parts.values()):
            return
        self.shifts()
        self.emptiness()
        self.repetitions()
        self.leaks()
        self.sizes()
        self.languages()
        self.unknown_words(vocabulary)


def read_parts(files: dict[str, Sides], progress: Progress | None = None) -> dict[str, Part]:
    """{"train": {"source": […], "target": […]}, "valid": …} -> the text of each part."""
    parts, done = {}, 0

    def step(lines: int) -> None:
        nonlocal done
        done += lines
        if progress:
            progress("reading", done, None)

    for name, sides in files.items():
        if name == "train" and set(sides) != {"source", "target"}:
            missing = ({"source", "target"} - set(sides)).pop()
            raise UserError(f"no {missing} training text given", cure=f"give {option(missing, 'FILE')}")
        read = [read_side(sides[side], side, step) for side in ("source", "target") if side in sides]
        parts[name] = Part(name, read[0], read[-1], {}, [], lone=len(read) == 1)
    return parts


def check_corpus(
    files: dict[str, Sides], *, max_length: int = 256, vocabulary: int | None = None, progress: Progress | None = None
) -> tuple[Report, Check]:
    """The whole check. `vocabulary`: words that a word tokenizer with fallback=unk would keep."""
    began = time.monotonic()
    check = Check(read_parts(files, progress), max_length=max_length, progress=progress)
    check.everything(vocabulary)
    return Report(check.report(), check.corpus, seconds=time.monotonic() - began), check


def quick_findings(files: dict[str, Sides], *, max_length: int = 256) -> list[Finding]:
    """What can be told in a second or two: damaged characters, empty, identical, repeated, lopsided pairs, leaks,
    shifts."""
    check = Check(read_parts(files), max_length=max_length)
    check.counts()
    check.characters()
    if all(len(part) for part in check.parts.values()):
        check.shifts(quick=True)
        check.emptiness()
        check.repetitions()
        check.leaks()
        check.sizes()
    return check.report()
