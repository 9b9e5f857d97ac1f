"""Where the system is not POSIX: what Windows lacks is hidden from the program, which has to work without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from anaphora.cli.app import app

HIDING = """
import builtins, ctypes, mmap, os, signal, sys
import numba, numpy, pyarrow, rich.console, rich.progress, tokenizers, torch, typer, filelock, sacrebleu  # theirs
import multiprocessing, shutil, subprocess, tempfile, concurrent.futures, asyncio

ABSENT = {"resource", "fcntl", "termios", "pwd", "grp", "tty", "pty", "posix", "syslog", "readline"}
plain_import, plain_open, plain_library = builtins.__import__, os.open, ctypes.CDLL

def ours(depth=2):
    return sys._getframe(depth).f_globals.get("__name__", "").split(".")[0] == "anaphora"

def importing(name, *rest, **named):
    if name in ABSENT and ours():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return plain_import(name, *rest, **named)

def opening(path, *rest, **named):
    if ours() and os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return plain_open(path, *rest, **named)

def library(name, *rest, **named):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    return plain_library(name, *rest, **named)

def signalling(process, number):
    raise AssertionError("os.kill(process, 0) is a Ctrl-C to Windows")

builtins.__import__, os.open, ctypes.CDLL, os.kill = importing, opening, library, signalling
for name in ("fork", "forkpty", "register_at_fork", "sched_getaffinity", "pwrite", "pread", "O_DIRECTORY", "getuid",
             "geteuid", "getgid", "killpg", "setsid", "mkfifo", "statvfs", "sysconf", "uname", "fchown", "chown",
             "posix_fadvise", "posix_fallocate", "getloadavg", "nice", "wait4", "pipe2", "ctermid", "ttyname", "sync"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGQUIT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGTSTP", "SIGCONT",
             "setitimer", "alarm", "pause", "pthread_kill", "pthread_sigmask", "sigwait"):
    if hasattr(signal, name):
        delattr(signal, name)
for name in [name for name in vars(mmap) if name.startswith(("MADV_", "MAP_", "PROT_"))]:
    delattr(mmap, name)
"""
USING = """
import importlib, pkgutil
from pathlib import Path
import anaphora
for found in pkgutil.walk_packages(anaphora.__path__, "anaphora."):
    if not found.name.endswith(("_triton", "__main__")):  # Triton is Linux's alone
        importlib.import_module(found.name)
folder, translator = Path(sys.argv[1]), sys.argv[2]
from anaphora.cli.main import main
def run(*words):
    sys.argv = ["anaphora", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, (words, ended.code)
for verb in sys.argv[3:]:
    run(verb, "--help")
text = folder / "text.txt"
text.write_text("the dog sees the cat\\nthe cat sees the dog\\n" * 20)
run("train", str(folder / "ngram"), "--text", str(text), "--quiet")
run("generate", str(folder / "ngram"), "the", "--seed", "1")
run("train", str(folder / "words"), "--text", str(text), "--recipe", "cbow", "model.dim=4", "--quiet")
run("neighbours", str(folder / "words"), "dog")
run("translate", translator, str(text), "--output", str(folder / "out.txt"), "--device", "cpu")
assert len((folder / "out.txt").read_text().splitlines()) == 40
anaphora.train(folder / "ngram-2", text=text, settings={"training.max_memory": "1GB"})
print("all of it")
"""


def test_nothing_needs_what_windows_lacks(tmp_path: Path, micro: Path) -> None:
    """Every module is imported, every verb explains itself; models are counted, learned, loaded and used."""
    verbs = [info.name or getattr(info.callback, "__name__", "") for info in app.registered_commands]
    script = tmp_path / "hidden.py"
    script.write_text(HIDING + USING)
    ended = subprocess.run(
        [sys.executable, script, tmp_path, micro, *verbs], capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.endswith("all of it\n")
