"""The trace: what was seen inside a model, as one versioned document that every view reads.

    Trace                 schema "trace/1": who made it, the model, texts, attention, walks
      Segment, Token      a text and its tokens; half a character is carried as its bytes
      AttentionMap        the weights of one layer, (heads, T, S), and what its rows mean
      Walk                one computation, step by step
        Step              one labeled table: symbol, formula, rows, columns, numbers, mask
        Check             what two ways of computing the same differ by

Its parts are those of trace_parts.py. `document()` is what JSON gets, `Trace.read` takes it back (trace_file.py judges
files that others made).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from anaphora.explain.trace_file import judged, read_document
from anaphora.explain.trace_parts import SCHEMA, AttentionMap, Check, Segment, Walk
from anaphora.results import brief, count
from anaphora.version import __version__

MAX_ATTENTION_BYTES = 8_000_000
"""Bytes of attention that a trace carries whole. Six layers of eight heads over 128 tokens are 3 MB; twelve of twelve
over 512 would be 151: above the budget each head has statistics instead."""


@dataclass
class Trace:
    """The document: `trace.document()` for JSON, `Trace.read(path)` to take it back."""

    walks: list[Walk] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    attention: list[AttentionMap] = field(default_factory=list)
    model: dict[str, Any] | None = None
    """name, revision, family, layers, heads, d_head; None where no model was asked."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """What was said: token, id, logprob, one a target token."""
    created: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    toolkit_version: str = __version__

    def __repr__(self) -> str:
        titles = "; ".join(walk.title for walk in self.walks)
        held = sum(check.holds for check in self.checks)
        return brief("Trace", titles, f"{held} of {count(len(self.checks), 'check')} hold")

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.walks))

    def _repr_html_(self) -> str:
        return "".join(walk._repr_html_() for walk in self.walks)

    @property
    def checks(self) -> list[Check]:
        return [check for walk in self.walks for check in walk.checks]

    def document(self, *, budget: int = MAX_ATTENTION_BYTES) -> dict[str, Any]:
        """Plain data. Attention above the budget is summarized, head by head, and says so."""
        size = sum(attention.bytes for attention in self.attention)
        return {
            "schema": SCHEMA,
            "created": self.created,
            "toolkit_version": self.toolkit_version,
            "model": self.model,
            "segments": [segment.document() for segment in self.segments],
            "attention": [attention.document(whole=size <= budget) for attention in self.attention],
            "attention_bytes": size,
            "attention_whole": size <= budget,
            "steps": self.steps,
            "walks": [walk.document() for walk in self.walks],
        }

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Trace:
        """A trace from a file, judged first: a UserError of one sentence where it is none."""
        return cls(**read_document(path))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Trace:
        """`document` taken back."""
        return cls(**judged(document))
