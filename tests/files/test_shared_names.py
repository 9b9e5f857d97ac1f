"""Files that one shares hold the names of other files, and not where they stand on somebody's disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora.config import read_yaml, write_yaml
from anaphora.errors import UserError
from anaphora.files.shared_names import by_name, name_of, without_folders
from anaphora.tasks.recipes import recipe_folder
from micro_runs import MICRO

SHARED = ("config.yaml", "card.md", "metrics.json")
VERSE = "the sea is green and the land is green\nthe sea is blue\nthe land is brown and the sea is blue\n" * 4


def leaks(folder: Path, secret: str = "secret") -> list[str]:
    return [str(file) for name in SHARED for file in folder.rglob(name) if secret in file.read_text(encoding="utf-8")]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "verse.txt").write_text(VERSE)
    return tmp_path / "secret"


def test_names_alone() -> None:
    assert [name_of(path) for path in ("/a/b.txt", "b.txt", "../b", "a/t.csv#en")] == [
        "b.txt",
        "b.txt",
        "b",
        "t.csv#en",
    ]
    assert name_of(".") == Path.cwd().name
    document = {
        "run": {"recipe": "x/y.yaml", "start_from": "../base"},
        "data": {"text": ["/home/ann/t.en"], "valid_text": [], "boundaries": "lines", "phrases_from": None},
        "model": {"parts": ["a", "b"]},
    }
    assert by_name(document) == {
        "run": {"recipe": "y.yaml", "start_from": "base"},
        "data": {"text": ["t.en"], "valid_text": [], "boundaries": "lines", "phrases_from": None},
        "model": {"parts": ["a", "b"]},
    }


def test_a_translator_tells_no_path_and_goes_on_elsewhere(
    micro: Path, corpus: dict[str, Path], secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = secret / "run"
    shutil.copytree(micro, run)
    own = {side: Path(shutil.copy(file, secret / file.name)) for side, file in corpus.items()}
    more = {**MICRO, "training.max_steps": 3}
    anaphora.train(run, **own, settings=more, device="cpu")
    assert leaks(run) == [] and leaks(run, str(micro.parent)) == []
    assert read_yaml(run / "config.yaml")["data"]["source"] == [corpus["source"].name]
    monkeypatch.chdir(secret)
    here = {side: file.name for side, file in own.items()}
    assert anaphora.train("run", **here, settings={**MICRO, "training.max_steps": 4}, device="cpu").steps == 4


def test_a_run_of_an_earlier_version_has_whole_paths_and_goes_on(
    micro: Path, corpus: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(micro, run)
    document = read_yaml(run / "config.yaml")
    document["data"] |= {"source": ["/gone/before/x.en"], "target": ["/gone/before/x.de"]}
    document["run"]["start_from"] = None
    (run / "config.yaml").write_text(write_yaml(document))
    assert anaphora.train(run, **corpus, settings={**MICRO, "training.max_steps": 3}, device="cpu").steps == 3


def test_a_run_that_started_from_another_one_goes_on_wherever_that_is(
    micro: Path, corpus: dict[str, Path], tmp_path: Path
) -> None:
    steps = {"training.max_steps": 1, "training.batch_tokens": MICRO.get("training.batch_tokens", 200)}
    (tmp_path / "a").mkdir()
    shutil.copytree(micro, tmp_path / "a" / "base")
    anaphora.train(tmp_path / "run", **corpus, start_from=tmp_path / "a" / "base", settings=steps, device="cpu")
    assert read_yaml(tmp_path / "run" / "config.yaml")["run"]["start_from"] == "base"
    assert "`base`" in (tmp_path / "run" / "card.md").read_text()
    (tmp_path / "a").rename(tmp_path / "b")
    more = {**steps, "training.max_steps": 2}
    again: Any = {**corpus, "settings": more, "device": "cpu"}
    assert anaphora.train(tmp_path / "run", start_from=tmp_path / "b" / "base", **again).steps == 2
    shutil.copytree(tmp_path / "b" / "base", tmp_path / "other")
    with pytest.raises(UserError, match=r"run\.start_from is 'base' there and 'other' now"):
        anaphora.train(tmp_path / "run", start_from=tmp_path / "other", **again)


@pytest.mark.parametrize(
    ("recipe", "small"),
    [
        ("ngram", {"model.order": 2}),
        ("skipgram", {"model.dim": 8, "training.epochs": 1, "tokenizer.minimum_count": 1}),
        ("lstm", {"model.dim": 8, "training.max_steps": 1, "tokenizer.vocabulary": 280}),
        ("tiny", {**MICRO, "training.max_steps": 1}),
    ],
)
def test_a_recipe_in_a_file_is_told_by_its_name(
    recipe: str, small: dict[str, Any], corpus: dict[str, Path], secret: Path
) -> None:
    own = str(shutil.copy(recipe_folder() / f"{recipe}.yaml", secret / "mine.yaml"))
    text: dict[str, Any] = corpus if recipe == "tiny" else {"text": secret / "verse.txt"}
    anaphora.train(secret / "run", **text, recipe=own, settings=small, device="cpu")
    assert leaks(secret / "run") == []
    assert read_yaml(secret / "run" / "config.yaml")["run"]["recipe"] == "mine.yaml"
    assert "recipe `mine.yaml`" in (secret / "run" / "card.md").read_text()
    again = anaphora.train(secret / "run", **text, recipe=own, settings=small, device="cpu")
    assert again.reason in ("it was finished already", "1 update done")


def test_whole_paths_are_kept_where_that_is_wished(
    micro: Path, corpus: dict[str, Path], secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = {"data.paths": "full"}
    run = Path(shutil.copytree(micro, secret / "run"))  # begun with names
    anaphora.train(run, **corpus, settings={**MICRO, "training.max_steps": 3, **full}, device="cpu")
    assert read_yaml(run / "config.yaml")["data"]["source"] == [str(corpus["source"])]
    assert leaks(run, str(corpus["source"])) == [str(run / name) for name in SHARED]
    anaphora.train(run, **corpus, settings={**MICRO, "training.max_steps": 4}, device="cpu")  # and back
    assert leaks(run, str(corpus["source"])) == []
    verse: dict[str, Any] = {"text": secret / "verse.txt"}
    small = {"model.dim": 8, "training.epochs": 1, "tokenizer.minimum_count": 1}
    for recipe, own in (("ngram", {"model.order": 2}), ("skipgram", small)):
        anaphora.train(secret / recipe, **verse, recipe=recipe, settings={**own, **full})
        assert len(leaks(secret / recipe)) == 3
        for settings in (own, {**own, **full}):
            monkeypatch.chdir(secret)
            again = anaphora.train(secret / recipe, text="verse.txt", recipe=recipe, settings=settings)
            assert again.reason == "it was finished already"
    anaphora.mix(secret / "mixed", [secret / "ngram"] * 2, weights=[0.5, 0.5])
    assert len(leaks(secret / "mixed")) == 6, "a part is copied as it is"
    with pytest.raises(UserError, match=r"data\.paths cannot be 'short'; known: full, names"):
        anaphora.train(secret / "no", **verse, settings={"data.paths": "short"})


def test_parts_of_earlier_versions_are_copied_without_their_paths(secret: Path) -> None:
    for name in ("one", "two"):
        run, text = secret / name, secret / "verse.txt"
        anaphora.train(run, text=text, recipe="ngram", settings={"model.order": 2, "data.paths": "full"})
        document = read_yaml(run / "config.yaml")
        del document["data"]["paths"]
        (run / "config.yaml").write_text(write_yaml(document))
        assert len(leaks(run)) == 3
        metrics = json.loads((run / "metrics.json").read_text()) | {"converted_from": "/a/secret/place.arpa"}
        (run / "metrics.json").write_text(json.dumps(metrics))
    anaphora.mix(secret / "mixed", [secret / "one", secret / "two"], weights=[0.5, 0.5])
    assert leaks(secret / "mixed") == []
    copied = json.loads((secret / "mixed" / "one" / "metrics.json").read_text())
    assert copied["trained_on"]["text"] == ["verse.txt"] and copied["converted_from"] == "place.arpa"
    assert "`verse.txt`" in (secret / "mixed" / "one" / "card.md").read_text()
    assert anaphora.load(secret / "mixed").evaluate(["the sea is green"]).tokens == 5  # type: ignore[union-attr]


def test_counted_and_mixed_models_tell_no_path(secret: Path, tmp_path: Path) -> None:
    text = secret / "verse.txt"
    for name in ("one", "two"):
        own = {"model.order": 2} if name == "one" else {"model.order": 3}
        anaphora.train(secret / name, text=text, recipe="ngram", settings={**own, "data.hold_out": 2})
    anaphora.mix(secret / "mixed", [secret / "one", secret / "two"], text=text)
    assert [leaks(secret / name) for name in ("one", "two", "mixed")] == [[], [], []]
    again = anaphora.train(secret / "one", text=text, recipe="ngram", settings={"model.order": 2, "data.hold_out": 2})
    assert again.reason == "it was finished already"


def test_a_path_is_replaced_where_it_begins() -> None:
    assert without_folders("a/b in data/bet and ./a/b", ["a/b"]) == "b in data/bet and ./b"


def test_vectors_and_what_is_converted_tell_no_path(secret: Path) -> None:
    from anaphora.interop.conversion import convert

    small = {"model.dim": 8, "training.epochs": 1, "tokenizer.minimum_count": 1}
    anaphora.train(secret / "words", text=secret / "verse.txt", recipe="skipgram", settings=small)
    anaphora.train(secret / "more", text=secret / "verse.txt", start_from=secret / "words", settings=small)
    anaphora.load(secret / "words").save(secret / "copy")
    anaphora.train(secret / "one", text=secret / "verse.txt", recipe="ngram", settings={"model.order": 2})
    convert(secret / "one", secret / "one.arpa")
    convert(secret / "one.arpa", secret / "back")
    assert [leaks(secret / name) for name in ("words", "more", "copy", "back")] == [[], [], [], []]


@pytest.mark.parametrize(
    "said",
    [
        "model: {order: 2}",
        "{model: {kind: word2vec, dim: 4}, tokenizer: {kind: word, split: blanks, fallback: unk}}",
        "{model: {kind: dan, dim: 8}, training: {max_steps: 1, batch_tokens: 64, samples: 0}}",
    ],
    ids=["ngram", "vectors", "dan"],
)
def test_a_recipe_of_ones_own_is_known_by_its_name(secret: Path, said: str) -> None:
    (secret / "mine.yaml").write_text(said)
    run = secret / "run"
    anaphora.train(run, text=secret / "verse.txt", recipe=str(secret / "mine.yaml"), device="cpu", progress=False)
    assert read_yaml(run / "config.yaml")["run"]["recipe"] == "mine.yaml"
    assert "mine.yaml" in (run / "card.md").read_text(encoding="utf-8")
    assert leaks(run) == []
    again = anaphora.train(
        run, text=secret / "verse.txt", recipe=str(secret / "mine.yaml"), device="cpu", progress=False
    )
    assert again.folder == run
