"""What `anaphora settings` says of defaults is what runs have whose user says nothing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from anaphora.models import usual_recipe
from anaphora.models.registry import kinds
from anaphora.tasks.language_settling import settle_text
from anaphora.tasks.recipes import RunConfig, complete, load_recipe, recipe_names
from anaphora.tasks.request import Request
from anaphora.tasks.settings_listing import (
    CLASSIFIERS,
    Setting,
    classifying,
    find_settings,
    kinds_in_words,
    settings_of,
)
from anaphora.tasks.text_sizes import complete_text
from anaphora.training.reporting import RunReporter

NAMED = {"text", "labels"}
"""Settings of these runs that the user did say."""
TOKENS = (30_000, 700_000, 9_000_000, 200_000_000)


def runs(recipe: str) -> list[RunConfig]:
    """What runs by a recipe have that begin with corpora of several sizes."""
    if RunConfig.read(load_recipe(recipe)).model.kind not in kinds("language"):
        return [complete(recipe, {}, pairs=pairs) for pairs in (1_000, 20_000, 120_000, 1_000_000, 3_000_000)]
    return [complete_text(recipe, {}, {"train": {"tokens": n}, "valid": {"tokens": 1}}) for n in TOKENS]


def begun(folder: Path, recipe: str, *, labeled: bool = False) -> RunConfig:
    """The settings of a run that begins, as its folder has them then."""
    files = {"text": folder / "text.txt"} | ({"labels": folder / "labels.txt"} if labeled else {})
    files["text"].write_text("the dog sees the cat\nthe cat sees a dog\n" * 60)
    if labeled:
        files["labels"].write_text("one\nother\n" * 60)
    own: Any = {"data": {name: [str(path)] for name, path in files.items()}}
    request = Request(run=folder / "run", own=own, recipe=recipe, start_from=None, device="cpu", force=False)
    return settle_text(request, RunReporter(folder / "run", Console(file=io.StringIO())))[0]


def compare(config: RunConfig, listed: dict[str, Setting], *, kind: str = "") -> list[str]:
    """Settings of a run that are other ones than the listing says; kind: for which it names another default."""
    wrong = []
    for section, settings in config.document().items():
        for key, value in settings.items() if section != "run" else ():
            one = listed[f"{section}.{key}"]
            said, sized = (one.value, False) if one.in_recipe else (one.default, one.sized)
            for other in one.elsewhere:
                said, sized = (other.value, other.sized) if kind in other.kinds else (said, sized)
            if value != said and not sized and key not in NAMED:
                wrong.append(f"{one.name} is {value!r}, listed {said!r}")
    return wrong


def by_name(recipe: str) -> dict[str, Setting]:
    return {one.name: one for one in find_settings(recipe=recipe)}


@pytest.mark.parametrize("recipe", recipe_names())
def test_a_recipe_is_listed_as_its_runs_begin(recipe: str) -> None:
    listed = by_name(recipe)
    for config in runs(recipe):
        assert compare(config, listed) == []


@pytest.mark.parametrize("kind", kinds("language"))
def test_a_run_that_has_begun_is_as_listed(kind: str, tmp_path: Path) -> None:
    assert compare(begun(tmp_path, kind), by_name(kind)) == []


@pytest.mark.parametrize("kind", classifying())
def test_so_is_a_classifier(kind: str, tmp_path: Path) -> None:
    listed = by_name(kind)
    assert compare(begun(tmp_path, kind, labeled=True), listed, kind=CLASSIFIERS) == []
    (metric,) = listed["training.metric"].elsewhere
    assert (listed["training.metric"].default, metric.value) == ("loss", "accuracy")


@pytest.mark.parametrize("kind", [kind for kind in kinds() if usual_recipe(kind)])
def test_without_a_recipe_each_kind_finds_its_own_default(kind: str) -> None:
    sections = ("data", "tokenizer", "model", "training", "decoding")
    listed = {one.name: one for section in sections for one in settings_of(section, kind)}
    for config in runs(str(usual_recipe(kind))):
        assert compare(config, listed, kind=kind) == []


def test_a_default_of_some_kinds_names_them() -> None:
    said = {one.name: "; ".join(one.defaults()) for one in find_settings()}
    assert said["data.boundaries"] == (
        "lines; stream for neural language models except transformer-encoder; packed for transformer-encoder"
    )
    assert said["training.metric"].endswith("accuracy for classifiers")
    assert said["tokenizer.fallback"].startswith("bytes")
    assert said["training.label_smoothing"] == "0.1; 0 for neural language models"


def test_families_are_named_where_they_are_whole() -> None:
    assert kinds_in_words(kinds("translation"), kinds()) == "translators"
    assert kinds_in_words(("gnmt", "lstm"), kinds()) == "gnmt, lstm"
    assert kinds_in_words(("lstm",), ("lstm", "gru")) == "lstm"
    assert kinds_in_words(kinds("translation")[1:], kinds()) == "translators except transformer"
