"""The weighted sum of senses on a GPU: the plain way's values and gradients, always the same bits, and in a graph."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from anaphora.nn.kernels.sense_sums import mix, segment_sum
from anaphora.nn.sense_network import reference_mix

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # PyTorch says so where the first product of a process is one of the backward pass, in a thread of its own
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),
]
BATCH, LENGTH, SENSES, DIM, WORDS = 3, 600, 4, 64, 50


def given(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator("cuda").manual_seed(1)
    shapes = [(BATCH, LENGTH, SENSES, DIM // SENSES)] * 2 + [(WORDS, SENSES, DIM)]
    tensors = [torch.randn(*shape, generator=generator, device="cuda").to(dtype).requires_grad_() for shape in shapes]
    slots = torch.randint(0, WORDS - 1, (BATCH, LENGTH), generator=generator, device="cuda")
    return tensors[0], tensors[1], tensors[2], slots


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.bfloat16, 0.06)])
def test_values_and_gradients(dtype: torch.dtype, tolerance: float) -> None:
    query, key, senses, slots = given(dtype)
    fast = mix(query, key, senses, slots)
    exact = [tensor.detach().double().requires_grad_() for tensor in (query, key, senses)]
    plain = reference_mix(exact[0], exact[1], exact[2][slots])
    torch.testing.assert_close(fast.double(), plain, atol=tolerance, rtol=tolerance)
    back = torch.randn_like(plain)
    mine = torch.autograd.grad(fast, (query, key, senses), back.to(dtype))
    for one, other in zip(mine, torch.autograd.grad(plain, exact, back)):
        size = float(other.abs().max())
        torch.testing.assert_close(one.double() / size, other / size, atol=tolerance, rtol=tolerance)


def test_the_same_bits_every_time() -> None:
    values = torch.randn(5000, 96, device="cuda").bfloat16()
    slots = torch.randint(0, 7, (5000,), device="cuda")
    first = segment_sum(values, slots, 8)
    assert all(torch.equal(segment_sum(values, slots, 8), first) for _ in range(5))


def test_recorded_and_replayed() -> None:
    """Nothing asks the host: forward and backward can be recorded, and a replay reads what its inputs hold by then."""
    query, key, senses, slots = given(torch.float32)

    def both() -> tuple[Tensor, ...]:
        out = mix(query, key, senses, slots)
        return (out, *torch.autograd.grad(out.square().sum(), (query, key, senses)))

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        both()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = both()
    slots.copy_(slots.flip(1))
    graph.replay()
    for one, other in zip(recorded, both()):
        torch.testing.assert_close(one, other)
