"""What a message tells people to install is something that can be installed: a package that pyproject.toml names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
FROM_CHECKOUT = re.compile(r"(-e )?'?\.(\[[a-z,]+\])?'?$")


def hints() -> list[tuple[str, str]]:
    """What stands behind each `pip install`, and in which file."""
    found = re.compile(r"""pip install ((?:-\w+ )*(?:'[^']+'|[^\s`"',;]+))""")
    return [(path.name, match) for path in FILES for match in found.findall(path.read_text(encoding="utf-8"))]


def test_every_hint_names_a_package_that_pyproject_lists_or_the_checkout() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    packages = {re.split(r"[\s<>=;\[]", one)[0] for one in listed} - {"anaphora"}
    odd = [(file, hint) for file, hint in hints() if hint not in packages and not FROM_CHECKOUT.match(hint)]
    assert odd == []
    assert {"scikit-learn", "faiss-cpu", "gensim", "."} <= {hint for _, hint in hints()}
