"""Matrices of one's own: what a file may say, and one sentence for everything it may not."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import UserError
from anaphora.explain.selection import cell
from anaphora.explain.walk_file import keys, walk_file

ONE = [[1, 0], [0, 1]]
PROJECTED: dict[str, Any] = {
    "tokens": ["A", "A", "B", "A"],
    "E": [[1, 0], [1, 0], [0, 1], [1, 0]],
    "W_Q": [[10, 0], [0, 10]],
    "W_K": ONE,
    "W_V": ONE,
}
DIRECT: dict[str, Any] = {"Q": [[0, 1], [1, 1]], "K": [[1, 0], [0, 1], [1, 1]], "V": [[1, 0], [0, 1], [2, 2]]}


def written(folder: Path, document: Any, kind: str = "yaml") -> Path:
    file = folder / f"m.{kind}"
    file.write_text(json.dumps(document) if kind == "json" else yaml.safe_dump(document), encoding="utf-8")
    return file


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_words_with_projections(tmp_path: Path, kind: str) -> None:
    walk = walk_file(written(tmp_path, {**PROJECTED, "score": "dot", "causal": True, "dimensions": ["a", "b"]}, kind))
    assert walk.step("S").values.tolist() == (10 * np.array(PROJECTED["E"]) @ np.array(PROJECTED["E"]).T).tolist()
    assert walk.step("S").rows == list("AABA")
    assert walk.step("E").columns == ["a", "b"]
    assert walk.step("A").mask.tolist() == np.tri(4, dtype=bool).tolist()  # type: ignore[union-attr]
    assert walk.holds


def test_everything_a_file_may_say(tmp_path: Path) -> None:
    def read(**more: Any) -> Any:
        walk = walk_file(written(tmp_path, {**DIRECT, **more}))
        assert walk.holds
        return walk

    assert read().step("S").formula == "S = Q Kᵀ / √2"
    assert read(scale=0.125, score="dot").step("S").formula == "S = Q Kᵀ / 8"
    assert read(base=3, score="dot").step("A").says == "the weights, 3^s over its row's sum"
    assert read(score="bilinear", W=[[1, 2], [3, 4]]).step("W").values.tolist() == [[1, 2], [3, 4]]
    assert read(score="additive", v=[1, 2]).step("v").values.tolist() == [[1, 2]]
    assert read(normalizer="none").steps[-1].formula == "Z = S V"
    assert read(mask=[[1, 0, 1], [True, True, False]]).step("A").values[0, 1] == 0
    assert read(mask=[1, 1, 0]).step("A").values[:, 2].tolist() == [0, 0]  # one row for all queries
    assert read(bias=[[0, 0, 9], [0, 0, 9]]).step("S+B").values[0, 2] == pytest.approx(9 + 1 / 2**0.5)
    assert read(window=1, causal=True).step("A").values[1].tolist() == [0, 0, 1]
    assert read(positions="alibi").step("B").values[1].tolist() == pytest.approx([-2 / 256, -1 / 256, 0])
    assert read(tokens="x y", memory_tokens=["a", "b", "c"]).step("S").columns == ["a", "b", "c"]
    assert read(title="Mine").title == "Mine"
    assert read(Q=[["1e-1", 1]]).step("Q").values.tolist() == [[0.1, 1]]  # YAML reads 1e-1 as text
    assert read(title="2 \x1b[31m\nlines").title == "2 \ufffd[31m lines"
    assert read(title=2026).title == "2026"
    wide = walk_file(written(tmp_path, {**PROJECTED, "M": [[1, 1, 1]], "W_K": [[1, 0]] * 3, "W_V": [[1]] * 3}))
    assert wide.step("M").columns == ["1", "2", "3"]
    crossed = walk_file(written(tmp_path, {**PROJECTED, "M": [[1, 1]], "memory_tokens": ["m"]}))
    assert crossed.step("A").columns == ["m"]
    assert crossed.step("K").formula == "K = M W_K"


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({**DIRECT, "scor": "dot"}, "unknown key 'scor'; did you mean 'score'?"),
    "unknown score": ({**DIRECT, "score": "dott"}, "no score is called 'dott'; did you mean 'dot'?"),
    "unknown normaliser": ({**DIRECT, "normalizer": "softmx"}, "no normalizer is called 'softmx'; did you mean"),
    "ragged": ({**DIRECT, "K": [[1, 2], [3]]}, "row 2 of K has 1 numbers, row 1 has 2"),
    "empty rows": ({**DIRECT, "K": [[], []]}, "row 1 of K is empty; give every row as many numbers"),
    "not a number": (
        {**DIRECT, "K": [[1, float("nan")]]},
        "row 1, column 2 of K is nan; make it a number from -1,000,000 to 1,000,000",
    ),
    "infinite": ({**DIRECT, "K": [[1, float("inf")]]}, "row 1, column 2 of K is inf"),
    "a word": ({**DIRECT, "K": [["x", 1]]}, "row 1, column 1 of K is 'x'"),
    "true": ({**DIRECT, "K": [[True, 1]]}, "row 1, column 1 of K is True"),
    "one row": ({**DIRECT, "K": [1, 2]}, "K is one row of numbers; write a list of rows: [[1, 2]]"),
    "text": ({**DIRECT, "K": "1 2"}, "K must be a list of rows of numbers, not '1 2'"),
    "sizes": ({**DIRECT, "Q": [[1, 2, 3]]}, "scaled-dot needs queries and keys of one size; they have 3 and 2"),
    "values": ({**DIRECT, "V": [[1]]}, "K has 3 rows and V 1; give each key its value"),
    "mask": ({**DIRECT, "mask": [[1, 0]]}, "mask is 1 × 2, but there are 2 queries and 3 keys; make it 2 × 3"),
    "half a mask": ({**DIRECT, "mask": [[1, 0.5, 1]]}, "row 1, column 2 of mask is 0.5; make it 0 or 1"),
    "bias": ({**DIRECT, "bias": ONE}, "bias is 2 × 2, but there are 2 queries and 3 keys"),
    "two biases": ({**DIRECT, "bias": [[1, 1, 1]], "positions": "alibi"}, "both bias and positions are given"),
    "no v": ({**DIRECT, "score": "additive"}, "score additive needs v; give v"),
    "v of another size": ({**DIRECT, "score": "additive", "v": [1, 2, 3]}, "additive needs v as weight, of shape (2,)"),
    "v of two rows": ({**DIRECT, "score": "additive", "v": ONE}, "v must be one row of numbers; it has 2 rows"),
    "W for nothing": ({**DIRECT, "W": ONE}, "W is given, but score scaled-dot has none"),
    "projection": ({**PROJECTED, "W_K": [[1]]}, "W_K must have 2 rows, one for each dimension of E; it has 1"),
    "missing": ({k: v for k, v in PROJECTED.items() if k != "W_V"}, "W_V is missing; give W_V too"),
    "nothing": ({"tokens": ["a"]}, "E is missing; write tokens, then E"),
    "both": ({**PROJECTED, "Q": ONE}, "both E and Q are given"),
    "memory": ({**DIRECT, "M": ONE}, "M is the memory of E"),
    "tokens": ({**PROJECTED, "tokens": ["A"]}, "there are 1 tokens, but E has 4 rows"),
    "a token that YAML ate": ({**DIRECT, "tokens": [False, "on"]}, 'put words such as "no" and "on" in quotes'),
    "dimensions": ({**DIRECT, "dimensions": ["a"]}, "there are 1 dimensions, but a row of Q has 2 numbers"),
    "causal": ({**DIRECT, "causal": "maybe"}, "causal is 'maybe'; make it true or false"),
    "window": ({**DIRECT, "window": 0}, "window is 0; make it a whole number above 0"),
    "half a window": ({**DIRECT, "window": 1.5}, "window is 1.5; make it a whole number above 0"),
    "base": ({**DIRECT, "base": -1}, "base is -1; make it a number above 0"),
    "base of one": ({**DIRECT, "base": 1}, "a positive base other than 1"),
    "base of nothing": ({**DIRECT, "base": 3, "normalizer": "none"}, "a base is softmax's"),
    "a bias without softmax": ({**DIRECT, "positions": "alibi", "normalizer": "none"}, "shifts a softmax"),
    "scale": ({**DIRECT, "scale": 2, "score": "additive", "v": [1, 1]}, "a scale is for dot products"),
    "too many numbers": ({**DIRECT, "V": [[1] * 66_667] * 3}, "V has 200,001 numbers; a walk shows at most 200,000"),
    "too large": (
        {**DIRECT, "K": [[1, 2e6]]},
        "row 1, column 2 of K is 2000000.0; make it a number from -1,000,000 to",
    ),
    "a window without end": ({**DIRECT, "window": 1e30}, "window is 1e+30; make it a whole number above 0, up to"),
    "a title of lists": ({**DIRECT, "title": [["a"]]}, "title is [['a']]; make it one line of text"),
    "a score of lists": ({**DIRECT, "score": [["a"]]}, "no score is called [['a']]; known: additive"),
    "a word of lists": ({**DIRECT, "tokens": [["a"], "b"]}, "tokens must be a list of words, not [['a'], 'b']"),
    "rounding": (
        {**DIRECT, "Q": [[1e6, 1e6]], "K": [[1e6, 1e6]] * 3, "scale": 1e6},
        "scores reach 2.0e+18, where rounding decides their weights; make the numbers smaller",
    ),
    "too many": ({**DIRECT, "Q": [[1, 1]] * 65}, "Q has 65 rows; a walk shows at most 64"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_one_sentence_with_its_file(tmp_path: Path, name: str) -> None:
    document, message = MISTAKES[name]
    file = written(tmp_path, document)
    with pytest.raises(UserError) as error:
        walk_file(file)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.yaml", b"", "holds no matrices"),
        ("m.yaml", b"[1, 2]", "holds no matrices"),
        ("m.yaml", b"Q: [[1\nK: 2", "is not valid YAML"),
        ("m.yaml", b"\xff\xfe\x00", "is not UTF-8 text"),
        ("m.yaml", b"!!python/object/apply:os.system ['true']", "is not valid YAML"),
        ("m.yaml", b"Q: &a [*a]\nK: *a\nV: *a\n", "m.yaml"),
        ("m.json", b'{"Q":\n[1', "m.json:2: is not JSON"),
        ("m.json", b"[" * 100_000, "is not JSON"),
        ("m.json", b'{"Q": [[1]], "K": [[1]], "V": [[1]], "Q": [[2]]}', "the key 'Q' occurs twice; leave one"),
        (
            "m.yaml",
            b"Q: [[1]]\nK: [[1]]\nV: [[1]]\nQ: [[2]]\n",
            "m.yaml:4: is not valid YAML (the key 'Q' occurs twice)",
        ),
        ("m.yaml", b"# " + b"x" * 5_000_000, "is larger than"),
    ],
)
def test_files_that_hold_something_else(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        walk_file(file)
    assert message in str(error.value)
    with pytest.raises(UserError, match="there is no such file"):
        walk_file(tmp_path / "none.yaml")


NINES = ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(12))
"""Lists of lists, five hundred bytes that stand for 9^12 words."""


@pytest.fixture
def impatient() -> Iterator[None]:
    """A test that hangs fails."""

    def late(*_: Any) -> None:
        raise TimeoutError("it takes too long")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "key", ["title", "score", "normalizer", "positions", "causal", "base", "window", "tokens", "K"]
)
@pytest.mark.parametrize("value", [f"[{NINES}]", f"!!pairs [x: [{NINES}]]"], ids=["list", "pairs"])
@pytest.mark.usefixtures("impatient")
def test_aliases_of_aliases_are_not_unfolded(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "m.yaml"
    rest = "".join(f"{name}: [[1]]\n" for name in "QKV" if name != key)
    file.write_text(f"{key}: {value}\n{rest}", encoding="utf-8")
    with pytest.raises(UserError, match=key):
        walk_file(file)


@pytest.mark.usefixtures("impatient")
def test_a_row_that_stands_for_many_is_counted_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    rows = ", ".join(["*r"] * 20_000)
    file.write_text(f"Q: [&r [{', '.join('1' * 20_000)}], {rows}]\nK: [[1]]\nV: [[1]]\n", encoding="utf-8")
    with pytest.raises(UserError, match="Q has 400,020,000 numbers"):
        walk_file(file)


def test_rows_without_names_are_counted_as_they_are_pointed_at(tmp_path: Path) -> None:
    walk = walk_file(written(tmp_path, DIRECT))
    assert (walk.step("S").rows, walk.step("S").columns) == (["q0", "q1"], ["k0", "k1", "k2"])
    told = cell(walk, "1,2")
    assert (told.row, told.column) == ("q1", "k2")
    assert told.lines[0] == ("QKᵀ", ["q·k = 1·1 + 1·1 = 2"])
    bare = {name: value for name, value in PROJECTED.items() if name != "tokens"}
    assert walk_file(written(tmp_path, bare)).step("S").columns == ["e0", "e1", "e2", "e3"]
    crossed = walk_file(written(tmp_path, {**bare, "M": ONE}))
    assert (crossed.step("S").rows[3], crossed.step("S").columns) == ("e3", ["m0", "m1"])
    numbers = walk_file(written(tmp_path, {**DIRECT, "tokens": [1, 2]}))
    with pytest.raises(UserError, match="row '1' is the name of #0 and the number of '2'; write #0 or #1"):
        cell(numbers, "1,2")
    assert cell(numbers, "#1,#2").row == "2"


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.one_of(st.integers(-3, 3), st.lists(st.floats(), max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from(keys()), odd, max_size=3), st.booleans())
def test_anything_in_a_file_is_walked_or_refused(
    tmp_path_factory: pytest.TempPathFactory, more: dict[str, Any], direct: bool
) -> None:
    file = written(tmp_path_factory.mktemp("odd"), {**(DIRECT if direct else PROJECTED), **more})
    try:
        assert walk_file(file).steps
    except UserError as error:
        assert "\n" not in str(error)
