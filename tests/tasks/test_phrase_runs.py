"""Word vectors of phrases: what a run keeps of them, going on after a kill, on with other text, other settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaphora
from anaphora.data.phrases import read_phrases
from anaphora.errors import UserError
from deadly import Deadly, in_a_child
from vector_runs import learn

PHRASES: dict[str, Any] = {"data.phrases": 2, "data.phrase_threshold": 8.0, "training.epochs": 2}


def newspaper(lines: int = 600, seed: int = 0, names: tuple[str, ...] = ("new york", "new york times")) -> str:
    draw, text = np.random.default_rng(seed), []
    for _ in range(lines):
        words = [f"w{n}" for n in draw.integers(40, size=9)]
        words[4:4] = names[draw.integers(len(names))].split()
        text.append(" ".join(words) + "\n")
    return "".join(text)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("phrases") / "text.txt"
    file.write_text(newspaper())
    return file


@pytest.fixture(scope="module")
def run(text: Path) -> Path:
    """A finished run. Read only."""
    learn(text.parent / "run", text=text, settings=PHRASES)
    return text.parent / "run"


def words_of(folder: Path) -> set[str]:
    return {word for word in anaphora.load(folder).vectors.index_to_key if not word.startswith("w")}  # type: ignore[union-attr]


def test_a_run_has_vectors_of_phrases_and_says_so(run: Path, text: Path) -> None:
    assert words_of(run) == {"new_york", "new_york_times"}  # new, york and times are never seen alone
    assert {phrase.name for phrase in read_phrases(run / "phrases.tsv")} >= {"new_york", "new_york_times"}
    said = json.loads((run / "metrics.json").read_text())["phrases"]
    assert said["vocabulary"] == 2 and said["joined"] == newspaper().count("new york") + newspaper().count("times")
    assert "phrases were found" in (run / "card.md").read_text()
    assert learn(run, text=text, settings=PHRASES).reason == "it was finished already"


def test_glove_has_them_too(text: Path, tmp_path: Path) -> None:
    settings = {**PHRASES, "model.dim": 4, "training.threads": 1}
    anaphora.train(tmp_path / "run", text=text, recipe="glove", settings=settings)
    assert words_of(tmp_path / "run") == {"new_york", "new_york_times"}


def test_a_run_killed_anywhere_goes_on_to_the_same_bytes(run: Path, text: Path, tmp_path: Path) -> None:
    killed = 0
    for at in (2, 5, 9, 30):
        folder = tmp_path / f"run{at}"

        def work(at: int = at, folder: Path = folder) -> None:
            with pytest.MonkeyPatch.context() as patch:
                Deadly(patch, at)
                learn(folder, text=text, settings={**PHRASES, "training.checkpoint_seconds": 1e-9})

        killed += in_a_child(work) != 0
        learn(folder, text=text, settings=PHRASES)
        for name in ("model.safetensors", "phrases.tsv"):
            assert (folder / name).read_bytes() == (run / name).read_bytes()
    assert killed >= 3


def test_going_on_joins_what_was_joined_before_and_finds_more(run: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text(newspaper(300, seed=5, names=("new york", "san francisco", "san francisco giants")))
    same = learn(tmp_path / "same", text=more, start_from=run, settings={"training.epochs": 1})
    assert same.new_words == 3 and words_of(tmp_path / "same") >= {"new_york", "san", "francisco", "giants"}
    found = learn(tmp_path / "found", text=more, start_from=run, settings=PHRASES)
    assert found.new_words == 2
    assert words_of(tmp_path / "found") == {"new_york", "new_york_times", "san_francisco", "san_francisco_giants"}
    steps = [phrase.step for phrase in read_phrases(tmp_path / "found" / "phrases.tsv")]
    assert steps == sorted(steps) and steps[-1] == 4  # two passes of the first run, two of this one
    apart = {"training.epochs": 1, "data.phrases_from": None}
    learn(tmp_path / "apart", text=more, start_from=run, settings=apart)
    assert "york" in words_of(tmp_path / "apart") and not (tmp_path / "apart" / "phrases.tsv").exists()
    assert learn(tmp_path / "found", text=more, start_from=run, settings=PHRASES).reason == "it was finished already"


def test_a_folder_that_is_made_of_a_run_has_its_phrases(run: Path, tmp_path: Path) -> None:
    anaphora.load(run).save(tmp_path / "folder")  # type: ignore[union-attr]
    assert (tmp_path / "folder" / "phrases.tsv").read_bytes() == (run / "phrases.tsv").read_bytes()


def test_other_settings_are_refused_and_forced_ones_leave_nothing_behind(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    learn(folder, text=text, settings=PHRASES)
    with pytest.raises(UserError, match=r"data\.phrases is 2 there and 1 now"):
        learn(folder, text=text, settings={**PHRASES, "data.phrases": 1})
    learn(folder, text=text, settings={"training.epochs": 1}, force=True)
    assert words_of(folder) == {"new", "york", "times"} and not (folder / "phrases.tsv").exists()


def test_mistakes(text: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("<s>\n</s>\nw1\n")
    (tmp_path / "table.tsv").write_text("new york\n")
    given = {"tokenizer.words": str(tmp_path / "words.txt"), "tokenizer.minimum_count": 1}
    for settings, message in (
        ({**given, **PHRASES}, "phrases would be new ones"),
        ({"data.phrase_threshold": 3.0}, "phrase_threshold has no effect without phrases"),
        ({"data.phrases": "many"}, "data.phrases must be a whole number"),
        ({"data.phrases": 1, "data.phrase_score": "pmi"}, "phrase_score"),
        ({"data.phrases_from": str(tmp_path / "table.tsv")}, "table.tsv:1: is not a table of phrases"),
        ({"data.phrases_from": str(tmp_path / "nothing.tsv")}, "there is no such file"),
    ):
        with pytest.raises(UserError, match=message):
            learn(tmp_path / "run", text=text, settings=settings)
    with pytest.raises(UserError, match="items stay as they are"):
        learn(tmp_path / "run", items=text, settings=PHRASES)
    for recipe in ("ngram", "lstm"):
        with pytest.raises(UserError, match=r"data\.phrases means nothing"):
            anaphora.train(tmp_path / "run", text=text, recipe=recipe, settings={"data.phrases": 1})


@pytest.mark.parametrize("recipe", ["skipgram", "glove"])
def test_an_empty_text_has_no_phrases_and_says_so(tmp_path: Path, recipe: str) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(UserError, match="there is no text here"):
        anaphora.train(tmp_path / "run", text=tmp_path / "empty.txt", recipe=recipe, settings={"data.phrases": 1})
