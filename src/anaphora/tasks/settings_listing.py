"""Every setting of a run with its type, default and meaning: for `anaphora settings` and for the tables of docs/.

Settings are the fields of the classes that read them, and defaults are those of the runs that would begin, so nothing
here can be out of date. Section `model`, and of word vectors section `training`, have other settings for each kind of
model: a setting then names the kinds that have it. A setting of the other sections that kinds have another default of
names those.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from anaphora.config import current_name, documentation, formulas, merge, names, to_mapping, type_hints
from anaphora.errors import UserError, meant
from anaphora.models import (
    named_by_decoder,
    settings_class,
    usual_recipe,
)
from anaphora.models.registry import kinds
from anaphora.nn.encoder_settings import ENCODERS, encoder_class
from anaphora.tasks.base import WHOLE, task_in, task_of
from anaphora.tasks.recipes import (
    SECTIONS,
    RunConfig,
    load_recipe,
)

DEFAULT_RECIPE = "transformer"
CLASSIFIERS = "classifiers"
"""Stands among the kinds for any of them that learns from labels."""


def families() -> dict[str, Sequence[str]]:
    """Names of kinds that often go together."""
    return {
        "translators": kinds("translation"),
        "recurrent translators": kinds(family="recurrent translators"),
        "convolutional translators": kinds(family="convolutional translators"),
        "neural language models": kinds("language"),
        "word vectors": kinds("vectors"),
    }


@dataclass(frozen=True)
class Default:
    """What a setting is in a new run whose user says nothing of it."""

    value: Any
    sized: bool = False
    """Whether the size of the corpus decides, where nothing else does."""
    kinds: tuple[str, ...] = ()
    """Kinds of models for which it is that, where not for all."""

    def words(self, quote: str = "") -> str:
        return f"{quote}{in_yaml(self.value)}{quote}" + (", or by corpus size" if self.sized else "")

    def in_words(self, having: Collection[str], quote: str = "") -> str:
        """With the kinds for which it is that, of those that have the setting at all."""
        value = "by corpus size" if self.sized else self.words(quote)
        return f"{value} for {kinds_in_words(self.kinds, having)}"


@dataclass(frozen=True)
class Setting:
    """One setting."""

    section: str
    key: str
    type: str
    """In words, its choices where there are some."""
    default: Any
    meaning: str
    kinds: tuple[str, ...] = ()
    """Kinds of models that have it, where not all do."""
    sized: bool = False
    """Whether the size of the corpus decides where neither user nor recipe does."""
    elsewhere: tuple[Default, ...] = ()
    """What the default is for other kinds of models."""
    in_recipe: bool = False
    value: Any = None
    """The recipe's value, where it has one."""

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    def defaults(self, quote: str = "") -> list[str]:
        """The default and what it is for other kinds of models, in words."""
        having = defaults_by_kind(self.section, self.key) if self.elsewhere else {}
        return [
            Default(self.default, self.sized).words(quote),
            *(other.in_words(having, quote) for other in self.elsewhere),
        ]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        found = {"name": self.name, "type": self.type, "default": self.default, "meaning": self.meaning}
        found |= {"by_corpus_size": self.sized}
        found |= {"kinds": list(self.kinds)} if self.kinds else {}
        if self.elsewhere:
            found["elsewhere"] = [
                {"default": one.value, "by_corpus_size": one.sized, "kinds": list(one.kinds)} for one in self.elsewhere
            ]
        return found | ({"recipe_value": self.value} if self.in_recipe else {})


def section_class(section: str, kind: str) -> type:
    """The class that lists a section: of what many tasks share, the whole of it."""
    if section == "model":
        return settings_class(kind)
    found: type = task_of(kind).section_class(section, kind)
    return WHOLE[section] if issubclass(WHOLE[section], found) else found


def settings_of(section: str, kind: str = DEFAULT_RECIPE) -> list[Setting]:
    """All settings of one section, in the order of their class, with the defaults that models of that kind have; of
    sections that many kinds share, with those of the others too."""
    cls = section_class(section, kind)
    hints = type_hints(cls)
    own = section == "model" or cls is not WHOLE[section]
    found = []
    for key, (_, default, meaning) in documentation(cls).items():
        meaning += formulas(cls, key)
        setting = Setting(section, key, type_in_words(hints[key]), default, meaning, (kind,) if own else ())
        if not own:
            found.append(_with_defaults(setting, defaults_by_kind(section, key)))
        elif (section, key) in (there := _usual(kind)):
            found.append(replace(setting, default=there[section, key].value, sized=there[section, key].sized))
        else:  # what nobody trains, or what a kind has for another contextualizer
            found.append(setting)
    return found


def _with_defaults(setting: Setting, by_kind: dict[str, Default]) -> Setting:
    """A setting that many kinds have: the default of Transformer translators, or of the class, and all other ones."""
    plain = Default(setting.default)
    first = by_kind.get(DEFAULT_RECIPE, plain if plain in by_kind.values() else next(iter(by_kind.values()), plain))
    others: dict[str, Default] = {}
    for kind, default in by_kind.items():
        if default != first:
            there = others.get(default.words(), default)
            others[default.words()] = replace(there, kinds=(*there.kinds, kind))
    return replace(setting, default=first.value, sized=first.sized, elsewhere=tuple(others.values()))


def defaults_by_kind(section: str, key: str) -> dict[str, Default]:
    """A setting's default for each kind of model for which it means something."""
    whole = WHOLE.get(section)
    having = [kind for kind in kinds() if usual_recipe(kind) and whole in (None, section_class(section, kind))]
    found = {kind: _usual(kind)[section, key] for kind in having if (section, key) in _usual(kind)}
    labeled = [one for kind in classifying() if (one := _usual_labeled(kind).get((section, key))) is not None]
    if any(one != found.get(kind) for kind, one in zip(classifying(), labeled)):
        found[CLASSIFIERS] = labeled[0]  # all have the same sizes
    return found


def classifying() -> tuple[str, ...]:
    """Kinds that learn from labels too."""
    return tuple(kind for kind in kinds("language") if getattr(settings_class(kind), "classifies", True))


def _usual(kind: str) -> dict[tuple[str, str], Default]:
    """What a model of a kind has by the recipe that only names it."""
    recipe = usual_recipe(kind)
    return {} if recipe is None else in_effect(recipe)


def _usual_labeled(kind: str) -> dict[tuple[str, str], Default]:
    return in_effect(str(usual_recipe(kind)), labeled=True)


@cache
def in_effect(recipe: str, *, labeled: bool = False) -> dict[tuple[str, str], Default]:
    """The settings of new runs by a recipe whose user says nothing: (section, key) → what it is, whatever the corpus;
    or, where its size decides, what the class has."""
    runs = list(_new_runs(recipe, labeled=labeled))
    plain = RunConfig.read(load_recipe(recipe))
    documents = [run.document() for run in runs]
    by_size = plain.task.sized_by_bytes(plain)
    found = {}
    for section in SECTIONS:
        for key in dict.fromkeys(key for document in documents for key in document[section]):
            values = [document[section].get(key) for document in documents]
            sized = (section, key) in by_size or any(value != values[0] for value in values)
            value = getattr(getattr(plain, section), key) if sized else values[0]
            found[section, key] = Default(value, sized)
    return found


def _new_runs(recipe: str, *, labeled: bool) -> Iterator[RunConfig]:
    """Runs that would begin by this recipe: one for each size of a corpus that decides something."""
    own: dict[str, dict[str, Any]] = {"model": {"labels": ["this", "that"]}} if labeled else {}
    task = task_in(merge(load_recipe(recipe), own))
    yield from (task.complete(recipe, own, size=size) for size in task.sizes)


def type_in_words(hint: Any, quote: str = "") -> str:
    """A type as somebody who writes YAML thinks of it, its values in quotes."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return ", ".join(f"{quote}{choice}{quote}" for choice in arguments)
    if type(None) in arguments:
        inner = next(a for a in arguments if a is not type(None))
        return f"{type_in_words(inner, quote)}, or {quote}null{quote}"
    if typing.get_origin(hint) is list:
        return f"list of {type_in_words(arguments[0], quote)}"
    words = {bool: f"{quote}true{quote}, {quote}false{quote}", int: "whole number", float: "number", str: "text"}
    return words.get(hint, "text")


def in_yaml(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, list):
        return f"[{', '.join(map(in_yaml, value))}]"
    if value == "":
        return "''"
    return f"{value:g}" if isinstance(value, float) else str(value)


def of_recipe(recipe: str) -> list[Setting]:
    """The settings that a run by this recipe has, with the recipe's own values."""
    document = load_recipe(recipe)
    config = RunConfig.read(document, file=None)
    document["model"] = named_by_decoder(document.get("model", {}))
    kind, found = config.model.kind, []
    here = in_effect(recipe)
    labeled = in_effect(recipe, labeled=True) if kind in classifying() else {}
    for section in SECTIONS:
        values, said = to_mapping(getattr(config, section)), document.get(section, {})
        known = set(values) if section == "model" else _meaning(config, section)
        for setting in (one for one in settings_of(section, kind) if one.key in known):
            at = section, setting.key
            setting = replace(setting, elsewhere=())
            if setting.key in said:
                own = {"default": _of_class(setting, kind), "in_recipe": True, "value": values[setting.key]}
                found.append(replace(setting, **own, sized=False))
                continue
            there = here.get(at) or labeled.get(at) or Default(setting.default)
            if setting.key == "labels":  # those that stand here are an example
                there = Default(_of_class(setting, kind))
            other = labeled.get(at, there)
            if other != there and setting.key != "labels":
                setting = replace(setting, elsewhere=(replace(other, kinds=(CLASSIFIERS,)),))
            found.append(replace(setting, default=there.value, sized=there.sized))
    return found


def _of_class(setting: Setting, kind: str) -> Any:
    """The default where a recipe has another value: what the code says, whatever the kind and the corpus."""
    return documentation(section_class(setting.section, kind))[setting.key][1]


def _meaning(config: RunConfig, section: str) -> set[str]:
    """Settings that mean something for a model; for one that can learn from labels, with them or without."""
    kind = config.model.kind
    both = (task_of(kind, labeled=labeled) for labeled in (False, True))
    return {name for task in both for name in names(task.section_class(section, kind))}


def without_recipe() -> list[Setting]:
    """All settings of all sections; of section `model` those of the default recipe."""
    return [setting for section in SECTIONS for setting in settings_of(section)]


def kinds_in_words(kinds: Collection[str], having: Collection[str]) -> str:
    """Kinds of models as people name them: families that are complete, or all but one, among those that have a
    setting; the others one by one."""
    left, words = dict.fromkeys(kinds), []
    for name, members in families().items():
        family = [kind for kind in members if kind in having]
        missing = [kind for kind in family if kind not in left]
        if len(family) > 1 and (not missing or (len(missing) == 1 and len(family) > 3)):
            words.append(name + (f" except {missing[0]}" if missing else ""))
            left = {kind: None for kind in left if kind not in family}
    return ", ".join([*words, *left])


def every_setting() -> list[Setting]:
    """Those of all kinds of models too; kinds that have the same setting stand together."""
    found: dict[tuple[str, str, str, str], list[Setting]] = {}
    for one in without_recipe():
        if one.section != "model":
            found[one.name, one.type, in_yaml(one.default), one.meaning] = [one]
    for section, having in (("model", kinds()), ("training", kinds("vectors"))):
        for one in (one for kind in having for one in settings_of(section, kind)):
            found.setdefault((one.name, one.type, in_yaml(one.default), one.meaning), []).append(one)
    return [replace(same[0], kinds=tuple(kind for one in same for kind in one.kinds)) for same in found.values()]


def choices_of_settings(recipe: str | None = None) -> dict[str, list[str]]:
    """Names of the settings that a run by a recipe has, with their values where those can be counted; for the shell,
    which waits, so no default is looked up. Without a recipe those of a Transformer translator."""
    config = RunConfig.read({} if recipe is None else load_recipe(recipe))
    found: dict[str, list[str]] = {}
    for section in SECTIONS:
        values = to_mapping(getattr(config, section))
        known = values if section == "model" else _meaning(config, section)
        hints = type_hints(section_class(section, config.model.kind))
        found |= {f"{section}.{key}": _countable(hints[key]) for key in values if key in known}
    return found


def _countable(hint: Any) -> list[str]:
    """The values of a type that has only a few."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return [str(choice) for choice in arguments]
    if type(None) in arguments:
        inner = _countable(next(one for one in arguments if one is not type(None)))
        return [*inner, "null"] if inner else []
    return ["true", "false"] if hint is bool else []


def of_encoders(recipe: str | None = None) -> list[Setting]:
    """What can be said of encoders by the name `model.encoder`: of all of them, or of the one that a translator of this
    recipe has. Where a system has the setting itself, that is the shorter name of the same one."""
    model: Any = None if recipe is None else RunConfig.read(load_recipe(recipe)).model
    if model is not None and not hasattr(model, "encoder_config"):
        return []
    found = []
    for name in ENCODERS if model is None else [model.encoder_name]:
        cls = encoder_class(name)
        hints, here = type_hints(cls), cls() if model is None else model.encoder_config
        for key, (_, _, meaning) in documentation(cls).items():
            what = meaning + formulas(cls, key)
            found.append(
                Setting("model", f"encoder.{key}", type_in_words(hints[key]), getattr(here, key), what, (name,))
            )
    return found


def find_settings(wanted: str | None = None, recipe: str | None = None) -> list[Setting]:
    """The settings of a section, or of a name with or without its section; all of them by default."""
    listed = without_recipe() if recipe is None else of_recipe(recipe)
    if wanted is None:
        return listed
    wanted = current_name(wanted)
    section = wanted.removesuffix(".")
    if section in SECTIONS:
        return [one for one in listed if one.section == section]
    if recipe is None:
        listed = every_setting()
    if section == "model.encoder" or wanted.startswith("model.encoder."):
        listed = listed + of_encoders(recipe)
    if found := [one for one in listed if wanted in (one.name, one.key) or (one.name.startswith(f"{section}."))]:
        return found
    known = {one.name for one in listed} if "." in wanted else {one.key for one in listed} | set(SECTIONS)
    where = "" if recipe is None else f" with recipe {recipe}"
    every = "`anaphora settings`" if recipe is None else f"`anaphora settings --recipe {recipe}`"
    cure = meant(wanted, known) or f"{every} lists all of them"
    raise UserError(f"there is no setting or section {wanted!r}{where}", cure=cure)
