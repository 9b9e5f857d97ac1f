"""What a check tells: findings, each with its kind, file, lines, a message and a cure.

Lines with the same problem in the same file are one `Finding`, which lists them all (up to `MAX_LISTED_LINES`). For
programs `Report.document()` spells out one entry a line, so that each planted mistake can be looked up by file and
line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from anaphora.errors import option
from anaphora.results import brief, html_table

FINDING_KINDS = ("shift", "duplicate", "leak", "encoding", "empty", "ratio", "length", "language")
MAX_LISTED_LINES = 100_000  # lines that one finding names at most
MAX_DOCUMENT_ENTRIES = (
    10_000  # entries of one finding in the JSON document at most; its `lines` in `classes` has the rest
)


@dataclass
class Finding:
    """One problem of one file."""

    kind: str
    """Its sort: empty, encoding, duplicate, shift …"""
    problem: str
    """Finer than the kind: `mojibake` and `bom` are both of kind `encoding`."""
    file: str
    """Where it was found."""
    line: int | None
    """The first line that has it, from 1; None where it is the whole file."""
    message: str
    """What is wrong, in a sentence."""
    cure: str
    """What to do about it."""
    count: int = 1
    """How many lines have it."""
    stops: bool = False
    """Whether training would refuse the corpus because of it."""
    lines: list[int] = field(default_factory=list)
    """The numbers of the first of them."""
    details: dict[int, str] = field(default_factory=dict)
    """By line: what is reported of it, where that is more than the message."""
    extra: dict[str, Any] = field(default_factory=dict)
    """More about it, by kind."""

    def __repr__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return brief("Finding", self.message, self.kind, where, "stops training" if self.stops else "")

    def entries(self) -> list[dict[str, Any]]:
        """One entry a line."""
        shared = {"kind": self.kind, "problem": self.problem, "file": self.file}
        rest = {"cure": self.cure, "stops": self.stops}
        if not self.lines:
            return [{**shared, "line": self.line, "message": self.message, **rest, **self.extra}]
        return [
            {**shared, "line": line, "message": self.details.get(line, self.message), **rest, **self.extra}
            for line in self.lines[:MAX_DOCUMENT_ENTRIES]
        ]

    def summary(self) -> dict[str, Any]:
        """The class of lines as a whole."""
        return {
            "kind": self.kind,
            "problem": self.problem,
            "file": self.file,
            "line": self.line,
            "message": self.message,
            "cure": self.cure,
            "stops": self.stops,
            "count": self.count,
            "lines": self.lines,
            "lines_listed": len(self.lines),
            **self.extra,
        }

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.message}; {self.cure}"


@dataclass
class Report:
    """The outcome of a check."""

    findings: list[Finding]
    """In the order of the files."""
    corpus: dict[str, Any]
    """Counts that are no problem: lines, words, repeated sides, unknown words."""
    proposal: dict[str, Any] | None = None
    """What training would be like here (tasks/proposal.py), where it was asked for."""
    cleaned: dict[str, Any] | None = None
    """What `write_clean` wrote and dropped."""
    seconds: float = 0.0
    """That the check took."""

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in self.findings))
        number = len(self.findings)
        found = f"{number} finding{'s' * (number != 1)}: {kinds}" if number else "no problems found"
        return brief("Report", None, found, "training would refuse this corpus" if self.stops else "")

    def _repr_html_(self) -> str:
        rows = [
            (one.kind, one.file, "" if one.line is None else str(one.line), one.message, one.cure)
            for one in self.findings
        ]
        return html_table(("kind", "file", "line", "problem", "cure"), rows, caption="" if rows else repr(self), left=5)

    @property
    def stops(self) -> bool:
        """Would training refuse this corpus?"""
        return any(finding.stops for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """Of the command line: 2 where training would refuse the corpus, else 0."""
        return 2 if self.stops else 0

    def of_kind(self, kind: str) -> list[Finding]:
        """Those of one kind: `report.of_kind("shift")`."""
        return [finding for finding in self.findings if finding.kind == kind]

    def document(self) -> dict[str, Any]:
        """For programs: see docs/check.md."""
        entries = [entry for finding in self.findings for entry in finding.entries()]
        return {
            "findings": entries,
            "classes": [finding.summary() for finding in self.findings],
            "stops": self.stops,
            "corpus": self.corpus,
            "proposal": self.proposal,
            "cleaned": self.cleaned,
            "seconds": round(self.seconds, 2),
            "listed_at_most": {"findings": MAX_DOCUMENT_ENTRIES, "lines": MAX_LISTED_LINES},
        }


WORDING: dict[str, tuple[str, str, str, str]] = {
    # problem: kind, one line, many lines, cure
    "utf8": (
        "encoding",
        "this line is not UTF-8",
        "{n} lines are not UTF-8",
        "convert the file with the encoding it has (iconv -f LATIN1 -t UTF-8), or, where other lines are UTF-8, "
        "correct or drop these ({clean} drops them)",
    ),
    "nul": (
        "encoding",
        "this line contains NUL",
        "{n} lines contain NUL",
        "the file may be UTF-16 or binary; use iconv",
    ),
    "bom": (
        "encoding",
        "the file begins with a byte-order mark",
        "the file begins with a byte-order mark",
        "training ignores it; save as UTF-8 without BOM",
    ),
    "crlf": (
        "encoding",
        r"this line ends in \r\n",
        r"{n} lines end in \r\n",
        r"read as \n in training; dos2unix converts the file",
    ),
    "replacement": (
        "encoding",
        "this line contains U+FFFD, the mark of a lost character",
        "{n} lines contain U+FFFD, the mark of a lost character",
        "convert the original again, or drop it",
    ),
    "mojibake": (
        "encoding",
        "this line is UTF-8 read as Latin-1 and saved again",
        "{n} lines are UTF-8 read as Latin-1 and saved again",
        "{clean} repairs it",
    ),
    "control": (
        "encoding",
        "this line contains control characters",
        "{n} lines contain control characters",
        "{clean} removes them",
    ),
    "separator": (
        "encoding",
        "this line contains a separator such as U+2028",
        "{n} lines contain separators such as U+2028",
        "other tools begin a new line there; {clean} replaces them by spaces",
    ),
    "empty": (
        "empty",
        "a side of this pair is empty",
        "{n} pairs have an empty side",
        "left out of training; drop both sides",
    ),
    "identical": (
        "language",
        "both sides of this pair are the same",
        "{n} pairs have the same text on both sides",
        "a model learns to copy from them; drop what is not translated",
    ),
    "script": (
        "language",
        "this line is in another script than its side",
        "{n} lines are in another script than their side",
        "correct it or drop it",
    ),
    "language": (
        "language",
        "this line reads like the other side's language",
        "{n} lines read like the other side's language",
        "translate it or drop it",
    ),
    "duplicate": (
        "duplicate",
        "this pair repeats an earlier one",
        "{n} pairs repeat earlier ones",
        "keep each once, unless the repetition is intended",
    ),
    "leak": (
        "leak",
        "this pair is in the evaluation text too",
        "{n} pairs are in the evaluation text too",
        "drop it here: scores would measure memorization",
    ),
    "leak-source": (
        "leak",
        "this source line is in the evaluation text too",
        "{n} source lines are in the evaluation text too{alone}",
        "drop it here, or expect inflated scores",
    ),
    "leak-target": (
        "leak",
        "this target line is in the evaluation text too",
        "{n} target lines are in the evaluation text too{alone}",
        "drop it here, or expect inflated scores",
    ),
    "repeat": (
        "duplicate",
        "this line repeats an earlier one",
        "{n} lines repeat earlier ones",
        "keep each once, unless the repetition is intended",
    ),
    "boilerplate": (
        "duplicate",
        "this line occurs {times} times or more",
        "{n} lines repeat lines that occur {times} times or more, as headers, footers and menus do",
        "a model would learn to generate them over and over; {clean} keeps each once",
    ),
    "leak-line": (
        "leak",
        "this line is in the {text} text too",
        "{n} lines are in the {text} text too",
        "drop it here: scores would measure memorization",
    ),
    "long-line": (
        "length",
        "this line has more than {limit} characters",
        "{n} lines have more than {limit} characters",
        "are line ends missing? Lines are cut at the model's maximum length",
    ),
    "script-line": (
        "language",
        "this line is in another script than the text",
        "{n} lines are in another script than the text",
        "correct it or drop it",
    ),
    "ratio": (
        "ratio",
        "one side is far longer than the other",
        "{n} pairs have one side far longer than the other",
        "check that they translate each other; drop those that do not",
    ),
    "long": (
        "length",
        "this pair has a side of more than {limit} tokens",
        "{n} pairs have a side of more than {limit} tokens",
        "left out of training; split them into sentences",
    ),
    "huge": (
        "length",
        "this line has more than 1 MB",
        "{n} lines have more than 1 MB",
        "left out of training; are line ends missing?",
    ),
}
STOPPING = {"utf8", "nul"}


def finding(
    problem: str, file: str, lines: Iterable[int], *, details: dict[int, str] | None = None, **words: Any
) -> Finding:
    """The finding of some lines of a file with a known problem."""
    lines = list(lines)
    kind, one, many, cure = WORDING[problem]
    details = {line: one.format(**words) for line in lines[:MAX_DOCUMENT_ENTRIES]} | (details or {})
    message = details[lines[0]] if len(lines) == 1 else many.format(n=f"{len(lines):,}", **words)
    extra = {key: value for key, value in words.items() if key == "of"}
    return Finding(
        kind,
        problem,
        file,
        lines[0],
        message,
        cure.format(clean=option("write_clean")),
        count=len(lines),
        stops=problem in STOPPING,
        lines=lines[:MAX_LISTED_LINES],
        details=details,
        extra=extra,
    )
