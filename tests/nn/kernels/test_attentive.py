"""Recurrences that look at every step: the hand-written way back against PyTorch's own, values and every gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from anaphora.nn.kernels import attentive_steps
from anaphora.nn.kernels.triton_support import INTERPRETING, TRITON
from recurrent_twins import CASES, compare, learned, name, twins


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_hand_written_way_back_is_pytorchs(case: dict[str, Any]) -> None:
    plain, fast = twins(case, torch.float64)
    compare(learned(plain), learned(fast), 1e-12)


def test_of_one_step_and_of_one_row() -> None:
    for case in CASES[:1] + CASES[4:5]:
        for rows, steps in ((1, 1), (1, 4), (3, 1)):
            plain, fast = twins(case, torch.float64)
            compare(learned(plain, rows, steps), learned(fast, rows, steps), 1e-12)


def test_what_is_too_large_to_be_kept_is_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attentive_steps, "MAX_KEPT_NUMBERS", 0)
    for case in (CASES[0], CASES[5]):
        plain, fast = twins(case, torch.float64)
        compare(learned(plain), learned(fast), 1e-12)


def test_dropout_between_layers_is_that_of_the_way_back() -> None:
    """With the same draws, the gradient is that of finite differences."""
    _, model = twins({"kind": "luong", "layers": 2, "cell": "lstm"}, torch.float64, dropout=0.5)

    def total() -> torch.Tensor:
        torch.manual_seed(5)
        source = torch.arange(4, 10)[None]
        return model.train()(source, torch.tensor([[1, 7, 9, 4]])).square().sum()

    total().backward()
    weight = model.decoder.cells.cells[1].weight_ih_l0
    gradient = weight.grad.clone()
    for place in ((0, 0), (9, 3), (30, 7)):
        with torch.no_grad():
            weight[place] += 1e-6
            above = total()
            weight[place] -= 2e-6
            below = total()
            weight[place] += 1e-6
        assert float((above - below) / 2e-6) == pytest.approx(float(gradient[place]), rel=1e-5, abs=1e-7)


def test_a_second_way_back_is_refused() -> None:
    for case in (CASES[0], CASES[4]):
        _, model = twins(case, torch.float64)
        loss = model(torch.tensor([[4, 5]]), torch.tensor([[1, 4]])).sum()
        loss.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="can be differentiated once"):
            loss.backward()


@pytest.mark.skipif(not TRITON, reason="needs triton")
@pytest.mark.skipif(INTERPRETING, reason="the interpreter compiles nothing")
@pytest.mark.parametrize("name", ["look", "look_back", "gru", "gru_back", "lstm", "lstm_back"])
def test_the_triton_kernels_compile_for_a_gpu(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For Hopper (sm_90), without having one: what the interpreter forgives, a compiler may not."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from anaphora.nn.kernels import attentive_triton as kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = getattr(kernels, f"_{name}_kernel")
    tiles = {"ADDITIVE": True, "ALL": 32, "FEATURES": 128, "CARRIED": True, "LINE": kernels.LINE}
    numbers = {"m", "d", "e", "size", "query_row", "key_row", "key_step", "value_row", "value_step", "grad_row"}
    numbers |= {"below_row", "state_row", "past_row"}
    full = {"weights", "opened", "key_grad", "v_grad", "owed"}
    if name.startswith("lstm"):
        full |= {"before", "after"}
    signature = {}
    for argument in kernel.arg_names:
        if argument in tiles:
            signature[argument] = "constexpr"
        elif argument in numbers:
            signature[argument] = "i32"
        elif argument == "scale":
            signature[argument] = "fp32"
        else:
            signature[argument] = "*i1" if argument == "mask" else "*fp32" if argument in full else "*bf16"
    known = {argument: value for argument, value in tiles.items() if argument in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=known)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert "ptx" in made.asm
