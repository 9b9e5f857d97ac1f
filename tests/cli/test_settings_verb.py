"""`anaphora settings`: what can be set, listed on the terminal; and the same tables in the documentation."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from anaphora.models.registry import kinds
from anaphora.tasks.recipes import recipe_names
from anaphora.tasks.settings_listing import every_setting, find_settings

DOCS = Path(__file__).parents[2] / "docs"


def test_a_setting_is_listed_with_its_type_default_and_meaning(say: Any) -> None:
    answer = say("settings", "training.max_steps")
    assert answer.code == 0
    assert re.match(r"training\.max_steps  whole number, or null; default ", answer.out)
    assert len(answer.out.splitlines()) > 1
    assert say("settings", "max_steps").out == answer.out  # the section may be left out


def test_a_section_fits_into_eighty_columns(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = say("settings")
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
    for heading in ("DATA", "TOKENIZER", "MODEL (kind: transformer)", "TRAINING", "DECODING"):
        assert f"{heading}\n" in answer.out
    assert "\x1b" not in answer.out
    only = say("settings", "decoding").out
    assert only in answer.out
    assert "training." not in only.replace("training text", "")


def test_a_recipe_lists_its_kind_and_its_own_values(say: Any) -> None:
    answer = json.loads(say("settings", "--recipe", "base", "--json").last)
    by_name = {one["name"]: one for one in answer["settings"]}
    assert by_name["model.dim"]["recipe_value"] == 512
    assert by_name["model.dim"]["default"] == 256
    assert "data.text" not in by_name  # means nothing for a translator
    ngram = say("settings", "model", "--recipe", "ngram").out
    assert "model.smoothing" in ngram
    assert "model.heads" not in ngram
    assert "training.threads" in say("settings", "training", "--recipe", "skipgram").out
    assert "default 256, or by corpus size" in say("settings", "model", "--recipe", "lstm").out


@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_can_be_listed(recipe: str) -> None:
    listed = find_settings(recipe=recipe)
    assert {one.section for one in listed} <= {"data", "tokenizer", "model", "training", "decoding"}
    assert any(one.in_recipe for one in listed) or recipe == "transformer"


def test_a_setting_of_one_kind_is_found_and_its_kind_is_named(say: Any) -> None:
    assert "kind backpack\n" in say("settings", "model.senses").out
    documents = json.loads(say("settings", "dim", "--json").last)["settings"]
    assert sorted(kind for one in documents for kind in one["kinds"]) == sorted(
        set(kinds()) - {"ngram", "mixture", "ensemble"}
    )


def test_every_setting_has_a_meaning() -> None:
    assert [one.name for one in every_setting() if len(one.meaning) < 10] == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["training.max_stpes"],
            "there is no setting or section 'training.max_stpes'; did you mean 'training.max_steps'?",
        ),
        (["trainign"], "there is no setting or section 'trainign'; did you mean 'training'?"),
        (["model.heads", "--recipe", "lstm"], "there is no setting or section 'model.heads' with recipe lstm"),
        (["zzz"], "there is no setting or section 'zzz'; `anaphora settings` lists all of them"),
        (["--recipe", "lst"], "there is no recipe 'lst'; did you mean 'lstm'?"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(words: list[str], complaint: str, say: Any) -> None:
    answer = say("settings", *words)
    assert answer.code == 2
    assert complaint in answer.err
    assert answer.out == ""


def test_an_unknown_setting_points_to_the_list(say: Any, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a b c\n" * 20)
    answer = say("train", tmp_path / "run", "--text", text, "--recipe", "lstm", "model.zzz=1")
    assert answer.code == 2
    assert (
        answer.err == "anaphora: unknown setting model.zzz; `anaphora settings model --recipe lstm` lists all of them\n"
    )
    assert say("settings", "model", "--recipe", "lstm").code == 0


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "zzz=1",
            "'zzz=1' is not a setting; write section.key=value, such as training.seed=2; `anaphora settings` lists",
        ),
        ("zzz", "'zzz' is not a setting; write section.key=value, such as training.seed=2; `anaphora settings` lists"),
        ("max_steps=9", "'max_steps=9' is not a setting; write training.max_steps=9; `anaphora settings` lists"),
        ("seed=9", "write data.seed=9 or training.seed=9 or decoding.seed=9;"),
        ("zzz.a=1", "unknown section 'zzz' in 'zzz.a=1'; known: data, decoding, model, tokenizer, training; `anaphora"),
    ],
)
def test_a_setting_without_its_section_is_found(word: str, message: str, say: Any, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c\n")
    answer = say("train", tmp_path / "run", "--text", tmp_path / "text.txt", word)
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / "run").exists()


def test_set_takes_settings_of_decoding_and_says_where_they_are_listed(say: Any, tmp_path: Path) -> None:
    for verb in ("generate", "translate"):
        answer = say(verb, tmp_path, "--set", "training.seed=1")
        assert answer.code == 2
        assert "--set takes settings of section decoding, and this is one of training; `anaphora settings" in answer.err
    answer = say("generate", tmp_path, "--set", "zzz=1")  # before anything is loaded
    assert "--set zzz has no meaning in generation; known: epsilon, " in answer.err
    assert "`anaphora settings decoding` tells what they mean" in answer.err


def tables() -> Any:
    """docs/tables.py, which no package holds."""
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_in_the_documentation_are_current() -> None:
    module, written = tables(), set()
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        assert module.current(text) == text, f"{page.name} is out of date: run `python docs/tables.py`"
        written |= set(re.findall(r"<!-- written from the code: (.*?) -->", text))
        assert text.count("<!-- written from the code") == text.count("<!-- end -->") == len(module.PART.findall(text))
    assert {f"settings model {kind}" for kind in kinds()} <= written
    assert {f"settings {section}" for section in ("data", "tokenizer", "training", "decoding")} <= written
    assert {"settings training word2vec", "settings training glove"} <= written


def test_what_can_be_said_of_encoders(say: Any) -> None:
    def listed(*words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(say("settings", *words, "--json").last)["settings"]
        return found

    names = {one["name"] for one in listed("model.encoder")}
    assert {"model.encoder", "model.encoder.width", "model.encoder.heads", "model.encoder.expert_hidden"} <= names
    (window,) = listed("model.encoder.window", "--recipe", "tiny")
    assert window["type"] == "whole number, or null" and window["kinds"] == ["transformer"]
    (bias,) = listed("model.encoder.forget_bias", "--recipe", "luong")
    assert bias["default"] == 1.0  # in front of a decoder
