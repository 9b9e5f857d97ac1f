"""What the tests of hostile input share: a world to do damage in, and the look at it before and after."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from micro_runs import MICRO, arguments

PAIRS = ("train", "score", "evaluate", "align")
READERS = (*PAIRS, "translate")
USERS = ("translate", "score", "evaluate", "align", "info", "train from")
FAST = arguments(MICRO)
LINES = [f"the dog sees {number} trees." for number in range(20)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
NOISE = bytes(range(128)) * 300


def tree(*folders: Path) -> dict[str, str]:
    """Every file, folder and link below, with its content: what must not change."""
    found = {}
    for folder in folders:
        for path in sorted([folder, *folder.rglob("*")]):
            if path.is_symlink() or not path.is_file():
                found[str(path)] = str(path.readlink()) if path.is_symlink() else "folder"
            else:
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@dataclass
class World:
    """A folder with a good corpus, a place for a run that does not exist yet, and a model."""

    folder: Path
    model: Path
    say: Callable[..., Any]

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def words(self, verb: str, source: object, target: object) -> list[object]:
        """A command of that verb over these files."""
        files = ["--source", source, "--target", target]
        return {
            "train": ["train", self.run, *files, "--device", "cpu", *FAST],
            "train from": ["train", self.run, *files, "--device", "cpu", "--from", self.model, "training.max_steps=1"],
            "translate": ["translate", self.model, source, "--beam", 1, "--device", "cpu"],
            "score": ["score", self.model, *files, "--device", "cpu"],
            "evaluate": ["evaluate", self.model, *files, "--beam", 1, "--device", "cpu"],
            "align": ["align", self.model, *files, "--device", "cpu"],
            "average": ["average", self.model, "--device", "cpu"],
            "info": ["info", self.model],
        }[verb]

    def good(self, verb: str) -> list[object]:
        return self.words(verb, self.folder / "good.en", self.folder / "good.de")

    def refused(self, *words: object) -> str:
        """Run, check all that mistakes have in common, and give the sentence."""
        before = tree(self.folder, self.model)
        answer = self.say(*words)
        assert answer.code == 2, f"{answer.code}\n{answer.out}\n{answer.err}"
        assert "Traceback" not in answer.err
        assert answer.out == ""
        sentences = [line for line in answer.err.splitlines() if line.startswith("anaphora: ")]
        assert len(sentences) == 1, answer.err
        assert "; " in sentences[0], f"no cure in: {sentences[0]}"
        after = tree(self.folder, self.model)
        assert after == before
        return sentences[0].removeprefix("anaphora: ")


def damage(name: str, change: Callable[[bytes], bytes] | None) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).unlink()  # the weights are a second name of the checkpoint's
        if change is not None:
            (folder / name).write_bytes(change(content))

    return apply


def flip(place: float) -> Callable[[bytes], bytes]:
    """One bit, that far into the file."""

    def change(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[int(place * (len(content) - 1))] ^= 16
        return bytes(changed)

    return change
