"""Every system of the house, by the small entry that stands beside its model.

    LUONG = System(
        kind="luong",
        rung=4,
        task="translation",
        settings="anaphora.models.translation.recurrent.recurrent_settings:LuongConfig",
        model="anaphora.models.translation.recurrent.luong:LuongTranslator",
    )

An entry names classes by their import paths, and it is read from the text of its file, so that a list of all systems
costs no import: `--help`, counting and the settings of a run never load torch. What differs between systems, such as
sizes for a corpus or the encoder, is a method of the settings class that an entry names.

A translator from outside is known once `register(System(...))` was called, or by an entry point of the group
`anaphora.systems` in an installed package.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from anaphora.errors import UserError, nearest, shown

ENTRY = re.compile(r"^\w+ = System\(\n.*?^\)$", re.MULTILINE | re.DOTALL)
TASKS = {
    "translation": "a translator",
    "language": "a language model",
    "counting": "a language model",
    "vectors": "word vectors",
    "ensemble": "an ensemble",
    "mixture": "a language model",
}
"""What a system of each task is, in a sentence; what a run of it does: tasks/."""
Sizes = tuple[dict[str, Any], dict[str, Any]]
"""What a settings class gives for a corpus of some size: settings of section `model`, and of section `training`."""
GROUP = "anaphora.systems"
"""Entry points of installed packages: each names a System, or a module that registers some."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One system: what it is called, what it learns, and where its classes are (the classes, or "module:Class")."""

    kind: str
    """`model.kind`, as config.yaml has it."""
    task: str
    """What a run of it is: translation, language, counting, vectors, ensemble, mixture (tasks/)."""
    settings: str | type
    """The dataclass of section `model`. It may say sizes for a corpus, too (`sized`)."""
    model: str | Callable[..., Any] | None = None
    """What makes it, from its settings and the sizes of its vocabularies; None: its task has a way of its own."""
    rung: int = 1000
    """Its place on the ladder, which is its place in lists."""
    family: str | None = None
    """What it and its like are called, where a list of settings speaks of several."""
    read: str | Callable[..., Any] | None = None
    """What opens a folder that holds one: (config, folder, verify=, device=) -> model; None: its task does."""
    recipe: str | None = None
    """The recipe that lists its settings: one of its own name (None), another, or none at all ("")."""
    fingerprint: str | None = None
    """Of the file it came from (SHA-256), where that is not the package's."""

    def settings_class(self) -> type[Any]:
        """The file that has it is imported only now."""
        found: type[Any] = loaded(self.settings)
        return found

    def build(self, config: Any, *vocabularies: int) -> Any:
        """A model with these settings, its weights fresh from torch's generator."""
        if self.model is None:
            raise UserError(f"a model of kind {self.kind} is put together, not built", cure="use `anaphora mix`")
        return loaded(self.model)(config, *vocabularies)


def loaded(path: str | Callable[..., Any]) -> Any:
    """What "module:name" names."""
    if not isinstance(path, str):
        return path
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def register(system: System) -> System:
    """Make a system known: from now on `model.kind` may name it. The same name twice is refused, unless the two are of
    one file, which was read again."""
    if not isinstance(system, System):
        raise UserError(f"{shown.repr(system)} is no System", cure="register(System(kind=…, task=…, settings=…))")
    if system.task not in TASKS:
        raise UserError(f"the task of {system.kind!r} cannot be {system.task!r}", cure=nearest(system.task, TASKS))
    named = system.kind if isinstance(system.settings, str) else getattr(system.settings, "kind", system.kind)
    if named != system.kind:
        raise UserError(f"{system.kind!r} has settings whose kind is {named!r}", cure="give both one name")
    known = systems().get(system.kind)
    if known is not None and (known.fingerprint is None or known.fingerprint != system.fingerprint):
        raise UserError(f"there is a system {system.kind!r} already", cure="give yours another kind")
    _registered()[system.kind] = system
    return system


def systems() -> dict[str, System]:
    """All that are known, ours first, in the order of the ladder."""
    return {**_ours(), **_registered()}


def system(kind: object, *, file: str | None = None) -> System:
    """The system of that kind; `file`: where it is named."""
    known = systems()
    if kind not in known:
        _ask_installed()
        known = systems()
    if kind not in known:
        raise UserError(f"unknown model.kind {kind!r}", file=file, cure=nearest(str(kind), list(known)))
    return known[str(kind)]


def kinds(*tasks: str, family: str | None = None) -> tuple[str, ...]:
    """The kinds of these tasks, or of a family; of all, where none is named."""
    return tuple(
        name
        for name, one in systems().items()
        if (not tasks or one.task in tasks) and (family is None or one.family == family)
    )


@cache
def _registered() -> dict[str, System]:
    return {}


@cache
def _ours() -> dict[str, System]:
    found = {one.kind: one for one in _read_entries(Path(__file__).parent)}
    return {kind: found[kind] for kind in sorted(found, key=lambda kind: found[kind].rung)}


def _read_entries(folder: Path) -> Iterator[System]:
    """The entries in the files below a folder, read as the literals they are."""
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if file.name != Path(__file__).name and "= System(\n" in text:
            for entry in ENTRY.findall(text):
                call = ast.parse(entry).body[0].value
                yield System(**{word.arg: ast.literal_eval(word.value) for word in call.keywords})


@cache
def _ask_installed() -> None:
    """Systems of installed packages; looked for once, and only when a kind is not known here."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        found = point.load()
        if isinstance(found, System) and found.kind not in systems():
            register(found)
