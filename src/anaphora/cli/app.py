"""The verbs of `anaphora VERB …`. One thin file a verb; nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import copy
import os
import re
from typing import Annotated, Any

import typer

from anaphora.cli import (
    align,
    analogy,
    average,
    check,
    classify,
    compare,
    completion,
    convert,
    demo,
    encode,
    evaluate,
    fill,
    generate,
    info,
    map,
    mix,
    neighbours,
    patch,
    score,
    senses,
    settings,
    train,
    translate,
    walk,
    why,
)
from anaphora.cli.help import Front, Verb
from anaphora.cli.model_option import opens_models
from anaphora.errors import at_a_shell
from anaphora.version import __version__

app = typer.Typer(
    name="anaphora",
    cls=Front,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
LEARN, USE, LOOK, DEMO = "Learn", "Use", "Look", "Begin here"
app.command(cls=Verb, rich_help_panel=DEMO)(demo.demo)
app.command(cls=Verb, rich_help_panel=LEARN)(check.check)
app.command(cls=Verb, rich_help_panel=LEARN)(train.train)
app.command(cls=Verb, rich_help_panel=LEARN)(opens_models(average.average))
app.command(cls=Verb, rich_help_panel=LEARN)(compare.compare)
app.command(cls=Verb, rich_help_panel=LEARN)(opens_models(mix.mix))
app.command(cls=Verb, rich_help_panel=LEARN)(settings.settings)
app.command(cls=Verb, rich_help_panel=USE)(opens_models(translate.translate))
app.command(cls=Verb, rich_help_panel=USE)(opens_models(generate.generate))
app.command(cls=Verb, rich_help_panel=USE)(opens_models(fill.fill))
app.command(cls=Verb, rich_help_panel=USE)(opens_models(score.score))
app.command(cls=Verb, rich_help_panel=USE)(opens_models(evaluate.evaluate))
app.command(cls=Verb, rich_help_panel=USE)(opens_models(classify.classify))
app.command(cls=Verb, rich_help_panel=USE)(opens_models(encode.encode))
app.command(cls=Verb, rich_help_panel=USE)(patch.patch)
app.command(cls=Verb, rich_help_panel=USE)(convert.convert)
app.command(cls=Verb, rich_help_panel=LOOK)(opens_models(align.align))
app.command(cls=Verb, rich_help_panel=LOOK)(opens_models(walk.walk))
app.command(cls=Verb, rich_help_panel=LOOK)(opens_models(why.why))
app.command(cls=Verb, rich_help_panel=LOOK)(senses.senses)
app.command(cls=Verb, rich_help_panel=LOOK)(neighbours.neighbours)
app.command(cls=Verb, rich_help_panel=LOOK)(analogy.analogy)
app.command(cls=Verb, rich_help_panel=LOOK, name="map")(map.map_)
app.command(cls=Verb, rich_help_panel=LOOK)(opens_models(info.info))


def _version(asked: bool) -> None:
    if asked:
        print(f"anaphora {__version__}")
        raise typer.Exit


@app.callback()
def anaphora(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Sequence models on your own text: train a translator or a language model, use it, look inside.

    Settings are written section.key=value, such as training.max_steps=2000; `anaphora settings` lists them. Results go
    to stdout, progress to stderr. Exit codes: 0 done, 2 wrong input or usage, 1 internal error, 130 interrupted.

    anaphora train runs/en-de --source train.en --target train.de

    anaphora translate runs/en-de input.txt

    anaphora VERB --help
    """


ClickException: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""Typer used to stand on the package click and now carries its own copy: this is whichever it uses."""


def run(words: list[str]) -> Any:
    """Do what a command line asks for; what its verb returns."""
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if completion.ASKED in os.environ or words[:1] in (["--install-completion"], ["--show-completion"]):
        completion.join_words()
        words = completion.with_shell(words) if words else words
    with at_a_shell():
        return _asked_for(words[:1])(args=words, standalone_mode=False, prog_name="anaphora")


def _asked_for(words: list[str]) -> typer.Typer:
    """The command line with the one verb that is asked for: the options of all others would be made for nothing."""
    own = [info for info in app.registered_commands if words == [info.name or getattr(info.callback, "__name__", None)]]
    if not own or completion.ASKED in os.environ:
        return app
    alone = copy.copy(app)
    alone.registered_commands = own
    alone._add_completion = False
    return alone


def _as_typed(names: str, words: list[str]) -> str:
    """Of the names of an option, "'--beam' / '--num-beams'", the one that was written."""
    written = {word.partition("=")[0] for word in words}
    each = names.split(" / ")
    return next((name for name in each if name.strip("'") in written), each[0])


def mistaken_words(error: Any, words: list[str]) -> str | None:
    """What is wrong with a command line, as one sentence with its cure; nothing where the help is the answer."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return None
    what = " ".join(error.format_message().split()).rstrip(".")
    what = re.sub(r": Input should be ([^,]*).*", r": it should be \1", what)
    what = re.sub(r"'-[\w-]+'(?: / '-[\w-]+')+", lambda names: _as_typed(names[0], words), what)
    command = " ".join(["anaphora", *words[:1]]) if _asked_for(words[:1]) is not app else "anaphora"
    cure = f"`{command} --help` lists what there is"
    if possible := getattr(error, "possibilities", None):
        what, cure = error.message, f"did you mean {' or '.join(sorted(possible))}?"
    elif found := re.fullmatch(r"(.*?)[.,;]? Did you mean (.*)\?", what):
        what, cure = found[1], f"did you mean {found[2]}?"
    return f"{what[:1].lower()}{what[1:]}; {cure}"
