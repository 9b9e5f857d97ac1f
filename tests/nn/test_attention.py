"""Attention: the reference by hand, the fused twin by the reference, the cached step by the parallel pass."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anaphora.nn.attention import FEW_QUERIES, MultiHeadAttention, attend, attention_weights, causal_mask, padding_mask

A, B = [1.0, 0.0], [0.0, 1.0]


def four(rows: list[list[float]]) -> Tensor:
    """(T, D) -> (1, 1, T, D)"""
    return torch.tensor(rows)[None, None]


def random_heads(batch: int, heads: int, queries: int, keys: int, dim: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = (queries, keys, keys)
    return [torch.randn(batch, heads, size, dim, generator=generator, dtype=torch.float64) for size in sizes]


# By hand ------------------------------------------------------------------------------------------------------------


def test_the_query_finds_the_key_that_answers_it() -> None:
    """Keys A and B, a query that asks for B: scores 0 and 1, divided by √2, weights in the ratio 1 : e^(1/√2)."""
    ratio = math.exp(1 / math.sqrt(2))
    weights = attention_weights(four([B]), four([A, B]))
    torch.testing.assert_close(weights, four([[1 / (1 + ratio), ratio / (1 + ratio)]]))
    values = four([[10.0, 0.0], [20.0, 4.0]])
    expected = four([[(10 + 20 * ratio) / (1 + ratio), 4 * ratio / (1 + ratio)]])
    for backend in ("reference", "sdpa"):
        torch.testing.assert_close(attend(four([B]), four([A, B]), values, backend=backend), expected)


def test_a_query_that_asks_for_nothing_takes_the_mean() -> None:
    values = four([[3.0, 0.0], [5.0, 8.0]])
    torch.testing.assert_close(
        attend(four([[0.0, 0.0]]), four([A, B]), values, backend="reference"), four([[4.0, 4.0]])
    )


def test_a_masked_key_is_as_if_it_were_not_there() -> None:
    mask = torch.tensor([[[[True, False, True]]]])
    query, keys, values = four([[0.3, -2.0]]), four([A, [9.0, 9.0], B]), four([A, [100.0, 100.0], B])
    there = attend(query, keys, values, mask=mask, backend="reference")
    gone = attend(query, keys[:, :, [0, 2]], values[:, :, [0, 2]], backend="reference")
    torch.testing.assert_close(there, gone)


def test_causal_mask_stands_at_the_last_key() -> None:
    assert causal_mask(3, 3, torch.device("cpu")).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert causal_mask(2, 4, torch.device("cpu")).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_padding_mask_is_true_at_real_tokens() -> None:
    assert padding_mask(torch.tensor([2, 0, 3]), 3)[:, 0, 0].int().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]


# The twins ----------------------------------------------------------------------------------------------------------

shapes = st.tuples(*(st.integers(1, high) for high in (3, 3, 6, 6, 5)))


@given(shapes, st.booleans(), st.booleans(), st.integers(0, 1000), st.data())
def test_reference_and_sdpa_agree_in_values_and_gradients(
    shape: tuple[int, int, int, int, int], padded: bool, causal: bool, seed: int, data: st.DataObject
) -> None:
    batch, heads, queries, keys, dim = shape
    lengths = data.draw(st.lists(st.integers(0, keys), min_size=batch, max_size=batch))  # 0: a fully masked row
    mask = padding_mask(torch.tensor(lengths), keys) if padded else None
    # a causal query before the first key sees nothing; that too must be zeros in both
    results = []
    for backend in ("reference", "sdpa"):
        inputs = [tensor.requires_grad_() for tensor in random_heads(batch, heads, queries, keys, dim, seed)]
        out = attend(*inputs, mask=mask, causal=causal, backend=backend)
        direction = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        results.append((out, *torch.autograd.grad((out * direction).sum(), inputs)))
    for name, reference, fused in zip(("value", "query", "key", "value"), *results):
        assert fused.isfinite().all(), name
        torch.testing.assert_close(fused, reference, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("backend", ["reference", "sdpa", "auto"])
def test_a_fully_masked_row_gives_zeros(backend: str) -> None:
    query, key, value = random_heads(2, 2, 3, 4, 5)
    query.requires_grad_()
    out = attend(query, key, value, mask=padding_mask(torch.tensor([0, 4]), 4), backend=backend)
    assert (out[0] == 0).all()
    assert (out[1] != 0).all()
    out.sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()
    assert (query.grad[0] == 0).all()


@given(shapes, st.booleans(), st.integers(0, 1000), st.data())
def test_weights_are_those_used_and_sum_to_one(
    shape: tuple[int, int, int, int, int], causal: bool, seed: int, data: st.DataObject
) -> None:
    batch, heads, queries, keys, dim = shape
    query, key, value = random_heads(batch, heads, queries, keys, dim, seed)
    lengths = torch.tensor(data.draw(st.lists(st.integers(0, keys), min_size=batch, max_size=batch)))
    mask = padding_mask(lengths, keys)
    weights = attention_weights(query, key, mask=mask, causal=causal)
    allowed = (mask & causal_mask(queries, keys, query.device) if causal else mask).expand_as(weights)
    assert (weights >= 0).all()
    assert (weights[~allowed] == 0).all()
    torch.testing.assert_close(weights.sum(-1), allowed.any(-1).to(weights.dtype))  # 0 where nothing may be seen
    for backend in ("reference", "sdpa"):
        torch.testing.assert_close(
            weights @ value, attend(query, key, value, mask=mask, causal=causal, backend=backend)
        )


def test_dropout_drops_weights_and_keeps_their_mean() -> None:
    query, key, value = random_heads(1, 1, 1, 8, 4)
    torch.manual_seed(0)
    many = torch.stack([attend(query, key, value, dropout=0.5, backend="reference") for _ in range(2000)])
    assert many.std(0).min() > 0.01
    torch.testing.assert_close(many.mean(0), attend(query, key, value), atol=0.1, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("queries", [1, FEW_QUERIES, FEW_QUERIES + 1])
def test_auto_agrees_with_both_backends_for_few_and_many_queries(queries: int) -> None:
    query, key, value = (torch.randn(2, 3, length, 4) for length in (queries, 6, 6))
    key[:, :, 5] = value[:, :, 5] = 0.0  # a place of a cache where nothing was written yet
    mask = (torch.rand(2, 1, queries, 6) > 0.4) & (torch.arange(6) < 5)
    mask[0, 0, 0] = False  # a query that may look at nothing
    auto = attend(query, key, value, mask=mask)
    assert (auto[0, :, 0] == 0).all()
    for backend in ("reference", "sdpa"):
        torch.testing.assert_close(auto, attend(query, key, value, mask=mask, backend=backend))  # type: ignore[arg-type]


# Heads --------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["reference", "sdpa"])
def attention(request: pytest.FixtureRequest) -> MultiHeadAttention:
    torch.manual_seed(3)
    return MultiHeadAttention(12, 3, backend=request.param).double().eval()


def test_heads_are_attentions_side_by_side(attention: MultiHeadAttention) -> None:
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    query, key, value = attention.query_key_value(x).chunk(3, dim=-1)
    heads = []
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)
        heads.append(((query[..., part] @ key[..., part].mT) / 2).softmax(-1) @ value[..., part])
    torch.testing.assert_close(attention(x), attention.out(torch.cat(heads, dim=-1)))


def seen_by(ancestors: list[list[list[int]]], beam: int, places: int) -> torch.Tensor:
    """For each sentence and row the branch of each position on its path -> (B, 1, K, places), True at those places."""
    seen = torch.zeros(len(ancestors), 1, beam, places, dtype=torch.bool)
    for sentence, rows in enumerate(ancestors):
        for row, path in enumerate(rows):
            for t, branch in enumerate(path):
                seen[sentence, 0, row, t * beam + branch] = True
    return seen


@torch.no_grad()
def test_steps_with_a_cache_are_the_parallel_pass(attention: MultiHeadAttention) -> None:
    sentences, beam, length, room = 2, 3, 6, 9
    x = torch.randn(sentences * beam, length, 12, dtype=torch.float64)
    caches = torch.randn(
        2, sentences, 3, room * beam, 4, dtype=torch.float64
    ).unbind()  # rubbish where none was written
    steps = []
    for t in range(length):
        paths = [[[k] * (t + 1) for k in range(beam)] for _ in range(sentences)]  # every row goes its own way
        slot = torch.tensor([(head * room + t) * beam + k for head in range(sentences * 3) for k in range(beam)])
        seen = seen_by(paths, beam, min(t + 1 + t % 3, room) * beam)
        steps.append(attention.step(x[:, t].view(sentences, beam, 12), *caches, slot, seen).flatten(0, 1))
    torch.testing.assert_close(torch.stack(steps, dim=1), attention(x, causal=True))


@torch.no_grad()
def test_rows_that_branch_look_at_their_own_ancestors(attention: MultiHeadAttention) -> None:
    """Step 0: a b; step 1: both go on from b; step 2: from the second and the first of those. Nothing in the cache
    moves."""
    x = torch.randn(3, 2, 12, dtype=torch.float64)  # (step, row, dim)
    caches = torch.zeros(2, 1, 3, 10, 4, dtype=torch.float64).unbind()
    paths = [[[0], [1]], [[1, 0], [1, 1]], [[1, 1, 0], [1, 0, 1]]]
    for t in range(3):
        slot = torch.tensor([head * 10 + 2 * t + k for head in range(3) for k in range(2)])
        out = attention.step(x[t][None], *caches, slot, seen_by([paths[t]], 2, 2 * (t + 1)))
        for row, path in enumerate(paths[t]):
            said = torch.stack([x[step, branch] for step, branch in enumerate(path)])
            torch.testing.assert_close(out[0, row], attention(said[None], causal=True)[0, -1])


@torch.no_grad()
def test_rows_of_one_step_may_stand_at_different_positions(attention: MultiHeadAttention) -> None:
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    whole = attention(x, causal=True)
    keys, values = torch.zeros(2, 2, 3, 8, 4, dtype=torch.float64).unbind()
    _, key, value = (attention.split(part) for part in attention.query_key_value(x).chunk(3, dim=-1))
    keys[0, :, :4], values[0, :, :4] = key[0, :, :4], value[0, :, :4]
    keys[1, :, :1], values[1, :, :1] = key[1, :, :1], value[1, :, :1]
    slot = torch.tensor([head * 8 + (4 if head < 3 else 1) for head in range(6)])
    step = torch.stack([x[0, 4:5], x[1, 1:2]])
    out = attention.step(step, keys, values, slot, seen_by([[[0] * 5], [[0] * 2]], 1, 5))
    torch.testing.assert_close(out[:, 0], torch.stack([whole[0, 4], whole[1, 1]]))


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_cross_attention_weights_multiply_back_to_what_was_looked_at(backend: str) -> None:
    torch.manual_seed(5)
    attention = MultiHeadAttention(8, 2, memory_dim=6, backend=backend).double().eval()  # type: ignore[arg-type]
    x, memory = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 4, 6, dtype=torch.float64)
    mask = padding_mask(torch.tensor([2, 4]), 4)
    key, value = attention.remember(memory)
    weights = attention.weights(x, key, mask=mask)
    assert (weights[0, :, :, 2:] == 0).all()
    torch.testing.assert_close(attention.merge(weights @ value), attention.look(x, key, value, mask=mask))
