"""Make `stored/` anew: `python tests/compatibility/store.py`, by the release whose folders are to be kept.

Not a thing to do when a test fails: what stands in `stored/` was made by the commit that `stored/made-by.json` names,
and models of that day must be read for ever. Only a new kind of model is added, by its name:
`python tests/compatibility/store.py NAME…`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from compatibility.answers import ask
from compatibility.systems import SYSTEMS, System, filled
from micro_runs import pairs

STORED = Path(__file__).parent / "stored"


def write_texts(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, number, seed in (("train", 60, 1), ("test", 8, 2), ("few", 3, 3)):
        both = pairs(number, seed, longest=7)
        for place, side in enumerate(("en", "de")):
            (folder / f"{name}.{side}").write_text("".join(pair[place] + "\n" for pair in both), encoding="utf-8")
    lines = [line for line, _ in pairs(60, 1, longest=7)]
    labels = ["long" if len(line.split()) > 4 else "short" for line in lines]
    (folder / "labels").write_text("".join(label + "\n" for label in labels), encoding="utf-8")


def compact(found: dict[str, Any]) -> str:
    """One line of JSON; of a number eight digits, more than two machines agree on."""

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rounded(one) for key, one in value.items()}
        if isinstance(value, list):
            return [rounded(one) for one in value]
        return float(f"{value:.8g}") if isinstance(value, float) else value

    return json.dumps(rounded(found), ensure_ascii=False)


def slim(run: Path) -> None:
    """What resuming needs stays: the newest checkpoint, prepared data, logs; not what only people look at."""
    shutil.rmtree(run / "logs" / "tensorboard", ignore_errors=True)
    for checkpoint in sorted((run / "checkpoints").glob("step-*"))[:-1]:
        shutil.rmtree(checkpoint)
    for lock in run.rglob(".lock"):
        lock.unlink()


def made(name: str, system: System) -> dict[str, Any]:
    """The folder is made; what training it printed, what it answers, and what training it further prints."""
    trained = [ask(words) for words in filled(system.made_by, name)]
    if Path(name).is_dir():
        slim(Path(name))
    asked = [ask(words) for words in filled(system.asked, name)]
    resumed = []
    if system.resumed:
        with tempfile.TemporaryDirectory() as safe:
            shutil.copytree(name, Path(safe) / "run")
            resumed = [ask([*filled(system.made_by, name)[-1], *system.resumed])]
            shutil.rmtree(name)
            shutil.copytree(Path(safe) / "run", name)
    return {"made": trained, "asked": asked, "resumed": resumed}


def main(names: list[str]) -> None:
    if not names:
        shutil.rmtree(STORED, ignore_errors=True)
        write_texts(STORED / "texts")
    os.chdir(STORED)
    answers = json.loads(Path("answers.json").read_text()) if names else {}
    for name in names or SYSTEMS:
        answers[name] = made(name, SYSTEMS[name])
        wrong = [found["answer"] for several in answers[name].values() for found in several if found["exit"] != 0]
        if wrong:
            raise SystemExit(f"{name}: {wrong[0]}")
        print(name, sum(file.stat().st_size for file in Path(name).rglob("*") if file.is_file()))
    systems = []
    for name, kinds in answers.items():
        lists = [f'"{kind}": [\n' + ",\n".join(map(compact, found)) + "\n]" for kind, found in kinds.items()]
        systems.append(f'"{name}": {{' + ", ".join(lists) + "}")
    Path("answers.json").write_text("{\n" + ",\n".join(systems) + "\n}\n", encoding="utf-8")
    head = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    import torch

    release = {"commit": commit, "torch": torch.__version__.split("+")[0]}
    Path("made-by.json").write_text(json.dumps(release) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
