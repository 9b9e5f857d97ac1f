"""The front door: `anaphora VERB …`. One thin file a verb; nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import sys
import threading
from typing import Annotated, NoReturn

import typer

from anaphora.cli import (
    align,
    analogy,
    average,
    check,
    classify,
    compare,
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
from anaphora.cli.output import json_line
from anaphora.errors import CURES, UserError, refused_by_system
from anaphora.version import __version__

app = typer.Typer(
    name="anaphora",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
LEARN, USE, LOOK, DEMO = "Learn", "Use", "Look", "Begin here"
app.command(rich_help_panel=DEMO)(demo.demo)
app.command(rich_help_panel=LEARN)(check.check)
app.command(rich_help_panel=LEARN)(train.train)
app.command(rich_help_panel=LEARN)(average.average)
app.command(rich_help_panel=LEARN)(compare.compare)
app.command(rich_help_panel=LEARN)(mix.mix)
app.command(rich_help_panel=LEARN)(settings.settings)
app.command(rich_help_panel=USE)(translate.translate)
app.command(rich_help_panel=USE)(generate.generate)
app.command(rich_help_panel=USE)(fill.fill)
app.command(rich_help_panel=USE)(score.score)
app.command(rich_help_panel=USE)(evaluate.evaluate)
app.command(rich_help_panel=USE)(classify.classify)
app.command(rich_help_panel=USE)(encode.encode)
app.command(rich_help_panel=USE)(patch.patch)
app.command(rich_help_panel=USE)(convert.convert)
app.command(rich_help_panel=LOOK)(align.align)
app.command(rich_help_panel=LOOK)(walk.walk)
app.command(rich_help_panel=LOOK)(why.why)
app.command(rich_help_panel=LOOK)(senses.senses)
app.command(rich_help_panel=LOOK)(neighbours.neighbours)
app.command(rich_help_panel=LOOK)(analogy.analogy)
app.command(rich_help_panel=LOOK, name="map")(map.map_)
app.command(rich_help_panel=LOOK)(info.info)


def _version(asked: bool) -> None:
    if asked:
        print(f"anaphora {__version__}")
        raise typer.Exit


@app.callback()
def anaphora(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it.")] = False,
) -> None:
    """Sequence models on your own text: train a translator or a language model, use it, look inside.

    Settings are written section.key=value (training.max_steps=2000); results go to stdout, progress to stderr.
    Exit codes: 0 done, 2 a mistake you can mend, 1 a mistake of ours, 130 interrupted.
    """


ClickException: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""Typer used to stand on the package click and now carries its own copy: this is whichever it uses."""


INTERRUPTED = "interrupted; what was saved is safe, repeat the command to go on"

SMALLER = "take a smaller --beam, smaller batches (--set batch_tokens=1024), or --device cpu"


def main() -> NoReturn:
    """Run the command line and turn what went wrong into one sentence and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # text is UTF-8, in and out, whatever the locale
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    threading.excepthook = _thread_ended
    try:
        code = _asked_for(sys.argv[1:2])(standalone_mode=False, prog_name="anaphora")
        sys.stdout.flush()
        if code == 130:  # what typer makes of a KeyboardInterrupt
            _complain(INTERRUPTED, 130)
        sys.exit(code if isinstance(code, int) else 0)
    except UserError as error:
        _complain(str(error), error.exit_code)
    except ClickException as error:
        error.show()  # type: ignore[attr-defined]
        _complain(None, 2, said=error.format_message())  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        _complain(INTERRUPTED, 130)
    except BrokenPipeError:
        _reader_has_gone()
    except OSError as error:  # a full disk behind stdout, a folder that vanished: the system's refusal, not our mistake
        if error.errno not in CURES:
            raise
        if error.filename is None:  # what has no name and is written to is stdout
            _close_stdout()
        _complain(str(refused_by_system(error, "the system refused", file=error.filename or "stdout")), 2)
    except (MemoryError, RuntimeError) as error:
        from anaphora.errors import first_line
        from anaphora.training.memory import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        _complain(f"memory ran out ({first_line(error)}); {SMALLER}", 2)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer would call that a failure
            _reader_has_gone()
        raise


def _asked_for(words: list[str]) -> typer.Typer:
    """The command line with the one verb that is asked for: the options of all others would be made for nothing."""
    own = [info for info in app.registered_commands if words == [info.name or getattr(info.callback, "__name__", None)]]
    if not own:
        return app
    alone = copy.copy(app)
    alone.registered_commands = own
    return alone


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    """A thread that writes a log and finds the disk full hands its error to the main one, which says it."""
    if not isinstance(ended.exc_value, OSError):
        threading.__excepthook__(ended)


def _reader_has_gone() -> NoReturn:
    """`| head`: say nothing."""
    _close_stdout()
    sys.exit(0)


def _close_stdout() -> None:
    """Keep Python from trying at exit to flush what could not be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]


def _complain(text: str | None, code: int, *, said: str | None = None) -> NoReturn:
    if text is not None:
        print(f"anaphora: {text}", file=sys.stderr, flush=True)
    if "--json" in sys.argv:
        print(json_line({"error": text or said, "exit_code": code}), flush=True)
    sys.exit(code)
