"""`model.encoder` as a section and its shorter names say the same (models/encoder_section.py)."""

from __future__ import annotations

from typing import Any

import pytest

from anaphora.config import merge, to_mapping
from anaphora.errors import UserError
from anaphora.models import settings, with_encoder_section
from anaphora.tasks.request import filled


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        ({"kind": "lstm", "layers": 3}, {"kind": "lstm", "encoder.layers": 3}),
        ({"kind": "lstm", "hidden": 9}, {"kind": "lstm", "encoder": {"kind": "lstm", "hidden": 9}}),
        ({"kind": "transformer-decoder", "heads": 8}, {"kind": "transformer-decoder", "encoder.heads": 8}),
        (
            {"kind": "backpack", "encoder": "lstm", "hidden": 8},
            {"kind": "backpack", "encoder.kind": "lstm", "encoder.hidden": 8},
        ),
        (
            {"kind": "luong", "encoder": "conv", "layers": 2},
            {"kind": "luong", "encoder": {"kind": "conv", "layers": 2}},
        ),
        ({"kind": "luong", "bidirectional": False}, {"kind": "luong", "encoder.bidirectional": False}),
        (
            {"kind": "luong", "encoder": "transformer", "heads": 2},
            {"kind": "luong", "encoder": "transformer", "encoder.heads": 2},
        ),
    ],
)
def test_both_names_are_one_setting(shorter: dict[str, Any], longer: dict[str, Any]) -> None:
    assert settings(shorter) == settings(longer)
    assert to_mapping(settings(longer)) == to_mapping(settings(shorter))  # config.yaml has the shorter one


def test_what_has_no_shorter_name_stays_with_the_encoder() -> None:
    config: Any = settings({"kind": "transformer", "heads": 4, "encoder.heads": 8})
    assert (config.heads, config.encoder_config.heads) == (4, 8)
    assert config.encoder == {"kind": "transformer", "heads": 8}
    assert settings(to_mapping(config)) == config
    wide: Any = settings({"kind": "convs2s", "encoder": {"kind": "window", "window": 7}, "width": 5})
    assert (wide.width, wide.encoder_config.window) == (5, 7)


def test_what_is_said_of_one_encoder_is_merged_of_another_replaced() -> None:
    recipe = {"model": {"encoder": {"kind": "conv", "width": 5, "gated": False}}}
    more = merge(recipe, {"model": {"encoder": {"kind": "conv", "width": 7}}})
    assert more["model"]["encoder"] == {"kind": "conv", "width": 7, "gated": False}
    assert merge(recipe, {"model": {"encoder": {"kind": "dan"}}})["model"]["encoder"] == {"kind": "dan"}


def test_what_a_recipe_says_by_one_name_may_be_changed_by_the_other() -> None:
    own = filled("gpt2", {"model": {"encoder.heads": 6}}, {"text": ["a.txt"]})
    assert own == {"model": {"heads": 6}}


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ({"kind": "lstm", "layers": 2, "encoder.layers": 3}, "model.layers is 2 and model.encoder.layers is 3"),
        ({"kind": "lstm", "encoder": "gru"}, "model.kind is lstm and model.encoder is gru"),
        ({"kind": "lstm", "encoder.hiden": 3}, "unknown setting model.encoder.hiden; did you mean 'hidden'"),
        ({"kind": "luong", "encoder.kind": "cnv"}, "model.encoder cannot be 'cnv'; did you mean 'conv'"),
        ({"kind": "luong", "encoder": "conv", "encoder.width": "x"}, "model.encoder.width must be a whole number"),
        ({"kind": "backpack", "encoder.kind": "gnmt"}, "model.encoder cannot be 'gnmt'"),
        ({"kind": "ngram", "encoder.layers": 3}, "unknown setting model.encoder.layers"),
    ],
)
def test_mistakes_name_both(model: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        settings(with_encoder_section(model, twice=False))
