"""Labels of lines: the classes of a text that is to be told apart, one label for each line of it.

The prepared text holds the class of every line that was kept as a number (`train.classes`, `valid.classes`, uint32),
and its manifest their names in order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anaphora.data.data_settings import DataConfig
from anaphora.data.formats import read_blocks, read_column
from anaphora.errors import UserError

TRAIN_CLASSES, VALID_CLASSES = "train.classes", "valid.classes"
Keep = Callable[[bytes], bool]
"""Whether a line, without its newline, is part of the text."""


def label_prints(data: DataConfig) -> dict[str, str]:
    """What the labels of a text are known by."""
    named = {"labels": data.labels, "valid_labels": data.valid_labels}
    return {name: _print(files) for name, files in named.items() if files}


def _print(files: list[str]) -> str:
    found = hashlib.sha256()
    for number, label in enumerate(read_column(files, "labels", Counter())):
        found.update(f"\n{label}".encode() if number else label.encode())
    return found.hexdigest()


def write_classes(folder: Path, data: DataConfig, held_out: NDArray[np.int64], keep: Keep) -> list[str]:
    """Write the class of each line, and tell their names. held_out: places, among the lines kept, of those that are not
    learned from."""
    labels = list(_labeled(data.text, data.labels, keep))
    aside = set(held_out.tolist())
    train = [label for place, (_, label) in enumerate(labels) if place not in aside]
    names = sorted(set(train))
    if len(names) < 2:
        raise UserError(
            f"there is only one label, {names[0]!r}", file=data.labels[0], cure="a classifier needs at least two"
        )
    numbers = {name: number for number, name in enumerate(names)}
    (folder / TRAIN_CLASSES).write_bytes(np.array([numbers[label] for label in train], np.uint32).data)
    if data.valid_labels:
        valid, cure = list(_labeled(data.valid_text, data.valid_labels, keep)), "every class needs some there too"
    else:
        valid = [labels[place] for place in held_out.tolist()]
        cure = "this line is held out: give the class more lines, or set another data.seed"
    for line, label in valid:
        if label not in numbers:
            raise UserError(
                f"the label {label!r} is not in the training labels ({', '.join(names[:10])})",
                file=(data.valid_labels or data.labels)[0],
                line=line,
                cure=cure,
            )
    if valid:
        (folder / VALID_CLASSES).write_bytes(np.array([numbers[label] for _, label in valid], np.uint32).data)
    return names


def _labeled(files: list[str], labels: list[str], keep: Keep) -> Iterator[tuple[int, str]]:
    """The number, from 1 on, and the label of every line that is kept."""
    names = read_column(labels, "labels", Counter())
    texts = (line for block in read_blocks(files, "text", Counter()) for line in block.split(b"\n")[:-1])
    for number, (line, name) in enumerate(zip_longest(texts, names), start=1):
        if line is None or name is None:
            lines = number + sum(1 for _ in (names if line is None else texts))
            more, fewer = ("labels", "lines of text") if line is None else ("lines of text", "labels")
            raise UserError(
                f"there are {lines:,} {more}, but only {number - 1:,} {fewer}",
                file=labels[0],
                cure="give one label for each line of the text, blank ones too",
            )
        if not keep(line):  # whatever its label is
            continue
        if not name.strip():
            raise UserError("has no label", file=labels[0], line=number, cure="give every line one")
        yield number, name.strip()
