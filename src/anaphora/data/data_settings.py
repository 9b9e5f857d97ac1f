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
class DataConfig:
    """Which text to learn from (section `data`)."""

    source: list[str] = field(default_factory=list)
    """Files to translate from: plain text, TSV, CSV, JSONL or Parquet (pairs.csv#de, a.tsv#1), also .gz .xz .zst."""
    target: list[str] = field(default_factory=list)
    """Files to translate into, line for line."""
    valid_source: list[str] = field(default_factory=list)
    """The source side of validation text; without it, some of the corpus is held out."""
    valid_target: list[str] = field(default_factory=list)
    """The target side of validation text."""
    text: list[str] = field(default_factory=list)
    """Files of a language model, one line after another, in the same formats; instead of source and target."""
    valid_text: list[str] = field(default_factory=list)
    """Text that a language model is measured on."""
    labels: list[str] = field(default_factory=list)
    """Files with the labels of a classifier, one for each line of `text`."""
    valid_labels: list[str] = field(default_factory=list)
    """Labels for `valid_text`."""
    items: bool = False
    """Of text that vectors are learned from: each line is a sequence of items of any sort (a reader's books, the tags
    of a picture), parted by tabs or, in a file without any, by blanks."""
    punctuation: Literal["attached", "apart"] = "attached"
    """Of text that vectors are learned from. apart: "king," is a word and a comma, as in raw text they are; attached:
    words are what stands between blanks, as in text that was tokenised before. The recipes skipgram, cbow and glove
    have apart."""
    lowercase: bool = False
    """Of text that vectors are learned from: upper and lower case are one. The recipes skipgram, cbow and glove have
    true."""
    phrases: int = 0
    """Of text that vectors are learned from: how many times to look for words that belong together, and join them
    (new york → new_york); the second time finds phrases of phrases (new_york_times). 0: words stay apart."""
    phrase_score: Literal["mikolov", "npmi"] = "mikolov"
    """How much two words belong together: (count(ab) - δ) · N / (count(a) · count(b)), as in word2vec's word2phrase, or
    normalised pointwise mutual information, between -1 and 1."""
    phrase_threshold: float | None = None
    """Pairs that score more are a phrase (null: 100, or 0.5 of npmi); a higher one makes fewer phrases."""
    phrase_minimum_count: int = 5
    """Pairs and words that come less often are no phrase; and δ, which is taken off the count of every pair."""
    phrase_connectors: list[str] = field(default_factory=list)
    """Words that may stand inside a phrase and not at its ends: [of, the] lets bank_of_america be one."""
    phrases_from: str | None = None
    """A table of phrases (phrases.tsv of a run) that are joined first, whatever this text says of them. A run that
    starts from another one (--from) takes that one's."""
    boundaries: Literal["lines", "stream", "packed"] = "lines"
    """Of a language model's text. lines: each line begins and ends by itself; stream: one text, whose lines end with an
    end mark and are read on across it; packed: as lines, but learned many to a row, kept apart from each other."""
    blank_lines: Literal["keep", "drop"] = "keep"
    """Lines without a word, in a language model's text: empty lines like any others, or left out."""
    hold_out: int | None = None
    """Pairs, or lines of a language model's text (of a stream the last ones), held out for validation when there are no
    validation files; null: 5 %, at most 2,000 (of text that is counted: none); 0: none."""
    max_length: int = 256
    """Pairs with more tokens than this on a side are left out, and counted."""
    tokenizer_lines: int = 1_000_000
    """The tokeniser learns from at most this many lines of each side, spread evenly over the corpus."""
    seed: int = 1
    """Another seed holds out other pairs, or lines."""
    paths: Literal["names", "full"] = "names"
    """How config.yaml, card.md and metrics.json name the files that a model was made from: by their names alone, or
    full, with their folders, as they were given. It holds for what is written from then on."""

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
            raise ValueError("the validation files are of another sort; text has valid_text, pairs have valid_source")
        if (self.labels and not self.text) or (self.valid_labels and not self.valid_text):
            raise ValueError("labels belong to text, line for line, and valid_labels to valid_text")
        if bool(self.valid_labels) != bool(self.labels and self.valid_text):
            raise ValueError("labels and valid_labels go together; give both, or hold lines out for validation")
        if self.labels and self.boundaries != "lines":
            raise ValueError("labels are of single lines; leave boundaries at lines")

        self._check_phrases()

    def _check_phrases(self) -> None:
        if not 0 <= self.phrases <= MOST_PASSES:
            raise ValueError(f"phrases must be at least 0 and at most {MOST_PASSES} passes, not {self.phrases}")
        if self.items and (self.phrases or self.phrases_from):
            cure = f"leave data.phrases or {option('items')} out"
            raise ValueError(f"phrases are of words, and items stay as they are; {cure}")
        chosen = {"phrase_score": self.phrase_score != "mikolov", "phrase_threshold": self.phrase_threshold is not None}
        chosen |= {"phrase_minimum_count": self.phrase_minimum_count != 5}
        chosen |= {"phrase_connectors": bool(self.phrase_connectors)}
        if not self.phrases and (unused := [name for name, said in chosen.items() if said]):
            raise ValueError(f"{unused[0]} means nothing without phrases; set data.phrases=1, or leave it out")
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
