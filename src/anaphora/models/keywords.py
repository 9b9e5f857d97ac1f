"""Models by keywords, as one types them:

    Transformer(vocabulary=32_000, dim=512, heads=8, layers=6)

The keywords are the settings of section `model`, checked by the same code and with the same defaults: a settings object
is made of them, and the model of that. So a constructor takes either keywords or, as the house itself calls it, a
settings object and the sizes of the vocabularies.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

from anaphora.errors import UserError, nearest, shown
from anaphora.models.registry import kinds, loaded, system

P = ParamSpec("P")


@dataclass(kw_only=True)
class TranslatorKeywords:
    """What the constructor of a translator is given besides its settings."""

    vocabulary: int | tuple[int, int]
    """Tokens that there are, special ones included: one number for a joint vocabulary, or one for the source and one
    for the target, which have tables of their own then (`tie="target"`, unless said otherwise)."""


@dataclass(kw_only=True)
class LanguageKeywords:
    """What the constructor of a language model is given besides its settings."""

    vocabulary: int
    """Tokens that there are, special ones included."""


def by_keywords(
    keywords: Callable[P, Any], section: Callable[[Any, dict[str, Any]], Mapping[str, Any]] | None = None
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Let a constructor (config, *vocabularies) be called by keywords, too.

    keywords: whatever has their signature: a dataclass of settings and `vocabulary`, or a function. section: makes
    section `model` of (the class, the keywords), where that is more than the keywords and the kind.
    """

    def decorated(constructor: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        @functools.wraps(constructor)
        def __init__(self: Any, *given: Any, **said: Any) -> None:
            if given or "config" in said:
                return constructor(self, *given, **said)
            from anaphora.models import settings

            name = type(self).__name__
            if "vocabulary" not in said:
                raise TypeError(f"{name}() is missing a keyword: vocabulary=32_000, the number of tokens")
            vocabulary = said.pop("vocabulary")
            pair = hasattr(keywords, "kind") and issubclass(keywords, TranslatorKeywords)  # type: ignore[arg-type]
            sizes = sizes_of(vocabulary, pair=pair)
            if len(set(sizes)) > 1:  # two vocabularies cannot have one table
                said.setdefault("tie", "target")
            if section is None:
                said = {"kind": keywords.kind, **said}  # type: ignore[attr-defined]
            else:
                said = dict(section(type(self), said))
            return constructor(self, settings(said), *sizes)

        own = inspect.signature(constructor)
        shown_ones = [one for one in inspect.signature(keywords).parameters.values() if one.name != "kind"]
        shown_ones.sort(
            key=lambda one: (one.kind, one.default is not inspect.Parameter.empty)
        )  # what must be said first
        first = next(iter(own.parameters.values()))
        __init__.__signature__ = own.replace(parameters=[first, *shown_ones])  # type: ignore[attr-defined]
        return __init__

    return decorated


def sizes_of(vocabulary: object, *, pair: bool) -> tuple[int, ...]:
    """`vocabulary=32_000` or, of a translator, `(8_000, 10_000)`, as the numbers that a constructor takes."""
    sizes = tuple(vocabulary) if pair and isinstance(vocabulary, tuple | list) else (vocabulary,) * (1 + pair)
    if len(sizes) != 1 + pair or not all(isinstance(size, int) and size > 0 for size in sizes):
        wanted = "a number of tokens" + (", or two: of the source and of the target" if pair else "")
        raise ValueError(f"vocabulary must be {wanted}; it is {shown.repr(vocabulary)}")
    return sizes  # type: ignore[return-value]


def by_encoder(model: type, said: Mapping[str, Any]) -> dict[str, Any]:
    """Section `model` of the language model, or the classifier, that has the encoder of that name: `lstm` is the kind
    lstm, `transformer` the one of two kinds that the class is made of. None is as if it had not been said."""
    said = {name: value for name, value in said.items() if value is not None}
    encoder = said.pop("encoder", "transformer")
    if isinstance(encoder, Mapping):  # a section: {"kind": "lstm", "layers": 2}
        said, encoder = {**said, **encoder}, encoder.get("kind", "transformer")
    known: dict[str, str] = {}
    for kind in kinds("language"):
        made_by = loaded(system(kind).model or object)
        if "labels" in said or (isinstance(made_by, type) and issubclass(model, made_by)):
            known |= {kind.partition("-")[0]: kind, kind: kind}
    if encoder not in known:
        raise UserError(f"encoder cannot be {shown.repr(encoder)}", cure=nearest(str(encoder), known))
    return {**said, "kind": known[encoder]}
