"""Positions: each by its formula; what only distance changes; how far each one reaches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anaphora.errors import UserError
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.nn.attention import MultiHeadAttention
from anaphora.nn.embedding import Embedding
from anaphora.nn.positions import (
    POSITIONS,
    Alibi,
    RelativeBias,
    RelativePositions,
    alibi_slopes,
    rotate,
    rotation,
    sinusoids,
)
from anaphora.nn.transformer import TransformerEncoder

# Rotary -------------------------------------------------------------------------------------------------------------


def test_a_pair_is_turned_by_its_place_times_its_rate() -> None:
    x = torch.tensor([[[[1.0, 0.0, 0.0, 2.0]]]])
    turned = rotate(x, rotation(torch.tensor([3]), 4))
    angles = torch.tensor([3.0, 3.0 / 100])  # rates 10000^0 and 10000^(-2/4)
    expected = torch.stack([angles[0].cos(), angles[0].sin(), -2 * angles[1].sin(), 2 * angles[1].cos()])
    torch.testing.assert_close(turned.flatten(), expected)


def test_rotary_scores_know_distances_and_not_places() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, 1, 8).double()
    for distance in (-3, 0, 5):
        found = [
            rotate(query, rotation(torch.tensor([p]), 8)) @ rotate(key, rotation(torch.tensor([p + distance]), 8)).mT
            for p in (3, 10, 40)
        ]
        torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found[0], found[2], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rotate(query, rotation(torch.tensor([9]), 8)).norm(), query.norm())


# Biases -------------------------------------------------------------------------------------------------------------


def test_alibi_slopes_are_the_published_ones() -> None:
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(4) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]
    assert alibi_slopes(1) == [2.0**-8]
    assert alibi_slopes(6) == [*alibi_slopes(4), 2.0**-1, 2.0**-3]
    for heads in range(1, 40):
        assert len(set(alibi_slopes(heads))) == heads


def test_alibi_lowers_a_score_by_distance() -> None:
    bias = Alibi(2).materialize(2, 3)  # queries at places 1 and 2
    assert bias.shape == (2, 2, 3)
    assert bias[0].tolist() == [[-0.0625, 0.0, -0.0625], [-0.125, -0.0625, 0.0]]


def test_relative_buckets_are_those_of_t5() -> None:
    """Half of them exact, the others logarithmic up to 128, one for all beyond; by hand from T5's formula."""
    causal, both = RelativeBias(1, bidirectional=False), RelativeBias(1, bidirectional=True)
    behind = torch.tensor([0, 1, 15, 16, 17, 20, 32, 64, 127, 128, 10_000])
    assert causal.bucket(-behind).tolist() == [0, 1, 15, 16, 16, 17, 21, 26, 31, 31, 31]
    assert causal.bucket(torch.tensor([3])).tolist() == [0]  # later keys are masked
    assert both.bucket(torch.tensor([0, -1, -7, -8, -500, 1, 7, 8, 500])).tolist() == [0, 1, 7, 8, 15, 17, 23, 24, 31]


def test_relative_bias_is_its_table() -> None:
    bias = RelativeBias(3, bidirectional=True)
    found = bias(torch.tensor([5]), torch.arange(8))  # (3, 1, 8)
    for head in range(3):
        assert found[head, 0, 4] == bias.table.weight[1, head]
        assert found[head, 0, 7] == bias.table.weight[18, head]


def test_a_step_is_told_what_the_whole_pass_is_told() -> None:
    places = torch.arange(9)
    for kind in ("alibi", "relative"):
        positions = RelativePositions(kind, 4, 8, bidirectional=False)  # type: ignore[arg-type]
        whole, step = positions(places, places).bias, positions(torch.tensor([[6, 2], [3, 3]]), places).bias
        assert step.shape == (2, 4, 2, 9)
        assert torch.equal(step[0, :, 0], whole[:, 6])
        assert torch.equal(step[1, :, 1], whole[:, 3])
    rotary = RelativePositions("rotary", 4, 8, bidirectional=False)
    turn = rotary(torch.tensor([[6, 2], [3, 3]]), places).rotation
    assert turn.shape == (2, 2, 1, 2, 4)
    assert torch.equal(turn[:, 0, 0, 1], rotary(places, places).rotation[:, 2])


def test_others_say_nothing_to_attention() -> None:
    for kind in ("none", "learned", "sinusoidal", "sinusoidal-concatenated"):
        positions = RelativePositions(kind, 4, 8, bidirectional=True)  # type: ignore[arg-type]
        assert positions(torch.arange(3), torch.arange(3)) == (None, None)
        assert not list(positions.parameters())


@torch.no_grad()
def test_rotary_attention_turns_queries_and_keys_and_leaves_values() -> None:
    torch.manual_seed(1)
    attention = MultiHeadAttention(8, 1).double()
    x, positions = torch.randn(1, 5, 8).double(), RelativePositions("rotary", 1, 8, bidirectional=True)
    query, key, value = attention.query_key_value(x).split(8, dim=-1)
    turn = rotation(torch.arange(5), 8)
    scores = rotate(query[None], turn)[0] @ rotate(key[None], turn)[0].mT / 8**0.5
    expected = attention.out(scores.softmax(dim=-1) @ value)
    torch.testing.assert_close(attention(x, relation=positions.whole(5, x.device)), expected)
    moved = positions(torch.arange(100, 105), torch.arange(100, 105))  # the same text, elsewhere
    torch.testing.assert_close(attention(x, relation=moved), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_that_reads_both_ways_has_buckets_for_both(causal: bool) -> None:
    bias = TransformerEncoder(16, positions="relative", causal=causal).positions.whole(6, torch.device("cpu")).bias
    ahead = bias[0, 0]  # the first query: every key after its own comes later
    assert len(set(ahead.tolist())) == (1 if causal else 6)  # causal: masked, so they share one


# Order --------------------------------------------------------------------------------------------------------------


def reader(positions: str) -> tuple[Embedding, TransformerEncoder]:
    torch.manual_seed(2)
    embedding = Embedding(20, 16, positions=positions, max_length=12)  # type: ignore[arg-type]
    encoder = TransformerEncoder(16, layers=2, heads=4, feed_forward=24, positions=positions)  # type: ignore[arg-type]
    for parameter in [*embedding.parameters(), *encoder.parameters()]:
        torch.nn.init.normal_(parameter, std=0.4)
    return embedding.double().eval(), encoder.double().eval()


@torch.no_grad()
@pytest.mark.parametrize("positions", POSITIONS)
def test_order_matters_with_positions_and_only_with_them(positions: str) -> None:
    """Permuting the input permutes the output: without positions exactly that, with any of them something else."""
    embedding, encoder = reader(positions)
    tokens, lengths = torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([5])
    order = torch.tensor([2, 0, 4, 3, 1])
    straight = encoder(embedding(tokens), lengths)[:, order]
    permuted = encoder(embedding(tokens[:, order]), lengths)
    assert torch.allclose(straight, permuted) == (positions == "none")


# How far each reaches -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", POSITIONS)
def test_what_can_be_read_beyond_the_trained_length(positions: str) -> None:
    """The same weights under a larger max_length: all but learned read on, and say of short text what they said."""

    def translator(longest: int) -> Transformer:
        torch.manual_seed(4)
        shape: dict[str, Any] = {"dim": 16, "layers": 1, "heads": 2, "feed_forward": 16, "positions": positions}
        return Transformer(TransformerConfig(**shape, max_length=longest), 20, 20).eval()

    trained, longer = translator(8), translator(40)
    if positions == "learned":
        with pytest.raises(RuntimeError, match="positions"):
            longer.load_state_dict(trained.state_dict())
    else:
        longer.load_state_dict(trained.state_dict())
        short = torch.tensor([[4, 5, 6, 2]]), torch.tensor([[1, 7, 8]])
        torch.testing.assert_close(longer(*short), trained(*short))
        long = torch.full((1, 30), 5), torch.full((1, 30), 6)
        assert longer(*long).isfinite().all()
    with pytest.raises(UserError, match=r"9 tokens is longer than the model's 8 positions; .*model.max_length"):
        trained(torch.full((1, 9), 5), torch.tensor([[1]]))


@torch.no_grad()
@pytest.mark.parametrize("positions", [kind for kind in POSITIONS if kind != "learned"])
def test_without_a_limit_an_embedding_has_no_end(positions: str) -> None:
    limited = Embedding(10, 16, positions=positions, max_length=2000)  # type: ignore[arg-type]
    endless = Embedding(10, 16, positions=positions, max_length=None)  # type: ignore[arg-type]
    endless.load_state_dict(limited.state_dict())
    tokens = torch.randint(1, 10, (1, 1500))
    torch.testing.assert_close(endless(tokens), limited(tokens))


def test_learned_positions_without_an_end_are_refused() -> None:
    with pytest.raises(ValueError, match="learned positions are a table"):
        Embedding(10, 16, positions="learned", max_length=None)


@torch.no_grad()
def test_rotary_alibi_and_relative_see_the_same_text_anywhere() -> None:
    """A window of text means the same at the start and far beyond any trained place: only distances count."""
    places = torch.arange(6)
    for kind in ("alibi", "relative"):
        positions = RelativePositions(kind, 4, 8, bidirectional=True)  # type: ignore[arg-type]
        assert torch.equal(positions(places, places).bias, positions(places + 5000, places + 5000).bias)


# Concatenated -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_concatenated_is_a_product_over_token_and_waves_that_begins_as_their_sum() -> None:
    embedding = Embedding(10, 6, positions="sinusoidal-concatenated", max_length=8).eval()
    tokens = torch.tensor([[4, 9, 4]])
    waves = sinusoids(8, 6)[:3]
    scaled = embedding.table.weight[tokens[0]] * embedding.scale
    torch.testing.assert_close(embedding(tokens)[0], scaled + waves @ embedding.mix.weight[:, 6:].T)
    torch.nn.init.normal_(embedding.mix.weight)
    torch.testing.assert_close(embedding(tokens)[0], torch.cat([scaled, waves], dim=-1) @ embedding.mix.weight.T)
    single = embedding(torch.tensor([[4], [9]]), torch.tensor([2, 1]))
    torch.testing.assert_close(single[:, 0], embedding(tokens)[0, [2, 1]])


# Refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"positions": "rotary", "score": "additive"}, "rotary positions show in plain dot products"),
        ({"positions": "rotary", "score": "bilinear"}, "with bilinear scores distances would be lost"),
        ({"positions": "alibi", "normalizer": "none"}, "alibi positions shift a softmax"),
        ({"positions": "relative", "normalizer": "none"}, "relative positions shift a softmax"),
        ({"positions": "rotary", "heads": 16}, "each head's 1 dimensions must be an even number"),
        ({"heads": 3}, r"dim \(16\) must be a multiple of heads \(3\)"),
        ({"key_value_heads": 3}, r"key_value_heads \(3\) must divide heads \(4\)"),
        ({"window": 0}, "size 0 is below 1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerEncoder(16, **choices)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key_value_heads": 3}, r"heads \(4\) must be a multiple of key_value_heads \(3\)"),
        ({"key_value_heads": 0}, "key_value_heads must be above 0"),
        ({"window": 0}, "window must be above 0"),
        ({"dim": 20, "positions": "rotary"}, "even dim / heads; 20 / 4 is odd"),
    ],
)
def test_the_translators_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**{"heads": 4, **settings})
