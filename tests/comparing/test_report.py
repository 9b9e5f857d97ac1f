"""The table in 80 columns, CSV that any program reads, Markdown; and labels that cover nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.comparing.language_comparison import LanguageTask
from anaphora.comparing.picture import draw, label_dots
from anaphora.comparing.report import as_csv, as_markdown, best_row, notes, run_list, table
from anaphora.comparing.task import Plan

COLUMNS = [*LanguageTask.columns, *LanguageTask.costs]


def row(name: str = "lstm", **more: Any) -> dict[str, Any]:
    values = {"bits_per_byte": 2.25, "perplexity": 48.1, "parameters": 403_000, "flops": 4.6e12, "seconds": 62.0}
    values |= {"tokens_per_second": 900.0, "peak_memory": 5.6e8, "memory": "resident", "shared": False}
    return {"name": name, "recipe": "lstm", "settings": "", "state": "finished", **values, **more}


def test_the_table_has_a_line_for_each_row() -> None:
    failed = {"name": "gru", "recipe": "gru", "state": "failed", "error": "the loss became infinite; " * 5}
    head, lstm, bigram, gru = table([row(), row("bigram", flops=0.0, shared=True), failed], COLUMNS)
    assert head.split() == ["bits/byte", "perplexity", "params", "FLOPs", "time", "tok/s", "memory"]
    assert lstm.split() == ["lstm", "2.250", "48.10", "403k", "4.6e12", "1:02", "900", "560M"]
    assert bigram.split()[4:6] == ["-", "~1:02"]
    assert gru.startswith("gru") and "failed: the loss became infinite" in gru and gru.endswith("…")


def test_the_best_row_is_that_of_the_ruler_and_ties_are_told() -> None:
    quality, slow = COLUMNS[0], row("slow", bits_per_byte=2.2501, seconds=99.0)
    worse, odd = row("last", bits_per_byte=3.0), row("odd", bits_per_byte=0.1, normalised=False)
    unmeasured, failed = row("unmeasured", bits_per_byte=None), row("failed", state="failed", bits_per_byte=0.0)
    rows = [slow, row("quick"), worse, odd, unmeasured, failed, row("endless", bits_per_byte=float("inf"))]
    best, because = best_row(rows, quality, lower_is_better=True)
    assert best == rows[1]
    assert because == "best by bits/byte: quick (2.250); slow reached the same in no less time"
    assert best_row(rows[:3], quality, lower_is_better=False) == (worse, "best by bits/byte: last (3.000)")
    assert best_row([worse], quality, lower_is_better=True) == (worse, "") and best_row(
        [failed], quality, lower_is_better=True
    ) == (None, "")


big = st.floats(0.001, 1e15)


@given(
    st.lists(
        st.builds(
            row,
            st.text("abcdefgh-", min_size=1, max_size=40),
            bits_per_byte=st.floats(0.1, 99),
            perplexity=st.floats(1, 99_999),
            parameters=st.integers(0, 10**12),
            flops=st.floats(0, 1e25),
            seconds=st.floats(0, 99_999),
            tokens_per_second=st.one_of(st.none(), big),
            peak_memory=st.integers(0, 10**12),
            shared=st.booleans(),
            state=st.sampled_from(["finished", "failed", "planned"]),
            error=st.one_of(st.none(), st.text("abc ", max_size=200)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_no_line_is_wider_than_a_terminal(rows: list[dict[str, Any]]) -> None:
    assert all(len(line) <= 80 for line in table(rows, COLUMNS, 80))


def test_csv_holds_the_numbers_in_full() -> None:
    failed = {"name": "gru", "recipe": "gru", "settings": "", "state": "failed", "error": 'no, "never"\nagain'}
    first, second = csv.DictReader(io.StringIO(as_csv([row(bits_per_byte=2.2512345678901), failed], COLUMNS)))
    assert float(first["bits_per_byte"]) == 2.2512345678901
    assert (first["memory"], first["error"]) == ("resident", "")
    assert (second["state"], second["bits_per_byte"], second["error"]) == ("failed", "", 'no, "never"\nagain')


def test_markdown_says_what_columns_mean_and_what_failed() -> None:
    failed = {"name": "gru", "state": "failed", "error": "memory ran out"}
    text = as_markdown([row(), failed], COLUMNS, ["a note"], title="t", command="anaphora compare t", picture="r.png")
    assert "| lstm | 2.250 | 48.10 |" in text and "| gru | failed |" in text
    assert "- gru failed: memory ran out" in text and "- a note" in text and "![quality against cost](r.png)" in text


def test_notes_say_which_memory_and_whether_the_machine_was_shared() -> None:
    assert notes([row()]) == ["memory: resident, at its peak"]
    mixed = notes([row(), row("gru", memory="allocated on the GPU", shared=True)])
    assert "allocated on the GPU" in mixed[0] and "shared" in mixed[1]


def test_the_run_list_fits_a_terminal_too() -> None:
    plans = [Plan(counted=True, tokens=369_000), Plan(parameters=403_000, tokens=1_920_000, flops=4.6e12, seconds=84.0)]
    lines = run_list(["a" * 40, "lstm"], plans, ["", "goes on"])
    assert all(len(line) <= 80 for line in lines)
    assert lines[2].split() == ["lstm", "403k", "1.92M", "4.6e12", "1:24", "goes", "on"]
    assert "reads the text once" in lines[1]


def test_the_picture_is_a_png_of_what_is_finished_or_nothing() -> None:
    rows = [row("bigram", flops=0.0), row(), row("gru", state="failed")]
    assert draw([row(bits_per_byte=float("inf"))], COLUMNS[0], lower_is_better=True) is None
    drawn = draw(rows, COLUMNS[0], lower_is_better=True)
    assert drawn is not None and drawn.startswith(b"\x89PNG")
    assert draw(rows[1:2], COLUMNS[0], lower_is_better=True) is not None
    assert draw(rows[2:], COLUMNS[0], lower_is_better=True) is None


def test_a_row_that_diverged_does_not_flatten_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    seen: list[Any] = []
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *_, **__: seen.append((self.axes[0].get_ylim(), self.get_suptitle()))
    )
    draw([row(), row("gru", bits_per_byte=2.5), row("bad", bits_per_byte=7.8e9)], COLUMNS[0], lower_is_better=True)
    (((low, high), title),) = seen
    assert 2 < low < high < 3
    assert title == "far above: bad (7.8e09)"
    assert all(len(line) <= 80 for line in table([row(), row("bad", bits_per_byte=7.8e9, perplexity=1e300)], COLUMNS))


@contextmanager
def labeled(dots: list[tuple[float, float, str]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Boxes of the names, and places of the dots, in pixels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5), dpi=150)
    try:
        axis.set_xscale("log")
        axis.scatter([x for x, _, _ in dots], [y for _, y, _ in dots])
        axis.set_xlim(5e11, 2e12)
        axis.set_ylim(2.0, 2.6)
        figure.canvas.draw()
        yield label_dots(axis, dots), {name: axis.transData.transform((x, y)) for x, y, name in dots}
    finally:
        plt.close(figure)


def test_labels_of_dots_near_each_other_do_not_overlap() -> None:
    names = ["dan", "window", "rnn", "gru", "lstm", "conv", "transformer-decoder", "gpt2"]
    dots = [(1e12 * (1 + 0.02 * place), 2.3 + 0.004 * (place % 3), name) for place, name in enumerate(names)]
    with labeled(dots) as (boxes, _):
        found = list(boxes.values())
    assert len(found) == len(names)
    for place, box in enumerate(found):
        assert not any(box.overlaps(other) for other in found[:place])


@given(st.floats(0.98, 1.02), st.floats(-0.01, 0.01))
@settings(max_examples=8)
def test_the_name_beside_a_dot_is_its_own(across: float, up: float) -> None:
    """Two dots that nearly touch: each name, unless a line leads to it, is nearer to its own."""
    dots = [(1e12, 2.3, "window"), (1e12 * across, 2.3 + up, "rnn")]
    with labeled(dots) as (boxes, places):
        for name, other in (("window", "rnn"), ("rnn", "window")):
            box, near = boxes[name], {}
            for one in (name, other):
                x, y = places[one]
                near[one] = max(box.x0 - x, 0, x - box.x1) + max(box.y0 - y, 0, y - box.y1)
            beside = near[name] < 25  # pixels: no line leads there
            assert not beside or near[name] <= near[other]
