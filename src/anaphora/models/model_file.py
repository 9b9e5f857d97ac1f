"""A file of the user's own that registers systems: `--model my_model.py`.

It is executed, as `python my_model.py` would, because the user names it, and for no other reason: a model folder says
the name of a system and the SHA-256 of the file it came from, and never holds code. `my_model.py:NAME` means one of
several systems. What goes wrong in the file is told by the line of it where that happened.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from anaphora.errors import UserError, nearest, option, refused_by_system, told_by_line
from anaphora.files.foreign import read_bytes
from anaphora.models.registry import Origin, System, fingerprint, forget, own_systems, reading

LONGEST = 1 << 24
"""Bytes of such a file at the most."""
SHORT = 12
"""Hexadecimal digits by which a fingerprint is shown."""


class ModelFileWarning(UserWarning):
    """A model folder was made with another content of the file that it is opened with."""


def parted(named: str | PathLike[str]) -> tuple[Path, str | None]:
    """`my_model.py:NAME` as the file and the name of a system."""
    found = re.fullmatch(r"(.*\.py):([^:/\\]+)", str(named), re.DOTALL)
    return (Path(found[1]), found[2]) if found and not Path(named).exists() else (Path(named), None)


def open_model_file(named: str | PathLike[str]) -> dict[str, System]:
    """The systems of a file, by name, which are known from now on; of `my_model.py:NAME`, that one. A file that was
    read before is executed anew only where its content is another."""
    path, name = parted(named)
    content = _content(path)
    file, sha256 = str(path.resolve()), fingerprint(content)
    found = own_systems(file)
    if not found or any(one.fingerprint != sha256 for one in found.values()):
        forget(file)
        _execute(content, Origin(file, sha256))
        found = own_systems(file)
    if not found:
        cure = 'let it register one: @anaphora.register("my-model", task="language") above its class'
        raise UserError("registers no system", file=path, cure=cure)
    if name is None:
        return found
    if name not in found:
        raise UserError(f"registers no system {name!r}", file=path, cure=nearest(name, found))
    return {name: found[name]}


def choose(named: str | PathLike[str], tasks: Collection[str]) -> System:
    """The one system that a file, or `my_model.py:NAME`, means to those who do one of these tasks."""
    found = open_model_file(named)
    fitting = [one for one in found.values() if one.task in tasks] or list(found.values())
    if len(fitting) > 1:
        path, names = parted(named)[0], [one.kind for one in fitting]
        cure = f"say which one: {option('model', f'{path}:{names[0]}')}"
        raise UserError(f"registers {len(names)} systems: {', '.join(names)}", file=path, cure=cure)
    return fitting[0]


def _content(path: Path) -> bytes:
    if path.is_dir() or (path.exists() and path.suffix != ".py"):
        cure = f"{option('model')} takes the Python file of a system of your own, such as my_model.py"
        raise UserError("is no Python file", file=path, cure=cure)
    try:
        return read_bytes(path, LONGEST)
    except FileNotFoundError:
        raise UserError("there is no such file", file=path, cure="name the Python file of your model") from None
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None


def _execute(content: bytes, origin: Origin) -> None:
    """As a module, whose classes know their source; it goes where something is wrong with it."""
    file = str(origin.file)
    name = f"_anaphora_{re.sub(r'[^0-9A-Za-z_]', '_', Path(file).stem)}_{str(origin.fingerprint)[:SHORT]}"
    spec = importlib.util.spec_from_loader(name, None, origin=file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = file
    sys.modules[name] = module  # dataclasses and inspect look for it there
    try:
        with reading(origin):
            exec(compile(content, file, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        forget(file)
        raise told_by_line(error, {file}) or error from error
    except BaseException:
        del sys.modules[name]
        forget(file)
        raise


def blamed(error: BaseException) -> UserError | None:
    """What went wrong in a file of the user's own, in a sentence; None: elsewhere."""
    return told_by_line(error, {one.file for one in own_systems().values() if one.file})


def brief(sha256: object) -> str:
    """A fingerprint in a sentence."""
    return f"sha256 {str(sha256)[:SHORT]}…"


def check_known(run: Mapping[str, Any], system: System, folder: str | None) -> None:
    """Warn where a folder's model learned with another content of its system's file."""
    learned = run.get("model_sha256")
    if folder and learned and system.fingerprint and learned != system.fingerprint:
        then, now = run.get("model_file") or "another file", Path(str(system.file)).name
        warnings.warn(
            f"{Path(folder).parent}: its model learned with {then} ({brief(learned)}), and {now} is another one now "
            f"({brief(system.fingerprint)}): what it says may differ",
            ModelFileWarning,
            stacklevel=2,
        )
