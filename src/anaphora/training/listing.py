"""Every setting of a run with its type, default and meaning: for `anaphora settings` and for the tables of docs/.

Settings are the fields of the classes that read them, so nothing here can be out of date. Section `model`, and of word
vectors section `training`, have other settings for each kind of model: a setting then names the kinds that have it.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from anaphora.config import documentation, to_mapping
from anaphora.decoding.settings import DecodingConfig
from anaphora.errors import UserError, nearest
from anaphora.models import KINDS, NEURAL_MODELS, TRANSLATORS, VECTOR_MODELS, named_by_decoder, settings_class
from anaphora.text.settings import DataConfig
from anaphora.text.tokenizer import TokenizerConfig
from anaphora.training.recipes import (
    SECTIONS,
    Document,
    RunConfig,
    load_recipe,
    meaningful,
    sized_to,
    training_class,
)
from anaphora.training.text_sizes import sized_to_text

CORPUS_SIZES = (5_000, 50_000, 150_000, 500_000, 5_000_000)
"""Pairs of a parallel corpus, one number for each size that decides otherwise."""
TEXT_SIZES = (350_000, 1_000_000, 12_000_000)
"""Tokens of a text, likewise."""
DEFAULT_RECIPE = "transformer"


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
    in_recipe: bool = False
    value: Any = None
    """The recipe's value, where it has one."""

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        found = {"name": self.name, "type": self.type, "default": self.default, "meaning": self.meaning}
        found |= {"by_corpus_size": self.sized}
        found |= {"kinds": list(self.kinds)} if self.kinds else {}
        return found | ({"recipe_value": self.value} if self.in_recipe else {})


def section_class(section: str, kind: str) -> type:
    """The class that reads a section of a run with a model of that kind."""
    if section == "model":
        return settings_class(kind)
    if section == "training":
        return training_class(kind)
    return {"data": DataConfig, "tokenizer": TokenizerConfig, "decoding": DecodingConfig}[section]


def settings_of(section: str, kind: str = DEFAULT_RECIPE) -> list[Setting]:
    """All settings of one section, in the order of their class."""
    cls = section_class(section, kind)
    hints = typing.get_type_hints(cls)
    own = section == "model" or (section == "training" and kind in VECTOR_MODELS)
    kinds = (kind,) if own else ()
    return [
        Setting(section, key, type_in_words(hints[key]), default, meaning, kinds)
        for key, (_, default, meaning) in documentation(cls).items()
    ]


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
    kind, by_size = config.model.kind, sized(document, config.model.kind)
    found = []
    for section in SECTIONS:
        values, said = to_mapping(getattr(config, section)), document.get(section, {})
        known = set(values) if section == "model" else _meaningful(kind, section, values)
        for setting in settings_of(section, kind):
            if setting.key in known:
                own: dict[str, Any] = {}
                if setting.key in said:
                    own = {"in_recipe": True, "value": values[setting.key]}
                decided = (section, setting.key) in by_size and not own
                found.append(replace(setting, **own, sized=decided))
    return found


def _meaningful(kind: str, section: str, values: dict[str, Any]) -> set[str]:
    """Settings that mean something for a kind of model; for those that can classify, with labels or without."""
    found = set(meaningful(kind, section, values))
    return found | set(meaningful(kind, section, values, classifier=True)) if kind in NEURAL_MODELS else found


def sized(recipe: Document, kind: str) -> set[tuple[str, str]]:
    """What the size of the corpus decides: (section, key)."""
    documents: Iterable[Document] = ()
    if kind in TRANSLATORS:
        documents = [sized_to(pairs, recipe, kind) for pairs in CORPUS_SIZES]
    elif kind in NEURAL_MODELS:
        documents = [sized_to_text(kind, tokens, labelled=False, recipe=recipe) for tokens in TEXT_SIZES]
    return {(section, key) for document in documents for section, own in document.items() for key in own}


def without_recipe() -> list[Setting]:
    """All settings of all sections; of section `model` those of the default recipe."""
    by_size = sized({}, DEFAULT_RECIPE)
    return [
        replace(setting, sized=(section, setting.key) in by_size)
        for section in SECTIONS
        for setting in settings_of(section)
    ]


def every_setting() -> list[Setting]:
    """Those of all kinds of models too; kinds that have the same setting stand together."""
    found: dict[tuple[str, str, str, str], list[Setting]] = {}
    for one in without_recipe():
        if one.section != "model":
            found[one.name, one.type, in_yaml(one.default), one.meaning] = [one]
    for section, kinds in (("model", KINDS), ("training", VECTOR_MODELS)):
        for one in (one for kind in kinds for one in settings_of(section, kind)):
            found.setdefault((one.name, one.type, in_yaml(one.default), one.meaning), []).append(one)
    return [replace(same[0], kinds=tuple(kind for one in same for kind in one.kinds)) for same in found.values()]


def find_settings(wanted: str | None = None, recipe: str | None = None) -> list[Setting]:
    """The settings of a section, or of a name with or without its section; all of them by default."""
    listed = without_recipe() if recipe is None else of_recipe(recipe)
    if wanted is None:
        return listed
    section = wanted.removesuffix(".")
    if section in SECTIONS:
        return [one for one in listed if one.section == section]
    if recipe is None:
        listed = every_setting()
    if found := [one for one in listed if wanted in (one.name, one.key)]:
        return found
    known = {one.name for one in listed} if "." in wanted else {one.key for one in listed} | set(SECTIONS)
    where = "" if recipe is None else f" with recipe {recipe}"
    raise UserError(f"there is no setting or section {wanted!r}{where}", cure=nearest(wanted, known))
