"""Section `data`: which text a run learns from. Apart from the corpus itself, which needs Arrow to be read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from anaphora.errors import option

Sides = dict[str, list[str]]  # the files of each side, by its name
THRESHOLDS = {"mikolov": 100.0, "npmi": 0.5}
"""Above which score two words are a phrase, unless a run says otherwise."""
MOST_PASSES = 20
"""Times to look for phrases: each pass can double their length."""


@dataclass(kw_only=True)
class PairFiles:
    """A parallel corpus."""

    source: list[str] = field(default_factory=list)
    """Source text files: plain text, TSV, CSV, JSONL or Parquet (pairs.csv#de, a.tsv#1), also .gz .xz .zst."""
    target: list[str] = field(default_factory=list)
    """Target text files, line for line."""
    valid_source: list[str] = field(default_factory=list)
    """Validation text, source side. By default part of the corpus is held out."""
    valid_target: list[str] = field(default_factory=list)
    """Validation text, target side."""


@dataclass(kw_only=True)
class TextFiles:
    """A text in lines."""

    text: list[str] = field(default_factory=list)
    """Training text of a language model or of word vectors, in the same formats; instead of source and target."""


@dataclass(kw_only=True)
class ValidText:
    """Text to measure on."""

    valid_text: list[str] = field(default_factory=list)
    """Validation text of a language model."""


@dataclass(kw_only=True)
class LabelFiles:
    """What a classifier learns to say of each line."""

    labels: list[str] = field(default_factory=list)
    """Files with the labels of a classifier, one for each line of `text`."""
    valid_labels: list[str] = field(default_factory=list)
    """Labels for `valid_text`."""


@dataclass(kw_only=True)
class Words:
    """What the words of a text are, where each is to get a vector."""

    items: bool = False
    """Word vectors: each line is a sequence of items of any sort (a reader's books, the tags of a picture), separated
    by tabs or, in a file without tabs, by spaces."""
    punctuation: Literal["attached", "apart"] = "attached"
    """Word vectors. apart: "king," is a word and a comma, for raw text; attached: words are separated by spaces only,
    for tokenized text. The recipes skipgram, cbow and glove use apart."""
    lowercase: bool = False
    """Word vectors: convert the text to lower case. The recipes skipgram, cbow and glove use true."""
    phrases: int = 0
    """Word vectors: number of passes that join words into phrases (new york → new_york); a second pass finds longer
    ones (new_york_times). 0: no phrases."""
    phrase_score: Literal["mikolov", "npmi"] = "mikolov"
    """Phrases: how strongly two words belong together. mikolov: (count(ab) - δ) · N / (count(a) · count(b)), as in
    word2vec's word2phrase; npmi: normalized pointwise mutual information, between -1 and 1."""
    phrase_threshold: float | None = None
    """Phrases: pairs of words that score above this are joined (null: 100 for mikolov, 0.5 for npmi); higher makes
    fewer phrases."""
    phrase_minimum_count: int = 5
    """Phrases: words and pairs with a lower count are not joined. Also δ, which is subtracted from the count of every
    pair."""
    phrase_connectors: list[str] = field(default_factory=list)
    """Phrases: words allowed inside a phrase but not at its ends; with [of, the], bank_of_america can be one."""
    phrases_from: str | None = None
    """Phrase table (phrases.tsv of a run) to apply first, whatever the counts in this text. With --from, by default
    that run's table."""


@dataclass(kw_only=True)
class Lines:
    """What a line is to a language model."""

    boundaries: Literal["lines", "stream", "packed"] = "lines"
    """Language models. lines: each line is a sequence of its own; stream: all lines form one text, with an end-of-line
    token between them that context reaches across; packed: as lines, with several packed into a row and masked from
    each other."""
    blank_lines: Literal["keep", "drop"] = "keep"
    """Language models: keep blank lines as empty sequences, or drop them."""


@dataclass(kw_only=True)
class Split:
    """What is held out, and what the tokenizer learns from."""

    hold_out: int | None = None
    """Number of pairs or lines held out for validation if there are no validation files (of a stream, the last lines).
    Null: 5 %, at most 2,000 (none for n-gram models); 0: none."""
    tokenizer_lines: int = 1_000_000
    """Maximum number of lines per side that the tokenizer is trained on, spread evenly over the corpus."""
    seed: int = 1
    """Random seed of the choice of held-out pairs or lines."""


@dataclass(kw_only=True)
class Names:
    """How files are named."""

    paths: Literal["names", "full"] = "names"
    """How config.yaml, card.md and metrics.json refer to the training files: by name only, or by the full path as
    given. Applies to what is written from then on."""


@dataclass(kw_only=True)
class TranslationData(Names, Split, PairFiles):
    """Section `data` of a translator."""

    max_length: int = 256
    """Leave out pairs with more tokens than this on either side (their number is reported)."""


@dataclass(kw_only=True)
class LanguageData(Names, Split, Lines, ValidText, TextFiles):
    """Section `data` of a language model, counted or learned."""


@dataclass(kw_only=True)
class ClassificationData(LabelFiles, LanguageData):
    """Section `data` of a classifier."""


@dataclass(kw_only=True)
class VectorsData(Words, Names, TextFiles):
    """Section `data` of word vectors."""


@dataclass(kw_only=True)
class DataConfig(VectorsData, ClassificationData, TranslationData):
    """All that any section `data` can say: what code is given that reads the text of several tasks."""

    def __post_init__(self) -> None:
        for name, least in (("max_length", 1), ("tokenizer_lines", 1), ("hold_out", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if self.text and (self.source or self.target):
            raise ValueError("text and source are both given; one run learns from plain text or from pairs")
        if (self.text and (self.valid_source or self.valid_target)) or (
            self.valid_text and (self.source or self.target)
        ):
            raise ValueError("the validation files are of another kind; text needs valid_text, pairs need valid_source")
        if (self.labels and not self.text) or (self.valid_labels and not self.valid_text):
            raise ValueError("labels need text, and valid_labels need valid_text")
        if bool(self.valid_labels) != bool(self.labels and self.valid_text):
            raise ValueError("labels and valid_labels go together; give both, or hold lines out for validation")
        if self.labels and self.boundaries != "lines":
            raise ValueError("labels are for single lines; leave boundaries at lines")

        self._check_phrases()

    def _check_phrases(self) -> None:
        if not 0 <= self.phrases <= MOST_PASSES:
            raise ValueError(f"phrases must be at least 0 and at most {MOST_PASSES} passes, not {self.phrases}")
        if self.items and (self.phrases or self.phrases_from):
            cure = f"leave data.phrases or {option('items')} out"
            raise ValueError(f"phrases join words, and items stay as they are; {cure}")
        chosen = {"phrase_score": self.phrase_score != "mikolov", "phrase_threshold": self.phrase_threshold is not None}
        chosen |= {"phrase_minimum_count": self.phrase_minimum_count != 5}
        chosen |= {"phrase_connectors": bool(self.phrase_connectors)}
        if not self.phrases and (unused := [name for name, said in chosen.items() if said]):
            raise ValueError(f"{unused[0]} has no effect without phrases; set data.phrases=1, or leave it out")
        if self.phrase_minimum_count < 1:
            raise ValueError(f"phrase_minimum_count must be at least 1, not {self.phrase_minimum_count}")
        if self.phrase_threshold is not None:
            low, high = (0.0, math.inf) if self.phrase_score == "mikolov" else (-1.0, 1.0)
            if not low <= self.phrase_threshold <= high or math.isinf(self.phrase_threshold):
                most = "" if math.isinf(high) else " and at most 1"
                raise ValueError(
                    f"phrase_threshold must be at least {low:g}{most} for {self.phrase_score}, "
                    f"not {self.phrase_threshold:g}"
                )
        for word in self.phrase_connectors:
            if word.split() != [word]:
                raise ValueError(f"phrase_connectors must be single words, not {word!r}")
        if len(set(self.phrase_connectors)) < len(self.phrase_connectors) or len(self.phrase_connectors) > 255:
            raise ValueError("phrase_connectors must be different words, at most 255")

    def sides(self) -> Sides:
        named = (("source", self.source), ("target", self.target), ("text", self.text))
        return {side: files for side, files in named if files}

    def valid_sides(self) -> Sides:
        named = (("source", self.valid_source), ("target", self.valid_target), ("text", self.valid_text))
        return {side: files for side, files in named if files}
