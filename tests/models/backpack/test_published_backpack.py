"""Published Backpacks: random weights under three flavors of names, against a plain computation from those names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from anaphora.errors import UserError
from anaphora.models import build_language_model, settings
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.published_backpack import (
    load_published_backpack,
    published_backpack_settings,
    published_backpack_weights,
    published_document,
)
from anaphora.tasks.recipes import load_recipe
from published_backpacks import DIM, DOCUMENT, PLACES, SENSES, WORDS, as_safetensors, as_trained, plainly, published

FLAVORS = {
    "with aliases": lambda w: w,
    "safetensors": lambda w: as_safetensors(w, "backpack.gpt2_model.wte.weight"),
    "safetensors, other names": lambda w: as_safetensors(w, "lm_head.weight"),
    "training code": as_trained,
}


def ours(**changes: Any) -> Any:
    made = build_language_model(settings(published_backpack_settings(DOCUMENT | changes)), WORDS)  # type: ignore[arg-type]
    assert isinstance(made, Backpack)
    return made.eval()


@torch.no_grad()
@pytest.mark.parametrize("flavor", FLAVORS)
def test_logits_and_weights_are_those_of_a_plain_computation(flavor: str) -> None:
    w, model = published(), ours()
    load_published_backpack(model, FLAVORS[flavor](w))
    for ids in (torch.tensor([40, 3, 3, 17, 0, 5, 12]), torch.arange(PLACES)):
        logits, alpha = plainly(w, ids)
        torch.testing.assert_close(model(ids[None])[0], logits, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model.sense_weights(ids[None])[0], alpha, atol=1e-5, rtol=1e-5)
    back = published_backpack_weights(model)
    wanted = as_safetensors(w, "backpack.gpt2_model.wte.weight")
    assert back.keys() == wanted.keys() - {name for name in wanted if name.endswith("masked_bias")}
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in back.items())


@torch.no_grad()
def test_who_forgets_the_scale_of_layers_is_told_apart() -> None:
    """The plain computation would not have agreed without it."""
    w, model = published(), ours(scale_attn_by_inverse_layer_idx=False)
    load_published_backpack(model, w)
    ids = torch.arange(9)
    assert not torch.allclose(model(ids[None])[0], plainly(w, ids)[0], atol=1e-2)


def test_a_class_that_does_not_say_its_scale_of_layers_has_it() -> None:
    """BackpackGPT2Config's own default; a plain GPT-2 has the other one: nothing is guessed without a class."""
    silent = {key: value for key, value in DOCUMENT.items() if key != "scale_attn_by_inverse_layer_idx"}
    assert published_backpack_settings(silent)["inverse_layer_scale"] is True
    with pytest.raises(UserError, match="do not say whether attention is divided"):
        published_backpack_settings({key: value for key, value in silent.items() if key != "architectures"})


def test_settings_there_and_back() -> None:
    model = ours()
    again = published_document(model, end=40)
    assert {key: again[key] for key in DOCUMENT} == DOCUMENT
    assert published_backpack_settings(again) == published_backpack_settings(DOCUMENT)
    preset = settings(load_recipe("backpack-small")["model"])
    small = published_backpack_settings({"num_senses": 16, "scale_attn_by_inverse_layer_idx": True})
    assert vars(settings(small)) | {"input_dropout": 0.0, "sense_feed_forward": None, "feed_forward": None} == vars(
        preset
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "backpack-gpt2"}, "levanter's Backpack, which divides"),
        ({"architectures": ["BackpackLMHeadModel"]}, "levanter's Backpack"),
        ({"num_senses": None}, "how many senses"),
        ({"num_senses": 7}, "7 senses do not divide 24"),
        ({"activation_function": "relu"}, "activation_function='relu'"),
        ({"scale_attn_weights": False}, "scale_attn_weights=False"),
        ({"sense_intermediate_scale": 2}, "sense_intermediate_scale=2"),
        ({"scale_attn_by_inverse_layer_idx": None}, "do not say whether attention is divided"),
    ],
)
def test_settings_of_other_models_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        published_backpack_settings(DOCUMENT | changes)


def without(w: dict[str, Tensor], end: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in w.items() if not name.endswith(end)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: without(w, "sense_weight_net.c_attn.bias"), "no bias, as nanoBackpackLM"),
        (
            lambda w: {name.replace("backpack.gpt2_model.", "transformer."): t for name, t in w.items()},
            "nanoGPT or GPT-2",
        ),
        (lambda w: without(w, "final_mlp.c_fc.bias"), "do not have the model's shape .*final_mlp"),
        (lambda w: w | {"backpack.more": torch.zeros(1)}, "do not have the model's shape .*backpack.more"),
        (lambda w: w | {"lm_head.weight": torch.zeros(WORDS, DIM)}, "not the same table under its other names"),
        (
            lambda w: w | {"backpack.sense_network.ln.weight": torch.ones(SENSES * DIM)},
            r"sense_network.ln.weight has shape \[96\], where the settings mean \[24\]",
        ),
        (
            lambda w: w | {"backpack.sense_network.final_mlp.c_proj.weight": torch.ones(4 * DIM, 2 * DIM)},
            r"c_proj.weight has shape \[96, 48\], where the settings mean \[96, 96\]",
        ),
    ],
)
def test_weights_of_other_models_are_refused(change: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_published_backpack(ours(), change(published()))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder": "lstm"}, "model.encoder=lstm has no published names"),
        ({"positions": "rotary"}, "model.positions=rotary has no published names"),
        ({"sense_feed_forward": 2 * DIM}, "model.sense_feed_forward=48 has no published names"),
        ({"key_value_heads": 1}, "no shared key heads"),
    ],
)
def test_only_the_published_shape_has_published_names(changes: dict[str, Any], said: str) -> None:
    kept = published_backpack_settings(DOCUMENT)
    if changes.get("encoder") == "lstm":
        kept = {key: kept[key] for key in ("kind", "senses", "dim", "layers")}
    model: Any = build_language_model(settings(kept | changes), WORDS)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=said):
        published_backpack_weights(model)
