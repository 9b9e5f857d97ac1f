"""`anaphora align` and `translate --alignments`: links, pictures, error rates, and mistakes with their cures."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from anaphora.alignment.model_alignment import Alignment


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {"source": tmp_path / "a.en", "target": tmp_path / "a.de", "gold": tmp_path / "a.align"}
    made["source"].write_text("the old dog\na cat, here\n", encoding="utf-8")
    made["target"].write_text("der alte Hund\nein Kater\n", encoding="utf-8")
    made["gold"].write_text("0-0 1-1 2-2\n0-0 1?1\n", encoding="utf-8")
    return made


def sides(files: dict[str, Path]) -> list[Any]:
    return ["--source", files["source"], "--target", files["target"], "--device", "cpu"]


def test_links_a_line_a_pair(say: Any, micro: Path, files: dict[str, Path]) -> None:
    assert "row = " not in say("align", micro, *sides(files)).err, "the method is told where it is asked for"
    answer = say("align", micro, *sides(files), "-v")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 2
    assert "row = the step that " in answer.err
    assert "words count from 0 (punctuation)" in answer.err
    later = say("align", micro, *sides(files), "--base", 1)
    for line, shifted in zip(answer.out.splitlines(), later.out.splitlines()):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert shifted.split() == [f"{i + 1}-{j + 1}" for i, j in links]


def test_json_is_a_trace_for_each_pair(say: Any, micro: Path, files: dict[str, Path]) -> None:
    document = json.loads(say("align", micro, *sides(files), "--json", "--method", "0.1:union").last)
    first, second = (Alignment.from_document(trace) for trace in document["alignments"])
    assert [word.text for word in first.target] == ["der", "alte", "Hund"]
    assert [word.text for word in second.source] == ["a", "cat", ",", "here"]
    assert first.method.name == "0.1:predicts:union"
    assert document["reason"] == "you asked for it"


def test_error_rates_beside_ibm1(say: Any, micro: Path, files: dict[str, Path]) -> None:
    answer = say("align", micro, *sides(files), "--gold", files["gold"], "--ibm1")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("AER ")
    assert "4 sure and 1 more possible links" in answer.out
    assert "IBM-1 " in answer.out
    document = json.loads(say("align", micro, *sides(files), "--gold", files["gold"], "--ibm1", "--json").last)
    assert document["ibm1"]["scores"].keys() >= {"intersection", "union"}
    said = [Alignment.from_document(trace).links for trace in document["alignments"]]
    assert document["score"]["links"] == sum(map(len, said))


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_pictures(say: Any, micro: Path, files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    picture = tmp_path / f"second.{kind}"
    answer = say("align", micro, *sides(files), "--line", 2, "--picture", picture)
    assert answer.code == 0
    assert "a cat, here / ein Kater" in answer.out
    content = picture.read_bytes()
    assert content.startswith(b"<svg " if kind == "svg" else b"\x89PNG")
    again = say("align", micro, *sides(files), "--picture", picture)
    assert (again.code, picture.read_bytes()) == (2, content)
    assert "already exists" in again.err
    assert say("align", micro, *sides(files), "--picture", picture, "--force").code == 0
    assert picture.read_bytes() != content


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_two_models_side_by_side(say: Any, micro: Path, files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    one, two = tmp_path / f"one.{kind}", tmp_path / f"two.{kind}"
    other = shutil.copytree(micro, tmp_path / "other one" / micro.name)  # of one name
    assert say("align", micro, *sides(files), "--picture", one).code == 0
    answer = say("align", micro, "--beside", other, *sides(files), "--picture", two, "--json")
    assert answer.code == 0, answer.err
    (beside,) = json.loads(answer.last)["beside"]
    assert Alignment.from_document(beside).target_text == "der alte Hund"
    wide = [_width(file.read_bytes(), kind) for file in (one, two)]
    assert wide[1] >= 1.9 * wide[0]
    assert kind == "png" or f"other one/{micro.name}" in two.read_text(encoding="utf-8")
    terminal = say("align", micro, "--beside", other, *sides(files), "--line", 1)
    assert terminal.out.count("●") == 2 * say("align", micro, *sides(files), "--line", 1).out.count("●")


def test_a_pair_that_the_other_model_cannot_read(say: Any, micro: Path, files: dict[str, Path], tmp_path: Path) -> None:
    other = shutil.copytree(micro, tmp_path / "short")
    settings = (other / "config.yaml").read_text(encoding="utf-8")
    assert "max_length: 64\n" in settings
    (other / "config.yaml").write_text(settings.replace("max_length: 64\n", "max_length: 3\n"), encoding="utf-8")
    answer = say("align", micro, "--beside", other, *sides(files), "--line", 2)
    assert answer.code == 0, answer.err
    assert "short: the pair is not aligned: the " in answer.err


def _width(content: bytes, kind: str) -> int:
    found = int.from_bytes(content[16:20], "big") if kind == "png" else re.search(rb'width="(\d+)"', content)
    return found if isinstance(found, int) else int(found[1])  # type: ignore[index]


def test_a_heat_map_in_the_terminal(
    say: Any, micro: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    answer = say("align", micro, *sides(files), "--line", 1)
    assert answer.code == 0
    assert "●" in answer.out
    assert all(len(line) <= 60 for line in answer.out.splitlines()[:-1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--base", 2], "--base must be 0 or 1, not 2; give the number of the first word"),
        (["--split", "letters"], "unknown --split letters; use punctuation or whitespace"),
        (["--method", "nose"], "there is no alignment method 'nose'; write LAYER.HEAD"),
        (["--method", "5.0"], "there is no decoder layer 5; choose one of 0 to 0"),
        (["--line", 3], "there is no line 3; choose one of 1 to 2"),
        (["--line", 0], "there is no line 0"),
        (["--picture", "x.gif"], "x.gif: is not a supported image format; use a name ending in .svg or .png"),
        (["--beside", "x"], "--beside needs a pair to draw; add --line N or --picture FILE"),
        (["--line", 1, "--beside", "nowhere"], "nowhere: there is no such folder"),
        (["--ibm1"], "--ibm1 needs gold alignments; add --gold FILE"),
        (["--gold", "none.align"], "none.align: cannot be read"),
    ],
)
def test_mistakes(say: Any, micro: Path, files: dict[str, Path], words: list[Any], message: str) -> None:
    answer = say("align", micro, *sides(files), *words)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_gold_that_does_not_fit_names_its_line(say: Any, micro: Path, files: dict[str, Path]) -> None:
    files["gold"].write_text("0-0\n4-0\n", encoding="utf-8")
    answer = say("align", micro, *sides(files), "--gold", files["gold"])
    assert answer.code == 2
    assert "a.align:2: the link 4-0 is out of range: the source has 4 words" in answer.err
    assert "--base 1" in answer.err
    assert say("align", micro, *sides(files), "--gold", files["gold"], "--base", 1).code == 2  # 0-0: words from 1


def test_translations_with_links(say: Any, micro: Path, files: dict[str, Path], tmp_path: Path) -> None:
    plain = say("translate", micro, files["source"], "--device", "cpu")
    answer = say("translate", micro, files["source"], "--device", "cpu", "--alignments", "pharaoh")
    assert answer.code == 0
    assert [line.split(" ||| ")[0] for line in answer.out.splitlines()] == plain.out.splitlines()
    traces = say("translate", micro, files["source"], "--device", "cpu", "--alignments", "json").out.splitlines()
    links = [Alignment.from_document(json.loads(trace)).pharaoh() for trace in traces]
    assert [line.split(" ||| ")[1] for line in answer.out.splitlines()] == links
    words = ["--alignments", "pharaoh", "--json"]
    document = json.loads(say("translate", micro, files["source"], "--device", "cpu", *words).last)
    assert [Alignment.from_document(t["alignment"]).pharaoh() for t in document["translations"]] == links


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alignments", "giza"], "unknown --alignments giza; use pharaoh or json"),
    ],
)
def test_mistakes_of_translate(say: Any, micro: Path, files: dict[str, Path], words: list[Any], message: str) -> None:
    answer = say("translate", micro, files["source"], "--device", "cpu", *words)
    assert answer.code == 2
    assert message in answer.err


def test_every_candidate_is_aligned(say: Any, micro: Path, files: dict[str, Path]) -> None:
    words = ("translate", micro, files["source"], "--device", "cpu", "--n-best", 2, "--beam", 2)
    lines = say(*words, "--alignments", "pharaoh").out.splitlines()
    plain = say(*words).out.splitlines()
    assert [line.partition(" ||| ")[0] for line in lines] == plain
    traces = [json.loads(line) for line in say(*words, "--alignments", "json").out.splitlines()]
    assert [(trace["index"], trace["rank"]) for trace in traces] == [
        tuple(map(int, line.split("\t")[:2])) for line in plain
    ]
    links = [" ".join(f"{i}-{j}" for i, j in trace["links"]) for trace in traces]
    assert links == [line.partition(" ||| ")[2] for line in lines]


def test_traces_count_from_the_base_that_was_asked_for(say: Any, micro: Path, files: dict[str, Path]) -> None:
    zero, one = (json.loads(say("align", micro, *sides(files), "--json", "--base", base).last) for base in (0, 1))
    assert (zero["base"], one["base"], one["alignments"][0]["base"]) == (0, 1, 1)
    for a, b in zip(zero["alignments"], one["alignments"]):
        assert [[i + 1, j + 1] for i, j in a["links"]] == b["links"]


def test_no_control_characters_reach_the_terminal(say: Any, micro: Path, tmp_path: Path) -> None:
    for name in ("odd.en", "odd.de"):
        (tmp_path / name).write_text("a \x1b]0;title\x07 dog \x1b[31m " + "long " * 40 + "\n", encoding="utf-8")
    words = ("align", micro, "--source", tmp_path / "odd.en", "--target", tmp_path / "odd.de", "--device", "cpu")
    for more in (("--picture", tmp_path / "odd.svg"), ("--line", 1)):
        answer = say(*words, *more)
        assert answer.code == 0
        assert "\x1b]" not in answer.out + answer.err
        assert "\x07" not in answer.out + answer.err
