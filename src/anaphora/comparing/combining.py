"""Rows that are made of other rows, as the published tables have them: an ending says what is done with a model.

    transformer+big              twice as wide: what Transformer (big) is to Transformer (base)
    deep-att+posunk              whole words, and unknown ones replaced through the alignment
    gnmt+rl                      the row gnmt, then reinforced: it learns on from its own translations
    convs2s+ensemble             three seeds of the row convs2s, as one; +ensemble8 has eight
    gnmt+rl+ensemble             three seeds of gnmt, each reinforced, as one

What stands before an ending is a row of the same command by its name, or else a recipe. Settings behind a colon are
those of the last step (`gnmt+rl:training.candidates=4`); whoever wants others for the steps before names those as rows.
Steps that nobody asks to see are done all the same, and are not shown in the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from anaphora.comparing.rows import Entry, parted_endings
from anaphora.config import merge
from anaphora.errors import UserError
from anaphora.tasks.recipes import Document

ENDING = re.compile(r"big|posunk|rl|ensemble(\d{1,2})?")
MEMBERS = 3
MAX_MEMBERS = 16
STARTED: Document = {"training": {"objective": "reinforce"}}
WORD_TOKENIZER: Document = {"tokenizer": {"kind": "word", "fallback": "unk", "shared": False}}


def combined(asked: Sequence[Entry], seed: Callable[[Entry], int]) -> list[Entry]:
    """All that is to be trained or put together for these rows, each after what it is made of. seed: that of a row."""
    return _Workshop(asked, seed).all()


class _Workshop:
    def __init__(self, asked: Sequence[Entry], seed: Callable[[Entry], int]) -> None:
        self.asked: Mapping[str, Entry] = {entry.name: entry for entry in asked}
        self.seed = seed
        self.known: dict[str, Entry] = {}
        self.needed: dict[str, Entry] = {}

    def all(self) -> list[Entry]:
        for name in self.asked:
            self.need(self.define(name))
        return list(self.needed.values())

    def need(self, entry: Entry) -> None:
        for name in entry.after:
            self.need(self.define(name))
        self.needed.setdefault(entry.name, entry)

    def define(self, name: str) -> Entry:
        """What a row is; that of one that nobody asked for follows from its name."""
        if name not in self.known:
            root, endings = parted_endings(name, ENDING)
            self.known[name] = self.step(self.asked.get(name) or Entry(name, root, {}, endings, shown=False))
        return self.known[name]

    def step(self, entry: Entry) -> Entry:
        """A row without endings is what it is; another one is made, by its last ending, of the row before."""
        if not entry.endings:
            return entry
        last = entry.endings[-1]
        below = self.define("+".join([entry.recipe, *entry.endings[:-1]]))
        entry = replace(entry, recipe=below.recipe, endings=(*below.endings, last))
        if last.startswith("ensemble"):
            return replace(entry, after=self.members(entry, below, last), together=True)
        if below.together:
            raise UserError(
                f"{entry.name}: an ensemble learns nothing more",
                cure=f"put +ensemble at the end: {entry.recipe}+{last}+ensemble",
            )
        if last == "rl":
            kept = {section: values for section, values in below.settings.items() if section == "decoding"}
            seeded = {"training": {"seed": seed}} if (seed := below.settings.get("training", {}).get("seed")) else {}
            return replace(entry, settings=merge(kept, STARTED, seeded, entry.settings), after=(below.name,))
        if below.after:
            raise UserError(
                f"{entry.name}: +{last} changes what is learned from the beginning",
                cure=f"let it come first: {below.recipe}+{last}+{'+'.join(below.endings)}",
            )
        words = WORD_TOKENIZER if last == "posunk" else {}
        return replace(entry, settings=merge(below.settings, words, entry.settings))

    def members(self, entry: Entry, below: Entry, ending: str) -> tuple[str, ...]:
        many = int(ending.removeprefix("ensemble") or MEMBERS)
        if not 2 <= many <= MAX_MEMBERS:
            raise UserError(
                f"{entry.name}: an ensemble has 2 to {MAX_MEMBERS} members, not {many}", cure="write +ensemble3"
            )
        if below.together:
            raise UserError(f"{entry.name} is an ensemble of an ensemble", cure="write +ensemble once, with a number")
        if entry.settings:
            section = next(iter(entry.settings))
            raise UserError(
                f"{entry.name}: an ensemble has no {section} settings of its own",
                cure=f"set those of the row {below.name}",
            )
        return (below.name, *(self.with_seed(below, self.seed(below) + more).name for more in range(1, many)))

    def with_seed(self, entry: Entry, seed: int) -> Entry:
        """The same row once more, from another beginning."""
        name = f"{entry.name}-seed{seed}"
        if name not in self.known:
            begun = [self.define(one) for one in entry.after]
            after = tuple(self.with_seed(one, self.seed(one) + seed - self.seed(entry)).name for one in begun)
            settings = merge(entry.settings, {"training": {"seed": seed}})
            twin = replace(entry, name=name, settings=settings, after=after, shown=name in self.asked)
            if name in self.asked and self.step(self.asked[name]) != twin:
                raise UserError(f"the row {name} is a member of an ensemble, and another one", cure="name it otherwise")
            self.known[name] = twin
        return self.known[name]
