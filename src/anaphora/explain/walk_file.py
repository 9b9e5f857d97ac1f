"""A walk through matrices of one's own, from a small YAML or JSON file.

    tokens: [A, A, B, A]                 # a name for each query
    E: [[1, 0], [1, 0], [0, 1], [1, 0]]  # with W_Q, W_K, W_V; or Q, K, V themselves
    W_Q: [[10, 0], [0, 10]]
    W_K: [[1, 0], [0, 1]]
    W_V: [[1, 0], [0, 1]]
    score: dot                           # scaled-dot unless said
    causal: true

Every mistake is one sentence that names the file, what was expected and what was found.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from anaphora.config import parse_yaml, renamed, shown
from anaphora.errors import UserError, nearest, refused_by_system
from anaphora.explain.draw.terminal import visible
from anaphora.explain.trace_parts import Walk
from anaphora.nn.scores import SCORES

MAX_FILE_BYTES = 4 * 2**20
"""Bytes of a file: small matrices are what a person can follow."""
MAX_WORDS = 64
"""Words on a side."""
MAX_MATRIX_NUMBERS = 200_000
"""Numbers of a matrix: with YAML's aliases a small file could hold more than any memory."""
MAX_ABSOLUTE_NUMBER = 1e6
"""What a number may be, above and below zero: beyond it softmax is a matter of rounding."""
OTHERS = (
    "tokens",
    "memory_tokens",
    "dimensions",
    "title",
    "score",
    "normalizer",
    "causal",
    "window",
    "positions",
    "base",
    "scale",
)
"""Keys that hold no matrix."""
EXAMPLE = "write tokens, then E, W_Q, W_K and W_V, or Q, K and V (docs/walk.md has one)"


def symbols() -> dict[str, list[str]]:
    """What scores have learned, by its symbol, with the scores that have it: {"W": ["bilinear"], "v": ["additive"]}."""
    found: dict[str, list[str]] = {}
    for name, score in SCORES.items():
        if score.symbol is not None:
            found.setdefault(score.symbol, []).append(name)
    return found


def matrices() -> tuple[str, ...]:
    """Keys that hold a matrix."""
    return "E", "M", *_W, "Q", "K", "V", *symbols(), "bias", "mask"


def keys() -> tuple[str, ...]:
    """All that a file may say."""
    return *matrices(), *OTHERS


def walk_file(path: str | PathLike[str]) -> Walk:
    """The walk that a file describes."""
    path = Path(path)
    return _Matrices(_load(path), path).walk()


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, ValueError):  # the latter: a name with a zero in it
        raise UserError("there is no such file", file=path, cure="give a YAML or JSON file") from None
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None
    if len(content) > MAX_FILE_BYTES:
        raise UserError(f"is larger than {MAX_FILE_BYTES:,} bytes", file=path, cure="a walk is for small matrices")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("is not UTF-8 text", file=path, cure="give a YAML or JSON file") from None

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name, later in zip(sorted(names), sorted(names)[1:]):
            if name == later:
                raise UserError(f"the key {shown.repr(name)} occurs twice", file=path, cure="leave one of them out")
        return dict(pairs)

    if path.suffix.lower() == ".json":
        try:
            document = json.loads(text, object_pairs_hook=once)
        except json.JSONDecodeError as error:
            raise UserError(
                f"is not JSON ({error.msg})", file=path, line=error.lineno, cure="correct that line"
            ) from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"is not JSON ({str(error)[:80]})", file=path, cure="write plain lists") from None
    else:
        document = parse_yaml(text, file=path)
    if not isinstance(document, dict):
        raise UserError("holds no matrices", file=path, cure=EXAMPLE)
    return dict(renamed({"matrices": document}, file=path)["matrices"])


class _Matrices:
    """What the file says, checked key by key."""

    def __init__(self, document: Mapping[str, Any], file: Path) -> None:
        self.file = file
        for key in document:
            if key not in keys():
                name = key if isinstance(key, str) and len(key) <= 60 else shown.repr(key)
                raise self.wrong(f"unknown key {name!r}", nearest(name, keys()))
        self.document = document
        self.matrices = {name: self.matrix(name) for name in matrices() if document.get(name) is not None}

    def wrong(self, what: str, cure: str) -> UserError:
        return UserError(what, file=self.file, cure=cure)

    # One key at a time

    def matrix(self, name: str) -> np.ndarray:
        """Rows of numbers, all of one length; v may be one row by itself, and so may be a mask or a bias."""
        given = self.document[name]
        if isinstance(given, list) and given and not any(isinstance(row, list) for row in given):
            if name not in ("v", "mask", "bias"):
                raise self.wrong(f"{name} is one row of numbers", f"write a list of rows: [{shown.repr(given)}]")
            given = [given]
        if not isinstance(given, list) or not given or not all(isinstance(row, list) for row in given):
            raise self.wrong(f"{name} must be a list of rows of numbers, not {shown.repr(given)}", EXAMPLE)
        sizes = [len(row) for row in given]
        for number, size in enumerate(sizes, start=1):
            if not size:
                raise self.wrong(f"row {number} of {name} is empty", "give every row as many numbers")
            if size != sizes[0]:
                raise self.wrong(
                    f"row {number} of {name} has {size} numbers, row 1 has {sizes[0]}", "give every row as many numbers"
                )
        if sum(sizes) > MAX_MATRIX_NUMBERS:
            raise self.wrong(f"{name} has {sum(sizes):,} numbers", f"a walk shows at most {MAX_MATRIX_NUMBERS:,}")
        for r, row in enumerate(given, start=1):
            for c, value in enumerate(row, start=1):
                found = self.number(value, mask=name == "mask")
                if found is None:
                    kind = (
                        "0 or 1"
                        if name == "mask"
                        else f"a number from -{MAX_ABSOLUTE_NUMBER:,.0f} to {MAX_ABSOLUTE_NUMBER:,.0f}"
                    )
                    raise self.wrong(f"row {r}, column {c} of {name} is {shown.repr(value)}", f"make it {kind}")
                row[c - 1] = found
        return np.array(given, dtype=np.float64)

    @staticmethod
    def number(value: Any, *, mask: bool = False) -> float | None:
        """What a cell holds, if it may: 1e-4, which YAML reads as text, is a number too."""
        if mask:
            return float(value) if value in (0, 1, True, False) and not isinstance(value, str) else None
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return number if abs(number) <= MAX_ABSOLUTE_NUMBER else None  # NaN and infinity are not

    def labels(self, key: str, size: int, of: str, unnamed: str = "") -> list[str]:
        """One name for each row; q0, q1, … where none are given, counted from 0 as --cell does."""
        given = self.document.get(key)
        if given is None:
            return [f"{unnamed}{number}" for number in range(size)]
        if isinstance(given, str):
            given = given.split()
        if not isinstance(given, list):
            raise self.wrong(f"{key} must be a list of words, not {shown.repr(given)}", f"write {key}: [A, B]")
        for label in given:
            if label is None or isinstance(label, bool):  # what YAML makes of a bare `no` or `~`
                raise self.wrong(f"one of the {key} is {label}", 'put words such as "no" and "on" in quotes')
            if not isinstance(label, WORD_TYPES):
                raise self.wrong(f"{key} must be a list of words, not {shown.repr(given)}", f"write {key}: [A, B]")
        if len(given) != size:
            raise self.wrong(f"there are {len(given)} {key}, but {of}", "give each its name")
        return [str(label) for label in given]

    def choice(self, key: str, known: tuple[str, ...], default: str) -> str:
        given = self.document.get(key)
        if given is None:
            return default
        if not isinstance(given, str) or given not in known:
            raise self.wrong(f"no {key} is called {shown.repr(given)}", nearest(given, known))
        return given

    def title(self) -> str:
        given = self.document.get("title")
        if given is None or given == "":
            return visible(f"The matrices of {self.file.name}")
        if isinstance(given, bool) or not isinstance(given, WORD_TYPES):
            raise self.wrong(f"title is {shown.repr(given)}", "make it one line of text")
        return visible(" ".join(str(given).split()))

    def positive(self, key: str, *, whole: bool = False) -> float | None:
        given = self.document.get(key)
        if given is None:
            return None
        number = self.number(given)
        if number is None or number <= 0 or (whole and number != int(number)):
            kind = f"{'a whole' if whole else 'a'} number above 0, up to {MAX_ABSOLUTE_NUMBER:,.0f}"
            raise self.wrong(f"{key} is {shown.repr(given)}", f"make it {kind}")
        return number

    # All of them together

    def walk(self) -> Walk:
        from anaphora.explain.walk import walk_attention, walk_projected
        from anaphora.nn.attention_backends import NORMALIZERS

        given = self.matrices
        projected, direct = [[name for name in names if name in given] for names in (("E", *_W), ("Q", "K", "V"))]
        if projected and direct:
            raise self.wrong(f"both {projected[0]} and {direct[0]} are given", "give E with W_Q, W_K, W_V, or Q, K, V")
        wanted = ("Q", "K", "V") if direct else ("E", *_W)
        for name in wanted:
            if name not in given:
                raise self.wrong(f"{name} is missing", EXAMPLE if not (direct or projected) else f"give {name} too")
        if direct and "M" in given:
            raise self.wrong("M is the memory of E with W_Q, W_K, W_V", "leave it out; K and V come from anywhere")
        score = self.choice("score", tuple(SCORES), "scaled-dot")
        weight = SCORES[score].symbol
        for name in symbols():
            if name in given and name != weight:
                owners = [f"{symbol} is for {' and '.join(of)}" for symbol, of in symbols().items()]
                raise self.wrong(f"{name} is given, but score {score} has none", ", ".join(owners))
        if weight is not None and weight not in given:
            raise self.wrong(f"score {score} needs {weight}", f"give {weight}")
        first, second = ("Q", "K") if direct else ("E", "M" if "M" in given else "E")
        if "K" in given and "V" in given and len(given["K"]) != len(given["V"]):
            raise self.wrong(f"K has {len(given['K'])} rows and V {len(given['V'])}", "give each key its value")
        for name in (first, second):
            if len(given[name]) > MAX_WORDS:
                raise self.wrong(f"{name} has {len(given[name])} rows", f"a walk shows at most {MAX_WORDS}")
        rows, columns = self.names(first, second)
        learned = None if weight is None else given[weight]
        if learned is not None and len(SCORES[score].weight_shape(1, 1) or ()) == 1:
            if len(learned) != 1:
                what = f"{weight} must be one row of numbers; it has {len(learned)} rows"
                raise self.wrong(what, f"write {weight}: [1, 2]")
            learned = learned[0]
        causal = self.document.get("causal")
        if causal is not None and not isinstance(causal, bool):
            raise self.wrong(f"causal is {shown.repr(causal)}", "make it true or false")
        window = self.positive("window", whole=True)
        choices: dict[str, Any] = {
            "rows": rows,
            "columns": columns,
            "score": score,
            "weight": learned,
            "normalizer": self.choice("normalizer", NORMALIZERS, "softmax"),
            "mask": self.fitted("mask", len(rows), len(columns)),
            "causal": bool(causal),
            "window": None if window is None else int(window),
            "bias": self.bias(len(rows), len(columns)),
            "base": self.positive("base") or math.e,
            "scale": self.positive("scale"),
            "name": self.file.stem,
            "title": self.title(),
        }
        if "dimensions" in self.document:
            wide = given[first].shape[1]
            choices["dimensions"] = self.labels("dimensions", wide, f"a row of {first} has {wide} numbers")
        try:
            if direct:
                return walk_attention(given["Q"], given["K"], given["V"], **choices)
            return walk_projected(given["E"], *(given[name] for name in _W), memory=given.get("M"), **choices)
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise self.wrong(f"{what}; {cure}" if cure else what, "mend the matrices") from None

    def names(self, first: str, second: str) -> tuple[list[str], list[str]]:
        """Of the queries, and of the keys: theirs too where both are the same words."""
        size, of_keys = len(self.matrices[first]), len(self.matrices[second])
        rows = self.labels("tokens", size, f"{first} has {size} rows", first.lower())
        named = self.document.get("tokens") is not None
        if self.document.get("memory_tokens") is None and (
            second == first or (named and first == "Q" and size == of_keys)
        ):
            return rows, rows
        return rows, self.labels("memory_tokens", of_keys, f"{second} has {of_keys} rows", second.lower())

    def fitted(self, name: str, queries: int, keys: int) -> np.ndarray | None:
        """(T, S), also from one row for all queries."""
        if name not in self.matrices:
            return None
        given = self.matrices[name]
        if given.shape not in ((queries, keys), (1, keys)):
            found = f"{given.shape[0]} × {given.shape[1]}"
            raise self.wrong(
                f"{name} is {found}, but there are {queries} queries and {keys} keys", f"make it {queries} × {keys}"
            )
        wide = np.broadcast_to(given, (queries, keys))
        return wide.astype(bool) if name == "mask" else wide.copy()

    def bias(self, queries: int, keys: int) -> np.ndarray | None:
        """Numbers of its own, or those of `positions: alibi`, one head's."""
        kind = self.choice("positions", ("none", "alibi"), "none")
        if kind == "none":
            return self.fitted("bias", queries, keys)
        if "bias" in self.matrices:
            raise self.wrong("both bias and positions are given", "leave one of them out")
        from anaphora.nn.positions import Alibi

        return Alibi(1).materialize(queries, keys)[0].double().numpy()


_W = ("W_Q", "W_K", "W_V")
WORD_TYPES = (str, int, float, datetime.date)
"""What YAML may make of a bare word; `str` of a list or mapping could unfold aliases without end."""
