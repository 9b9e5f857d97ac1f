"""The byte-level BPE of published models (GPT-2's vocab.json and merges.txt, or a tokenizer.json of it) as a tokenizer
of ours: the same pieces, numbered behind our four marks.

A published table may have more rows than its vocabulary has words (50,264 for 50,257, so that its size is a multiple of
eight). They are tokens too, which no text has: `<|unused0|>`, ….
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaphora.errors import UserError
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, is_there, read_json, read_text
from anaphora.folder import write_text
from anaphora.tokenizers.frames import EOS, SPECIALS, byte_level
from anaphora.tokenizers.tokenizer import Tokenizer
from tokenizers import models

VOCABULARY, MERGES, TOKENIZER = "vocab.json", "merges.txt", "tokenizer.json"
UNUSED = "<|unused{}|>"


@dataclass
class PublishedTokens:
    """Published tokens in the order that ours have: the end mark taken out, which is ⟨/s⟩. A folder that was written
    here of a model of ours has our marks, and the order that it had."""

    names: list[str]
    """Of our tokens 4, 5, …"""
    order: list[int]
    """Their published numbers."""
    merges: list[tuple[str, str]]
    marked: bool = False
    """Whether the published tokens begin with our four marks."""

    @classmethod
    def read(cls, folder: Path, *, rows: int, end: int) -> PublishedTokens:
        """From the files of a published folder; rows: of the model's table; end: the number of its end mark."""
        vocabulary, merges, file = _read(folder)
        by_number = {number: name for name, number in vocabulary.items()}
        if len(by_number) != len(vocabulary) or (by_number and max(by_number) >= rows) or end >= rows:
            raise UserError(
                f"has tokens for other numbers than the model's {rows:,}", file=file, cure="give the tokenizer's own"
            )
        marked = end == EOS and all(by_number.get(number) == name for number, name in enumerate(SPECIALS))
        order = [number for number in range(rows) if (number >= len(SPECIALS) if marked else number != end)]
        names, spare = [], 0
        for number in order:
            name = by_number.get(number)
            if name is None:
                name, spare = UNUSED.format(spare), spare + 1
            names.append(name)
        return cls(names, order, merges, marked)

    def tokenizer(self) -> Tokenizer:
        vocabulary = {name: number for number, name in enumerate((*SPECIALS, *self.names))}
        if len(vocabulary) != len(SPECIALS) + len(self.names):
            twice = next(name for name in self.names if name in SPECIALS or self.names.count(name) > 1)
            raise UserError(f"its token {twice} is there twice, or a mark of ours", cure="give the published tokenizer")
        try:
            made = byte_level(models.BPE(vocab=vocabulary, merges=self.merges))
        except Exception as error:  # the library raises bare Exception
            raise UserError(
                f"its merges are not of its vocabulary ({error})", cure="give both files of the same tokenizer"
            ) from None
        return Tokenizer.from_json(made.to_str())

    @staticmethod
    def write(folder: Path, names: list[str], tokenizer: Tokenizer) -> None:
        """vocab.json and merges.txt of tokens in their order; tokens that no text has are left out, as there."""
        unused = {UNUSED.format(spare) for spare in range(len(names))}
        vocabulary = {name: number for number, name in enumerate(names) if name not in unused}
        write_text(folder / VOCABULARY, json.dumps(vocabulary, ensure_ascii=False))
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer.document["model"]["merges"]]
        write_text(folder / MERGES, "\n".join(["#version: 0.2", *merges]) + "\n")


def _read(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]], Path]:
    """Tokens by their numbers, and merges."""
    cure = "put GPT-2's vocab.json and merges.txt beside the weights: published Backpacks have its tokenizer"
    file = folder / (VOCABULARY if is_there(folder / VOCABULARY) else TOKENIZER)
    if not is_there(file):
        raise UserError(f"holds no tokenizer ({VOCABULARY} and {MERGES}, or {TOKENIZER})", file=folder, cure=cure)
    try:
        document: Any = read_json(file, MAX_LARGE_FILE_BYTES)
        if file.name == VOCABULARY:
            lines = read_text(folder / MERGES).split("\n")
            merges: list[Any] = [line for line in lines if line and not line.startswith("#version")]
            vocabulary = document
        else:
            vocabulary, merges = dict(document["model"]["vocab"]), document["model"]["merges"]
            vocabulary |= {str(one["content"]): int(one["id"]) for one in document.get("added_tokens") or []}
        pairs = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in merges]
        if not all(len(pair) == 2 for pair in pairs):
            raise ValueError("a merge does not have two parts")
        found = {str(name): int(number) for name, number in vocabulary.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"is not of a byte-level BPE ({error})", file=file, cure=cure) from None
    return found, [(str(first), str(second)) for first, second in pairs], file
