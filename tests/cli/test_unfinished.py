"""Translations that are broken off and gone on with: byte for byte what they would have been in one go."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.decoding import translate
from anaphora.pipelines.mixing import mix
from micro_runs import write_pairs

SMALL = ["--set", "batch_sentences=6"]
LINES = 48


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = write_pairs(tmp_path_factory.mktemp("long"), LINES)["source"]
    lines = file.read_text().splitlines()
    lines[7] = lines[44] = ""
    lines[20] = " ".join(lines[20:40])  # longer than the model can read
    file.write_text("\n".join(lines) + "\n")
    return file


class Breaking:
    """Breaks off after so many batches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.after, self.searched = -1, 0
        self.search = translate._search
        monkeypatch.setattr(translate, "_search", self)

    def __call__(self, *given: Any) -> Any:
        if self.searched == self.after:
            raise KeyboardInterrupt
        self.searched += 1
        return self.search(*given)

    def off(self, after: int) -> None:
        self.after, self.searched = after, 0


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Breaking]:
    monkeypatch.setattr(translate, "WINDOW_LINES", 4096)
    yield Breaking(monkeypatch)


def test_an_ensemble_with_other_weights_is_another_model(micro: Path, tmp_path: Path) -> None:
    names = []
    for number, weights in enumerate(([0.5, 0.5], [0.9, 0.1])):
        mix(tmp_path / str(number), [micro, micro], weights=weights)
        model = anaphora.load(tmp_path / str(number), "cpu")
        with model.keep_unfinished(tmp_path / "out", lambda line: None) as kept:  # type: ignore[union-attr]
            kept.file.seek(0)
            names.append(kept.file.readline())
    assert names[0] != names[1]


@pytest.mark.parametrize(
    "how",
    [
        ["--beam", 1],
        ["--n-best", 3],
        ["--beam", 1, "--alignments", "pharaoh"],
        ["--sample", "--seed", 3, "--n-best", 2],
        ["--mbr", "chrf", "--set", "mbr_samples=4", "--beam", 1],
        ["--prefix", "der", "--stop", "Hund", "--json"],
    ],
    ids=lambda how: how[0] if how[0] != "--beam" else how[-1],
)
def test_gone_on_with_it_is_the_same(
    how: list[Any], micro: Path, text: Path, say: Any, tmp_path: Path, breaking: Breaking
) -> None:
    words = ["translate", micro, text, *how, *SMALL, "--output"]
    whole, out, rest = tmp_path / "whole", tmp_path / "out", tmp_path / "out.unfinished"
    unbroken = say(*words, whole)
    assert unbroken.code == 0
    batches, done = breaking.searched, []
    for after in (1, 2, 1):
        breaking.off(after)
        answer = say(*words, out)
        assert answer.code == 130 and not out.exists() and rest.exists()
        said = f"lines are translated and kept in {rest}: repeat the command to continue"
        assert said in answer.err
        done.append(int(answer.err.split("interrupted; ")[1].split()[0]))
        assert f"interrupted; {done[-1]} of {LINES} {said}" in answer.err
        if len(done) > 1:
            assert f"{done[-2]} lines were translated before: going on\n" in answer.err
        if "--json" in how:
            assert json.loads(answer.last)["exit_code"] == 130
    assert 0 < done[0] < done[1] < done[2] < LINES
    breaking.off(-1)
    answer = say(*words, out)
    assert answer.code == 0, answer.err
    assert breaking.searched == batches - 4
    assert out.read_bytes() == whole.read_bytes()
    assert answer.out == unbroken.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]


def test_nothing_is_left_where_nothing_was_done(
    micro: Path, text: Path, say: Any, tmp_path: Path, breaking: Breaking
) -> None:
    breaking.off(0)
    answer = say("translate", micro, text, "--output", tmp_path / "out")
    assert (answer.code, list(tmp_path.iterdir())) == (130, [])
    assert answer.err == "anaphora: interrupted; no line was translated yet\n"
    answer = say("translate", micro, text)
    assert answer.err.startswith("anaphora: interrupted; nothing is saved but what was printed; with --output FILE")


def test_other_settings_another_model_or_another_text_begin_anew(
    micro: Path, text: Path, say: Any, tmp_path: Path, breaking: Breaking
) -> None:
    own = Path(shutil.copytree(micro, tmp_path / "own"))
    other = tmp_path / "other"
    out, rest = tmp_path / "out", tmp_path / "out.unfinished"

    def broken(*words: object) -> str:
        breaking.off(3)
        answer = say("translate", *words, *SMALL, "--output", out)
        assert answer.code == 130
        return str(answer.err)

    broken(own, text, "--beam", 1)
    before = rest.read_bytes()
    answer = say("translate", own, text, *SMALL, "--beam", 2, "--output", out)
    assert answer.code == 2 and rest.read_bytes() == before and not out.exists()
    assert answer.err == (
        f"anaphora: {rest}: holds a translation that was begun otherwise: decoding.beam was 1 and is 2; "
        "repeat the old command to go on from there, or add --force to begin anew\n"
    )
    assert "translated before: going on\n" in broken(own, text, "--beam", 1)
    said = "out.unfinished was begun otherwise (decoding.beam was 1 and is 2): beginning anew\n"
    assert said in broken(own, text, "--beam", 2, "--force")
    config = (own / "config.yaml").read_text()
    (own / "config.yaml").write_text(config + "\n")
    assert "was begun otherwise (the model is another): beginning anew" in broken(own, text, "--beam", 2, "--force")
    lines = text.read_text().splitlines()
    middling = next(place for place, line in enumerate(lines) if len(line.split()) == 8)
    for place, word, said in (
        (middling, "cat", "translated before: going on; what else was kept is of other lines, or damaged\n"),
        (20, "cat dog", "what out.unfinished keeps is of other lines, or damaged: beginning anew\n"),
    ):
        force = ["--force"] * (place == 20)
        lines[place] = " ".join([word, *lines[place].split()[1:]])
        other.write_text("\n".join(lines) + "\n")
        if force:
            before = rest.read_bytes()
            answer = say("translate", own, other, *SMALL, "--beam", 2, "--output", out)
            assert answer.code == 2 and rest.read_bytes() == before
            assert "holds a translation of other lines; give the lines of the old command to go on" in answer.err
        assert said in broken(own, other, "--beam", 2, *force)
    breaking.off(-1)
    assert say("translate", own, other, "--beam", 2, *SMALL, "--output", out).code == 0
    plain = say("translate", own, other, "--beam", 2, *SMALL)
    assert out.read_text() == plain.out
    assert not rest.exists()


def test_a_second_interruption_takes_nothing_away(
    micro: Path, text: Path, say: Any, tmp_path: Path, breaking: Breaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, rest = ["translate", micro, text, *SMALL, "--output", tmp_path / "out"], tmp_path / "out.unfinished"
    breaking.off(2)
    assert say(*words).code == 130
    before = rest.read_bytes()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("anaphora.decoding.unfinished_translation.Unfinished.recall", interrupted)
        answer = say(*words)
    assert answer.code == 130 and rest.read_bytes() == before
    said = f"interrupted; what was translated before is kept in {rest}: repeat the command to continue"
    assert answer.err == f"anaphora: {said}\n"
    breaking.off(-1)
    assert "lines were translated before: going on\n" in say(*words).err


@pytest.mark.parametrize("own", ["my own notes\nof many days\n", "my own note", '{"title": 1}\n', "[]", "7\n"])
def test_a_file_of_ones_own_is_left_alone(own: str, micro: Path, text: Path, say: Any, tmp_path: Path) -> None:
    rest = tmp_path / "out.unfinished"
    rest.write_text(own)
    for force in ([], ["--force"]):
        answer = say("translate", micro, text, *SMALL, "--output", tmp_path / "out", *force)
        assert answer.code == 2 and rest.read_text() == own and not (tmp_path / "out").exists()
        assert answer.err == (
            f"anaphora: {rest}: is no unfinished translation of Anaphora: it is left alone; "
            "rename it, or choose another file for the output\n"
        )


def test_a_torn_or_damaged_record_is_not_believed(
    micro: Path, text: Path, say: Any, tmp_path: Path, breaking: Breaking
) -> None:
    out, rest = tmp_path / "out", tmp_path / "out.unfinished"
    words = ["translate", micro, text, "--beam", 1, *SMALL]
    plain = say(*words).out
    for damage in (
        lambda content: content[:-5],
        lambda content: content[: len(content) // 2] + b"7" + content[len(content) // 2 + 1 :],
        lambda content: content[:-2000] + bytes(2000),
        lambda content: content[:3],
        lambda content: b"",
    ):
        breaking.off(3)
        assert say(*words, "--output", out).code == 130
        rest.write_bytes(damage(rest.read_bytes()))
        breaking.off(-1)
        assert say(*words, "--output", out, "--force").code == 0
        assert out.read_text() == plain
        assert not rest.exists()
        out.unlink()


def test_from_stdin_what_was_read_must_be_the_same(
    micro: Path, text: Path, say: Any, tmp_path: Path, breaking: Breaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    words = ["translate", micro, "-", "--beam", 1, *SMALL, "--output", out]
    whole = say("translate", micro, text, "--beam", 1, *SMALL).out

    def piped(content: bytes) -> Any:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return say(*words)

    breaking.off(3)
    answer = piped(text.read_bytes())
    assert "lines are translated and kept in" in answer.err and f" of {LINES}" not in answer.err
    breaking.off(-1)
    answer = piped(text.read_bytes())
    assert answer.code == 0 and "translated before: going on\n" in answer.err
    assert out.read_text() == whole


def test_a_mistake_in_the_middle_keeps_what_is_done(
    micro: Path, say: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"a dog\n" * 5000 + b"\xff\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    words = ["translate", micro, "-", "--beam", 1, "--set", "max_length=2", "--output", tmp_path / "out"]
    answer = say(*words)
    assert answer.code == 2 and "line" in answer.err and "UTF-8" in answer.err
    assert "4,096 lines are translated and kept in" in answer.err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a dog\n" * 5001)))
    answer = say(*words)
    assert answer.code == 0 and "4,096 lines were translated before: going on" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
