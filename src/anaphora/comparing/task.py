"""What is compared: the seam between a comparison, which knows of rows, folders and costs, and a sort of model.

A comparison runs `anaphora train` once a row and lays the results side by side. All that is particular to a sort of
model (which recipes there are, what text they share, how good means, how fast they speak) is behind `Task`;
language_comparison.py has that of language models, translation_comparison.py that of translators,
comparison_settings.py what both have in common.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anaphora.comparing.budget import Budget
from anaphora.comparing.rows import Entry
from anaphora.tasks.recipes import Document
from anaphora.training.reporting import RunReporter


@dataclass(frozen=True)
class Column:
    """One column of the report."""

    key: str
    """Of a row's values, in CSV and JSON."""
    head: str
    """In the terminal: two short words at most."""
    form: Callable[[Any], str]
    """A value as people read it."""
    meaning: str
    """In a sentence, for the report."""


@dataclass(frozen=True)
class Extract:
    """Another table beside that of the rows: some of them with what others have found."""

    title: str
    heads: Sequence[str]
    """Of its columns; the first one is that of the names."""
    lines: Sequence[Sequence[str]]
    source: str
    """Where the figures come from, and what to mind about them."""


@dataclass
class Plan:
    """What a row is about to do, as far as that is known before it begins."""

    settings: Document = field(default_factory=dict)
    """All that `train` is told, by section, but for the files."""
    counted: bool = False
    """It reads the text once and learns nothing by gradients."""
    parameters: int | None = None
    tokens: int | None = None
    """To learn from, repetitions included; nothing where time is the limit."""
    flops: float | None = None
    steps: int | None = None
    seconds: float | None = None
    """Estimated."""
    note: str = ""
    """For the run list: what else is to be known."""


class Task(ABC):
    """One sort of model, and one text."""

    name: str
    """In report.json: a folder holds comparisons of one sort."""
    usual: str
    """The rows that are compared where nobody names any."""
    short_forms: Mapping[str, str]
    """Rows by a name of their own: {"bigram": "ngram:model.order=2"}."""
    sets: Mapping[str, str]
    """Several rows by one name."""
    ending: re.Pattern[str] | None
    """What may follow a row's recipe after a +."""
    columns: Sequence[Column]
    """How good a row is; the first one is drawn against cost."""
    costs: Sequence[Column]
    """What it took."""
    timed: str
    """The one of them that is told only if nothing else ran while it was measured."""
    lower_is_better: bool
    ruler: str = ""
    """What `measure` goes by; rows that were measured by another one are measured again. Known after `prepare`."""

    def expand(self, asked: Sequence[Entry]) -> list[Entry]:
        """The rows that are asked for and those that they are made of, each after what it is made of."""
        return list(asked)

    @abstractmethod
    def check(self, entry: Entry, budget: Budget | None) -> None:
        """A row that cannot be compared with the others is refused, before any work."""

    @abstractmethod
    def prepare(self, folder: Path, entries: Sequence[Entry], *, force: bool, reporter: RunReporter) -> None:
        """Make the text that all rows share, or find it there; another text than it was made of is refused unless
        forced."""

    def text_of(self, folder: Path, entry: Entry) -> Path:
        """Where in that folder the text of a row is; made anew, it is another folder of the same name."""
        return folder

    @abstractmethod
    def shared(self) -> dict[str, Any]:
        """What all rows have in common, for the report."""

    @abstractmethod
    def plan(self, entry: Entry, budget: Budget | None) -> Plan:
        """The settings of a row and its cost; after `prepare`."""

    @abstractmethod
    def try_out(self, entry: Entry, plan: Plan) -> float | None:
        """Seconds that a row will take, found by some real updates; nothing where that cannot be told."""

    @abstractmethod
    def begin(self, entry: Entry, run: Path) -> None:
        """Give a new run folder the shared text, so that it need not be prepared again."""

    @abstractmethod
    def arguments(self, entry: Entry, plan: Plan, run: Path) -> list[str]:
        """What follows `anaphora`: the row is trained, or put together, into the folder `run`."""

    @abstractmethod
    def finished(self, run: Path) -> bool:
        """Whether the run in that folder has come to its end."""

    @abstractmethod
    def result(self, entry: Entry, run: Path) -> dict[str, Any]:
        """The values of a finished run; one that had other text than the rest is refused."""

    @abstractmethod
    def measure(self, run: Path) -> dict[str, Any]:
        """What is measured of a finished row: how fast it speaks, and the test text."""

    def notes(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """What a reader of the table must know, in sentences. The rows are all there are, shown or not."""
        return []

    def extracts(self, rows: Sequence[Mapping[str, Any]]) -> list[Extract]:
        """Tables beside that of the rows."""
        return []
