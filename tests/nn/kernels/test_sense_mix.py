"""Senses once for each distinct word, and their sum as one product: the values and gradients of the plain way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.nn.kernels import sense_sums as kernel
from anaphora.nn.kernels.sense_sums import distinct, distinct_of, mix, rounded, segment_sum
from anaphora.nn.sense_network import reference_mix


@pytest.fixture(autouse=True, params=[False, True], ids=["as a CPU", "as a GPU"])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So small that a row of eleven places has several of them, and a batch several runs; by both ways of products."""
    monkeypatch.setattr(kernel, "BLOCK_QUERIES", 16)
    monkeypatch.setattr(kernel, "MAX_WEIGHTS", 150)
    monkeypatch.setattr(kernel, "PIECE_POSITIONS", 3)
    monkeypatch.setattr(kernel, "sense_by_sense", lambda device: request.param)
    yield


def drawn(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=generator).requires_grad_()


def packed(batch: int, length: int, seed: int) -> Tensor:
    """Documents of random lengths, with padding behind the last."""
    draw, rows = np.random.default_rng(seed), []
    for _ in range(batch):
        numbers = np.repeat(np.arange(length), draw.integers(1, 5, length))[:length]
        numbers[length - int(draw.integers(0, 3)) :] = -1
        rows.append(numbers)
    return torch.from_numpy(np.stack(rows))


@settings(max_examples=25)
@given(
    batch=st.integers(1, 4),
    length=st.integers(1, 11),
    senses=st.sampled_from([1, 2, 3]),
    words=st.integers(1, 9),
    documents=st.booleans(),
    seed=st.integers(0, 999),
)
def test_values_and_gradients_are_those_of_the_plain_way(
    batch: int, length: int, senses: int, words: int, documents: bool, seed: int
) -> None:
    ids = np.random.default_rng(seed).integers(0, words, (batch, length))
    types, slots = map(torch.from_numpy, distinct(ids, words))
    query, key = drawn(seed, batch, length, senses, 4), drawn(seed + 1, batch, length, senses, 4)
    vectors = drawn(seed + 2, len(types), senses, 6)
    numbers = packed(batch, length, seed) if documents else None
    fast = mix(query, key, vectors, slots, numbers)
    plain = reference_mix(query, key, vectors[slots], numbers)
    torch.testing.assert_close(fast, plain)
    given_back = drawn(seed + 3, *fast.shape).detach()
    for mine, theirs in zip(*(torch.autograd.grad(out, (query, key, vectors), given_back) for out in (fast, plain))):
        torch.testing.assert_close(mine, theirs)


def test_gradients_by_differences() -> None:
    query, key, vectors = drawn(0, 2, 5, 2, 3), drawn(1, 2, 5, 2, 3), drawn(2, 4, 2, 3)
    slots = torch.tensor([[0, 1, 1, 3, 0], [3, 3, 0, 1, 1]])  # nobody is the third
    assert torch.autograd.gradcheck(lambda *given: mix(*given, slots), (query, key, vectors))


def test_half_precision_is_near_and_autocast_changes_nothing() -> None:
    shapes = [(2, 9, 2, 8), (2, 9, 2, 8), (5, 2, 8)]
    query, key, vectors = (drawn(seed, *shape, dtype=torch.float32) for seed, shape in enumerate(shapes))
    slots = torch.arange(18).view(2, 9) % 5
    plain = reference_mix(query, key, vectors[slots])
    half = [tensor.detach().bfloat16().requires_grad_() for tensor in (query, key, vectors)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fast = mix(*half, slots)
        whole = mix(query, key, vectors, slots)
    assert torch.equal(whole, mix(query, key, vectors, slots))
    assert fast.dtype == torch.bfloat16
    torch.testing.assert_close(fast.float(), plain, atol=0.05, rtol=0.05)
    fast.float().sum().backward()
    assert all(tensor.grad is not None and tensor.grad.dtype == torch.bfloat16 for tensor in half)


@settings(max_examples=30)
@given(count=st.integers(0, 40), number=st.integers(1, 9), seed=st.integers(0, 999))
def test_segment_sum_adds_up_what_has_a_slot(count: int, number: int, seed: int) -> None:
    slots = torch.from_numpy(np.random.default_rng(seed).integers(0, number, count))
    values = drawn(seed, count, 5).detach()
    wanted = torch.zeros(number, 5, dtype=values.dtype).index_add(0, slots, values)
    torch.testing.assert_close(segment_sum(values, slots, number), wanted)


def test_segment_sum_of_one_frequent_word_is_the_same_whatever_the_others_are() -> None:
    """The order of a sum is decided by the word's own places: the last bit stays."""
    values = drawn(7, 30, 4, dtype=torch.float32).detach()
    alone = segment_sum(values, torch.zeros(30, dtype=torch.long), 1)
    beside = segment_sum(torch.cat([values, values]), torch.arange(60) // 30, 2)
    assert torch.equal(alone[0], beside[0]) and torch.equal(alone[0], beside[1])


@given(ids=st.lists(st.integers(0, 29), min_size=1, max_size=60))
def test_distinct_words(ids: list[int]) -> None:
    types, slots = distinct(np.array(ids), 30)
    assert types[slots].tolist() == ids
    different = sorted(set(ids))
    assert types[: len(different)].tolist() == different
    assert not types[len(different) :].any() and slots.max() < len(different)
    assert len(types) == min(len(ids), rounded(len(different)))
    on_device = distinct_of(torch.tensor(ids))
    assert on_device[0].tolist() == different and on_device[1].tolist() == slots.tolist()


def test_few_sizes() -> None:
    """At most an eighth more, and eight of them from one power of two to the next."""
    assert all(number <= rounded(number) <= number * 1.125 + 1 for number in range(1, 5000))
    assert len({rounded(number) for number in range(4097, 8193)}) == 8
