"""Signatures as people and their editors read them: every option by its name, and the names that other tools use.

    @spelled_out(DecodingOptions)
    def translate(self, text, *, align=False, **decoding: Unpack[DecodingOptions]): ...

Type checkers read `Unpack`; whoever asks at run time (help(), tab completion, `inspect.signature`) is shown the same
options one by one, None standing for what the model's folder says.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ForwardRef, ParamSpec, TypeVar

from anaphora.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")


def option_types(options: type) -> dict[str, str]:
    """{name: type} of a TypedDict, those of its bases first, as they are written."""
    return {
        name: hint.__forward_arg__ if isinstance(hint, ForwardRef) else str(hint)
        for name, hint in options.__annotations__.items()
    }


def spelled_out(options: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show each option of a TypedDict as a parameter, in the place of `**decoding`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        shown = inspect.signature(function)
        own = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
        if len(own) == len(shown.parameters):
            raise TypeError(f"{function.__qualname__} has no **options that could be spelled out")
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in option_types(options).items()
            if name not in shown.parameters
        ]
        function.__signature__ = shown.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return decorate


def also_named(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Understand parameters under other names too: also_named(max_new_tokens="tokens")."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for other in names.keys() & kwargs.keys():
                if kwargs.get(own := names[other]) is not None:
                    raise UserError(f"{other} is another name for {own}, and both are given", cure="leave one out")
                kwargs[own] = kwargs.pop(other)
            return function(*args, **kwargs)

        return called

    return decorate


def known_names(function: Callable[..., Any]) -> list[str]:
    """The keyword parameters that a function shows."""
    return [one.name for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
