"""`anaphora why` of a GloVe run: what tells two words apart; phrases on the command line; mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anaphora
from anaphora.explain.draw.terminal import cells
from anaphora.explain.ratios import ratio_table
from anaphora.models.vectors.cooccurrence import Cooccurrences, count_cooccurrences
from anaphora.tokenizers.tokenizer import EOS, SPECIALS
from vector_runs import SMALL, grouped, learn

LINES = ["ice solid", "ice water"] * 6 + ["steam gas"] * 9 + ["steam water"] * 3 + ["fashion show"] * 6
SETTINGS = {"model.dim": 4, "training.epochs": 1, "training.threads": 1, "data.punctuation": "attached"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ratios")
    (folder / "text.txt").write_text(
        "\n".join([*LINES, "steam 蒸気機関車" + "x" * 60] + ["ice 蒸気機関車" + "x" * 60] * 5) + "\n"
    )
    anaphora.train(folder / "run", text=folder / "text.txt", recipe="glove", settings=SETTINGS)
    return folder / "run"


def test_a_table_in_80_columns(say: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked = say("why", run, "ice", "steam", "solid", "gas", "--word", "water", "--word", "fashion")
    assert asked.code == 0
    assert [line.split() for line in asked.out.splitlines()[3:]] == [
        ["solid", "3.5e-01", "0", "∞"],
        ["gas", "0", "6.9e-01", "0"],
        ["water", "3.5e-01", "2.3e-01", "1.53"],
        ["fashion", "0", "0", "none"],
    ]
    told = say("why", run, "ice", "steam")
    assert told.code == 0 and max(map(cells, told.out.splitlines())) <= 80
    rows = [line.split()[0] for line in told.out.splitlines()[4:]]
    assert rows[0] == "solid" and rows[-1] == "gas" and "fashion" not in rows and "water" in rows
    assert "…" in told.out  # the long word


def test_json(say: Any, run: Path) -> None:
    found = json.loads(say("why", run, "ice", "steam", "water", "solid", "fashion", "--json").last)
    assert found["totals"] == [17.0, 13.0] and found["window"] == 10
    water, solid, fashion = found["words"]
    assert water["counts"] == [6.0, 3.0] and water["ratio"] == pytest.approx((6 / 17) / (3 / 13))
    assert solid["ratio"] is None and fashion["ratio"] is None
    assert len(json.loads(say("why", run, "ice", "steam", "--top", 1, "--json").last)["words"]) == 2


def test_mistakes(say: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(grouped(100))
    learn(tmp_path / "skipgram", text=tmp_path / "text.txt", settings={"training.epochs": 1})
    anaphora.load(run).save(tmp_path / "copy")  # type: ignore[union-attr]
    anaphora.load(run).save(tmp_path / "file.txt")  # type: ignore[union-attr]
    anaphora.train(tmp_path / "ngram", text=tmp_path / "text.txt", settings={"model.order": 2})
    for words, message in (
        ((run, "ice", "steem"), "'steem' is not in the table; did you mean steam"),
        ((run, "ice", "steam", "wather"), "'wather' is not in the table; did you mean water"),
        ((run, "ice"), "two words are needed to compare"),
        ((run,), "two words are needed to compare"),
        ((run, "ice", "ice"), "stands there twice"),
        ((run, "ice", "steam", "--top", 0), "nothing is asked for"),
        ((tmp_path / "skipgram", "aword1", "aword2"), "is a model of kind word2vec: only GloVe"),
        ((tmp_path / "file.txt", "ice", "steam"), "is a file of vectors: only GloVe"),
        ((tmp_path / "copy", "ice", "steam"), "has no table of co-occurrences: it stays in the run"),
        ((tmp_path / "ngram", "aword1", "aword2"), "but 'aword2' follows it; put quotes around it"),
    ):
        wrong = say("why", *words)
        assert wrong.code == 2 and message in wrong.err and not wrong.out, wrong.err


@given(st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=30), st.integers(1, 4))
def test_those_that_tell_most_are_found(tmp_path_factory: Any, lines: list[list[int]], number: int) -> None:
    words = ["ice", "steam", *"abcde"]
    ids = [id for line in [*lines, [0, 2], [1, 3]] for id in (*(len(SPECIALS) + word for word in line), EOS)]
    folder = tmp_path_factory.mktemp("table") / "table"
    table: Cooccurrences = count_cooccurrences(np.array(ids, np.uint32), words, folder, window=2, threads=1)
    x = {word: (table.cooccurrence("ice", word), table.cooccurrence("steam", word)) for word in "abcde"}
    total = [max(float(table.total[row]), 1.0) for row in (0, 1)]
    tells = {
        word: np.log((one + 0.5) / total[0]) - np.log((two + 0.5) / total[1])
        for word, (one, two) in x.items()
        if one + two >= 1
    }
    found = table.telling("ice", "steam", number, least=1.0)
    order = [tells[word] for word in found]
    assert order == sorted(order, reverse=True) and len(set(found)) == len(found)
    ours, theirs = [w for w in found if tells[w] > 0], [w for w in found if tells[w] <= 0]
    for some, sign in ((ours, 1), (theirs, -1)):
        every = sorted((sign * t for t in tells.values() if (t > 0) == (sign > 0)), reverse=True)
        assert sorted((sign * tells[word] for word in some), reverse=True) == every[:number]
    asked = ratio_table(table, "ice", "steam", ["b", "a"])
    assert [row.word for row in asked.rows] == ["b", "a"] and asked.rows[0].first == x["b"][0] / total[0]


def test_phrases_from_text_to_neighbours(say: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    lines = [" ".join([*(f"w{n}" for n in draw.integers(30, size=6)), "new", "york"]) for _ in range(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    settings = [f"{name}={value}" for name, value in SMALL.items()] + ["data.phrases=1", "data.phrase_threshold=5"]
    train = ("train", tmp_path / "run", "--text", tmp_path / "text.txt", "--recipe", "skipgram", *settings)
    made = say(*train)
    assert made.code == 0 and "phrases: 1 found, joined in 200 places; of those left, 1 with a vector" in made.err
    assert say("neighbours", tmp_path / "run", "new_york", "-n", 1).code == 0
    told = say("info", tmp_path / "run").out
    assert "1 found (phrases.tsv), joined in 200 places; of those left, 1 with a vector" in told
    assert json.loads(say("info", tmp_path / "run", "--json").last)["metrics"]["phrases"]["joined"] == 200
    assert (tmp_path / "run" / "phrases.tsv").read_text().splitlines()[1].split("\t")[:3] == ["1", "new york", "200"]
    wrong = say(*train[:-1], "data.phrase_threshold=-3")
    assert wrong.code == 2 and "phrase_threshold must be at least 0" in wrong.err
