"""What people hand over beside text: numbers, choices, flags, paths, each as the signature has it, or a UserError.

    @checked(top=1)
    def fill(self, lines: str | Lines, *, top: int = 5, unknown: bool = False): ...

    model.fill("the ___", top=0)        top must be at least 1, not 0; give 1 or more
    model.fill("the ___", top="many")   top must be a whole number, not 'many'; write top=100, say

The signature is all that is read, so that nothing is written twice. Text itself is looked at by given.py, and what only
type checkers can see (imported for them alone) by the function.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from anaphora.arguments.given import article, path_of
from anaphora.config import convert
from anaphora.device import device_name
from anaphora.errors import UserError, option, shown

P = ParamSpec("P")
R = TypeVar("R")
PATHS = ({str, PathLike[str]}, {str, Path})
"""How signatures say: a path."""
LOADED = {"TranslationModel": "a translator", "TextModel": "a language model", "ScoringTextModel": "a language model"}


def checked(**least: float) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse arguments that are not what the signature says; least: the smallest value of some numbers."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        if unknown := least.keys() - signature.parameters.keys():
            raise TypeError(f"{function.__qualname__} has no {', '.join(unknown)}")

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:  # too many, too few, an unknown name: Python says that best
                return function(*args, **kwargs)
            for name, kinds in _kinds(function).items():
                if name in bound.arguments:
                    bound.arguments[name] = _fitting(bound.arguments[name], kinds, name, least.get(name))
            return function(*bound.args, **bound.kwargs)

        return called

    return decorate


@functools.cache
def _kinds(function: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """{parameter: the kinds of value that it may have}, of those parameters that can be judged."""
    found = {}
    for name, one in inspect.signature(function).parameters.items():
        try:
            hint = eval(one.annotation, getattr(inspect.unwrap(function), "__globals__", {}))
        except (NameError, TypeError):  # imported for type checkers alone, or there is none
            continue
        union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        kinds = typing.get_args(hint) if union else (hint,)
        if one.kind is not one.VAR_KEYWORD and (_is_path(kinds) or all(map(_is_plain, kinds))):
            found[name] = kinds
    return found


def _is_path(kinds: tuple[Any, ...]) -> bool:
    return set(kinds) - {types.NoneType} in PATHS


def _is_plain(kind: Any) -> bool:
    """Whether one look tells if a value is of this kind: a class, a choice, something to call."""
    return (isinstance(kind, type) and not typing.get_args(kind)) or typing.get_origin(kind) in (Literal, Callable)


def _fitting(value: Any, kinds: tuple[Any, ...], name: str, least: float | None) -> Any:
    """The value as the function is to have it."""
    if value is None and types.NoneType in kinds:
        return None
    if name == "device":
        return device_name(value)
    if _is_path(kinds):
        return path_of(value, name)
    if bool in kinds and isinstance(value, int | np.bool_) and value in (0, 1):
        return bool(value)
    if any(isinstance(value, kind) for kind in kinds if isinstance(kind, type) and kind not in (int, float)):
        return value
    if callable(value) and any(typing.get_origin(kind) is Callable for kind in kinds):
        return value
    wanted, typed = [kind for kind in kinds if kind is not types.NoneType], option(name)
    if len(wanted) == 1 and (wanted[0] in (int, float) or typing.get_origin(wanted[0]) is Literal):
        found = convert(value, wanted[0], name=typed)
        if least is not None and found < least:
            raise UserError(f"{typed} must be at least {least}, not {found}", cure=f"give {least} or more")
        return found
    if isinstance(value, str) and value in [one for kind in wanted for one in _choices(kind)]:
        return value
    raise UserError(f"{typed} is {shown.repr(value)}", cure=f"give {' or '.join(map(_described, wanted))}")


def _choices(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _described(kind: Any) -> str:
    """A kind of value, in the words of those who write Python."""
    if choices := _choices(kind):
        return " or ".join(map(repr, choices))
    if typing.get_origin(kind) is Callable:
        return "a function"
    if loaded := LOADED.get(kind.__name__):
        return f"{loaded} that anaphora.load returned"
    return "True or False" if kind is bool else f"{article(kind.__name__)} {kind.__name__}"
