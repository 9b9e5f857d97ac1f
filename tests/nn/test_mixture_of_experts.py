"""Gates and experts: who is asked, what they count, what keeps them all in use."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from torch import Tensor, nn

from anaphora.errors import UserError
from anaphora.models import settings
from anaphora.models.translation.transformer_translator import TransformerConfig
from anaphora.nn.expert_settings import chosen_experts
from anaphora.nn.mixture_of_experts import (
    MixtureOfExperts,
    active_parameters,
    chance_of_choice,
    counting,
    load,
    mixtures,
    telling,
    variation,
)
from anaphora.nn.transformer import FeedForward, TransformerEncoder

shapes = st.integers(2, 7).flatmap(lambda experts: st.tuples(st.just(experts), st.integers(2, experts)))


def mixture(experts: int, per_token: int, seed: int = 1, **changes: Any) -> MixtureOfExperts:
    torch.manual_seed(seed)
    layer = MixtureOfExperts(6, 10, experts=experts, per_token=per_token, **changes).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


def written_out(layer: MixtureOfExperts, x: Tensor) -> Tensor:
    """The formula, row by row: no noise."""
    rows = []
    for row in x:
        scores = layer.gate @ row
        best = scores.argsort(descending=True)[: layer.per_token]
        weights = scores[best].softmax(0)
        total = torch.zeros_like(row)
        for weight, expert in zip(weights, best.tolist()):
            inside = F.relu(layer.inner[expert] @ row + layer.inner_bias.view(-1, 10)[expert])
            total = total + weight * (layer.outer[expert] @ inside + layer.outer_bias.view(-1, 6)[expert])
        rows.append(total)
    return torch.stack(rows)


@hypothesis(max_examples=25)
@given(shape=shapes, seed=st.integers(0, 99), rows=st.integers(1, 9))
def test_values_and_gradients_are_those_of_the_formula(shape: tuple[int, int], seed: int, rows: int) -> None:
    layer = mixture(*shape, seed=seed).eval()
    x = torch.randn(rows, 6, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(rows, 6, dtype=torch.float64)
    used = (x, layer.gate, layer.inner, layer.outer, layer.inner_bias, layer.outer_bias)
    found = []
    for y in (layer(x), written_out(layer, x)):
        found.append([y, *torch.autograd.grad(y, used, pull)])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@hypothesis(max_examples=25)
@given(shape=shapes, seed=st.integers(0, 99), training=st.booleans())
def test_exactly_k_experts_whose_weights_are_one_in_all(shape: tuple[int, int], seed: int, training: bool) -> None:
    layer = mixture(*shape, seed=seed).train(training)
    chosen, weights = layer.choose(torch.randn(20, 6, dtype=torch.float64))
    assert chosen.shape == weights.shape == (20, shape[1])
    assert all(len(set(row)) == shape[1] for row in chosen.tolist())
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(20, dtype=torch.float64))


def test_one_expert_alone_is_a_feed_forward_network() -> None:
    torch.manual_seed(1)
    plain, layer = FeedForward(8, 12), MixtureOfExperts(8, 12, experts=1, per_token=1)
    layer.inner.data[0], layer.outer.data[0] = plain.inner.weight.data, plain.outer.weight.data
    layer.inner_bias.data, layer.outer_bias.data = plain.inner.bias.data, plain.outer.bias.data
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(layer(x), plain(x))
    with counting(layer), telling(layer, torch.ones(2, 5, dtype=torch.bool)):
        layer(x)
    found = load([layer])
    assert (found["cv"], found["entropy"], found["idle"]) == (0, 1, 0)


@pytest.mark.parametrize("kind", ["transformer", "transformer-decoder", "moe"])
def test_of_one_expert_a_token_asks_one_and_of_more_two(kind: str) -> None:
    """Unless it is told otherwise."""
    for experts, asked in ((1, 1), (2, 2), (5, 2)):
        config: Any = settings({"kind": kind, "experts": experts})
        found = chosen_experts(config)
        assert found is not None and found["per_token"] == asked


@hypothesis(max_examples=20)
@given(shape=shapes, seed=st.integers(0, 99))
def test_in_use_a_word_depends_on_itself_alone(shape: tuple[int, int], seed: int) -> None:
    layer = mixture(*shape, seed=seed).eval()
    x = torch.randn(3, 4, 6, dtype=torch.float64)
    whole = layer(x)
    order = torch.randperm(12)
    torch.testing.assert_close(layer(x.flatten(0, 1)[order]), whole.flatten(0, 1)[order])
    torch.testing.assert_close(layer(x[1:2, 2:3]), whole[1:2, 2:3])
    torch.testing.assert_close(layer(x), whole)  # and there is no noise


def test_while_learning_there_is_noise() -> None:
    layer = mixture(4, 2).train()
    x = torch.randn(30, 6, dtype=torch.float64)
    assert not torch.equal(layer(x), layer(x))


# Balance ------------------------------------------------------------------------------------------------------------


@given(value=st.floats(0.01, 1e4), experts=st.integers(2, 9))
def test_what_is_even_varies_by_nothing(value: float, experts: int) -> None:
    even = torch.full((experts,), value, dtype=torch.float64)
    assert variation(even).item() == pytest.approx(0, abs=1e-12)
    one = torch.zeros(experts, dtype=torch.float64)
    one[0] = value
    assert variation(one).item() == pytest.approx(experts - 1)  # all with one: (E - 1)


@hypothesis(max_examples=10)
@given(shape=st.sampled_from([(4, 2), (5, 2), (3, 1), (6, 5)]), seed=st.integers(0, 20))
def test_the_chance_is_how_often_other_noise_would_choose(shape: tuple[int, int], seed: int) -> None:
    """Of one expert the noise is drawn again, ten thousand times; the others keep theirs."""
    experts, per_token = shape
    generator = torch.Generator().manual_seed(seed)
    clean, deviation = torch.randn(1, experts, generator=generator), torch.rand(1, experts, generator=generator) + 0.2
    scores = clean + torch.randn(1, experts, generator=generator) * deviation
    best = scores.topk(per_token + 1).values
    stated = chance_of_choice(clean, scores, best, deviation, per_token)[0]
    for expert in range(experts):
        again = scores.repeat(10_000, 1)
        noise = torch.randn(10_000, generator=generator)
        again[:, expert] = clean[0, expert] + noise * deviation[0, expert]
        chosen = (again.topk(per_token).indices == expert).any(dim=1).float().mean()
        assert chosen.item() == pytest.approx(stated[expert].item(), abs=0.03)


def test_if_all_are_asked_they_are_asked_evenly() -> None:
    layer = mixture(3, 3).train()
    with telling(layer, torch.ones(50, dtype=torch.bool)):
        layer(torch.randn(50, 6, dtype=torch.float64))
    assert load([layer])["cv"] == 0
    ones = torch.ones(4, 3)
    assert torch.equal(chance_of_choice(ones, ones, ones, ones, 3), ones)


@hypothesis(max_examples=20)
@given(shape=shapes.filter(lambda shape: shape[1] < shape[0]), seed=st.integers(0, 99))
def test_gradients_reach_the_gate_and_the_noise(shape: tuple[int, int], seed: int) -> None:
    layer = mixture(*shape, seed=seed).train()
    x = torch.randn(20, 6, dtype=torch.float64)
    with telling(layer, torch.ones(20, dtype=torch.bool)):
        y = layer(x)
    assert layer.imbalance is not None
    for value in (y.square().sum(), layer.imbalance):
        for gradient in torch.autograd.grad(value, (layer.gate, layer.noise), retain_graph=True):
            assert gradient.isfinite().all()
            assert gradient.any()


def test_padding_counts_nowhere() -> None:
    """What stands at padding changes neither who is counted nor what balancing adds."""
    real = torch.tensor([[True, True, False], [True, False, False]])
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    found = []
    for rubbish in (0.0, 7.0):
        layer = mixture(4, 2).train()
        torch.manual_seed(5)
        with telling(layer, real):
            layer(torch.where(real[..., None], x, rubbish))
        found.append((layer.imbalance, layer.asked))
    assert torch.equal(found[0][0], found[1][0])  # type: ignore[arg-type]
    assert torch.equal(found[0][1], found[1][1])  # type: ignore[arg-type]
    assert found[0][1].sum() == 2 * 3  # type: ignore[union-attr]


def test_who_is_asked_is_counted_while_learning_or_where_somebody_wants_it() -> None:
    layer = mixture(4, 2).eval()
    x, real = torch.randn(10, 6, dtype=torch.float64), torch.ones(10, dtype=torch.bool)
    with telling(layer, real):
        layer(x)
    assert layer.imbalance is None
    assert load([layer])["shares"] == [[0.0] * 4]
    with counting(layer) as layers, telling(layer, real):
        chosen, _ = layer.choose(x)
        assert layers == [layer]
    shares = load([layer])
    assert shares["shares"][0] == pytest.approx((torch.bincount(chosen.flatten(), minlength=4) / 20).tolist())
    layer(x)  # nobody says what is real: a step of decoding
    assert load([layer]) == shares


def test_what_is_said_of_a_load() -> None:
    layer = mixture(4, 2)
    layer.asked.copy_(torch.tensor([30, 30, 40, 0]))
    found = load([layer])
    assert found["shares"] == [[0.3, 0.3, 0.4, 0.0]]
    assert found["cv"] == pytest.approx(math.sqrt((2 * 0.05**2 + 0.15**2 + 0.25**2) / 4) / 0.25)
    assert found["entropy"] == pytest.approx(-(0.6 * math.log(0.3) + 0.4 * math.log(0.4)) / math.log(4))
    assert (found["idle"], found["experts"]) == (1, 4)


# Where it stands ----------------------------------------------------------------------------------------------------


def test_bfloat16_under_autocast_learns() -> None:
    layer = MixtureOfExperts(8, 16, experts=4, per_token=2).train()
    x = torch.randn(3, 7, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16), telling(layer, torch.ones(3, 7, dtype=torch.bool)):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert layer.imbalance is not None and layer.imbalance.dtype == torch.float32
    (y.float().sum() + layer.imbalance).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_every_second_layer() -> None:
    from anaphora.nn.mixture_of_experts import Experts

    encoder = TransformerEncoder(8, layers=4, heads=2, experts=Experts(4, every=2))
    assert [len(mixtures(block)) for block in encoder.blocks] == [0, 1, 0, 1]
    assert "each second layer" in str(Experts(4, every=2))


def test_parameters_that_a_token_meets() -> None:
    layer = MixtureOfExperts(8, 16, experts=10, per_token=2)
    of_one = 2 * 8 * 16 + 8 + 16
    assert sum(p.numel() for p in layer.parameters()) == 10 * of_one + 2 * 8 * 10
    assert active_parameters(layer) == 2 * of_one + 2 * 8 * 10


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"experts": 4, "experts_per_token": 5}, "experts_per_token is 5, and there are 4 experts"),
        ({"experts": 4, "experts_per_token": 1}, "the gate would learn nothing; take 2"),
        ({"experts": 4, "experts_per_token": 0}, "a token can ask 1 to 4 of them"),
        ({"experts": 1, "experts_per_token": 2}, "there is 1 expert; a token can ask 1 of them"),
        ({"experts": 0}, "experts must be at least 1, not 0"),
        ({"experts_per_token": 2}, "experts_per_token means nothing without experts"),
        ({"expert_balance": 0.1}, "expert_balance means nothing without experts"),
        ({"experts": 4, "experts_every": 3, "layers": 2}, "of 2 layers none would have experts"),
        ({"experts": 4, "experts_every": 0}, "experts_every must be at least 1"),
        ({"experts": 4, "expert_balance": -1.0}, "expert_balance must be at least 0"),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, Any], message: str) -> None:
    for kind in ("transformer", "transformer-decoder"):
        with pytest.raises(UserError, match=message):
            settings({"kind": kind, **said})
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**said)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"experts_per_token": 9}, "experts_per_token is 9, and there are 8 experts"),
        ({"expert_hidden": 0}, "expert_hidden must be above 0"),
        ({"hidden": 7}, "make hidden even"),
        ({"unroll": "whole"}, "unroll=whole cannot be"),
    ],
)
def test_what_cannot_be_between_lstms(said: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        settings({"kind": "moe", **said})


def test_a_layer_refuses_too() -> None:
    with pytest.raises(ValueError, match="cannot ask 3 of 2 experts"):
        MixtureOfExperts(4, 4, experts=2, per_token=3)
