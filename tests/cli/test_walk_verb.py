"""`anaphora walk`: the lectures' examples, a model's heads, one's own matrices; text, JSON, pictures, and mistakes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from anaphora.explain.trace import Trace
from anaphora.explain.trace_parts import Check, Walk
from anaphora.explain.walk import walk_attention
from anaphora.lectures import EXAMPLES, Example
from micro_runs import MICRO, command

SENTENCE = "the old dog sees a cat."


def small() -> list[Walk]:
    """An example of the tests' own: the lectures' have their own tests."""
    walk = walk_attention(
        [[0, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], rows=["find B"], columns=["A", "B"], title="Find B"
    )
    table = Walk("table", "A table", "No attention in it.", [], [Check("it is there", 0.0, 0.0)])
    return [walk, table]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(EXAMPLES, "find-b", Example("find-b", "finds the B", "walk.md", small))
    return "find-b"


@pytest.fixture
def matrices(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "tokens: [A, A, B, A]\nE: [[1, 0], [1, 0], [0, 1], [1, 0]]\nW_Q: [[10, 0], [0, 10]]\n"
        "W_K: [[1, 0], [0, 1]]\nW_V: [[1, 0], [0, 1]]\nscore: dot\ncausal: true\n",
        encoding="utf-8",
    )
    return file


# Examples by name -----------------------------------------------------------------------------------------------------


def test_alone_it_lists_the_examples(say: Any, example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = say("walk")
    assert answer.code == 0
    for name in EXAMPLES:
        assert name in answer.out
    assert "finds the B" in answer.out
    assert "anaphora walk --matrices FILE" in " ".join(answer.out.split())
    assert max(map(len, answer.out.splitlines())) <= 80
    listed = json.loads(say("walk", "--json").last)["examples"]
    assert [one["name"] for one in listed] == list(EXAMPLES)


def test_the_list_needs_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.argv = ['anaphora', 'walk']\n"
        "from anaphora.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules, 'the list loads torch'"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


def test_one_by_name(say: Any, example: str) -> None:
    answer = say("walk", example, "--cell", "find B,B")
    assert answer.code == 0
    assert answer.out.startswith("Find B\n")
    assert "S = Q Kᵀ / √2: " in answer.out
    assert "q·k = 0·0 + 1·1 = 1" in answer.out
    assert "\nA table\nNo attention in it.\n" in answer.out
    assert answer.out.endswith("holds: it is there (exactly)\n")
    trace = json.loads(say("walk", example, "--json", "--cell", "0,1").last)
    assert trace["schema"] == "trace/1"
    assert [walk["name"] for walk in trace["walks"]] == ["attention", "table"]
    assert trace["walks"][0]["cells"][0]["column"] == "B"


def test_a_failing_check_is_our_mistake_and_says_so(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> list[Walk]:
        return [Walk("w", "Wrong", "", [], [Check("one is two", 1.0, 0.0)])]

    monkeypatch.setitem(EXAMPLES, "wrong", Example("wrong", "", "walk.md", wrong))
    answer = say("walk", "wrong")
    assert answer.code == 1
    assert "FAILS: one is two" in answer.out
    assert "1 check fails: this is a bug" in answer.err


# A model --------------------------------------------------------------------------------------------------------------


def test_a_model_and_a_sentence(say: Any, micro: Path) -> None:
    answer = say("walk", micro, SENTENCE, "--device", "cpu")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("Cross attention, layer 0, head ")
    assert "Row t predicts y_t" in answer.out
    assert "FAILS" not in answer.out
    for what in ("logits are the fast run's", "same tokens", "as probable as the search did", "layer output"):
        assert what in answer.out
    assert "to choose from: encoder layer 0 with heads 0 to 1; decoder layer 0 with" in " ".join(answer.err.split())
    assert max(map(len, [*answer.out.splitlines(), *answer.err.splitlines()])) <= 80


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_part_layer_head_and_query(say: Any, micro: Path, part: str) -> None:
    words = ["--target", "der alte Hund", "--part", part, "--layer", 0, "--head", 1, "--query", 0, "--cell", "0,0"]
    answer = say("walk", micro, SENTENCE, "--device", "cpu", *words, "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.last)
    (walk,) = document["walks"]
    assert (walk["settings"]["part"], walk["settings"]["head"]) == (part, 1)
    assert all(check["holds"] for check in walk["checks"])
    weights = next(step for step in walk["steps"] if step["symbol"] == "A")
    assert len(weights["rows"]) == 1
    assert sum(value or 0.0 for value in weights["values"][0]) == pytest.approx(1, abs=1e-5)
    assert len(next(step for step in walk["steps"] if step["symbol"] == "out")["values"][0]) == 16  # all dimensions
    assert [segment["id"] for segment in document["segments"]] == ["src", "tgt_in", "tgt"]
    assert document["segments"][2]["text"] == "der alte Hund"
    assert len(document["model"]["revision"]) == 32
    assert walk["cells"][0]["steps"][0]["lines"][0].startswith("q·k = ")


def test_the_trace_is_written_once_and_read_back(say: Any, micro: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    answer = say("walk", micro, SENTENCE, "--device", "cpu", "--trace", file)
    assert answer.code == 0
    trace = Trace.read(file)
    assert trace.walks[0].holds
    assert {attention.module for attention in trace.attention} == {
        "encoder.blocks.0.attention",
        "decoder.blocks.0.attention",
        "decoder.blocks.0.cross_attention",
    }
    before = file.read_bytes()
    again = say("walk", micro, SENTENCE, "--device", "cpu", "--trace", file)
    assert again.code == 2
    assert "already exists" in again.err
    assert file.read_bytes() == before
    assert say("walk", micro, "a cat.", "--device", "cpu", "--trace", file, "--force").code == 0
    assert file.read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--part", "middle"], "there is no part 'middle'; this model has encoder, decoder, cross"),
        (["--layer", 7], "there is no layer 7 in cross; it has layer 0"),
        (["--head", 7], "there is no head 7 in layer 0 of cross; it has heads 0 to 1"),
        (["--target", "der Hund", "--query", "Maus"], "there is no query 'Maus'; there are 0 "),
        (["--target", "der Hund", "--cell", "99,0"], "there is no row '99'; there are 0 "),
        (["--cell", "0"], "--cell 0 names no column"),
    ],
)
def test_what_is_not_there(say: Any, micro: Path, words: list[Any], message: str) -> None:
    answer = say("walk", micro, SENTENCE, "--device", "cpu", *words)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.startswith("anaphora: ") or "anaphora: " in answer.err.splitlines()[-1]
    assert "Traceback" not in answer.err


def test_sentences_that_cannot_be_walked(say: Any, micro: Path) -> None:
    for sentence, message in (
        ("", "there is nothing to read"),
        ("dog. " * 60, "too long to be read in one piece"),
    ):
        answer = say("walk", micro, sentence, "--device", "cpu")
        assert (answer.code, message in answer.err) == (2, True), answer.err
    nothing = say("walk", micro, "", "--target", "der Hund", "--device", "cpu")
    assert (nothing.code, "there is nothing to read" in nothing.err) == (2, True), nothing.err
    long = say("walk", micro, "dog. " * 200, "--target", "der Hund", "--device", "cpu")
    assert long.code == 2
    assert long.err.endswith("; shorten it\n")
    odd = say(
        "walk",
        micro,
        "👍 \x1b[31m ⟨s⟩ & <b>\u2028\u0000",
        "--target",
        "שלום 你好",
        "--device",
        "cpu",
        "--part",
        "encoder",
    )
    assert odd.code == 0, odd.err
    assert "\x1b" not in odd.out
    empty = say("walk", micro, "dog", "--target", "", "--device", "cpu")
    assert empty.code == 0, empty.err


def test_damaged_weights_are_the_users_to_mend(say: Any, micro: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anaphora import api

    def damaged(*words: Any) -> Any:
        loaded = load(*words)
        for parameter in loaded.model.parameters():
            parameter.data.fill_(float("nan"))
        return loaded

    load = api.load_translator
    monkeypatch.setattr(api, "load_translator", damaged)
    for more in ([], ["--target", "der Hund"], ["--part", "encoder", "--target", "der Hund"]):
        answer = say("walk", micro, SENTENCE, "--device", "cpu", *more)
        assert answer.code == 2
        assert "its weights are damaged; take an earlier checkpoint" in answer.err
        assert "Traceback" not in answer.err


# Matrices -------------------------------------------------------------------------------------------------------------


def test_matrices_of_ones_own(say: Any, matrices: Path) -> None:
    answer = say("walk", "--matrices", matrices, "--cell", "2,B")
    assert answer.code == 0
    assert "The matrices of mine.yaml" in answer.out
    assert "  B   0   0  10   ·" in answer.out
    assert "e^10 / (e^0 + e^0 + e^10) = 22026 / 22028 = 0.9999" in answer.out
    document = json.loads(say("walk", "--matrices", matrices, "--json").last)
    scores = next(step for step in document["walks"][0]["steps"] if step["symbol"] == "S")
    assert scores["values"][2] == [0, 0, 10, 0]
    masked = next(step for step in document["walks"][0]["steps"] if step["symbol"] == "masked")
    assert masked["values"][0] == [10, None, None, None]


@pytest.mark.parametrize("columns", ["0", "1", "40", "nonsense"])
def test_any_width_of_the_terminal_shows_the_tables(
    say: Any, matrices: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    answer = say("walk", "--matrices", matrices)
    assert answer.code == 0
    assert "S = Q Kᵀ" in answer.out
    if columns == "40":
        assert max(map(len, answer.out.splitlines())) <= 40


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_titles_and_words_that_no_terminal_may_get(say: Any, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "mine.json"
    rows = [[1, 0], [0, 1]]
    odd = {"tokens": ["a\nb", "\ud800"], "title": "\ud800 \x1b[31m\nred", "Q": rows, "K": rows, "V": rows}
    file.write_text(json.dumps(odd), encoding="utf-8")
    picture = tmp_path / f"walk.{kind}"
    answer = say("walk", "--matrices", file, "--picture", picture)
    assert answer.code == 0, answer.err
    assert answer.out == f"{picture} shows \ufffd \ufffd[31m red\n"
    assert picture.exists()
    printed = say("walk", "--matrices", file)
    assert printed.code == 0, printed.err
    assert "\x1b" not in printed.out
    assert printed.out.splitlines()[0] == "\ufffd \ufffd[31m red"


def test_a_mistake_in_a_file_is_one_line(say: Any, matrices: Path) -> None:
    matrices.write_text(matrices.read_text(encoding="utf-8") + "mask: [[1, 1]]\n", encoding="utf-8")
    answer = say("walk", "--matrices", matrices, "--json")
    assert answer.code == 2
    assert answer.err.splitlines() == [
        f"anaphora: {matrices}: mask is 1 × 2, but there are 4 queries and 4 keys; make it 4 × 4"
    ]
    assert json.loads(answer.last)["exit_code"] == 2


def test_the_page_shows_what_the_command_prints(say: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "walk.md").read_text(encoding="utf-8")
    document = page.split("```yaml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "mine.yaml").write_text(document, encoding="utf-8")
    shown = page.split("$ anaphora walk --matrices mine.yaml --cell 2,B\n…\n", 1)[1].split("```", 1)[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    answer = say("walk", "--matrices", "mine.yaml", "--cell", "2,B")
    assert answer.out.endswith("\n" + shown)


# Pictures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_pictures(say: Any, matrices: Path, tmp_path: Path, kind: str) -> None:
    picture = tmp_path / f"walk.{kind}"
    answer = say("walk", "--matrices", matrices, "--picture", picture)
    assert answer.code == 0
    assert answer.out == f"{picture} shows The matrices of mine.yaml\n"
    content = picture.read_bytes()
    if kind == "svg":
        ElementTree.fromstring(content)
    assert content.startswith(b"<svg " if kind == "svg" else b"\x89PNG")
    again = say("walk", "--matrices", matrices, "--picture", picture)
    assert (again.code, picture.read_bytes()) == (2, content)


# What makes no sense --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zzz"], "there is no example and no folder called 'zzz'; known: "),
        (["find-c"], "there is no example and no folder called 'find-c'; did you mean 'find-b'?"),
        (["find-b", "--head", 1], "--head is for a model and a sentence"),
        (["find-b", "--query", "x"], "--query is for a model and a sentence"),
        (["find-b", "--device", "cpu"], "--device is for a model and a sentence"),
        (["--matrices", "m.yaml", "--device", "cpu"], "--device is for a model and a sentence"),
        (["find-b", "foo"], "the example find-b takes no sentence; leave it out: anaphora walk find-b"),
        (["--cell", "0,0"], "no example and no model is given"),
        (["find-b", "--matrices", "m.yaml"], "--matrices takes no 'find-b' beside it"),
        (
            ["find-b", "--picture", "walk.gif"],
            "walk.gif: is not a supported image format; use a name ending in .svg or .png",
        ),
        (["find-b", "--picture", "no/such/walk.svg"], "there is no such folder"),
        (["find-b", "--picture", "a.svg", "--trace", "a.svg"], "cannot be both the picture and the trace"),
        (["find-b", "--cell", "B,B"], "there is no row 'B'; there are 0 find B"),
        (["no/such/model", SENTENCE], "no/such/model"),
    ],
)
def test_mistakes_name_what_there_is(say: Any, example: str, words: list[Any], message: str) -> None:
    answer = say("walk", *words)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_a_folder_without_a_sentence(say: Any, micro: Path) -> None:
    answer = say("walk", micro)
    assert answer.code == 2
    assert "no sentence was given for this model" in answer.err


def test_the_examples_of_the_help_can_be_followed(
    say: Any, corpus: dict[str, Path], matrices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As written, but for the model: it has the words of the example, and is told a translation with the word that
    looks: it has learned nothing."""
    import anaphora
    from anaphora.cli.walk import walk

    monkeypatch.chdir(matrices.parent)
    files = {}
    for side, sentence in (("source", "The old man reads."), ("target", "Der alte Mann liest.")):
        files[side] = Path(corpus[side].name)
        files[side].write_text(corpus[side].read_text(encoding="utf-8") + f"{sentence}\n", encoding="utf-8")
    words = {"tokenizer.kind": "word", "tokenizer.vocabulary": 300, "data.hold_out": 0}
    anaphora.train("demo/model", **files, settings={**MICRO, **words}, device="cpu")
    shape = {"model.dim": 16, "model.layers": 1, "model.heads": 2, "model.senses": 4, "training.max_steps": 1}
    shape |= {"training.context": 16, "tokenizer.vocabulary": 300, "data.hold_out": 0}
    anaphora.train("backpack", text=files["source"], recipe="backpack", settings=shape, device="cpu")
    lines = [line.strip() for line in (walk.__doc__ or "").splitlines() if line.strip().startswith("anaphora walk")]
    assert len(lines) >= 6
    for line in lines:
        words = shlex.split(line)[1:]
        told = ["--target", "Der alte Mann liest.", "--device", "cpu"] if "demo/model" in words else []
        answer = say(*words, *told)
        assert answer.code == 0, (line, answer.err)


def test_help_shows_examples_in_80_columns() -> None:
    ended = command("walk", "--help", env={"COLUMNS": "80"})
    assert ended.returncode == 0
    assert "anaphora walk --matrices mine.yaml" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80
