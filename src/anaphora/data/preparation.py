"""Preparing a corpus: text files in, Arrow files out, encoded once.

    files ── pass 1 ──► fingerprint, count, held-out pairs, a tokenizer where there is none
          ── pass 2 ──► ids ──► folder/train/00000.arrow …, folder/valid/00000.arrow …, manifest.json

The folder appears under its name only when it is complete. A second preparation of the same text, tokenizer and
settings finds it and is done; if something has changed meanwhile, `CorpusChanged` says what, and the caller decides.

Held-out pairs are drawn by a hash of their own text, so the same pairs are held out wherever they stand in the files.
They are unique, and a training pair that shares its source or its target with one of them leaves training: a validation
score should measure translation, not memory.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from heapq import heappush, heappushpop
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from anaphora.data.changes import CorpusChanged, changes
from anaphora.data.checksums import CHECKSUMS, DamagedData, check_data, check_file, write_checksums
from anaphora.data.corpus import Corpus, Sides
from anaphora.data.formats import place, read_rows
from anaphora.errors import UserError
from anaphora.files.foreign import read_json
from anaphora.folder import atomic_folder, write_json
from anaphora.tokenizers.tokenizer import MAX_TRAINING_CHARACTERS, Tokenizer, TokenizerConfig

VERSION = 1
MANIFEST = "manifest.json"
CHUNK_ROWS = 8192  # rows encoded at a time
SHARD_ROWS, SHARD_BYTES = 65_536, 1 << 28  # a shard ends at whichever comes first; Arrow's strings end at 2^31 bytes
HOLD_OUT_LIMIT = 2_000
MIN_LINES = 2  # lines: from one, nothing can be learned but that one

T = TypeVar("T")
Progress = Callable[[str, int, int | None], None]  # (stage, done, total if known)


def _silent(stage: str, done: int, total: int | None) -> None:
    """Progress that nobody follows."""


@dataclass
class Prepared:
    """What `prepare` hands over."""

    folder: Path
    train: Corpus
    valid: Corpus | None
    tokenizers: dict[str, Tokenizer]  # by side; one object for all when the vocabulary is shared
    manifest: dict[str, Any]
    reused: bool


def prepare(
    folder: str | os.PathLike[str],
    sides: Sides,
    *,
    valid_sides: Sides | None = None,
    tokenizer: TokenizerConfig | dict[str, Tokenizer] | None = None,
    hold_out: int | None = None,
    max_length: int = 256,
    tokenizer_lines: int = 1_000_000,
    seed: int = 1,
    on_change: Literal["raise", "rebuild"] = "raise",
    progress: Progress | None = None,
) -> Prepared:
    """Encode a corpus into `folder`, or find it there.

    `tokenizer` says how to train one, or gives those to use, by side. With `valid_sides` nothing is held out.
    """
    folder = Path(folder)
    tokenizer = TokenizerConfig() if tokenizer is None else tokenizer
    check_request(sides, valid_sides, hold_out, max_length)
    there = (folder / MANIFEST).exists()
    hold_out = 0 if valid_sides else hold_out
    keep = tokenizer_lines if isinstance(tokenizer, TokenizerConfig) and not (there and on_change == "raise") else 0
    survey = _survey(sides, hold_out, keep, seed, progress)
    settings: dict[str, Any] = {
        "version": VERSION,
        "text": survey.fingerprint,
        "valid_text": fingerprint(valid_sides) if valid_sides else None,
        "tokenizer": _tokenizer_settings(tokenizer, tokenizer_lines),
        "hold_out": hold_out,
        "max_length": max_length,
        "seed": seed,
    }
    if there:
        manifest = _manifest(folder)
        before = manifest["settings"]
        if not isinstance(tokenizer, TokenizerConfig):  # given ones count by what they are, not by how they came to be
            before = {**before, "tokenizer": manifest["tokenizer_fingerprints"]}
        changed = changes(before, settings)
        if not changed:
            check_data(folder, expected=CHECKSUMS in manifest, add=True, progress=progress or _silent)
            return _opened(folder, manifest, reused=True)
        if on_change == "raise":
            raise CorpusChanged(changed, folder)
    first = next(iter(sides.values()))[0]
    if survey.rows < MIN_LINES:
        what = "there is no text in this corpus" if not survey.rows else f"this corpus has {survey.rows} line only"
        raise UserError(what, file=first, cure="give it at least two lines; a useful model needs thousands")
    refuse_one_file_twice(sides)
    if isinstance(tokenizer, TokenizerConfig):
        tokenizer = train_tokenizers(tokenizer, survey.lines, survey.rows, progress)
    if folder.exists() and not there:
        raise UserError("is not a prepared corpus, and is in the way of one", file=folder, cure="choose another folder")
    with atomic_folder(folder) as temporary:
        _write(temporary, sides, valid_sides, tokenizer, settings, survey, progress)
    return _opened(folder, _manifest(folder), reused=False)


def open_prepared(folder: str | os.PathLike[str]) -> Prepared:
    """What an earlier `prepare` left in `folder`, taken as it is."""
    folder = Path(folder)
    manifest = _manifest(folder)
    check_data(folder, expected=CHECKSUMS in manifest)
    return _opened(folder, manifest, reused=True)


def _opened(folder: Path, manifest: dict[str, Any], *, reused: bool) -> Prepared:
    loaded = {name: Tokenizer.load(folder / name) for name in set(manifest["tokenizers"].values())}
    tokenizers = {side: loaded[name] for side, name in manifest["tokenizers"].items()}
    valid = Corpus.open(folder / "valid") if manifest["valid"]["rows"] else None
    return Prepared(folder, Corpus.open(folder / "train"), valid, tokenizers, manifest, reused=reused)


def train_tokenizers(
    config: TokenizerConfig, lines: dict[str, list[str]], pairs: int, progress: Progress | None = None
) -> dict[str, Tokenizer]:
    """One tokenizer for all sides, or one for each."""
    if progress:
        progress("learning the vocabulary", 0, None)
    if config.shared:
        return dict.fromkeys(lines, Tokenizer.train(config, chain.from_iterable(lines.values()), pairs=pairs))
    return {side: Tokenizer.train(config, texts, pairs=pairs) for side, texts in lines.items()}


def fingerprint(sides: Sides) -> dict[str, str]:
    """A hash of the text of each side, however it is stored or compressed."""
    return _survey(sides, 0, 0, 0, None).fingerprint


# -- pass 1 ------------------------------------------------------------------------------------------------------------


@dataclass
class _Survey:
    """What pass 1 learns."""

    fingerprint: dict[str, str]
    rows: int
    notes: Counter[str]  # what reading tidied
    held_out: list[tuple[str, ...]]
    lines: dict[str, list[str]]  # per side, for the tokenizer


def _survey(sides: Sides, hold_out: int | None, keep: int, seed: int, progress: Progress | None) -> _Survey:
    hashes = {side: hashlib.sha256() for side in sides}
    notes: Counter[str] = Counter()
    lowest = LowestHashes(HOLD_OUT_LIMIT if hold_out is None else hold_out, seed)
    kept: list[tuple[str, ...]] = []
    every, rows = 1, 0
    for chunk in _chunks(read_rows(sides, notes)):
        for hash, texts in zip(hashes.values(), zip(*chunk)):
            hash.update("\n".join(texts).encode() + b"\n")
        if keep:
            kept += [row for row in chunk[-rows % every :: every] if max(map(len, row)) <= MAX_TRAINING_CHARACTERS]
            while len(kept) > keep:  # too many: every second one of those, and of those to come
                kept, every = kept[::2], every * 2
        lowest.see(chunk)
        rows += len(chunk)
        if progress:
            progress("reading", rows, None)
    if hold_out is None:
        hold_out = max(rows // 20, int(rows >= 4))
    elif 2 * hold_out > rows:
        raise UserError(f"data.hold_out is {hold_out:,}, but there are only {rows:,} pairs", cure="hold out fewer")
    lines = {side: [row[i] for row in kept] for i, side in enumerate(sides)}
    prints = {side: hash.hexdigest() for side, hash in hashes.items()}
    return _Survey(prints, rows, notes, lowest.rows()[:hold_out], lines)


class LowestHashes:
    """The distinct rows whose texts hash lowest: a random draw that depends on nothing but the texts and the seed."""

    def __init__(self, number: int, seed: int) -> None:
        self.number, self.seed = number, str(seed).encode()
        self.heap: list[tuple[int, tuple[str, ...]]] = []  # (-key, row): the highest key kept is at the top
        self.keys: set[int] = set()

    def see(self, rows: Iterable[tuple[str, ...]]) -> None:
        for row in rows if self.number else ():
            digest = hashlib.blake2b("\n".join(row).encode(), digest_size=8, key=self.seed).digest()
            key = int.from_bytes(digest, "big")
            if (
                not all(map(str.strip, row))
                or key in self.keys
                or (len(self.heap) == self.number and key >= -self.heap[0][0])
            ):
                continue
            self.keys.add(key)
            if len(self.heap) < self.number:
                heappush(self.heap, (-key, row))
            else:
                self.keys.discard(-heappushpop(self.heap, (-key, row))[0])

    def rows(self) -> list[tuple[str, ...]]:
        return [row for _, row in sorted(self.heap, reverse=True)]


# -- pass 2 ------------------------------------------------------------------------------------------------------------


def _write(
    folder: Path,
    sides: Sides,
    valid_sides: Sides | None,
    tokenizers: dict[str, Tokenizer],
    settings: dict[str, Any],
    survey: _Survey,
    progress: Progress | None,
) -> None:
    """Everything of a prepared corpus, on disk when this returns."""
    train, valid = (_Shards(folder / part, tokenizers, settings["max_length"]) for part in ("train", "valid"))
    held_out = set(survey.held_out)
    held_texts = [set(texts) for texts in zip(*held_out)]
    done = 0
    for chunk in _chunks(enumerate(read_rows(sides), start=1)):
        learned, held = [], []
        for line, row in chunk:
            if not any(text in texts for text, texts in zip(row, held_texts)):
                learned.append((line, row))
            elif row in held_out:
                held_out.remove(row)  # its first appearance is the validation pair; another is like any shared text
                held.append((line, row))
            else:
                train.left_out["shared with the held-out part"] += 1
        train.add(learned)
        valid.add(held)
        done += len(chunk)
        if progress:
            progress("encoding", done, survey.rows)
    for chunk in _chunks(enumerate(read_rows(valid_sides or {}), start=1)):
        valid.add(chunk)
    train.close()
    valid.close()
    if valid_sides and not valid.rows:
        raise UserError(
            f"the validation text is empty ({_left_out(valid) or 'the file is empty'})",
            file=next(iter(valid_sides.values()))[0],
            cure="give it some lines, or leave the validation files out: then a part of the corpus is held out",
        )
    if not train.rows:
        raise UserError(
            f"no pair is left for training ({_left_out(train)})",
            file=next(iter(sides.values()))[0],
            cure="check that the sides hold text, raise data.max_length, or hold out fewer pairs",
        )
    shared = len({id(tokenizer) for tokenizer in tokenizers.values()}) == 1
    names = {side: "tokenizer.json" if shared else f"tokenizer.{side}.json" for side in sides}
    for side, name in names.items():
        tokenizers[side].save(folder / name)
    manifest = {
        "sides": list(sides),
        "rows_read": survey.rows,
        "tidied": dict(survey.notes),
        "train": train.summary(),
        "valid": valid.summary(),
        "tokenizers": names,
        "tokenizer_fingerprints": {side: tokenizers[side].fingerprint() for side in sides},
        "settings": settings,
        CHECKSUMS: True,
    }
    write_json(folder / MANIFEST, manifest)
    write_checksums(folder)


def _left_out(part: _Shards) -> str:
    return ", ".join(f"{number:,} {why}" for why, number in part.left_out.items() if number)


class _Shards:
    """Writes rows of one part (train, valid) as Arrow files of one record batch each, and counts what it leaves out."""

    def __init__(self, folder: Path, tokenizers: dict[str, Tokenizer], max_length: int) -> None:
        self.folder, self.tokenizers, self.max_length = folder, tokenizers, max_length
        self.left_out: Counter[str] = Counter()
        self.rows = self.files = self.waiting_rows = self.waiting_bytes = 0
        self.tokens: Counter[str] = Counter()
        self.waiting: list[pa.RecordBatch] = []
        folder.mkdir(parents=True)

    def add(self, numbered: Iterable[tuple[int, tuple[str, ...]]]) -> None:
        """Encode rows, each with its line number in the input."""
        numbered = list(numbered)
        written = [(line, row) for line, row in numbered if all(map(str.strip, row))]
        self.left_out["with an empty side"] += len(numbered) - len(written)
        if not written:
            return
        lines = np.array([line for line, _ in written], dtype=np.int64)
        columns: dict[str, tuple[list[str], list[list[int]]]] = {}
        fits = np.ones(len(written), dtype=bool)
        for side, texts in zip(self.tokenizers, zip(*(row for _, row in written))):
            ids = self.tokenizers[side].encode_batch(texts)
            fits &= np.fromiter(map(len, ids), np.int64, len(ids)) <= self.max_length
            columns[side] = list(texts), ids
        self.left_out["too long"] += int((~fits).sum())
        keep = np.flatnonzero(fits).tolist()
        arrays: dict[str, pa.Array] = {"line": pa.array(lines[fits])}
        for side, (said, ids) in columns.items():
            offsets = np.zeros(len(keep) + 1, dtype=np.int32)
            np.cumsum([len(ids[i]) for i in keep], out=offsets[1:])
            flat = np.fromiter(chain.from_iterable(ids[i] for i in keep), np.int32, int(offsets[-1]))
            arrays[side] = pa.array([said[i] for i in keep], pa.string())
            arrays[f"{side}_ids"] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat))
            self.tokens[side] += int(offsets[-1])
        batch = pa.RecordBatch.from_pydict(arrays)
        self.rows += len(keep)
        self.waiting.append(batch)
        self.waiting_rows += batch.num_rows
        self.waiting_bytes += batch.nbytes
        if self.waiting_rows + CHUNK_ROWS > SHARD_ROWS or self.waiting_bytes > SHARD_BYTES:
            self.close()

    def close(self) -> None:
        """Write what waits as one shard."""
        if not self.waiting_rows:
            return
        (batch,) = pa.Table.from_batches(self.waiting).combine_chunks().to_batches()
        path = self.folder / f"{self.files:05d}.arrow"
        with path.open("wb") as file:
            with pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        self.files += 1
        self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0

    def summary(self) -> dict[str, Any]:
        left_out = {why: number for why, number in self.left_out.items() if number}
        return {"rows": self.rows, "shards": self.files, "tokens": dict(self.tokens), "left_out": left_out}


# -- the folder --------------------------------------------------------------------------------------------------------


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if path.is_file():
        check_file(folder, MANIFEST)
    try:
        manifest: dict[str, Any] = read_json(path)
    except OSError as error:
        raise UserError("there is no prepared corpus here", file=folder, cure="prepare the corpus first") from error
    except ValueError as error:
        raise DamagedData("this file is damaged", path, folder) from error
    kinds = {"settings": dict, "tokenizers": dict, "tokenizer_fingerprints": dict, "train": dict, "valid": dict}
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), kind) for key, kind in kinds.items()):
        raise DamagedData("this file is damaged", path, folder)
    if not all({"rows", "tokens", "left_out"} <= manifest[part].keys() for part in ("train", "valid")):
        raise DamagedData("this file is damaged", path, folder)
    return manifest


def _tokenizer_settings(tokenizer: TokenizerConfig | dict[str, Tokenizer], lines: int) -> dict[str, Any]:
    if isinstance(tokenizer, TokenizerConfig):
        chosen = {key: value for key, value in asdict(tokenizer).items() if key != "dropout"}  # not in the file
        return {**chosen, "lines": lines}
    return {side: one.fingerprint() for side, one in tokenizer.items()}


def refuse_one_file_twice(sides: Sides) -> None:
    """A plain text cannot be both sides of a corpus."""
    for side, other in combinations(sides, 2):
        if sides[side] == sides[other] and all(place(name, side).format == "text" for name in sides[side]):
            raise UserError(
                f"is both {side} and {other}", file=sides[side][0], cure=f"name the file of the {other} text"
            )


def check_request(sides: Sides, valid_sides: Sides | None, hold_out: int | None, max_length: int) -> None:
    """What can be refused before any text is read."""
    if not sides or not all(sides.values()):
        named = ", ".join(side for side, files in sides.items() if not files) or "source and target"
        raise UserError(f"no files are given for {named}", cure="name them: data.source=… data.target=…")
    if valid_sides and set(valid_sides) != set(sides):
        missing = ", ".join(sorted(set(sides) ^ set(valid_sides)))
        raise UserError(f"validation files are given for some sides only, not for {missing}", cure="give both or none")
    for name in chain.from_iterable(chain(sides.values(), (valid_sides or {}).values())):
        path = place(name, "source").path
        with suppress(OSError, ValueError):  # a name that no file can have is refused when it is opened
            if path.exists() and not path.is_file() and not path.is_dir():
                raise UserError(
                    "is a pipe or a device, and training reads its text twice",
                    file=path,
                    cure="write it into a file first",
                )
    if max_length < 1:
        raise UserError(f"data.max_length is {max_length}", cure="make it at least 1")
    if hold_out is not None and hold_out < 0:
        raise UserError(f"data.hold_out is {hold_out}", cure="make it 0 or more")


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK_ROWS)):
        yield chunk
