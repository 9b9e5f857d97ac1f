"""The fast twins on a GPU; run with `pytest -m gpu` on a machine that has one.

Tolerances: float32 2e-3, bfloat16 3e-2, both of the largest number. Float32 means float32 here, whatever ran before in
this process: `choose_device` allows tf32, and behind tests that call it FlexAttention was up to 2.8e-3 off. What it
does in tf32, as training has it, is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from anaphora.nn.attention import attend, explain_backend
from anaphora.nn.attention_backends import _efficient_can
from anaphora.nn.masks import Causal, Documents, Mask, Padding, TensorMask, Window
from anaphora.nn.positions import Alibi, PositionBias, RelativeBias
from anaphora.nn.transformer import TransformerEncoder

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

B, H, T, S, D = 2, 4, 300, 333, 32
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 3e-2}


def masks() -> dict[str, Mask | None]:
    torch.manual_seed(0)
    lengths = torch.tensor([0, 200], device="cuda")  # a row of which nothing may be seen
    documents = torch.arange(S, device="cuda").div(70, rounding_mode="floor").expand(B, S)
    given = torch.rand(B, 1, T, S, device="cuda") > 0.5
    given[1, 0, 7] = False
    return {
        "nothing": None,
        "padding": Padding(lengths),
        "causal": Causal(),
        "window": Window(20) & Causal(),
        "documents": Documents(documents) & Causal() & Padding(lengths),
        "given": TensorMask(given),
    }


def biases() -> dict[str, PositionBias | None]:
    torch.manual_seed(0)
    return {"none": None, "alibi": Alibi(H).cuda(), "relative": RelativeBias(H, bidirectional=True).cuda()}


def learned(
    backend: str, inputs: list[Tensor], bias: PositionBias | Tensor | None, **choices: Any
) -> tuple[Tensor, ...]:
    wanted = [*inputs, *(bias.parameters() if isinstance(bias, PositionBias) else ())]
    out = attend(*inputs, bias=bias, backend=backend, **choices)  # type: ignore[arg-type]
    direction = torch.linspace(-1, 1, out.numel(), device="cuda").view_as(out).to(out.dtype)
    return (out, *torch.autograd.grad((out * direction).sum(), wanted))


@pytest.fixture(autouse=True)
def float32_is_float32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture(autouse=True)
def compiled_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch must not go on without FlexAttention's kernel where it has compiled it too often."""
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", True)


MASKS, BIASES = ("nothing", "padding", "causal", "window", "documents", "given"), ("none", "alibi", "relative")
PAIRS = list(product(MASKS, BIASES))
# Compiling takes seconds: every mask with every bias, each mask and each bias in both types, but not all triples
FLEX = [("flex", mask, bias, list(TOLERANCE)[(MASKS.index(mask) + BIASES.index(bias)) % 2]) for mask, bias in PAIRS]
SDPA = [("sdpa", mask, bias, dtype) for mask, bias in PAIRS for dtype in TOLERANCE]


@pytest.mark.parametrize(("backend", "mask", "bias", "dtype"), FLEX + SDPA)
def test_is_the_reference(backend: str, mask: str, bias: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    groups = 2
    inputs = [
        torch.randn(B, heads, length, D, device="cuda", dtype=dtype, requires_grad=True)
        for heads, length in ((H, T), (groups, S), (groups, S))
    ]
    found = learned(backend, inputs, biases()[bias], mask=masks()[mask])
    plain = [tensor.detach().double().requires_grad_() for tensor in inputs]
    exact = biases()[bias]
    wanted = learned("reference", plain, None if exact is None else exact.double(), mask=masks()[mask])
    for one, other in zip(found, wanted):
        assert one.isfinite().all()
        gap = (one.double() - other).abs().max() / other.abs().max().clamp(min=1.0)
        assert gap < TOLERANCE[dtype], gap
    if mask == "padding":
        assert (found[0][0] == 0).all()


@pytest.mark.parametrize(
    ("backend", "masked", "dtype"),
    [("flex", False, torch.float32), ("flex", True, torch.bfloat16), *product(["sdpa"], [False, True], TOLERANCE)],
)
def test_a_bias_of_minus_infinity_forbids_as_a_mask_does(backend: str, masked: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    shapes = ((H, T), (2, S), (2, S))  # as above: other shapes are another kernel
    inputs = [torch.randn(B, heads, n, D, device="cuda", dtype=dtype, requires_grad=True) for heads, n in shapes]
    bias = torch.randn(H, T, S, device="cuda", dtype=dtype)
    bias = bias.masked_fill(torch.rand(H, T, S, device="cuda") > 0.5, float("-inf"))
    bias[:, 7] = float("-inf")  # nothing by the bias alone
    mask = None
    if masked:
        seen = torch.rand(B, 1, T, S, device="cuda") > 0.5
        seen[:, :, 8] = (bias[:, 8] == float("-inf")).all(dim=0)  # nothing by both together
        mask = TensorMask(seen)
    found = learned(backend, inputs, bias, mask=mask)
    wanted = learned("reference", [x.detach().double().requires_grad_() for x in inputs], bias.double(), mask=mask)
    for one, other in zip(found, wanted):
        assert one.isfinite().all()
        gap = (one.double() - other).abs().max() / other.abs().max().clamp(min=1.0)
        assert gap < TOLERANCE[dtype], gap
    assert (found[0][:, :, 7 : 9 if masked else 8] == 0).all()


@pytest.mark.parametrize("huge", [1e8, 3e38])
def test_causal_linear_keeps_a_huge_late_value_from_those_before_it(huge: float) -> None:
    torch.manual_seed(1)
    query, key, value = (torch.randn(1, 2, T, D, device="cuda") for _ in range(3))
    asked: dict[str, Any] = {"score": "dot", "normalizer": "none", "causal": True, "backend": "linear"}
    clean = attend(query, key, value, **asked)
    key[:, :, 200], value[:, :, 200] = 4.0, huge
    gap = (attend(query, key, value, **asked) - clean)[:, :, :200].abs().max() / clean[:, :, :200].abs().max()
    assert gap < TOLERANCE[torch.float32], gap


def test_auto_takes_flex_for_a_long_window_and_says_why() -> None:
    long = torch.randn(1, 2, 512, 32, device="cuda", dtype=torch.bfloat16)
    chosen = explain_backend(long, long, long, mask=Window(64) & Causal())
    assert chosen.name == "flex"
    assert "rule" in chosen.reason
    wide = long.float()
    assert explain_backend(wide, wide, wide, mask=Window(64) & Causal()).name == "sdpa"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [64, 20])  # 20 is no multiple of 8: PyTorch's own choice runs it
def test_short_halves_are_the_reference(size: int, causal: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(B, H, 50, size, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
    assert "memory-efficient" in explain_backend(*inputs, causal=causal).reason
    assert _efficient_can(*inputs, 0.0, causal) == (size == 64)
    found = learned("auto", inputs, None, causal=causal)
    wanted = learned("reference", [x.detach().double().requires_grad_() for x in inputs], None, causal=causal)
    names = {event.name for event in profiled(lambda: learned("auto", inputs, None, causal=causal))}
    assert any("efficient_attention_backward" in name for name in names) == (size == 64)
    for one, other in zip(found, wanted):
        gap = (one.double() - other).abs().max() / other.abs().max().clamp(min=1.0)
        assert gap < TOLERANCE[torch.bfloat16], gap
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):  # who switches the kernel off is obeyed
        assert not _efficient_can(*inputs, 0.0, causal)


def profiled(call: Callable[[], Any]) -> Any:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return profile.events()


def test_short_halves_inside_a_graph() -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(B, H, 50, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found = learned("auto", inputs, None)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = learned("auto", inputs, None)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(found, recorded))


@pytest.mark.parametrize("bias", [None, "given", "relative"])
@pytest.mark.parametrize("masked", [False, True])
def test_one_query_that_learns_is_the_reference(masked: bool, bias: str | None) -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(B, h, n, D, device="cuda", requires_grad=True) for h, n in ((H, 1), (2, S), (2, S))]
    mask = Padding(torch.tensor([0, 200], device="cuda")) if masked else None
    table: Any = None if bias is None else biases()["relative"]
    if bias == "given":
        table = torch.randn(H, 1, S, device="cuda").masked_fill(torch.rand(H, 1, S, device="cuda") > 0.5, float("-inf"))
        table[0] = float("-inf")
    assert explain_backend(*inputs, mask=mask, bias=table).name == "few"
    found = learned("auto", inputs, table, mask=mask)
    exact = table if table is None else table.double()
    wanted = learned("reference", [x.detach().double().requires_grad_() for x in inputs], exact, mask=mask)
    for one, other in zip(found, wanted):
        assert one.isfinite().all()
        gap = (one.double() - other).abs().max() / other.abs().max().clamp(min=1.0)
        assert gap < TOLERANCE[torch.float32], gap
    if masked:
        assert (found[0][0] == 0).all()


def test_a_long_window_encoder_is_the_same_on_both_machines() -> None:
    torch.manual_seed(0)
    encoder = TransformerEncoder(64, layers=2, heads=2, window=30, causal=True, positions="alibi", backend="flex")
    x, lengths = torch.randn(2, 400, 64), torch.tensor([400, 123])
    with torch.no_grad():
        plain = encoder(x, lengths)
        found = encoder.cuda()(x.cuda(), lengths.cuda()).cpu()
    for row, length in enumerate(lengths.tolist()):
        assert torch.allclose(found[row, :length], plain[row, :length], atol=1e-2)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_additive_is_the_reference(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 2, n, 40, device="cuda", dtype=dtype) for n in (17, 23, 23))
    v = torch.randn(2, 40, device="cuda", dtype=dtype)
    mask = Padding(torch.tensor([23, 0, 9], device="cuda"))
    assert explain_backend(query, key, value, score="additive", weight=v, mask=mask).name == "additive"
    results = []
    for backend, kind in (("auto", dtype), ("reference", torch.float64)):
        inputs = [tensor.to(kind).requires_grad_() for tensor in (query, key, value, v)]
        out = attend(*inputs[:3], score="additive", weight=inputs[3], mask=mask, backend=backend)  # type: ignore[arg-type]
        results.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    for one, other in zip(*results):
        assert (one.double() - other).abs().max() / other.abs().max().clamp(min=1.0) < TOLERANCE[dtype]
