"""Preparing the text of a language model: files in, one long file of ids out, encoded once.

    files ──► blocks of lines, checked ──► ids, each line ⟨s⟩ w … ⟨/s⟩ ──► folder/train.ids, valid.ids, tokenizer.json

`train.ids` is nothing but 32-bit numbers, one after the other: what counting reads. `valid.ids` has the text to measure
on, each line w … ⟨/s⟩. With `boundaries: stream` the whole training text has one ⟨s⟩, at its beginning. Where lines are
labeled, `train.classes` and `valid.classes` have a number for each, and the manifest the names.

Words between blanks take the short way: their bytes are numbered by compiled code as they are read (word_ids.py), and
when all have been seen the most frequent one gets the lowest id. Every other kind of token is made by the tokenizer,
which has to learn from the text first. Nothing here is held in memory but the vocabulary and a block of text.

The folder appears under its name only when it is complete, as in preparation.py, and is found again by its manifest.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from anaphora.data.changes import CorpusChanged, changes
from anaphora.data.checksums import CHECKSUMS, check_data, write_checksums
from anaphora.data.data_settings import DataConfig
from anaphora.data.formats import place, read_blocks, refuse_stream
from anaphora.data.holding_out import draw_places, lines_at, lines_but
from anaphora.data.items import read_items
from anaphora.data.labels import label_prints, write_classes
from anaphora.data.phrases import PHRASES, find_phrases, phrase_settings, write_phrases
from anaphora.data.prepared_text import MANIFEST, TOKENIZER, TRAIN, VALID, VERSION, PreparedText, read_manifest
from anaphora.data.word_ids import WordIds
from anaphora.errors import UserError, option
from anaphora.folder import atomic_folder, write_json
from anaphora.tokenizers.tokenizer import (
    BOS,
    EOS,
    MAX_TRAINING_CHARACTERS,
    MIN_SIZE,
    SPECIALS,
    UNK,
    Tokenizer,
    TokenizerConfig,
)
from anaphora.tokenizers.vocabulary_file import read_vocabulary
from anaphora.tokenizers.word_tokenizer import write_word_tokenizer

BLANK_LINE = re.compile(rb"^[ \t\r\v\f]*\n", re.MULTILINE)
ENCODED_AT_ONCE = 1 << 18  # bytes of text: as ids in Python lists they take a hundred times as much
RENUMBERED_AT_ONCE = 1 << 20  # ids
MIN_VOCABULARY_SHARE = 0.9  # of the vocabulary asked for: learning pieces may stop a little short of it

U32 = NDArray[np.uint32]
Progress = Callable[[str, int, int | None], None]  # (stage, done, total if known)
Encode = Callable[[bytes, bool], U32]  # (whole lines, framed by ⟨s⟩) -> ids


@dataclass
class Part:
    """What was read of the training or of the validation text."""

    lines: int = 0
    dropped_lines: int = 0
    held_out_lines: int = 0
    bytes: int = 0
    tokens: int = 0
    """Words, or whatever the tokenizer makes, and the end mark of each line."""
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
    at_most: bool = False,
    on_change: Literal["raise", "rebuild"] = "raise",
    progress: Progress = lambda stage, done, total: None,
) -> PreparedText:
    """Turn text into ids in `folder`, or find them there. keep: a tokenizer to use, instead of learning one. at_most:
    nobody asked for that many subwords, so a text that has fewer (one that repeats itself, say) is no mistake."""
    check_text(data)
    manifest = read_manifest(folder)
    settings = text_settings(data, tokenizer if keep is None else replace(tokenizer, words=None))
    if manifest is not None and keep and manifest["vocabulary_fingerprint"] == keep.vocabulary_fingerprint():
        settings["tokenizer"] = manifest["settings"]["tokenizer"]  # it is the one that was learned here, or kept before
    if manifest is not None:
        prints = {"text": {"text": fingerprint(data.text, progress, items=data.items)}, "valid_text": None}
        if data.valid_text:
            prints["valid_text"] = {"text": fingerprint(data.valid_text, progress)}
        if data.labels or manifest["settings"].get("labels"):
            prints["labels"] = label_prints(data)
        changed = changes(manifest["settings"], {**settings, **prints})
        if not changed:
            check_data(folder, expected=CHECKSUMS in manifest, add=True, progress=progress)
            return PreparedText(folder, manifest, reused=True)
        if on_change == "raise":
            raise CorpusChanged(changed, folder)
    with atomic_folder(folder) as temporary:
        manifest = _Preparation(temporary, data, tokenizer, progress, keep, at_most).run(settings)
        write_json(temporary / MANIFEST, manifest)
        write_checksums(temporary)
    return PreparedText(folder, manifest, reused=False)


def check_text(data: DataConfig) -> None:
    """What can be refused before any text is read."""
    if not data.text:
        raise UserError("no training text given", cure=f"give {option('text', 'FILE')}")
    for name in (*data.text, *data.valid_text, *data.labels, *data.valid_labels):
        path = place(name, "items" if data.items else "text").path
        if data.items and path.name.removesuffix(".gz").endswith(".csv"):
            raise UserError(
                "has comma-separated items, by its name, and tabs are needed here",
                file=path,
                cure="write it with tabs, as .tsv, one sequence a line",
            )
        refuse_stream(path)
    if data.valid_text and data.hold_out:
        raise UserError(
            "there is a validation text, and data.hold_out is set too",
            cure=f"leave out data.hold_out, or {option('valid_text')}",
        )


def text_settings(data: DataConfig, tokenizer: TokenizerConfig) -> dict[str, Any]:
    """All that decides what the ids are, but for the text itself."""
    chosen = {key: value for key, value in asdict(tokenizer).items() if key not in ("dropout", "shared")}
    if tokenizer.words:  # its content counts, not its name
        words = read_vocabulary(tokenizer.words, tokenizer.unknown)
        chosen["words"] = hashlib.sha256("\n".join(words).encode()).hexdigest()
    return {
        "version": VERSION,
        "tokenizer": {**chosen, "lines": None if _short_way(tokenizer) else data.tokenizer_lines},
        "hold_out": data.hold_out or 0,
        "seed": data.seed if data.hold_out else None,
        "boundaries": data.boundaries,
        "blank_lines": data.blank_lines,
        "items": data.items or None,  # as in what was prepared before there were any
        "punctuation": data.punctuation if data.punctuation != "attached" else None,
        "lowercase": data.lowercase or None,
        "phrases": phrase_settings(data),
    }


def fingerprint(files: list[str], progress: Progress = lambda stage, done, total: None, *, items: bool = False) -> str:
    """A hash of the lines of a text, however they are stored or compressed."""
    found, lines = hashlib.sha256(), 0
    for block in read_items(files, Counter()) if items else read_blocks(files, "text", Counter()):
        found.update(block)
        lines += block.count(b"\n")
        progress("reading", lines, None)
    return found.hexdigest()


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
        at_most: bool = False,
    ) -> None:
        self.folder, self.data, self.tokenizer, self.progress, self.keep = folder, data, tokenizer, progress, keep
        self.at_most = at_most
        self.notes: Counter[str] = Counter()
        self.train, self.valid = Part(), Part()
        self.phrases: dict[str, int] = {}
        """What the manifest says of them."""
        self.framed = data.boundaries != "stream"
        self.held_out = np.zeros(0, np.int64)
        """Places of the lines that are held out, in order; lines that are dropped have none."""

    def run(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Write all files but the manifest, and tell what it is to say."""
        if self.data.hold_out:
            self.held_out = self._draw(self.data.hold_out)
        with (self.folder / TRAIN).open("w+b") as ids:
            if not self.framed:
                ids.write(np.array([BOS], np.uint32).data)
            short = _short_way(self.tokenizer) and self.keep is None
            encode, vocabulary, its_fingerprint = self._words(ids) if short else self._tokens(ids)
            written = ids.tell() // 4
        self._refuse_nothing()
        measured = bool(self.data.valid_text or len(self.held_out))
        if measured:
            self._validation(encode)
        labeled = {}
        if self.data.labels:
            labeled["classes"] = write_classes(self.folder, self.data, self.held_out, self._keeps)
            settings = {**settings, "labels": label_prints(self.data)}
        return {
            **labeled,
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
            CHECKSUMS: True,
            **({"phrases": self.phrases} if self.phrases else {}),
        }

    # -- reading -------------------------------------------------------------------------------------------------------

    def _blocks(
        self, files: list[str], part: Part, notes: Counter[str], *, stage: str, held_out: bool | None = None
    ) -> Iterator[bytes]:
        """The lines that count, in blocks; `held_out`: only those that are held out, or only those that are not."""
        seen = place = 0
        for block in read_items(files, notes) if self.data.items else read_blocks(files, "text", notes):
            part.fingerprint.update(block)
            seen += block.count(b"\n")
            if self.data.blank_lines == "drop":
                block, blank = BLANK_LINE.subn(b"", block)
                part.dropped_lines += blank
            lines = block.count(b"\n")
            if held_out is not None:
                first, last = np.searchsorted(self.held_out, (place, place + lines))
                chosen = self.held_out[first:last] - place
                block = lines_at(block, chosen) if held_out else lines_but(block, chosen)
                part.held_out_lines += 0 if held_out else len(chosen)
            place += lines
            part.lines += block.count(b"\n")
            part.bytes += len(block)
            self.progress(stage, seen, None)
            if block:
                yield self._as_words(block)

    def _as_words(self, block: bytes) -> bytes:
        """Raw lines as words between blanks, where that is wished."""
        if self.data.punctuation == "apart":
            from anaphora.tokenizers.punctuation import set_apart  # numba, only here

            return set_apart(block, lowercase=self.data.lowercase)
        if self.data.lowercase:
            from anaphora.tokenizers.punctuation import lower

            return lower(block)
        return block

    def _keeps(self, line: bytes) -> bool:
        return self.data.blank_lines == "keep" or not BLANK_LINE.match(line + b"\n")

    def _to_learn_from(self, *, stage: str, count: bool = False) -> Iterator[bytes]:
        """The training text, as often as it is needed; what is odd in it, and how much there is, is counted once."""
        part, notes = (self.train, self.notes) if count else (Part(), Counter[str]())
        return self._blocks(self.data.text, part, notes, stage=stage, held_out=False)

    def _draw(self, number: int) -> NDArray[np.int64]:
        """Choose the lines to hold out: of a stream, in which a line means something only where it stands, the last."""
        text = self._blocks(self.data.text, Part(), Counter(), stage="choosing lines to hold out")
        lines = sum(block.count(b"\n") for block in text)
        if 2 * number > lines:
            raise UserError(f"data.hold_out is {number:,}, but there are only {lines:,} lines", cure="hold out fewer")
        return draw_places(lines, number, self.data.seed) if self.framed else np.arange(lines - number, lines)

    def _refuse_nothing(self) -> None:
        """A text of no words cannot be counted."""
        if self.train.tokens > self.train.lines:
            return
        blank = self.train.lines + self.train.dropped_lines
        if len(self.held_out):
            raise UserError(
                f"with {len(self.held_out):,} lines held out no text is left but {blank:,} blank lines",
                file=self.data.text[0],
                cure="hold out fewer, or set another data.seed",
            )
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
        given = read_vocabulary(self.tokenizer.words, self.tokenizer.unknown) if self.tokenizer.words else None
        words = WordIds(None if given is None else {word: len(SPECIALS) + n for n, word in enumerate(given)})
        counts = np.zeros(len(SPECIALS), np.int64)
        for block in self._to_learn_from(stage="reading", count=True):
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
        names: set[str] = set()
        if self.data.phrases or self.data.phrases_from:
            counts, names = self._join_phrases(file, words, counts)
        chosen = self._most_frequent(words, counts[len(SPECIALS) :])
        if self.phrases:
            self.phrases["vocabulary"] = sum(word in names for word in words.spelled(chosen))
        new = np.full(len(counts), UNK, np.uint32)
        new[: len(SPECIALS)] = np.arange(len(SPECIALS))
        new[len(SPECIALS) + chosen] = np.arange(len(SPECIALS), len(SPECIALS) + len(chosen))
        self.train.unknown_tokens = int(counts[new == UNK].sum())
        words.give_ids(new[len(SPECIALS) :])
        self._renumber(file, new)
        size, print_ = write_word_tokenizer(self.folder / TOKENIZER, words.spelled(chosen), self.tokenizer.unknown)
        return encode, size, print_

    def _join_phrases(
        self, file: BinaryIO, words: WordIds, counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], set[str]]:
        """Phrases in place of their words, in the file; how often each id comes now, and what they are called."""
        file.flush()
        found = find_phrases(
            self.folder / TRAIN, words, counts, self.data, bar=self.tokenizer.unknown, progress=self.progress
        )
        file.seek(0, 2)
        self.train.tokens -= found.places
        write_phrases(self.folder / PHRASES, found.phrases)
        names = {phrase.name for phrase in found.phrases}
        self.phrases = {"found": len(names), "joined": found.places}
        return found.counts, names

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
        """Train the tokenizer, then encode with it."""
        tokenizer = self.keep
        if tokenizer is None:
            tokenizer = Tokenizer.train(self.tokenizer, self._lessons(), pairs=self._count_lines())
            if not self.at_most:
                self._refuse_too_many(tokenizer.vocabulary_size)
        tokenizer.save(self.folder / TOKENIZER)

        def encode(lines: bytes, framed: bool) -> U32:
            texts = lines.decode().split("\n")[:-1]
            return frame(*tokenizer.encode_flat(texts), framed=framed)

        for block in self._to_learn_from(stage="encoding", count=True):
            for some in _cut(block):
                self._write(file, encode(some, self.framed), self.train)
        return encode, tokenizer.vocabulary_size, tokenizer.vocabulary_fingerprint()

    def _refuse_too_many(self, found: int) -> None:
        """A text may hold fewer different pieces than were asked for."""
        asked = self.tokenizer.vocabulary
        if self.tokenizer.kind in ("bpe", "unigram") and asked is not None and found < MIN_VOCABULARY_SHARE * asked:
            raise UserError(
                f"tokenizer.vocabulary is {asked:,}, but this text has no more than {found:,} different tokens",
                file=self.data.text[0],
                cure=f"ask for fewer (tokenizer.vocabulary={max(MIN_SIZE, found // 2)}, say), or leave it to the text",
            )

    def _count_lines(self) -> int | None:
        if self.tokenizer.kind not in ("bpe", "unigram") or self.tokenizer.vocabulary is not None:
            return None
        return sum(block.count(b"\n") for block in self._to_learn_from(stage="reading"))

    def _lessons(self) -> Iterable[str]:
        """At most `data.tokenizer_lines` lines, spread evenly over the text."""
        if self.tokenizer.kind == "byte":
            return ()
        kept: list[str] = []
        every, seen, most = 1, 0, self.data.tokenizer_lines
        for block in self._to_learn_from(stage="reading"):
            lines = block.decode().split("\n")[:-1]
            for line in lines[-seen % every :: every]:  # a long one in pieces: some texts have no line ends
                kept += [line[at : at + MAX_TRAINING_CHARACTERS] for at in range(0, len(line), MAX_TRAINING_CHARACTERS)]
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
        stage = "reading the validation text"
        if self.data.valid_text:
            blocks = self._blocks(self.data.valid_text, self.valid, self.notes, stage=stage)
        else:  # in the order of the text; what is odd in it was counted before
            blocks = self._blocks(self.data.text, self.valid, Counter(), stage=stage, held_out=True)
        with (self.folder / VALID).open("wb") as file:
            for some in chain.from_iterable(map(_cut, blocks)):
                self._write(file, encode(some, False), self.valid)
        if not self.valid.lines:
            raise UserError(
                "the text to evaluate on is empty",
                file=self.data.valid_text[0],
                cure="give it some lines, or leave it out",
            )


def frame(ids: U32, starts: NDArray[np.int64], *, framed: bool) -> U32:
    """Lines end to end, with ⟨/s⟩ behind each and, if `framed`, ⟨s⟩ in front of it."""
    lines, marks = np.arange(len(starts) - 1), 1 + framed
    out = np.empty(len(ids) + marks * len(lines), np.uint32)
    out[np.arange(len(ids)) + np.repeat(lines * marks + framed, np.diff(starts))] = ids
    out[starts[1:] + lines * marks + framed] = EOS
    if framed:
        out[starts[:-1] + lines * marks] = BOS
    return out


def _cut(block: bytes) -> Iterator[bytes]:
    """Whole lines, not too many at a time."""
    at = 0
    while at < len(block):
        end = block.find(b"\n", at + ENCODED_AT_ONCE) + 1 or len(block)
        yield block[at:end]
        at = end
