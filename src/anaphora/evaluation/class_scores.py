"""How good a classifier is: accuracy beside that of the commonest label, and precision, recall and F1 of every class.

Of the lines that belong to a class, *recall* is the share that was recognized; of the lines that were put into it,
*precision* is the share that belongs there; F1 is their harmonic mean, and *macro F1* the plain mean of F1 over
classes, so that a rare class counts as much as a common one. Classes are the labels that occur, correct or given. A
share of nothing is 0. The numbers are those of scikit-learn's classification_report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anaphora.errors import option
from anaphora.results import brief, count, figure, html_table

WIDTH_COLUMNS = 80
METRIC_NAMES = ("precision", "recall", "F1", "lines")
CONFUSIONS = 10
"""Pairs of classes that are listed where the matrix is too wide."""


@dataclass(frozen=True)
class ClassScore:
    """How well one class is told from the others."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    """Lines that belong to the class."""
    predicted: int
    """Lines that were put into it."""


@dataclass(frozen=True)
class ClassificationReport:
    """How a classifier's answers compare with the correct labels."""

    lines: int
    """That were classified."""
    correct: int
    """Lines whose label was found."""
    accuracy: float
    """Their share."""
    macro_f1: float
    """The mean of the classes' F1, each class counting alike."""
    majority_label: str
    """The commonest of the correct labels."""
    majority_baseline: float
    """The accuracy of a classifier that always gives that one."""
    classes: list[ClassScore]
    """Precision, recall and F1 of each."""
    confusion: list[list[int]]
    """Lines by correct label (rows) and by the one given (columns), in the order of `classes`."""

    def __repr__(self) -> str:
        scores = f"accuracy {self.accuracy:.2%}", f"macro F1 {figure(100 * self.macro_f1)}"
        return brief(
            "ClassificationReport",
            None,
            *scores,
            count(self.lines, "line"),
            count(len(self.classes), "class", "classes"),
        )

    def _repr_html_(self) -> str:
        def measured(one: ClassScore) -> list[str]:
            return [
                one.label,
                *(figure(value, ".4f") for value in (one.precision, one.recall, one.f1)),
                f"{one.support:,}",
            ]

        heads = ("class", "precision", "recall", "F1", "lines")
        labels = [one.label for one in self.classes]
        counts = [[label, *(f"{value:,}" for value in row)] for label, row in zip(labels, self.confusion)]
        shades = [[value / max(sum(row), 1) for value in row] for row in self.confusion]
        return html_table(heads, map(measured, self.classes), caption=repr(self)) + html_table(
            ["confusion", *labels], counts, caption="rows: what a line is; columns: what the model says", shades=shades
        )

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self.table())

    def table(self, width: int = WIDTH_COLUMNS) -> Iterator[str]:
        """The numbers, the classes and the confusion matrix, in lines of at most `width` columns."""
        yield f"accuracy {self.accuracy:.2%} ({self.correct:,} of {self.lines:,}), macro F1 {100 * self.macro_f1:.2f}"
        yield _cut(f"majority baseline {self.majority_baseline:.2%} (always {self.majority_label!r})", width)
        yield ""
        room = max(5, min(max(map(len, (one.label for one in self.classes)), default=5), width - 4 * 11))
        yield f"{'class':<{room}}" + "".join(f"{name:>11}" for name in METRIC_NAMES)
        for one in self.classes:
            shares = "".join(f"{100 * value:>11.2f}" for value in (one.precision, one.recall, one.f1))
            yield f"{_cut(one.label, room):<{room}}{shares}{one.support:>11,}"
        yield ""
        yield from self._matrix(width)

    def _matrix(self, width: int) -> Iterator[str]:
        cells = [[f"{value:,}" for value in row] for row in self.confusion]
        names = [one.label for one in self.classes]
        room = min(max([8, *map(len, names)]), 20)
        wide = [min(max([5, len(name), *map(len, column)]), 12) + 2 for name, column in zip(names, zip(*cells))]
        if room + sum(wide) > width:
            yield from self._confusions(width)
            return
        yield "lines by correct label (rows) and predicted label (columns)"
        yield " " * room + "".join(f"{_cut(name, size - 2):>{size}}" for name, size in zip(names, wide))
        for name, row in zip(names, cells):
            yield f"{_cut(name, room):<{room}}" + "".join(f"{cell:>{size}}" for cell, size in zip(row, wide))

    def _confusions(self, width: int) -> Iterator[str]:
        names = [one.label for one in self.classes]
        wrong = [
            (value, i, j) for i, row in enumerate(self.confusion) for j, value in enumerate(row) if i != j and value
        ]
        wrong.sort(key=lambda one: (-one[0], one[1:]))
        whole = option("json", python="`confusion`")
        yield f"most frequent confusions ({len(names)} classes; the whole matrix is in {whole})"
        for value, i, j in wrong[:CONFUSIONS]:
            yield _cut(f"{value:>7,}  {names[i]} predicted as {names[j]}", width)


def report_of(correct: Sequence[str], predicted: Sequence[str], order: Sequence[str] = ()) -> ClassificationReport:
    """Compare answers with the correct labels, line by line; classes stand in the given order, others behind it."""
    if len(correct) != len(predicted):
        raise ValueError(f"{len(predicted)} answers for {len(correct)} labels")
    there = {*correct, *predicted}
    names = [*(label for label in order if label in there), *sorted(there.difference(order))]
    place = {name: number for number, name in enumerate(names)}
    confusion = [[0] * len(names) for _ in names]
    for pair, lines in Counter(zip(correct, predicted)).items():
        confusion[place[pair[0]]][place[pair[1]]] = lines
    classes = []
    for name, number in place.items():
        right, support = confusion[number][number], sum(confusion[number])
        given = sum(row[number] for row in confusion)
        precision, recall = right / given if given else 0.0, right / support if support else 0.0
        classes.append(ClassScore(name, precision, recall, 2 * right / (given + support), support, given))
    most = max(classes, key=lambda one: one.support, default=ClassScore("", 0.0, 0.0, 0.0, 0, 0))
    right, lines = sum(confusion[number][number] for number in place.values()), len(correct)
    return ClassificationReport(
        lines=lines,
        correct=right,
        accuracy=right / lines if lines else 0.0,
        macro_f1=sum(one.f1 for one in classes) / len(classes) if classes else 0.0,
        majority_label=most.label,
        majority_baseline=most.support / lines if lines else 0.0,
        classes=classes,
        confusion=confusion,
    )


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
