"""What a person points at: a word, a number, a cell.

A word is found by its label; a label that occurs more than once, or has none, is pointed at by its number, from 0, as
layers and heads are counted. What is not there is answered by what is.
"""

from __future__ import annotations

from collections.abc import Sequence

from anaphora.errors import UserError
from anaphora.inspect.trace import Cell, Walk

SHOWN = 12
"""Labels that an error lists."""


def place(labels: Sequence[str], asked: str, what: str, words: Sequence[str] | None = None) -> int:
    """Where `asked` stands: by label, by the word that a label is a piece of (`words`), or by number from 0."""
    for names in (labels, words or ()):
        found = [number for number, label in enumerate(names) if label == asked]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(f"{number} ({labels[number]})" for number in found)
            raise UserError(f"{what} {asked!r} stands at {listed}", cure="give one of these numbers")
    if asked.isascii() and asked.isdecimal() and int(asked[:9]) < len(labels):
        return int(asked)
    raise UserError(f"there is no {what} {asked!r}", cure=f"there are {listing(labels)}")


def listing(labels: Sequence[str]) -> str:
    """0 the, 1 cat, 2 sat, …"""
    some = ", ".join(f"{number} {label}" for number, label in enumerate(labels[:SHOWN]))
    return some if len(labels) <= SHOWN else f"{some}, … {len(labels) - 1} {labels[-1]}"


def cell(walk: Walk, asked: str) -> Cell:
    """The arithmetic of ROW,COLUMN; a comma may be a word itself, so each comma is tried."""
    steps = walk.scored()
    if not steps:
        raise UserError(f"{walk.title} has no table of queries and keys", cure="leave out --cell")
    rows, columns = steps[0].rows, steps[0].columns
    commas = [number for number, character in enumerate(asked) if character == ","]
    if not commas:
        raise UserError(f"--cell {asked} names no column", cure="write --cell ROW,COLUMN with words or numbers from 0")
    problem: UserError | None = None
    for comma in commas:
        try:
            row = place(rows, asked[:comma].strip(), "row")
            return walk.explain(row, place(columns, asked[comma + 1 :].strip(), "column"))
        except UserError as error:
            problem = problem or error
    assert problem is not None
    raise problem
