"""The Triton kernels of additive attention against the reference in float64.

Under the interpreter on a CPU (`TRITON_INTERPRET=1 pytest …`; test_triton_interpreted.py runs this file so), or on a
GPU (`pytest -m gpu …`)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.nn.kernels import additive as module
from anaphora.nn.kernels.additive import additive_attention, additive_backend
from plain_additive import plain_additive

DEVICE = "cpu" if module.INTERPRETING else "cuda"
interpreted = pytest.mark.skipif(
    not module.INTERPRETING or not module.TRITON, reason="needs triton and TRITON_INTERPRET=1"
)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
"""Of the largest number of the reference, computed in float64 from the same rounded inputs."""


def inputs(lead: tuple[int, ...], n: int, m: int, d: int, e: int, *, heads: int = 0, seed: int = 0) -> list[Tensor]:
    """query, key, value, v; v as a model would have it, so that scores are of the order of 1."""
    make = torch.Generator().manual_seed(seed)
    shapes = [(*lead, n, d), (*lead, m, d), (*lead, m, e), (heads, d) if heads else (d,)]
    made = [torch.randn(shape, generator=make, dtype=torch.float64) for shape in shapes]
    made[-1] *= d**-0.5
    return [x.to(DEVICE) for x in made]


def run(function, tensors: list[Tensor], pull: Tensor, **options) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    context = function(*leaves, **options)
    context.backward(pull.to(context))
    return [context.detach(), *(leaf.grad for leaf in leaves)]


def compare(tensors: list[Tensor], dtype: torch.dtype = torch.float32, mask: Tensor | None = None) -> None:
    given = [x.to(dtype) for x in tensors]
    assert additive_backend(*given)[0] == "triton"
    pull = torch.randn(*given[0].shape[:-1], given[2].shape[-1], generator=torch.Generator().manual_seed(7))
    pull = pull.to(DEVICE, dtype)
    expected = run(plain_additive, [x.double() for x in given], pull.double(), mask=mask)
    found = run(additive_attention, given, pull, mask=mask, backend="triton")
    for name, got, want in zip(("context", "query", "key", "value", "v"), found, expected):
        assert got.dtype == dtype, name
        limit = TOLERANCE[dtype] * max(1.0, want.abs().max().item())
        off = (got.double() - want).abs().max().item()
        assert off <= limit, f"{name} is off by {off:.2e}, more than {limit:.2e}"  # NaN is off too


@interpreted
@settings(max_examples=25)
@given(
    lead=st.sampled_from([(1,), (2,), (1, 2)]),
    n=st.sampled_from([1, 2, 8, 11]),
    m=st.sampled_from([1, 3, 8, 17, 33]),
    d=st.sampled_from([1, 5, 32, 40, 70]),
    e=st.sampled_from([1, 6, 16]),
    allowed=st.sampled_from([None, 0.0, 0.5, 0.9]),
    dtype=st.sampled_from(list(TOLERANCE)),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_those_of_the_reference(
    lead: tuple[int, ...], n: int, m: int, d: int, e: int, allowed: float | None, dtype: torch.dtype, seed: int
) -> None:
    mask = None
    if allowed is not None:
        mask = torch.rand(*lead, n, m, generator=torch.Generator().manual_seed(seed)) < allowed
    compare(inputs(lead, n, m, d, e, seed=seed), dtype, mask)


@interpreted
@pytest.mark.parametrize("n", [1, 9])
def test_a_v_for_each_head_and_views_with_gaps(n: int) -> None:
    query, key, value, v = inputs((2, 3), n, 10, 12, 4, heads=3)
    # (B, T, H, D) turned round, as projections leave them, and every second feature
    query, key, value = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key, value))
    key = torch.stack([key, key], dim=-1)[..., 0]
    assert not value.is_contiguous()
    assert key.stride(-1) == 2
    mask = (torch.arange(10) < torch.tensor([4, 0])[:, None])[:, None, None, :]  # strides of 0 over heads and queries
    compare([query, key, value, v], mask=mask)


@interpreted
@pytest.mark.parametrize("n", [1, 3])
def test_halves_of_one_projection_are_read_where_they_lie(n: int) -> None:
    query, key, value, v = inputs((2,), n, 7, 12, 12)
    key, value = torch.cat([key, value], dim=-1).chunk(2, dim=-1)
    query = torch.cat([query, query], dim=1)[:, :n]
    assert key.stride() == (7 * 24, 24, 1)
    compare([query, key, value, v])


@interpreted
@pytest.mark.parametrize("n", [1, 3])
def test_saturated_features(n: int) -> None:
    """One side far beyond what E holds is exact; both beyond it, on two sides of 0, are told apart by `step` alone."""
    query, key, value, v = inputs((1,), n, 5, 6, 2)
    query[..., 0], key[..., 1] = 1e4, -1e4
    query[..., 2], key[..., 2] = 30.0, -30.5
    if n == 1:
        query[..., 3], key[..., 3] = 50.0, -49.5
    compare([query, key, value, v])


@interpreted
@pytest.mark.parametrize("n", [1, 3])
def test_not_a_number_is_not_hidden(n: int) -> None:
    query, key, value, v = (x.float() for x in inputs((1,), n, 5, 6, 2))
    key[0, 2, 3] = float("nan")
    assert additive_attention(query, key, value, v, backend="triton").isnan().all()


@interpreted
def test_keys_beyond_one_block_are_added_up() -> None:
    from anaphora.nn.kernels import additive_triton

    assert [additive_triton._gradient_keys(m) for m in (1, 9, 32, 50, 65, 128)] == [8, 16, 32, 64, 32, 64]
    compare(inputs((1,), 2, 130, 33, 3))


@interpreted
@pytest.mark.parametrize(("m", "d", "e"), [(130, 7, 70), (50, 1030, 3), (3, 2, 1030), (512, 3, 2)])
def test_a_step_of_more_than_one_tile(m: int, d: int, e: int) -> None:
    mask = torch.arange(m) % 3 < 2
    compare(inputs((2,), 1, m, d, e), mask=mask.expand(2, 1, m))


TUNED = ("scores", "gradients", "step_scores", "step_context", "step_weights_gradients", "step_scores_gradients")


SHAPES = [
    ((3, 50, 50, 1024), 1024), ((2, 130, 200, 512), 512), ((8, 1, 50, 1024), 1000), ((2, 17, 1, 33), 7),
    ((2, 1, 1, 1), 1), ((3, 1, 512, 70), 30), ((1, 1, 600, 70), 30), ((2, 5, 77, 130), 64),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(("shape", "e"), SHAPES)
def test_on_the_device(
    shape: tuple[int, int, int, int], e: int, dtype: torch.dtype, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case with one of the tiles that tuning chooses from, in turn: all of them are proved, whichever is chosen,
    and only one is compiled."""
    from anaphora.nn.kernels import additive_triton as kernels

    number = SHAPES.index((shape, e)) + list(TOLERANCE).index(dtype)
    for name in TUNED:
        tuned = getattr(kernels, f"_tuned_{name}")
        monkeypatch.setattr(tuned, "configs", [tuned.configs[number % len(tuned.configs)]])
        monkeypatch.setattr(tuned, "cache", {})
    batch, n, m, d = shape
    mask = torch.rand(batch, n, m, device=DEVICE) < 0.7 if masked else None
    if mask is not None:
        mask[0, 0] = False
    compare(inputs((batch,), n, m, d, e), dtype, mask)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("shape", [(4, 50, 130, 256), (16, 1, 50, 256)])
def test_the_same_bits_twice_and_inside_a_graph(shape: tuple[int, int, int, int]) -> None:
    tensors = [x.float() for x in inputs((shape[0],), *shape[1:], 64)]
    pull = torch.randn(shape[0], shape[1], 64, device=DEVICE)
    first, second = (run(additive_attention, tensors, pull) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    graph = torch.cuda.CUDAGraph()
    leaves = [x.requires_grad_() for x in tensors]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.autograd.grad(additive_attention(*leaves), leaves, pull)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        gradients = torch.autograd.grad(additive_attention(*leaves), leaves, pull)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(first[1:], gradients))
