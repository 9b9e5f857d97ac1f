"""Preparing the text of a language model: files in, one long file of ids out, encoded once.

    files ──► blocks of lines, checked ──► ids, each line ⟨s⟩ w … ⟨/s⟩ ──► folder/train.ids, valid.ids, tokenizer.json

`train.ids` is nothing but 32-bit numbers, one after the other: what counting reads. `valid.ids` has the text to measure
on, each line w … ⟨/s⟩. With `boundaries: stream` the whole training text has one ⟨s⟩, at its beginning. Where lines are
labelled, `train.classes` and `valid.classes` have a number for each, and the manifest the names.

Words between blanks take the short way: their bytes are numbered by compiled code as they are read (word_ids.py), and
when all have been seen the most frequent one gets the lowest id. Every other kind of token is made by the tokeniser,
which has to learn from the text first. Nothing here is held in memory but the vocabulary and a block of text.

The folder appears under its name only when it is complete, as in preparation.py, and is found again by its manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from anaphora.errors import UserError
from anaphora.folder import atomic_folder, write_json
from anaphora.text.changes import CorpusChanged, changes
from anaphora.text.formats import place, read_blocks, read_column
from anaphora.text.settings import DataConfig
from anaphora.text.tokenizer import BOS, EOS, LONGEST_LESSON, SMALLEST, SPECIALS, UNK, Tokenizer, TokenizerConfig
from anaphora.text.vocabulary_file import read_vocabulary, write_word_tokenizer
from anaphora.text.word_ids import WordIds

VERSION = 1
TRAIN, VALID, TOKENIZER, MANIFEST = "train.ids", "valid.ids", "tokenizer.json", "manifest.json"
TRAIN_CLASSES, VALID_CLASSES = "train.classes", "valid.classes"
BLANK_LINE = re.compile(rb"^[ \t\r\v\f]*\n", re.MULTILINE)
ENCODED_AT_ONCE = 1 << 18  # bytes of text: as ids in Python lists they take a hundred times as much
RENUMBERED_AT_ONCE = 1 << 20  # ids
ENOUGH = 0.9  # of the vocabulary asked for: learning pieces may stop a little short of it

U32 = NDArray[np.uint32]
Progress = Callable[[str, int, int | None], None]  # (stage, done, total if known)
Encode = Callable[[bytes, bool], U32]  # (whole lines, framed by ⟨s⟩) -> ids


@dataclass(frozen=True)
class PreparedText:
    """What `prepare_text` hands over."""

    folder: Path
    manifest: dict[str, Any]
    reused: bool

    @property
    def train(self) -> Path:
        return self.folder / TRAIN

    def valid_ids(self) -> U32:
        """The validation text, each line w … ⟨/s⟩; empty if there is none."""
        path = self.folder / VALID
        return np.fromfile(path, np.uint32) if path.exists() else np.zeros(0, np.uint32)

    def classes(self, name: str = TRAIN_CLASSES) -> NDArray[np.int64] | None:
        """The class of each line, as a number of `class_names`; nothing if the text has no labels."""
        path = self.folder / name
        return np.fromfile(path, np.uint32).astype(np.int64) if path.exists() else None

    @property
    def class_names(self) -> list[str]:
        return list(self.manifest.get("classes", []))


@dataclass
class Part:
    """What was read of the training or of the validation text."""

    lines: int = 0
    dropped_lines: int = 0
    held_out_lines: int = 0
    bytes: int = 0
    tokens: int = 0
    """Words, or whatever the tokeniser makes, and the end mark of each line."""
    unknown_tokens: int = 0
    fingerprint: Any = field(default_factory=hashlib.sha256, repr=False)

    def summary(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if name != "fingerprint"}


def prepare_text(
    folder: Path,
    data: DataConfig,
    tokenizer: TokenizerConfig,
    *,
    keep: Tokenizer | None = None,
    on_change: Literal["raise", "rebuild"] = "raise",
    progress: Progress = lambda stage, done, total: None,
) -> PreparedText:
    """Turn text into ids in `folder`, or find them there. keep: a tokeniser to use, instead of learning one."""
    check_text(data)
    manifest = read_manifest(folder)
    settings = text_settings(data, tokenizer)
    if manifest is not None and keep and manifest["vocabulary_fingerprint"] == keep.vocabulary_fingerprint():
        settings["tokenizer"] = manifest["settings"]["tokenizer"]  # it is the one that was learned here, or kept before
    if manifest is not None:
        prints = {"text": {"text": fingerprint(data.text, progress)}, "valid_text": None}
        if data.valid_text:
            prints["valid_text"] = {"text": fingerprint(data.valid_text, progress)}
        if data.labels or manifest["settings"].get("labels"):
            prints["labels"] = label_prints(data)
        changed = changes(manifest["settings"], {**settings, **prints})
        if not changed:
            return PreparedText(folder, manifest, reused=True)
        if on_change == "raise":
            raise CorpusChanged(changed, folder)
    with atomic_folder(folder) as temporary:
        manifest = _Preparation(temporary, data, tokenizer, progress, keep).run(settings)
        write_json(temporary / MANIFEST, manifest)
    return PreparedText(folder, manifest, reused=False)


def open_text(folder: Path) -> PreparedText:
    """What an earlier `prepare_text` made."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise UserError("holds no prepared text, or not all of it", file=folder, cure="repeat the `train` command")
    return PreparedText(folder, manifest, reused=True)


def check_text(data: DataConfig) -> None:
    """What can be refused before any text is read."""
    if not data.text:
        raise UserError("no text to learn from", cure="give --text FILE")
    for name in (*data.text, *data.valid_text):
        path = place(name, "text").path
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError("is a pipe or a device", file=path, cure="write it into a file first")
    if data.valid_text and data.hold_out:
        raise UserError(
            "a validation text is given, and lines are to be held out",
            cure="leave out data.hold_out, or --valid-text",
        )


def text_settings(data: DataConfig, tokenizer: TokenizerConfig) -> dict[str, Any]:
    """All that decides what the ids are, but for the text itself."""
    chosen = {key: value for key, value in asdict(tokenizer).items() if key not in ("dropout", "shared")}
    if tokenizer.words:  # its content counts, not its name
        chosen["words"] = hashlib.sha256("\n".join(read_vocabulary(tokenizer.words)).encode()).hexdigest()
    return {
        "version": VERSION,
        "tokenizer": {**chosen, "lines": None if _short_way(tokenizer) else data.tokenizer_lines},
        "hold_out": data.hold_out or 0,
        "seed": data.seed if data.hold_out else None,
        "boundaries": data.boundaries,
        "blank_lines": data.blank_lines,
    }


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What an earlier `prepare_text` wrote; nothing if it is not there, or not whole."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        sound = manifest["settings"]["version"] == VERSION and {"train", "valid", "vocabulary"} <= manifest.keys()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    whole = sound and (folder / TRAIN).is_file() and (folder / TOKENIZER).is_file()
    return manifest if whole and (folder / TRAIN).stat().st_size == 4 * manifest["train_ids"] else None


def fingerprint(files: list[str], progress: Progress = lambda stage, done, total: None) -> str:
    """A hash of the lines of a text, however they are stored or compressed."""
    found, lines = hashlib.sha256(), 0
    for block in read_blocks(files, "text", Counter()):
        found.update(block)
        lines += block.count(b"\n")
        progress("reading", lines, None)
    return found.hexdigest()


def label_prints(data: DataConfig) -> dict[str, str]:
    """What the labels of a text are known by."""
    named = {"labels": data.labels, "valid_labels": data.valid_labels}
    return {
        name: hashlib.sha256("\n".join(read_column(files, "labels", Counter())).encode()).hexdigest()
        for name, files in named.items()
        if files
    }


def _short_way(tokenizer: TokenizerConfig) -> bool:
    return tokenizer.kind == "word" and tokenizer.split == "blanks"


class _Preparation:
    """One preparation on its way."""

    def __init__(
        self,
        folder: Path,
        data: DataConfig,
        tokenizer: TokenizerConfig,
        progress: Progress,
        keep: Tokenizer | None = None,
    ) -> None:
        self.folder, self.data, self.tokenizer, self.progress, self.keep = folder, data, tokenizer, progress, keep
        self.notes: Counter[str] = Counter()
        self.train, self.valid = Part(), Part()
        self.framed = data.boundaries != "stream"
        self.held_out: set[bytes] = set()
        self.held_from: int | None = None
        """The line from which on a stream is held out."""

    def run(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Write all files but the manifest, and tell what it is to say."""
        if self.data.hold_out:
            self._draw(self.data.hold_out)
        with (self.folder / TRAIN).open("w+b") as ids:
            if not self.framed:
                ids.write(np.array([BOS], np.uint32).data)
            short = _short_way(self.tokenizer) and self.keep is None
            encode, vocabulary, its_fingerprint = self._words(ids) if short else self._tokens(ids)
            written = ids.tell() // 4
        self._refuse_nothing()
        measured = bool(self.data.valid_text or self.held_out or self.held_from is not None)
        if measured:
            self._validation(encode)
        labelled = {"classes": self._classes()} if self.data.labels else {}
        if self.data.labels:
            settings = {**settings, "labels": label_prints(self.data)}
        return {
            **labelled,
            "settings": {
                **settings,
                "text": {"text": self.train.fingerprint.hexdigest()},
                "valid_text": {"text": self.valid.fingerprint.hexdigest()} if self.data.valid_text else None,
            },
            "train": self.train.summary(),
            "valid": self.valid.summary() if measured else {},
            "train_ids": written,
            "vocabulary": vocabulary,
            "vocabulary_fingerprint": its_fingerprint,
            "tidied": dict(self.notes),
        }

    # -- reading -------------------------------------------------------------------------------------------------------

    def _blocks(self, files: list[str], part: Part, *, stage: str) -> Iterator[bytes]:
        """The lines that count, in blocks."""
        seen = 0
        for block in read_blocks(files, "text", self.notes):
            part.fingerprint.update(block)
            before, seen = seen, seen + block.count(b"\n")
            if self.held_from is not None and files is self.data.text and seen > self.held_from:
                block, later = _split_lines(block, max(0, self.held_from - before))
                part.held_out_lines += later.count(b"\n")
            if self.data.blank_lines == "drop":
                block, blank = BLANK_LINE.subn(b"", block)
                part.dropped_lines += blank
            if self.held_out and part is self.train:
                lines = block.split(b"\n")[:-1]
                stay = [line for line in lines if line not in self.held_out]
                part.held_out_lines += len(lines) - len(stay)
                block = b"\n".join([*stay, b""])
            part.lines += block.count(b"\n")
            part.bytes += len(block)
            self.progress(stage, seen, None)
            if block:
                yield block

    def _draw(self, number: int) -> None:
        """Choose the lines to hold out, by a hash of their own text: wherever they stand, they are the same. Of a
        stream, in which a line means something only where it stands, the last ones."""
        from anaphora.text.preparation import LowestHashes

        lowest, lines = LowestHashes(number, self.data.seed), 0
        for block in read_blocks(self.data.text, "text", Counter()):
            if self.framed:
                lowest.see((text,) for text in block.decode().split("\n")[:-1])
            lines += block.count(b"\n")
            self.progress("choosing lines to hold out", lines, None)
        if 2 * number > lines:
            raise UserError(f"data.hold_out is {number:,}, but there are only {lines:,} lines", cure="hold out fewer")
        if self.framed:
            self.held_out = {text.encode() for (text,) in lowest.rows()}
        else:
            self.held_from = lines - number

    def _refuse_nothing(self) -> None:
        """A text of no words cannot be counted."""
        if self.train.tokens > self.train.lines:
            return
        blank = self.train.lines + self.train.dropped_lines
        raise UserError(
            f"there is no text here{f' but {blank:,} blank lines' if blank else ''}",
            file=self.data.text[0],
            cure="give a text with at least one word",
        )

    def _write(self, file: BinaryIO, ids: U32, part: Part) -> None:
        file.write(ids.data)
        part.tokens += len(ids) - (int((ids == BOS).sum()) if self.framed and part is self.train else 0)
        part.unknown_tokens += int((ids == UNK).sum())

    # -- words between blanks ------------------------------------------------------------------------------------------

    def _words(self, file: BinaryIO) -> tuple[Encode, int, str]:
        """Number the words as they come, then by how often they came."""
        given = read_vocabulary(self.tokenizer.words) if self.tokenizer.words else None
        words = WordIds(None if given is None else {word: len(SPECIALS) + n for n, word in enumerate(given)})
        counts = np.zeros(len(SPECIALS), np.int64)
        for block in self._blocks(self.data.text, self.train, stage="reading"):
            ids = words.ids(block, framed=self.framed)
            self._write(file, ids, self.train)
            if given is None:
                more = np.bincount(ids, minlength=len(counts))
                more[: len(counts)] += counts
                counts = more

        def encode(lines: bytes, framed: bool) -> U32:
            return words.ids(lines, framed=framed)

        if given is not None:
            size, print_ = write_word_tokenizer(self.folder / TOKENIZER, given, self.tokenizer.unknown)
            return encode, size, print_
        chosen = self._most_frequent(words, counts[len(SPECIALS) :])
        new = np.full(len(counts), UNK, np.uint32)
        new[: len(SPECIALS)] = np.arange(len(SPECIALS))
        new[len(SPECIALS) + chosen] = np.arange(len(SPECIALS), len(SPECIALS) + len(chosen))
        self.train.unknown_tokens = int(counts[new == UNK].sum())
        words.give_ids(new[len(SPECIALS) :])
        self._renumber(file, new)
        size, print_ = write_word_tokenizer(self.folder / TOKENIZER, words.spelled(chosen), self.tokenizer.unknown)
        return encode, size, print_

    def _most_frequent(self, words: WordIds, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the words that stay, most frequent first; of two as frequent the one that came first."""
        order = np.argsort(-counts, kind="stable")
        stay = counts[order] >= self.tokenizer.minimum_count
        if self.tokenizer.unknown and (number := words.number(self.tokenizer.unknown)) is not None:
            stay &= order != number
        room = None if self.tokenizer.vocabulary is None else max(self.tokenizer.vocabulary - len(SPECIALS), 0)
        return order[stay][:room]

    def _renumber(self, file: BinaryIO, new: U32) -> None:
        end, at = file.tell(), 0
        while at < end:
            file.seek(at)
            ids = np.frombuffer(file.read(4 * RENUMBERED_AT_ONCE), np.uint32)
            file.seek(at)
            file.write(new[ids].data)
            at += ids.nbytes
            self.progress("numbering words", at // 4, end // 4)

    # -- every other kind of token -------------------------------------------------------------------------------------

    def _tokens(self, file: BinaryIO) -> tuple[Encode, int, str]:
        """Train the tokeniser, then encode with it."""
        tokenizer = self.keep
        if tokenizer is None:
            tokenizer = Tokenizer.train(self.tokenizer, self._lessons(), pairs=self._count_lines())
            self._refuse_too_many(tokenizer.vocabulary_size)
        tokenizer.save(self.folder / TOKENIZER)

        def encode(lines: bytes, framed: bool) -> U32:
            texts = lines.decode().split("\n")[:-1]
            return frame(*tokenizer.encode_flat(texts), framed=framed)

        for block in self._blocks(self.data.text, self.train, stage="encoding"):
            for some in _cut(block):
                self._write(file, encode(some, self.framed), self.train)
        return encode, tokenizer.vocabulary_size, tokenizer.vocabulary_fingerprint()

    def _refuse_too_many(self, found: int) -> None:
        """A text may hold fewer different pieces than were asked for."""
        asked = self.tokenizer.vocabulary
        if self.tokenizer.kind in ("bpe", "unigram") and asked is not None and found < ENOUGH * asked:
            raise UserError(
                f"tokenizer.vocabulary is {asked:,}, but this text has no more than {found:,} different tokens",
                file=self.data.text[0],
                cure=f"ask for fewer (tokenizer.vocabulary={max(SMALLEST, found // 2)}, say), or leave it to the text",
            )

    def _count_lines(self) -> int | None:
        if self.tokenizer.kind not in ("bpe", "unigram") or self.tokenizer.vocabulary is not None:
            return None
        return sum(block.count(b"\n") for block in self._blocks(self.data.text, Part(), stage="reading"))

    def _lessons(self) -> Iterable[str]:
        """At most `data.tokenizer_lines` lines, spread evenly over the text."""
        if self.tokenizer.kind == "byte":
            return ()
        kept: list[str] = []
        every, seen, most = 1, 0, self.data.tokenizer_lines
        for block in self._blocks(self.data.text, Part(), stage="reading"):
            lines = block.decode().split("\n")[:-1]
            for line in lines[-seen % every :: every]:  # a long one in pieces: some texts have no line ends
                kept += [line[at : at + LONGEST_LESSON] for at in range(0, len(line), LONGEST_LESSON)]
            while len(kept) > most:  # too many: every second one of those, and of those to come
                kept, every = kept[::2], every * 2
            seen += len(lines)
        if not kept:
            self.train.lines = seen
            self._refuse_nothing()
        self.progress("learning the vocabulary", 0, None)
        return kept

    # -- the text to measure on ----------------------------------------------------------------------------------------

    def _validation(self, encode: Encode) -> None:
        blocks: Iterable[bytes]
        if self.data.valid_text:
            blocks = self._blocks(self.data.valid_text, self.valid, stage="reading the validation text")
        elif self.held_from is not None:
            blocks = self._tail(self.held_from)
        else:
            blocks = [b"".join(line + b"\n" for line in sorted(self.held_out))]
            self.valid.lines, self.valid.bytes = len(self.held_out), len(blocks[0])
        with (self.folder / VALID).open("wb") as file:
            for some in chain.from_iterable(map(_cut, blocks)):
                self._write(file, encode(some, False), self.valid)
        if not self.valid.lines:
            raise UserError(
                "there is no text to measure on",
                file=self.data.valid_text[0],
                cure="give it some lines, or leave it out",
            )

    def _tail(self, first: int) -> Iterator[bytes]:
        """The lines of the text from a number on."""
        seen = 0
        for block in read_blocks(self.data.text, "text", Counter()):
            before, seen = seen, seen + block.count(b"\n")
            if seen <= first:
                continue
            block = _split_lines(block, max(0, first - before))[1]
            if self.data.blank_lines == "drop":
                block, blank = BLANK_LINE.subn(b"", block)
                self.valid.dropped_lines += blank
            self.valid.lines += block.count(b"\n")
            self.valid.bytes += len(block)
            yield block

    # -- labels --------------------------------------------------------------------------------------------------------

    def _classes(self) -> list[str]:
        """Write the class of each line, and tell their names."""
        train: list[str] = []
        held: dict[bytes, str] = {}  # a text that stands there twice has the label of its first place
        for line, label in self._labelled(self.data.text, self.data.labels):
            if line in self.held_out:
                held.setdefault(line, label)
            else:
                train.append(label)
        names = sorted(set(train))
        if len(names) < 2:
            raise UserError(
                f"there is only one label, {names[0]!r}", file=self.data.labels[0], cure="labels tell lines apart"
            )
        numbers = {name: number for number, name in enumerate(names)}
        (self.folder / TRAIN_CLASSES).write_bytes(np.array([numbers[label] for label in train], np.uint32).data)
        if self.data.valid_labels:
            valid = [label for _, label in self._labelled(self.data.valid_text, self.data.valid_labels)]
        else:
            valid = [held[line] for line in sorted(self.held_out)]
        for number, label in enumerate(valid, start=1):
            if label not in numbers:
                raise UserError(
                    f"the label {label!r} is not among those to learn from ({', '.join(names[:10])})",
                    file=(self.data.valid_labels or self.data.labels)[0],
                    line=number if self.data.valid_labels else None,
                    cure="every class needs examples to learn from",
                )
        if valid:
            (self.folder / VALID_CLASSES).write_bytes(np.array([numbers[label] for label in valid], np.uint32).data)
        return names

    def _labelled(self, files: list[str], labels: list[str]) -> Iterator[tuple[bytes, str]]:
        """Every line with its label."""
        names = read_column(labels, "labels", Counter())
        texts = (line for block in read_blocks(files, "text", Counter()) for line in block.split(b"\n")[:-1])
        for number, (line, name) in enumerate(zip_longest(texts, names), start=1):
            if line is None or name is None:
                lines = number + sum(1 for _ in (names if line is None else texts))
                more, fewer = ("labels", "lines of text") if line is None else ("lines of text", "labels")
                raise UserError(
                    f"there are {lines:,} {more}, but only {number - 1:,} {fewer}",
                    file=labels[0],
                    cure="give one label for each line of the text, blank ones too",
                )
            name = name.strip()
            if not name:
                raise UserError("has no label", file=labels[0], line=number, cure="give every line one")
            yield line, name


def frame(ids: U32, starts: NDArray[np.int64], *, framed: bool) -> U32:
    """Lines end to end, with ⟨/s⟩ behind each and, if `framed`, ⟨s⟩ in front of it."""
    lines, marks = np.arange(len(starts) - 1), 1 + framed
    out = np.empty(len(ids) + marks * len(lines), np.uint32)
    out[np.arange(len(ids)) + np.repeat(lines * marks + framed, np.diff(starts))] = ids
    out[starts[1:] + lines * marks + framed] = EOS
    if framed:
        out[starts[:-1] + lines * marks] = BOS
    return out


def _split_lines(block: bytes, number: int) -> tuple[bytes, bytes]:
    """The first lines of a block, and the others."""
    at = 0
    for _ in range(number):
        at = block.index(b"\n", at) + 1
    return block[:at], block[at:]


def _cut(block: bytes) -> Iterator[bytes]:
    """Whole lines, not too many at a time."""
    at = 0
    while at < len(block):
        end = block.find(b"\n", at + ENCODED_AT_ONCE) + 1 or len(block)
        yield block[at:end]
        at = end
