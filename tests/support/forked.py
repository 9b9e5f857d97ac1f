"""A command in a process of its own that need not begin by importing everything: a copy of this one.

`Forked(["info", run])` is `subprocess.Popen([sys.executable, "-m", "anaphora", "info", run])`, seconds sooner: it has
its own streams, environment, folder, signals and exit code, and can be killed. What belongs to the start of an
interpreter (imports, the encoding of its streams, memory) is for processes that are really started.
"""

from __future__ import annotations

import importlib
import inspect
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

PARAMETERS = list(inspect.signature(subprocess.Popen._execute_child).parameters)  # type: ignore[attr-defined]

IMPORTED = ("torch._dynamo", "anaphora.api", "anaphora.tasks.translation_run", "anaphora.cli.main")


class Forked(subprocess.Popen[Any]):
    """Words of a command line, without the program's name; then what Popen takes."""

    def __init__(self, words: Sequence[object], *, module: str = "anaphora", **options: Any) -> None:
        self.module = module
        for module in IMPORTED:  # what a training needs: once here, not in each copy
            importlib.import_module(module)
        super().__init__(["anaphora", *map(str, words)], **options)

    def _execute_child(self, *values: Any) -> None:
        given = dict(zip(PARAMETERS, (self, *values)))
        ours = [given[name] for name in ("p2cwrite", "c2pread", "errread")]
        theirs = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        self.pid = os.fork()
        if self.pid == 0:
            _be_the_command(self.module, given, ours, theirs)
        self._child_created = True
        for mine, its in zip(ours, theirs):
            if mine != -1:  # a pipe, not a file that the caller opened
                os.close(its)


def command(*words: object, **options: Any) -> subprocess.CompletedProcess[Any]:
    """As micro_runs.command: what it says is captured, as text."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return run(words, env=environment, **{"capture_output": True, "encoding": "utf-8", **options})


def run(words: Sequence[object], **options: Any) -> subprocess.CompletedProcess[Any]:
    """As subprocess.run does it."""
    limit, text = options.pop("timeout", 300), options.pop("input", None)
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if text is not None:
        options["stdin"] = subprocess.PIPE
    with Forked(words, **options) as process:
        try:
            out, err = process.communicate(text, timeout=limit)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class Interpreters:
    """In place of `subprocess` in a module of the package: `python -m MODULE WORDS…` becomes a copy of this process.

    monkeypatch.setattr(running, "subprocess", Interpreters())
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, command: Sequence[str], **options: Any) -> Forked:
        place = command.index("-m") + 1
        return Forked(command[place + 1 :], module=command[place], **options)

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        place = command.index("-m") + 1
        return run(command[place + 1 :], module=command[place], **options)


def _be_the_command(module: str, given: dict[str, Any], ours: list[int], theirs: list[int]) -> NoReturn:
    """What the interpreter does around `python -m MODULE WORDS…`; it does not return."""
    code = 1
    folder, environment = given["cwd"], given["env"]
    try:
        if given["start_new_session"]:
            os.setsid()
        for handle in ours:
            if handle != -1:
                os.close(handle)
        for number, handle in enumerate(theirs):
            if handle != -1:
                os.dup2(handle, number)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if folder is not None:
            os.chdir(folder)
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)  # noqa: SIM115
        sys.argv = list(given["args"])
        if given["preexec_fn"] is not None:
            given["preexec_fn"]()
        code = _main(module)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _main(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    return 0
