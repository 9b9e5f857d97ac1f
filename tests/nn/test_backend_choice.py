"""Which backend is taken for an attention, and why; what cannot be done is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anaphora.nn import attention_backends as backends
from anaphora.nn.attention import attend, explain_backend
from anaphora.nn.attention_backends import Choices, choose
from anaphora.nn.masks import Causal, Documents, Padding, TensorMask, Window
from anaphora.nn.positions import Alibi
from anaphora.nn.scores import SCORES

# Why this backend? ----------------------------------------------------------------------------------------------------


class OnGPU:
    """A tensor's shape, type and place, to ask what would be taken there."""

    def __init__(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> None:
        self.shape, self.is_cuda, self.device, self.dtype = torch.Size(shape), True, torch.device("cuda"), dtype


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        (Choices(), "sdpa"),
        (Choices(causal=True), "sdpa"),
        (Choices(mask=torch.ones(1, 1, 1, 512, dtype=torch.bool)), "sdpa"),
        (Choices(mask=Window(64) & Causal()), "flex"),
        (Choices(bias=Alibi(4), causal=True), "flex"),
        (Choices(mask=Window(64), dropout=0.1), "sdpa"),
        (Choices(normalizer="none"), "linear"),
        (Choices(normalizer="none", mask=Window(64)), "reference"),
    ],
)
def test_what_a_gpu_would_take(choices: Choices, name: str) -> None:
    long = OnGPU(2, 4, 512, 64)
    chosen = choose(long, long, long, choices)  # type: ignore[arg-type]
    assert chosen.name == name
    assert chosen.reason
    if name == "flex":
        short, wide = OnGPU(2, 4, 100, 64), OnGPU(2, 4, 512, 64, dtype=torch.float32)
        assert choose(short, short, short, choices).name == "sdpa"  # type: ignore[arg-type]
        assert "except in 16 bits" in choose(wide, wide, wide, choices).reason  # type: ignore[arg-type]
        assert choose(wide, wide, wide, choices, "flex").name == "flex"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("queries", "keys", "dtype", "choices", "preferred"),
    [
        (50, 50, torch.bfloat16, Choices(), True),
        (50, 50, torch.float16, Choices(causal=True), True),
        (1, 50, torch.bfloat16, Choices(), True),
        (64, 64, torch.bfloat16, Choices(score=SCORES["dot"]), True),
        (50, 50, torch.float32, Choices(), False),
        (65, 50, torch.bfloat16, Choices(), False),
        (50, 65, torch.bfloat16, Choices(), False),
        (7, 50, torch.bfloat16, Choices(causal=True), False),
        (50, 50, torch.bfloat16, Choices(mask=Padding(torch.tensor([3, 4]))), False),
        (50, 50, torch.bfloat16, Choices(bias=Alibi(4)), False),
    ],
)
def test_short_halves_prefer_the_memory_efficient_kernel(
    queries: int, keys: int, dtype: torch.dtype, choices: Choices, preferred: bool
) -> None:
    query, key = OnGPU(2, 4, queries, 64, dtype=dtype), OnGPU(2, 4, keys, 64, dtype=dtype)
    chosen = choose(query, key, key, choices)  # type: ignore[arg-type]
    assert chosen.name == "sdpa"
    assert ("memory-efficient" in chosen.reason) == preferred


def test_a_kernel_that_cannot_leaves_it_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a CPU, where it never can: asked for, it is not taken."""
    query = torch.randn(1, 2, 5, 8, requires_grad=True)
    monkeypatch.setattr(backends, "is_short", lambda *asked: True)
    assert not backends._efficient_can(query, query, query, 0.0, False)
    expected = attend(query, query, query, backend="reference")
    torch.testing.assert_close(attend(query, query, query, backend="sdpa"), expected)


def test_one_query_on_a_gpu_is_told_why() -> None:
    keys = OnGPU(2, 4, 50, 64, dtype=torch.float32)
    asked = [(1, torch.float32), (2, torch.float32), (1, torch.bfloat16)]
    one, two, half = (OnGPU(2, 4, queries, 64, dtype=dtype) for queries, dtype in asked)
    chosen = choose(one, keys, keys, Choices(mask=Padding(torch.tensor([3, 4]))))  # type: ignore[arg-type]
    assert chosen.name == "few"
    assert "one query" in chosen.reason
    assert choose(two, keys, keys, Choices()).name == choose(half, keys, keys, Choices()).name == "sdpa"  # type: ignore[arg-type]
    with torch.no_grad():
        assert choose(one, keys, keys, Choices()).name == "few"  # type: ignore[arg-type]
        keys = OnGPU(2, 4, 50, 64, dtype=torch.bfloat16)
        assert "memory-efficient" not in choose(half, keys, keys, Choices()).reason  # type: ignore[arg-type]
    assert "memory-efficient" in choose(half, keys, keys, Choices()).reason  # type: ignore[arg-type]
    wide = OnGPU(2, 4, 50, 128, dtype=torch.bfloat16)
    assert "memory-efficient" not in choose(wide, wide, wide, Choices()).reason  # type: ignore[arg-type]


def test_a_cpu_is_told_why() -> None:
    long, short = torch.randn(1, 1, 40, 4), torch.randn(1, 1, 3, 4)
    assert explain_backend(long, long, long).name == "sdpa"
    assert explain_backend(long, long, long, backend="reference") == ("reference", "it was asked for")
    with torch.no_grad():
        assert "queries on a CPU" in explain_backend(short, long, long).reason
    assert explain_backend(long, long, long, normalizer="none").name == "linear"
    assert explain_backend(short, short, short, normalizer="none").name == "reference"
    chosen = explain_backend(long, long, long, score="additive", weight=torch.ones(4))
    assert chosen.name == "reference"
    assert "(B, H, T, S, D)" in chosen.reason
    wide = torch.randn(1, 8, 100, 64)
    assert explain_backend(wide, wide, wide, score="additive", weight=torch.ones(64)).name == "additive"


# Refused by name ------------------------------------------------------------------------------------------------------

Q, K = torch.zeros(2, 4, 3, 6), torch.zeros(2, 2, 5, 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": Q[0]}, r"query must be \(B, H, length, size\); it has shape \(4, 3, 6\)"),
        ({"key": K[:1], "value": K[:1]}, "one batch size; they have 2 and 1"),
        (
            {"key": K.expand(2, 2, 5, 6)[:, [0, 1, 1]], "value": K[:, [0, 1, 1]]},
            "4 query heads cannot share 3 key heads",
        ),
        (
            {"value": K[:, :, :4]},
            r"each key needs its value: value must be \(2, 2, 5\) and a size; it has \(2, 2, 4, 6\)",
        ),
        ({"score": "dots"}, "no score is called 'dots'; did you mean 'dot'"),
        ({"score": "additive"}, r"additive needs v as weight, of shape \(6,\) or \(4, 6\); none was given"),
        (
            {"score": "bilinear", "weight": Q[0, 0]},
            r"bilinear needs W as weight, of shape \(6, 6\) or \(4, 6, 6\); it has",
        ),
        ({"key": K[..., :4], "value": K}, "scaled-dot needs queries and keys of one size; they have 6 and 4 .bilinear"),
        ({"weight": torch.ones(6)}, "scaled-dot has no weight"),
        ({"normalizer": "sum"}, "no normalizer is called 'sum'; known: none, softmax"),
        ({"normalizer": "none", "bias": Alibi(4)}, "shifts a softmax"),
        ({"bias": Alibi(2)}, "a bias for 2 heads does not fit 4"),
        ({"bias": torch.ones(3, 4)}, r"a bias of shape \(3, 4\) does not broadcast to \(B, H, T, S\) = \(2, 4, 3, 5\)"),
        (
            {"mask": torch.ones(3, 4, dtype=torch.bool)},
            r"a mask of shape \(3, 4\) does not broadcast to .* \(2, 4, 3, 5\)",
        ),
        ({"mask": torch.ones(3, 5)}, "a mask is boolean.*float32"),
        (
            {"mask": Padding(torch.tensor([1, 2, 3]))},
            r"padding needs lengths \(2,\), one a row; they have shape \(3,\)",
        ),
        ({"mask": Documents(torch.zeros(2, 3))}, r"documents of keys must be \(2, 5\); they have shape \(2, 3\)"),
        ({"mask": Causal() & TensorMask(torch.ones(1, 9, 1, 1, dtype=torch.bool))}, r"a mask of shape \(1, 9, 1, 1\)"),
        ({"backend": "flash"}, "no attention backend is called 'flash'"),
        ({"backend": "few"}, "'few' is for the few queries of a step alone; leave it to 'auto'"),
        ({"backend": "linear"}, "'linear' cannot do this: softmax ties every weight"),
        ({"backend": "linear", "normalizer": "none", "mask": Window(2)}, "padding and causal masks only"),
        ({"backend": "linear", "normalizer": "none", "dropout": 0.1}, "dropout needs the weights"),
        ({"backend": "sdpa", "normalizer": "none"}, "always applies softmax"),
        ({"backend": "sdpa", "score": "additive", "weight": torch.ones(6)}, "additive scores are no dot product"),
        ({"backend": "flex", "dropout": 0.1}, "no dropout on weights"),
        ({"backend": "additive"}, "it computes additive scores only"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    arguments = {"query": Q, "key": K, "value": K, **change}
    for ask in (attend, explain_backend):
        with pytest.raises(ValueError, match=message) as caught:
            ask(**arguments)
        assert "\n" not in str(caught.value)
