"""Reading a trace that somebody else made: every field is judged before it is used.

A trace is shared like a picture, so it may be cut short, edited by hand, or made to do harm. Nothing in it is code;
sizes are compared with what is really there before anything is allocated; a number that is none, a shape that does not
fit, a row of weights that does not sum to one are refused in one sentence that names the place.
"""

from __future__ import annotations

import binascii
import json
import math
from base64 import b64decode
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from anaphora.errors import UserError, refused_by_system
from anaphora.explain.trace_parts import (
    CONVENTIONS,
    SCHEMA,
    SHARE_TOLERANCE,
    AttentionMap,
    Cell,
    Check,
    Segment,
    Step,
    Token,
    Walk,
)

MAX_FILE_BYTES = 256 * 2**20
"""Bytes of a file that is read at all."""
SUM_TOLERANCE = 1e-5
"""How far a row of weights may be from one."""
CURE = "make it anew with `anaphora walk … --trace FILE`"


class _Wrong(Exception):
    """What is wrong, and where in the document."""


def read_document(path: str | PathLike[str]) -> dict[str, Any]:
    """The fields of the trace in a file; a UserError of one sentence where it is none."""
    document = _load(Path(path))
    try:
        return judged(document)
    except _Wrong as wrong:
        raise UserError(str(wrong), file=path, cure=CURE) from None


def judged(document: Any) -> dict[str, Any]:
    """The fields of a trace for its `document`."""
    if not isinstance(document, Mapping) or "schema" not in document:
        raise _Wrong("is no trace: it has no `schema`")
    if document["schema"] != SCHEMA:
        raise _Wrong(f"has schema {_short(document['schema'])}; this version reads {SCHEMA!r}")
    segments = [_segment(item, f"segments[{n}]") for n, item in enumerate(_list(document, "segments", ""))]
    known = {segment.id: len(segment.tokens) for segment in segments}
    model = document.get("model")
    if model is not None and not isinstance(model, Mapping):
        raise _Wrong("`model` must be a mapping or null")
    steps = _list(document, "steps", "")
    if not all(isinstance(step, Mapping) for step in steps):
        raise _Wrong("`steps` must be a list of mappings")
    return {
        "walks": [_walk(item, f"walks[{n}]") for n, item in enumerate(_list(document, "walks", ""))],
        "segments": segments,
        "attention": [
            _attention(item, f"attention[{n}]", known) for n, item in enumerate(_list(document, "attention", ""))
        ],
        "model": None if model is None else dict(model),
        "steps": [dict(step) for step in steps],
        "created": _text(document, "created", ""),
        "toolkit_version": _text(document, "toolkit_version", ""),
    }


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise UserError(f"is larger than any trace ({MAX_FILE_BYTES:,} bytes)", file=path, cure=CURE)
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise UserError("there is no such file", file=path, cure=CURE) from None
    except OSError as error:
        raise refused_by_system(error, "cannot be read", file=path) from None
    except ValueError:  # bytes that are no text, or a name with a zero in it
        raise UserError("is not UTF-8 text, so it is no trace", file=path, cure=CURE) from None
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise UserError(f"is not JSON ({error.msg})", file=path, line=error.lineno, cure=CURE) from None
    except (ValueError, RecursionError) as error:  # a number of ten thousand digits, brackets without end
        why = str(error) or "too deep"
        raise UserError(f"is not JSON that can be read ({why[:80]})", file=path, cure=CURE) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


# The parts ----------------------------------------------------------------------------------------------------------


def _segment(item: Any, where: str) -> Segment:
    tokens = []
    for n, token in enumerate(_list(item, "tokens", where)):
        place = f"{where}.tokens[{n}]"
        start, end = _whole(token, "start", place), _whole(token, "end", place)
        word = _field(token, "word", place)
        if not 0 <= start <= end or not (word is None or (type(word) is int and word >= 0)):
            raise _Wrong(f"{place} stands at no place of a text")
        special = _field(token, "special", place)
        if not isinstance(special, bool):
            raise _Wrong(f"{place}.special must be true or false")
        tokens.append(
            Token(
                id=_whole(token, "id", place),
                text=_text(token, "text", place),
                bytes=_decoded(_text(token, "bytes", place), f"{place}.bytes"),
                start=start,
                end=end,
                special=special,
                word=word,
            )
        )
    return Segment(_text(item, "id", where), _text(item, "text", where), tokens)


def _attention(item: Any, where: str, segments: Mapping[str, int]) -> AttentionMap:
    shape = _list(item, "shape", where)
    if len(shape) != 3 or not all(type(size) is int and size >= 0 for size in shape):
        raise _Wrong(f"{where}.shape must be [heads, queries, keys], not {_short(shape)}")
    query, key = _text(item, "query", where), _text(item, "key", where)
    for name, size in ((query, shape[1]), (key, shape[2])):
        if name not in segments:
            raise _Wrong(f"{where} names a segment {_short(name)} that is not there")
        if segments[name] != size:
            raise _Wrong(f"{where} has shape {shape}, but segment {_short(name)} has {segments[name]} tokens")
    convention, dtype = _text(item, "convention", where), _text(item, "dtype", where)
    if convention not in CONVENTIONS:
        raise _Wrong(f"{where}.convention must be one of {', '.join(map(repr, CONVENTIONS))}")
    if dtype != "float32":
        raise _Wrong(f"{where}.dtype must be 'float32', not {_short(dtype)}")
    heads = _list(item, "heads", where)
    if len(heads) != shape[0] or not all(type(head) is int and head >= 0 for head in heads):
        raise _Wrong(f"{where}.heads must name {shape[0]} heads")
    normalizer = _text(item, "normaliser", where)
    if normalizer not in ("softmax", "none"):
        raise _Wrong(f"{where}.normaliser must be 'softmax' or 'none', not {_short(normalizer)}")
    weights, summary = None, None
    allowed = _allowed(item, shape, where)
    if "data" in item:
        weights = _weights(_decoded(_text(item, "data", where), f"{where}.data"), shape, normalizer, where)
        if allowed is not None and (weights[:, ~allowed] != 0).any():
            raise _Wrong(f"{where}.data has a weight where the mask allows none")
    else:
        summary = [
            _numbers(head, f"{where}.statistics[{n}]") for n, head in enumerate(_list(item, "statistics", where))
        ]
        if len(summary) != shape[0]:
            raise _Wrong(f"{where}.statistics must describe {shape[0]} heads")
    return AttentionMap(
        module=_text(item, "module", where),
        kind=_text(item, "kind", where),
        layer=_whole(item, "layer", where),
        query=query,
        key=key,
        mask=item["mask"],
        convention=convention,
        weights=weights,
        normalizer=normalizer,
        heads=heads,
        shape=shape,
        summary=summary,
        allowed=allowed if item["mask"] == "given" else None,
    )


def _allowed(item: Any, shape: list[int], where: str) -> np.ndarray | None:
    """(T, S), True where a query may look."""
    mask, (_, queries, keys) = _text(item, "mask", where), shape
    if mask not in ("none", "causal", "given"):
        raise _Wrong(f"{where}.mask must be 'none', 'causal' or 'given', not {_short(mask)}")
    if mask == "none":
        return None
    if mask == "causal":
        return np.tri(queries, keys, keys - queries, dtype=bool)
    bits = _decoded(_text(item, "allowed", where), f"{where}.allowed")
    if len(bits) != (queries * keys + 7) // 8:
        raise _Wrong(f"{where}.allowed has {len(bits):,} bytes; {queries} × {keys} bits need another number")
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=queries * keys).astype(bool).reshape(queries, keys)


def _weights(data: bytes, shape: list[int], normalizer: str, where: str) -> np.ndarray:
    if len(data) != 4 * math.prod(shape):
        raise _Wrong(f"{where}.data has {len(data):,} bytes; shape {shape} of float32 needs {4 * math.prod(shape):,}")
    weights = np.frombuffer(data, dtype="<f4").reshape(shape)
    if not np.isfinite(weights).all():
        raise _Wrong(f"{where}.data holds a weight that is no number")
    if normalizer == "softmax":
        if (weights < 0).any():
            raise _Wrong(f"{where}.data holds a negative weight")
        sums = weights.sum(axis=-1, dtype=np.float64)
        off = (np.abs(sums - 1) > SUM_TOLERANCE) & (sums != 0)
        if off.any():
            head, row = (int(place) for place in np.argwhere(off)[0])
            raise _Wrong(f"{where}: the weights of head {head}, row {row} sum to {sums[head, row]:.6g}, not to 1")
    return weights


def _walk(item: Any, where: str) -> Walk:
    settings = _field(item, "settings", where)
    if not isinstance(settings, Mapping):
        raise _Wrong(f"{where}.settings must be a mapping")
    return Walk(
        name=_text(item, "name", where),
        title=_text(item, "title", where),
        says=_text(item, "says", where),
        steps=[_step(step, f"{where}.steps[{n}]") for n, step in enumerate(_list(item, "steps", where))],
        checks=[_check(check, f"{where}.checks[{n}]") for n, check in enumerate(_list(item, "checks", where))],
        settings=dict(settings),
        cells=[_cell(cell, f"{where}.cells[{n}]") for n, cell in enumerate(_list(item, "cells", where))],
    )


def _step(item: Any, where: str) -> Step:
    rows, columns = _texts(item, "rows", where), _texts(item, "columns", where)
    given = _list(item, "values", where)
    if len(given) != len(rows) or not all(isinstance(row, list) and len(row) == len(columns) for row in given):
        raise _Wrong(f"{where}.values must have {len(rows)} rows of {len(columns)} numbers, as its labels say")
    for row in given:
        for value in row:
            if value is not None and not _is_number(value):
                raise _Wrong(f"{where}.values holds {_short(value)}, which is no number")
    mask = np.array([[value is not None for value in row] for row in given], dtype=bool).reshape(
        len(rows), len(columns)
    )
    values = [[0.0 if value is None else float(value) for value in row] for row in given]
    decimals, dimensions = _field(item, "decimals", where), _field(item, "dimensions", where)
    if not (decimals is None or (type(decimals) is int and 0 <= decimals <= 17)) or not isinstance(dimensions, bool):
        raise _Wrong(f"{where} has decimals or dimensions of the wrong kind")
    shares = item.get("shares", False)
    if not isinstance(shares, bool):
        raise _Wrong(f"{where}.shares must be true or false")
    if shares and any(abs(value - 0.5) > 0.5 + SHARE_TOLERANCE for row in values for value in row):
        raise _Wrong(f"{where}.values holds a share that is not between 0 and 1")
    return Step(
        symbol=_text(item, "symbol", where),
        formula=_text(item, "formula", where),
        says=_text(item, "says", where),
        rows=rows,
        columns=columns,
        values=np.array(values, dtype=np.float64).reshape(mask.shape),
        mask=None if mask.all() else mask,
        dimensions=dimensions,
        decimals=decimals,
        shares=shares,
    )


def _check(item: Any, where: str) -> Check:
    numbers = [_field(item, name, where) for name in ("difference", "tolerance")]
    if not all(_is_number(value) for value in numbers):
        raise _Wrong(f"{where} must hold the numbers difference and tolerance")
    return Check(_text(item, "what", where), *map(float, numbers))


def _cell(item: Any, where: str) -> Cell:
    steps = [
        (_text(step, "symbol", f"{where}.steps[{n}]"), _texts(step, "lines", f"{where}.steps[{n}]"))
        for n, step in enumerate(_list(item, "steps", where))
    ]
    return Cell(_text(item, "row", where), _text(item, "column", where), steps)


# Fields -------------------------------------------------------------------------------------------------------------


def _field(item: Any, name: str, where: str) -> Any:
    if not isinstance(item, Mapping):
        raise _Wrong(f"{where or 'the document'} must be a mapping, not {_short(item)}")
    if name not in item:
        raise _Wrong(f"{_dotted(where, name)} is missing")
    return item[name]


def _text(item: Any, name: str, where: str) -> str:
    value = _field(item, name, where)
    if not isinstance(value, str):
        raise _Wrong(f"{_dotted(where, name)} must be text, not {_short(value)}")
    return value


def _whole(item: Any, name: str, where: str) -> int:
    value = _field(item, name, where)
    if type(value) is not int or not 0 <= value < 2**63:
        raise _Wrong(f"{_dotted(where, name)} must be a whole number from 0, not {_short(value)}")
    return value


def _list(item: Any, name: str, where: str) -> list[Any]:
    value = _field(item, name, where)
    if not isinstance(value, list):
        raise _Wrong(f"{_dotted(where, name)} must be a list, not {_short(value)}")
    return value


def _texts(item: Any, name: str, where: str) -> list[str]:
    values = _list(item, name, where)
    if not all(isinstance(value, str) for value in values):
        raise _Wrong(f"{_dotted(where, name)} must be a list of texts")
    return values


def _numbers(item: Any, where: str) -> dict[str, float]:
    if not isinstance(item, Mapping) or not all(_is_number(value) for value in item.values()):
        raise _Wrong(f"{where} must be a mapping of numbers")
    return {str(key): float(value) for key, value in item.items()}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _decoded(text: str, where: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _Wrong(f"{where} is not base64") from None


def _dotted(where: str, name: str) -> str:
    return f"{where}.{name}" if where else f"`{name}`"


def _short(value: Any) -> str:
    from anaphora.config import shown

    return shown.repr(value)
