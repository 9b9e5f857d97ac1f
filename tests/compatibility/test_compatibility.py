"""Folders, command lines and settings of an earlier release still work, and the answers are the same.

`stored/made-by.json` names the commit that trained the folders in `stored/`, one of every kind (`systems.py`), and
`stored/answers.json` has what it printed: when they were trained, when they were used, and when they were trained
further. In the slow tier that commit itself is run here, and the same bytes are asked for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from compatibility.answers import answer, ask, differences
from compatibility.systems import SYSTEMS, filled

STORED = Path(__file__).parent / "stored"
ROOT = Path(__file__).parents[2]
MADE_BY = json.loads((STORED / "made-by.json").read_text())
RESUMED = [name for name, system in SYSTEMS.items() if system.resumed]


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return json.loads((STORED / "answers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(STORED, tmp_path_factory.mktemp("compatibility") / "stored"))


@pytest.fixture
def stored(copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stored folders; to be read only."""
    monkeypatch.chdir(copied)
    return copied


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the texts, in which something may be made."""
    shutil.copytree(STORED / "texts", tmp_path / "texts")
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def check(found: dict[str, Any], expected: dict[str, Any], words: list[str]) -> None:
    assert found["exit"] == 0, (words, found["answer"])
    apart = differences(found["answer"], expected["answer"])
    assert not apart, (words, apart[:10])


def test_every_kind_of_model_is_stored(answers: dict[str, Any]) -> None:
    from anaphora.models.registry import kinds

    assert set(answers) == set(SYSTEMS)
    configs = [json.dumps(found["asked"]) for found in answers.values()]
    missing = [kind for kind in kinds() if not any(f'"kind": "{kind}"' in config for config in configs)]
    assert not missing


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_stored_folder_answers_as_it_did(name: str, stored: Path, answers: dict[str, Any]) -> None:
    for words, expected in zip(filled(SYSTEMS[name].asked, name), answers[name]["asked"], strict=True):
        check(ask(words), expected, words)


@pytest.mark.parametrize("name", RESUMED)
def test_a_stored_run_is_trained_further_as_it_was(name: str, own: Path, answers: dict[str, Any]) -> None:
    shutil.copytree(STORED / name, own / name)
    words = [*filled(SYSTEMS[name].made_by, name)[-1], *SYSTEMS[name].resumed]
    check(ask(words), answers[name]["resumed"][0], words)


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.made_by[0][0] == "train"])
def test_the_same_command_trains_the_same_model(name: str, own: Path, answers: dict[str, Any]) -> None:
    for words, expected in zip(filled(SYSTEMS[name].made_by, name), answers[name]["made"], strict=True):
        check(ask(words), expected, words)
    now, then = (load_file(folder / name / "model.safetensors") for folder in (own, STORED))
    assert {key: (table.shape, table.dtype) for key, table in now.items()} == {
        key: (table.shape, table.dtype) for key, table in then.items()
    }


# -- the same bytes, beside that commit -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the commit that made the stored folders: a folder for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("earlier")
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", MADE_BY["commit"], "src", "recipes"], capture_output=True, check=False
    )
    if packed.returncode != 0:
        pytest.skip(f"commit {MADE_BY['commit'][:7]} is not in this checkout: git fetch --unshallow")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


def run(words: list[str], package: Path, folder: Path) -> Any:
    environment = os.environ | {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "anaphora", *words, "--json"]
    ended = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", cwd=folder, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return answer(ended.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_the_same_bytes_as_that_commit_on_this_machine(name: str, earlier: Path, tmp_path: Path) -> None:
    """Trained, and trained further: every tensor of the model and of the last checkpoint."""
    folders = []
    for place, package in (("then", earlier), ("now", ROOT / "src")):
        folders.append(tmp_path / place)
        shutil.copytree(STORED / "texts", tmp_path / place / "texts")
        for words in (*filled(SYSTEMS[name].made_by, name), filled(SYSTEMS[name].made_by, name)[-1]):
            last = list(SYSTEMS[name].resumed) if (tmp_path / place / name).exists() else []
            run([*words, *last], package, tmp_path / place)
    files = sorted(file.relative_to(folders[0]) for file in folders[0].rglob("*.safetensors"))
    assert files == sorted(file.relative_to(folders[1]) for file in folders[1].rglob("*.safetensors"))
    assert files and all((folders[0] / file).read_bytes() == (folders[1] / file).read_bytes() for file in files)
