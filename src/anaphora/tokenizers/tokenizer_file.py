"""What a tokenizer.json may say: what the five kinds of tokenizers made here say, and nothing else.

The library's file can hold any regular expression and any replacement, and a file that came with somebody's model may
hold one that takes a line of text hours, or makes gigabytes of it. So each part of a file is compared with what is
written here, before the library sees it.
"""

from __future__ import annotations

import json
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from anaphora.errors import UserError, shown
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_text
from anaphora.tokenizers.frames import PATTERNS, SPECIALS, UNK, byte_level, bytes_alone, character_frame, word_frame
from tokenizers import models

UNKNOWN = {"Regex": f"^{SPECIALS[UNK]}$"}
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
SETTINGS: dict[str, dict[str, list[Any]]] = {
    "BPE": {
        "dropout": [None],
        "unk_token": [None, SPECIALS[UNK]],
        "continuing_subword_prefix": [None, ""],
        "end_of_word_suffix": [None, ""],
        "fuse_unk": [False],
        "byte_fallback": [False, True],
        "ignore_merges": [False, True],
    },
    "WordLevel": {"unk_token": [SPECIALS[UNK]]},
    "Unigram": {"unk_id": [UNK], "byte_fallback": [False]},
}
"""What the models of such files may be set to."""
LONGEST_UNKNOWN = 1_000
"""Characters of what stands for an unknown word."""
MADE_HERE = "use a tokenizer.json that Anaphora made"
RESTORE = "restore the file; each model has its own"


def read_tokenizer(path: Path) -> str:
    """The text of a tokenizer.json."""
    try:
        return read_text(path, MAX_LARGE_FILE_BYTES)
    except OSError as error:
        raise UserError(f"cannot read the tokenizer: {error.strerror}", file=path, cure=RESTORE) from error
    except UnicodeDecodeError as error:
        raise UserError("this is not a tokenizer.json: it is not text", file=path, cure=RESTORE) from error


def check_tokenizer(path: Path) -> None:
    """Refuse a file with a part that none of ours has, without making the tokenizer."""
    check_text(read_tokenizer(path), file=path)


def check_text(text: str, *, file: str | PathLike[str] | None) -> None:
    """The same of what such a file says."""
    try:
        document = parse_document(text)
    except ValueError as error:
        raise UserError(f"this is not a tokenizer.json: {error}", file=file, cure=RESTORE) from error
    check_document(document, file=file)


def parse_document(text: str) -> Any:
    """The JSON of a tokenizer.json; ValueError where it is none, or where an object has two entries of one name, of
    which another reader may take the other one."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an entry occurs twice")
    return found


def check_document(document: Any, *, file: str | PathLike[str] | None) -> None:
    """Refuse a tokenizer.json with a part that none of ours has."""
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise UserError("this is not a tokenizer.json: it has no model", file=file, cure=MADE_HERE)
    for part in PARTS:
        said = document.get(part)
        if said is not None and not any(_within(said, known) for known in _known()[part]):
            raise UserError(f"its {part} ({_name(said)}) is not one of Anaphora's", file=file, cure=MADE_HERE)
    if document.get("added_tokens"):
        raise UserError("has added tokens, which Anaphora's tokenizers do not have", file=file, cure=MADE_HERE)
    model = document["model"]
    settings = SETTINGS.get(model["type"]) if isinstance(model.get("type"), str) else None
    if settings is None:
        raise UserError(f"its model ({_name(model)}) is not one of Anaphora's", file=file, cure=MADE_HERE)
    for key, value in model.items():
        if key not in ("type", "vocab", "merges") and not any(_within(value, one) for one in settings.get(key, [])):
            what = f"its model has {shown.repr(key)} set to {shown.repr(value)}, which none of Anaphora's has"
            raise UserError(what, file=file, cure=MADE_HERE)


def _within(said: Any, known: Any) -> bool:
    """Whether a file says no other than what is known; what an older library left out is not missed."""
    if isinstance(known, dict) and isinstance(said, dict):
        if known.get("type") == "Replace" and known["pattern"] == UNKNOWN and isinstance(said.get("content"), str):
            known = {**known, "content": said["content"][:LONGEST_UNKNOWN]}  # whatever the text calls an unknown word
        return all(key in known and _within(value, known[key]) for key, value in said.items())
    if isinstance(known, list) and isinstance(said, list):
        return len(said) == len(known) and all(map(_within, said, known))
    return type(said) is type(known) and bool(said == known)


def _name(part: Any) -> str:
    """What the library calls a part, with what it is made of."""
    if not isinstance(part, dict):
        return shown.repr(part)
    inside = next(
        (part[key] for key in ("normalizers", "pretokenizers", "decoders", "processors") if key in part), None
    )
    if isinstance(inside, list):
        return " + ".join([_name(one) for one in inside[:5]])
    pattern = part.get("pattern")
    return str(part.get("type", "no type"))[:60] + (f" of {shown.repr(pattern)}" if pattern is not None else "")


@cache
def _known() -> dict[str, list[Any]]:
    """The parts of all tokenizers that can be made here."""
    made = [byte_level(models.BPE()), bytes_alone()]
    for fallback in ("bytes", "unk"):
        made += [character_frame(fallback), *(word_frame(split, fallback, "") for split in PATTERNS)]
    documents = [json.loads(rust.to_str()) for rust in made]
    return {part: [document[part] for document in documents] for part in PARTS}
