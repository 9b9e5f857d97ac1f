"""Typed settings: dataclasses that stand beside the class they build, one document of them = one run.

A settings class is a plain dataclass whose fields have a type, a default and a docstring. This module reads such
classes from YAML mappings and from dotted overrides (`training.seed=3`), checks every key and every type, and writes
them back. The accepted types are the ones a YAML document can hold: bool, int, float, str, Literal, lists of these,
`X | None`, and the names of a table that may grow (`NameIn`).
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import math
import re
import textwrap
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

from anaphora.errors import UserError, meant, nearest, option, shown
from anaphora.files.foreign import read_text

T = TypeVar("T")


LONGEST_YAML = 1 << 20
"""Bytes of a document at the most: PyYAML reads some hundred thousand in a second."""
BIGGEST = 2**63
"""Whole numbers stay below this: what 64 bits can hold."""


RENAMED = {
    "model.both_ways": "model.bidirectional",
    "model.normaliser": "model.normalizer",
    "model.normalised": "model.normalized",
    "matrices.normaliser": "matrices.normalizer",
}
"""Settings by names that they had before (of `matrices`, the keys of a file for `anaphora walk --matrices`). The old
names are read wherever settings are: in the folders of runs, in recipes, on the command line and in Python. What is
written has the new ones."""


class OldName(FutureWarning):
    """A setting was given by a name that it had before."""


def current_name(name: str) -> str:
    """What a setting is called now; that somebody used an old name is noted."""
    if (new := RENAMED.get(name)) is None:
        return name
    warnings.warn(f"{name} is now called {new}; the old name still works", OldName, stacklevel=3)
    return new


def renamed(document: dict[str, Any], *, file: str | Path | None = None, noted: bool = True) -> dict[str, Any]:
    """A document of sections whose settings have the names of today. `noted`: whether old ones are worth a word, as
    where somebody wrote them; nobody did in the folder of an old run."""
    found = dict(document)
    for old, new in RENAMED.items():
        section, _, key = old.partition(".")
        settings = found.get(section)
        if not isinstance(settings, Mapping) or key not in settings:
            continue
        own = new.partition(".")[2]
        if own in settings:
            raise UserError(f"{new} is given twice, the other time as {old}", file=file, cure="leave one of them out")
        if noted:
            current_name(old)
        found[section] = {own if name == key else name: value for name, value in settings.items()}
    return found


def with_old_names(document: dict[str, Any]) -> dict[str, Any]:
    """A document of sections for programs, which may look settings up by the names that they had before, too."""
    found = {section: dict(own) if isinstance(own, Mapping) else own for section, own in document.items()}
    for old, new in RENAMED.items():
        section, _, key = old.partition(".")
        own = new.partition(".")[2]
        if isinstance(found.get(section), dict) and own in found[section]:
            found[section].setdefault(key, found[section][own])
    return found


def build(
    cls: type[T],
    mapping: Mapping[str, Any],
    *,
    section: str,
    file: str | None = None,
    listed: str | None = None,
    part: type | None = None,
) -> T:
    """Make a settings object of `cls` out of a mapping; unknown keys and wrong types are errors that name the cure.

    listed: what `anaphora settings` is called with to list these settings, where that is not the section alone.
    part: a class that `cls` derives from, whose settings alone may be said.
    """
    hints = type_hints(cls)
    known = names(part or cls)
    values = {}
    for key, value in mapping.items():
        if key not in known:
            raise unknown_setting(key, known, section=section, file=file, listed=listed)
        values[key] = convert(value, hints[key], name=f"{section}.{key}", file=file)
    try:
        return cls(**values)
    except ValueError as error:  # a settings class checks its own values in __post_init__
        cure = None if ";" in str(error) else "change that setting"
        raise UserError(f"{section}: {error}", file=file, cure=cure) from None


def names(cls: type) -> list[str]:
    """Of all settings of a class."""
    return [f.name for f in dataclasses.fields(cls)]


def unknown_setting(
    key: object, known: Iterable[str], *, section: str, file: str | None = None, listed: str | None = None
) -> UserError:
    """The error for a name that is no setting: the nearest one, and where all are listed."""
    name = key if isinstance(key, str) and len(key) <= 60 else shown.repr(key)
    cures = filter(None, [meant(name, known), f"`anaphora settings {listed or section}` lists all of them"])
    return UserError(f"unknown setting {section}.{name}", file=file, cure=" ".join(cures))


@dataclass(frozen=True, eq=False)
class NameIn:
    """Marks text that names something in a table which may grow: `Annotated[str, NameIn(SCORES)]`. What is in the table
    may have a formula."""

    table: Mapping[str, Any]


def type_hints(cls: type) -> dict[str, Any]:
    """The types of settings. Names in a table are those that are there now, as a Literal."""
    return {name: _with_names(hint) for name, hint in _written_hints(cls).items()}


def formulas(cls: type, field: str) -> str:
    """Of a setting that names something in a table: what each of them computes."""
    table = _table(_written_hints(cls)[field])
    listed = ", ".join(f"{one.formula} ({name})" for name, one in table.items() if hasattr(one, "formula"))
    return f" Formulas: {listed}." if listed else ""


@cache
def _written_hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _with_names(hint: Any) -> Any:
    if table := _table(hint):
        others = [one for one in (dict[str, Any], type(None)) if one in _parts(hint)]
        return Union[(Literal[tuple(table)], *others)]
    return hint


def _parts(hint: Any) -> list[Any]:
    """The types that a value may have, of one that may have several."""
    said = typing.get_args(hint)
    if typing.get_origin(hint) is Annotated:
        return _parts(said[0])
    return [part for one in said for part in _parts(one)] if _is_union(hint) else [hint]


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (Union, types.UnionType)


def _table(hint: Any) -> Mapping[str, Any]:
    """The table that a type names things in; an empty one of a type that names none."""
    said = typing.get_args(hint)
    if typing.get_origin(hint) is Annotated:
        return next((one.table for one in said if isinstance(one, NameIn)), {})
    return next(filter(None, map(_table, said)), {})


def convert(value: Any, hint: Any, *, name: str, file: str | None = None) -> Any:
    """Check one value against its type; "1e-4" is a number although YAML reads it as text, and NumPy's are."""
    origin = typing.get_origin(hint)
    if hint in (int, float) and not isinstance(value, bool | int | float | str) and np_number(value):
        value = value.item()
    if _is_union(hint):
        choices = typing.get_args(hint)
        if value is None and type(None) in choices:
            return None
        if isinstance(value, Mapping) and dict[str, Any] in choices:  # whoever takes such a section checks it
            return dict(value)
        return convert(value, next(c for c in choices if c is not type(None)), name=name, file=file)
    if origin is Literal:
        allowed = typing.get_args(hint)
        # YAML reads a bare `on` or `off` as a boolean; where the choices hold those words, they are meant.
        if isinstance(value, bool) and {"on", "off"} <= set(allowed):
            value = "on" if value else "off"
        if not isinstance(value, str | int | float | None) or value not in allowed:
            listed = "known: " + ", ".join(sorted(map(str, allowed)))  # False is like no name
            cure = nearest(value, map(str, allowed)) if isinstance(value, str) else listed
            raise UserError(f"{name} cannot be {shown.repr(value)}", file=file, cure=cure)
        return value
    if origin is list:
        (inner,) = typing.get_args(hint)
        if inner is not int:
            items = value if isinstance(value, list | tuple) else [value]
            return [convert(item, inner, name=name, file=file) for item in items]
        # numbers may also be parted by blanks or commas, as other tools have them
        items = value.replace(",", " ").split() if isinstance(value, str) else value
        items = items if isinstance(items, list | tuple) else [items]
        try:
            return [convert(item, inner, name=name, file=file) for item in items]
        except UserError:
            what = f"{name} must be whole numbers, not {shown.repr(value)}"
            raise UserError(what, file=file, cure=f"write {name}='[0, 0, 1]', say") from None
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise UserError(
                f"{name} must be a number, not {shown.repr(value)}", file=file, cure=f"write {name}=0.1, say"
            )
        return number
    if hint is int and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(str(value).replace("_", ""))
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number != int(number):
            raise UserError(
                f"{name} must be a whole number, not {shown.repr(value)}", file=file, cure=f"write {name}=100, say"
            )
        if abs(number) >= BIGGEST:
            raise UserError(
                f"{name} cannot be as large as {shown.repr(value)}", file=file, cure=f"write {name}=100, say"
            )
        return value if isinstance(value, int) else int(number)
    if hint is str and isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):  # to Python, True is an int
        words = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}.get(hint, str(hint))
        raise UserError(f"{name} must be {words}, not {shown.repr(value)}", file=file, cure=f"write {name}=…")
    return value


def np_number(value: Any) -> bool:
    """Whether a value is one number of NumPy's (its truth values are none), told without loading NumPy."""
    return (
        type(value).__module__ == "numpy"
        and getattr(value, "dtype", None) is not None
        and (value.dtype.kind in "iuf" and value.ndim == 0)
    )


def to_mapping(settings: Any) -> dict[str, Any]:
    """The plain mapping that `build` reads back."""
    return dataclasses.asdict(settings)


@cache
def _loader() -> Any:
    """PyYAML's safe loader, which lets the last of two equal keys win, made to refuse them."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value:
                written = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
                if written in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {shown.repr(key.value)} occurs twice", problem_mark=key.start_mark
                    )
                if written is not None:
                    seen.add(written)
            return node

    return Loader


@lru_cache(maxsize=16)
def _parsed(text: str) -> Any:
    """Kept: who loads a model reads its config several times, and PyYAML takes 5 ms for a hundred lines."""
    import yaml

    return yaml.load(text, _loader())


def parse_yaml(text: str, *, file: Path | None = None) -> Any:
    """What a YAML text says, whatever the text: all that the library may stumble over is a mistake in it."""
    import yaml

    try:
        return copy.deepcopy(_parsed(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise UserError(f"is not valid YAML ({problem})", file=file, line=line, cure="correct that line") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        # a date that no calendar has, a number of ten thousand digits, brackets without end
        why = str(error) or type(error).__name__
        raise UserError(f"is not valid YAML ({why})", file=file, cure="write plain keys and values") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML document that must be a mapping."""
    try:
        text = read_text(path, LONGEST_YAML, pipes=True)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read ({error})", file=path, cure="give a YAML file") from None
    document = parse_yaml(text, file=path)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UserError("holds no settings", file=path, cure="write `section:` and below it `  key: value` lines")
    return document


def write_yaml(document: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=120)


def overrides(
    arguments: Iterable[str], sections: Iterable[str], places: Callable[[str], Iterable[str]] = lambda _: ()
) -> dict[str, dict[str, Any]]:
    """`["training.seed=3", …]` -> {"training": {"seed": 3}}; values are read as YAML.

    places: the sections that have a setting, for somebody who left them out.
    """
    result: dict[str, dict[str, Any]] = {}
    sections = list(sections)
    for argument in arguments:
        name, equals, text = argument.partition("=")
        section, dot, key = name.partition(".")
        said = shown.repr(argument)
        if not (equals and dot and key):
            named = [f"{place}.{argument}" for place in places(name)] if equals and not dot else []
            cure = f"write {' or '.join(named) or 'section.key=value, such as training.seed=2'}; {LISTED}"
            if "\0" not in argument and Path(argument[:200]).is_file():
                cure = (
                    f"a file of text goes behind {option('source')} or {option('target')}: {option('target', argument)}"
                )
            raise UserError(f"{said} is not a setting", cure=cure)
        if section not in sections:
            cure = f"{nearest(section, sections)}; {LISTED}"
            raise UserError(f"unknown section {shown.repr(section)} in {said}", cure=cure)
        try:
            value = parse_yaml(text) if text else ""
        except UserError:
            value = text
        own = current_name(f"{section}.{key}").partition(".")[2]
        if own != key and own in result.get(section, {}):
            raise UserError(f"{section}.{own} is given twice, the other time as {name}", cure="leave one of them out")
        result.setdefault(section, {})[own] = value
    return result


LISTED = "`anaphora settings` lists all of them"


def merge(*documents: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Later documents win, key by key within each section, and within a choice that has settings of its own."""
    merged: dict[str, dict[str, Any]] = {}
    for document in documents:
        for section, settings in document.items():
            there = merged.setdefault(section, {})
            for key, value in (settings or {}).items():
                old = there.get(key)
                if isinstance(old, Mapping) and isinstance(value, Mapping) and old.get("kind") == value.get("kind"):
                    value = {**old, **value}
                there[key] = value
    return merged


def byte_size(text: str, name: str) -> int:
    """A setting such as 500MB, 2GB or 2GiB in bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([kMGT])(i)?)?B?", text.strip(), re.IGNORECASE)
    number = 0.0 if found is None else float(found[1])
    if found is not None:
        number *= (1024 if found[3] else 1000) ** " kmgt".index((found[2] or " ").lower())
    if not 0 < number < BIGGEST:
        raise ValueError(f"{name} is {shown.repr(text)}; write 500MB or 2GB, say")
    return int(number)


def above_zero(settings: object, *names: str) -> None:
    """Sizes and numbers of things, those that are said and those that a class has at all: one or more."""
    for name in names:
        value = getattr(settings, name, None)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be above 0, not {value}")


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """{"training.seed": (1, 2)} for every key of two-level documents that differs."""
    found = {}
    for section in dict.fromkeys([*old, *new]):
        before, after = old.get(section) or {}, new.get(section) or {}
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key):
                found[f"{section}.{key}"] = (before.get(key), after.get(key))
    return found


def described(changes: Mapping[str, tuple[Any, Any]]) -> str:
    """What `differences` found, as people say it: "training.seed is 1 there and 2 now"."""
    return "; ".join(f"{name} is {in_words(old)} there and {in_words(new)} now" for name, (old, new) in changes.items())


def in_words(value: Any) -> str:
    """A setting's value in a sentence."""
    if isinstance(value, list):
        return ", ".join(map(repr, value)) or "empty"
    return "not set" if value is None else repr(value)


def documentation(cls: type) -> dict[str, tuple[str, Any, str]]:
    """{field: (type, default, docstring)}: the docstring is the string written under the field."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):  # what a class says of a field wins over those that it derives from
        if dataclasses.is_dataclass(base) and inspect.get_annotations(base):
            texts |= _docstrings(base)
    result = {}
    for f in dataclasses.fields(cls):
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        result[f.name] = (str(f.type), default, texts.get(f.name, ""))
    return result


@cache
def _docstrings(cls: type) -> dict[str, str]:
    """Of the fields that a class declares itself; one that was made of a signature says them (`documented`)."""
    if "documented" in vars(cls):
        return dict(vars(cls)["documented"])
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for statement, following in zip(tree.body, tree.body[1:]):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            texts[statement.target.id] = " ".join(str(following.value.value).split())
    return texts
