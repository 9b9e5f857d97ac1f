"""The registry: every system is one entry, found without importing any; others may come from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import pytest

import anaphora
from anaphora.errors import UserError
from anaphora.models import build, registry, settings
from anaphora.models.registry import TASKS, System, kinds, register, system, systems
from anaphora.models.translation.recurrent.luong import Luong
from anaphora.models.translation.recurrent.recurrent_settings import LuongConfig


@dataclass(kw_only=True)
class OwnConfig(LuongConfig):
    """Luong's, narrower."""

    kind: Literal["own"] = "own"  # type: ignore[assignment]
    dim: int = 8


OWN = System(kind="own", task="translation", settings=OwnConfig, model=Luong)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    registry._registered().clear()
    registry._ask_installed.cache_clear()


@pytest.mark.parametrize("kind", list(systems()))
def test_every_entry_names_what_is_there(kind: str) -> None:
    one = system(kind)
    assert one.task in TASKS and is_dataclass(one.settings_class())
    assert one.settings_class()().kind == kind
    for path in (one.settings, one.model, one.read):
        assert path is None or callable(registry.loaded(path))


def test_the_list_costs_no_import() -> None:
    code = (
        "import sys; from anaphora.models.registry import systems; print(len(systems()) > 20, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_kinds_are_in_the_order_of_the_ladder() -> None:
    assert kinds("translation")[:3] == ("transformer", "seq2seq", "bahdanau")
    assert kinds(family="convolutional translators") == ("bytenet", "convs2s")
    assert set(kinds()) == set(systems())


def test_an_unknown_kind_is_told_what_is_near() -> None:
    with pytest.raises(UserError, match=r"unknown model\.kind 'luang'; did you mean 'luong'"):
        system("luang")


def test_a_system_of_ones_own_is_built_like_ours() -> None:
    register(OWN)
    config = settings({"kind": "own", "layers": 2})
    assert isinstance(config, OwnConfig) and (config.dim, config.layers) == (8, 2)
    assert isinstance(build(config, 12, 12), Luong)
    assert "own" in kinds("translation")


def test_a_system_of_ones_own_is_trained_and_used_like_ours(corpus: dict[str, Path], tmp_path: Path) -> None:
    register(OWN)
    own = {"model.kind": "own", "model.tie": "all", "training.max_steps": 2, "tokenizer.vocabulary": 300}
    anaphora.train(tmp_path / "run", **corpus, recipe="luong", settings=own, device="cpu", progress=False)
    model = anaphora.load(tmp_path / "run")
    assert isinstance(model, anaphora.TranslationModel) and isinstance(model.model, Luong)
    assert model.config.model.dim == 192  # sizes for a corpus come with the settings that it derives from
    assert isinstance(model.translate("the dog").text, str) and model.align("the dog", "der Hund")
    own["training.max_steps"] = 3
    assert anaphora.train(tmp_path / "run", **corpus, recipe="luong", settings=own, progress=False).steps == 3
    registry._registered().clear()
    with pytest.raises(
        UserError, match=r"its system, own, came from a file, test_registry\.py, and a model folder holds"
    ):
        anaphora.load(tmp_path / "run")


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(UserError, match="there is a system 'luong' already"):
        register(System(kind="luong", task="translation", settings=LuongConfig))
    register(OWN)
    register(OWN)  # the same place, read again

    @dataclass(kw_only=True)
    class Other(OwnConfig):
        """Of the same name, from elsewhere."""

    with pytest.raises(UserError, match=r"there is a system 'own' already, of .*test_registry\.py; give yours another"):
        register(System(kind="own", task="translation", settings=Other, model=Luong))


def test_what_is_no_system_is_refused() -> None:
    with pytest.raises(UserError, match="'own' is no System"):
        register("own")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the task of 'own' cannot be 'translating'; did you mean 'translation'"):
        register(System(kind="own", task="translating", settings=OwnConfig))
    with pytest.raises(UserError, match="'mine' has settings whose kind is 'own'"):
        register(System(kind="mine", task="translation", settings=OwnConfig))


def test_installed_packages_may_bring_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def points(group: str) -> list[EntryPoint]:
        asked.append(group)
        return [EntryPoint("own", f"{__name__}:OWN", group)]

    monkeypatch.setattr("importlib.metadata.entry_points", points)
    assert system("luong").kind == "luong" and not asked  # who is here is not looked for elsewhere
    assert system("own") == OWN and asked == [registry.GROUP]  # and no file whose content is compared
