"""What a trace is made of: texts and their tokens, attention, walks and their steps.

A step is data: `document()` is what JSON gets. What a step can say about one of its cells (`arithmetic`) is computed on
demand; the document keeps the cells that were asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anaphora.results import brief, count, html_table

SCHEMA = "trace/1"
PREDICTS, READS = "row t predicts y_t", "row t reads y_t"
CONVENTIONS = (PREDICTS, READS)
"""What a row of weights means: the step that says token t next, or the one that has read it."""
SHARE_TOLERANCE = 1e-5
"""How far rounding may take a share out of 0 to 1."""

Arithmetic = Callable[[int, int], list[str]]
"""(row, column) -> lines such as "q·k = 0·1 + 10·1 = 10"."""


@dataclass(init=False, eq=False)
class Step:
    """One labeled table of a walk.

    `Step("S", "S = Q Kᵀ", "how well each key answers each query", rows, columns, values)`; a cell whose `mask` is
    False holds no number: nobody may look there, or there is nothing to say. Values and mask may be given as lists,
    arrays or tensors.
    """

    symbol: str
    formula: str
    says: str
    """One sentence: what this table is."""
    rows: list[str]
    columns: list[str]
    values: np.ndarray
    """(rows, columns), finite; 0 where the mask is."""
    mask: np.ndarray | None
    """(rows, columns), True where there is a number; None: everywhere."""
    dimensions: bool
    """The columns are the dimensions of vectors: a text table may show the first few."""
    decimals: int | None
    """Digits after the point; None: as many as the numbers need."""
    shares: bool
    """The numbers are parts of 1 (weights, probabilities, accuracies): drawn by how dark a cell is, in any table."""
    up_to: float | None
    """Numbers from 0 to this one, drawn as shares are; tables to be compared have the same. For pictures alone: no
    document holds it."""
    arithmetic: Arithmetic | None = field(repr=False)

    def __init__(
        self,
        symbol: str,
        formula: str,
        says: str,
        rows: Sequence[str],
        columns: Sequence[str],
        values: Any,
        mask: Any = None,
        *,
        dimensions: bool = False,
        decimals: int | None = None,
        shares: bool = False,
        up_to: float | None = None,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        self.symbol, self.formula, self.says = symbol, formula, says
        self.rows, self.columns = [str(label) for label in rows], [str(label) for label in columns]
        self.dimensions, self.decimals, self.shares, self.arithmetic = dimensions, decimals, shares, arithmetic
        self.up_to = 1.0 if shares else up_to
        self.values = _array(values, np.float64)
        self.mask = None if mask is None else _array(mask, np.bool_)
        shape = (len(self.rows), len(self.columns))
        for what, array in (("values", self.values), ("a mask", self.mask)):
            if array is not None and array.shape != shape:
                raise ValueError(f"step {symbol}: {shape} labels do not fit {what} of shape {array.shape}")
        if self.mask is not None:
            self.values = np.where(self.mask, self.values, 0.0)
        if not np.isfinite(self.values).all():
            raise ValueError(f"step {symbol}: a cell is no finite number; give it a mask where there is none")
        if shares and not (np.abs(self.values - 0.5) <= 0.5 + SHARE_TOLERANCE).all():
            raise ValueError(f"step {symbol}: a share is a number from 0 to 1")

    def __repr__(self) -> str:
        return brief("Step", self.formula or self.symbol, f"{len(self.rows)} × {len(self.columns)}", self.says)

    def __str__(self) -> str:
        from anaphora.explain.draw.walk_tables import step_text

        return step_text(self).plain.rstrip("\n")

    def _repr_html_(self) -> str:
        from anaphora.explain.draw.walk_tables import step_html

        return step_html(self)

    def there(self, row: int, column: int) -> bool:
        """Whether this cell holds a number."""
        return self.mask is None or bool(self.mask[row, column])

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        numbers = [
            [significant(value) if self.there(r, c) else None for c, value in enumerate(row)]
            for r, row in enumerate(self.values.tolist())
        ]
        return {
            "symbol": self.symbol,
            "formula": self.formula,
            "says": self.says,
            "rows": list(self.rows),
            "columns": list(self.columns),
            "dimensions": self.dimensions,
            "decimals": self.decimals,
            "shares": self.shares,
            "values": numbers,
        }


@dataclass
class Check:
    """Two ways to the same numbers: how far apart they are, and how far they may be."""

    what: str
    difference: float
    tolerance: float

    @property
    def holds(self) -> bool:
        return self.difference <= self.tolerance  # NaN does not

    def __repr__(self) -> str:
        return brief("Check", self.what, "holds" if self.holds else f"FAILS by {self.difference:.2g}")

    def __str__(self) -> str:
        if self.holds:
            return f"holds: {self.what} ({f'to {self.tolerance:.0e}' if self.tolerance else 'exactly'})"
        return f"FAILS: {self.what} (off by {self.difference:.2g}, may be {self.tolerance:.0e})"

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "what": self.what,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "holds": self.holds,
        }


@dataclass
class Cell:
    """The arithmetic of one cell, for each step that has it."""

    row: str
    column: str
    lines: list[tuple[str, list[str]]]
    """(symbol of the step, its lines)."""

    def __repr__(self) -> str:
        return brief("Cell", f"{self.row}, {self.column}", count(len(self.lines), "step"))

    def __str__(self) -> str:
        from anaphora.explain.draw.walk_tables import cell_text

        return cell_text(self).plain.rstrip("\n")

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        steps = [{"symbol": symbol, "lines": lines} for symbol, lines in self.lines]
        return {"row": self.row, "column": self.column, "steps": steps}


@dataclass
class Walk:
    """One computation, step by step, in reading order."""

    name: str
    title: str
    says: str
    steps: list[Step]
    checks: list[Check] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    """Plain values: score, normalizer, layer, head, …"""
    cells: list[Cell] = field(default_factory=list)
    """The cells whose arithmetic was asked for."""
    row_words: Sequence[str] = ()
    """The whole word that each row of queries is a piece of, so that a person can point at it …"""
    column_words: Sequence[str] = ()
    """… and each column."""
    first_row: int = 0
    """The number, in its sentence, of the first row: of a walk of one word, that word's."""

    def __repr__(self) -> str:
        steps, checks = count(len(self.steps), "step"), count(len(self.checks), "check")
        return brief("Walk", self.title, f"{steps}, {checks}")

    def __str__(self) -> str:
        from anaphora.explain.draw.walk_tables import walk_text

        return walk_text(self).plain.rstrip("\n")

    def _repr_html_(self) -> str:
        from anaphora.explain.draw.walk_tables import walk_html

        return walk_html(self)

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    def step(self, symbol: str) -> Step:
        """The first step of that symbol."""
        for step in self.steps:
            if step.symbol == symbol:
                return step
        raise KeyError(f"{self.name} has no step {symbol!r}; it has {', '.join(step.symbol for step in self.steps)}")

    def scored(self) -> list[Step]:
        """The steps with a cell for each query and key whose arithmetic can be told, in order."""
        able = [step for step in self.steps if step.arithmetic is not None and not step.dimensions]
        return [step for step in able if (step.rows, step.columns) == (able[0].rows, able[0].columns)]

    def explain(self, row: int, column: int) -> Cell:
        """What stands behind the cell of this query and key, from its products to its weight."""
        steps = self.scored()
        if not steps:
            raise ValueError(f"{self.name} has no table whose cells can be worked out")
        lines = [(step.symbol, step.arithmetic(row, column)) for step in steps if step.arithmetic is not None]
        return Cell(steps[0].rows[row], steps[0].columns[column], lines)

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {
            "name": self.name,
            "title": self.title,
            "says": self.says,
            "settings": self.settings,
            "steps": [step.document() for step in self.steps],
            "checks": [check.document() for check in self.checks],
            "cells": [cell.document() for cell in self.cells],
        }


@dataclass
class Token:
    """A token of a text: what it spells, in bytes, since it may be half a character."""

    id: int
    text: str
    """What a person sees; bytes that are no character as hexadecimal numbers."""
    bytes: bytes
    start: int
    """Its first character in the text …"""
    end: int
    """… and the one after its last."""
    special: bool = False
    word: int | None = None
    """The word it belongs to, from 0."""

    def __repr__(self) -> str:
        return brief("Token", self.text, f"id {self.id}")

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        from base64 import b64encode

        spelled = b64encode(self.bytes).decode("ascii")
        place = {"start": self.start, "end": self.end, "special": self.special, "word": self.word}
        return {"id": self.id, "text": self.text, "bytes": spelled, **place}


@dataclass
class Segment:
    """A text that the model read or said: `src`, `tgt`."""

    id: str
    text: str
    tokens: list[Token]

    def __repr__(self) -> str:
        return brief("Segment", self.text, self.id, count(len(self.tokens), "token"))

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return html_table(
            (), [["token", *(one.text for one in self.tokens)], ["id", *(str(one.id) for one in self.tokens)]]
        )

    def document(self) -> dict[str, Any]:
        """Plain data, as JSON can hold it."""
        return {"id": self.id, "text": self.text, "tokens": [token.document() for token in self.tokens]}


@dataclass
class AttentionMap:
    """What one attention layer looked at."""

    module: str
    """Its path in the model."""
    kind: str
    """self or cross."""
    layer: int
    query: str
    """Segment of the rows."""
    key: str
    """Segment of the columns."""
    mask: str
    """none; causal (the last query standing at the last key); or given, and then `allowed` says which."""
    convention: str
    weights: np.ndarray | None
    """(heads, T, S) float32; None where there were too many to carry. Softmax: each row sums to one over what it may
    see, and is zero where it may see nothing; a masked cell is exactly 0."""
    normalizer: str = "softmax"
    heads: Sequence[int] = ()
    shape: Sequence[int] = ()
    summary: list[dict[str, float]] | None = None
    """What each head's weights are like (`statistics`), where the weights are not carried."""
    allowed: np.ndarray | None = None
    """(T, S), True where a query may look; for mask `given`."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            self.weights = np.ascontiguousarray(self.weights, dtype="<f4")
            self.shape = self.weights.shape
        elif self.summary is None:
            raise ValueError("attention without weights needs a summary")
        self.shape = list(self.shape)
        self.heads = list(self.heads) or list(range(self.shape[0]))

    def __repr__(self) -> str:
        heads, *size = self.shape
        whole = "" if self.weights is not None else "statistics alone"
        said = f"{self.query} → {self.key}", f"{count(heads, 'head')} of {' × '.join(map(str, size))}"
        return brief("AttentionMap", self.module, f"{self.kind} attention", *said, whole)

    @property
    def bytes(self) -> int:
        """What the weights take, or would take."""
        return 4 * math.prod(self.shape)

    def document(self, *, whole: bool = True) -> dict[str, Any]:
        """All weights, base64 of little-endian float32; or, not `whole`, what each head's weights are like."""
        from base64 import b64encode

        own: dict[str, Any] = {
            "module": self.module,
            "kind": self.kind,
            "layer": self.layer,
            "heads": list(self.heads),
            "query": self.query,
            "key": self.key,
            "mask": self.mask,
            "convention": self.convention,
            "normaliser": self.normalizer,
            "shape": list(self.shape),
            "dtype": "float32",
        }
        if self.allowed is not None:
            own["allowed"] = b64encode(np.packbits(self.allowed, axis=None).tobytes()).decode("ascii")
        if self.weights is None:
            return own | {"statistics": self.summary}
        if whole:
            return own | {"data": b64encode(self.weights.tobytes()).decode("ascii")}
        return own | {"statistics": [statistics(head, self.normalizer) for head in self.weights]}


def statistics(weights: np.ndarray, normalizer: str = "softmax") -> dict[str, float]:
    """Of one head (T, S): mean over rows of the largest weight and of the entropy in bits, and how far it looks.

    Scores that nothing has normalized are no shares of anything: of these, the mean of the rows' largest alone.
    """
    found = {"largest": float(weights.max(axis=-1).mean()) if weights.size else 0.0}
    if normalizer == "softmax":
        positive = np.where(weights > 0, weights, 1.0).astype(np.float64)
        entropy = -(positive * np.log2(positive)).sum(axis=-1)
        rows, columns = weights.shape
        distance = np.abs(np.arange(columns)[None] - np.arange(rows)[:, None])
        found["entropy"] = float(entropy.mean()) if weights.size else 0.0
        found["distance"] = float((weights * distance).sum(axis=-1).mean()) if weights.size else 0.0
    return {name: significant(value) for name, value in found.items()}


def significant(value: float, digits: int = 9) -> float:
    """A number short enough for a document; 9 digits give back every float32."""
    return 0.0 if value == 0 else float(f"{value:.{digits}g}") if math.isfinite(value) else value


def _array(values: Any, dtype: Any) -> np.ndarray:
    """Lists, arrays, tensors (with or without gradients) as an array of this type."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double().numpy() if dtype is np.float64 else values.numpy()
    return np.array(values, dtype=dtype)
