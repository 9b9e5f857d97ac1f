r"""ARPA files, the text form in which n-gram models are exchanged: written and read, plain or packed (.gz).

    \data\
    ngram 1=5
    ngram 2=4
                                    log₁₀ P(last word | the words before it), the words, log₁₀ of the weight that a
    \1-grams:                       word pays which was never seen after them (left out where nothing was)
    -99	<s>	-0.4771213
    -0.9208188	the	-0.30103
    …
    \2-grams:
    -0.2730013	<s> the
    …
    \end\

A word that does not follow its context has the context's weight times its probability after the context without its
first word: interpolated Kneser-Ney fits this form, as does every back-off model; add-k and stupid back-off do not. The
logarithm of zero is written -99. `<s>`, `</s>` and `<unk>` stand for our ⟨s⟩, ⟨/s⟩ and ⟨unk⟩.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from anaphora.data.lines import opened, reading
from anaphora.errors import UserError, refused_by_system
from anaphora.folder import is_device, sync, temporary_name
from anaphora.models.ngram.kernels import arpa_scan as kernel
from anaphora.models.ngram.kernels.ngrams import F32, NOWHERE, U32, Trie
from anaphora.models.ngram.ngram_model import NgramConfig, NgramModel, skip_what_nothing_follows
from anaphora.tokenizers.tokenizer import BLANKS, BOS, EOS, PAD, SPECIALS, UNK
from anaphora.tokenizers.vocabulary_file import BEGIN, END, UNKNOWN

NAMES = {BOS: BEGIN, EOS: END, UNK: UNKNOWN}
PARTING = re.compile(f"[\0{BLANKS}]")
"""What no word of a file may have in it: other toolkits take it for the end of the word."""
BLOCK_BYTES = 1 << 24
LOG_UNK = -100.0
"""log₁₀ P of ⟨unk⟩ in a model that came without: what KenLM takes."""
MAX_NGRAMS = (1 << 31) - 1
"""N-grams of a file, numbered in 31 bits."""
ROUNDED = 1e-5
"""How far above 0 a logarithm may lie by rounding."""
MADE = "make the file again, or copy it again"


def arpa_words(tokens: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """A name for each token that an ARPA file can hold, and which tokens had to be renamed.

    Words of this house carry the space in front of them: it is left out. Blanks, which would part words, become "▁";
    a token that would be taken for `<s>`, `</s>`, `<unk>` or for another one has brackets put around it.
    """
    names, renamed = [SPECIALS[PAD], *NAMES.values()], {}
    taken = set(names)
    for token in tokens[len(names) :]:
        plain = token[1:] if token.startswith(" ") else token
        name = PARTING.sub("▁", plain) or "▁"
        while name in taken:
            name = f"<{name}>"
        if name != plain:
            renamed[token] = name
        taken.add(name)
        names.append(name)
    return names, renamed


# -- writing -----------------------------------------------------------------------------------------------------------


def write_arpa(path: str | os.PathLike[str], model: NgramModel, words: Sequence[str]) -> None:
    """Write a back-off model, one order after the other; `words` has the name of each id (see `arpa_words`)."""
    path = Path(path)
    if model.order > 1 and (model.rule.exact or model.rule.level != 0):
        raise UserError(
            f"an ARPA file cannot hold a model with smoothing {model.config.smoothing}: it has weights of contexts"
            " that were seen, and nothing else to say about words that were not",
            cure="train with model.smoothing=kneser-ney",
        )
    names = _checked(words, model.vocabulary)
    trie = model.trie
    limits = [0, *trie.limits.tolist()]
    counts = sizes_in_file(model)
    inner = len(trie.first) - 1
    parent = np.empty(limits[-1], np.uint32)
    if inner:
        kernel.parents_of(trie.first, parent)
    weighted = trie.first[1:] != trie.first[:-1]
    spelled = [name.encode() for name in names]
    text = np.frombuffer(b"".join(spelled) or b" ", np.uint8)
    ends = np.cumsum([len(name) for name in spelled])
    longest = max(map(len, spelled))
    out = np.empty(max(BLOCK_BYTES, 2 * (model.order * (longest + 1) + 64)), np.uint8)
    with _whole(path) as put:
        put(b"\\data\\\n" + b"".join(b"ngram %d=%d\n" % pair for pair in enumerate(counts, start=1)))
        for order in range(1, model.order + 1):
            put(b"\n\\%d-grams:\n" % order)
            gram, end = limits[order - 1], limits[order]
            while gram < end:
                gram, size = kernel.format_lines(
                    gram, end, order, trie.word, parent, text, ends,
                    trie.log_probability, trie.log_weight, weighted, PAD, longest, out,
                )  # fmt: skip
                put(out[:size].data)
        put(b"\n\\end\\\n")


def sizes_in_file(model: NgramModel) -> list[int]:
    """How many n-grams of each order a file has of a model: padding, which nobody says, is none."""
    limits = [0, *model.trie.limits.tolist()]
    return [int((model.trie.word[begin:end] != PAD).sum()) for begin, end in pairwise(limits)]


def _checked(words: Sequence[str], vocabulary: int) -> list[str]:
    if len(words) != vocabulary:
        raise UserError(f"the model has {vocabulary} words, but {len(words)} names are given")
    names = [NAMES.get(id, word) for id, word in enumerate(words)]
    names[PAD] = ""  # nobody says it
    seen: set[str] = set()
    for word in names[1:]:
        if not word or PARTING.search(word) or word in seen:
            why = "stands twice" if word in seen else "is empty" if not word else "has a blank in it"
            raise UserError(f"the word {word!r} {why}, which no ARPA file can hold", cure="rename it (arpa_words)")
        seen.add(word)
    return names


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Callable[[bytes | memoryview], Any]]:
    """What puts bytes into a file that has its name only when all were put; .gz is packed, a device is written to."""
    try:
        device = is_device(path)
        path = path.resolve() if path.is_symlink() and not device else path
        target = path if device else temporary_name(path)
        try:
            with target.open("wb") as file:
                with contextlib.ExitStack() as stack:
                    packed: IO[bytes] | gzip.GzipFile = file
                    if path.suffix.lower() == ".gz":
                        packed = gzip.GzipFile("", "wb", compresslevel=3, fileobj=file, mtime=0)
                        stack.enter_context(packed)
                    yield packed.write
                file.flush()
                if not device:
                    os.fsync(file.fileno())
            if not device:
                target.replace(path)
                sync(path.parent)
        except BaseException:
            if not device:
                target.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise refused_by_system(error, "cannot be written", file=path) from None


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arpa:
    """What an ARPA file holds."""

    model: NgramModel
    words: list[str]
    """By id: ⟨pad⟩ and the three of `NAMES`, then the others as the file has them."""
    notes: list[str] = field(default_factory=list)
    """What had to be added or taken otherwise."""


def read_arpa(path: str | os.PathLike[str]) -> Arpa:
    """Read a model, plain or packed (.gz, .xz, .zst); what is wrong with the file is said with its line."""
    path = Path(path)
    with reading(path), opened(path) as stream:
        if hasattr(stream, "peek") and stream.peek(2)[:2] == b"\x1f\x8b":
            raise UserError("is packed by gzip, and its name does not say so", file=path, cure="name it .arpa.gz")
        return _Reader(path, stream).read()


class _Reader:
    """One pass over the file. Numbers are parsed in blocks of lines by the kernel; the rest here, line by line."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self.path = path
        self.stream = stream
        self.block = b""  # complete lines
        self.rest = b""
        self.place = 0  # in the block: where the next line begins
        self.number = 0  # of the lines before it
        self.unended = False  # whether the last line of the file, now in the block, lacks its line end
        self.notes: list[str] = []
        self.unknown = UNKNOWN  # as this file spells it
        # the trie, as far as it has been read
        self.limits: list[int] = []
        self.word = self.first = self.link = np.zeros(0, np.uint32)
        self.log_probability = self.log_weight = np.zeros(0, np.float32)

    def refuse(self, what: str, *, line: int | None = None, cure: str = MADE) -> NoReturn:
        at_the_end = self.unended and self.place == len(self.block) and line in (None, self.number)
        if at_the_end and cure == MADE and "cut short" not in what:
            what = "the file ends in the middle of this line, it is cut short"
        raise UserError(what, file=self.path, line=self.number if line is None else line, cure=cure)

    def fill(self) -> bool:
        """Have a block that is not used up; False at the end of the file."""
        while self.place == len(self.block):
            read = self.stream.read(BLOCK_BYTES)
            if not read and not self.rest:
                return False
            ended, feed, begun = (self.rest + read).rpartition(b"\n")
            if not feed:
                self.unended = not read
                ended, begun = (begun, b"") if not read else (b"", begun)
                if len(begun) > BLOCK_BYTES:
                    self.refuse("this line is longer than any n-gram", line=self.number + 1)
            self.block, self.rest, self.place = (ended + b"\n" if ended or feed else b""), begun, 0
        return True

    def line(self) -> bytes | None:
        """The next line without blanks around it; nothing at the end of the file."""
        if not self.fill():
            return None
        end = self.block.index(b"\n", self.place)
        line = self.block[self.place : end]
        self.place, self.number = end + 1, self.number + 1
        return line.strip(b" \t\r")

    def section(self, inside: str) -> bytes:
        """The next line that is not blank."""
        while (line := self.line()) == b"":
            pass
        if line is None:
            self.refuse(f"the file ends {inside}, it is cut short", line=max(1, self.number))
        return line

    def read(self) -> Arpa:
        sizes = self.header()
        words = self.single_words(sizes[0])
        table = _hashed([*words[:UNK], self.unknown, *words[UNK + 1 :]])
        for order, size in enumerate(sizes[1:], start=2):
            self.add(order, *self.longer(order, size, table))
        if (line := self.section("without its \\end\\")) != b"\\end\\":
            self.refuse(f"here should be \\end\\, not {_show(line)}")
        inner = self.limits[-2] if len(sizes) > 1 else 0
        if len(sizes) > 1 and (self.log_weight[inner:] != 0).any():
            self.notes.append(f"weights of {len(sizes)}-grams, which nothing can follow, were left out")
        limits = np.array(self.limits, np.int64)
        skip_what_nothing_follows(limits, self.first, self.link, inner)
        trie = Trie(limits, self.word, self.first, self.link, self.log_probability, self.log_weight[:inner])
        return Arpa(NgramModel(NgramConfig(order=len(sizes), smoothing="given"), trie), words, self.notes)

    def add(self, order: int, grams: U32, log_probability: F32, log_weight: F32, line: int) -> None:
        """Put the n-grams of one order, words (N, order), into the trie; the first of them stands in this line."""
        below, base = [0, *self.limits][-2:]  # contexts are numbered from `below` to `base`
        context, suffix = np.empty(len(grams), np.int64), np.empty(len(grams), np.int64)
        for number, begin, which in ((context, 0, "first"), (suffix, 1, "last")):
            kernel.count(grams, begin, order - 1, self.word, self.first, number)
            if (number < 0).any():
                self.refuse(f"the {which} {order - 1} words of this {order}-gram are no {order - 1}-gram of the file",
                            line=line + int((number < 0).argmax()))  # fmt: skip
        key = context << 32 | grams[:, -1]
        # The weight of a context that nothing follows must be paid all the same: padding follows it, with P = 0.
        followed = np.zeros(base - below, np.bool_)
        followed[context - below] = True
        alone = np.flatnonzero(~followed & (self.log_weight[below:] != 0)) + below
        if len(alone):
            nothing = np.zeros(len(alone), np.int64)
            key, suffix = np.concatenate((key, alone << 32 | PAD)), np.concatenate((suffix, nothing))
            log_probability = np.concatenate((log_probability, np.full(len(alone), -np.inf, np.float32)))
            log_weight = np.concatenate((log_weight, nothing.astype(np.float32)))
        if (key[1:] <= key[:-1]).any():
            into = np.argsort(key, kind="stable")
            key, suffix = key[into], suffix[into]
            log_probability, log_weight = log_probability[into], log_weight[into]
            twice = key[1:] == key[:-1]
            if twice.any():
                self.refuse(f"this {order}-gram stands twice in the file", line=line + int(into[1:][twice].min()))
        begins = np.searchsorted(key >> 32, np.arange(below, base + 1)) + base
        self.first = np.concatenate((self.first[:-1], begins.astype(np.uint32)))
        self.word = np.concatenate((self.word, (key & 0xFFFFFFFF).astype(np.uint32)))
        self.link = np.concatenate((self.link, suffix.astype(np.uint32)))
        self.log_probability = np.concatenate((self.log_probability, log_probability))
        self.log_weight = np.concatenate((self.log_weight, log_weight))
        self.limits.append(len(self.word))

    def header(self) -> list[int]:
        r"""How many n-grams there are of each order. Text before \data\ is allowed and means nothing."""
        while (line := self.line()) != b"\\data\\":
            if line is None:
                self.refuse("this is no ARPA file: there is no line \\data\\", line=1, cure="give an ARPA file")
        sizes: list[int] = []
        unpacked = self.path.stat().st_size * (1 if self.path.suffix.lower() not in (".gz", ".xz", ".zst") else 100_000)
        while not (line := self.section("in its header")).startswith(b"\\"):
            found = re.fullmatch(rb"ngram\s+(\d{1,3})\s*=\s*(\d{1,18})", line)
            if not found:
                self.refuse(f"here should be a line like `ngram 1=1000`, not {_show(line)}")
            if int(found[1]) != len(sizes) + 1:
                self.refuse(f"here should be the number of {len(sizes) + 1}-grams, not of {int(found[1])}-grams")
            sizes.append(int(found[2]))
            if sizes[-1] * 2 * (len(sizes) + 1) > unpacked and self.path.is_file():
                self.refuse(f"{sizes[-1]} {len(sizes)}-grams do not fit into a file of this size: it is cut short")
        if not sizes:
            self.refuse("the header gives no numbers of n-grams: a line `ngram 1=1000` is missing")
        if len(sizes) > 20:
            self.refuse(f"the model has order {len(sizes)}; at most 20 can be read")
        if sum(sizes) + sum(sizes[:-1]) > MAX_NGRAMS:  # a context that nothing follows takes a number more (see `add`)
            self.refuse(f"{sum(sizes):,} n-grams are more than can be numbered", cure="prune the model")
        self.begins(1, line)
        return sizes

    def begins(self, order: int, line: bytes) -> None:
        if line != b"\\%d-grams:" % order:
            self.refuse(f"here should be \\{order}-grams:, not {_show(line)}")

    def wrong_count(self, order: int, size: int, found: int, line: bytes | None) -> NoReturn:
        """The section has more or fewer lines than the header said."""
        if line is None:
            self.refuse(
                f"the file ends after {found} of {size} {order}-grams, it is cut short", line=max(1, self.number)
            )
        if found < size:
            self.refuse(f"the header says ngram {order}={size}, but there are {found} {order}-grams")
        self.refuse(f"the header says ngram {order}={size}, but there are more {order}-grams: {_show(line)}")

    def after(self, order: int, size: int) -> None:
        """A blank line, the next section or the end: anything else is one n-gram too many."""
        place, number = self.place, self.number
        line = self.line() if self.fill() else None
        if line is not None and line and not line.startswith(b"\\"):
            self.wrong_count(order, size, size, line)
        if line:
            self.place, self.number = place, number

    def single_words(self, size: int) -> list[str]:
        """The vocabulary with its numbers, ours first, as a trie of single words."""
        found: dict[bytes, tuple[float, float]] = {}
        for done in range(size):
            line = self.line()
            if not line or line.startswith(b"\\"):
                self.wrong_count(1, size, done, line)
            fields = [part for part in line.replace(b"\t", b" ").split(b" ") if part]
            if not 2 <= len(fields) <= 3:
                self.refuse(f"this is no 1-gram (log P, word, and perhaps a weight): {_show(line)}")
            if fields[1] in found:
                self.refuse(f"the word {_show(fields[1])} stands twice in the file")
            numbers = self.a_number(fields[0]), self.a_number(fields[2]) if len(fields) == 3 else 0.0
            if numbers[0] > ROUNDED and fields[1] != b"<s>":
                self.refuse(f"log P is {numbers[0]:g}, which makes a probability above 1")
            found[fields[1]] = numbers
            try:
                blank = PARTING.search(fields[1].decode())
            except UnicodeDecodeError:
                self.refuse(f"the word {_show(fields[1])} is not UTF-8", cure="convert the file to UTF-8")
            if blank:
                self.refuse(f"the word {_show(fields[1])} has {blank[0]!r} in it, which parts words", cure="rename it")
        for id, name in ((BOS, "<s>"), (EOS, "</s>")):
            if name.encode() not in found:
                what = "begins" if id == BOS else "ends"
                self.refuse(f"there is no {name} among the 1-grams, so the model does not know where a sentence {what}",
                            cure="make the model from text with sentence marks")  # fmt: skip
        if b"<unk>" not in found:
            if b"<UNK>" in found:
                found[b"<unk>"] = found.pop(b"<UNK>")
                self.unknown = "<UNK>"
            else:
                found[b"<unk>"] = LOG_UNK, 0.0
                self.notes.append(f"there is no <unk>: it was added, with log10 P = {LOG_UNK:g}")
        self.after(1, size)
        given = [name.encode() for name in NAMES.values()]
        ordered = [*given, *(word for word in found if word not in given)]
        both = np.array([(-math.inf, 0.0), *(found[word] for word in ordered)])
        both[BOS, 0] = -math.inf  # nobody predicts it
        self.log_probability, self.log_weight = _natural(both[:, 0]), _natural(both[:, 1])
        self.word = np.arange(len(both), dtype=np.uint32)
        self.link = np.full(len(both), NOWHERE, np.uint32)
        self.first = np.zeros(1, np.uint32)
        self.limits = [len(both)]
        return [SPECIALS[PAD], *(word.decode() for word in ordered)]

    def a_number(self, text: bytes) -> float:
        raw = np.frombuffer(text, np.uint8)
        number = kernel.parse_number(raw, 0, len(raw))
        if math.isnan(number) or number == math.inf:
            self.refuse(f"this is no logarithm: {_show(text)}")
        return float(number)

    def longer(self, order: int, size: int, words: kernel.Words) -> tuple[U32, F32, F32, int]:
        """The n-grams of one order as they stand: words (N, order), log P, log weight; the line of the first one."""
        self.begins(order, self.section(f"before its {order}-grams"))
        began = self.number + 1
        grams, log_p, log_w = np.empty((size, order), np.uint32), np.empty(size, np.float32), np.empty(size, np.float32)
        done = 0
        while done < size:
            if not self.fill():
                self.wrong_count(order, size, done, None)
            text = np.frombuffer(self.block, np.uint8)
            before = done
            self.place, done, how, at = kernel.parse_lines(text, self.place, order, words, grams, log_p, log_w, done)
            self.number += done - before
            if how == kernel.FINE or done == size:
                continue
            field = re.split(rb"[ \t\r\n]", self.block[at : at + 1000], maxsplit=1)[0]
            line = self.line() or b""
            if how == kernel.SECTION:
                self.wrong_count(order, size, done, line)
            if how == kernel.NO_NUMBER:
                self.refuse(f"this is no logarithm: {_show(field)}")
            if how == kernel.UNKNOWN:
                self.refuse(f"the word {_show(field)} is not among the 1-grams")
            self.refuse(f"this is no {order}-gram (log P, {order} words, and perhaps a weight): {_show(line)}")
        for row in np.flatnonzero((log_p > ROUNDED) | np.isposinf(log_w))[:1].tolist():
            above = f"log P is {log_p[row]:g}, which makes a probability above 1"
            self.refuse(above if log_p[row] > ROUNDED else "its weight is infinite", line=began + row)
        self.after(order, size)
        return grams, _natural(log_p), _natural(log_w), began


def _hashed(words: Sequence[str]) -> kernel.Words:
    spelled = [b"", *(word.encode() for word in words[1:])]
    text = np.frombuffer(b"".join(spelled), np.uint8)
    ends = np.cumsum([len(word) for word in spelled])
    table = np.zeros(1 << (2 * len(words)).bit_length(), np.uint32)
    kernel.hash_words(text, ends, table)
    return kernel.Words(text, ends, table)


def _natural(log_10: NDArray[Any]) -> F32:
    """From base 10 to base e; -99 is log 0."""
    return np.where(log_10 == kernel.LOWEST, -np.inf, log_10.astype(np.float64) * math.log(10)).astype(np.float32)


def _show(text: bytes) -> str:
    shown = text[:60].decode("utf-8", "replace")
    return repr(shown if len(text) <= 60 else f"{shown} …")
