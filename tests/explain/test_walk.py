"""A walk through attention is what `attend` computes, for every score, mask, bias and normalizer, and says so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from anaphora.errors import UserError
from anaphora.explain import arithmetic
from anaphora.explain.draw.walk_tables import decimals, step_text, walk_text
from anaphora.explain.selection import cell, place
from anaphora.explain.trace_parts import Check, Step
from anaphora.explain.walk import walk_attention, walk_projected
from anaphora.nn.attention import attend, attention_weights
from anaphora.nn.masks import Causal, Padding, Window
from anaphora.nn.scores import SCORES

WORDS = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


@st.composite
def attentions(draw: st.DrawFn) -> dict[str, Any]:
    """Matrices of one head, and choices that make sense together."""
    queries, keys, size, wide = (draw(st.integers(1, 6)) for _ in range(4))
    score = draw(st.sampled_from(list(SCORES)))
    of_key = draw(st.integers(1, 6)) if score == "bilinear" else size
    normalizer = draw(st.sampled_from(["softmax", "none"]))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 1000)))

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=dtype) * draw(st.sampled_from([0.0, 0.5, 3.0]))

    weight = {"bilinear": (size, of_key), "additive": (size,)}.get(score)
    biased = normalizer == "softmax" and draw(st.booleans())
    return {
        "matrices": (matrix(queries, size), matrix(keys, of_key), matrix(keys, wide)),
        "score": score,
        "weight": None if weight is None else matrix(*weight),
        "normalizer": normalizer,
        "mask": torch.rand(queries, keys, generator=random) < 0.6 if draw(st.booleans()) else None,
        "causal": draw(st.booleans()),
        "bias": matrix(queries, keys) if biased else None,
    }


@given(attentions())
@settings(max_examples=120)
def test_a_walk_is_what_attend_computes(given: dict[str, Any]) -> None:
    query, key, value = given.pop("matrices")
    rows, columns = [f"q{n}" for n in range(len(query))], [f"k{n}" for n in range(len(key))]
    walk = walk_attention(query, key, value, rows=rows, columns=columns, **given)
    whole = query[None, None], key[None, None], value[None, None]
    assert np.allclose(walk.step("Z").values, attend(*whole, **given)[0, 0], atol=1e-4)
    weights = attention_weights(*whole[:2], **given)[0, 0].double().numpy()
    mask = given["mask"]
    joined = torch.ones(len(rows), len(columns)).bool() if mask is None else mask
    if given["causal"]:
        joined = joined & Causal().materialize(len(rows), len(columns))
    if given["normalizer"] == "softmax":
        shown = walk.step("A")
        assert np.allclose(shown.values, weights, atol=1e-5)
        sums = shown.values.sum(axis=1)[joined.any(dim=1).numpy()]
        assert np.abs(sums - 1).max(initial=0.0) <= 1e-5
        assert (shown.values[~joined.numpy()] == 0).all()
    assert walk.holds, [str(check) for check in walk.checks]
    if mask is not None or given["causal"]:
        hidden = walk.step("masked")
        assert hidden.mask is not None
        assert (hidden.mask == joined.numpy()).all()
    told = walk.explain(0, len(columns) - 1)  # every table of pairs has something to say of every cell
    assert all(lines for _, lines in told.lines)
    assert max(cell_len(line) for line in walk_text(walk, width=80).plain.splitlines()) <= 80


def test_the_check_would_fail_for_other_numbers() -> None:
    assert Check("same", 1e-6, 1e-5).holds
    assert not Check("same", 1e-4, 1e-5).holds
    assert not Check("same", math.nan, 1e-5).holds
    walk = walk_attention(WORDS, WORDS, WORDS, rows=list("AABA"))
    walk.checks.append(Check("something else", 1.0, 0.1))
    assert not walk.holds
    assert "FAILS: something else (off by 1, may be 1e-01)" in walk_text(walk).plain


def test_three_in_place_of_e_and_a_scale() -> None:
    walk = walk_attention([[0, 1]], WORDS, WORDS, rows=["q"], columns=list("AABA"), score="dot", base=3)
    assert np.allclose(walk.step("A").values, [[1 / 6, 1 / 6, 1 / 2, 1 / 6]])
    assert np.allclose(walk.step("Z").values, [[1 / 2, 1 / 2]])
    assert walk.explain(0, 2).lines[-1] == ("A", ["3^1 / (3^0 + 3^0 + 3^1 + 3^0) = 3 / 6 = 0.5"])
    scaled = walk_attention(
        [[112.0], [96.0]], [[1.0]], [[1.0]], rows=["a", "b"], columns=["k"], score="dot", scale=1 / 8
    )
    assert scaled.step("S").values.tolist() == [[14], [12]]
    assert scaled.step("S").formula == "S = Q Kᵀ / 8"
    assert scaled.explain(0, 0).lines[1] == ("S", ["112 / 8 = 14"])
    assert walk.holds
    assert scaled.holds


def test_a_memory_may_have_another_width() -> None:
    walk = walk_projected(
        [[1.0, 0.0]],
        [[1.0], [2.0]],
        [[1.0], [1.0], [1.0]],
        [[1.0], [0.0], [0.0]],
        memory=[[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]],
        rows=["q"],
        columns=["m", "n"],
        dimensions=["a", "b"],
        score="dot",
    )
    assert walk.step("S").values.tolist() == [[6, 1]]
    assert walk.step("W_Q").rows == walk.step("E").columns == ["a", "b"]
    assert walk.step("W_K").rows == walk.step("W_V").rows == walk.step("M").columns == ["1", "2", "3"]
    assert walk.holds


@pytest.mark.parametrize(
    ("choices", "by_whom"),
    [
        ({"score": "dot"}, "attend() gives, backend sdpa"),
        ({"causal": True}, "attend() gives, backend sdpa"),
        ({"normalizer": "none"}, "attend() gives, backend linear"),
        ({"normalizer": "none", "causal": True}, "attend() gives, backend linear"),
        ({"normalizer": "none", "mask": Padding(torch.tensor([3]))}, "attend() gives, backend linear"),
        ({"normalizer": "none", "mask": torch.eye(4).bool()}, "NumPy gives"),
        ({"normalizer": "none", "window": 2, "causal": True}, "NumPy gives"),
        ({"score": "bilinear", "weight": [[1.0, 2.0], [0.0, 1.0]], "window": 2, "normalizer": "none"}, "NumPy gives"),
        ({"score": "additive", "weight": [1.0, 2.0]}, "attend() gives, backend additive"),
        ({"score": "additive", "weight": [1.0, 2.0], "causal": True}, "attend() gives, backend additive"),
        ({"score": "additive", "weight": [1.0, 2.0], "bias": np.eye(4), "causal": True}, "NumPy gives"),
        ({"score": "additive", "weight": [1.0, 2.0], "bias": np.eye(4), "mask": np.tri(4, k=-1)}, "NumPy gives"),
        ({"score": "additive", "weight": [1.0, 2.0], "normalizer": "none"}, "NumPy gives"),
    ],
)
def test_the_last_check_never_compares_the_reference_with_itself(
    choices: dict[str, Any], by_whom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [[1.0, 0.5], [1.0, -2.0], [0.0, 1.0], [3.0, 0.0]]
    last = walk_attention(words, words, words, rows=list("AABA"), **choices).checks[-1]
    assert last.what == f"the weights times V are what {by_whom}"
    assert last.holds
    wrong = lambda *given, **more: attention_weights(*given, **more) * 0.9  # noqa: E731
    monkeypatch.setattr("anaphora.explain.walk.attention_weights", wrong)
    assert not walk_attention(words, words, words, rows=list("AABA"), **choices).checks[-1].holds


def test_scores_that_rounding_decides_are_refused() -> None:
    far = [[1e7, 0.0], [0.0, 1e7]]
    with pytest.raises(ValueError, match=r"scores reach 1.0e\+14, where rounding decides their weights; make the"):
        walk_attention(far, far, far, rows=["a", "b"], score="dot")
    with pytest.raises(ValueError, match="the scores are too large to be computed; make the numbers smaller"):
        walk_attention([[1e200]], [[1e200]], [[1.0]], rows=["a"])
    assert walk_attention(far, far, far, rows=["a", "b"], score="dot", normalizer="none").holds
    near = walk_attention([[1e6, 0.0], [0.0, 1e6]], far, far, rows=["a", "b"], score="dot", scale=1e-3)
    assert near.holds
    assert max(check.tolerance for check in near.checks[:-1]) <= 1e-3


@given(st.integers(0, 10_000), st.integers(0, 5), st.sampled_from(["dot", "scaled-dot", "additive", "bilinear"]))
@settings(max_examples=80)
def test_sums_that_cancel_are_no_mistake(seed: int, power: int, score: Any) -> None:
    """Large products that take one another away leave a small score with a large error, in every order of summing."""
    random = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(4, 3, generator=random, dtype=torch.float64) for _ in range(2))
    query[:, :2], key[:, 0], key[:, 1] = 10.0**power, 10.0**power, -(10.0**power) * (1 + 1e-13)
    weight = {"additive": torch.ones(3), "bilinear": torch.eye(3)}.get(score)
    for normalizer in ("softmax", "none"):
        walk = walk_attention(
            query, key, 1e6 * key, rows=list("abcd"), score=score, weight=weight, normalizer=normalizer
        )
        assert walk.holds, [str(check) for check in walk.checks]


def test_a_window_wider_than_any_text_hides_nothing() -> None:
    walk = walk_attention(WORDS, WORDS, WORDS, rows=list("AABA"), window=10**30)
    assert walk.step("masked").mask.all()  # type: ignore[union-attr]


def test_weights_are_shares_and_scores_are_not_whatever_their_numbers() -> None:
    walk = walk_attention(WORDS, WORDS, WORDS, rows=list("AABA"), score="dot")
    assert walk.step("S").values.max() <= 1
    assert [step.symbol for step in walk.steps if step.shares] == ["A"]
    exact = walk_attention(WORDS, WORDS, WORDS, rows=list("AABA"), score="dot", normalizer="none")
    assert not any(step.shares for step in exact.steps)
    with pytest.raises(ValueError, match="a share is a number from 0 to 1"):
        Step("A", "", "", ["a"], ["b"], [[1.5]], shares=True)


def test_projections_come_first_and_must_fit() -> None:
    ten = [[10.0, 0.0], [0.0, 10.0]]
    one = [[1.0, 0.0], [0.0, 1.0]]
    walk = walk_projected(WORDS, ten, one, one, rows=list("AABA"), score="dot")
    assert [step.symbol for step in walk.steps] == ["E", "W_Q", "W_K", "W_V", "Q", "K", "V", "S", "A", "Z"]
    assert (walk.step("S").values == 10 * np.array(WORDS) @ np.array(WORDS).T).all()
    told = walk.step("Q").arithmetic
    assert told is not None
    assert told(2, 1) == ["0·0 + 1·10 = 10"]
    crossed = walk_projected([[1.0, 0.0]], one, one, one, memory=WORDS, rows=["q"], columns=list("AABA"))
    assert crossed.step("S").columns == list("AABA")
    with pytest.raises(ValueError, match="W_K must have 2 rows, one for each dimension of E; it has 3"):
        walk_projected(WORDS, ten, [[1.0]] * 3, one, rows=list("AABA"))


def test_rules_of_masks_are_drawn() -> None:
    walk = walk_attention(WORDS, WORDS, WORDS, rows=list("AABA"), mask=Window(2), causal=True)
    assert walk.step("masked").mask.tolist() == (Window(2) & Causal()).materialize(4, 4).tolist()  # type: ignore[union-attr]
    assert walk.settings["mask"] == "causal and given"
    padded = walk_attention(WORDS, WORDS, WORDS, rows=list("AABA"), mask=Padding(torch.tensor([2])))
    lines = step_text(padded.step("A")).plain.splitlines()
    assert lines[2].split() == ["A", "0.5", "0.5", "·", "·"]
    blind = walk_attention(WORDS, WORDS, WORDS, rows=list("AABA"), mask=torch.zeros(4, 4).bool())
    assert (blind.step("Z").values == 0).all()
    assert blind.holds


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"rows": ["A"]}, "1 rows do not name 4 vectors"),
        ({"mask": torch.ones(2, 4).bool()}, r"a mask must be \(4, 4\)"),
        ({"bias": torch.ones(3, 4)}, r"a bias must be \(4, 4\)"),
        ({"score": "dott"}, "no score is called 'dott'; did you mean 'dot'"),
        ({"score": "additive"}, "additive needs v as weight"),
        ({"base": 1.0}, "a positive base other than 1"),
        ({"base": 3.0, "normalizer": "none"}, "a base is softmax's"),
        ({"scale": 2.0, "score": "additive", "weight": [1.0, 1.0]}, "a scale is for dot products"),
        ({"bias": torch.ones(4, 4), "normalizer": "none"}, "a bias .* shifts a softmax"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        walk_attention(WORDS, WORDS, WORDS, **{"rows": list("AABA"), **choices})


def test_queries_and_keys_of_two_sizes_are_named_by_their_own_score() -> None:
    with pytest.raises(ValueError, match="scaled-dot needs queries and keys of one size; they have 2 and 3"):
        walk_attention([[1, 2]], [[1, 2, 3]], [[1]], rows=["q"], columns=["k"])


# The arithmetic of a cell ---------------------------------------------------------------------------------------------


def test_numbers_as_a_person_writes_them() -> None:
    assert [arithmetic.number(x) for x in (10, 7.0710678, -0.0, 22026.47, 0.047)] == [
        "10",
        "7.071",
        "0",
        "22026",
        "0.047",
    ]
    assert arithmetic.dot([1.0, -2.0], [3.0, 0.5]) == "1·3 + (-2)·0.5 = 2"
    assert arithmetic.dot([1.0] * 64, [1.0] * 64) == "1·1 + 1·1 + 1·1 + 1·1 + 1·1 + 1·1 + … (58 more) = 64"
    assert arithmetic.scaled(10, 2**-0.5, 2) == "10 / √2 = 7.071"
    assert arithmetic.scaled(112, 1 / 8, 64) == "112 / √64 = 112 / 8 = 14"
    spelled = SCORES["additive"].written([1.0], [-1.0], [2.0], arithmetic.number, arithmetic.factor)
    assert spelled is not None
    assert arithmetic.summed(*spelled) == "2·tanh(1 + (-1)) = 0"


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=8), st.sampled_from([math.e, 3.0, 2.0]))
def test_the_arithmetic_of_softmax_ends_in_the_weight(scores: list[float], base: float) -> None:
    weights = torch.softmax(torch.tensor(scores, dtype=torch.float64) * math.log(base), dim=0)
    lines = arithmetic.softmax(scores, len(scores) - 1, base)
    assert float(lines[-1].rsplit("= ", 1)[1]) == pytest.approx(float(weights[-1]), rel=1e-3, abs=1e-300)


# What is pointed at ---------------------------------------------------------------------------------------------------


def test_words_and_numbers_point() -> None:
    labels = ["A", "A", ",", "las", "##en"]
    assert place(labels, "las", "row") == 3
    assert place(labels, "1", "row") == 1
    with pytest.raises(UserError, match=r"row 'A' stands at 0 \(A\), 1 \(A\); give one of these numbers"):
        place(labels, "A", "row")
    with pytest.raises(UserError, match=r"there is no row 'B'; there are 0 A, 1 A, 2 ,, 3 las, 4 ##en"):
        place(labels, "B", "row")
    with pytest.raises(UserError, match=r"stands at 3 \(las\), 4 \(##en\)"):
        place(labels, "lasen", "row", ["A", "A", ",", "lasen", "lasen"])
    with pytest.raises(UserError, match="there is no row '5'"):
        place(labels, "5", "row")
    with pytest.raises(UserError, match="row '0' is the name of #1 and the number of '1'; write #1 or #0"):
        place(["1", "0"], "0", "row")
    assert [place(["1", "0"], asked, "row") for asked in ("#0", "#1")] == [0, 1]
    assert place(["x", "1"], "1", "row") == 1  # name and number of one and the same
    with pytest.raises(UserError, match=r"row '1' stands at #0 \(1\), #1 \(1\)"):
        place(["1", "1"], "1", "row")
    assert place(["Buch"], "5", "row", first=5) == 0  # the sixth word of a sentence, alone
    with pytest.raises(UserError, match="there is no row '0'; there are 5 Buch"):
        place(["Buch"], "0", "row", first=5)
    walk = walk_attention(WORDS, WORDS, WORDS, rows=["a", "b", ",", "d"])
    assert (cell(walk, ",,d").row, cell(walk, ",,d").column) == (",", "d")
    assert (cell(walk, "3, 0").row, cell(walk, "3, 0").column) == ("d", "a")
    with pytest.raises(UserError, match="names no column"):
        cell(walk, "3")


def test_a_cell_is_found_by_whole_words_and_by_their_numbers_in_the_sentence() -> None:
    walk = walk_attention(WORDS[:2], WORDS, WORDS, rows=["le", "##sen"], columns=["re", "##ad", "a", "book"])
    walk.row_words, walk.column_words, walk.first_row = ["lesen"] * 2, ["read", "read", "a", "book"], 7
    assert (cell(walk, "8,3").row, cell(walk, "8,3").column) == ("##sen", "book")
    with pytest.raises(UserError, match=r"row 'lesen' stands at 7 \(le\), 8 \(##sen\)"):
        cell(walk, "lesen,book")
    with pytest.raises(UserError, match=r"column 'read' stands at 0 \(re\), 1 \(##ad\)"):
        cell(walk, "7,read")


# Tables ---------------------------------------------------------------------------------------------------------------


def test_digits_as_the_numbers_need_them() -> None:
    assert decimals(np.array([1.0, 10.0])) == 0
    assert decimals(np.array([0.5, 0.25])) == 2
    assert decimals(np.array([1 / 3])) == 3
    assert decimals(np.array([123.456])) == 2
    assert decimals(np.array([1e7])) is None
    zero = Step("x", "", "", ["a"], ["b"], [[-1e-9]], decimals=3)
    assert step_text(zero).plain.splitlines()[-1].split() == ["a", "0.000"]


SCRIPTS = ["שלום", "يقرأ", "老人", "👩‍👩‍👧", "Donaudampfschifffahrtsgesellschaft", "a\x1b[31m"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_tables_keep_to_the_terminal_in_any_script(width: int) -> None:
    labels = SCRIPTS * 5
    step = Step("S", "S = Q Kᵀ", "scores", labels, labels, np.random.default_rng(0).normal(size=(30, 30)))
    text = step_text(step, width=width).plain
    assert "\x1b" not in text
    shown = [line.translate({0x200E: None, 0x2068: None, 0x2069: None}) for line in text.splitlines()]
    assert max(cell_len(line.replace("👩‍👩‍👧", "xx")) for line in shown) <= width
    assert text.count("(columns ") >= (1 if width < 200 else 0)


def test_many_dimensions_are_counted_and_not_hidden_silently() -> None:
    step = Step("Q", "", "queries", ["a"], [str(n) for n in range(64)], np.ones((1, 64)), dimensions=True)
    assert "… and 56 more of 64 dimensions: the trace has them all" in step_text(step).plain
    assert len(step.document()["values"][0]) == 64
    long = Step("Q", "", "", [str(n) for n in range(300)], [str(n) for n in range(64)], np.ones((300, 64)))
    long.dimensions = True
    for one in (step, long):
        assert max(cell_len(line) for line in step_text(one, width=40).plain.splitlines()) <= 40


def test_a_float32_comes_back_from_the_document() -> None:
    drawn = np.random.default_rng(0).normal(size=(50, 50)).astype(np.float32)
    labels = [str(n) for n in range(50)]
    given = Step("S", "", "", labels, labels, drawn).document()["values"]
    assert (np.array(given, dtype=np.float32) == drawn).all()


def test_a_step_must_fit_its_labels() -> None:
    with pytest.raises(ValueError, match=r"step S: \(1, 2\) labels do not fit values of shape \(1, 1\)"):
        Step("S", "", "", ["a"], ["b", "c"], [[1.0]])
    with pytest.raises(ValueError, match="a cell is no finite number"):
        Step("S", "", "", ["a"], ["b"], [[math.nan]])
    hidden = Step("S", "", "", ["a"], ["b", "c"], [[math.inf, 1.0]], [[False, True]])
    assert hidden.document()["values"] == [[None, 1.0]]
