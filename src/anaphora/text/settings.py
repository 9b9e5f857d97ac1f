"""Section `data`: which text a run learns from. Apart from the corpus itself, which needs Arrow to be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Sides = dict[str, list[str]]  # the files of each side, by its name


@dataclass(kw_only=True)
class DataConfig:
    """Which text to learn from (section `data`)."""

    source: list[str] = field(default_factory=list)
    """Files to translate from: plain text, TSV, JSONL or Parquet (pairs.tsv#1, pairs.jsonl#de), also .gz .xz .zst."""
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
    """What kind of text each line of `text` is, line for line: the model then learns to tell."""
    valid_labels: list[str] = field(default_factory=list)
    """The same of `valid_text`."""
    items: bool = False
    """Of text that vectors are learned from: each line is a sequence of items of any sort (a reader's books, the tags
    of a picture), parted by tabs or, in a file without any, by blanks."""
    boundaries: Literal["lines", "stream", "packed"] = "lines"
    """Of a language model's text. lines: each line begins and ends by itself; stream: one text, whose lines end with an
    end mark and are read on across it; packed: as lines, but learned many to a row, kept apart from each other."""
    blank_lines: Literal["keep", "drop"] = "keep"
    """Lines without a word, in a language model's text: empty lines like any others, or left out."""
    hold_out: int | None = None
    """Pairs, or lines of a language model's text (of a stream the last ones), held out for validation when there are no
    validation files; nothing: 5 %, at most 2,000 (of text that is counted: none); 0: none."""
    max_length: int = 256
    """Pairs with more tokens than this on a side are left out, and counted."""
    tokenizer_lines: int = 1_000_000
    """The tokeniser learns from at most this many lines of each side, spread evenly over the corpus."""
    seed: int = 1
    """Another seed holds out other pairs, or lines."""

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

    def sides(self) -> Sides:
        named = (("source", self.source), ("target", self.target), ("text", self.text))
        return {side: files for side, files in named if files}

    def valid_sides(self) -> Sides:
        named = (("source", self.valid_source), ("target", self.valid_target), ("text", self.valid_text))
        return {side: files for side, files in named if files}
