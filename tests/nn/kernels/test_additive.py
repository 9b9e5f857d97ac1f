"""Additive attention in blocks is the plain one: values and gradients. (test_additive_triton.py has the GPU's form.)"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.nn.kernels import additive as module
from anaphora.nn.kernels.additive import additive_attention, additive_backend
from plain_additive import plain_additive

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
"""Of the largest number of the reference, computed in float64 from the same rounded inputs."""


def inputs(
    lead: tuple[int, ...], n: int, m: int, d: int, e: int, *, size: float = 1.0, per_head: bool = False, seed: int = 0
) -> list[Tensor]:
    """query, key, value, v."""
    make = torch.Generator().manual_seed(seed)
    shapes = [(*lead, n, d), (*lead, m, d), (*lead, m, e), (lead[-1], d) if per_head else (d,)]
    return [torch.randn(shape, generator=make, dtype=torch.float64) * size for shape in shapes]


def run(function, tensors: list[Tensor], pull: Tensor, **options) -> list[Tensor]:
    """Context, and the gradients of query, key, value and v when `pull` is that of the context."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    context = function(*leaves, **options)
    context.backward(pull.to(context))
    return [context.detach(), *(leaf.grad for leaf in leaves)]


def compare(tensors: list[Tensor], dtype: torch.dtype, mask: Tensor | None, **options) -> None:
    given = [x.to(dtype) for x in tensors]
    pull = torch.randn(*given[0].shape[:-1], given[2].shape[-1], generator=torch.Generator().manual_seed(7)).to(dtype)
    expected = run(plain_additive, [x.double() for x in given], pull.double(), mask=mask)
    for name, got, want in zip(
        ("context", "query", "key", "value", "v"), run(additive_attention, given, pull, mask=mask, **options), expected
    ):
        assert got.dtype == dtype, name
        assert not got.isnan().any(), name
        torch.testing.assert_close(
            got.double(),
            want,
            rtol=0,
            atol=TOLERANCE[dtype] * max(1.0, want.abs().max().item()),
            msg=lambda text, name=name: f"{name}: {text}",
        )


MASKS = st.sampled_from([None, "padding", "causal", "random", "nothing"])


def make_mask(kind: str | None, lead: tuple[int, ...], n: int, m: int, seed: int) -> Tensor | None:
    make = torch.Generator().manual_seed(seed)
    if kind is None:
        return None
    if kind == "padding":  # broadcast over heads and queries; a sentence of length 0 is a row of zeros
        lengths = torch.randint(0, m + 1, (lead[0],), generator=make)
        return (torch.arange(m) < lengths[:, None]).view(lead[0], *[1] * len(lead), m)
    if kind == "causal":
        return torch.ones(n, m, dtype=torch.bool).tril(m - n)  # with n > m the first queries see nothing
    allowed = torch.rand(*lead, n, m, generator=make) < 0.5
    return allowed if kind == "random" else torch.zeros_like(allowed)


@settings(max_examples=60)
@given(
    lead=st.sampled_from([(1,), (3,), (2, 2), (1, 3), (2, 1, 2)]),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 13), st.integers(1, 6)),
    mask=MASKS,
    dtype=st.sampled_from(list(TOLERANCE)),
    per_head=st.booleans(),
    block=st.sampled_from([1, 50, 400, 1 << 22]),
    size=st.sampled_from([0.1, 1.0, 60.0]),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_those_of_the_reference(
    lead: tuple[int, ...],
    sizes: tuple[int, int, int, int],
    mask: str | None,
    dtype: torch.dtype,
    per_head: bool,
    block: int,
    size: float,
    seed: int,
) -> None:
    tensors = inputs(lead, *sizes, per_head=per_head and len(lead) > 1, seed=seed)
    tensors = [tensors[0] * size, tensors[1] * size, *tensors[2:]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_ON_CPU", block)
        compare(tensors, dtype, make_mask(mask, lead, sizes[0], sizes[1], seed), backend="eager")


def test_strided_views() -> None:
    both = torch.randn(2, 7, 3, 10, dtype=torch.float64)  # (B, m, H, 2 d): heads in the middle, as projections leave it
    key, value = both.transpose(1, 2).chunk(2, dim=-1)
    query = torch.randn(2, 5, 3, 4, dtype=torch.float64).transpose(1, 2)[..., :4]
    query = torch.cat([query, query], dim=-1)[..., 1:6]
    v = torch.randn(3, 5, dtype=torch.float64)
    assert not key.is_contiguous()
    compare([query, key, value, v], torch.float64, None)


def test_gradients_are_those_of_finite_differences() -> None:
    tensors = [x.requires_grad_() for x in inputs((2,), 3, 4, 5, 2)]
    mask = make_mask("random", (2,), 3, 4, 3)
    assert torch.autograd.gradcheck(lambda *x: additive_attention(*x, mask=mask), tensors)


def test_a_query_that_may_look_at_nothing_gets_zeros_and_gives_none() -> None:
    query, key, value, v = (x.float().requires_grad_() for x in inputs((2,), 3, 4, 5, 2))
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[0, 1] = False
    context = additive_attention(query, key, value, v, mask=mask)
    context.sum().backward()
    assert context[0, 1].tolist() == [0, 0]
    assert query.grad is not None
    assert query.grad[0, 1].tolist() == [0] * 5
    assert all(not x.grad.isnan().any() for x in (query, key, value, v))  # type: ignore[union-attr]


def test_memory_stays_within_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor as large as (B, n, m, d) is ever made, forward or backward."""
    seen: list[int] = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            seen.extend(x.numel() for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, Tensor))
            return result

    monkeypatch.setattr(module, "BLOCK_ON_CPU", 5000)
    tensors = [x.float() for x in inputs((4,), 20, 30, 32, 8)]
    with Sizes():
        run(additive_attention, tensors, torch.ones(4, 20, 8))
    assert max(seen) <= 5000 < 4 * 20 * 30 * 32


def test_only_what_is_asked_for_is_differentiated() -> None:
    query, key, value, v = (x.float() for x in inputs((2,), 3, 4, 5, 2))
    value.requires_grad_()
    additive_attention(query, key, value, v).sum().backward()
    torch.testing.assert_close(value.grad.sum(), torch.tensor(12.0))  # type: ignore[union-attr]
    with torch.inference_mode():
        context = additive_attention(query, key, value, v)
    torch.testing.assert_close(context, plain_additive(query, key, value, v).detach())


def test_no_keys_is_nothing_to_look_at() -> None:
    query, key, value, v = inputs((2,), 3, 0, 5, 2)
    assert additive_attention(query, key, value, v).tolist() == torch.zeros(2, 3, 2).tolist()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": (2, 4, 6)}, "one last dimension"),
        ({"v": (4,)}, "one last dimension"),
        ({"value": (2, 3, 2)}, "agree in batch and heads"),
        ({"key": (3, 4, 5)}, "agree in batch and heads"),
        ({"query": (3, 5)}, "expected"),
        ({"v": (2, 5)}, r"\(H, d\)"),
        ({"mask": (2, 4, 4)}, r"does not broadcast to \(..., n, m\) = \(2, 3, 4\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(changes: dict[str, tuple[int, ...]], words: str) -> None:
    shapes = {"query": (2, 3, 5), "key": (2, 4, 5), "value": (2, 4, 2), "v": (5,), "mask": (2, 3, 4)} | changes
    given = {name: torch.ones(shape, dtype=torch.bool if name == "mask" else None) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=words):
        additive_attention(**given)


def test_a_mask_of_numbers_is_refused() -> None:
    query, key, value, v = inputs((1,), 1, 2, 3, 1)
    with pytest.raises(ValueError, match="boolean"):
        additive_attention(query, key, value, v, mask=torch.zeros(1, 2))


@pytest.mark.skipif(module.INTERPRETING, reason="the interpreter takes CPU tensors")
def test_the_choice_can_be_asked_and_what_cannot_be_is_refused() -> None:
    tensors = inputs((1,), 1, 2, 3, 1)
    name, why = additive_backend(*tensors)
    assert name == "eager"
    assert "not installed" in why or "cpu" in why
    with pytest.raises(ValueError, match="cannot run on Triton here"):
        additive_attention(*tensors, backend="triton")


def test_v_and_queries_of_different_types() -> None:
    """As under autocast: projections in bfloat16, the parameter v in float32."""
    query, key, value, v = (x.to(torch.bfloat16).requires_grad_() for x in inputs((2,), 3, 4, 5, 2))
    wide = v.detach().float().requires_grad_()
    additive_attention(query, key, value, wide).sum().backward()
    additive_attention(query.detach(), key.detach(), value.detach(), v).sum().backward()
    assert wide.grad is not None and v.grad is not None
    assert wide.grad.dtype == torch.float32
    torch.testing.assert_close(wide.grad.to(torch.bfloat16), v.grad)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed (extra: dev)")
@pytest.mark.skipif(module.INTERPRETING, reason="the interpreter compiles nothing")
@pytest.mark.parametrize(
    "name",
    ["scores", "gradients", "step_scores", "step_context", "step_weights_gradients", "step_scores_gradients", "add_up"],
)
def test_the_triton_kernels_compile_for_a_gpu(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For Hopper (sm_90), without having one: what the interpreter forgives, a compiler may not."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from anaphora.nn.kernels import additive_triton as kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = getattr(kernels, f"_{name}_kernel")
    tiles = {
        "scores": {"HAS_MASK": True, "CLASS": 0, **kernels.SCORES[0].kwargs},
        "gradients": {"CLASS": 0, "KEYS": 16, **kernels.GRADIENTS[0].kwargs},
        "step_scores": {"CLASS": 0, "TILE": 512, "KEYS": 4, "FEATURES": 128},
        "step_context": {"HAS_MASK": True, "CLASS": 0, "ALL": 32, "TILE": 512, "KEYS": 16, "FEATURES": 32},
        "step_weights_gradients": {"CLASS": 0, "TILE": 512, "KEYS": 4, "FEATURES": 128},
        "step_scores_gradients": {"CLASS": 0, "ALL": 32, "TILE": 512, "KEYS": 16, "FEATURES": 32},
        "add_up": {"ROWS": 8, "WIDTH": 128},
    }
    wide = {"v", "scores", "moved", "query_parts", "v_parts", "weights", "parts"}
    narrow = {"query", "key", "value", "context", "grad", "query_grad", "key_grad", "value_grad", "total"}
    types = dict.fromkeys(kernel.arg_names, "i32") | dict.fromkeys(wide, "*fp32") | dict.fromkeys(narrow, "*bf16")
    types |= {"mask": "*i1"} | dict.fromkeys(tiles[name], "constexpr")
    known = {(kernel.arg_names.index(key),): value for key, value in tiles[name].items()}
    source = ASTSource(kernel, {key: types[key] for key in kernel.arg_names}, known)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    tanh = name in ("scores", "gradients", "step_scores", "step_scores_gradients")
    assert ("rcp.approx.ftz.f32" in compiled.asm["ptx"]) == tanh
    assert "atom" not in compiled.asm["ptx"]  # nothing is added in an order that may change


def test_a_step_of_decoding_needs_no_kernel_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Triton could be had: it is left out if nothing is learned and the plain way is small."""
    monkeypatch.setattr(module, "_hindrance", lambda *_: "")
    monkeypatch.setattr(module, "INTERPRETING", False)
    query, key, value, v = (torch.randn(*shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 6), (4,)))
    assert additive_backend(query, key, value, v)[0] == "triton"
    with torch.no_grad():
        assert additive_backend(query, key, value, v)[0] == "eager"
        monkeypatch.setattr(module, "BLOCK_ON_GPU", query.numel() * 5 - 1)
        assert additive_backend(query, key, value, v)[0] == "triton"
