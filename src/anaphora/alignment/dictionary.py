"""A bilingual dictionary of single words, learned from sentence pairs or written by hand.

It says what a word outside a translator's vocabulary might be in the other language (alignment/unknown_words.py). It is
learned over the words of the text itself, not over the limited vocabulary: two IBM-1 models, one for each direction,
align the training text, and where both agree (alignment/agreement.py) a link is counted:

    p(target | source) = links between the two / occurrences of the source word

Of each source word the most probable target word is kept.

The first word of a line has a capital letter for its place, not for itself, so on both sides it is counted in the form
it mostly has inside lines, where it was seen there ("Quickly" as "quickly", "Berlin" as it is).

The file is tab-separated, one entry a line, and meant to be read and edited: source word, target word, probability,
count. The last two may be left out in a dictionary of one's own; a line that begins with "# " is a comment.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from anaphora.alignment.agreement import Agreement
from anaphora.data.corpus import Corpus
from anaphora.data.preparation import open_prepared
from anaphora.errors import UserError, refused_by_system
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, read_bytes
from anaphora.folder import DATA, write_text
from anaphora.results import brief, html_table
from anaphora.tokenizers.tokenizer import UNK, Tokenizer

FILE = "dictionary.tsv"
"""Its name in a model folder."""
MIN_PROBABILITY = 0.05
"""Entries less probable than this are not kept."""
MAX_TRAINING_PAIRS = 200_000
"""Pairs of the training text that it is learned from, at most, spread evenly."""
COLUMN_NAMES = "source, target, probability, count"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what a source word may be in the target language."""

    source: str
    target: str
    probability: float = 1.0
    count: int = 1
    """How often the two were linked in the text."""


class Dictionary:
    """Source words and their entries: of several for one word the most probable, of equals the one that came first."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: dict[str, Entry] = {}
        for entry in entries:
            known = self.entries.get(entry.source)
            if known is None or known.probability < entry.probability:
                self.entries[entry.source] = entry

    def __repr__(self) -> str:
        first = (f"{one.source} → {one.target}" for one in islice(self, 3))
        return brief("Dictionary", ", ".join(first), f"{len(self):,} entries" if len(self) != 1 else "1 entry")

    def _repr_html_(self) -> str:
        rows = [(one.source, one.target, f"{one.probability:.3f}", f"{one.count:,}") for one in self]
        return html_table(("source", "target", "P", "count"), rows, left=2)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __getitem__(self, word: str) -> Entry | None:
        return self.entries.get(word)

    def over(self, other: Dictionary) -> Dictionary:
        """This one, and the other one's entries for words that this one lacks."""
        return Dictionary([*self, *(entry for entry in other if entry.source not in self.entries)])

    # -- learning it ---------------------------------------------------------------------------------------------------

    @classmethod
    def learn(cls, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Dictionary:
        """From pairs of lines, each a sequence of words. The same lines give the same dictionary."""
        sources, targets = inner_forms(sources), inner_forms(targets)
        teacher = Agreement.fit(sources, targets)
        seen: Counter[str] = Counter()
        links: dict[str, Counter[str]] = defaultdict(Counter)
        for source, target in zip(sources, targets):
            seen.update(source)
            for s, t in sorted(teacher.links(source, target)[0]):
                links[source[s]][target[t]] += 1
        entries = []
        for word in sorted(links):
            other, count = min(links[word].items(), key=lambda item: (-item[1], item[0]))
            entries.append(Entry(word, other, count / seen[word], count))
        return cls(entry for entry in entries if entry.probability >= MIN_PROBABILITY and _writable(entry))

    # -- the file ------------------------------------------------------------------------------------------------------

    def write(self, path: Path, origin: str) -> None:
        """Whole or not at all; `origin` says in the first line where the entries come from."""
        lines = [f"# {origin}", f"# {COLUMN_NAMES}; edit, add or delete lines as you like"]
        lines += [f"{entry.source}\t{entry.target}\t{entry.probability:.4g}\t{entry.count}" for entry in self]
        write_text(path, "".join(f"{line}\n" for line in lines))

    @classmethod
    def read(cls, path: Path) -> Dictionary:
        """A file of two to four columns; what is wrong with it is said with its line."""
        if not path.exists() or path.is_dir():
            what = "is a folder, not a dictionary" if path.exists() else "there is no such dictionary"
            raise UserError(what, file=path, cure=f"name a file of tab-separated lines: {COLUMN_NAMES}")
        try:
            lines = read_bytes(path, MAX_LARGE_FILE_BYTES).decode("utf-8-sig").split("\n")
        except UnicodeDecodeError:
            raise UserError("this dictionary is not UTF-8 text", file=path, cure="save it as UTF-8") from None
        except OSError as error:
            raise refused_by_system(error, "this dictionary cannot be read", file=path) from None
        numbered = ((number, line.rstrip("\r")) for number, line in enumerate(lines, start=1))
        return cls(_entry(line, path, number) for number, line in numbered if line.strip() and line[:2] != "# ")


# -- of a model folder -------------------------------------------------------------------------------------------------


def learn_for(
    folder: Path,
    train: Corpus,
    tokenizers: tuple[Tokenizer, Tokenizer],
    *,
    start: Path | None = None,
    given: str | None = None,
) -> str:
    """Write a model's dictionary, unless one is there: it may have been edited. Says what was done.

    start: the folder of the model that this one started from; words that only its dictionary knows are kept. given: a
    file that is taken instead of learning one.
    """
    path = folder / FILE
    if path.exists():
        return f"{FILE} is there already and was kept"
    if given is not None:
        return copy_into(folder, given)
    rows = np.unique(np.linspace(0, len(train) - 1, min(len(train), MAX_TRAINING_PAIRS)).astype(np.int64))
    if not (train.ids("target", rows)[0] == UNK).any():
        return "the vocabulary has every target word, so no dictionary is needed"
    sides = zip(("source", "target"), tokenizers)
    words = [[words_of(tokenizer, text) for text in train.texts(side, rows)] for side, tokenizer in sides]
    learned = Dictionary.learn(*words)
    origin = f"learned from {len(rows):,} pairs"
    if start is not None and (start / FILE).is_file():
        learned = learned.over(Dictionary.read(start / FILE))
        origin += f", and from the dictionary of {start.name}"
    learned.write(path, f"{origin}, by IBM model 1 in both directions")
    return f"{FILE} has {len(learned):,} source words, {origin}"


def copy_into(folder: Path, given: str) -> str:
    """A dictionary of the user's own becomes the model's, whatever was there. Says what was done."""
    copied = Dictionary.read(Path(given))
    copied.write(folder / FILE, f"copied from {Path(given).name}")
    return f"{FILE} has {len(copied):,} source words, copied from {given}"


def of_folder(folder: Path, tokenizers: tuple[Tokenizer, Tokenizer]) -> Dictionary:
    """The dictionary of a model folder; learned now, if there is none and the run's text is there; else empty."""
    path = folder / FILE
    if not path.exists() and (folder / DATA / "manifest.json").is_file():
        with suppress(UserError):  # text of an interrupted preparation, a folder one may not write to
            learn_for(folder, open_prepared(folder / DATA).train, tokenizers)
    return Dictionary.read(path) if path.exists() else Dictionary([])


# -- a line of the file ------------------------------------------------------------------------------------------------


def _entry(line: str, path: Path, number: int) -> Entry:
    columns = [column.strip() for column in line.split("\t")]

    def wrong(what: str, cure: str) -> UserError:
        return UserError(what, file=path, line=number, cure=cure)

    if not 2 <= len(columns) <= 4:
        many = "one column" if len(columns) == 1 else f"{len(columns)} columns"
        raise wrong(f"has {many}, and an entry has two to four", f"part them by tabs: {COLUMN_NAMES}")
    source, target = columns[:2]
    if not source or not target:
        raise wrong(f"has no {'target' if source else 'source'} word", "fill it in, or delete the line")
    if len(source.split()) > 1:
        raise wrong(f"{source!r} is more than one word", "words are replaced one by one: give one source word a line")
    probability, count = 1.0, 1
    if len(columns) > 2:
        try:
            probability = float(columns[2])
        except ValueError:
            probability = math.nan
        if not 0 < probability <= 1:
            raise wrong(f"{columns[2]!r} is no probability", "give a number above 0 and at most 1, or leave it out")
    if len(columns) > 3:
        if not columns[3].isascii() or not columns[3].isdecimal():
            raise wrong(f"{columns[3]!r} is no count", "give a whole number, or leave it out")
        count = int(columns[3])
    return Entry(source, " ".join(target.split()), probability, count)


def _writable(entry: Entry) -> bool:
    """Whether the entry comes back from a line of the file as it is."""
    return all(word == word.strip() and len(word.split()) == 1 for word in (entry.source, entry.target))


# -- words -------------------------------------------------------------------------------------------------------------


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text as a word-level tokenizer cuts it, white space left out: one for each of its other tokens."""
    return [word for piece in tokenizer.pieces(text) if (word := piece.strip())]


def is_wordlike(word: str) -> bool:
    """Whether it has a letter or a digit: not a comma, a dash, a smiley."""
    return any(character.isalnum() for character in word)


def first_word(words: Sequence[str]) -> int | None:
    """Which one is the first with a letter or a digit."""
    return next((place for place, word in enumerate(words) if is_wordlike(word)), None)


def inner_forms(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """The same lines; the first word of each in the form (Quickly, quickly, QUICKLY) that is most frequent inside
    lines, where there is one."""
    firsts = [first_word(line) for line in lines]
    inside = Counter(word for line, first in zip(lines, firsts) for place, word in enumerate(line) if place != first)
    best: dict[str, str] = {}
    for word, count in inside.items():
        if count > inside[best.setdefault(word.lower(), word)]:
            best[word.lower()] = word
    changed = []
    for line, first in zip(lines, firsts):
        words = list(line)
        if first is not None:
            words[first] = best.get(words[first].lower(), words[first])
        changed.append(words)
    return changed
