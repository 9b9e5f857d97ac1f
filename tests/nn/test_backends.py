"""Every fast twin is the reference, in values and gradients. (Which is taken, and what is refused:
test_backend_choice.py.)

Tolerances: float64 1e-10, float32 2e-5, float16 8e-3, bfloat16 5e-2 (the reference itself rounds there, weights to 11
and 8 bits), of the largest number. Lengths are small ones, and some that no block of a kernel divides.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._dynamo
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.nn import attention_backends as backends
from anaphora.nn.attention import attend, attention_weights, explain_backend
from anaphora.nn.attention_backends import BACKENDS, CHUNK_POSITIONS, FEW_QUERIES, Choices
from anaphora.nn.masks import Causal, Documents, Mask, Padding, TensorMask, Window
from anaphora.nn.positions import Alibi, PositionBias, RelativeBias
from anaphora.nn.scores import SCORES, spread

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 8e-3, torch.bfloat16: 5e-2}


def tensors(shape: dict[str, int], score: str, dtype: torch.dtype, seed: int, crooked: bool) -> dict[str, Tensor]:
    """query, key, value and the score's weight; `crooked` ones are views that no kernel finds in one piece."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*sizes: int) -> Tensor:
        if crooked and len(sizes) == 4:  # (B, T, H, 2 D) turned, every second number
            b, h, t, d = sizes
            return torch.randn(b, t, h, 2 * d, generator=generator).to(dtype)[..., ::2].transpose(1, 2)
        return torch.randn(*sizes, generator=generator).to(dtype)

    b, g, s, d = shape["batch"], shape["groups"], shape["keys"], shape["dim"]
    h, of_key = g * shape["share"], d + 2 if score == "bilinear" else d
    found = {"query": draw(b, h, shape["queries"], d), "key": draw(b, g, s, of_key)}
    found["value"] = draw(b, g, s, shape["value_dim"])
    if score == "additive":
        found["weight"] = draw(h, d)
    elif score == "bilinear":
        found["weight"] = draw(d, of_key)
    return found


def results(inputs: dict[str, Tensor], **choices: Any) -> dict[str, Tensor]:
    """The output and the gradient of everything that can learn."""
    inputs = {name: tensor.detach().requires_grad_() for name, tensor in inputs.items()}
    out = attend(inputs["query"], inputs["key"], inputs["value"], weight=inputs.get("weight"), **choices)
    direction = torch.linspace(-1, 1, out.numel()).view_as(out).to(out.dtype)
    gradients = torch.autograd.grad((out * direction).sum(), list(inputs.values()))
    return {"out": out, **dict(zip(inputs, gradients))}


def same(found: dict[str, Tensor], wanted: dict[str, Tensor], dtype: torch.dtype) -> None:
    for name, expected in wanted.items():
        assert found[name].isfinite().all(), name
        atol = TOLERANCE[dtype] * max(1.0, expected.abs().max().item())
        torch.testing.assert_close(
            found[name], expected, atol=atol, rtol=TOLERANCE[dtype], msg=lambda m, name=name: f"{name}: {m}"
        )


sizes = {
    "batch": st.integers(1, 3),
    "groups": st.integers(1, 2),
    "share": st.integers(1, 3),
    "dim": st.integers(1, 5),
    "value_dim": st.integers(1, 5),
}
lengths = st.one_of(st.integers(1, 7), st.sampled_from([33, 65, 130]))
shapes = st.fixed_dictionaries({**sizes, "queries": lengths, "keys": lengths})
decoding = st.fixed_dictionaries({**sizes, "queries": st.integers(1, FEW_QUERIES), "keys": lengths})
dtypes = st.sampled_from(list(TOLERANCE))


@st.composite
def masks(draw: st.DrawFn, shape: dict[str, int], simple: bool = False) -> Tensor | Mask | None:
    """None, a tensor, or a rule; rows of nothing among them."""
    b, t, s = shape["batch"], shape["queries"], shape["keys"]
    paddings = st.lists(st.integers(0, s), min_size=b, max_size=b).map(lambda n: Padding(torch.tensor(n)))
    if simple:
        padding = draw(paddings)
        return draw(st.sampled_from([None, padding, padding.materialize(t, s), padding & Causal(), Causal()]))
    rows, heads = draw(st.sampled_from([1, b])), draw(st.sampled_from([1, shape["groups"] * shape["share"]]))
    make = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    documents = st.just(Documents(*(torch.randint(-1, 2, (b, size), generator=make) for size in (s, t))))
    tensor = torch.rand(rows, heads, t, s, generator=make) > 0.5
    kinds = [paddings, documents, st.just(Causal()), st.builds(Window, st.integers(1, 4)), st.just(TensorMask(tensor))]
    rules = st.lists(st.one_of(kinds), min_size=1, max_size=3)
    joined = rules.map(lambda found: found[0] if len(found) == 1 else found[0] & found[1] & found[-1])
    return draw(st.one_of(st.none(), st.just(tensor), joined))


def bias_for(kind: str, shape: dict[str, int], dtype: torch.dtype) -> Tensor | PositionBias | None:
    heads = shape["groups"] * shape["share"]
    torch.manual_seed(1)
    if kind in ("tensor", "forbidding"):
        bias = torch.randn(heads, shape["queries"], shape["keys"]).to(dtype)
        if kind == "forbidding":  # -inf here and there, and in one row alone
            bias = bias.masked_fill(torch.rand(bias.shape) > 0.5, float("-inf"))
            bias[:, 0] = float("-inf")
        return bias
    makers = {"alibi": Alibi, "relative": lambda heads: RelativeBias(heads, bidirectional=True, buckets=8, furthest=6)}
    return makers[kind](heads).to(dtype).requires_grad_(False) if kind in makers else None


# SDPA, few, flex ----------------------------------------------------------------------------------------------------

biases = st.sampled_from(["none", "alibi", "relative", "tensor", "forbidding"])


@given(
    shapes, st.sampled_from(["scaled-dot", "dot", "bilinear"]), dtypes, biases, st.booleans(), st.booleans(), st.data()
)
def test_sdpa_is_the_reference(
    shape: dict[str, int], score: str, dtype: torch.dtype, bias: str, causal: bool, crooked: bool, data: st.DataObject
) -> None:
    inputs = tensors(shape, score, dtype, data.draw(st.integers(0, 99)), crooked)
    choices = {"score": score, "mask": data.draw(masks(shape)), "causal": causal, "bias": bias_for(bias, shape, dtype)}
    same(results(inputs, backend="sdpa", **choices), results(inputs, backend="reference", **choices), dtype)


@torch.no_grad()
@given(decoding, st.sampled_from(["scaled-dot", "dot", "bilinear"]), dtypes, biases, st.booleans(), st.data())
def test_few_is_the_reference(
    shape: dict[str, int], score: str, dtype: torch.dtype, bias: str, crooked: bool, data: st.DataObject
) -> None:
    inputs = tensors(shape, score, dtype, data.draw(st.integers(0, 99)), crooked)
    choices = {"score": score, "mask": data.draw(masks(shape)), "bias": bias_for(bias, shape, dtype)}
    if isinstance(choices["mask"], Causal):
        choices["mask"] = None  # it would be `causal`, which few leaves to others
    assert explain_backend(**inputs, **choices).name == "few"
    same({"out": attend(**inputs, **choices)}, {"out": attend(**inputs, backend="reference", **choices)}, dtype)


@given(decoding, st.sampled_from(["scaled-dot", "dot", "bilinear"]), dtypes, biases, st.booleans(), st.data())
def test_few_learns_as_the_reference_does(
    shape: dict[str, int], score: str, dtype: torch.dtype, bias: str, crooked: bool, data: st.DataObject
) -> None:
    """`auto` lets it learn on a GPU alone; it can do so anywhere."""
    inputs = tensors(shape, score, dtype, data.draw(st.integers(0, 99)), crooked)
    choices = {"score": score, "mask": data.draw(masks(shape)), "bias": bias_for(bias, shape, dtype)}
    wanted = results(inputs, backend="reference", **choices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backends.FAST, "sdpa", backends.attend_few)
        same(results(inputs, backend="sdpa", **choices), wanted, dtype)


def test_few_learns_through_dropout() -> None:
    """Of the weights that are left, twice as much; of the others nothing."""
    query, key = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 50, 4)
    value = torch.ones(1, 1, 50, 1, requires_grad=True)
    torch.manual_seed(0)
    out = backends.attend_few(query, key, value, Choices(dropout=0.5))
    (taken,) = torch.autograd.grad(out.sum(), [value])
    weights = attention_weights(query, key).flatten()
    left = taken.flatten() != 0
    assert 10 < left.sum() < 40
    torch.testing.assert_close(taken.flatten(), torch.where(left, 2 * weights, 0.0))


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@settings(max_examples=12)
@given(shapes, st.sampled_from(["scaled-dot", "dot", "bilinear"]), biases, st.booleans(), st.data())
def test_flex_is_the_reference(shape: dict[str, int], score: str, bias: str, causal: bool, data: st.DataObject) -> None:
    """Its rules, as written: on a CPU PyTorch has it uncompiled and without gradients (those: tests on a GPU)."""
    inputs = tensors(shape, score, torch.float32, data.draw(st.integers(0, 99)), False)
    choices = {"score": score, "mask": data.draw(masks(shape)), "causal": causal}
    choices["bias"] = bias_for(bias, shape, torch.float32)
    found = {"out": attend(**inputs, backend="flex", **choices)}
    same(found, {"out": attend(**inputs, backend="reference", **choices)}, torch.float32)


@torch.no_grad()
def test_flex_does_not_give_up_after_eight_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch would, and go on without the kernel."""
    made, compile_with = [], torch.compile

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        made.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda function: compile_with(function, backend=backend))
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", True)
    torch.compiler.reset()
    flex, x = backends._compiled_flex.__wrapped__(), torch.randn(1, 1, 16, 16)
    for kind in range(9):
        flex(x, x, x, score_mod=eval(f"lambda score, b, h, q, k: score + {kind}"))
    assert len(made) == 9
    torch.compiler.reset()


# Linear -------------------------------------------------------------------------------------------------------------


@given(shapes, st.sampled_from(["scaled-dot", "dot", "bilinear"]), dtypes, st.booleans(), st.booleans(), st.data())
def test_linear_is_the_reference(
    shape: dict[str, int], score: str, dtype: torch.dtype, causal: bool, crooked: bool, data: st.DataObject
) -> None:
    inputs = tensors(shape, score, dtype, data.draw(st.integers(0, 99)), crooked)
    mask = data.draw(masks(shape, simple=True))
    choices = {"score": score, "mask": mask, "causal": causal, "normalizer": "none"}
    same(results(inputs, backend="linear", **choices), results(inputs, backend="reference", **choices), dtype)


@pytest.mark.parametrize("queries", [CHUNK_POSITIONS - 1, CHUNK_POSITIONS, 2 * CHUNK_POSITIONS + 5])
@pytest.mark.parametrize("more", [-3, 0, 70])
def test_causal_linear_over_many_chunks(queries: int, more: int) -> None:
    shape = {"batch": 2, "groups": 1, "share": 2, "queries": queries, "keys": queries + more, "dim": 4, "value_dim": 3}
    inputs = tensors(shape, "dot", torch.float64, 0, False)
    choices = {"score": "dot", "normalizer": "none", "causal": True, "mask": Padding(torch.tensor([queries - 9, 999]))}
    assert explain_backend(inputs["query"], inputs["key"], inputs["value"], **choices).name == "linear"
    same(results(inputs, **choices), results(inputs, backend="reference", **choices), torch.float64)


@pytest.mark.parametrize("huge", [1e8, 3e38, float("inf")])
@pytest.mark.parametrize("more", [-3, 0, 70])
def test_causal_linear_keeps_a_huge_late_value_from_those_before_it(huge: float, more: int) -> None:
    """1e8 takes all digits of what it is added to, 3e38 overflows in the sum of its chunk. Infinity times the 0 of a
    score that is masked is no number, here as in the reference: only earlier chunks are kept from it."""
    queries = 3 * CHUNK_POSITIONS
    shape = {"batch": 1, "groups": 1, "share": 1, "queries": queries, "keys": queries + more, "dim": 4, "value_dim": 3}
    inputs = tensors(shape, "dot", torch.float32, 0, False)
    choices = {"score": "dot", "normalizer": "none", "causal": True, "backend": "linear"}
    clean = attend(**inputs, **choices)
    before, late = max(0, -more), max(0, more)  # queries before the first key, keys before the first query
    place = 2 * CHUNK_POSITIONS - 1  # the last of the second chunk
    inputs["key"][:, :, late + place] = 4.0  # its products with the value are beyond 3.4e38
    inputs["value"][:, :, late + place] = huge
    spared = before + (place if huge < float("inf") else CHUNK_POSITIONS)
    torch.testing.assert_close(attend(**inputs, **choices)[:, :, :spared], clean[:, :, :spared], atol=1e-4, rtol=1e-5)
    assert (attend(**inputs, **choices)[:, :, spared + 1 :] != clean[:, :, spared + 1 :]).any()


def test_linear_attention_by_hand() -> None:
    """Scores 2 and 3 weigh values 10 and 1: 2 · 10 + 3 · 1; nothing makes them sum to one."""
    query, key, value = (
        torch.tensor(rows)[None, None] for rows in ([[1.0, 1.0]], [[2.0, 0.0], [1.0, 2.0]], [[10.0], [1.0]])
    )
    for backend in ("reference", "linear"):
        assert attend(query, key, value, score="dot", normalizer="none", backend=backend).item() == 23.0
    weights = attention_weights(query, key, score="dot", normalizer="none")
    assert weights.flatten().tolist() == [2.0, 3.0]


# All scores, whatever auto takes --------------------------------------------------------------------------------------


@given(shapes, st.sampled_from(list(SCORES)), st.sampled_from(["softmax", "none"]), st.booleans(), st.data())
def test_auto_is_the_reference_and_weights_multiply_back(
    shape: dict[str, int], score: str, normalizer: str, causal: bool, data: st.DataObject
) -> None:
    inputs = tensors(shape, score, torch.float64, data.draw(st.integers(0, 99)), data.draw(st.booleans()))
    choices = {"score": score, "mask": data.draw(masks(shape)), "causal": causal, "normalizer": normalizer}
    found = results(inputs, **choices)
    same(found, results(inputs, backend="reference", **choices), torch.float64)
    weights = attention_weights(inputs["query"], inputs["key"], weight=inputs.get("weight"), **choices)
    torch.testing.assert_close(weights @ spread(inputs["value"], weights.shape[1]), found["out"].detach())


def test_a_relative_table_learns_through_every_backend() -> None:
    inputs = tensors(
        {"batch": 2, "groups": 2, "share": 1, "queries": 4, "keys": 6, "dim": 4, "value_dim": 4},
        "dot",
        torch.float64,
        0,
        False,
    )
    gradients = []
    for backend in ("reference", "sdpa"):
        torch.manual_seed(0)
        bias = RelativeBias(2, bidirectional=True).double()
        attend(**inputs, score="dot", bias=bias, causal=True, backend=backend).square().sum().backward()
        gradients.append(bias.table.weight.grad)
    torch.testing.assert_close(*gradients)
    assert (gradients[0] != 0).any()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("normalizer", ["softmax", "none"])
def test_a_query_that_may_look_at_nothing_gets_zeros(score: str, normalizer: str) -> None:
    shape = {"batch": 2, "groups": 2, "share": 2, "queries": 3, "keys": 4, "dim": 4, "value_dim": 3}
    inputs = tensors(shape, score, torch.float32, 0, False)
    found = results(inputs, score=score, normalizer=normalizer, mask=Padding(torch.tensor([0, 4])))
    assert (found["out"][0] == 0).all()
    assert (found["query"][0] == 0).all()
    assert all(tensor.isfinite().all() for tensor in found.values())


@pytest.mark.parametrize("backend", ["reference", "sdpa", "few"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_no_keys_is_nothing_to_look_at(backend: str, masked: bool, biased: bool) -> None:
    query, key = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 0, 4)
    mask, bias = torch.ones(3, 0, dtype=torch.bool) if masked else None, torch.ones(3, 0) if biased else None
    asked: dict[str, Any] = {"mask": mask, "bias": bias, "backend": "auto" if backend == "few" else backend}
    with torch.set_grad_enabled(backend != "few"):
        assert explain_backend(query, key, key, **asked).name == backend
        assert (attend(query, key, key, **asked) == torch.zeros(2, 1, 3, 4)).all()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("backend", ["reference", "sdpa", "few", "flex"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_of_minus_infinity_forbids_as_a_mask_does(backend: str, masked: bool) -> None:
    """Row 0 sees nothing by the bias alone, row 1 nothing by mask and bias together, row 2 one key."""
    shape = {"batch": 1, "groups": 1, "share": 1, "queries": 3, "keys": 2, "dim": 4, "value_dim": 3}
    inputs = tensors(shape, "dot", torch.float32, 0, False)
    bias = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]).log()
    mask = torch.tensor([[True, True], [True, False], [True, True]]) if masked else None
    bias[0] = float("-inf")
    learns = backend not in ("few", "flex")  # on a CPU
    with torch.set_grad_enabled(learns):
        asked = {"mask": mask, "bias": bias.requires_grad_(learns), "backend": "auto" if backend == "few" else backend}
        assert explain_backend(**inputs, **asked).name == backend
        inputs = {name: tensor.requires_grad_(learns) for name, tensor in inputs.items()}
        out = attend(**inputs, **asked)
    last = inputs["value"][0, 0, 1]
    expected = torch.stack([torch.zeros(3), torch.zeros(3) if masked else last, last])
    torch.testing.assert_close(out[0, 0], expected)
    if learns:
        gradients = torch.autograd.grad(out.square().sum(), [*inputs.values(), bias])
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert (gradients[0] == 0).all()  # each query has one key to look at, or none: it cannot choose


def test_attention_without_positions_does_not_know_the_order_of_keys() -> None:
    shape = {"batch": 1, "groups": 1, "share": 2, "queries": 3, "keys": 5, "dim": 4, "value_dim": 3}
    order = torch.tensor([3, 0, 4, 1, 2])
    for score in SCORES:
        inputs = tensors(shape, score, torch.float64, 0, False)
        shuffled = {**inputs, "key": inputs["key"][:, :, order], "value": inputs["value"][:, :, order]}
        torch.testing.assert_close(attend(**inputs, score=score), attend(**shuffled, score=score))


@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 5), (4, 1), (3, 4, 5), (2, 1, 1, 5), (1, 3, 4, 1), (2, 3, 4, 5)])
@pytest.mark.parametrize("backend", ["sdpa", "linear", "few"])
def test_a_mask_may_leave_out_dimensions(shape: tuple[int, ...], backend: str) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6), torch.randn(2, 3, 5, 6)
    mask = torch.rand(shape) > 0.4
    whole = mask.expand(2, 3, 4, 5)
    normalizer = "none" if backend == "linear" else "softmax"
    if backend == "linear" and len(shape) > 1 and shape[-2] > 1:
        backend = "auto"
    given: list[dict[str, Any]] = [{"mask": mask, "normalizer": normalizer}]
    plain: list[dict[str, Any]] = [{"mask": whole, "normalizer": normalizer}]
    if normalizer == "softmax":
        given.append({"bias": mask.float()})
        plain.append({"bias": whole.float()})
    with torch.set_grad_enabled(backend != "few"):
        for some, all_of_it in zip(given, plain):
            asked = {**some, "backend": "auto" if backend == "few" else backend}
            if backend != "auto":
                assert explain_backend(query, key, value, **asked).name == backend
            expected = attend(query, key, value, **all_of_it, backend="reference")
            torch.testing.assert_close(attend(query, key, value, **asked), expected)


# The additive seam ----------------------------------------------------------------------------------------------------


@given(shapes, dtypes, st.booleans(), st.booleans(), st.data())
def test_additive_is_the_reference(
    shape: dict[str, int], dtype: torch.dtype, causal: bool, crooked: bool, data: st.DataObject
) -> None:
    inputs = tensors(shape, "additive", dtype, data.draw(st.integers(0, 99)), crooked)
    choices = {"score": "additive", "mask": data.draw(masks(shape)), "causal": causal}
    same(results(inputs, backend="additive", **choices), results(inputs, backend="reference", **choices), dtype)


def test_the_additive_kernel_gets_every_head_and_one_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def kernel(query: Tensor, key: Tensor, value: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        asked.append((query.shape, key.shape, value.shape, v.shape, mask))
        return attend(query, key, value, score="additive", weight=v, mask=mask, backend="reference")

    monkeypatch.setattr(backends, "additive_attention", kernel)
    shape = {"batch": 2, "groups": 2, "share": 2, "queries": 3, "keys": 5, "dim": 4, "value_dim": 6}
    inputs = tensors(shape, "additive", torch.float64, 0, False)
    choices = {"score": "additive", "causal": True, "mask": Padding(torch.tensor([2, 5]))}
    same(results(inputs, backend="additive", **choices), results(inputs, backend="reference", **choices), torch.float64)
    ((query, key, value, v, mask),) = asked
    assert (query, key, value, v) == ((2, 4, 3, 4), (2, 4, 5, 4), (2, 4, 5, 6), (4, 4))
    assert mask is not None
    assert mask.expand(2, 1, 3, 5)[0, 0].int().tolist() == [[1, 1, 0, 0, 0]] * 3


def test_every_backend_is_tested_here() -> None:
    assert set(BACKENDS) == {"auto", "reference", "sdpa", "flex", "linear", "additive"}
    assert set(backends.FAST) == {"sdpa", "few", "flex", "linear", "additive"}
