"""Settings that have another name now: the old one works wherever settings are read, is noted once, and never
written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anaphora.api import _settings
from anaphora.config import RENAMED, OldName, overrides, renamed, with_old_names
from anaphora.errors import UserError
from anaphora.explain.walk_file import walk_file
from anaphora.folder import CONFIG, read_config
from anaphora.tasks.recipes import SECTIONS, load_recipe
from anaphora.tasks.settings_listing import every_setting, find_settings

SETTINGS = {old: new for old, new in RENAMED.items() if old.partition(".")[0] in SECTIONS}


@pytest.mark.parametrize(("old", "new"), SETTINGS.items())
def test_an_old_name_is_read_everywhere(old: str, new: str, tmp_path: Path) -> None:
    section, _, key = old.partition(".")
    own = new.partition(".")[2]
    with pytest.warns(OldName, match=f"{old} is now called {new}"):
        assert overrides([f"{old}=1"], SECTIONS) == {section: {own: 1}}
    with pytest.warns(OldName):
        assert _settings({old: 1}) == {section: {own: 1}}
    with pytest.warns(OldName):
        assert _settings({section: {key: 1}}) == {section: {own: 1}}
    with pytest.warns(OldName):
        assert find_settings(old) == find_settings(new)
    (tmp_path / CONFIG).write_text(f"anaphora_format: 1\n{section}:\n  {key}: 1\n")
    assert read_config(tmp_path) == {section: {own: 1}}  # nobody wrote that: no note


@pytest.mark.parametrize(
    "model", ["{kind: gru, labels: [a, b], both_ways: true}", "{kind: conv, normalised: false}", "{normaliser: none}"]
)
def test_a_recipe_may_have_old_names(model: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"model: {model}\n")
    with pytest.warns(OldName):
        document = load_recipe(str(tmp_path / "mine.yaml"))
    assert not {old.partition(".")[2] for old in RENAMED} & set(document["model"])


def test_old_names_are_no_settings_any_more() -> None:
    names = {one.name for one in every_setting()}
    assert not names & set(SETTINGS)
    assert set(SETTINGS.values()) <= names


def test_programs_find_settings_by_both_names() -> None:
    said = {"model": {"kind": "transformer", "normalizer": "none"}}
    assert with_old_names(said) == {"model": {"kind": "transformer", "normalizer": "none", "normaliser": "none"}}
    assert said == {"model": {"kind": "transformer", "normalizer": "none"}}


def test_both_names_at_once_are_refused() -> None:
    for old, new in SETTINGS.items():
        section, _, key = old.partition(".")
        both: dict[str, Any] = {section: {key: 1, new.partition(".")[2]: 2}}
        with pytest.raises(UserError, match=f"{new} is given twice, the other time as {old}"):
            renamed(both)


def test_matrices_may_have_the_old_name(tmp_path: Path) -> None:
    text = "Q: [[1, 0]]\nK: [[1, 0]]\nV: [[1, 0]]\n"
    (tmp_path / "new.yaml").write_text(text + "normalizer: none\n")
    (tmp_path / "old.yaml").write_text(text + "normaliser: none\n")
    with pytest.warns(OldName):
        old = walk_file(tmp_path / "old.yaml")
    assert [step.symbol for step in old.steps] == [step.symbol for step in walk_file(tmp_path / "new.yaml").steps]
