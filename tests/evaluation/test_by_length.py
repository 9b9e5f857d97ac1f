"""BLEU by the length of the source: bins by hand, every line in one of them, the picture, the command."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anaphora
from anaphora.cli.main import main
from anaphora.errors import UserError
from anaphora.evaluation.by_length import MIN_BIN_LINES, LengthBin, by_length, fewest
from anaphora.evaluation.translation_metrics import bleu
from anaphora.explain.draw.lengths_picture import lengths_picture
from micro_runs import pairs


def test_bins_by_hand() -> None:
    right, wrong = "a b c d e f", "u v w x y z"
    lengths = [3] * MIN_BIN_LINES + [6] * MIN_BIN_LINES + [14] * MIN_BIN_LINES
    said = (
        [right] * MIN_BIN_LINES
        + [right] * (MIN_BIN_LINES // 2)
        + [wrong] * (MIN_BIN_LINES - MIN_BIN_LINES // 2)
        + [wrong] * MIN_BIN_LINES
    )
    found = by_length(lengths, said, [right] * len(said))
    assert [(one.name, one.lines) for one in found] == [
        ("1–5", MIN_BIN_LINES),
        ("6–10", MIN_BIN_LINES),
        ("11–14", MIN_BIN_LINES),
    ]
    assert found[0].bleu == pytest.approx(100)
    assert found[0].bleu > found[1].bleu > found[2].bleu
    assert found[1].length_ratio == 1
    (whole,) = by_length(lengths, said, [right] * len(said), width=100)
    assert whole.bleu == pytest.approx(bleu(said, [right] * len(said)).value)


def test_few_lines_join_their_neighbours() -> None:
    lengths = [2] + [8] * MIN_BIN_LINES + [12] * MIN_BIN_LINES + [17, 18, 33]
    found = by_length(lengths, ["a"] * len(lengths), ["a"] * len(lengths))
    assert [(one.name, one.lines) for one in found] == [
        ("1–10", MIN_BIN_LINES + 1),
        ("11–15", MIN_BIN_LINES),
        ("16–33", 3),
    ]
    assert [one.name for one in by_length([0, 1, 40], ["a"] * 3, ["a"] * 3)] == ["1–5", "36–40"]
    assert by_length([0], [""], [""])[0].longest == 1
    assert by_length([], [], []) == []


def test_fifty_lines_have_the_bins_that_were_asked_for() -> None:
    lengths = [2 + number % 24 for number in range(50)]
    found = by_length(lengths, ["a"] * 50, ["a"] * 50)
    assert [one.name for one in found] == ["1–5", "6–10", "11–15", "16–20", "21–25"]
    assert [fewest(lines) for lines in (0, 10, 50, 399, 400, 5000)] == [1, 1, 2, 19, 20, 20]


@given(st.lists(st.integers(0, 60), max_size=120), st.integers(1, 20))
def test_every_line_is_in_one_bin(lengths: list[int], width: int) -> None:
    found = by_length(lengths, ["a b"] * len(lengths), ["a b"] * len(lengths), width=width)
    assert sum(one.lines for one in found) == len(lengths)
    for one, later in pairwise(found):
        assert one.shortest <= one.longest < later.shortest
    if len(found) > 1:
        assert found[0].lines >= fewest(len(lengths))
        assert found[-1].lines >= fewest(len(lengths))
    for one in found:
        assert one.lines == sum(one.shortest <= max(length, 1) <= one.longest for length in lengths)


def test_what_is_no_bin() -> None:
    with pytest.raises(ValueError, match="bin width must be at least 1, not 0"):
        by_length([1], ["a"], ["a"], width=0)
    with pytest.raises(ValueError, match="2 lengths"):
        by_length([1, 2], ["a"], ["a"])


BINS = [LengthBin(1, 5, 30, 40.0, 60.0, 1.0), LengthBin(6, 10, 1, 0.0, 9.0, 0.5)]


def test_the_picture() -> None:
    assert lengths_picture({"a": BINS})[:4] == b"\x89PNG"
    drawn = lengths_picture({"with": BINS, "without": BINS}, form="svg")
    assert b"<svg" in drawn
    assert drawn == lengths_picture({"with": BINS, "without": BINS}, form="svg")  # the same bytes every time
    assert lengths_picture({"nothing right": [LengthBin(1, 5, 3, 0.0, 0.0, 1.0)]})


def test_through_the_command_line(
    micro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    both = pairs(60, seed=9)
    for place, side in enumerate(("a.en", "a.de")):
        (tmp_path / side).write_text("".join(pair[place] + "\n" for pair in both), encoding="utf-8")

    def say(*more: object) -> tuple[int, str, str]:
        files = ("--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--beam", 1)
        monkeypatch.setattr(sys, "argv", ["anaphora", "evaluate", str(micro), *map(str, (*files, *more))])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capfd.readouterr()

    code, out, err = say("--by-length", 4, "--picture", tmp_path / "a.svg", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert sum(one["lines"] for one in document["by_length"]) == 60
    assert (tmp_path / "a.svg").read_bytes().lstrip().startswith(b"<?xml")
    (tmp_path / "a.json").write_text(out)
    script = Path(__file__).parents[2] / "benchmarks" / "by_length.py"
    done = subprocess.run([sys.executable, script, tmp_path / "a.json"], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[micro.name]
    for wrong, says in (
        (("--by-length", 0), "--by-length must be at least 1"),
        (("--picture", tmp_path / "b.png"), "add --by-length"),
        (("--by-length", 4, "--picture", tmp_path / "b.jpg"), "not a supported image format"),
        (("--by-length", 4, "--picture", tmp_path / "a.svg"), "already exists"),
    ):
        code, _, err = say(*wrong)
        assert code == 2
        assert says in " ".join(err.split())


def test_a_table_for_people(micro: Path) -> None:
    model = anaphora.load(micro, "cpu")
    sources, targets = zip(*pairs(45, seed=9))
    found = model.evaluate(sources, targets, by_length=3, beam=1)
    assert found.by_length is not None
    assert sum(one.lines for one in found.by_length) == 45
    assert model.evaluate(sources[:2], targets[:2]).by_length is None
    with pytest.raises(UserError, match="by_length must be at least 1"):
        model.evaluate(sources, targets, by_length=-1)
