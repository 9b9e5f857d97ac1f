"""The rows of a comparison, as they are written: `NAME=RECIPE:section.key=value,section.key=value`.

    lstm                                    a recipe by its own name
    bigram                                  a short form: ngram:model.order=2
    ngram:model.order=3                     a recipe with a setting; the row is called ngram-order3
    wide=lstm:model.dim=256,model.layers=2  the same with two settings, and a name of one's own
    gnmt+rl                                 a recipe with an ending: what is made of its model (combining.py)

Rows are parted by commas or blanks. What stands after a comma and looks like a setting belongs to the row before it, so
no name of a row may have a dot. One word may stand for several rows (`sets`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anaphora.arguments.given import words_of
from anaphora.errors import UserError, nearest, option
from anaphora.tasks.recipes import SECTIONS, Document, recipe_names
from anaphora.tasks.request import said_settings

SYNTAX = "write RECIPE, RECIPE:section.key=value or NAME=RECIPE:section.key=value"
NAME = re.compile(r"[\w+-]{1,40}")
SETTING = re.compile(rf"(?:{'|'.join(SECTIONS)})\.\w+=")


@dataclass(frozen=True)
class Entry:
    """One row that is asked for."""

    name: str
    """Also that of its folder."""
    recipe: str
    settings: Document = field(default_factory=dict)
    """Its own settings, by section."""
    endings: tuple[str, ...] = ()
    """What is made of it, step by step: of gnmt+rl+ensemble they are rl and ensemble."""
    after: tuple[str, ...] = ()
    """Rows that must be there before it, since it is made of them."""
    together: bool = False
    """It is nothing but those rows, as one; otherwise it starts from the only one of them and learns on."""
    shown: bool = True
    """In the table; others are there only because a row is made of them."""

    @property
    def written(self) -> str:
        """As it could be asked for."""
        said = ",".join(
            f"{section}.{key}={value}" for section, own in self.settings.items() for key, value in own.items()
        )
        what = "+".join([self.recipe, *self.endings])
        row = f"{what}:{said}" if said else what
        return row if not said and self.name == what else f"{self.name}={row}"


def read_entries(
    words: Iterable[str],
    short_forms: Mapping[str, str],
    *,
    sets: Mapping[str, str] | None = None,
    ending: re.Pattern[str] | None = None,
) -> list[Entry]:
    """The rows of `--recipes`, in the order in which they are named. ending: what may follow a recipe after a +."""
    entries: list[Entry] = []
    known = sets or {}
    for written in [one for word in parted(words) for one in (known[word].split() if word in known else [word])]:
        entry = _entry(written, short_forms, ending)
        twin = next((one for one in entries if one.name == entry.name), None)
        if twin is not None and twin == entry:
            raise UserError(f"the row {entry.name} is asked for twice", cure="leave one of them out")
        if twin is not None:
            raise UserError(
                f"two different rows are called {entry.name}", cure=f"name one: other={entry.written.partition('=')[2]}"
            )
        entries.append(entry)
    if not entries:
        raise UserError(
            "no recipes to compare",
            cure=f"name some, {option('recipes', 'ngram,lstm')}, or leave {option('recipes')} out for all",
        )
    names = {entry.name for entry in entries if not entry.endings}
    for entry in entries:
        if entry.recipe not in names or not entry.endings:  # else it is made of a row of that name
            _check_recipe(entry.recipe, [*short_forms, *known])
    return entries


def parted(words: Iterable[str]) -> list[str]:
    """One string a row: cut at commas and blanks outside brackets, settings put back behind the row they belong to."""
    rows: list[str] = []
    for word in words_of(words, "recipes"):
        for piece in re.split(r"[,\s]+(?![^\[]*\])", word):
            if SETTING.match(piece):
                if not rows or ":" not in rows[-1]:
                    raise UserError(f"the setting {piece!r} follows no row with a colon", cure=SYNTAX)
                rows[-1] += f",{piece}"
            elif piece:
                rows.append(piece)
    return rows


def parted_endings(written: str, ending: re.Pattern[str] | None) -> tuple[str, tuple[str, ...]]:
    """gnmt+rl+ensemble is gnmt, and (rl, ensemble)."""
    root, endings = written, list[str]()
    while ending is not None:
        before, plus, last = root.rpartition("+")
        if not plus or not before or not ending.fullmatch(last):
            break
        root, endings = before, [last, *endings]
    return root, tuple(endings)


def _check_recipe(recipe: str, others: Sequence[str]) -> None:
    if Path(recipe).suffix not in (".yaml", ".yml") and recipe not in recipe_names():
        raise UserError(f"there is no recipe {recipe!r}", cure=nearest(recipe, [*others, *recipe_names()]))


def _entry(written: str, short_forms: Mapping[str, str], ending: re.Pattern[str] | None) -> Entry:
    head, _, said = written.partition(":")
    name, equals, recipe = head.rpartition("=")
    if equals and not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} in {written!r} is no name for a row", cure="take letters, digits, + - and _, forty at most"
        )
    given, (root, endings) = recipe, parted_endings(recipe, ending)
    form = root if endings else short_forms.get(root, root)
    recipe, _, usual = form.partition(":")
    if not recipe or (":" in written and not said):
        raise UserError(f"{written!r} names no row", cure=SYNTAX)
    own = said_settings(_settings(said))
    settings = said_settings(_settings(usual))
    for section, values in own.items():
        settings.setdefault(section, {}).update(values)
    return Entry(name or _called(given, own), recipe, settings, endings)


def _settings(said: str) -> Sequence[str]:
    return [one for one in re.split(r",(?![^\[]*\])", said) if one]


def _called(recipe: str, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """A name that is a folder's too: lstm:model.dim=64 is lstm-dim64."""
    own = [f"{key}{value}" for values in settings.values() for key, value in values.items()]
    return re.sub(r"[^\w+-]+", "-", "-".join([Path(recipe).stem if "." in recipe else recipe, *own])).strip("-")[:40]
