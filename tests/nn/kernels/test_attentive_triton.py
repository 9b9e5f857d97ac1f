"""The Triton kernels of a decoder's step against the plain loop.

Under the interpreter on a CPU (`TRITON_INTERPRET=1 pytest …`; test_attentive.py runs this file so), or on a GPU
(`pytest -m gpu …`)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anaphora.nn.kernels import additive as module
from anaphora.nn.kernels import attentive
from recurrent_twins import CASES, WORDS, compare, learned, name, twins

interpreted = pytest.mark.skipif(
    not module.INTERPRETING or not module.TRITON, reason="needs triton and TRITON_INTERPRET=1"
)
FEW = [CASES[0], CASES[1], CASES[2], CASES[4], CASES[6], CASES[8]]


@interpreted
@pytest.mark.parametrize("case", FEW, ids=name)
def test_interpreted(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    chosen = attentive._steps
    monkeypatch.setattr(attentive, "_steps", lambda *given: used.append(chosen(*given)) or used[-1])
    plain, fast = twins(case, torch.float32)
    compare(learned(plain.double(), 3, 3), learned(fast, 3, 3), 2e-5)
    assert [one.__name__.split("_")[-1] for one in used] == ["triton"]


@interpreted
@pytest.mark.parametrize("case", [CASES[1], CASES[4]], ids=name)
def test_rows_that_are_wider_than_a_program(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 24 numbers, 16 at a time: as 1,000 are by 256."""
    from anaphora.nn.kernels import attentive_triton

    monkeypatch.setattr(attentive_triton, "TILE", 16 * 16)
    monkeypatch.setattr(attentive_triton, "LINE", 16)
    plain, fast = twins(case, torch.float32, dim=24, encoder_dim=20, attention_dim=18)
    compare(learned(plain.double(), 3, 2), learned(fast, 3, 2), 2e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CASES, ids=name)
def test_on_a_gpu(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    monkeypatch.setattr(
        torch.backends.cudnn, "allow_tf32", False
    )  # recurrent layers have a flag of their own, and it is on
    plain, fast = twins(case, torch.float32, "cuda")
    compare(learned(plain), learned(fast), 5e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", [*CASES, {"kind": "seq2seq", "cell": "lstm", "layers": 2}], ids=name)
def test_read_at_once_and_word_by_word_on_a_gpu(case: dict[str, Any]) -> None:
    """cuDNN is choosier than the CPU's kernels: about states that are slices, and about gradients in evaluation."""
    model = twins(case, torch.float32, "cuda")[1].eval()
    source, lengths = torch.randint(4, WORDS, (5, 7), device="cuda"), torch.tensor([7, 3, 5, 1, 6], device="cuda")
    target = torch.randint(1, WORDS, (5, 6), device="cuda")
    model(source, target, lengths).sum().backward()
    with torch.no_grad():
        whole = model(source, target, lengths).log_softmax(-1)
        state, singly = model.start(source, lengths, beam=1, max_length=8), []
        for place in range(target.shape[1]):
            scores, state, _ = model.step(target[:, place], state)
            singly.append(scores)
    torch.testing.assert_close(torch.stack(singly, dim=1), whole, atol=5e-3, rtol=1e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=name)
def test_in_bfloat16_on_a_gpu(case: dict[str, Any]) -> None:
    wide = {"dim": 64, "embedding": 64, "encoder_dim": 64}
    plain, fast = twins(case, torch.float32, "cuda", spread=0.15, **wide)  # at 0.4 a rounding grows from step to step
    exact = learned(plain)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        compare(exact, learned(fast), 0.1)
