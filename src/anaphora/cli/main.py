"""The front door: `anaphora VERB …`. What goes wrong becomes one sentence and an exit code.

A Ctrl-C must find its handlers installed (cli/interruption.py), so that is the first thing that happens, and nothing is
imported here that takes time.
"""

from __future__ import annotations

from anaphora.cli import interruption

interruption.begin()

import io  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import warnings  # noqa: E402
from typing import NoReturn  # noqa: E402

from anaphora.cli import streams  # noqa: E402

SMALLER = "take a smaller --beam, smaller batches (--set batch_tokens=1024), or --device cpu"


def main() -> NoReturn:
    """Run the command line and turn what went wrong into one sentence and an exit code."""
    interruption.begin()  # anew, where one process calls this again
    try:
        streams.open_closed()
        if isinstance(sys.stdout, io.TextIOWrapper):  # text is UTF-8, in and out, whatever the locale
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
        threading.excepthook = _thread_ended
        warnings.showwarning = _note
        code = _run()
    except KeyboardInterrupt:
        interruption.end()
        code = _complain(interruption.message(), interruption.INTERRUPTED)
    finally:
        interruption.end()
        streams.settle()
    sys.exit(code)


def _run() -> int:
    """The exit code of what is asked for."""
    from anaphora.cli.app import ClickException, mistaken_words, run
    from anaphora.errors import CURES, UserError, refused_by_system

    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        if code == 130:  # what typer makes of a KeyboardInterrupt
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except UserError as error:
        return _complain(str(error), error.exit_code)
    except ClickException as error:
        return _complain(mistaken_words(error, sys.argv[1:]), 2)
    except BrokenPipeError:  # `| head`: say nothing
        streams.close_stdout()
        return 0
    except OSError as error:  # a full disk behind stdout, a folder that vanished: the system's refusal, not our mistake
        if error.errno not in CURES:
            raise
        if error.filename is None:  # what has no name and is written to is stdout
            streams.close_stdout()
        return _complain(str(refused_by_system(error, "the system refused", file=error.filename or "stdout")), 2)
    except (MemoryError, RuntimeError) as error:
        from anaphora.errors import first_line
        from anaphora.training.memory import is_out_of_memory

        if type(error).__name__ == "Abort":  # typer's word for an end of input
            raise KeyboardInterrupt from None
        if not is_out_of_memory(error):
            if (code := _blamed(error)) is None:
                raise
            return code
        return _complain(f"memory ran out ({first_line(error)}); {SMALLER}", 2)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer would call that a failure
            streams.close_stdout()
            return 0
        raise
    except Exception as error:
        if (code := _blamed(error)) is None:
            raise
        return code


def _blamed(error: Exception) -> int | None:
    """What goes wrong in a model file of the user's own is the user's to mend; all else is ours, with a traceback."""
    from anaphora.models.model_file import blamed

    mistake = blamed(error)
    return None if mistake is None else _complain(str(mistake), mistake.exit_code)


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    """A thread that writes a log and finds the disk full hands its error to the main one, which says it."""
    if not isinstance(ended.exc_value, OSError):
        threading.__excepthook__(ended)


def _note(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
    """A setting by its old name is worth a line; other warnings are as Python shows them."""
    if category.__name__ != "OldName":
        print(warnings.formatwarning(message, category, *where[:2]), end="", file=streams.Steadfast(sys.stderr))  # type: ignore[arg-type]
    elif not {"-q", "--quiet"} & set(sys.argv):
        print(f"note: {message}", file=streams.Steadfast(sys.stderr))


def _complain(text: str | None, code: int) -> int:
    """The sentence on stderr, and as JSON where that is asked for."""
    from anaphora.errors import printable

    if text is not None:
        print(f"anaphora: {printable(text)}", file=streams.Steadfast(sys.stderr), flush=True)
    if "--json" in sys.argv:
        from anaphora.cli.output import json_line

        try:
            print(json_line({"error": text or "no command is given", "exit_code": code}), flush=True)
        except OSError:  # there is nobody to read it
            streams.close_stdout()
    return code
