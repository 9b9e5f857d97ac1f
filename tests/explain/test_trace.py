"""The trace document: read back as it was written, its rules kept, and what is no trace refused in one sentence."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.explain.trace import Trace
from anaphora.explain.trace_parts import SCHEMA, AttentionMap, Check, Segment, Step, Token, Walk, statistics
from anaphora.explain.walk import walk_attention


def tokens(*words: str) -> list[Token]:
    return [Token(n, word, word.encode(), n, n + 1, word=n) for n, word in enumerate(words)]


def weights(heads: int, queries: int, keys: int, seed: int = 0, *, causal: bool = False) -> np.ndarray:
    raw = np.random.default_rng(seed).random((heads, queries, keys)) + 0.1
    raw = raw * np.tri(queries, keys, keys - queries) if causal else raw
    return (raw / raw.sum(axis=-1, keepdims=True)).astype(np.float32)


def example() -> Trace:
    walk = walk_attention([[1.0, 0.5]], [[1.0, 0.0], [0.0, 1.0]], [[2.0], [3.0]], rows=["q"], columns=["a", "b"])
    walk.cells.append(walk.explain(0, 1))
    hidden = Step("M", "", "a mask", ["q"], ["a", "b"], [[1.0, 2.0]], [[True, False]])
    half = Token(7, "⟨E2 82⟩", b"\xe2\x82", 1, 2)
    given = np.array([[True, False], [True, True]])
    first = weights(3, 2, 2, causal=True)
    return Trace(
        walks=[walk, Walk("other", "Other", "says", [hidden], [Check("holds", 0.0, 1e-5)], {"score": "dot"})],
        segments=[Segment("src", "a€", [*tokens("a"), half]), Segment("tgt", "x", tokens("x", "y"))],
        attention=[
            AttentionMap("decoder.0", "self", 0, "tgt", "tgt", "causal", "row t predicts y_t", first),
            AttentionMap("given.0", "self", 0, "tgt", "src", "given", "row t reads y_t", first, allowed=given),
            AttentionMap("cross.0", "cross", 0, "tgt", "src", "none", "row t predicts y_t", -first, "none"),
        ],
        model={"name": "m"},
        steps=[{"id": 1, "token": "x", "logprob": -0.5}],
    )


def test_a_trace_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    trace = example()
    file = tmp_path / "t.json"
    file.write_text(json.dumps(trace.document()), encoding="utf-8")
    again = Trace.read(file)
    assert again.document() == trace.document()
    assert again.document()["schema"] == SCHEMA == "trace/1"
    assert again.segments[0].tokens[1].bytes == b"\xe2\x82"
    assert np.array_equal(again.attention[0].weights, trace.attention[0].weights)  # type: ignore[arg-type]
    assert again.walks[1].steps[0].mask.tolist() == [[True, False]]  # type: ignore[union-attr]
    assert again.walks[0].cells[0].lines == trace.walks[0].cells[0].lines
    assert again.walks[0].holds


def test_shares_are_told_and_judged() -> None:
    from anaphora.explain.trace_file import _Wrong

    document = example().document()
    steps = [step for walk in document["walks"] for step in walk["steps"]]
    assert {step["symbol"] for step in steps if step["shares"]} == {"A"}
    again = Trace.from_document(document)
    assert [step.shares for walk in again.walks for step in walk.steps] == [step["shares"] for step in steps]
    weights = next(step for step in steps if step["shares"])
    weights["values"][0][0] = 7.0
    with pytest.raises(_Wrong, match=r"holds a share that is not between 0 and 1"):
        Trace.from_document(document)
    weights["shares"] = "yes"
    with pytest.raises(_Wrong, match="shares must be true or false"):
        Trace.from_document(document)


def test_scores_without_softmax_have_no_entropy() -> None:
    scores = np.array([[[-3.0, 2.0], [5.0, -1.0]]])
    sides = [Segment("q", "", tokens("x", "y"))]
    plain = AttentionMap("m", "self", 0, "q", "q", "none", "row t reads y_t", scores, "none")
    (head,) = Trace(segments=sides, attention=[plain]).document(budget=0)["attention"][0]["statistics"]
    assert head == {"largest": 3.5}


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_weights_come_back_bit_for_bit(heads: int, queries: int, keys: int, seed: int) -> None:
    sides = [Segment("q", "", tokens(*"x" * queries)), Segment("k", "", tokens(*"y" * keys))]
    own = weights(heads, queries, keys, seed)
    trace = Trace(segments=sides, attention=[AttentionMap("m", "self", 0, "q", "k", "none", "row t reads y_t", own)])
    again = Trace.from_document(json.loads(json.dumps(trace.document())))
    assert np.array_equal(again.attention[0].weights, own)  # type: ignore[arg-type]


def test_above_the_budget_there_are_statistics_and_no_weights(tmp_path: Path) -> None:
    trace = example()
    document = trace.document(budget=40)
    assert not document["attention_whole"]
    assert document["attention_bytes"] == sum(4 * 3 * 2 * 2 for _ in range(3))
    assert all("data" not in attention for attention in document["attention"])
    first = document["attention"][0]["statistics"]
    assert len(first) == 3
    assert first[0] == statistics(trace.attention[0].weights[0])  # type: ignore[index]
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    again = Trace.read(file)
    assert again.attention[0].weights is None
    assert again.document(budget=40) == document


def test_statistics_of_a_head() -> None:
    even = statistics(np.full((2, 4), 0.25))
    assert even == pytest.approx({"largest": 0.25, "entropy": 2.0, "distance": (1.5 + 1.0) / 2})
    sharp = statistics(np.eye(3))
    assert sharp == pytest.approx({"largest": 1.0, "entropy": 0.0, "distance": 0.0})


# What others made -----------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], None]


def set_at(*path: Any, value: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


def without(*path: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


def data(array: Any) -> str:
    return b64encode(np.asarray(array, dtype="<f4").tobytes()).decode()


HOSTILE: dict[str, tuple[Change, str]] = {
    "another schema": (set_at("schema", value="trace/2"), "has schema 'trace/2'; this version reads 'trace/1'"),
    "no schema": (without("schema"), "is no trace: it has no `schema`"),
    "no walks": (without("walks"), "`walks` is missing"),
    "walks of text": (set_at("walks", value="x"), "`walks` must be a list, not 'x'"),
    "a model of text": (set_at("model", value="x"), "`model` must be a mapping or null"),
    "a token of text": (set_at("segments", 0, "tokens", 0, value="x"), "segments[0].tokens[0] must be a mapping"),
    "bytes": (set_at("segments", 0, "tokens", 0, "bytes", value="&&"), "segments[0].tokens[0].bytes is not base64"),
    "places": (set_at("segments", 0, "tokens", 0, "end", value=-1), "must be a whole number from 0"),
    "backwards": (set_at("segments", 0, "tokens", 1, "start", value=9), "stands at no place of a text"),
    "true is no number": (set_at("segments", 0, "tokens", 0, "id", value=True), "must be a whole number from 0"),
    "an endless shape": (set_at("attention", 0, "shape", value=[10**9, 2, 2]), "heads must name 1000000000 heads"),
    "a shape too few": (set_at("attention", 0, "shape", value=[3, 2]), "shape must be [heads, queries, keys]"),
    "another segment": (set_at("attention", 0, "query", value="zzz"), "names a segment 'zzz' that is not there"),
    "other tokens": (set_at("segments", 1, "tokens", value=[]), "but segment 'tgt' has 0 tokens"),
    "too little data": (set_at("attention", 0, "data", value="AAAA"), "data has 3 bytes; shape [3, 2, 2]"),
    "infinite": (set_at("attention", 0, "data", value=data(np.full(12, np.inf))), "a weight that is no number"),
    "negative": (set_at("attention", 0, "data", value=data([-1, 2] * 6)), "holds a negative weight"),
    "sums": (set_at("attention", 0, "data", value=data([0.5] * 11 + [0.6])), "the weights of head 2, row 1 sum to 1.1"),
    "before its time": (set_at("attention", 0, "data", value=data([0.5] * 12)), "a weight where the mask allows none"),
    "hidden": (set_at("attention", 1, "data", value=data([0.5] * 12)), "a weight where the mask allows none"),
    "bits": (set_at("attention", 1, "allowed", value=""), "allowed has 0 bytes"),
    "a mask of its own": (set_at("attention", 0, "mask", value="odd"), "mask must be 'none', 'causal' or 'given'"),
    "a convention": (set_at("attention", 0, "convention", value="x"), "convention must be one of 'row t predicts"),
    "a type": (set_at("attention", 0, "dtype", value="object"), "dtype must be 'float32', not 'object'"),
    "no data": (without("attention", 0, "data"), "attention[0].statistics is missing"),
    "ragged": (set_at("walks", 0, "steps", 0, "values", value=[[1], [2]]), "must have 1 rows of 2 numbers"),
    "words for numbers": (set_at("walks", 0, "steps", 0, "values", 0, 0, value="1"), "holds '1', which is no number"),
    "labels": (set_at("walks", 0, "steps", 0, "rows", value=[1]), "rows must be a list of texts"),
    "decimals": (set_at("walks", 0, "steps", 0, "decimals", value=10**9), "decimals or dimensions of the wrong kind"),
    "checks": (set_at("walks", 0, "checks", 0, "difference", value=None), "difference and tolerance"),
    "settings": (set_at("walks", 0, "settings", value=[]), "walks[0].settings must be a mapping"),
    "cells": (set_at("walks", 0, "cells", 0, "steps", value=3), "walks[0].cells[0].steps must be a list"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_does_not_fit_is_named(tmp_path: Path, name: str) -> None:
    change, message = HOSTILE[name]
    document = copy.deepcopy(example().document())
    change(document)
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UserError) as error:
        Trace.read(file)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{file}: ")
    assert str(error.value).endswith("--trace FILE`")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b'{"schema":\n oh', "t.json:2: is not JSON"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"schema": NaN}', "NaN is no number"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "is not JSON that can be read"),
        (b"[1]", "is no trace"),
        (b"null", "is no trace"),
    ],
)
def test_what_is_no_trace_at_all(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "t.json"
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        Trace.read(file)
    assert message in str(error.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        Trace.read(tmp_path / "none.json")
    with pytest.raises(UserError, match="it is a folder"):
        Trace.read(tmp_path)
    with pytest.raises(UserError, match="no trace"):
        Trace.read("a\0b")


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A trace in which one value, anywhere, is something else."""
    document = copy.deepcopy(example().document())
    here: Any = document
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = draw(st.sampled_from(keys))
        if isinstance(here[key], dict | list) and here[key] and draw(st.booleans()):
            here = here[key]
            continue
        odd: list[Any] = [None, -1, 1.5, True, "x", [], {}, [[]], 10**30, {"a": {}}]
        here[key] = draw(st.sampled_from(odd))
        return document


@given(damaged())
@settings(max_examples=300)
def test_one_odd_value_anywhere_is_read_or_refused_and_never_a_traceback(document: dict[str, Any]) -> None:
    from anaphora.explain.trace_file import _Wrong

    try:
        Trace.from_document(document)
    except _Wrong as wrong:
        assert str(wrong)
