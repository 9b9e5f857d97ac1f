"""What a person points at: a word, a number, a cell.

A word is found by its label; a label that occurs more than once, or has none, is pointed at by its number, from 0, as
layers and heads are counted. `#2` is the number 2 even where a word is called "2". What is not there, and what could be
two things, is answered by what there is.
"""

from __future__ import annotations

from collections.abc import Sequence

from anaphora.errors import UserError, option
from anaphora.explain.trace_parts import Cell, Walk

MAX_LISTED_LABELS = 12
"""Labels that an error lists."""


def place(labels: Sequence[str], asked: str, what: str, words: Sequence[str] = (), first: int = 0) -> int:
    """Where among the labels `asked` stands: by label, by the word that a label is a piece of (`words`), or by number.

    `first` is the number of the first label: of a sentence of which one row is shown, words keep their numbers.
    """
    numbers = range(first, first + len(labels))
    digits = asked.removeprefix("#")
    number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 9 else -1
    counted = number - first if number in numbers else None
    if asked.startswith("#") and counted is not None:
        return counted
    for names in (labels, words):
        found = [place for place, label in enumerate(names) if label == asked]
        if found and counted is not None and counted not in found:
            named = ", ".join(f"#{numbers[place]}" for place in found)
            raise UserError(
                f"{what} {asked!r} is the name of {named} and the number of {labels[counted]!r}",
                cure=f"write {named} or #{number}",
            )
        if len(found) == 1:
            return found[0]
        if found:
            mark = "" if counted is None else "#"
            listed = ", ".join(f"{mark}{numbers[place]} ({labels[place]})" for place in found)
            raise UserError(f"{what} {asked!r} stands at {listed}", cure="give one of these numbers")
    if counted is not None:
        return counted
    raise UserError(f"there is no {what} {asked!r}", cure=f"there are {listing(labels, first)}")


def listing(labels: Sequence[str], first: int = 0) -> str:
    """0 the, 1 cat, 2 sat, …"""
    some = ", ".join(f"{number} {label}" for number, label in enumerate(labels[:MAX_LISTED_LABELS], start=first))
    return some if len(labels) <= MAX_LISTED_LABELS else f"{some}, … {first + len(labels) - 1} {labels[-1]}"


def cell(walk: Walk, asked: str) -> Cell:
    """The arithmetic of ROW,COLUMN; a comma may be a word itself, so each comma is tried."""
    steps = walk.scored()
    if not steps:
        raise UserError(f"{walk.title} has no table of queries and keys", cure=f"leave out {option('cell')}")
    rows, columns = steps[0].rows, steps[0].columns
    commas = [number for number, character in enumerate(asked) if character == ","]
    if not commas:
        cure = f"write {option('cell', 'ROW,COLUMN')} with words or numbers from 0"
        raise UserError(f"{option('cell', asked)} names no column", cure=cure)
    problem: UserError | None = None
    for comma in commas:
        try:
            row = place(rows, asked[:comma].strip(), "row", walk.row_words, walk.first_row)
            return walk.explain(row, place(columns, asked[comma + 1 :].strip(), "column", walk.column_words))
        except UserError as error:
            problem = problem or error
    assert problem is not None
    raise problem
