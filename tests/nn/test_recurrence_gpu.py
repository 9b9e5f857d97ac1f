"""Recurrent layers on a GPU: cuDNN is handed dropped weights, in one piece, and says what a CPU says."""

from __future__ import annotations

import warnings

import pytest
import torch

from anaphora.nn.recurrence import Cell, RecurrentEncoder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("causal", [True, False])
def test_as_on_a_cpu(kind: Cell, causal: bool) -> None:
    torch.manual_seed(0)
    encoder = RecurrentEncoder(16, cell=kind, layers=2, causal=causal)
    x, lengths = torch.randn(3, 9, 16), torch.tensor([9, 4, 1])
    expected = encoder(x, lengths)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        found = encoder.cuda()(x.cuda(), lengths.cuda()).cpu()
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[row, :length], expected[row, :length], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("autocast", [False, True])
def test_dropped_weights_lie_in_one_piece(kind: Cell, autocast: bool) -> None:
    """cuDNN copies weights that do not, at every call, and warns of it."""
    encoder = RecurrentEncoder(16, cell=kind, layers=3, hidden=24, weight_dropout=0.5).cuda().train()
    past = encoder.start(4, 0, encoder.cell.weight_ih_l0)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                y, past = encoder.read(torch.randn(4, 9, 16, device="cuda"), past)
            y.float().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.parameters())
    assert all(tensor.dtype == torch.float32 for name, tensor in past.items() if name != "position")


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_gradients_fade_and_stay(kind: Cell) -> None:
    """In float16 a gradient of this size, a mean over many words, would be zero."""
    torch.manual_seed(3)
    encoder = RecurrentEncoder(64, cell=kind).cuda().train()
    x = torch.randn(4, 32, 64, device="cuda", requires_grad=True)
    found = []
    for autocast in (False, True):
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            y = encoder(x)
        assert y.dtype == (torch.bfloat16 if autocast else torch.float32)
        found.append(torch.autograd.grad((y[:, -1] * 1e-9).float().sum(), x)[0])
    exact, cast = found
    assert (cast[:, -1] != 0).all()
    assert (cast - exact).norm() < 0.05 * exact.norm()
