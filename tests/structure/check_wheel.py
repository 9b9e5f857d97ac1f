"""What a release hands out, tried: `make wheel`, which calls `check_wheel.py dist FOLDER` after hatchling has built.

The wheel is installed into FOLDER by itself, its dependencies are those of this environment, and the program is started
from there, outside the checkout, so that nothing which the wheel lacks can be found beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> None:
    dist, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    held = zipfile.ZipFile(wheel).namelist()
    packaged = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    recipes = {f"anaphora/recipes/{path.name}" for path in (ROOT / "recipes").glob("*.yaml")}
    expect(packaged | recipes <= set(held), f"missing in the wheel: {sorted((packaged | recipes) - set(held))}")
    foreign = [name for name in held if not name.startswith(("anaphora/", f"{wheel.name.split('-py3')[0]}.dist-info/"))]
    expect(not foreign, f"not of the package, and in the wheel: {foreign}")
    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    expect(
        {"README.md", "LICENSE", "pyproject.toml", "docs/conf.py", "recipes/lstm.yaml"} <= names,
        "the archive lacks files",
    )

    quiet = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*quiet, "--no-deps", "--no-index", "--target", str(folder), str(wheel)], check=True)
    where = "import anaphora; print(anaphora.__file__)"
    expect(run(folder, sys.executable, "-c", where).startswith(str(folder)), "the checkout was imported, not the wheel")
    program = str(folder / "bin" / "anaphora")
    expect("Usage: anaphora" in run(folder, program, "--help"), "anaphora --help")
    expect("kind: lstm" in run(folder, program, "settings", "model", "--recipe", "lstm"), "a recipe from the wheel")
    expect(f"-{run(folder, program, '-V').split()[-1]}-" in wheel.name, "the version")
    print(
        f"{wheel.name}: {len(held)} files; installed and started from {folder.name}/; {source.name}: {len(names)} files"
    )


def run(folder: Path, *words: str) -> str:
    """What a command prints that finds the installed wheel first and the checkout never."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def expect(holds: bool, message: str) -> None:
    if not holds:
        raise SystemExit(f"wheel: {message}")


if __name__ == "__main__":
    main()
