"""Prepared text of a language model, found again: ids, a tokenizer, and a manifest that says what they were made of.

`language_corpus.py` writes these files; their checksums are compared before they are used (checksums.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaphora.data.checksums import CHECKSUMS, check_data, check_file
from anaphora.data.labels import TRAIN_CLASSES
from anaphora.errors import UserError
from anaphora.files.foreign import read_json
from anaphora.tokenizers.tokenizer import EOS

VERSION = 1
TRAIN, VALID, TOKENIZER, MANIFEST = "train.ids", "valid.ids", "tokenizer.json", "manifest.json"

U32 = NDArray[np.uint32]


@dataclass(frozen=True)
class PreparedText:
    """What `prepare_text` hands over."""

    folder: Path
    manifest: dict[str, Any]
    reused: bool

    @property
    def train(self) -> Path:
        return self.folder / TRAIN

    def valid_parts(self, tokens: int) -> Iterator[tuple[U32, NDArray[np.int64]]]:
        """The validation text, about so many tokens at a time: whole lines w … ⟨/s⟩, and where each begins (and the
        last one ends). Only a line that is longer makes a part longer; without validation text there are none."""
        path = self.folder / VALID
        total, begin = path.stat().st_size // 4 if path.exists() else 0, 0
        while begin < total:
            length, ids, ends = tokens, np.zeros(0, np.uint32), np.zeros(0, np.int64)
            while not len(ends):
                if begin + len(ids) == total:
                    what = f"{VALID} ends in the middle of a line"
                    raise UserError(what, file=self.folder, cure="delete this folder, and repeat the command")
                ids = np.fromfile(path, np.uint32, length, offset=4 * begin)
                ends, length = np.flatnonzero(ids == EOS) + 1, 2 * length
            yield ids[: ends[-1]], np.concatenate(([0], ends))
            begin += int(ends[-1])

    def classes(self, name: str = TRAIN_CLASSES) -> NDArray[np.int64] | None:
        """The class of each line, as a number of `class_names`; nothing if the text has no labels."""
        path = self.folder / name
        return np.fromfile(path, np.uint32).astype(np.int64) if path.exists() else None

    @property
    def class_names(self) -> list[str]:
        return list(self.manifest.get("classes", []))


def open_text(folder: Path) -> PreparedText:
    """What an earlier `prepare_text` made."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise UserError("holds no prepared text, or not all of it", file=folder, cure="repeat the `train` command")
    check_data(folder, expected=CHECKSUMS in manifest)
    return PreparedText(folder, manifest, reused=True)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What an earlier `prepare_text` wrote; nothing if it is not there, or not whole."""
    if (folder / MANIFEST).is_file():
        check_file(folder, MANIFEST)
    try:
        manifest = read_json(folder / MANIFEST)
        sound = manifest["settings"]["version"] == VERSION and {"train", "valid", "vocabulary"} <= manifest.keys()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not sound or not (folder / TOKENIZER).is_file():
        return None
    ids = {TRAIN: manifest["train_ids"], **({VALID: manifest["valid"]["tokens"]} if manifest["valid"] else {})}
    whole = all((folder / name).is_file() and (folder / name).stat().st_size == 4 * ids[name] for name in ids)
    return manifest if whole else None
