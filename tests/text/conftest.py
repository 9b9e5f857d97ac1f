"""Text that several tests share."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

WORDS_DE = "der die das Hund Katze Straße läuft sieht über große kleine und nicht müde Fahrradfahrer <unk>".split()
WORDS_EN = "the a dog cat street runs sees over big small and not tired cyclist <unk> don't".split()


def sentences(words: list[str], number: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(1, 14))) + draw.choice([".", "!", " ?", ""]) for _ in range(number)]


@pytest.fixture(scope="session")
def german() -> list[str]:
    return sentences(WORDS_DE, 400, 1)


@pytest.fixture(scope="session")
def english() -> list[str]:
    return sentences(WORDS_EN, 400, 2)


@pytest.fixture
def pair_files(tmp_path: Path, german: list[str], english: list[str]) -> dict[str, list[str]]:
    """A small parallel corpus in plain text files."""
    (tmp_path / "train.de").write_bytes("".join(f"{line}\n" for line in german).encode())
    (tmp_path / "train.en").write_bytes("".join(f"{line}\n" for line in english).encode())
    return {"source": [str(tmp_path / "train.de")], "target": [str(tmp_path / "train.en")]}


@pytest.fixture(scope="session")
def multi30k() -> dict[str, list[str]]:
    """The Multi30k training pairs, where they are on this machine."""
    data = Path(os.environ.get("ANAPHORA_DATA") or Path(__file__).parents[3] / "shared" / "data") / "multi30k"
    if not (data / "train.de.gz").exists():
        pytest.skip(f"Multi30k is not in {data} (set ANAPHORA_DATA to the folder that holds multi30k/)")
    return {"source": [str(data / "train.de.gz")], "target": [str(data / "train.en.gz")]}
