"""Folders that are never half-written: atomic files and folders, the lock of a run, and what a model folder holds.

A *model folder* is `config.yaml`, `tokenizer.json` (or one for each side), `model.safetensors`, `card.md` and
`metrics.json`: it takes and returns raw text. A *run folder* is a model folder that also holds `checkpoints/`, `data/`
and `logs/`. Everything is written under a temporary name, flushed to disk, then renamed, so a reader sees the old
version or the new one and nothing between, whenever the power goes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from anaphora.errors import RIGHTS, UPGRADE, UserError, option, refused_by_system
from anaphora.files.exchange import exchange
from anaphora.files.foreign import check_regular, is_there, open_file, read_bytes, read_json
from anaphora.files.shared_names import as_wished

FORMAT = 1
"""Version of the model folder; a reader refuses folders of a newer one."""

CONFIG, WEIGHTS, CARD, METRICS = "config.yaml", "model.safetensors", "card.md", "metrics.json"
CHECKPOINTS, DATA, LOGS = "checkpoints", "data", "logs"
COUNTING = "counting"
"""Folder in which n-grams are counted, inside the run's; it goes when the model is there."""
COOCCURRENCES = "cooccurrences"
"""Folder of GloVe's counts, inside the run's; it stays, and can be asked (models/vectors/cooccurrence.py)."""
LOCK, OWNER = ".lock", ".owner.json"
UNFINISHED = ".unfinished-"
"""Prefix of temporary names; whatever carries it was left by a killed process and may be deleted by the lock's
owner."""
NEW, OLD, GONE = "-", "+old-", "+gone-"
"""What stands in such a name between the number of the process and the name: what is to take that name, what had it and
may be all that is left, what is being deleted. No name that somebody chooses looks like another of the three."""
ATTEMPTS = 100
"""How often a folder is renamed anew that another process renames at the same time."""
OVERTAKEN = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)


def sync(path: Path) -> None:
    """Force a file or a folder's entries onto the disk, where the system can open a folder (Windows cannot)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_device(path: Path) -> bool:
    """A pipe, /dev/stdout, /dev/null: what can be written to, but must not be replaced."""
    # /dev/shm, below /dev, is a folder like any other
    named = str(path.absolute().parent) in ("/dev", "/dev/fd", "/proc/self/fd")
    return path.exists() and (named or not path.is_file()) and not path.is_dir()


def check_new_file(path: Path, *, force: bool, inputs: Iterable[Path] = ()) -> None:
    """Before any work: may a file be written there, and is nothing in its place? Never over the input itself."""
    try:
        if is_device(path):
            return
        if path.is_dir():
            raise UserError("is a folder, not a file", file=path, cure="name a file to write, in it for example")
        for read in inputs:
            if path.exists() and read.exists() and path.samefile(read):
                raise UserError("is the input itself", file=path, cure="choose another file for the output")
        if path.exists() and not force:
            raise UserError("already exists", file=path, cure=f"choose another file or add {option('force', True)}")
        folder = path.resolve().parent
        if not folder.is_dir():
            raise UserError("there is no such folder", file=path.parent, cure="create it first")
        if not os.access(folder, os.W_OK):
            raise UserError("no file can be created in this folder", file=path.parent, cure=RIGHTS)
    except OSError as error:
        raise refused_by_system(error, "cannot be written", file=path) from None
    except RuntimeError:  # what Python 3.11 and 3.12 make of links that point at one another
        raise UserError("is a broken link", file=path, cure="name a file to write") from None


def check_name(path: Path) -> None:
    """A run and its weights need a name that is UTF-8: Arrow, safetensors and TensorBoard open no other file."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise UserError("its name is not UTF-8", file=path, cure="choose another name, or rename it") from None


def write_text(path: Path, text: str, *, pipes: bool = False) -> None:
    """As UTF-8; names of files that are no UTF-8 are escaped, in JSON and YAML so that they are read back."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"), pipes=pipes)


def write_bytes(path: Path, content: bytes | memoryview, *, pipes: bool = False) -> None:
    """Replace a file atomically. A link stays a link, to the new content. pipes: those that a user names, as in
    `--output >(gzip > out.gz)`, are written to, and devices; in the place of a folder's own files they are refused."""
    try:
        if is_device(path):
            if not pipes:
                check_regular(path)
            with path.open("wb") as device:
                device.write(content)
            return
        path = path.resolve() if path.is_symlink() else path
    except OSError as error:
        raise refused_by_system(error, "cannot be written", file=path) from None
    temporary = temporary_name(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise refused_by_system(error, "cannot be written", file=path) from None
    sync(path.parent)


def temporary_name(path: Path) -> Path:
    """Where a file is written before it takes its name, in one step. What killed processes left under such names of
    this very file is deleted: nobody else would."""
    sweep_beside(path)
    return path.with_name(f"{UNFINISHED}{os.getpid()}{NEW}{path.name}")


def write_json(path: Path, document: Any) -> None:
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def discard(path: Path) -> None:
    """Delete a folder so that no half of it ever stands under its name: first another name, then the files."""
    if path.exists():
        aside = path.with_name(f"{UNFINISHED}{os.getpid()}{GONE}{path.name}")
        _delete(aside)
        path.rename(aside)
        _delete(aside)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Fill a temporary folder; it takes its name, in one step, only when the block ends well. What had that name before
    is deleted after that."""
    place = path.resolve() if path.is_symlink() else path  # a link stays a link, to the new folder
    if place.exists() and not place.is_dir():
        raise UserError("is not a folder, and is not replaced", file=path, cure="move it away")
    recover(place)  # before anything is swept: it may be all that is left
    temporary = temporary_name(place)
    _delete(temporary)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            sync(file)
        old = take_name(temporary, place)
        sync(place.parent)
        if old is not None:
            _delete(old)
        sweep_beside(place)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise refused_by_system(error, "cannot be written", file=path) from None
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def take_name(new: Path, path: Path) -> Path | None:
    """Rename a complete folder, in place of whatever stands there, though others may be doing the same. Where that
    stands then, if there was anything: the caller deletes it."""
    old = path.with_name(f"{UNFINISHED}{os.getpid()}{OLD}{path.name}")
    for attempt in range(ATTEMPTS):
        try:
            if not path.exists():
                new.rename(path)
                return None
            if exchange(new, path):
                return new  # it stands for the old one now
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
            try:
                new.rename(path)
            except BaseException:  # a Ctrl-C, too
                if not path.exists():
                    old.rename(path)
                raise
            return old
        except OSError as error:
            if error.errno not in OVERTAKEN or attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.001 * attempt)
    return None


def recover(path: Path) -> None:
    """Where a process was killed between renaming the old folder and the new one, give the old one its name back. While
    another process is doing that, wait for it."""
    with contextlib.suppress(OSError):  # no name that the system takes; or another process was quicker
        for _ in range(ATTEMPTS):
            if path.exists() or path.is_symlink() or not (left := left_behind(path, OLD)):
                return
            if dead := [folder for process, folder in left if not _runs(process)]:
                max(dead, key=lambda folder: folder.stat().st_mtime).rename(path)
                return
            time.sleep(0.001)


def left_behind(path: Path, *kinds: str) -> list[tuple[int, Path]]:
    """What other processes made beside this very file or folder and did not finish, with their numbers."""
    kind = "|".join(map(re.escape, kinds))
    ours = re.compile(rf"{re.escape(UNFINISHED)}(\d+)(?:{kind}){re.escape(path.name)}")
    with contextlib.suppress(OSError):  # where one may write, but not look
        there = [(ours.fullmatch(entry.name), entry) for entry in path.parent.iterdir()]
        return [(int(found[1]), entry) for found, entry in there if found is not None]
    return []


def publish(source: Path, path: Path) -> None:
    """Make `path` a second name of the complete file `source`, atomically (a hard link, or a copy where none can
    be)."""
    if path.exists() and path.samefile(source):  # renaming one name of a file onto another would do nothing
        return
    temporary = temporary_name(path)
    try:
        temporary.unlink(missing_ok=True)
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
            sync(temporary)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise refused_by_system(error, "cannot be written", file=path) from None
    sync(path.parent)


@contextlib.contextmanager
def written_by_others(path: Path) -> Iterator[Path]:
    """Where a library is to write a file that takes its name, in one step, when the block ends well: in a folder for
    itself, since a library has temporary files of its own beside the one it is asked for, which a killed process leaves
    under names that nobody would sweep."""
    room = temporary_name(path)
    try:
        room.mkdir(exist_ok=True)
        yield room / path.name
        readable(room / path.name)
        sync(room / path.name)
        (room / path.name).replace(path)
        sync(path.parent)
    except OSError as error:
        raise refused_by_system(error, "cannot be written", file=path) from None
    finally:
        shutil.rmtree(room, ignore_errors=True)


def is_run(folder: Path) -> bool:
    """Whether Anaphora made this folder: names alone prove nothing, people have a data/ and a config.yaml too."""
    with contextlib.suppress(OSError, UserError, ValueError, TypeError):
        if (folder / LOCK).exists() or "settings" in read_json(folder / DATA / "manifest.json"):
            return True
    with contextlib.suppress(OSError, UserError):
        return bool(read_config(folder))
    return False


def refuse_existing_folder(path: Path, *, force: bool) -> None:
    """Before any work: may a model folder be put there? With `force` one may be replaced, and nothing else."""
    recover(path)
    if path.exists() and not path.is_dir():
        raise UserError("is a file, not a folder", file=path, cure="name a new folder")
    if not path.exists() or not any(path.iterdir()):
        return
    if not force:
        raise UserError("already exists", file=path, cure=f"choose another folder or add {option('force', True)}")
    if not is_run(path):
        raise UserError("is not a model folder, so it is not replaced", file=path, cure="choose another folder")
    if (path / DATA).exists() or (path / CHECKPOINTS).exists():
        raise UserError(
            "is a run with its training data, so it is not replaced", file=path, cure="choose another folder"
        )


def readable(path: Path) -> None:
    """Give a file the permissions that a plainly written one would have (some libraries write for their user alone)."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def sweep(folder: Path) -> None:
    """Delete what killed processes left half-written; only the owner of the lock may call this."""
    recover(folder / DATA)
    for where in (folder, folder / CHECKPOINTS):
        for leftover in where.glob(f"{UNFINISHED}*"):
            _delete(leftover)


def sweep_beside(path: Path) -> None:
    """Delete what processes that are no more left half-written or half-deleted of this very file or folder, which has
    no lock. What it should have replaced goes only when something stands in its place."""
    with contextlib.suppress(OSError):  # a name that the system does not take
        kinds = (NEW, GONE, OLD) if path.exists() else (NEW, GONE)
        for process, leftover in left_behind(path, *kinds):
            if not _runs(process):
                _delete(leftover)


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether a process is there, or may be: to Windows, signal 0 is a Ctrl-C."""
    if not hasattr(os, "fork"):
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def discard_empty(folder: Path) -> None:
    """Remove a run folder in which nothing but its lock was ever made: the command was a mistake from the start."""
    if all(path.name == LOCK for path in folder.iterdir()):
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


class RunLock:
    """One process at a time in a run folder; whoever gets it deletes what killed ones left half-written.

    The operating system holds the lock (flock), so it falls with its process, however that dies. The note beside it is
    for people: a note without a lock means that the last process was killed, and `abandoned` says so.
    """

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock

        self.note = folder / OWNER
        self.lock = FileLock(folder / LOCK)
        self.folder = folder
        self.abandoned: dict[str, Any] | None = None

    def __enter__(self) -> RunLock:
        from filelock import Timeout

        is_there(self.folder / LOCK)  # or nothing: a lock on a pipe would be none
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            owner = self._read() or {}
            process = f"process {owner['process']}, since {owner['since']}" if owner else "another process"
            raise UserError(
                f"is in use by {process}", file=self.folder, cure="wait for it, stop it, or choose another folder"
            ) from None
        except OSError as error:
            raise refused_by_system(error, "cannot be used", file=self.folder) from None
        self.abandoned = self._read()
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        try:
            write_json(self.note, {"process": os.getpid(), "since": since})
        except BaseException:
            self.lock.release()
            raise
        sweep(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.note.unlink(missing_ok=True)
        self.lock.release()

    def _read(self) -> dict[str, Any] | None:
        try:
            owner = read_json(self.note)
            return owner if {"process", "since"} <= owner.keys() else None
        except (OSError, UserError, ValueError, AttributeError):
            return None


def read_config(folder: Path) -> dict[str, Any]:
    """The resolved settings of a model or run folder."""
    from anaphora.config import read_yaml, renamed

    path = folder / CONFIG
    recover(folder)
    if not is_there(path):
        begun = (folder / DATA).is_dir() and (folder / LOCK).exists()
        if begun and not (folder / WEIGHTS).exists() and not (folder / CHECKPOINTS).exists():
            cure = "repeat the `anaphora train` command and let it come to its end"
            raise UserError("holds no model yet", file=folder, cure=cure)
        raise UserError(
            "is not a model folder (it has no config.yaml)"
            if folder.is_dir()
            else "is a file, not a model folder"
            if folder.exists()
            else "there is no such folder",
            file=folder,
            cure="give the folder that `anaphora train` wrote"
            + (", or a file by a name that ends in .arpa; of vectors .txt .vec .bin" if folder.is_file() else ""),
        )
    document = read_yaml(path)
    version = document.pop("anaphora_format", None)
    if not isinstance(version, int) or isinstance(version, bool):
        raise UserError(
            "is not an Anaphora model's config", file=path, cure="give the folder that `anaphora train` wrote"
        )
    if version > FORMAT:
        raise UserError(
            f"was written by a newer Anaphora (format {version}, this one reads up to {FORMAT})",
            file=path,
            cure=UPGRADE,
        )
    return renamed(document, file=path, noted=False)


def write_config(folder: Path, document: dict[str, Any]) -> None:
    from anaphora.config import write_yaml

    write_text(folder / CONFIG, write_yaml({"anaphora_format": FORMAT, **as_wished(document)}))


def read_metrics(folder: Path) -> dict[str, Any]:
    """What the folder says of its model; nothing where the file is missing or torn: a model works without it."""
    try:
        metrics = read_json(folder / METRICS)
    except (OSError, UserError, ValueError):
        return {}
    if not isinstance(metrics, dict):
        return {}
    # a run asks these two how far it is: what is no number says nothing
    return {k: v for k, v in metrics.items() if k not in ("step", "finished_step") or v is None or isinstance(v, int)}


def weights_file(folder: Path) -> Path:
    """The weights to use: the published ones, or those of the newest checkpoint if the run died before publishing."""
    published = folder / WEIGHTS
    if is_there(published):  # a pipe or a device is no reason to take older ones in silence
        try:
            check_regular(published)
        except OSError as error:
            raise refused_by_system(error, "cannot be read", file=published) from None
        return published
    for checkpoint in sorted((folder / CHECKPOINTS).glob("step-*"), reverse=True):
        if is_there(checkpoint / WEIGHTS):
            return checkpoint / WEIGHTS
    raise UserError(
        "holds no weights yet", file=folder, cure="repeat the `anaphora train` command and let it reach a checkpoint"
    )


def revision(folder: Path) -> str:
    """Sixteen bytes, in hex, that change whenever weights or settings do."""
    digest = hashlib.sha256(read_bytes(folder / CONFIG))
    with open_file(weights_file(folder)) as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]
