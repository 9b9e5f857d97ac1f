"""Settings: every key and every type is checked, and a mistake is answered with its cure."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anaphora
from anaphora.config import (
    build,
    differences,
    documentation,
    merge,
    overrides,
    parse_yaml,
    read_yaml,
    to_mapping,
    write_yaml,
)
from anaphora.data.corpus import DataConfig
from anaphora.data.prepared_text import PreparedText
from anaphora.decoding.decoding_settings import DecodingConfig, changed
from anaphora.errors import UserError, nearest
from anaphora.models.registry import kinds
from anaphora.models.translation.transformer_translator import TransformerConfig
from anaphora.tasks.language_settling import planned_settings
from anaphora.tasks.recipes import SECTIONS, RunConfig, complete, load_recipe, recipe_names
from anaphora.tasks.request import Request
from anaphora.tasks.translation import sized_to
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.training.training_settings import TrainingConfig

EVERY = [DataConfig, TokenizerConfig, TransformerConfig, TrainingConfig, DecodingConfig]


@dataclass(kw_only=True)
class Settings:
    heads: int = 4
    """How many."""
    rate: float = 0.1
    """How fast."""
    name: str = "x"
    """What it is called."""
    wanted: bool = False
    """Whether."""
    norm: Literal["pre", "post"] = "pre"
    """Where."""
    compile: Literal["auto", "on", "off"] = "auto"
    """When."""
    files: list[str] = field(default_factory=list)
    """Which."""
    limit: int | None = None
    """Until when."""

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError("heads must be at least 1")


def settings(**mapping: Any) -> Settings:
    return build(Settings, mapping, section="model")


@pytest.mark.parametrize(
    ("key", "given_", "kept"),
    [
        ("heads", 8, 8),
        ("heads", "8", 8),
        ("heads", 8.0, 8),
        ("heads", "1e3", 1000),
        ("heads", "10_000", 10_000),
        ("rate", 1, 1.0),
        ("rate", "1e-4", 1e-4),  # YAML 1.1 reads 1e-4 as text
        ("name", 12, "12"),
        ("wanted", True, True),
        ("norm", "post", "post"),
        ("compile", True, "on"),  # YAML 1.1 reads a bare `on` as true
        ("compile", False, "off"),
        ("files", "one", ["one"]),
        ("files", ["one", 2], ["one", "2"]),
        ("limit", None, None),
        ("limit", 7, 7),
    ],
)
def test_values_take_their_type(key: str, given_: Any, kept: Any) -> None:
    value = getattr(settings(**{key: given_}), key)
    assert value == kept
    assert type(value) is type(kept)


@pytest.mark.parametrize(
    ("key", "given_", "message"),
    [
        ("heads", "many", "model.heads must be a whole number, not 'many'"),
        ("heads", 2.5, "model.heads must be a whole number, not 2.5"),
        ("heads", True, "model.heads must be a whole number, not True"),
        ("heads", None, "model.heads must be a whole number, not None"),
        ("heads", [1], "model.heads must be a whole number"),
        ("heads", float("inf"), "model.heads must be a whole number"),
        ("rate", "fast", "model.rate must be a number, not 'fast'"),
        ("rate", True, "model.rate must be a number"),
        ("wanted", "yes please", "model.wanted must be true or false"),
        ("wanted", 1, "model.wanted must be true or false"),
        ("name", ["x"], "model.name must be text"),
        ("norm", "pst", "model.norm cannot be 'pst'; did you mean 'post'?"),
        ("norm", "middle", "model.norm cannot be 'middle'; known: post, pre"),
        ("norm", False, "model.norm cannot be False; known: post, pre"),
        ("limit", "soon", "model.limit must be a whole number"),
        ("heads", 0, "model: heads must be at least 1"),
    ],
)
def test_a_wrong_value_is_named_with_its_cure(key: str, given_: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        settings(**{key: given_})
    assert message in str(caught.value)


def test_an_unknown_key_names_the_nearest_and_the_file() -> None:
    with pytest.raises(UserError) as caught:
        build(Settings, {"head": 8}, section="model", file="mine.yaml")
    assert (
        str(caught.value)
        == "mine.yaml: unknown setting model.head; did you mean 'heads'? `anaphora settings model` lists all of them"
    )


@pytest.mark.parametrize("cls", EVERY)
def test_every_setting_is_documented_and_every_default_is_allowed(cls: type) -> None:
    described = documentation(cls)
    assert list(described) == [f.name for f in fields(cls)]
    for name, (kind, _, text) in described.items():
        assert kind, name
        assert len(text) > 10, f"{cls.__name__}.{name} has no docstring"
    assert build(cls, to_mapping(cls()), section="x") == cls()


def test_documentation_has_type_default_and_text() -> None:
    assert documentation(Settings)["rate"] == ("float", 0.1, "How fast.")
    assert documentation(Settings)["files"] == ("list[str]", [], "Which.")


# YAML and the command line ------------------------------------------------------------------------------------------

SECTION = st.fixed_dictionaries(
    {},
    optional={
        "heads": st.integers(1, 10**9),
        "rate": st.floats(allow_nan=False, allow_infinity=False),
        "name": st.text(),
        "wanted": st.booleans(),
        "norm": st.sampled_from(["pre", "post"]),
        "compile": st.sampled_from(["auto", "on", "off"]),
        "files": st.lists(st.text()),
        "limit": st.none() | st.integers(),
    },
)


@given(SECTION)
def test_written_settings_are_read_back(mapping: dict[str, Any]) -> None:
    import yaml

    before = settings(**mapping)
    text = write_yaml({"model": to_mapping(before)})
    assert settings(**yaml.safe_load(text)["model"]) == before


def test_overrides_are_read_as_yaml() -> None:
    words = [
        "training.seed=3",
        "training.rate=1e-4",
        "data.files=[a, b]",
        "model.limit=null",
        "model.name=a=b",
        "model.x=",
    ]
    assert overrides(words, SECTIONS) == {
        "training": {"seed": 3, "rate": "1e-4"},
        "data": {"files": ["a", "b"]},
        "model": {"limit": None, "name": "a=b", "x": ""},
    }


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trainng.seed=3", "unknown section 'trainng' in 'trainng.seed=3'; did you mean 'training'?"),
        ("seed=3", "'seed=3' is not a setting; write section.key=value"),
        ("training.seed", "'training.seed' is not a setting"),
        ("training.=3", "'training.=3' is not a setting"),
    ],
)
def test_a_word_that_is_no_setting(word: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        overrides([word], SECTIONS)
    assert message in str(caught.value)


def test_merge_later_documents_win_key_by_key_and_leave_the_first_alone() -> None:
    first: dict[str, dict[str, Any]] = {"model": {"dim": 1, "heads": 2}}
    assert merge(first, {"model": {"dim": 3}, "data": {"seed": 1}}, {"training": None}) == {  # type: ignore[dict-item]
        "model": {"dim": 3, "heads": 2},
        "data": {"seed": 1},
        "training": {},
    }
    assert first == {"model": {"dim": 1, "heads": 2}}


def test_differences_name_every_key_that_differs() -> None:
    old = {"training": {"seed": 1, "keep": 5}, "data": {"a": 1}}
    new = {"training": {"seed": 2, "keep": 5}, "model": {"dim": 4}}
    assert differences(old, new) == {"training.seed": (1, 2), "data.a": (1, None), "model.dim": (None, 4)}
    assert differences(old, old) == {}


def test_broken_yaml_is_named_by_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model:\n  dim: 3\n  heads: [1,\n")
    with pytest.raises(UserError, match=r"mine.yaml:\d+: is not valid YAML"):
        read_yaml(file)
    file.write_text("just words")
    with pytest.raises(UserError, match="holds no settings"):
        read_yaml(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read"):
        read_yaml(file)
    with pytest.raises(UserError, match="cannot be read"):
        read_yaml(tmp_path / "absent.yaml")
    file.write_text("")
    assert read_yaml(file) == {}


def test_a_key_that_stands_twice_is_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model:\n  dim: 3\n  heads: 1\n  dim: 4\n")
    with pytest.raises(UserError, match=r"mine.yaml:4: is not valid YAML \(the key 'dim' occurs twice\)"):
        read_yaml(file)
    file.write_text("base: &b {dim: 3}\nmodel:\n  <<: *b\n  dim: 4\nother: {dim: 5, <<: *b}\n")  # merged is no twice
    assert read_yaml(file) == {"base": {"dim": 3}, "model": {"dim": 4}, "other": {"dim": 5}}


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
"""Three hundred bytes that stand for 9^12 words."""


def test_aliases_are_not_unfolded_to_be_refused() -> None:
    many = parse_yaml(BOMB)["a11"]
    assert nearest(many, ["heads"]) == "known: heads"
    with pytest.raises(UserError, match=r"training\.seed must be a whole number") as error:
        build(TrainingConfig, {"seed": many}, section="training")
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("kind", kinds("translation") + kinds("language"))
def test_a_width_below_zero_is_called_that(kind: str) -> None:
    """Not a number that is no multiple of another one."""
    with pytest.raises(UserError) as caught:
        RunConfig.read({"model": {"kind": kind, "dim": -4}})
    assert str(caught.value) == "model: dim must be above 0, not -4; change that setting"


# Recipes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recipe_names())
@pytest.mark.parametrize("size", [10_000, 1_000_000, 20_000_000])
def test_every_recipe_completes_and_survives_its_own_file(name: str, size: int, tmp_path: Path) -> None:
    """For so many pairs, or tokens of text; what learns knows where it ends."""
    kind = RunConfig.read(load_recipe(name)).model.kind
    if kind in kinds("language"):
        text = PreparedText(tmp_path, {"train": {"tokens": size}, "valid": {"tokens": 1}}, reused=False)
        config = planned_settings(Request(run=tmp_path, own={}, recipe=name), text)
    else:
        config = complete(name, {}, pairs=size)
    assert config.model.kind == kind
    assert RunConfig.read(config.document()) == config
    assert kind in kinds("counting", "mixture") or config.training.epochs or config.training.max_steps


def test_the_names_that_stay_are_there() -> None:
    assert {"tiny", "small", "base", "big", "transformer"} <= set(recipe_names())


def test_users_win_over_recipe_over_size() -> None:
    own = {"model": {"dim": 64, "heads": 2}, "training": {"seed": 9}}
    config = complete("tiny", own, pairs=5_000_000)
    assert (config.model.dim, config.model.heads, config.model.layers) == (64, 2, 4)  # user, user, recipe
    assert config.training.batch_tokens == 12_500  # the size of the corpus
    assert config.training.seed == 9


def test_a_larger_corpus_gets_a_larger_model() -> None:
    sizes = [sized_to(pairs, {}) for pairs in (1_000, 50_000, 100_000, 1_000_000, 10_000_000)]
    widths = [size["model"]["dim"] * size["model"]["feed_forward"] for size in sizes]
    assert widths == sorted(widths)
    assert len(set(widths)) == 4  # 100,000 pairs and a million: one size, the smaller corpus with more dropout
    assert sizes[2]["model"]["dropout"] > sizes[3]["model"]["dropout"]
    for size in sizes:
        assert 2_000 <= size["training"]["max_steps"] <= 100_000


def test_two_vocabularies_are_not_tied_to_one() -> None:
    assert complete("tiny", {"tokenizer": {"shared": False}}, pairs=100).model.tie == "target"
    assert complete("tiny", {}, pairs=100).model.tie == "all"


def test_a_recipe_file_and_its_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model:\n  dim: 48\n  heads: 3\n")
    assert complete(str(file), {}, pairs=100).model.dim == 48
    file.write_text("model:\n  dmi: 48\n")
    with pytest.raises(UserError, match=r"mine.yaml: unknown setting model.dmi; did you mean 'dim'\?"):
        load_recipe(str(file))
    file.write_text("modle:\n  dim: 48\n")
    with pytest.raises(UserError, match=r"unknown section 'modle'; did you mean 'model'\?"):
        load_recipe(str(file))
    with pytest.raises(UserError, match=r"there is no recipe 'tinny'; did you mean 'tiny'\?"):
        load_recipe("tinny")
    with pytest.raises(UserError, match="there is no such recipe file"):
        load_recipe(str(tmp_path / "absent.yaml"))


def test_a_recipe_that_names_no_kind_is_of_the_kind_that_the_text_asks_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the dog sees a cat\n" * 9)
    for name, said in {
        "order": "model: {order: 2}",
        "learns": "training: {seed: 3}",
        "wrong": "model: {ordr: 2}",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(said)
    text, run = tmp_path / "a.txt", tmp_path / "run"
    anaphora.train(run, text=text, recipe=str(tmp_path / "order.yaml"), progress=False)
    config = read_yaml(run / "config.yaml")
    assert (
        config["model"]["kind"] == "ngram" and config["model"]["order"] == 2 and config["data"]["blank_lines"] == "keep"
    )
    with pytest.raises(UserError, match=r"learns\.yaml: training\.seed means .* ngram; .* name the kind .*=lstm, say"):
        anaphora.train(tmp_path / "other", text=text, recipe=str(tmp_path / "learns.yaml"), progress=False)
    with pytest.raises(UserError, match=r"wrong\.yaml: unknown setting model\.ordr"):
        anaphora.train(tmp_path / "other", text=text, recipe=str(tmp_path / "wrong.yaml"), progress=False)
    assert not (tmp_path / "other").exists()


def test_a_recipe_may_have_empty_sections(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model:\n  kind: transformer\ntraining:\n", encoding="utf-8")
    assert complete(str(file), {}, pairs=1000).training.max_steps
    file.write_text("model:\ntraining:\n  seed: 3\n", encoding="utf-8")
    assert complete(str(file), {}, pairs=1000).training.seed == 3


def test_defaults_fit_together() -> None:
    """A schedule that must know its end has one; the consistency loss is there only where there is dropout."""
    plain = complete("transformer", {}, pairs=30_000).training
    assert (plain.schedule, plain.consistency) == ("cosine", 5.0)
    endless = complete("transformer", {"training": {"max_steps": None, "patience": 3}}, pairs=30_000).training
    assert (endless.schedule, endless.max_steps) == ("inverse-sqrt", None)
    assert complete("transformer", {"model": {"dropout": 0.0}}, pairs=30_000).training.consistency == 0
    with pytest.raises(UserError, match=r"there is no dropout; set model\.dropout"):
        complete("transformer", {"model": {"dropout": 0.0}, "training": {"consistency": 5.0}}, pairs=30_000)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"training.max_memory={'9' * 400}GB", "training: max_memory is '9999"),
        ("training.max_memory=9999999999TB", "training: max_memory is '9999999999TB'; write 500MB or 2GB"),
        ("training.validation_beam=100000", "training: validation_beam must be at most 4,096, not 100,000"),
        ("training.consistency=1e300", "training: consistency must be at most 1,000,000, not 1e+300"),
        ("training.candidates=100000", "training: candidates must be at most 4,096, not 100,000"),
        ("decoding.length_penalty=1e300", "decoding: length_penalty must be at most 10, not 1e+300"),
        ("decoding.coverage_penalty=1e300", "decoding: coverage_penalty must be at most 10, not 1e+300"),
        ("decoding.coverage_penalty=nan", "decoding.coverage_penalty must be a number, not 'nan'"),
        ("decoding.coverage_penalty=-1", "decoding: coverage_penalty must not be negative"),
        ("decoding.temperature=1e300", "decoding: temperature must be between 0.0001 and 10,000, not 1e+300"),
        ("decoding.temperature=1e-300", "decoding: temperature must be between 0.0001 and 10,000, not 1e-300"),
        ("decoding.repetition_penalty=1e300", "decoding: repetition_penalty must be above 0 and at most 1,000"),
        ("model.dim=-4", "model: dim must be above 0, not -4"),
    ],
)
def test_numbers_that_would_fail_much_later_are_refused_at_once(words: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        kind = "model.kind=ngram" if "max_memory" in words else "model.kind=transformer"  # which has that setting
        RunConfig.read(overrides([kind, words], SECTIONS))
    assert said in str(refused.value) and len(str(refused.value)) < 300


def test_sampling_with_a_beam_is_a_contradiction() -> None:
    own = DecodingConfig(beam=5)
    for both in ({"sample": True, "beam": 3}, {"beam": 3, "sample": True, "n_best": 2}):
        with pytest.raises(UserError, match=r"sampling uses no beam, and both are given \(beam=3\); leave out one"):
            changed(own, both)
    assert changed(own, {"sample": True}).sample
    assert changed(own, {"sample": True, "beam": 1}).beam == 1
    assert changed(own, {"beam": 3}).beam == 3
