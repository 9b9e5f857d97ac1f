"""`--model my_model.py`: verbs that open a folder, whose model may be of a system of the user's own."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from anaphora.cli.streams import Steadfast

ModelFile = Annotated[
    str | None,
    typer.Option("--model", metavar="FILE.py", help="Your own system: the Python file that registers it."),
]
ModelFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="FILE.py",
        help="For a model of a system of your own: the Python file that registers it. Repeatable.",
    ),
]
LAST = ("device", "json", "quiet")
"""Options that all verbs have, at the end."""


def opens_models(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with that option: the file is executed before the verb begins."""

    @functools.wraps(verb)
    def run(*, model_files: list[str] | None = None, **arguments: Any) -> None:
        with changes_told():
            if model_files:
                from anaphora.models.model_file import open_model_file

                for file in model_files:
                    open_model_file(file)
            verb(**arguments)

    only = inspect.Parameter.KEYWORD_ONLY
    taken = [one.replace(kind=only) for one in inspect.signature(verb, eval_str=True).parameters.values()]
    place = next((n for n, one in enumerate(taken) if one.name in LAST), len(taken))
    taken.insert(place, inspect.Parameter("model_files", only, default=None, annotation=ModelFiles))
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return run


@contextmanager
def changes_told() -> Iterator[None]:
    """What is to be said of a folder whose system's file was changed since is a line on stderr."""
    from anaphora.models.model_file import ModelFileWarning

    usual, told = warnings.showwarning, set[str]()

    def show(message: Any, category: Any, *rest: Any) -> None:
        if not issubclass(category, ModelFileWarning):
            usual(message, category, *rest)
        elif str(message) not in told and not {"-q", "--quiet"} & set(sys.argv):
            told.add(str(message))
            print(f"warning: {message}", file=Steadfast(sys.stderr), flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ModelFileWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
