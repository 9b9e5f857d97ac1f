"""Every system of the house, by the small entry that stands beside its model.

    LUONG = System(
        kind="luong",
        rung=4,
        task="translation",
        settings="anaphora.models.translation.recurrent.recurrent_settings:LuongConfig",
        model="anaphora.models.translation.recurrent.luong:Luong",
    )

An entry names classes by their import paths, and it is read from the text of its file (files/entries.py), so that a
list of all systems costs no import: `--help`, counting and the settings of a run never load torch. What differs between
systems, such as sizes for a corpus or the encoder, is a method of the settings class that an entry names.

A system of one's own is known once `register` was called: by a file that is named (`--model my_model.py`,
models/model_file.py), by any module that is imported, or by an entry point of the group `anaphora.systems` in an
installed package. `@register("rwkv", task="language")` over a class makes an entry of it (models/own_system.py).
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from anaphora.errors import UserError, nearest, shown, told_by_line
from anaphora.files.entries import loaded, read_entries
from anaphora.nn.encoder_settings import ENCODERS

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


class Origin(NamedTuple):
    """The file that a system of one's own came from."""

    file: str | None
    """Its path."""
    fingerprint: str | None
    """Its SHA-256, where what it holds is known to be the system and no script around it."""


NOWHERE = Origin(None, None)
READING: ContextVar[Origin | None] = ContextVar("READING", default=None)
"""The file that is being executed, which registers its systems now."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One system: what it is called, what it learns, and where its classes are (the classes, or "module:Class")."""

    kind: str
    """`model.kind`, as config.yaml has it."""
    task: str
    """What a run of it is: translation, language, counting, vectors, ensemble, mixture (tasks/)."""
    settings: str | type
    """The dataclass of section `model`. It may say sizes for a corpus, too (`sized`). What names no kind may be that of
    several systems."""
    model: str | Callable[..., Any] | None = None
    """What makes it, from its settings and the sizes of its vocabularies; None: its task has a way of its own."""
    rung: int = 1000
    """Its place on the ladder, which is its place in lists."""
    family: str | None = None
    """What it and its like are called, where a list of settings speaks of several."""
    read: str | Callable[..., Any] | None = None
    """What opens a folder that holds one: (config, folder, verify=, device=) -> model; None: its task does."""
    formats: tuple[str, ...] = ()
    """Other people's formats that can hold it (interop/): arpa, backpack, vectors."""
    recipe: str | None = None
    """The recipe that lists its settings: one of its own name (None), another, or none at all ("")."""
    encoder: str | type | None = None
    """Of a system of one's own that is an encoder: its class, which may read for others too (`model.encoder`)."""
    file: str | None = None
    """The file it came from, where that is not the package's."""
    fingerprint: str | None = None
    """That file's SHA-256."""

    def settings_class(self) -> type[Any]:
        """The file that has it is imported only now. Of a class that many systems may have, which names no kind, it is
        one that names this."""
        found = loaded(self.settings)
        of_one: type[Any] = found if getattr(found, "kind", None) else _of_kind(found, self.kind)
        return of_one

    def build(self, config: Any, *vocabularies: int) -> Any:
        """A model with these settings, its weights fresh from torch's generator."""
        if self.model is None:
            raise UserError(f"a model of kind {self.kind} is put together, not built", cure="use `anaphora mix`")
        try:
            return loaded(self.model)(config, *vocabularies)
        except Exception as error:
            if self.file is None or isinstance(error, ValueError):  # the latter is about its settings
                raise
            raise told_by_line(error, {self.file}) or error from error


@cache
def _of_kind(settings: type[Any], kind: str) -> type[Any]:
    """Those settings, of one kind."""
    name: Any = Literal
    space: dict[str, Any] = {"__module__": settings.__module__, "__doc__": settings.__doc__, "documented": {}}
    field = [("kind", name[kind], dataclasses.field(default=kind))]
    return dataclasses.make_dataclass(settings.__name__, field, bases=(settings,), namespace=space, kw_only=True)


def register(system: System) -> System:
    """Make a system known: from now on `model.kind`, a recipe's name and `--recipe` may name it. A name that is taken
    is refused, unless what has it stood in the same place and is only read again, as a notebook's cell is."""
    if not isinstance(system, System):
        cure = '@register("name", task="language"), or register(System(kind=…, task=…, settings=…))'
        raise UserError(f"{shown.repr(system)} is no System", cure=cure)
    if system.task not in TASKS:
        raise UserError(f"the task of {system.kind!r} cannot be {system.task!r}", cure=nearest(system.task, TASKS))
    named = system.kind if isinstance(system.settings, str) else getattr(system.settings, "kind", system.kind)
    if named not in (system.kind, ""):
        raise UserError(f"{system.kind!r} has settings whose kind is {named!r}", cure="give both one name")
    if system.file is None:
        origin = READING.get() or _origin(system)
        system = replace(system, file=origin.file, fingerprint=system.fingerprint or origin.fingerprint)
    known = systems().get(system.kind)
    if known is not None and (system.kind in _ours() or _place(known) != _place(system)):
        whose = "" if known.file is None else f", of {known.file}"
        raise UserError(f"there is a system {system.kind!r} already{whose}", cure="give yours another name")
    _registered()[system.kind] = system
    return system


def _origin(system: System) -> Origin:
    """Where the classes of a system stand that a module registers, as it is imported; of a script, and of what is typed
    at a prompt, there is no fingerprint: its other lines may change."""
    module = sys.modules.get(getattr(_class_of(system), "__module__", ""))
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return NOWHERE
    return Origin(file, None if module is sys.modules.get("__main__") else fingerprint(Path(file).read_bytes()))


def _class_of(system: System) -> Any:
    """What it is made of, as far as that is a class of somebody's."""
    return next((one for one in (system.encoder, system.settings, system.model) if isinstance(one, type)), None)


def _place(system: System) -> tuple[object, ...]:
    """Where it was written: the same place read again gives the same system, changed perhaps."""
    cls = _class_of(system)
    return system.file, getattr(cls, "__qualname__", system.settings)


def fingerprint(content: bytes) -> str:
    """The SHA-256 by which a file is known again."""
    import hashlib

    return hashlib.sha256(content).hexdigest()


@contextmanager
def reading(origin: Origin) -> Iterator[None]:
    """What is registered meanwhile comes from there."""
    before = READING.set(origin)
    try:
        yield
    finally:
        READING.reset(before)


def forget(file: str) -> None:
    """The systems of a file that is about to be read again."""
    for kind in [kind for kind, one in _registered().items() if one.file == file]:
        del _registered()[kind]
        ENCODERS.registered.pop(kind, None)


def own_systems(file: str | None = None) -> dict[str, System]:
    """Those of one's own, by name; of one file."""
    return {kind: one for kind, one in _registered().items() if file is None or one.file == file}


def systems() -> dict[str, System]:
    """All that are known, ours first, in the order of the ladder."""
    return {**_ours(), **_registered()}


def system(kind: object, *, file: str | None = None) -> System:
    """The system of that kind; `file`: where it is named."""
    if not is_known(kind):
        raise UserError(f"unknown model.kind {kind!r}", file=file, cure=nearest(str(kind), list(systems())))
    return systems()[str(kind)]


def is_known(kind: object) -> bool:
    """Whether there is such a system, if need be in an installed package."""
    if kind not in systems():
        _ask_installed()
    return kind in systems()


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
    found = {one.kind: one for one in read_entries(System, Path(__file__).parent)}
    return {kind: found[kind] for kind in sorted(found, key=lambda kind: found[kind].rung)}


@cache
def _ask_installed() -> None:
    """Systems of installed packages; looked for once, and only when a kind is not known here."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        with reading(NOWHERE):  # an upgrade of the package is no other system
            found = point.load()
            if isinstance(found, System) and found.kind not in systems():
                register(found)
