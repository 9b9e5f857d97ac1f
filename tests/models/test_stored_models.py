"""Models of the first version, stored beside this file with what they said, still load and still say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.models.weights import load_weights, model_weights

STORED = Path(__file__).parent / "stored"
SHAPE: dict[str, Any] = {"dim": 8, "layers": 1, "heads": 2, "feed_forward": 8, "max_length": 8}
MODELS: dict[str, dict[str, Any]] = {
    "sinusoidal": {},
    "learned": {"positions": "learned", "norm": "post", "activation": "gelu", "tie": "none"},
}


SCORE_WEIGHTS = {
    f"{layer}.score_weight"
    for layer in (
        "encoder.blocks.0.attention",
        "decoder.blocks.0.attention",
        "decoder.blocks.0.cross_attention",
    )
}
"""Every attention has its own."""


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_says_what_it_said(name: str) -> None:
    file = STORED / f"{name}.safetensors"
    stored = load_file(file)
    torch.manual_seed(11)
    model = Transformer(TransformerConfig(**{**SHAPE, **MODELS[name]}), 10, 10).eval()
    # the same seed draws the same start: runs of the first version can be repeated
    torch.testing.assert_close(torch.cat([w.flatten() for w in model_weights(model).values()]).sum(), stored["drawn"])
    weights = {key.removeprefix("weights."): tensor for key, tensor in stored.items() if key.startswith("weights.")}
    load_weights(model, weights, file=file)  # every name and shape, none more and none fewer
    source, lengths = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]]), torch.tensor([4, 2])
    target = torch.tensor([[1, 8, 9], [1, 4, 4]])
    with torch.no_grad():
        found = model.log_probabilities(source, target, lengths)
    torch.testing.assert_close(found, stored["expected"])


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"positions": "rotary"}, set()),
        ({"positions": "alibi"}, set()),
        ({"positions": "none"}, set()),
        ({"window": 2}, set()),
        ({"key_value_heads": 1}, set()),
        ({"score": "dot", "normalizer": "none"}, set()),
        ({"score": "bilinear"}, SCORE_WEIGHTS),
        ({"score": "additive"}, SCORE_WEIGHTS),
        ({"positions": "relative"}, {"encoder.positions.bias.table.weight", "decoder.positions.bias.table.weight"}),
        (
            {"positions": "sinusoidal-concatenated"},
            {"source_embedding.mix.weight", "target_embedding.mix.weight"},
        ),
        ({"positions": "learned"}, {"source_embedding.positions", "target_embedding.positions"}),
    ],
)
def test_what_each_choice_adds_to_the_weights(changes: dict[str, Any], more: set[str]) -> None:
    plain = set(model_weights(Transformer(TransformerConfig(**SHAPE), 10, 10)))
    changed = set(model_weights(Transformer(TransformerConfig(**{**SHAPE, **changes}), 10, 10)))
    assert (changed - plain, plain - changed) == (more, set())
