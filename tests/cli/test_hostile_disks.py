"""Places to write that are in the way, read-only or full: said in one sentence, nothing lost, nothing half-written."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import anaphora
import forked
from hostile_world import FAST, World, tree
from micro_runs import command

# Places to write ------------------------------------------------------------------------------------------------------


def test_outputs_in_the_way(world: World) -> None:
    (world.folder / "out").write_text("precious")
    (world.folder / "link").symlink_to(world.folder / "good.en")
    (world.folder / "loop").symlink_to(world.folder / "loop")
    for verb in ("translate", "evaluate"):
        for output, force, said in (
            ("out", False, "already exists; choose another file or add --force"),
            ("good.en", True, "is the input itself; choose another file for the output"),
            ("link", True, "is the input itself; choose another file for the output"),
            ("loop", True, "loop: "),
            (".", True, "is a folder, not a file; name a file to write"),
            ("absent/out", True, "there is no such folder; create it first"),
            ("good.de/out", True, "good.de: there is no such folder; create it first"),
            ("n" * 300, False, "(File name too long); choose a shorter name"),
        ):
            words = [*world.good(verb), "--output", world.folder / output, *(["--force"] if force else [])]
            assert said in world.refused(*words), output


def test_a_device_is_written_to_and_never_replaced(world: World) -> None:
    before = Path("/dev/null").stat().st_rdev
    assert world.say(*world.good("translate"), "--output", "/dev/null", "--force").code == 0
    assert Path("/dev/null").stat().st_rdev == before
    (world.folder / "pointer").symlink_to(world.folder / "out")
    assert world.say(*world.good("translate"), "--output", world.folder / "pointer").code == 0
    assert (world.folder / "pointer").is_symlink()
    assert (world.folder / "out").read_text().count("\n") == 20


def test_run_folders_in_the_way(world: World) -> None:
    files = ["--source", world.folder / "good.en", "--target", world.folder / "good.de", *FAST]
    for place, said in (
        (world.folder, "exists and is no run of Anaphora; choose a new folder; nothing was changed"),
        (world.folder / "good.en", "good.en: is a file, not a folder; choose another name"),
        (world.folder / "good.en" / "run", "cannot be made (Not a directory); "),
        (world.folder / ("n" * 300), "(File name too long); choose a shorter name"),
    ):
        assert said in world.refused("train", place, *files)


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("verb", ["train", "translate", "evaluate", "average"])
def test_a_read_only_folder(own: World, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: whoever runs the tests as root may write everywhere."""
    opened = os.open

    def guarded(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        return opened(path, flags, *rest, **more) if not flags & os.O_CREAT else read_only()

    monkeypatch.setattr(os, "open", guarded)  # the lock
    monkeypatch.setattr(Path, "mkdir", read_only)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    output = ["--output", own.folder / "out"] if verb in ("translate", "evaluate") else []
    sentence = own.refused(*own.good(verb), *output)
    assert re.search(
        r"(Read-only file system\)|no file can be created in this folder); choose a folder that you", sentence
    )


def test_translating_from_a_folder_that_cannot_be_written(own: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", read_only)
    monkeypatch.setattr("anaphora.folder.write_bytes", read_only)
    for verb in ("translate", "score", "info"):
        assert own.say(*own.good(verb)).code == 0


@pytest.mark.parametrize("verb", ["translate", "evaluate"])
def test_a_disk_that_is_full_when_the_translations_are_written(
    world: World, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.folder / "out").write_text("precious")
    before = tree(world.folder)
    monkeypatch.setattr(os, "fsync", no_space)
    answer = world.say(*world.good(verb), "--output", world.folder / "out", "--force")
    assert answer.code == 2
    assert "out: cannot be written (No space left on device); free some space there" in answer.err
    assert "Traceback" not in answer.err
    kept = world.folder / "out.unfinished"
    assert kept.exists() == (verb == "translate")  # where there is room again, nothing is translated twice
    assert (f"20 lines are translated and kept in {kept}: repeat the command" in answer.err) == kept.exists()
    kept.unlink(missing_ok=True)
    assert tree(world.folder) == before


def test_a_disk_that_fills_up_at_any_moment_of_training(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th time that something is to be forced onto the disk, there is no room. Repeated with room, the run ends as
    one that was never disturbed."""
    assert world.say(*world.good("train")).code == 0
    undisturbed = (world.run / "model.safetensors").read_bytes()
    shutil.rmtree(world.run)
    fsync, said = os.fsync, set()
    for moment in (1, 4, 8, 14, 17, 18, 20, 22, 24, 27, 30, 33, 36, 40):
        left = moment

        def full(handle: int) -> None:
            nonlocal left
            left -= 1
            fsync(handle) if left else no_space()

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            answer = world.say(*world.good("train"))
        if left > 0:  # it was over before
            break
        assert answer.code == 2, f"{moment}: {answer.err}"
        assert "Traceback" not in answer.err
        (sentence,) = [line for line in answer.err.splitlines() if line.startswith("anaphora: ")]
        assert re.search(r"cannot be written \(No space left on device\); free some space there", sentence)
        said.add(Path(sentence.removeprefix("anaphora: ").split(":")[0]).name)
        assert not list(world.run.rglob(".unfinished-*"))
        if (world.run / "checkpoints").is_dir() and any((world.run / "checkpoints").iterdir()):
            assert anaphora.load(world.run, "cpu").translate("a cat").text is not None
        if moment % 3 == 0 or moment > 20:  # others go on where the last one failed
            shutil.rmtree(world.run, ignore_errors=True)
    assert {"data", "step-00000001"} <= said, said
    assert world.say(*world.good("train")).code == 0
    assert (world.run / "model.safetensors").read_bytes() == undisturbed


DISKS = """
import subprocess, sys
from pathlib import Path
import torch
from anaphora.cli.main import main

def say(*words):
    sys.argv = ["anaphora", *map(str, words)]
    try:
        main()
    except SystemExit as ended:
        print(f"exit code {ended.code}", file=sys.stderr, flush=True)

base, model, source, target, *fast = sys.argv[1:]
base = Path(base)
torch.set_num_threads(1)
for size in (4, 40, 100, 216):
    disk = base / str(size)
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], check=True)
    say("train", disk / "run", "--source", source, "--target", target, "--device", "cpu", *fast)
    if size == 216:
        say("info", disk / "run", "--quiet")
subprocess.run(["mount", "-o", "remount,ro", base / "216"], check=True)
say("info", base / "216" / "run")
say("average", base / "216" / "run")
say("train", base / "216" / "run", "--source", source, "--target", target, "--device", "cpu", *fast)
say("train", base / "216" / "other", "--source", source, "--target", target, "--device", "cpu", *fast)
say("translate", model, source, "--beam", 1, "--output", base / "216" / "out")
"""


def test_real_disks_that_are_full_or_read_only(world: World) -> None:
    """File systems of some kilobytes, in a name space of their own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("needs `unshare` and the right to use it")
    words = [world.folder, world.model, world.folder / "good.en", world.folder / "good.de", *FAST]
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", DISKS, *map(str, words)], capture_output=True, text=True, timeout=120
    )
    if "mount" in done.stderr and "exit code" not in done.stderr:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr.splitlines()[-1]}")
    assert "Traceback" not in done.stderr
    said = re.findall(r"anaphora: (.*)|exit code (\d)", done.stderr)
    assert [code for _, code in said if code] == ["2", "2", "2", "2", "0", "0", "2", "2", "2", "2"], done.stderr
    sentences = [sentence for sentence, _ in said if sentence]
    assert all("No space left on device); free some space" in sentence for sentence in sentences[:4]), sentences
    assert all("Read-only file system); choose" in sentence for sentence in sentences[4:-1]), sentences
    assert "no file can be created in this folder; choose a folder that you may write to" in sentences[-1]
    assert "step-00000002" in sentences[3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_stdout(world: World) -> None:
    for words, begun in ((world.good("translate"), forked.command), (["info", world.model, "--json"], command)):
        with Path("/dev/full").open("w") as full:
            done = begun(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 2, done.stderr
        assert "anaphora: stdout: the system refused (No space left on device); free" in done.stderr
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
