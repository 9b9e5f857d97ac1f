"""Sizes and costs that a model states of itself, against the published ones and against a counter.

How parameters are counted: every trained number once. The three tables of a 3-way tied model (source, target, output)
are one table; sinusoidal positions are not trained and count nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anaphora.models import build, settings
from anaphora.models.registry import kinds
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.nn.attention_backends import CHUNK_POSITIONS
from anaphora.tasks.recipes import load_recipe, recipe_names
from grouped_flops import COUNTED


def kind_of(name: str) -> str:
    return load_recipe(name).get("model", {}).get("kind", "transformer")


def recipe(name: str, vocabulary: int = 37_000) -> Any:
    """Without memory: the meta device knows shapes only."""
    with torch.device("meta"):
        return build(settings(load_recipe(name)["model"]), vocabulary, vocabulary)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "published"), [("base", 65e6), ("big", 213e6)])
def test_published_counts_at_a_joint_vocabulary_of_37000(name: str, published: float) -> None:
    assert recipe(name).parameter_count() == pytest.approx(published, rel=0.04)


def test_base_by_hand() -> None:
    dim, hidden, vocabulary = 512, 2048, 37_000
    attention = 4 * (dim * dim + dim)
    feed_forward = dim * hidden + hidden + hidden * dim + dim
    norm = 2 * dim
    encoder = 6 * (attention + feed_forward + 2 * norm)
    decoder = 6 * (2 * attention + feed_forward + 3 * norm)
    assert recipe("base").parameter_count() == vocabulary * dim + encoder + decoder


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("tiny", (128, 4, 4, 256)),
        ("small", (256, 6, 4, 1024)),
        ("base", (512, 6, 8, 2048)),
        ("big", (1024, 6, 16, 4096)),
    ],
)
def test_widths_of_the_recipes(name: str, shape: tuple[int, int, int, int]) -> None:
    model = recipe(name, vocabulary=400)
    c = model.config
    assert (c.dim, c.layers, c.heads, c.feed_forward) == shape
    assert len(model.encoder.blocks) == len(model.decoder.blocks) == shape[1]


@pytest.mark.parametrize("name", [name for name in recipe_names() if kind_of(name) in kinds("translation")])
def test_every_recipe_is_a_model(name: str) -> None:
    assert recipe(name).parameter_count() > 0


def micro(**changes: Any) -> Transformer:
    shape = {"dim": 32, "layers": 2, "heads": 4, "feed_forward": 48, "max_length": 64, "dropout": 0.0}
    return Transformer(TransformerConfig(**{**shape, **changes}), 100, 100)


def test_tied_tables_count_once_and_are_one_memory() -> None:
    none, target, every = (micro(tie=tie).parameter_count() for tie in ("none", "target", "all"))
    assert none - target == target - every == 100 * 32
    model = micro(tie="all")
    assert model.projection.weight is model.target_embedding.table.weight is model.source_embedding.table.weight


def test_learned_positions_count() -> None:
    plain = micro().parameter_count()
    assert micro(positions="learned").parameter_count() - plain == 2 * 64 * 32
    assert micro(positions="relative").parameter_count() - plain == 2 * 32 * 4  # 32 buckets, 4 heads, two stacks
    assert micro(positions="sinusoidal-concatenated").parameter_count() - plain == 2 * 64 * 32
    for free in ("rotary", "alibi", "none"):
        assert micro(positions=free).parameter_count() == plain


def test_weights_of_scores_count() -> None:
    plain = micro().parameter_count()
    assert micro(score="dot", normalizer="none").parameter_count() == plain
    assert micro(score="additive").parameter_count() - plain == 6 * 4 * 8  # six attentions, four heads, v of 8
    assert micro(score="bilinear").parameter_count() - plain == 6 * 4 * 8 * 8  # W of 8 by 8


def test_shared_key_heads_save_their_projections() -> None:
    saved = micro().parameter_count() - micro(key_value_heads=1).parameter_count()
    assert saved == 4 * 2 * 24 * (32 + 1)  # four self-attentions, keys and values, three heads of 8 each


def test_a_window_saves_what_it_hides() -> None:
    narrow, wide = (micro(window=window).flops(100, 100, 50, 50) for window in (5, None))
    assert wide - narrow == 2 * 100 * 4 * 32 * ((50 - 9) + (25 - 5))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layers": 1, "decoder_layers": 3},
        {"norm": "post", "activation": "gelu"},
        {"key_value_heads": 1},
        {"key_value_heads": 2, "positions": "rotary"},
        {"positions": "sinusoidal-concatenated"},
        {"positions": "relative"},
        {"score": "dot"},
        {"score": "bilinear", "key_value_heads": 2},
        {"score": "additive"},
        {"score": "bilinear", "normalizer": "none"},
        {"experts": 6},
        {"experts": 4, "experts_per_token": 3, "experts_every": 2, "layers": 3},
    ],
)
def test_flops_are_those_of_a_counter(changes: dict[str, Any]) -> None:
    """The counter sees masked products too: it counts a causal attention in full, T scores a token, where the half of
    them that the mask leaves is what `flops` counts. Adding the other half must give the counter's number exactly."""
    model = micro(attention="reference", **changes).eval()
    batch, source, target = 3, 20, 12
    ids = torch.ones(batch, source, dtype=torch.long), torch.full((batch,), source)
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=COUNTED) as counter:
        model(ids[0], torch.ones(batch, target, dtype=torch.long), ids[1])
    stated = model.flops(batch * source, batch * target, source, target)
    c = model.config
    masked = (c.decoder_layers or c.layers) * batch * target * 4 * c.dim * target / 2
    assert stated + masked == pytest.approx(counter.get_total_flops(), rel=1e-9)
    assert stated == pytest.approx(counter.get_total_flops(), rel=0.05)


@pytest.mark.parametrize("score", ["scaled-dot", "bilinear"])
def test_flops_of_linear_attention_are_those_of_a_counter(score: str) -> None:
    """Longer than a head is wide (8), it sums keys and values up first; the counter sees a chunk's masked half too."""
    model = micro(normalizer="none", score=score).eval()
    batch, source, target = 3, 40, CHUNK_POSITIONS
    ids = torch.ones(batch, source, dtype=torch.long), torch.full((batch,), source)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(ids[0], torch.ones(batch, target, dtype=torch.long), ids[1])
    stated = model.flops(batch * source, batch * target, source, target)
    masked = 2 * batch * target * 4 * 32 * CHUNK_POSITIONS / 2
    assert stated + masked == pytest.approx(counter.get_total_flops(), rel=1e-9)
    per_pair = micro(normalizer="none", score=score, attention="reference")
    assert stated < per_pair.flops(batch * source, batch * target, source, target)


@pytest.mark.parametrize("key_value_heads", [None, 2, 1])
def test_bytes_per_token_are_those_of_a_state(key_value_heads: int | None) -> None:
    model = micro(decoder_layers=3, key_value_heads=key_value_heads)
    state = model.start(torch.ones(1, 4, dtype=torch.long), torch.tensor([4]), 1, 10)
    held = sum(state.memory[name].numel() * state.memory[name].element_size() for name in state.growing)
    assert model.cache_bytes_per_token() == held // 10
