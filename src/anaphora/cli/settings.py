"""`anaphora settings`: what can be set, and what it means."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from anaphora.cli.model_option import ModelFile
from anaphora.cli.output import Json, Output, Quiet

if TYPE_CHECKING:
    from anaphora.tasks.settings_listing import Setting

MAX_COLUMNS = 100
"""Columns: longer lines are hard to read, however wide the terminal."""


def settings(
    name: Annotated[
        str | None, typer.Argument(metavar="SECTION|SECTION.KEY", help="A section, or one setting. All by default.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="List the settings of this recipe's model, with the recipe's own values.")
    ] = None,
    model: ModelFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the settings with their types, defaults and meanings.

    The sections are data, tokenizer, model, training and decoding. Which settings a model has depends on its kind:
    without --recipe, those of a Transformer translator are listed. "By corpus size" marks a setting that is chosen to
    suit the training text unless you or the recipe set it.

    anaphora settings training

    anaphora settings training.max_steps

    anaphora settings model --recipe lstm

    anaphora settings model --model my_model.py

    anaphora settings --json
    """
    from anaphora.tasks.settings_listing import SECTIONS, find_settings

    out = Output(as_json=json, quiet=quiet)
    if model is not None:
        from anaphora.models.model_file import choose, open_model_file

        open_model_file(model)
        recipe = recipe or choose(model, ()).kind
    found = find_settings(name, recipe)
    width = min(max(shutil.get_terminal_size().columns, 40), MAX_COLUMNS)
    one_by_one = name is not None and name.removesuffix(".") not in SECTIONS
    section = None
    for setting in found:
        if section != setting.section and not one_by_one:
            out.result(f"{'' if section is None else chr(10)}{_heading(setting, recipe)}\n")
        section = setting.section
        out.result(_entry(setting, recipe, width, with_kinds=one_by_one))
    if recipe is None and not one_by_one and any(one.section == "model" for one in found):
        out.say("note: these are the model settings of kind transformer; --recipe NAME lists those of another kind")
    out.finish({"recipe": recipe, "settings": [setting.document() for setting in found]})


def _heading(setting: Setting, recipe: str | None) -> str:
    """Of a section: its name, and of which kind of model its settings are."""
    kinds = f" (kind: {', '.join(setting.kinds)})" if setting.kinds else ""
    return f"{setting.section.upper()}{kinds}" + ("" if recipe is None else f", recipe {recipe}")


def _entry(setting: Setting, recipe: str | None, width: int, *, with_kinds: bool) -> str:
    """Name, type, default and the recipe's value on a line, the meaning indented below."""
    from anaphora.tasks.settings_listing import in_yaml

    parts = [setting.type, f"default {'; '.join(setting.defaults())}"]
    if setting.in_recipe:
        parts.append(f"{recipe}: {in_yaml(setting.value)}")
    if with_kinds and setting.kinds:
        parts.append(f"{'kind' if len(setting.kinds) == 1 else 'kinds'} {', '.join(setting.kinds)}")
    lay = textwrap.TextWrapper(width, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    head = lay.fill(f"{setting.name}  {'; '.join(parts)}")
    lay.initial_indent = "    "
    return f"{head}\n{lay.fill(setting.meaning)}" if setting.meaning else head
