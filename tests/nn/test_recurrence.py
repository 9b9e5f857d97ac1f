"""Recurrent layers: dropped weights through fused kernels, widths, beginnings. (That steps are the whole:
test_encoder_steps.py.)"""

from __future__ import annotations

import warnings
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from anaphora.nn.recurrence import Cell, RecurrentEncoder

CELLS: list[Cell] = ["rnn", "rnn-relu", "gru", "lstm"]


def cell_by_hand(kind: Cell, x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """One step of one row, by the formulas in torch's manual."""
    w, u, b, d = weights
    if kind in ("rnn", "rnn-relu"):
        return (torch.tanh if kind == "rnn" else torch.relu)(w @ x + b + u @ h + d), c
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = (w @ x + b).chunk(3), (u @ h + d).chunk(3)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        return (1 - z) * torch.tanh(xn + r * hn) + z * h, c
    i, f, g, o = (w @ x + b + u @ h + d).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@pytest.mark.parametrize("kind", CELLS)
def test_weight_dropout_drops_numbers_of_the_recurrent_matrix_alone(kind: Cell) -> None:
    """Values and gradients are those of a cell by hand whose U has zeros: the same zeros at every place and in every
    row."""
    torch.manual_seed(1)
    encoder = RecurrentEncoder(5, cell=kind, weight_dropout=0.4).double().train()
    x = torch.randn(2, 6, 5).double()
    torch.manual_seed(7)
    out = encoder(x)
    (gradient,) = torch.autograd.grad(out.sin().sum(), encoder.cell.weight_hh_l0)  # type: ignore[arg-type]
    torch.manual_seed(7)
    own = [w.detach().clone().requires_grad_() for w in encoder.cell._flat_weights]
    kept = nn.functional.dropout(torch.ones_like(own[1]), 0.4)
    assert 0.2 < (kept == 0).double().mean() < 0.6
    weights = [own[0], own[1] * kept, *own[2:]]
    rows = []
    for row in x:
        h = c = torch.zeros(5).double()
        said = []
        for vector in row:
            h, c = cell_by_hand(kind, vector, h, c, weights)
            said.append(h)
        rows.append(torch.stack(said))
    torch.testing.assert_close(out, torch.stack(rows))
    (expected,) = torch.autograd.grad(torch.stack(rows).sin().sum(), own[1])
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(encoder.eval()(x), RecurrentEncoder._through(encoder, x)[0])
    assert not torch.allclose(encoder(x), out)  # whole again outside training


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_both_ways_with_packing_is_torchs_own(kind: Cell, share: float) -> None:
    """Layers one by one, with whatever weights, are torch's stacked ones."""
    torch.manual_seed(0)
    encoder = RecurrentEncoder(6, cell=kind, layers=2, causal=False, weight_dropout=share).train()
    kinds = {"rnn": nn.RNN, "rnn-relu": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
    more = {"nonlinearity": "relu"} if kind == "rnn-relu" else {}
    theirs = kinds[kind](6, 3, num_layers=2, batch_first=True, bidirectional=True, **more)
    x, lengths = torch.randn(3, 7, 6), torch.tensor([4, 7, 1])
    torch.manual_seed(5)
    out = encoder(x, lengths)
    torch.manual_seed(5)
    with torch.no_grad():
        for layer, cell in enumerate(encoder.cells):
            for name, weight in zip(cell._flat_weights_names, encoder._weights(cell, torch.float32)):  # type: ignore[arg-type]
                getattr(theirs, name.replace("_l0", f"_l{layer}")).copy_(weight)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected = pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(out[row, :length], expected[row, :length])


def test_locked_dropout_between_layers_of_packed_rows_too() -> None:
    """Two directions: rows are packed, and still each has one mask at all of its places."""
    torch.manual_seed(0)
    encoder = RecurrentEncoder(4, layers=2, causal=False, dropout=0.5, locked=True).train()
    x = torch.ones(2, 5, 4)
    packed = pack_padded_sequence(x, torch.tensor([3, 5]), batch_first=True, enforce_sorted=False)
    dropped = packed._replace(data=encoder._dropped(packed.data, packed))
    rows, lengths = pad_packed_sequence(dropped, batch_first=True)
    for row, length in zip(rows, lengths.tolist()):
        assert (row[:length] == row[0]).all()
    assert {0.0, 2.0} == set(rows[rows != 0].tolist()) | {0.0}


def test_widths() -> None:
    encoder = RecurrentEncoder(4, cell="lstm", layers=3, hidden=7)
    assert [(c.input_size, c.hidden_size) for c in encoder.cells] == [(4, 7), (7, 7), (7, 4)]
    both = RecurrentEncoder(4, cell="gru", layers=2, hidden=6, causal=False)
    assert [(c.input_size, c.hidden_size) for c in both.cells] == [(4, 3), (6, 2)]
    every: list[Tensor] = []
    out = both(torch.randn(2, 3, 4), torch.tensor([3, 1]), every=every)
    assert [vectors.shape for vectors in every] == [(2, 3, 6), (2, 3, 4)]
    assert torch.equal(every[-1], out)
    with pytest.raises(ValueError, match="each must be an even number"):
        RecurrentEncoder(4, hidden=5, layers=2, causal=False)


@pytest.mark.parametrize("kind", CELLS)
def test_an_orthogonal_beginning(kind: Cell) -> None:
    encoder = RecurrentEncoder(6, cell=kind, layers=2, initial="orthogonal")
    for cell in encoder.cells:
        for gate in cell.weight_hh_l0.detach().split(6):
            torch.testing.assert_close(gate @ gate.T, torch.eye(6), atol=1e-5, rtol=0)


def test_a_longer_memory_from_an_orthogonal_beginning() -> None:
    """How much of the first word is left in the state fifty words later."""
    left = []
    for initial in ("uniform", "orthogonal"):
        torch.manual_seed(0)
        encoder = RecurrentEncoder(32, initial=initial)  # type: ignore[arg-type]
        x = torch.zeros(1, 50, 32, requires_grad=True)
        (gradient,) = torch.autograd.grad(encoder(x)[0, -1].sum(), x)
        left.append(gradient[0, 0].norm().item())
    assert left[1] > 100 * left[0]


def test_nothing_is_said_of_weights_in_pieces() -> None:
    encoder = RecurrentEncoder(4, cell="lstm", layers=2, weight_dropout=0.5).train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder(torch.randn(2, 3, 4)).sum().backward()
    flat = encoder._weights(encoder.cell, torch.float32)
    assert len({w.untyped_storage().data_ptr() for w in flat}) == 1
    places = [w.storage_offset() for w in flat]
    assert places == sorted(places)
    assert places[-1] + flat[-1].numel() == flat[0].untyped_storage().nbytes() // 4


@pytest.mark.parametrize("kind", CELLS)
def test_on_a_cpu_kernels_stay_in_float32_under_autocast(kind: Cell) -> None:
    """Values, states and gradients: gradients fade from place to place, and must not become zero on their way."""
    torch.manual_seed(3)
    encoder = RecurrentEncoder(8, cell=kind, layers=2, weight_dropout=0.3).train()
    x = torch.randn(2, 12, 8, requires_grad=True)
    found = []
    for autocast in (False, True):
        torch.manual_seed(7)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y, past = encoder.read(x, encoder.start(2, 0, x))
            z = encoder.eval().step(x[:, 0], encoder.start(2, 0, x))
        encoder.train()
        (gradient,) = torch.autograd.grad((y[:, -1] * 1e-9).sum(), x)
        found.append((y, z, gradient, *(past[name] for name in sorted(past))))
    for plain, under in zip(*found):
        assert plain.dtype == under.dtype
        assert torch.equal(plain, under)
    assert (found[0][2] != 0).all()


def test_the_gate_of_the_memory_begins_where_it_is_told() -> None:
    """At 1 the memory keeps σ(1) = 73 % from word to word."""
    encoder = RecurrentEncoder(6, cell="lstm", layers=2, forget_bias=1.0)
    for cell in encoder.cells:
        width = cast(int, cell.hidden_size)
        both = cell.bias_ih_l0 + cell.bias_hh_l0  # type: ignore[operator]
        assert torch.equal(both[width : 2 * width], torch.ones(width))
        assert (both[:width] != 0).all()  # the other gates are as they were
    with pytest.raises(ValueError, match="a gru has no gate that forgets"):
        RecurrentEncoder(6, cell="gru", forget_bias=1.0)
